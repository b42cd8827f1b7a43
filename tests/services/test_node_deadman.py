"""The deadman's steps on this host, and what goes on beside the steps of a window."""

from dataclasses import replace

import pytest

from hostler.domain.deadman import DeadmanReport
from hostler.domain.errors import AlreadyRestored, DeadmanFailed, EngineNotFound, NotLaunchable, StoreFull
from hostler.domain.fleet import frozen
from hostler.domain.holding import Holding
from hostler.domain.mode import Mode, VerifyCommand
from hostler.domain.step import (
    ArmDeadman,
    DisarmDeadman,
    FoundDeadman,
    PointRoute,
    Step,
    SuspendEngine,
    Undo,
)
from hostler.domain.values import HostName
from hostler.services.node_deadman import SECOND_S
from tests.fakes.deadmen import FakeDeadmen
from tests.fakes.node_parts import Parts
from tests.services.node_conformance import HOST, LEASE, OTHER, Teller

ARM = ArmDeadman(host=HOST, window=LEASE, mode="heavy", cap_s=60.0, bring_back=("big",), end=("cold",))
DISARM = DisarmDeadman(host=HOST, window=LEASE)
AWAY = PointRoute(host=HOST, route="chat", profile="away")
SUSPEND = SuspendEngine(host=HOST, engine="big")
REPORT = DeadmanReport(
    window=LEASE,
    host=HOST,
    cause="cap",
    verified=True,
    begun_at="2026-09-04T20:00:00.000Z",
    ended_at="2026-09-04T20:01:00.000Z",
    ended=("cold",),
    back=("big",),
)


async def undo(tell: Teller, work: Step | Undo, n: int = 1) -> None:
    """Perform it as an undo."""
    await tell.rig.wait(tell.rig.node.perform(tell.operation(work, id_=f"{LEASE}.7.u{n}.0")))


# ---------------------------------------------------------------- armed


async def test_what_it_is_armed_with(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: the node writes its own words for the engines that are named, with budget, need and checks."""
    checks = (
        VerifyCommand(host=HostName(HOST), argv=("check", "db"), timeout_s=9.0),
        VerifyCommand(host=HostName("raven"), argv=("x",)),
    )
    heavy = Mode(name="heavy", hosts=frozen({}), verify=checks)
    it.world.lanes.config.fleet = replace(it.world.fleet, modes=frozen({"heavy": heavy}))
    await tell.do(ARM)
    orders = deadmen.orders[0]
    assert (orders.window, orders.mode) == (LEASE, "heavy")
    assert (orders.cap_s, orders.grace_s) == (60.0 + SECOND_S, 60.0)
    assert [(each.launch.engine, each.need) for each in orders.start] == [("big", 40 << 30)]
    assert [each.launch.engine for each in orders.end] == ["cold"]
    assert orders.start[0].budget_s == it.world.starting.budget_s(it.world.lane("big"))
    assert [(check.argv, check.timeout_s) for check in orders.verify] == [(("check", "db"), 9.0)]


async def test_armed_again_nothing_is_written_or_started(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: a repeated arming of a window whose deadman lives changes nothing, its cap least of all."""
    await tell.do(ARM)
    await tell.do(ARM)
    assert (len(deadmen.orders), deadmen.started) == (1, [LEASE])


async def test_a_dead_one_is_started_on_what_was_written(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: armed again after its process was killed, it keeps its first cap."""
    await tell.do(ARM)
    deadmen.change(LEASE, alive=False)
    await tell.do(ARM)
    assert (len(deadmen.orders), deadmen.started) == (1, [LEASE, LEASE])


async def test_without_a_living_deadman_the_step_fails(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: a deadman that cannot be seen alive refuses the arming, and so the window."""
    deadmen.stillborn = True
    with pytest.raises(DeadmanFailed, match="not seen alive"):
        await tell.do(ARM)


async def test_one_that_dies_after_its_start_is_not_verified(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-1: armed is what is seen alive now."""
    await tell.do(ARM)
    deadmen.change(LEASE, alive=False)
    operation = tell.operation(ARM)
    assert await tell.rig.wait(it.node.verify(operation)) == "no deadman of it is alive"


async def test_a_full_disk_arms_nothing(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1, WIN-8: without room for the written restore nothing is promised."""
    deadmen.full = True
    with pytest.raises(StoreFull):
        await tell.do(ARM)
    assert deadmen.started == []


async def test_another_window_has_its_deadman_here(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-8: while another window's deadman is armed on the host, the preflight names that window."""
    await tell.do(replace(ARM, window=OTHER))
    assert await tell.see(ARM) == FoundDeadman(window=OTHER, alive=True)
    with pytest.raises(DeadmanFailed, match=OTHER):
        await tell.ask(ARM)


async def test_an_engine_that_nobody_knows(tell: Teller) -> None:
    """WIN-8: the preflight refuses a restore that names an engine which is not here."""
    with pytest.raises(EngineNotFound):
        await tell.ask(replace(ARM, bring_back=("nope",)))


async def test_an_engine_without_words(it: Parts, tell: Teller) -> None:
    """MODE-1, ENG-2: an engine whose driver cannot say how it is ended without a daemon is refused."""
    lane = it.world.lane("big")
    lane.launch = replace(lane.launch, driver="external")
    with pytest.raises(NotLaunchable, match="without a daemon"):
        await tell.ask(ARM)


async def test_disarmed_and_still_there(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: a deadman that did not end is a disarm that failed."""
    await tell.do(ARM)
    deadmen.deaf.add(LEASE)
    with pytest.raises(DeadmanFailed, match="pid 4711 did not end"):
        await undo(tell, DISARM)


async def test_a_disarm_that_cannot_be_written(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: with a full disk a disarm is refused, and the deadman stays."""
    await tell.do(ARM)
    deadmen.full = True
    with pytest.raises(StoreFull):
        await it.node.deadman.disarm(DISARM)
    assert it.node.deadman.verify(DISARM) == "its deadman is not disarmed"


# ---------------------------------------------------------------- beside the steps


async def test_the_phase_is_written_before_each_step(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: before a step it says opening, before an undo closing; the restore lock is free afterwards."""
    await tell.do(ARM)
    await tell.do(AWAY)
    await undo(tell, AWAY)
    assert deadmen.phases == ["opening", "closing"]
    assert deadmen.held == set()


async def test_what_a_dead_daemon_began_is_not_gone_on_with(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1, WIN-11: its deadman will restore: the next daemon does no further step, but it undoes."""
    await tell.do(ARM)
    deadmen.change(LEASE, phase="opening", ours=False)
    with pytest.raises(AlreadyRestored, match="died on the way"):
        await tell.do(SUSPEND)
    await undo(tell, DISARM, 1)
    state = deadmen.state(LEASE)
    assert state is not None
    assert state.over


async def test_a_lease_that_is_no_window_has_no_phase(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: what is not armed is told to nobody."""
    await tell.do(AWAY)
    assert deadmen.phases == []


async def test_no_step_is_done_without_its_phase(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: a phase that cannot be written refuses the step before its effect."""
    await tell.do(ARM)
    deadmen.full = True
    for work in (tell.do(AWAY), undo(tell, AWAY)):
        with pytest.raises(StoreFull):
            await work
    assert it.node.routes.observe(AWAY).profile == "local"


async def test_an_undo_gives_signs_of_life(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-7: while a step is undone the phase is written every 5 s, so that a hung daemon can be told."""
    await tell.do(ARM)
    operation = tell.operation(AWAY, id_=f"{LEASE}.7.u1.0")
    async with it.node.deadman.step(operation):
        for _ in range(3):
            await it.world.clock.advance(5)
    await it.world.clock.advance(60)
    assert deadmen.phases == ["closing"] * 4


async def test_while_the_deadman_restores_nobody_else_does(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-7, F16: steps and undos of the daemon are refused as already restored, and change nothing."""
    await tell.do(ARM)
    deadmen.change(LEASE, restoring=True)
    for work in (tell.do(AWAY), undo(tell, AWAY)):
        with pytest.raises(AlreadyRestored, match="it is at it"):
            await work
    assert it.node.routes.observe(AWAY).profile == "local"


async def test_who_loses_the_lock_is_refused(deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-7, F16: an undo that comes while the deadman has the lock gets already_restored."""
    await tell.do(ARM)
    deadmen.taken.add(LEASE)
    with pytest.raises(AlreadyRestored):
        await undo(tell, AWAY)


async def test_after_its_report_only_the_undo_goes_on(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-7, LEASE-14: a restored window is not opened any further; what is left of it is undone."""
    await tell.do(ARM)
    deadmen.change(LEASE, report=REPORT)
    with pytest.raises(AlreadyRestored, match="it has done so"):
        await tell.do(AWAY)
    await undo(tell, AWAY)
    assert it.node.routes.observe(AWAY).profile == "away"


async def test_an_active_window_is_open(it: Parts, deadmen: FakeDeadmen, tell: Teller) -> None:
    """WIN-1: once the schedule tells that the lease is active, its death ends nothing: the phase is open."""
    await tell.do(ARM)
    held = {"hold crow": Holding(lease=LEASE, resource="pair", holder="ann")}
    await it.node.adopt(held)
    assert deadmen.phases == []
    until = it.world.clock.now()
    await it.node.adopt({"hold crow": replace(held["hold crow"], until=until)})
    await it.node.adopt({"hold crow": replace(held["hold crow"], until=until)})
    assert deadmen.phases == ["open"]


async def test_open_is_written_as_soon_as_there_is_room(
    it: Parts, deadmen: FakeDeadmen, tell: Teller
) -> None:
    """WIN-1: a disk that was full as the window opened delays the phase, no longer than to the next look."""
    await tell.do(ARM)
    deadmen.full = True
    holding = Holding(lease=LEASE, resource="pair", holder="ann", until=it.world.clock.now())
    await it.node.deadman.settle({"hold crow": holding})
    deadmen.full = False
    await it.node.deadman.tick()
    assert deadmen.phases == ["open"]
