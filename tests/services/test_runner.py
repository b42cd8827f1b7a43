"""What a lease does to a host, and in which order it is written and done."""

from __future__ import annotations

import pytest

from hostler.domain.errors import (
    Draining,
    EngineFailed,
    IllegalTransition,
    NotFound,
    ScheduleUnavailable,
)
from hostler.domain.journal import EntryState
from hostler.domain.lease import Interrupted, State, UndoBegun
from hostler.domain.plan import text
from hostler.domain.step import HoldHost, Operation, PointRoute
from tests.fakes.node import FakeNode
from tests.services.lease_house import ID, House, world
from tests.services.test_crash_sweep import BOARD, CHAT_AWAY, FANS, HOLD, PLANS, Crash, put_away

BOX = PLANS["box"]
SUSPEND = PLANS["suspend"]


async def test_a_lease_is_active_when_every_step_was_seen_to_hold() -> None:
    """LEASE-4, LEASE-10, R1, R11: the steps are done in their order, and each is marked done."""
    house = House(BOX)
    lease = await house.take()
    assert lease.state is State.ACTIVE
    assert house.node.log == [
        "hold crow",
        "route chat to away on crow",
        "drain big",
        "suspend big",
        "run fans on crow",
        "call https://board.example.net",
    ]
    done, skipped = EntryState.DONE, EntryState.SKIPPED
    assert await house.states() == [done, done, skipped, done, done, skipped, skipped, done, done]


async def test_a_step_is_durable_before_its_effect() -> None:
    """LEASE-10, R17: when a node is told to do a step, the journal has it with what it found."""
    house = House(SUSPEND)
    seen: list[tuple[str, EntryState, object]] = []
    tell = house.node.perform

    async def perform(operation: Operation) -> None:
        entry = (await house.journal())[-1]
        seen.append((entry.step.kind, entry.state, entry.found))
        await tell(operation)

    house.node.perform = perform  # type: ignore[method-assign] # the node of this very test
    await house.take()
    assert [(kind, state) for kind, state, _ in seen] == [
        ("route", EntryState.BEGUN),
        ("drain", EntryState.BEGUN),
        ("suspend", EntryState.BEGUN),
    ]
    assert getattr(seen[0][2], "profile", None) == "local"


async def test_a_lease_without_steps_is_a_lock() -> None:
    """LEASE-1, R9: a lease without steps is active at once, and released without a call to a node."""
    house = House(())
    assert (await house.take()).state is State.ACTIVE
    assert (await house.release()).state is State.RELEASED
    assert house.node.calls == []


async def test_the_undo_is_the_exact_reverse_of_what_was_changed() -> None:
    """LEASE-4, R26, R39, F13: the undo is done last first, without what was skipped; all is as it was."""
    house = House(BOX)
    await house.take()
    house.node.log.clear()
    assert (await house.release()).state is State.RELEASED
    assert house.node.log == [
        "call the undo at https://board.example.net",
        "run the undo fans on crow",
        "resume big",
        "route chat to local on crow",
        "remove the hold of crow",
    ]
    assert house.node.world == house.before
    assert "perform drain resting" not in house.node.calls


async def test_what_is_so_already_is_left_as_it_is() -> None:
    """LEASE-10, R18, R19, F13: a route on its target and a suspended engine are skipped, and left so."""
    house = House(PLANS["as_found"])
    await house.take()
    assert [note for note in await house.notes() if note] == ["it was so already"] * 3
    await house.release()
    assert house.node.world == house.before
    assert not [phrase for phrase in house.node.log if "voice" in phrase or "resting" in phrase]


async def test_a_route_takes_two_steps_to_what_the_lease_starts() -> None:
    """LEASE-4: the route is away while the engine starts, and away again before it is stopped at the undo."""
    house = House(PLANS["two_steps"])
    await house.take()
    assert house.node.world.routes["chat"].active == "coder"
    house.node.log.clear()
    await house.release()
    assert house.node.log == [
        "route chat to away on crow",
        "stop coder",
        "resume big",
        "route chat to local on crow",
        "remove the hold of crow",
    ]


FAULTS = [(name, k) for name, plan in PLANS.items() for k in range(1, len(plan) + 1)]


@pytest.mark.parametrize("method", ["observe", "perform", "verify"])
@pytest.mark.parametrize(("name", "k"), FAULTS)
async def test_a_failed_step_undoes_the_earlier_ones(name: str, k: int, method: str) -> None:
    """LEASE-12, R22, F09: wherever a step fails, what was done is undone, and the lease is failed."""
    house = House(PLANS[name])
    fault = f"{method} {text(house.plan[k - 1])}"
    node = house.others.get(house.plan[k - 1].host, house.node)
    node.once[fault] = Draining(engine="big", why="2 requests did not end")
    lease = await house.take()
    if fault in node.once:
        assert (await house.states())[k - 1] is EntryState.SKIPPED
        return
    assert lease.state is State.FAILED
    assert "2 requests did not end" in lease.cause
    assert house.node.world == house.before
    events = await house.events()
    assert events.index("step_failed") < events.index("lease_releasing") < events.index("lease_ended")


async def test_the_undo_of_a_failure_is_in_reverse() -> None:
    """LEASE-12, R22, F09: after step 4 of 6 failed, the undo begins at step 4 and ends at step 1."""
    house = House((HOLD, CHAT_AWAY, *put_away("big"), FANS, BOARD))
    house.node.once["perform suspend big"] = EngineFailed(engine="big", why="it does not stop")
    await house.take()
    assert house.node.log[3:] == [
        "end the drain of big",
        "route chat to local on crow",
        "remove the hold of crow",
    ]


async def test_a_drain_past_its_deadline_kills_nothing() -> None:
    """LEASE-12, R14: a drain that does not end fails the lease; the busy engine is not stopped."""
    house = House(SUSPEND)
    house.node.faults["perform drain big"] = Draining(engine="big", why="1 request did not end")
    lease = await house.take()
    assert (lease.state, lease.cause) == (
        State.FAILED,
        "drain big: big is draining: 1 request did not end",
    )
    assert [phrase for phrase in house.node.log if "big" in phrase] == []
    assert house.node.world == house.before


async def test_no_lease_is_active_before_its_engine_is_gone() -> None:
    """LEASE-13, R15: an engine that ignores its stop is never a reason to be active."""
    house = House(SUSPEND)
    house.node.unseen["suspend big"] = "big is ready"
    lease = await house.take()
    assert lease.state is State.FAILED
    assert lease.cause == "suspend big: wanted big suspended and gone, seen big is ready"
    assert "lease_active" not in await house.events()


async def test_a_route_without_a_profile_is_not_moved() -> None:
    """LEASE-10, R20: a route that lost its active profile fails the lease before it is touched."""
    house = House((CHAT_AWAY,))
    house.node.world.routes["chat"].active = None
    lease = await house.take()
    assert lease.state is State.FAILED
    assert "it has no active profile to go back to" in lease.cause
    assert house.node.log == []


async def test_everything_is_asked_before_the_first_change() -> None:
    """LEASE-10, R20, R21: preflight asks about every step, changes nothing, and raises what it hears."""
    house = House((*BOX, PointRoute(host="crow", route="voice", profile="gone")))
    await house.grant()
    with pytest.raises(NotFound, match="gone"):
        await house.runner.preflight(await house.lease())
    assert {call.split()[0] for call in house.node.calls} == {"preflight"}
    assert len(house.node.calls) == len(house.plan)
    assert house.node.world == house.before


async def test_a_route_to_what_is_started_is_not_asked_about_before_the_start() -> None:
    """LEASE-4, LEASE-10: preflight does not ask whether a route may lead to what is not started yet."""
    house = House(PLANS["two_steps"])
    house.node.faults["preflight route chat to coder on crow"] = EngineFailed(
        engine="coder", why="it is down"
    )
    await house.grant()
    await house.runner.preflight(await house.lease())
    assert "preflight route chat to away on crow" in house.node.calls


async def test_a_cancel_waits_for_its_step_and_undoes() -> None:
    """LEASE-16, R60: called off while a drain runs, a lease finishes that step, undoes, and is cancelled."""
    house = House(BOX)
    await house.grant()
    house.when("drain big", house.cancel)
    lease = await house.runner.activate(ID)
    assert lease.state is State.CANCELLED
    assert "suspend big" not in house.node.log
    assert house.node.world == house.before


@pytest.mark.parametrize("fails", [False, True])
async def test_a_cancel_during_the_last_step(*, fails: bool) -> None:
    """LEASE-16, R60: called off during its last step, a lease is cancelled, even if that step fails."""
    house = House((CHAT_AWAY,))
    await house.grant()
    house.when("route chat to away on crow", house.cancel)
    if fails:
        house.node.once["verify route chat to away on crow"] = EngineFailed(engine="big", why="it broke")
    assert (await house.runner.activate(ID)).state is State.CANCELLED
    assert house.node.world == house.before


async def test_a_lost_answer_is_found_out_by_asking() -> None:
    """NODE-3, R24: when an answer is lost after the effect, the node is asked; it is done once."""
    house = House(SUSPEND)
    house.node.lost.add("suspend big")
    assert (await house.take()).state is State.ACTIVE
    assert house.node.log.count("suspend big") == 1
    assert (await house.notes())[2].startswith("done (observed): The node of crow does not answer")


async def test_a_node_that_is_away_fails_the_lease() -> None:
    """NODE-3, F14: a host without a node fails the activation, and what was done elsewhere is undone."""
    house = House((CHAT_AWAY, HoldHost(host="raven")), nodes={"crow": FakeNode("crow", world())})
    lease = await house.take()
    assert lease.state is State.FAILED
    assert "The node of raven does not answer" in lease.cause
    assert house.node.world == house.before


@pytest.mark.parametrize("method", ["observe", "perform", "verify"])
async def test_a_bug_of_a_node_ends_in_failed(method: str) -> None:
    """LEASE-12: a bug of a node fails the lease like a refusal, is logged, and only its id is told."""
    house = House((CHAT_AWAY, HOLD))
    house.node.once[f"{method} hold crow"] = RuntimeError("a secret detail")
    lease = await house.take()
    assert (lease.state, lease.cause) == (State.FAILED, "hold crow: an internal error, bug-1 in the log")
    assert [str(bug) for bug in house.bugs] == ["a secret detail"]
    assert house.node.world == house.before


async def test_a_bug_of_a_node_in_the_undo_ends_in_stuck() -> None:
    """LEASE-14: a bug of a node in the undo leaves the lease stuck at that step, never releasing."""
    house = House(SUSPEND)
    await house.take()
    house.node.faults["perform resume big"] = RuntimeError("a secret detail")
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert lease.failing.seen == "an internal error, bug-1 in the log"


async def test_a_store_that_refuses_leaves_the_lease_in_flight_and_nothing_undone() -> None:
    """LEASE-10, F23: without the journal no step is done; the refusal reaches whoever runs the lease."""
    house = House(SUSPEND)
    await house.grant()
    broken = House(SUSPEND).store

    class Breaking:
        """Reads from the good store, refuses to write."""

        read = house.store.read
        listen = house.store.listen
        write = broken.write

    await broken.close()
    with pytest.raises(ScheduleUnavailable):
        await house.runner_of(Breaking(), house.nodes).activate(ID)
    assert house.node.log == []
    assert (await house.lease()).state is State.ACTIVATING


async def test_nothing_is_replayed() -> None:
    """LEASE-14, R35: a lease whose steps were begun is not activated again."""
    house = House(SUSPEND)
    await house.take()
    with pytest.raises(IllegalTransition, match="active"):
        await house.runner.activate(ID)
    with pytest.raises(IllegalTransition, match="restore"):
        await house.runner.restore(ID)


async def test_a_killed_activation_is_not_taken_up_again() -> None:
    """LEASE-14, R35: even before anybody calls it stuck, a half activation is not activated a second time."""
    house = House(SUSPEND)
    house.node.once["verify drain big"] = Crash()
    with pytest.raises(Crash):
        await house.take()
    done = list(house.node.log)
    with pytest.raises(IllegalTransition):
        await house.runner.activate(ID)
    assert house.node.log == done


async def test_no_step_is_begun_of_a_lease_that_is_no_longer_activating() -> None:
    """LEASE-14: a run whose lease was made stuck meanwhile begins no further step."""
    house = House(SUSPEND)
    await house.grant()
    house.when("route chat to away on crow", lambda: house.say(Interrupted()))
    with pytest.raises(IllegalTransition, match="stuck"):
        await house.runner.activate(ID)
    assert house.node.log == ["route chat to away on crow"]


async def test_releasing_twice_is_harmless() -> None:
    """LEASE-13, R38: a lease that has ended is given back as it is, and nothing is undone a second time."""
    house = House(BOX)
    await house.take()
    first = await house.release()
    calls = list(house.node.calls)
    assert await house.runner.restore(ID) == first
    assert house.node.calls == calls


async def test_undo_uses_the_plan_that_was_captured() -> None:
    """LEASE-5, R10, F26: the undo needs nothing but the lease's own record."""
    house = House(BOX)
    await house.take()
    lease = await house.lease()
    assert lease.plan == house.plan
    await house.say(UndoBegun(ending=State.RELEASED))
    # Another daemon, with no config at all.
    assert (await House((), store=house.store, nodes=house.nodes).runner.restore(ID)).state is State.RELEASED
    assert house.node.world == house.before


async def test_a_fence_does_not_stop_what_runs() -> None:
    """LEASE-28, R75: an activation and an undo that run when a fence goes up finish under it."""
    house = House(SUSPEND)
    await house.grant()
    house.when("drain big", house.fence)
    assert (await house.runner.activate(ID)).state is State.ACTIVE
    assert (await house.release()).state is State.RELEASED
