"""What a lease does to the engines of this host: drain, suspend, stop, start, resume (LEASE-2, LEASE-13).

Decides how each is done with what this daemon has, and when it was seen to hold. Which come when is the
plan's, whether they may be done at all is the node's decision, which fenced them. An engine that is busy is
never cut by an activation (LEASE-12); an undo ends what still runs in what the lease started.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from hostler.domain.engine import State
from hostler.domain.errors import MIN_RETRY_S, Draining, MemoryResidue, OrchestrationDisabled
from hostler.domain.gate import Ask
from hostler.domain.hold import parse_instant
from hostler.domain.step import (
    DrainEngine,
    EndDrain,
    FoundEngine,
    Operation,
    ResumeEngine,
    StartEngine,
    StopEngine,
    SuspendEngine,
)
from hostler.domain.values import Cause, EngineId, Requester, ServingClass, format_duration
from hostler.services.engines import Engines
from hostler.services.lanes import Lane
from hostler.services.proving import Proving
from hostler.services.stopping import DRAIN_S

EngineWork = DrainEngine | SuspendEngine | StopEngine | StartEngine | ResumeEngine | EndDrain

_UP = (State.READY, State.DRAINING)


def requester_of(operation: Operation) -> Requester:
    """Who a step of a lease is, for the log; of a member the distributed engine that it is of."""
    of = _of(operation)
    if of:
        return Requester(client=f"distributed/{of}"[:40])
    return Requester(client=f"lease/{operation.lease}"[:40], lease=operation.lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEngines:
    """The engine steps of one host."""

    engines: Engines
    proving: Proving

    async def preflight(self, operation: Operation, step: EngineWork) -> None:
        """Whether it could be done now, as far as can be told before anything is changed.

        Refuses `engine_not_found`, `not_launchable`, `orchestration_disabled`; for a start what the gate
        would say without a look at the machine: what is stopped before gives memory back. Before the start of
        a distributed engine nothing is stopped: all that the gate of its member says is told.
        """
        lane = self._ours(step)
        if not isinstance(step, StartEngine) or lane.ready:
            return
        ask, gate = self._ask(operation, lane, step), self.engines.gate
        await gate.survey(lane)
        refusal = gate.probe(ask) if step.of else gate.peek(ask)
        if refusal is not None:
            raise refusal

    async def observe(self, operation: Operation, step: EngineWork) -> FoundEngine:
        """The engine as it is; one that an earlier daemon left is looked at first (ENG-7)."""
        lane = self.engines.lanes.get(step.engine)
        await self._known(lane, operation.deadline_s)
        return FoundEngine(
            up=lane.state in _UP,
            suspended_by=lane.suspended_by,
            draining_by=tuple(sorted(lane.drains)),
            state=lane.state.value,
            revival=await self.engines.revivals.found(lane),
            lives=lane.state not in _UP and (lane.state.up or lane.run is not None),
        )

    async def perform(self, operation: Operation, step: EngineWork) -> None:
        """Do it, whatever state the engine is in."""
        lane = self._ours(step)
        await self._known(lane, operation.deadline_s)
        match step:
            case DrainEngine(drain_s=drain_s):
                await self._drain(operation, lane, drain_s)
            case SuspendEngine(memory_back=memory_back):
                await self.engines.suspensions.add(lane, operation.lease)
                await self.engines.revivals.keep_off(lane, operation.lease)
                await self._down(operation, lane, memory_back=memory_back)
            case StopEngine(memory_back=memory_back):
                if _stays_down(operation):
                    await self.engines.revivals.keep_off(lane, operation.lease)
                await self._stop(operation, lane, memory_back=memory_back)
            case StartEngine():
                await self._start(operation, lane, step)
            case ResumeEngine(start=start):
                await self._resume(operation, lane, start=start)
            case EndDrain():
                self.engines.stopping.undrain(lane, by=operation.lease, actor=_actor(operation))

    async def verify(self, operation: Operation, step: EngineWork) -> str | None:
        """None when it is seen to hold now, else what is seen instead."""
        lane = self.engines.lanes.get(step.engine)
        await self._known(lane, operation.deadline_s)
        match step:
            case DrainEngine():
                return _not_drained(lane, operation.lease)
            case SuspendEngine() | StopEngine():
                return await self._not_away(operation, lane, step)
            case StartEngine():
                return await self.proving.look(lane)
            case ResumeEngine(start=start):
                if operation.lease in lane.suspended_by:
                    return f"{step.engine} is still suspended by the lease"
                if operation.lease in await self.engines.revivals.owners(lane):
                    return f"what else brings {step.engine} up is not put back"
                return await self.proving.look(lane) if start and not lane.suspended_by else None
            case EndDrain():
                return "the lease still drains it" if operation.lease in lane.drains else None

    # ------------------------------------------------------------ down

    async def _drain(self, operation: Operation, lane: Lane, drain_s: float) -> None:
        """Past its deadline it takes requests again and the step fails; nothing is cut (R14, LEASE-12)."""
        stopping, claim, actor = self.engines.stopping, operation.lease, _actor(operation)
        try:
            drained = await stopping.drain(lane, by=claim, timeout_s=drain_s, actor=actor)
        except asyncio.CancelledError:
            stopping.undrain(lane, by=claim, actor=actor)
            raise
        if not drained:
            left = len(lane.requests)
            stopping.undrain(lane, by=claim, actor=actor)
            why = f"{left} of its requests did not end within {format_duration(drain_s)}"
            raise Draining(engine=lane.engine.id, why=why, retry_after=MIN_RETRY_S)

    async def _stop(self, operation: Operation, lane: Lane, *, memory_back: bool) -> None:
        """Drain what is still in it, bounded, then stop: what a lease started ends with the lease."""
        if lane.requests:
            left = min(DRAIN_S, operation.deadline_s, self._until_cap(operation))
            await self.engines.stopping.drain(
                lane, by=operation.lease, timeout_s=left, actor=_actor(operation)
            )
            lane.owed = False
            await self._go_down(operation, lane, memory_back=memory_back)
            return
        await self._down(operation, lane, memory_back=memory_back)

    async def _down(self, operation: Operation, lane: Lane, *, memory_back: bool) -> None:
        """Call off its start and stop it. One with requests is not touched: it was not drained (LEASE-12)."""
        lane.owed = False
        await self.engines.stopping.cancel_start(lane)
        if lane.requests:
            why = f"{len(lane.requests)} of its requests are under way"
            raise Draining(engine=lane.engine.id, why=why, retry_after=MIN_RETRY_S)
        await self._go_down(operation, lane, memory_back=memory_back)

    async def _go_down(self, operation: Operation, lane: Lane, *, memory_back: bool) -> None:
        try:
            whose = _of(operation) or f"the lease {operation.lease}"
            await self.engines.stopping.stop(lane, actor=_actor(operation), why=f"for {whose}")
        except MemoryResidue:
            # Without `memory_back` it is told as an event and kept in the status, and the step goes on.
            if memory_back:
                raise
        if memory_back and lane.residue is not None:
            raise MemoryResidue(engine=lane.engine.id, host=lane.engine.host, residue=lane.residue)

    # ------------------------------------------------------------ up

    async def _start(self, operation: Operation, lane: Lane, step: StartEngine | None = None) -> None:
        """Through the gate like every start, then seen to serve as itself (GATE-3, LEASE-13).

        A member of a distributed engine is ready when it is: what is proven is the whole.
        """
        if lane.state is State.FAILED:
            lane.cleared = True
        ask = self._ask(operation, lane, step)
        await self.engines.starting.ensure_ready(lane, ask, wait_s=operation.deadline_s)
        if step is None or not step.of:
            await self.proving.prove(lane)
            await self._whole(lane)

    async def _whole(self, lane: Lane) -> None:
        """Once a window has started the last of its members the whole is up: a route may lead there."""
        whole = self.engines.lanes.by_id.get(lane.engine.of) if lane.engine.of is not None else None
        if whole is not None and whole.server is lane and whole.at_rest:
            await self.engines.adopt(whole)

    async def _resume(self, operation: Operation, lane: Lane, *, start: bool) -> None:
        """Take away the lease's own suspension only; what somebody else suspended stays so (R29, NODE-5)."""
        await self.engines.revivals.put_back(lane, operation.lease)
        await self.engines.suspensions.remove(lane, _actor(operation), owner=operation.lease)
        if start and not lane.suspended_by:
            await self._start(operation, lane)

    # ------------------------------------------------------------ what both need

    def _until_cap(self, operation: Operation) -> float:
        """Seconds until a window's cap, at which what is under way ends (WIN-2); of a lease there is none."""
        end = parse_instant(operation.expires_at)
        if operation.stop_accepting_at is None or end is None:
            return math.inf
        return max(0.0, (end - self.engines.clock.now()).total_seconds())

    def _ask(self, operation: Operation, lane: Lane, step: StartEngine | None = None) -> Ask:
        override = ServingClass(step.override) if step is not None and step.override else None
        whole = step is not None and bool(step.of)
        return Ask(
            engine=EngineId(lane.engine.id),
            cause=Cause(step.cause) if step is not None and step.cause else Cause.STEP,
            requester=requester_of(operation),
            override=override,
            lease=(step.lease or None) if step is not None and whole else operation.lease,
            of=EngineId(step.of) if step is not None and whole else None,
        )

    def _ours(self, step: EngineWork) -> Lane:
        lane = self.engines.lanes.get(step.engine)
        off = self.engines.gate.orchestration_off()
        if off is not None:
            raise OrchestrationDisabled(host=lane.engine.host, why=off)
        self.engines.gate.startable(lane)
        return lane

    async def _not_away(
        self, operation: Operation, lane: Lane, step: SuspendEngine | StopEngine
    ) -> str | None:
        """Why it does not count as suspended or stopped, None when it does."""
        if isinstance(step, SuspendEngine) and operation.lease not in lane.suspended_by:
            return f"{step.engine} is not suspended by the lease"
        seen = _not_down(lane, memory_back=step.memory_back)
        if seen is None and (isinstance(step, SuspendEngine) or _stays_down(operation)):
            return await self._revived(lane)
        return seen

    async def _revived(self, lane: Lane) -> str | None:
        """What else would bring it up, None when nothing does."""
        revival = await self.engines.revivals.found(lane)
        return None if revival is None else f"{lane.engine.id} is brought up by something else: {revival}"

    async def _known(self, lane: Lane, within_s: float) -> None:
        deadline = self.engines.clock.elapsed() + within_s
        await self.engines.lanes.until(lane, deadline, lambda it: it.known and it.state is not State.UNKNOWN)


def _stays_down(operation: Operation) -> bool:
    """Whether a stop is a step, which knows what it found; as an undo it ends what the lease started."""
    return operation.found is not None


def _of(operation: Operation) -> str:
    """The distributed engine of which a member is started or stopped; empty for a lease's own step."""
    step = operation.step
    return step.of if isinstance(step, StartEngine | StopEngine) else ""


def _actor(operation: Operation) -> str:
    of = _of(operation)
    return f"distributed:{of}" if of else f"lease:{operation.lease}"


def _not_drained(lane: Lane, lease: str) -> str | None:
    if lane.requests:
        return f"{len(lane.requests)} requests are under way in {lane.engine.id}"
    if lane.ready or (lane.state is State.DRAINING and lease not in lane.drains):
        return f"{lane.engine.id} is {lane.state}, and not drained by the lease"
    return None


def _not_down(lane: Lane, *, memory_back: bool) -> str | None:
    if lane.state.up or lane.run is not None:
        return f"{lane.engine.id} is {lane.state}" + (f": {lane.status.why}" if lane.status.why else "")
    if memory_back and lane.residue is not None:
        return f"{lane.residue} of the memory of {lane.engine.id} is not back"
    return None
