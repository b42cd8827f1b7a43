import asyncio
import errno
import math
import os
import threading
from pathlib import Path

import pytest

from hostler.client.background import in_task, in_thread
from hostler.client.drive import Pause, Steps
from hostler.client.facade import Hostler
from hostler.client.lease import STALE_S, Leases
from hostler.client.room import mount_of
from hostler.client.saved import saved_leases
from hostler.domain.errors import (
    DaemonUnreachable,
    Ended,
    LeaseLost,
    LeaseNotFound,
    NotYours,
    StaleGeneration,
    StateUnusable,
    StepFailed,
    StoreFull,
    Stuck,
    WaitTimedOut,
)
from hostler.domain.lease import State
from hostler.wire.schedule import OneLease, StuckView
from tests.fakes.head import Head
from tests.interfaces.holders import Hand, ahostler, end, hostler


def test_an_offer_is_claimed_and_followed(head: Head, holder: Hostler) -> None:
    """LEASE-24, LEASE-26: a place that was kept detached is claimed when it is offered, and then active."""
    other = head.leases.taken("pair")
    saved = holder.leases.prepare("pair", detached_s=3600.0)
    assert holder.run(holder.leases.ask(saved)).lease.state == State.QUEUED
    head.end(other)
    assert holder.run(holder.leases.look(saved)).lease.state == State.OFFERED
    assert holder.run(holder.leases.renew(saved, claim=False)).lease.state == State.OFFERED
    head.leases.activates = False
    one = holder.run(holder.leases.claim(saved))

    def told(now: OneLease) -> None:
        if now.lease.state == State.ACTIVATING:
            head.leases.turn(now.lease.id, state=State.ACTIVE)

    assert holder.run(holder.leases.follow(saved, one, told=told)).lease.state == State.ACTIVE
    ((known, _),) = holder.run(holder.leases.mine())
    assert (known.epoch, known.generation) == (one.lease.epoch, one.lease.generation)


def test_a_place_that_is_followed_is_given_back(head: Head, holder: Hostler) -> None:
    """R95, LEASE-25: following a place gives it back when its time is up and when it is interrupted."""
    head.leases.taken("pair")
    for _ in range(2):
        saved = holder.leases.prepare("pair")
        one = holder.run(holder.leases.ask(saved))
        with pytest.raises(WaitTimedOut):
            holder.run(holder.leases.follow(saved, one, wait_s=0.0))

    def told(now: OneLease) -> None:
        raise KeyboardInterrupt(now.lease.id)

    saved = holder.leases.prepare("pair")
    one = holder.run(holder.leases.ask(saved))
    with pytest.raises(KeyboardInterrupt):
        holder.run(holder.leases.follow(saved, one, told=told))
    assert [it.holder for it in head.of(State.QUEUED, State.ACTIVE)] == ["bob"]
    assert len(head.of(State.CANCELLED)) == 3


def test_an_activation_that_is_undone_is_seen_to_its_end(head: Head, holder: Hostler) -> None:
    """LEASE-12: an activation that fails is waited for until everything was put back."""
    head.leases.activates = False
    states = iter([State.RELEASING, State.RELEASING])

    def told(now: OneLease) -> None:
        head.leases.turn(now.lease.id, state=next(states, State.CANCELLED), why="somebody called it off")

    saved = holder.leases.prepare("pair")
    with pytest.raises(LeaseLost, match="somebody called it off"):
        holder.run(holder.leases.take(saved, told=told), pause=lambda _: None)
    assert holder.leases.files.list() == []


def test_an_activation_that_gets_stuck_is_told(head: Head, holder: Hostler) -> None:
    """LEASE-14: a head that refuses to renew, the lease being stuck, is asked where it stands."""
    head.leases.activates = False
    at = StuckView(n=2, step="suspend large", wanted="stopped", seen="running")

    def told(now: OneLease) -> None:
        head.leases.turn(now.lease.id, state=State.STUCK, stuck=at)

    saved = holder.leases.prepare("pair")
    with pytest.raises(Stuck, match="suspend large"):
        holder.run(holder.leases.take(saved, told=told))
    assert holder.leases.files.get(saved.request_id) is not None


def test_a_wait_extends_by_what_was_asked_for(head: Head, holder: Hostler) -> None:
    """LEASE-17: a place that became active between two calls is extended by its own time, not the default."""
    head.leases.activates = False

    def told(now: OneLease) -> None:
        if now.lease.state == State.ACTIVATING:
            head.leases.turn(now.lease.id, state=State.ACTIVE)

    holder.run(holder.leases.take(holder.leases.prepare("pair", ttl_s=600.0), told=told))
    assert head.asked("POST", "/renew")[-1].body["ttl_s"] == 600


def test_a_plan_alone_leaves_nothing(head: Head, holder: Hostler) -> None:
    """LEASE-9: a dry run is asked for and forgotten."""
    saved = holder.leases.prepare("pair", dry_run=True)
    holder.run(holder.leases.ask(saved))
    assert head.heard[-1].body["dry_run"] is True
    assert holder.leases.files.list() == []


def test_a_process_is_registered(head: Head, holder: Hostler) -> None:
    """JOB-5: the process group that works under a lease is registered by pid and start time."""
    saved = holder.leases.prepare("pair")
    holder.run(holder.leases.ask(saved))
    holder.run(holder.leases.register(saved, 4711, 123456))
    (asked,) = head.asked("POST", "/processes")
    assert (asked.body["pid"], asked.body["start_ticks"]) == (4711, 123456)


def test_a_lost_answer_is_given_back_after_a_restart(head: Head, tmp_path: Path) -> None:
    """R23, R95: what was asked for by a process that died before its answer is found and given back."""
    with hostler(head, tmp_path) as first:
        saved = first.leases.prepare("pair")
        head.fail_next("lost")
        with pytest.raises(DaemonUnreachable):
            first.run(first.leases.ask(saved, patience_s=0.0))
    assert len(head.of(State.ACTIVE)) == 1
    with hostler(head, tmp_path) as second:
        assert second.leases.files.list() == [saved]
        assert second.run(second.leases.give_back(saved)) is not None
        assert second.leases.files.list() == []
        assert second.run(second.leases.give_back(saved)) is not None
    assert head.of(State.ACTIVE) == []


def test_what_has_ended_is_given_back_already(head: Head, holder: Hostler) -> None:
    """R38, R60: giving back what has ended changes nothing and leaves no file."""
    saved = holder.leases.prepare("pair")
    holder.run(holder.leases.ask(saved))
    head.leases.rows.clear()
    assert holder.run(holder.leases.give_back(saved)) is None
    assert holder.leases.files.list() == []
    refused = holder.leases.prepare("nope")
    assert holder.run(holder.leases.give_back(refused)) is None
    assert holder.leases.files.list() == []


def test_a_release_of_what_ended_is_its_end(head: Head, holder: Hostler) -> None:
    """R38, F04: a release that comes late for an ended lease tells how it ended; another's is refused."""
    saved = holder.leases.prepare("pair")
    one = holder.run(holder.leases.ask(saved))
    head.leases.turn(one.lease.id, generation=99, state=State.EXPIRED)
    assert holder.run(holder.leases.release(saved)).lease.state == State.EXPIRED
    other = holder.leases.prepare("box")
    two = holder.run(holder.leases.ask(other))
    head.leases.turn(two.lease.id, generation=99)
    with pytest.raises(StaleGeneration):
        holder.run(holder.leases.release(other))


def test_a_release_need_not_be_waited_for(head: Head, holder: Hostler) -> None:
    """LEASE-25: without waiting a release returns at once, whatever it comes to."""
    saved = holder.leases.prepare("pair")
    holder.run(holder.leases.ask(saved))
    head.leases.release_stuck = True
    assert holder.run(holder.leases.release(saved, wait=False)).lease.state == State.STUCK
    assert head.asked("POST", "/release")[-1].body["wait_s"] == 0


def test_requests_without_an_answer_are_forgotten_after_a_day(tmp_path: Path) -> None:
    """LEASE-9: a request whose answer never came is forgotten after a day."""
    hand = Hand()
    leases = Leases(files=saved_leases(tmp_path), url="http://crow.lan", machine=hand.machine())
    leases.prepare("pair")
    hand.at += STALE_S
    assert end(leases.mine(), None) == []
    assert len(leases.files.list()) == 1
    hand.at += 1
    end(leases.mine(), None)
    assert leases.files.list() == []


def test_a_lease_without_an_id_is_asked_nothing(head: Head, holder: Hostler) -> None:
    """LEASE-9: a request that has no lease yet is not spoken of to the head."""
    with pytest.raises(LeaseNotFound):
        holder.run(holder.leases.renew(holder.leases.prepare("pair")))
    assert head.heard == []


def test_a_full_disk_ends_no_lease(head: Head, holder: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    """F22, LEASE-22: a client that cannot write its file any more still holds and gives back its lease."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with holder.lease("pair") as lease:
        root = holder.leases.files.root
        for path in root.iterdir():
            path.unlink()
        root.rmdir()
        root.write_text("no directory")
        one = holder.run(holder.leases.renew(lease.saved))
        assert one.lease.state == State.ACTIVE
        root.unlink()
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", full)
            assert holder.run(holder.leases.renew(lease.saved)).lease.state == State.ACTIVE
    assert len(head.of(State.RELEASED)) == 1


def test_a_state_directory_that_cannot_be_used_is_named(head: Head, tmp_path: Path) -> None:
    """LEASE-9: where the request cannot be saved nothing is asked for, and the path is named."""
    (tmp_path / "client").write_text("no directory")
    with (
        hostler(head, tmp_path) as client,
        pytest.raises(StateUnusable, match="client"),
        client.lease("pair"),
    ):
        pass
    assert head.heard == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_as_one(
    head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """LEASE-9, REL-1: where there is no room for the request `store_full` names the file system, and
    no other directory is advised; nothing is asked for.
    """

    def full(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with hostler(head, tmp_path) as client, pytest.raises(StoreFull) as refused, client.lease("pair"):
        pass
    assert f"{os.strerror(code)}), the file system of {mount_of(tmp_path)}" in str(refused.value)
    assert "HOSTLER_STATE_DIR" not in refused.value.advice()
    assert head.heard == []


def test_a_stuck_activation_is_left_to_people(head: Head, holder: Hostler) -> None:
    """LEASE-14: an activation that got stuck is raised; the client does not try by itself to put it back."""
    head.leases.activates = False
    at = StuckView(n=2, step="suspend large", wanted="stopped", seen="running")

    def stick() -> None:
        head.until(lambda: bool(head.asked("POST", "/renew")), "it waits")
        head.leases.turn(head.of(State.ACTIVATING)[0].id, state=State.STUCK, stuck=at)

    sticking = threading.Thread(target=stick)
    sticking.start()
    with pytest.raises(Stuck), holder.lease("pair"):
        pass
    sticking.join()
    assert (len(head.of(State.STUCK)), head.asked("POST", "/cancel")) == (1, [])


def test_an_operator_ends_a_lease(head: Head, holder: Hostler) -> None:
    """LEASE-16, R45: a renewal after an operator's cancel is refused, and the block's end says so."""
    saved = holder.leases.prepare("pair")
    one = holder.run(holder.leases.ask(saved))
    head.end(one.lease.id, State.CANCELLED)
    with pytest.raises(Ended):
        holder.run(holder.leases.renew(saved))
    with pytest.raises(NotYours):
        holder.client.post(f"/v1/hostler/leases/{one.lease.id}/release", {"secret": "another's"})


class Buggy:
    """Upkeep with a bug in it."""

    def __init__(self) -> None:
        self.closing = False
        self.wakers = list[object]()

    def upkeep(self) -> Steps[None]:
        yield Pause(seconds=0.0)
        raise StepFailed(step="upkeep", why="a bug")


def test_a_bug_in_the_upkeep_is_not_lost(head: Head, holder: Hostler) -> None:
    """CLIENT-1: what breaks in the background thread is raised at the end of the block."""
    with pytest.raises(StepFailed), in_thread(holder.client, Buggy()):  # type: ignore[arg-type]  # wakers of its own
        pass


async def test_a_bug_in_the_upkeep_task_is_not_lost(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: what breaks in the background task is raised at the end of the block."""
    async with ahostler(head, tmp_path) as client:
        with pytest.raises(StepFailed):
            async with in_task(client.client, Buggy()):  # type: ignore[arg-type]  # wakers of its own
                await asyncio.sleep(0)


def test_a_wait_for_ever_is_a_wait(head: Head, holder: Hostler) -> None:
    """LEASE-25: `wait=math.inf` queues instead of being refused, and waits without a bound."""
    saved, wait_s = holder.parts.wanted("pair", {"wait": math.inf})
    assert (saved.body["now"], wait_s) == (False, None)
    saved, wait_s = holder.parts.wanted("pair", {})
    assert (saved.body["now"], wait_s) == (True, 0.0)
