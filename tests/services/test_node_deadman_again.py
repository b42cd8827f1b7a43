"""What goes on beside the deadmen of this host again and again, and as the daemon starts."""

import asyncio
from dataclasses import replace

from hostler.domain.engine import State
from hostler.domain.holding import Holding
from hostler.domain.step import (
    DrainEngine,
    ResumeEngine,
)
from hostler.domain.values import Priority
from tests.fakes.deadmen import FakeDeadmen
from tests.fakes.node_parts import Parts
from tests.services.node_conformance import HOST, LEASE, OTHER, Teller
from tests.services.test_node_deadman import ARM, DISARM, REPORT, SUSPEND, undo


async def test_a_killed_deadman_is_replaced_and_told(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-11: within 10 s of its death another deadman lives, and a notice says so, once."""
    it.world.watch.deadmen = it.node.deadman.tick
    await tell.do(ARM)
    deadmen.change(LEASE, alive=False)
    await it.world.ticks(10)
    assert deadmen.started == [LEASE, LEASE]
    told = it.world.events.of("deadman_restarted")
    assert [(event.subject["lease"], event.priority) for event in told] == [(LEASE, Priority.HIGH)]


async def test_one_that_cannot_be_replaced_is_told_once(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-11: without a deadman the window goes on; that is told urgently, once, and tried again."""
    await tell.do(ARM)
    deadmen.change(LEASE, alive=False)
    deadmen.stillborn = True
    for _ in range(3):
        await it.node.deadman.tick()
    assert [event.priority for event in it.world.events.of("deadman_missing")] == [Priority.URGENT]
    assert deadmen.started == [LEASE] * 4
    deadmen.stillborn = False
    await it.node.deadman.tick()
    assert it.world.events.of("deadman_restarted") != []


async def test_no_deadman_is_started_where_none_belongs(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-11: a window that is over, or of another boot, gets no deadman."""
    await tell.do(ARM)
    deadmen.change(LEASE, alive=False, this_boot=False)
    await it.node.deadman.tick()
    await it.node.deadman.begin()
    deadmen.change(LEASE, this_boot=True, phase="over")
    await it.node.deadman.tick()
    await it.node.deadman.begin()
    assert deadmen.started == [LEASE]


async def test_a_report_is_taken_up(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-7, ENG-7: engines that the deadman brought back are this daemon's again before anybody is told."""
    await tell.do(ARM)
    await tell.do(SUSPEND)
    lane = it.world.lane("big")
    await it.world.driver.start(lane.launch)
    it.world.lane("cold").owed = True
    deadmen.change(LEASE, alive=False, report=REPORT)
    assert (await it.node.memory()).reports == ()
    await tell.rig.wait(it.node.deadman.tick())
    assert (lane.state, lane.suspended_by) == (State.READY, ())
    assert not it.world.lane("cold").owed
    assert (await it.node.memory()).reports == (REPORT,)
    await undo(tell, DISARM)
    assert (await it.node.memory()).reports == ()


async def test_an_undo_after_its_report_finds_its_engines(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-7, ENG-7: what the deadman has just started is known before it is started a second time."""
    await tell.do(ARM)
    await tell.do(SUSPEND)
    lane = it.world.lane("big")
    await it.world.driver.start(lane.launch)
    before = it.world.driver.started.count(lane.engine.id)
    deadmen.change(LEASE, alive=False, report=REPORT)
    await undo(tell, ResumeEngine(host=HOST, engine="big", start=True))
    assert (lane.state, lane.suspended_by) == (State.READY, ())
    assert it.world.driver.started.count(lane.engine.id) == before


async def test_after_its_report_nothing_here_is_the_windows(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-11, LEASE-14: with a head that stays away its drains, suspensions and claims here go too."""
    await tell.do(ARM)
    await tell.do(DrainEngine(host=HOST, engine="big", drain_s=60.0))
    await it.world.engines.suspensions.add(it.world.lane("cold"), LEASE)
    held = Holding(lease=LEASE, resource="box", holder="anna", mode="heavy")
    other = replace(held, lease=OTHER)
    await it.node.adopt({"engine big": held, "engine cold": other})
    deadmen.change(LEASE, alive=False, report=replace(REPORT, verified=False, failing=("no",)))
    await tell.rig.wait(it.node.deadman.tick())
    assert it.world.lane("big").state is State.READY
    assert it.world.lane("cold").suspended_by == ()
    await it.node.upkeep()
    assert it.node.files.guard.posts.held.keys() == {"engine big", "engine cold"}
    deadmen.change(LEASE, report=REPORT)
    await tell.rig.wait(it.node.deadman.tick())
    await it.node.upkeep()
    assert it.node.files.guard.posts.held.keys() == {"engine cold"}


async def test_with_both_dead_it_restores_before_it_begins(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-11: as the daemon starts, a window without its deadman is restored at once, and waited for."""
    await tell.do(ARM)
    await tell.do(SUSPEND)
    deadmen.change(LEASE, alive=False)
    deadmen.restores = REPORT
    after = it.again()
    await after.node.deadman.begin()
    assert deadmen.started == [LEASE, f"{LEASE} now"]
    assert after.world.lane("big").suspended_by == ()


async def test_a_restore_that_runs_is_waited_for(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-11: the daemon begins once the restore has its report, or its process has ended without one."""
    await tell.do(ARM)
    deadmen.change(LEASE, alive=False)
    waiting = asyncio.ensure_future(it.node.deadman.begin())
    await it.world.clock.advance(1)
    assert not waiting.done()
    deadmen.change(LEASE, report=REPORT)
    await it.world.clock.advance(1)
    assert waiting.done()


async def test_a_living_deadman_is_left_alone(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: a daemon that starts while a window is open restores nothing."""
    await tell.do(ARM)
    await tell.do(SUSPEND)
    after = it.again()
    await after.node.deadman.begin()
    assert deadmen.started == [LEASE]
    after.world.engines.suspensions.recall(after.world.lane("big"))
    assert after.world.lane("big").suspended_by == (LEASE,)


async def test_both_dead_and_no_deadman_to_be_had(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-11: a restore that cannot be started is told urgently, and the daemon begins all the same."""
    await tell.do(ARM)
    deadmen.change(LEASE, alive=False)
    deadmen.stillborn = True
    await it.node.deadman.begin()
    assert [event.priority for event in it.world.events.of("deadman_missing")] == [Priority.URGENT]
