"""Engines: what callers may want of an engine of this host, each safe to ask for in any state (ENG-1).

Decides nothing by itself: callers say what they want, the machine, the gate and the planner decide.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace

from hostler.domain.engine import (
    BecameReady,
    Cleared,
    Failed,
    Found,
    Readiness,
    Run,
    State,
    Stopped,
    judge,
)
from hostler.domain.errors import EngineFailed, OrchestrationDisabled
from hostler.domain.fleet import DriverKind
from hostler.domain.gate import Ask, personal
from hostler.domain.gate_words import Check, Result
from hostler.domain.holding import ENGINE
from hostler.domain.start_policy import leaves_failed_in
from hostler.domain.values import Requester, format_duration
from hostler.services.gate import Gate
from hostler.services.lanes import Lane, Lanes, heard
from hostler.services.measure import Measure
from hostler.services.needs import Clock, Driver
from hostler.services.revivals import Revivals
from hostler.services.starting import BY_HAND, Starting
from hostler.services.stopping import DRAIN_S, Stopping
from hostler.services.suspensions import UNREADABLE, Suspensions

RECORDING = (DriverKind.PROCESS, DriverKind.CONTAINER, DriverKind.COMPOSE)
"""Drivers that write down what they started: it is found though the config names another driver by now."""
FIRST_LOOKS_S = 0.25
"""How often an adopted engine that still loads is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The engines of this host."""

    lanes: Lanes
    gate: Gate
    starting: Starting
    stopping: Stopping
    suspensions: Suspensions
    revivals: Revivals
    measure: Measure
    drivers: Mapping[str, Driver]
    clock: Clock

    async def ensure_ready(self, engine: str, ask: Ask, *, wait_s: float) -> Lane:
        """The engine's lane once it is ready; see `Starting.ensure_ready` for the refusals."""
        lane = self.lanes.get(engine)
        await self.starting.ensure_ready(lane, ask, wait_s=wait_s)
        return lane

    async def stop(
        self, engine: str, by: Requester, *, timeout_s: float = DRAIN_S, now: bool = False
    ) -> None:
        """Drain up to `timeout_s`, end what is left with an error frame, stop (ENG-6, GW-8).

        `now` drains nothing. A start under way is called off. Stopped already is a success. Goes on when the
        caller leaves. Refuses `orchestration_disabled`, `not_launchable` (external), `stop_unverified`,
        `memory_residue`, `leased`.
        """
        lane = self.lanes.get(engine)
        self._ours(lane, by)
        await _carried(self._stop(lane, by, timeout_s=timeout_s, now=now))

    async def _stop(self, lane: Lane, by: Requester, *, timeout_s: float, now: bool) -> None:
        lane.owed = False
        await self.stopping.cancel_start(lane)
        if not now and lane.requests:
            await self.stopping.drain(lane, by="stop", timeout_s=timeout_s, actor=by.tag())
        await self.stopping.stop(lane, actor=by.tag(), why=f"stopped by {by.tag()}", now=now)

    async def drain(self, engine: str, by: Requester, *, timeout_s: float = DRAIN_S) -> int:
        """Take no new requests and let those under way finish; at the deadline end them (GW-8).

        Returns how many were ended with an error frame. The engine stays DRAINING until `resume`,
        a stop, or the daemon's end; a `resume` before the deadline ends nothing. Refuses as `stop`.
        """
        lane = self.lanes.get(engine)
        self._ours(lane, by)
        if await self.stopping.drain(lane, by=BY_HAND, timeout_s=timeout_s, actor=by.tag()):
            return 0
        if BY_HAND not in lane.drains:
            return 0
        left = len(lane.requests)
        await self.stopping.cut(lane, self.stopping.drained(lane, timeout_s))
        return left

    async def suspend(self, engine: str, by: Requester, *, timeout_s: float = DRAIN_S) -> None:
        """Keep it stopped until `resume`, across restarts: recorded first, then stopped (NODE-5).

        Nothing else brings it up meanwhile either (ENG-2). Goes on when the caller leaves. Refuses as `stop`,
        and `store_full` before anything is stopped.
        """
        lane = self.lanes.get(engine)
        self._ours(lane, by)
        await _carried(self._suspend(lane, by, timeout_s))

    async def _suspend(self, lane: Lane, by: Requester, timeout_s: float) -> None:
        await self.suspensions.add(lane, person(by))
        await self.revivals.keep_off(lane, person(by))
        await self._stop(lane, by, timeout_s=timeout_s, now=False)

    async def resume(self, engine: str, by: Requester) -> None:
        """Take away the suspensions of people, and let a draining engine take requests again.

        What else brought it up before does so again; refuses `engine_failed` when that cannot be put back.
        Nobody's lease has the engine here, or the guard refuses: what a lease that is over left goes as well.
        """
        lane = self.lanes.get(engine)
        self._ours(lane, by)
        await _carried(self._resume(lane, by))
        self.stopping.undrain(lane, by=BY_HAND, actor=by.tag())

    async def _resume(self, lane: Lane, by: Requester) -> None:
        free = self.gate.guard.holding(ENGINE, lane.engine.id) is None
        for owner in await self.revivals.owners(lane):
            if free or personal(owner):
                await self.revivals.put_back(lane, owner)
        await self.suspensions.remove(lane, person(by))
        if free:
            for owner in lane.suspended_by:
                await self.suspensions.remove(lane, person(by), owner)

    def clear(self, engine: str, by: Requester) -> None:
        """Let a failed engine be tried again at once (ENG-3). Not failed: nothing to do.

        What a stop could not end stays on record: the next start tries to end it first. Refuses `leased`.
        """
        lane = self.lanes.get(engine)
        self.gate.guard.check(ENGINE, lane.engine.id, by, self.clock.now())
        lane.crashes, lane.retry_at = 0, 0.0
        if lane.state is not State.FAILED:
            return
        if lane.run is None:
            self.lanes.move(lane, Cleared(engine=lane.engine.id, at=self.clock.now()), actor=by.tag())
        else:
            lane.cleared = True

    async def why(self, engine: str, ask: Ask) -> tuple[Check, ...]:
        """Every check of the gate in order with its result; starts nothing (GATE-2)."""
        lane = self.lanes.get(engine)
        await self.gate.survey(lane)
        topology, members = await self.gate.topology(lane), await self.gate.member_refusal(lane, ask)
        checks = self.gate.explain(ask, topology, members)
        left = leaves_failed_in(self.clock.elapsed() - lane.changed_at, ask.cause)
        if lane.state is not State.FAILED or left <= 0:
            return checks
        again = f"it is tried again in {format_duration(left)}, or after `hostler clear {engine}`"
        text = f"{lane.status.why}; {again}"
        failed = Check(name="last_start", result=Result.REFUSED, text=text, code=EngineFailed.code)
        return (*checks, failed)

    def tail(self, engine: str, lines: int) -> list[str]:
        """The engine's last log lines, oldest first, as it wrote them (ENG-12)."""
        lane = self.lanes.get(engine)
        return self.drivers[lane.launch.driver].tail(lane.launch, lines)

    async def adopt(self, lane: Lane) -> None:
        """Find what an earlier daemon left running, by its recorded identity (ENG-7).

        Ready as itself: taken over. Loading still: waited for like a start of ours. Anything else that
        is alive: failed, never routed to, stopped before its next start. Not alive: stopped is what it is.
        One that was suspended while it ran is stopped: that its suspension did not get so far is no leave.
        """
        lane.known = False
        try:
            self.suspensions.recall(lane)
            self.measure.recall(lane)
            run = await self._found_running(lane)
            if run is None or lane.state not in (State.STOPPED, State.FAILED):
                return
            lane.take_over(run)
            self.lanes.move(lane, Found(engine=lane.engine.id, at=self.clock.now()))
        finally:
            lane.known = True
            lane.notify()
        await self._first_look(lane)
        if lane.suspended_by not in ((), (UNREADABLE,)) and self.gate.orchestration_off() is None:
            await self.stopping.stop(lane, actor="daemon", why=f"suspended by {', '.join(lane.suspended_by)}")

    async def _found_running(self, lane: Lane) -> Run | None:
        """Its run. One that cannot be asked about is FAILED: that it is stopped was not seen."""
        try:
            if self.gate.orchestration_off() is None:
                await self.revivals.keep_still_off(lane)
            return await self._recorded(lane)
        except EngineFailed as failure:
            if lane.state is State.STOPPED:
                at = self.clock.now()
                self.lanes.move(lane, Failed(engine=lane.engine.id, at=at, why=failure.why))
            return None

    async def _recorded(self, lane: Lane) -> Run | None:
        """What its driver finds, else what another driver started while the config named that one."""
        own = lane.launch.driver
        run = await self.drivers[own].adopt(lane.launch)
        others = () if own == DriverKind.EXTERNAL else (it for it in RECORDING if it != own)
        for kind in others:
            if run is None and kind in self.drivers:
                run = await self.drivers[kind].adopt(replace(lane.launch, driver=kind))
        return run

    async def _first_look(self, lane: Lane) -> None:
        driver = self.drivers[lane.launch.driver]
        deadline = self.clock.elapsed() + self.starting.budget_s(lane)
        while True:
            probe = await driver.probe(lane.launch, lane.run)
            if lane.state is not State.UNKNOWN:
                # Somebody stops it meanwhile.
                return
            verdict = judge(probe, health=lane.launch.health, model=lane.launch.model)
            if verdict is Readiness.READY:
                self.lanes.move(lane, BecameReady(engine=lane.engine.id, at=self.clock.now()))
                return
            if verdict is Readiness.DEAD:
                lane.run = None
                self.lanes.move(lane, Stopped(engine=lane.engine.id, at=self.clock.now()))
                return
            late = self.clock.elapsed() >= deadline
            if late or verdict not in (Readiness.LOADING, Readiness.UNREACHABLE):
                why = f"found running but {verdict.value.replace('_', ' ')}: {probe.detail}"
                self.lanes.move(lane, Failed(engine=lane.engine.id, at=self.clock.now(), why=why))
                return
            await self.clock.sleep(FIRST_LOOKS_S)

    def _ours(self, lane: Lane, by: Requester) -> None:
        """Refuse what is not ours to touch, or somebody's lease has (LEASE-15)."""
        off = self.gate.orchestration_off()
        if off is not None:
            raise OrchestrationDisabled(host=lane.engine.host, why=off)
        self.gate.startable(lane)
        for it in (lane, lane.server):
            if it is not None:
                self.gate.guard.check(ENGINE, it.engine.id, by, self.clock.now())


def person(by: Requester) -> str:
    """The owner of a suspension that a person makes: `person:NAME`."""
    name = by.client if by.client != "-" else by.key if by.key != "-" else "cli"
    return f"person:{name}"


async def _carried(work: Coroutine[object, object, None]) -> None:
    """Do all of `work`, whoever asked for it may leave: half a stop is none."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(heard)
    await asyncio.shield(task)
