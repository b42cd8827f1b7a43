"""What the state machine found, each by itself: the shortest way to it, as it must end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import Leased, ResourceNotFound
from hostler.domain.fleet import Fleet
from hostler.domain.job import JobId
from hostler.domain.lease import State
from hostler.domain.lease_due import anchored
from hostler.domain.moment import left
from hostler.domain.queue import order
from hostler.domain.resource import Action
from hostler.wire.jobs import JobBody
from hostler.wire.schedule import FenceBody
from tests.fakes.ids import CountingIds
from tests.fakes.leases import NOW, lease
from tests.fakes.machine_world import CROW, configs, hosts
from tests.fakes.mortal import Fuse, MortalNode, Trouble, nodes
from tests.fakes.node import FakeNode
from tests.fakes.schedule_world import AGENT, BY, OPERATOR, fleet, hash_of, head, resource


class Hosts:
    """Both hosts of the machine, and what is wrong on the way to them."""

    def __init__(self) -> None:
        self.trouble = Trouble()
        self.fakes = {host: FakeNode(host, world) for host, world in hosts().items()}
        self.nodes: dict[str, MortalNode] = nodes(self.fakes, Fuse(), self.trouble)


async def test_a_node_that_is_away_keeps_no_lease_of_another_from_its_steps() -> None:
    """NODE-3, LEASE-15: with one node away a lease of another is active, and the one away is told later."""
    it = Hosts()
    async with head(made=configs()["first"], nodes=it.nodes) as crow:
        it.trouble.away.add("crow")
        asked = await crow.reserve("raven-box")
        await crow.ticks(2)
        assert (await crow.look(asked)).state == State.ACTIVE
        assert {held.lease for held in it.fakes["raven"].held.values()} == {asked.id}
        it.trouble.away = {"raven"}
        await crow.release(asked)
        assert (await crow.look(asked)).state == State.STUCK
        it.trouble.away.clear()
        await crow.release(asked)
        await crow.ticks(6)
        assert (await crow.look(asked)).state == State.RELEASED
        assert it.fakes["raven"].held == {}


async def test_a_node_that_comes_back_is_told_though_nothing_else_changes() -> None:
    """LEASE-15, NODE-3: what is held there is told again until the node has heard it."""
    it = Hosts()
    async with head(made=configs()["first"], nodes=it.nodes) as crow:
        asked = await crow.reserve("raven-box")
        await crow.ticks(2)
        it.fakes["raven"].held = {}
        it.trouble.away.add("raven")
        later = await crow.again()
        await later.ticks(3)
        it.trouble.away.clear()
        await later.ticks(6)
        assert {held.lease for held in it.fakes["raven"].held.values()} == {asked.id}


async def test_a_fence_goes_up_though_a_node_is_away() -> None:
    """LEASE-28, NODE-3: the fence is up and acknowledged; the node that was away is told when it is back."""
    it = Hosts()
    async with head(made=configs()["first"], nodes=it.nodes) as crow:
        it.trouble.away.add("crow")
        told = await crow.schedule.fence(FenceBody(up=True, reason="deploy", for_s=600.0), OPERATOR, BY)
        assert told.fence.up
        assert it.fakes["raven"].fence is not None
        assert it.fakes["crow"].fence is None
        it.trouble.away.clear()
        await crow.ticks(1)
        assert it.fakes["crow"].fence is not None
        await crow.schedule.fence(FenceBody(up=False), OPERATOR, BY)
        assert it.fakes["crow"].fence is None


async def test_a_repeat_is_answered_though_its_resource_left_the_config() -> None:
    """F02, LEASE-5: the answer was lost and the config changed; the same request is the same lease."""
    async with head(resource("disk")) as crow:
        asked = await crow.reserve("disk", request="one")
        later = await crow.again(fleet(resource("other")))
        assert (await later.reserve("disk", request="one")).id == asked.id
        with pytest.raises(ResourceNotFound):
            await later.reserve("disk", request="two")


async def test_a_clock_that_jumps_after_a_reboot_ends_nothing() -> None:
    """LEASE-21, R57, F17: when the daemon has begun after a reboot, elapsed time counts again."""
    async with head(resource("disk", ttl_s=3600.0)) as crow:
        asked = await crow.reserve("disk")
        crow.clock.reboot(60.0)
        later = await crow.again()
        later.clock.jump(3 * 3600.0)
        await later.ticks(130)
        assert (await later.look(asked)).state == State.ACTIVE
        await later.skip(3600.0)
        assert (await later.look(asked)).state == State.EXPIRED


async def test_a_clock_that_jumps_after_a_reboot_keeps_a_fence_up() -> None:
    """LEASE-21, LEASE-28: neither does a fence come down early then."""
    async with head(resource("disk")) as crow:
        await crow.schedule.fence(FenceBody(up=True, reason="deploy", for_s=600.0), OPERATOR, BY)
        crow.clock.reboot(60.0)
        later = await crow.again()
        later.clock.jump(3600.0)
        await later.ticks(2)
        assert (await later.schedule.fence_now()).fence.up
        await later.skip(540.0)
        assert not (await later.schedule.fence_now()).fence.up


def test_times_of_another_boot_are_as_far_in_this_one() -> None:
    """LEASE-21: every time of the lease is as far from now as the wall clock says, by this run's clock."""
    it = lease(
        "ls-1", state=State.ACTIVE, created=NOW, activated=NOW, expires=NOW.plus(600), hard=NOW.plus(900)
    )
    now = replace(NOW.plus(60), boot="another", elapsed=1.0)
    found = anchored(it, now)
    assert found.expires is not None
    assert (found.expires.boot, found.expires.elapsed) == ("another", 541.0)
    jumped = replace(now, at=now.plus(7200).at)
    assert left(found.expires, jumped) == 540.0
    assert anchored(found, jumped) == found


def test_who_came_earlier_stays_before_whatever_the_clock_did() -> None:
    """R41, LEASE-23: a wall clock that went back across a restart lets nobody who came later pass."""
    early = lease("early", number=1, created=replace(NOW.plus(7200), boot="before"))
    late = lease("late", number=2, created=NOW.plus(-3600))
    assert [it.id for it in order([late, early], NOW)] == ["early", "late"]


async def test_jobs_hear_of_a_lease_that_ended_as_the_daemon_did() -> None:
    """JOB-4: killed between the end of a lease and its word to the jobs, the next daemon tells them."""
    async with head(resource("disk")) as crow:
        asked = await crow.reserve("disk")
        body = JobBody(title="bench", secret_hash=hash_of("anna"), lease=asked.id)
        job = await crow.parts.jobs.start(body, "job", AGENT, BY)
        await crow.release(asked)
        later = await crow.again()
        await later.ticks(1)
        row = await later.store.read(lambda tx: tx.job(JobId(job.job.id)))
        assert row is not None
        assert row.lease_lost


async def test_who_waits_does_so_for_what_the_config_covers_now() -> None:
    """LEASE-3, LEASE-5: an outer resource that has grown waits, with its claim, for its new part too."""
    it = Hosts()
    async with head(made=configs()["first"], nodes=it.nodes) as crow:
        box = await crow.reserve("crow-box")
        pair = await crow.reserve("pair", holder="bert", detached_s=7200.0)
        later = await crow.again(configs()["grown"])
        assert (await later.look(pair)).covers == ("pair", "crow-box", "raven-box", "disk")
        disk = await later.reserve("disk", holder="carl", detached_s=7200.0)
        await later.release(box)
        await later.ticks(6)
        assert (await later.look(pair)).state == State.OFFERED
        assert (await later.look(disk)).state == State.QUEUED
        last = await later.again(configs()["first"])
        assert (await last.look(pair)).covers == ("pair", "crow-box", "raven-box")
        await last.ticks(6)
        assert (await last.look(pair)).state == State.OFFERED
        assert (await last.look(disk)).state == State.OFFERED


def _moved(name: str) -> Fleet:
    """The suspension of one engine, as what leasing that resource does."""
    action = Action(verb="suspend", target="small", host=CROW)
    return replace(
        configs()["first"],
        resources={it: resource(it, actions=(action,) if it == name else ()) for it in ("a", "b")},
    )


async def test_what_the_config_gave_to_another_resource_is_its_own_when_the_lease_is_over() -> None:
    """LEASE-5, LEASE-15: a lease keeps what it has though another resource does it now; that one waits."""
    it = Hosts()
    async with head(made=_moved("a"), nodes=it.nodes) as crow:
        first = await crow.reserve("a")
        await crow.ticks(2)
        later = await crow.again(_moved("b"))
        with pytest.raises(Leased):
            await later.reserve("b", holder="bert", now=True)
        second = await later.reserve("b", holder="bert", detached_s=7200.0)
        await later.ticks(6)
        seen = await later.look(second)
        assert seen.state == State.QUEUED
        assert "small is leased" in seen.why
        await later.release(first)
        await later.ticks(6)
        assert (await later.look(second)).state == State.OFFERED


async def test_a_store_that_is_away_at_the_begin_is_looked_at_when_it_is_back() -> None:
    """LEASE-14, R35, R85: what was in flight is stuck and not replayed, however late it can be read."""
    it, store = Hosts(), MemoryStore(CountingIds())
    async with head(made=configs()["first"], nodes=it.nodes, store=store) as crow:
        it.trouble.hang_in = 12
        asked = await crow.reserve("crow-box")
        await crow.ticks(1)
        assert (await crow.look(asked)).state == State.ACTIVATING
        await crow.parts.keeper.workshop.end()
        it.trouble.gate = None
        store.broken = "the disk is away"
        later = await crow.again()
        await later.ticks(2)
        done = list(it.fakes["crow"].log)
        store.broken = None
        await later.ticks(2)
        seen = await later.look(asked)
        assert (seen.state, (await later.row(asked)).cause) == (State.STUCK, "restart")
        assert it.fakes["crow"].log == done
        await later.release(asked)
        await later.ticks(2)
        assert (await later.look(asked)).state == State.FAILED
