"""How a lease is put back: what is compared, what is left, when it is stuck, and what frees it."""

from __future__ import annotations

import pytest

from hostler.domain.errors import EngineFailed, NodeUnreachable
from hostler.domain.journal import EntryState
from hostler.domain.lease import Failing, State
from hostler.domain.step import CallWebhook, FoundHold, HoldHost, PointRoute, RunCommand, Step, SuspendEngine
from tests.fakes.node import FakeNode
from tests.services.lease_house import ID, House, world
from tests.services.test_crash_sweep import BOARD, CHAT_AWAY, HOLD, PLANS, Crash, put_away

BOX = PLANS["box"]
SUSPEND = PLANS["suspend"]
STOP = (CHAT_AWAY, *put_away("big", suspend=False))
LOST = NodeUnreachable(host="crow", why="no route to host")
BACK = "route chat to local on crow"


async def taken(*plan: Step) -> House:
    """A house whose lease of that plan is active; the log begins anew."""
    house = House(plan)
    assert (await house.take()).state is State.ACTIVE
    house.node.log.clear()
    house.node.calls.clear()
    return house


# ---------------------------------------------------------------- somebody changed it


async def test_a_route_that_somebody_moved_is_left_and_told() -> None:
    """LEASE-11, R30, F12: a route moved by hand is left; the released lease tells it and its value."""
    house = await taken(*BOX)
    house.node.world.routes["chat"].profiles["cloud"] = ((), ("cloud",))
    house.node.world.routes["chat"].active = "cloud"
    lease = await house.release()
    assert (lease.state, lease.drift) == (State.RELEASED, ("route chat is on cloud, not away",))
    assert house.node.world.routes["chat"].active == "cloud"
    assert house.node.world.engines == house.before.engines
    assert (await house.states())[1] is EntryState.DRIFTED
    assert "lease_drifted" in await house.events()


async def test_a_route_that_somebody_moved_back_is_back() -> None:
    """LEASE-11: a route that a person put back where it was found is no drift, and is not moved."""
    house = await taken(*SUSPEND)
    house.node.world.routes["chat"].active = "local"
    lease = await house.release()
    assert (lease.state, lease.drift) == (State.RELEASED, ())
    assert BACK not in house.node.log


async def test_a_person_who_suspends_during_the_lease_keeps_the_engine_down() -> None:
    """LEASE-11, NODE-5, R29: only the lease's own claim goes; engine and route stay, both told."""
    house = await taken(*SUSPEND)
    house.node.world.engines["big"].suspended_by.add("person:ann")
    lease = await house.release()
    assert lease.state is State.RELEASED
    assert lease.drift == (
        "route chat stays on away: engine big is not as it was",
        "engine big is suspended by person:ann",
    )
    assert house.node.world.engines["big"].suspended_by == {"person:ann"}
    assert not house.node.world.engines["big"].up
    assert BACK not in house.node.log
    assert await house.states() == [EntryState.LEFT, EntryState.UNDONE, EntryState.DRIFTED]


async def test_a_stopped_engine_that_somebody_suspended_is_left() -> None:
    """LEASE-11: a stopped engine that a person suspended meanwhile is not started, and not resumed."""
    house = await taken(*STOP)
    house.node.world.engines["big"].suspended_by.add("person:ann")
    lease = await house.release()
    assert "engine big is suspended by person:ann" in lease.drift
    assert house.node.log == []


async def test_a_hold_of_somebody_else_is_left() -> None:
    """LEASE-11: a hold that another has taken over meanwhile is not removed, and its owner is named."""
    house = await taken(HOLD)
    house.node.world.hold = FoundHold(identity="z", owner="bob")
    lease = await house.release()
    assert (lease.state, lease.drift) == (State.RELEASED, ("the hold of crow is bob's, not the lease's",))
    assert house.node.world.hold.owner == "bob"


async def test_independent_routes_go_back_when_one_engine_drifted() -> None:
    """LEASE-11: only a route whose found profile names the drifted engine stays away."""
    voice = PLANS["box"][2]
    house = House((CHAT_AWAY, voice, *put_away("big"), *put_away("small")))
    house.node.world.routes["voice"].active = "least"
    house.node.world.routes["voice"].profiles["least"] = (("small",), ())
    await house.take()
    house.node.world.engines["big"].suspended_by.add("person:ann")
    await house.release()
    assert house.node.world.routes["chat"].active == "away"
    assert house.node.world.routes["voice"].active == "least"


async def test_drift_that_leaves_a_route_without_a_target_is_stuck() -> None:
    """LEASE-11: when what was left leads a route of the plan to nothing that serves, the lease is stuck."""
    house = await taken(*SUSPEND)
    world = house.node.world
    world.engines["coder"].suspended_by.add("person:bob")
    world.routes["chat"].active = "coder"
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing == Failing(
        n=1,
        step="route chat to away on crow",
        wanted="a target that serves",
        seen="coder leads to coder, which is suspended by person:bob",
    )
    world.routes["chat"].active = "least"
    lease = await house.release()
    assert (lease.state, world.routes["chat"].active) == (State.RELEASED, "least")
    assert "route chat is on least, not away" in lease.drift


async def test_drift_is_looked_at_again_by_a_later_release() -> None:
    """LEASE-11, LEASE-14: a release of a stuck lease compares anew what was left."""
    house = await taken(*SUSPEND)
    world = house.node.world
    world.routes["chat"].profiles["away"] = (("coder",), ())
    world.engines["coder"].suspended_by.add("person:bob")
    world.engines["big"].suspended_by.add("person:ann")
    assert (await house.release()).state is State.STUCK
    world.engines["big"].suspended_by.clear()
    assert (await house.release()).state is State.RELEASED
    assert world.engines["big"].up
    assert world.routes["chat"].active == "local"


async def test_an_engine_of_a_left_route_that_cannot_be_seen_does_not_serve() -> None:
    """LEASE-11: a target that cannot be looked at counts as none: the lease is stuck."""
    house = await taken(*SUSPEND)
    house.node.world.routes["chat"].active = "least"
    house.node.faults["observe stop small"] = LOST
    lease = await house.release()
    assert lease.failing is not None
    assert lease.failing.seen == "least leads to small, which cannot be seen"


async def test_a_left_route_that_cannot_be_seen_is_stuck() -> None:
    """LEASE-11: when a route of the plan cannot be looked at after drift, the lease is stuck."""
    house = await taken(CHAT_AWAY, HOLD)
    house.node.world.hold = FoundHold(identity="z", owner="bob")
    look = "observe route chat to away on crow"
    house.when(BACK, lambda: _fail(house, look))
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert "no route to host" in lease.failing.seen


async def _fail(house: House, call: str) -> None:
    house.node.faults[call] = LOST


# ---------------------------------------------------------------- verified


async def test_a_route_goes_back_only_after_its_engine_serves() -> None:
    """LEASE-13, R27, R28, F11: an engine that is up and does not prove itself keeps its route away: stuck."""
    house = await taken(*BOX)
    house.node.unseen["resume big"] = "big answered 1 of 3 probes"
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert (lease.failing.n, lease.failing.step) == (5, "resume big")
    assert "big answered 1 of 3 probes" in lease.failing.seen
    assert house.node.world.routes["chat"].active == "away"
    assert house.node.world.hold.lease is not None


async def test_an_engine_that_somebody_resumed_is_proven_before_its_route_goes_back() -> None:
    """LEASE-13, R28: an engine that is up already and does not serve is started anew."""
    house = await taken(*SUSPEND)
    big = house.node.world.engines["big"]
    big.up, big.healthy, big.suspended_by = True, False, set()
    house.when("resume big", lambda: _heal(house))
    assert (await house.release()).state is State.RELEASED
    assert house.node.log == ["resume big", BACK]


async def test_an_engine_that_somebody_resumed_is_proven_without_a_route_too() -> None:
    """LEASE-13, R27: no lease is released while an engine that it had put away is up and does not serve."""
    house = await taken(*put_away("big"))
    big = house.node.world.engines["big"]
    big.up, big.healthy, big.suspended_by = True, False, set()
    assert (await house.release()).state is State.STUCK
    big.healthy = True
    assert (await house.release()).state is State.RELEASED


async def _heal(house: House) -> None:
    house.node.world.engines["big"].healthy = True
    house.node.world.engines["big"].up = True


async def test_an_unhealthy_engine_leaves_the_lease_stuck_until_a_release() -> None:
    """LEASE-14, R31, R32, R33, F10: it is stuck, told once; a later release runs only the rest."""
    house = await taken(*BOX)
    house.node.faults["perform resume big"] = EngineFailed(engine="big", why="out of memory")
    assert (await house.release()).state is State.STUCK
    assert house.node.world.routes["chat"].active == "away"
    await house.clock.advance(7 * 86_400)
    assert (await house.lease()).state is State.STUCK
    assert (await house.events()).count("lease_stuck") == 1
    house.node.faults.clear()
    house.node.log.clear()
    lease = await house.release()
    assert (lease.state, lease.failing) == (State.RELEASED, None)
    assert house.node.log == ["resume big", BACK, "remove the hold of crow"]
    assert house.node.world == house.before


async def test_an_engine_that_died_since_it_was_put_back_is_started_before_its_route_returns() -> None:
    """LEASE-13, R28: an engine that an earlier release had put back is looked at again first."""
    house = await taken(*SUSPEND)
    house.node.faults[f"perform {BACK}"] = LOST
    assert (await house.release()).state is State.STUCK
    house.node.faults.clear()
    house.node.world.engines["big"].up = False
    house.node.log.clear()
    assert (await house.release()).state is State.RELEASED
    assert house.node.log == ["resume big", BACK]


async def test_an_engine_that_serves_since_an_earlier_release_is_not_started_again() -> None:
    """LEASE-14, R33, F08: what an earlier release had put back is looked at and not done again."""
    house = await taken(*SUSPEND)
    house.node.faults[f"perform {BACK}"] = LOST
    assert (await house.release()).state is State.STUCK
    house.node.faults.clear()
    house.node.log.clear()
    assert (await house.release()).state is State.RELEASED
    assert house.node.log == [BACK]


async def test_an_engine_that_was_suspended_since_it_was_put_back_keeps_its_route_away() -> None:
    """LEASE-11, R29: an engine suspended after an earlier release keeps its route away."""
    house = await taken(*SUSPEND)
    house.node.faults[f"perform {BACK}"] = LOST
    await house.release()
    house.node.faults.clear()
    big = house.node.world.engines["big"]
    big.up, big.suspended_by = False, {"person:ann"}
    lease = await house.release()
    assert lease.state is State.RELEASED
    assert "engine big is suspended by person:ann" in lease.drift
    assert house.node.world.routes["chat"].active == "away"


async def test_routes_are_looked_at_once_more_before_it_is_released() -> None:
    """LEASE-13: a route that somebody moved after it went back is told, and left."""
    house = await taken(HOLD, CHAT_AWAY)
    house.node.world.routes["chat"].profiles["cloud"] = ((), ("cloud",))
    house.when("remove the hold of crow", lambda: _move(house, "cloud"))
    lease = await house.release()
    assert (lease.state, lease.drift) == (State.RELEASED, ("route chat is on cloud, not local",))
    assert house.node.world.routes["chat"].active == "cloud"


async def test_a_route_that_does_not_hold_at_the_last_look_is_stuck() -> None:
    """LEASE-13, LEASE-14: a route that does not hold at the last look is stuck."""
    house = await taken(HOLD, CHAT_AWAY)
    house.when("remove the hold of crow", lambda: _unsee(house))
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing == Failing(
        n=2,
        step=BACK,
        wanted="route chat on local",
        seen="it is there, and leads to nothing that serves",
    )
    house.node.unseen.clear()
    assert (await house.release()).state is State.RELEASED


async def test_a_node_that_is_gone_at_the_last_look_leaves_the_lease_stuck() -> None:
    """LEASE-13, NODE-3: when the last look at a route fails, the lease is stuck."""
    house = await taken(HOLD, CHAT_AWAY)
    house.when("remove the hold of crow", lambda: _fail(house, f"verify {BACK}"))
    lease = await house.release()
    assert lease.failing is not None
    assert lease.failing.seen == "The node of crow does not answer: no route to host"
    house.node.faults.clear()
    assert (await house.release()).state is State.RELEASED


async def _unsee(house: House) -> None:
    house.node.unseen[BACK] = "route chat is on local, and local is down"


async def _move(house: House, profile: str) -> None:
    house.node.world.routes["chat"].active = profile


async def test_released_is_the_last_write() -> None:
    """LEASE-13, R42: the resource is free only when everything was undone and verified."""
    house = await taken(*BOX)
    await house.release()
    events = await house.events()
    assert events[-1] == "lease_ended"
    assert events.count("step_undone") == 6


# ---------------------------------------------------------------- crashes, as one sees them


async def test_a_step_that_was_not_done_is_not_undone() -> None:
    """LEASE-14, F06: after a kill before the effect, the release undoes the earlier steps only."""
    house = House(SUSPEND)
    house.node.faults["perform suspend big"] = Crash()
    with pytest.raises(Crash):
        await house.take()
    house.node.faults.clear()
    house.node.log.clear()
    await house.interrupted()
    assert (await house.release()).state is State.FAILED
    assert house.node.log == ["end the drain of big", BACK]
    assert (await house.notes())[2] == "not done (observed)"


async def test_a_step_that_was_done_and_not_written_is_undone_once() -> None:
    """LEASE-14, F07: after a kill between effect and record, it is noted as observed, and undone."""
    house = House(SUSPEND)
    house.node.faults["verify suspend big"] = Crash()
    with pytest.raises(Crash):
        await house.take()
    house.node.faults.clear()
    await house.interrupted()
    await house.release()
    observed = [event for event in await house.told() if event.message == "suspend big: done (observed)"]
    assert [event.type for event in observed] == ["step_done"]
    assert house.node.log.count("suspend big") == 1
    assert house.node.log.count("resume big") == 1
    assert house.node.world == house.before


async def test_what_has_no_undo_is_marked_as_put_back() -> None:
    """LEASE-2: a webhook or a command without an undo is over with its lease, and says that it has none."""
    house = await taken(RunCommand(host="crow", argv=("once",)), CallWebhook(host="crow", url=BOARD.url))
    assert (await house.release()).state is State.RELEASED
    assert await house.notes() == ["it has no undo"] * 2
    assert house.node.log == []


async def test_a_host_that_cannot_be_put_back_keeps_no_other_down() -> None:
    """LEASE-11, WIN-11: raven away, crow's engine serves again; hold and routes stay until all is back."""
    plan = (
        HoldHost(host="crow"),
        PointRoute(host="crow", route="chat", profile="away"),
        SuspendEngine(host="crow", engine="big"),
        SuspendEngine(host="raven", engine="big"),
    )
    house = House(plan)
    raven = FakeNode("raven", world())
    house.nodes = {"crow": house.node, "raven": raven}
    await house.take()
    raven.faults["perform resume big"] = NodeUnreachable(host="raven", why="cut")
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert lease.failing.step == "resume big"
    assert house.node.world.engines["big"].up
    assert house.node.world.hold.lease == ID
    assert house.node.world.routes["chat"].active == "away"
    raven.faults.clear()
    house.node.log.clear()
    assert (await house.release()).state is State.RELEASED
    assert "resume big" not in house.node.log
    assert house.node.world.hold.lease is None
    assert raven.world.engines["big"].up
