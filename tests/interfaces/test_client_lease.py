import asyncio
import json
import math
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from hostler.client.drive import drive
from hostler.client.facade import Hostler
from hostler.client.lease import STEPS_S
from hostler.client.saved import SavedLease, by_resource
from hostler.client.senders import Client
from hostler.domain.errors import (
    ActivationFailed,
    DaemonUnreachable,
    HoldTaken,
    Lapsed,
    LeaseLost,
    NoKey,
    Refusal,
    ResourceNotFound,
    Stuck,
    WaitTimedOut,
    WrongScope,
)
from hostler.domain.lease import State
from hostler.wire.schedule import OneLease, StepView
from tests.fakes.head import Head
from tests.interfaces.holders import ahostler, hostler


def live(head: Head) -> list[str]:
    return [it.holder for it in head.of(*(state for state in State if not state.ended))]


def beside(act: Callable[[], object]) -> threading.Thread:
    """Another thread that does it."""
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def test_a_request_is_saved_privately_before_it_is_sent(head: Head, holder: Hostler, tmp_path: Path) -> None:
    """LEASE-9: the secret and the request id lie in a file of mode 0600 before the head is asked."""
    saved = holder.leases.prepare("pair", ttl_s=60.0)
    assert head.heard == []
    path = tmp_path / "client" / "leases" / f"{saved.request_id}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    found = json.loads(path.read_text())
    assert (found["secret"], found["url"], found["resource"]) == (saved.secret, head.url, "pair")
    holder.run(holder.leases.ask(saved))
    (asked,) = head.asked("POST", "/leases")
    assert asked.headers["idempotency-key"] == saved.request_id
    assert saved.secret not in json.dumps(asked.body)


def test_a_lease_is_had_and_given_back(head: Head, holder: Hostler) -> None:
    """CLIENT-1: within the block the lease is active, after it it is released and its file is gone."""
    with holder.lease("pair", ttl="2h", reason="bench") as lease:
        (view,) = head.of(State.ACTIVE)
        assert (view.id, view.ttl_s, view.reason, view.holder) == (lease.id, 7200, "bench", "ada")
        assert (lease.epoch, lease.generation) == (view.epoch, view.generation)
        assert holder.leases.files.list() == [lease.saved]
        lease.check()
    assert [it.id for it in head.of(State.RELEASED)] == [lease.id]
    assert holder.leases.files.list() == []
    (released,) = head.asked("POST", "/release")
    assert (released.body["epoch"], released.body["generation"]) == (lease.epoch, lease.generation)


async def test_a_lease_is_had_and_given_back_in_a_task(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: the asynchronous client does the same."""
    async with ahostler(head, tmp_path) as client, client.lease("pair", ttl=7200) as lease:
        assert [it.id for it in head.of(State.ACTIVE)] == [lease.id]
        lease.check()
    assert [it.id for it in head.of(State.RELEASED)] == [lease.id]


def test_what_is_taken_is_refused_at_once(head: Head, holder: Hostler) -> None:
    """LEASE-23, R96: without a wait a held resource is refused, as the head's own class; no file is left."""
    head.leases.taken("pair", "bob")
    with pytest.raises(HoldTaken, match="bob"), holder.lease("pair"):
        pass
    with pytest.raises(ResourceNotFound), holder.lease("nope", wait="1h"):
        pass
    assert (live(head), holder.leases.files.list()) == (["bob"], [])


@pytest.mark.parametrize("failure", ["reset", "lost", "500", "502", "503"])
def test_the_same_request_makes_one_lease(head: Head, holder: Hostler, failure: str) -> None:
    """R23, R94: a request whose answer was lost, reset or a 5xx is sent again with the same id: one lease."""
    head.fail_next(failure, failure)
    with holder.lease("pair"):
        assert len(live(head)) == 1
        sent = head.asked("POST", "/leases")
        assert len(sent) == 3
        assert len({it.headers["idempotency-key"] for it in sent}) == 1
        assert sent[0].body == sent[2].body


def test_a_request_is_repeated_after_a_restart_of_its_client(head: Head, tmp_path: Path) -> None:
    """R23, F02: a client that restarted finds its saved request, and the lease that it had made."""
    with hostler(head, tmp_path) as first:
        one = first.run(first.leases.ask(first.leases.prepare("pair")))
    with hostler(head, tmp_path) as second:
        (saved,) = by_resource(second.leases.files, "pair")
        assert second.run(second.leases.ask(saved)).lease.id == one.lease.id
        assert second.run(second.leases.renew(saved)).lease.state == State.ACTIVE


def test_a_wait_ends_when_the_resource_is_free(head: Head, holder: Hostler) -> None:
    """LEASE-24: a waiting client takes the offer up by itself, and `told` hears its place on the way."""
    other = head.leases.taken("pair")
    heard: list[tuple[str, int | None]] = []

    def told(one: OneLease) -> None:
        heard.append((one.lease.state, one.lease.place))
        if one.lease.state == State.QUEUED:
            head.end(other)

    saved = holder.leases.prepare("pair")
    one = holder.run(holder.leases.take(saved, wait_s=60.0, told=told))
    assert one.lease.state == State.ACTIVE
    assert heard[0] == (State.QUEUED, 1)
    known = holder.leases.files.get(saved.request_id)
    assert known is not None
    assert (known.lease, known.generation) == (one.lease.id, one.lease.generation)


def test_a_wait_outlives_a_restart_of_the_head(head: Head, holder: Hostler) -> None:
    """R94, F28: a client that waits keeps its place while the head is down and up again."""
    other = head.leases.taken("pair")
    saved, got = holder.leases.prepare("pair"), list[OneLease]()
    waiting = beside(lambda: got.append(holder.run(holder.leases.take(saved, wait_s=60.0))))
    head.until(lambda: bool(head.asked("POST", "/renew")), "it waits")
    (before,) = head.of(State.QUEUED)
    head.down()
    head.up()
    head.end(other)
    waiting.join(20)
    assert [(it.lease.id, it.lease.state) for it in got] == [(before.id, State.ACTIVE)]
    assert len(head.asked("POST", "/leases")) == 1


def test_a_wait_that_is_over_gives_the_place_back(head: Head, holder: Hostler) -> None:
    """LEASE-25: a wait that ran out is `wait_timed_out` with the reason, and leaves no place behind."""
    head.leases.taken("pair")
    with pytest.raises(WaitTimedOut, match="bob has it"):
        holder.run(holder.leases.take(holder.leases.prepare("pair"), wait_s=0.01))
    assert (live(head), holder.leases.files.list()) == (["bob"], [])


@pytest.mark.parametrize("refusal", [NoKey(), WrongScope(key="k", scope="schedule:write")])
def test_who_may_not_is_told_at_once(head: Head, holder: Hostler, refusal: Refusal) -> None:
    """R98: 401 and 403 are not asked again by a client that waits: the head sees one request."""
    head.refuses = refusal
    with pytest.raises(type(refusal)), holder.lease("pair", wait=math.inf):
        pass
    assert len(head.heard) == 1
    assert holder.leases.files.list() == []


def test_a_redirect_is_not_asked_again(head: Head, holder: Hostler) -> None:
    """R90: a client that waits does not follow a redirect, and does not wait for it to go away."""
    head.redirect_to = "http://10.99.0.7:1"
    with pytest.raises(DaemonUnreachable, match="redirect"), holder.lease("pair", wait=math.inf):
        pass
    assert len(head.heard) == 1


@pytest.mark.parametrize(
    ("state", "raised"),
    [
        (State.FAILED, ActivationFailed),
        (State.STUCK, Stuck),
        (State.LAPSED, Lapsed),
        (State.CANCELLED, LeaseLost),
        (State.EXPIRED, LeaseLost),
    ],
)
def test_what_becomes_of_a_place_is_raised(
    head: Head, holder: Hostler, state: State, raised: type[Refusal]
) -> None:
    """LEASE-12, LEASE-14, LEASE-24: a place that ends or is stuck is raised as what it is."""
    head.leases.activates = False

    def told(one: OneLease) -> None:
        if one.lease.state == State.ACTIVATING:
            head.end(one.lease.id, state, "because")

    saved = holder.leases.prepare("pair")
    with pytest.raises(raised, match="because"):
        holder.run(holder.leases.take(saved, told=told))
    assert (holder.leases.files.get(saved.request_id) is not None) == (state is State.STUCK)


def test_an_activation_is_waited_for_without_a_wait(head: Head, holder: Hostler) -> None:
    """LEASE-25: without a wait for the queue the activation is waited for all the same."""
    head.leases.activates = False
    saved, got = holder.leases.prepare("pair", now=True), list[OneLease]()
    waiting = beside(lambda: got.append(holder.run(holder.leases.take(saved))))
    head.until(lambda: bool(head.asked("POST", "/renew")), "it waits for the activation")
    (it,) = head.of(State.ACTIVATING)
    head.leases.turn(it.id, state=State.ACTIVE)
    waiting.join(20)
    assert [one.lease.state for one in got] == [State.ACTIVE]


def test_how_far_an_activation_is_is_asked_every_few_seconds(head: Head, holder: Hostler) -> None:
    """INTERFACE-2, LEASE-4: steps are told while they are done, though the lease's state stays the same."""
    head.leases.activates = False
    steps = tuple(
        StepView(n=n, host="crow", text=f"suspend e{n}", state="done" if n == 1 else "begun") for n in (1, 2)
    )
    seen = list[tuple[StepView, ...]]()

    def told(one: OneLease) -> None:
        seen.append(one.lease.steps)
        if one.lease.state == State.ACTIVATING:
            changes = {"state": State.ACTIVE} if one.lease.steps else {"steps": steps}
            head.leases.turn(one.lease.id, **changes)

    holder.run(holder.leases.take(holder.leases.prepare("pair", now=True), told=told))
    assert seen[:2] == [(), steps]
    asked = [it.body for it in head.asked("POST", "/renew")]
    assert [body["wait_s"] for body in asked if isinstance(body, dict)] == [STEPS_S] * len(asked)


def interrupted(act: Callable[[], object]) -> bool:
    """Whether doing it ends by an interrupt."""
    try:
        act()
    except KeyboardInterrupt:
        return True
    return False


class Interrupting:
    """A client whose call number `at` is interrupted: before it is sent, or once it was answered."""

    def __init__(self, client: Client, at: int, *, after: bool) -> None:
        self.client, self.at, self.after, self.count = client, at, after, 0

    def get(self, path: str, query: object = None, *, timeout_s: float | None = None) -> object:
        return self._call(lambda: self.client.get(path, timeout_s=timeout_s))

    def post(
        self, path: str, body: object, *, timeout_s: float | None, idempotency_key: str | None
    ) -> object:
        return self._call(
            lambda: self.client.post(path, body, timeout_s=timeout_s, idempotency_key=idempotency_key)
        )

    def _call(self, act: Callable[[], object]) -> object:
        self.count += 1
        if self.count != self.at:
            return act()
        if self.after:
            act()
        raise KeyboardInterrupt


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3])
@pytest.mark.parametrize("free", [False, True], ids=["queued", "free"])
def test_an_interrupt_gives_back(head: Head, holder: Hostler, at: int, *, after: bool, free: bool) -> None:
    """R95, LEASE-25: an interrupt at any call of a wait, sent or answered, leaves no place and no lease."""
    other = None if free else head.leases.taken("pair")
    head.leases.activates = not free
    client = Interrupting(holder.client, at, after=after)

    def told(one: OneLease) -> None:
        if client.count >= 2 and other is not None and one.lease.state == State.QUEUED:
            head.end(other)
        if client.count >= 2 and one.lease.state == State.ACTIVATING:
            head.leases.turn(one.lease.id, state=State.ACTIVE)

    def waited(saved: SavedLease) -> None:
        # What waits is shaken, so that its call is answered soon and the next one comes.
        drive(cast("Client", client), holder.leases.take(saved, wait_s=60.0, told=told), lambda _: None)

    shake = threading.Event()

    def shaken() -> None:
        while not shake.wait(0.02):
            for it in head.of(State.QUEUED, State.ACTIVATING):
                head.leases.turn(it.id, why=it.why)

    shaking = beside(shaken)
    saved = holder.leases.prepare("pair")
    try:
        if interrupted(lambda: waited(saved)):
            assert [name for name in live(head) if name != "bob"] == []
            assert holder.leases.files.list() == []
        else:
            assert (client.count, len(head.of(State.ACTIVE))) == (at - 1, 1)
    finally:
        shake.set()
        shaking.join()


async def test_a_cancelled_task_gives_back(head: Head, tmp_path: Path) -> None:
    """R95, F28: a task that is cancelled while it waits gives its place back before it ends."""
    head.leases.taken("pair")
    async with ahostler(head, tmp_path) as client:

        async def wait() -> None:
            async with client.lease("pair", wait="1h"):
                pass

        task = asyncio.create_task(wait())
        await asyncio.to_thread(head.until, lambda: bool(head.asked("POST", "/renew")), "it waits")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (live(head), client.leases.files.list()) == (["bob"], [])


def test_an_error_in_told_gives_back(head: Head, holder: Hostler) -> None:
    """R95: a caller that breaks while it waits, such as by a closed pipe, leaves no place behind."""
    head.leases.taken("pair")

    def told(one: OneLease) -> None:
        raise BrokenPipeError(one.lease.id)

    with pytest.raises(BrokenPipeError):
        holder.run(holder.leases.take(holder.leases.prepare("pair"), wait_s=60.0, told=told))
    assert live(head) == ["bob"]


def test_what_cannot_be_given_back_is_said(
    head: Head, holder: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R95: a place that could not be given back, the head being down, is noted on the interrupt."""
    monkeypatch.setattr("hostler.client.lease.GIVE_BACK_S", 0.0)
    head.leases.taken("pair")

    def told(one: OneLease) -> None:
        head.down()
        raise KeyboardInterrupt(one.lease.id)

    saved = holder.leases.prepare("pair")
    with pytest.raises(KeyboardInterrupt) as interrupt:
        holder.run(holder.leases.take(saved, wait_s=60.0, told=told))
    assert "pair could not be given back" in interrupt.value.__notes__[0]
    assert holder.leases.files.get(saved.request_id) is not None


def test_nothing_is_asked_of_a_head_that_never_was_there(head: Head, holder: Hostler) -> None:
    """R94: a request that never reached anybody leaves no file behind."""
    head.down()
    saved = holder.leases.prepare("pair")
    with pytest.raises(DaemonUnreachable):
        holder.run(holder.leases.ask(saved, patience_s=0.0))
    assert holder.leases.files.list() == []


def test_a_stuck_release_is_raised(head: Head, holder: Hostler) -> None:
    """LEASE-14: a release that cannot put back raises `stuck` with the step; its file stays."""
    head.leases.release_stuck = True
    with pytest.raises(Stuck, match="resume large"), holder.lease("pair"):
        pass
    (saved,) = holder.leases.files.list()
    head.leases.release_stuck = False
    assert holder.run(holder.leases.release(saved)).lease.state == State.RELEASED
    assert holder.leases.files.list() == []


def test_a_release_is_repeated(head: Head, holder: Hostler) -> None:
    """R38, F04: a release whose answer was lost is asked for again, and ends the same."""
    saved = holder.leases.prepare("pair")
    holder.run(holder.leases.ask(saved))
    head.fail_next("lost", "reset")
    assert holder.run(holder.leases.release(saved)).lease.state == State.RELEASED
    assert len(head.asked("POST", "/release")) == 3


def test_an_error_in_the_block_is_the_one_that_is_raised(head: Head, holder: Hostler) -> None:
    """CLIENT-1: trouble with giving back is a note of the error that ended the block, and hides it not."""
    head.leases.release_stuck = True
    with pytest.raises(RuntimeError, match="mine") as raised, holder.lease("pair"):
        raise RuntimeError("mine")
    (note,) = raised.value.__notes__
    assert note.startswith("Stuck: pair is stuck at resume large")


@pytest.mark.parametrize("state", [State.EXPIRED, State.CANCELLED, State.RELEASED])
def test_a_lease_that_ended_before_its_block_is_told(head: Head, holder: Hostler, state: State) -> None:
    """LEASE-22: a block whose lease ended before it did raises `lease_lost`, though nobody checked."""
    with pytest.raises(LeaseLost, match="its time was up"), holder.lease("pair") as lease:
        head.end(lease.id, state, "its time was up")
