"""A node that is cut off from its head: what it keeps, and what it puts back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from hostler.domain.errors import AlreadyRestored, NodeOutdated
from hostler.domain.fence import Fence
from hostler.domain.holding import Holding
from hostler.domain.step import (
    ArmDeadman,
    DrainEngine,
    FenceNumber,
    HoldHost,
    Operation,
    PointRoute,
    ResumeEngine,
    Step,
    SuspendEngine,
)
from hostler.domain.values import rfc3339
from hostler.services.node_deadman import SECOND_S
from hostler.services.own_restore import AGAIN_S, CUT_OFF_S
from hostler.wire.node_forms import operation_to
from hostler.wire.nodes import EndCall, OperationCall
from tests.fakes.far_host import FarHost, far_host
from tests.services.node_conformance import HOST, LEASE, LocalRig, RemoteRig, Teller, local_rig

STEPS: tuple[Step, ...] = (
    HoldHost(host=HOST),
    PointRoute(host=HOST, route="chat", profile="away"),
    DrainEngine(host=HOST, engine="big", drain_s=60.0),
    SuspendEngine(host=HOST, engine="big"),
)
THINGS = ("hold crow", "route chat", "engine big")
RESUME = ResumeEngine(host=HOST, engine="big", start=True)
HARD_S = 100.0


@asynccontextmanager
async def leased(hard_s: float | None = HARD_S) -> AsyncIterator[FarHost]:
    """A host with a lease on it that ends in so many seconds, and whose head was heard just now."""
    async with local_rig() as local:
        it = far_host(local.parts)
        tell = Teller(RemoteRig(it))
        await told(it, hard_s)
        # Step 2 and 4 are another host's: a node knows what it did itself.
        for n, step in zip((1, 3, 5, 6), STEPS, strict=True):
            found = await tell.see(step)
            operation = replace(tell.operation(step, id_=f"{LEASE}.7.{n}"), found=found)
            await tell.rig.wait(it.remote.perform(operation))
        await told(it, hard_s)
        yield it


async def told(it: FarHost, hard_s: float | None, mode: str = "") -> None:
    """The head says what the lease holds, and until when; with a `mode` it is a window."""
    hard = None if hard_s is None else it.parts.world.clock.moment().plus(hard_s)
    holding = Holding(lease=LEASE, resource="box", holder="ann", hard=hard, mode=mode)
    await it.remote.adopt(dict.fromkeys(THINGS, holding))


def undo(n: int = 6) -> Operation:
    """The head's own undo of a step."""
    return Operation(
        id=f"{LEASE}.7.u{n}.99",
        lease=LEASE,
        fence=FenceNumber(epoch="e1", generation=7),
        covers=("pair", "mac"),
        step=RESUME,
        deadline_s=900.0,
    )


def up(it: FarHost) -> bool:
    """Whether everything is as it was before the lease."""
    lane = it.parts.world.lane("big")
    return lane.ready and it.parts.routes.active("chat") == "local" and not it.parts.world.hold.read().held


async def pass_(it: FarHost, seconds: float) -> None:
    """Let time pass, the node looking every second."""
    for _ in range(round(seconds)):
        await it.own.tick()
        await it.parts.world.clock.advance(1.0)
    await it.own.tick()
    await it.settled()


async def test_nothing_is_put_back_before_the_hard_end() -> None:
    """NODE-4: a node keeps hold, route and suspension to the hard end, says so, and puts back then."""
    async with leased() as it:
        await pass_(it, HARD_S - 5.0)
        assert not up(it)
        said = "\n".join(it.warned[-1])
        assert "cut off from raven for 95 s" in said
        assert f"lease {LEASE} (box, ann) is put back here at 2026-" in said
        assert "resume big, end the drain of big, route chat to local on crow, remove the hold" in said
        await pass_(it, 10.0)
        assert up(it)
        assert it.own.held() == {}
        assert it.parts.world.events.types.count("lease_restored_here") == 1


async def test_a_head_that_asks_is_left_to_do_it() -> None:
    """NODE-4: while the head asks, the node puts nothing back, however late it is."""
    async with leased() as it:
        for _ in range(12):
            await it.remote.now()
            await pass_(it, CUT_OFF_S - 5.0)
        assert not up(it)
        assert it.warned[-1] == ()


async def test_a_lease_without_a_hard_end_is_kept() -> None:
    """NODE-4: of an indefinite lease nothing is put back, and the status says that it is kept."""
    async with leased(hard_s=None) as it:
        await pass_(it, 3600.0)
        assert not up(it)
        assert f"lease {LEASE} (box, ann) is kept until the head is back" in "\n".join(it.warned[-1])
        (kept,) = it.own.views()
        assert (kept.hard_in_s, set(kept.things)) == (None, set(THINGS))


async def test_a_wall_clock_that_jumps_moves_nothing() -> None:
    """F18, LEASE-21: the hard end is elapsed time: a wall clock that jumps a day puts nothing back early."""
    async with leased() as it:
        it.parts.world.clock.jump(86_400.0)
        await pass_(it, HARD_S - 5.0)
        assert not up(it)
        it.parts.world.clock.jump(-172_800.0)
        await pass_(it, 10.0)
        assert up(it)


async def test_under_a_fence_nothing_is_put_back() -> None:
    """LEASE-28, NODE-4: cut off under a fence, a node waits for its end; that time counts toward nothing."""
    async with leased() as it:
        now = it.parts.world.clock.moment()
        await it.remote.raise_fence(Fence(since=now, until=now.plus(150.0), by="op", reason="deploy"))
        await pass_(it, HARD_S + 60.0)
        assert not up(it)
        await pass_(it, 80.0)
        assert not up(it)
        await pass_(it, 20.0)
        assert up(it)


async def test_a_fence_does_not_pause_a_windows_cap() -> None:
    """LEASE-28, WIN-2, NODE-4: a window that is cut off under a fence ends at its cap, as is told."""
    async with leased() as it:
        await told(it, HARD_S, mode="heavy")
        now = it.parts.world.clock.moment()
        await it.remote.raise_fence(Fence(since=now, until=now.plus(150.0), by="op", reason="deploy"))
        await pass_(it, HARD_S - 5.0)
        (kept,) = it.own.views()
        assert kept.hard_in_s == 5.0
        assert f"is put back here at {rfc3339(now.plus(HARD_S).at)} " in kept.then
        assert not up(it)
        await pass_(it, 10.0)
        assert up(it)


async def test_a_stuck_window_is_put_back_by_its_deadman() -> None:
    """NODE-4, WIN-1: where the schedule tells no end of a window, its deadman's is told."""
    async with leased(hard_s=None) as it:
        await told(it, None, mode="heavy")
        arm = ArmDeadman(host=HOST, window=LEASE, mode="heavy", cap_s=60.0, bring_back=("big",), end=())
        await it.parts.node.deadman.arm(arm)
        now = it.parts.world.clock.moment()
        (kept,) = it.own.views()
        assert kept.hard_in_s == 60.0 + SECOND_S
        assert f"is put back here at {rfc3339(now.plus(60.0 + SECOND_S).at)} " in kept.then
        it.parts.deadmen.change(LEASE, left_s=0.0)
        await pass_(it, CUT_OFF_S + 1.0)
        assert "is put back here at" in "\n".join(it.warned[-1])
        assert not up(it)  # The deadman does it, and nobody else.
        it.parts.deadmen.change(LEASE, phase="over")
        (kept,) = it.own.views()
        assert (kept.hard_in_s, kept.then[:31]) == (None, "is kept until the head is back:")


async def test_what_somebody_changed_is_left() -> None:
    """NODE-4, LEASE-11: what a person changed meanwhile is left, and the receipt says so."""
    async with leased() as it:
        await it.parts.world.engines.suspensions.add(it.parts.world.lane("big"), "person:ann")
        await pass_(it, HARD_S + 30.0)
        assert not it.parts.world.lane("big").ready
        assert it.parts.world.lane("big").suspended_by == ("person:ann",)
        (restored,) = (await it.remote.memory()).restored
        assert any("engine big is suspended by person:ann" in line for line in restored.drift)


async def test_the_receipt_tells_the_head() -> None:
    """NODE-4, F15: what was put back is told with its fence number; nothing of it is owed any more."""
    async with leased() as it:
        await pass_(it, HARD_S + 10.0)
        memory = await it.remote.memory()
        (restored,) = memory.restored
        assert (restored.lease, restored.fence.generation) == (LEASE, 7)
        assert 0.0 <= restored.ago_s < 60.0
        assert memory.leases == ()
        it.restores.texts["odd"] = "{"
        assert len((await it.remote.memory()).restored) == 1


async def test_head_and_node_at_the_same_instant() -> None:
    """F16, NODE-4: while the node puts back, the head's undo waits and is told so; the engine starts once."""
    async with leased() as it:
        await it.parts.world.clock.advance(HARD_S + 10.0)
        before = len(it.parts.world.driver.started)
        await it.own.tick()
        assert list(it.own.mind.running) == [LEASE]
        with pytest.raises(AlreadyRestored) as told_:
            await LocalRig(it.parts).wait(it.remote.perform(undo()))
        assert told_.value.lease == LEASE
        assert up(it)
        assert len(it.parts.world.driver.started) == before + 1
        await it.remote.memory()
        await LocalRig(it.parts).wait(it.remote.perform(undo(9)))
        assert len(it.parts.world.driver.started) == before + 1


async def test_a_restore_that_fails_is_told_and_tried_again() -> None:
    """NODE-4: an engine that does not serve leaves the lease kept, told, and tried again after 5 min."""
    async with leased() as it:
        it.parts.completions.answers = ["nothing"] * 1000
        await pass_(it, HARD_S + 5.0)
        for _ in range(3600):
            if it.own.mind.failed:
                break
            await pass_(it, 1.0)
        assert f"lease {LEASE} was not put back here" in it.own.mind.failed[LEASE]
        assert list(it.own.held()) == [LEASE]
        await it.own.tick()
        assert it.own.mind.failed[LEASE] in it.warned[-1]
        it.parts.completions.answers.clear()
        await pass_(it, AGAIN_S + 30.0)
        assert up(it)
        assert it.own.mind.failed == {}


async def test_processes_end_first() -> None:
    """NODE-4, F03: what still runs under the lease is ended before anything is put back; else nothing is."""
    async with leased() as it:
        it.parts.groups.texts[LEASE] = '{"groups": "odd"}'
        await it.door.end_processes(EndCall(api=1, lease=LEASE))
        it.parts.groups.texts[LEASE] = "no JSON"
        await it.parts.world.clock.advance(HARD_S + 10.0)
        await pass_(it, 2.0)
        assert "end the processes of the lease" in it.own.mind.failed[LEASE]
        assert not up(it)


async def test_what_a_reboot_took_is_told() -> None:
    """F20: leases that a node was told of before its machine's restart are named to the head."""
    async with leased() as it:
        assert (await it.remote.memory()).rebooted == ()
        it.parts.world.clock.reboot(60.0)
        assert (await it.remote.memory()).rebooted == (LEASE,)
        await told(it, HARD_S)
        assert (await it.remote.memory()).rebooted == (LEASE,)


async def test_the_head_itself_is_never_cut_off() -> None:
    """NODE-4: the host that owns the schedule waits for nobody."""
    async with leased() as it:
        it.far_config.fleet = replace(it.far_config.fleet, head=(it.far_config.fleet.here,))
        (kept,) = it.own.views()
        assert kept.then == "is put back when it ends: its schedule is here"
        await pass_(it, HARD_S + 60.0)
        assert not up(it)


async def test_the_loop_ends_with_what_it_began() -> None:
    """NODE-4: the loop looks every second, and at its end nothing of a restore runs on."""
    async with leased() as it:
        await it.parts.world.clock.advance(HARD_S + 10.0)
        loop = asyncio.ensure_future(it.own.run())
        await it.parts.world.clock.advance(0.5)
        assert list(it.own.mind.running) == [LEASE]
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        assert it.own.mind.running == {}


async def test_a_call_of_another_version_is_no_sign_of_the_head() -> None:
    """NODE-7: a caller whose API number is too far off is refused, and does not count as the head."""
    async with leased() as it:
        await it.parts.world.clock.advance(CUT_OFF_S + 1.0)
        operation = operation_to(undo(), it.parts.world.clock.now())
        with pytest.raises(NodeOutdated):
            await it.door.operate(OperationCall(api=9, do="preflight", operation=operation))
        assert it.own.is_cut_off
