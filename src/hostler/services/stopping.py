"""Stopping: drain, signal, look, and wait for the memory (ENG-6, GW-8, MEM-4).

Decides in which order an engine goes down and when that counts as done. Whether it may be stopped is
its caller's decision. One stop per engine at a time: all who ask join it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from hostler.domain.engine import DrainBegun, DrainEnded, Failed, State, StopBegun, Stopped
from hostler.domain.errors import Draining, MemoryResidue, Refusal, StopUnverified
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.memory import Pools, residue
from hostler.domain.values import format_size
from hostler.services.lanes import Lane, Lanes
from hostler.services.needs import Clock, Connections, Driver, Events, MemoryReader

DRAIN_S = 60.0
"""A drain's default deadline (GW-8)."""
CUT_S = 2.0
"""How long streams that were cut have to send their error frame before the first signal."""
MEMORY_BACK_S = 30.0
"""How long memory may take to come back after a stop (MEM-4)."""
MEMORY_LOOK_S = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping:
    """Takes engines of this host down."""

    lanes: Lanes
    drivers: Mapping[str, Driver]
    memory: MemoryReader
    connections: Connections
    clock: Clock
    events: Events

    async def drain(self, lane: Lane, *, timeout_s: float = DRAIN_S, actor: str = "daemon") -> bool:
        """Let no new request in and wait until those under way have ended; whether they did.

        The engine stays DRAINING either way: the caller stops it, or calls `undrain`.
        """
        if lane.state is State.READY:
            self.lanes.move(lane, DrainBegun(engine=lane.engine.id, at=self.clock.now()), actor=actor)
        deadline = self.clock.elapsed() + timeout_s
        return await self.lanes.until(lane, deadline, lambda it: not it.requests or not it.state.up)

    def undrain(self, lane: Lane, *, actor: str = "daemon") -> None:
        """Let requests in again (EVICT-2)."""
        if lane.state is State.DRAINING:
            self.lanes.move(lane, DrainEnded(engine=lane.engine.id, at=self.clock.now()), actor=actor)

    def drained(self, lane: Lane, timeout_s: float) -> Draining:
        """The error of the requests that a drain's deadline ends (GW-8)."""
        return Draining(engine=lane.engine.id, why=f"its drain of {timeout_s:.0f} s is over")

    async def stop(self, lane: Lane, *, actor: str, why: str, now: bool = False) -> None:
        """Stop the engine, whatever it is doing; join a stop that is under way.

        Requests still under way end with an error frame. Raises StopUnverified when it cannot be seen
        to be gone, MemoryResidue when its memory does not come back.
        """
        task = lane.stopping
        if task is None or task.done():
            task = asyncio.create_task(self._stop(lane, actor=actor, why=why, now=now))
            lane.stopping = task
        await asyncio.shield(task)

    async def _stop(self, lane: Lane, *, actor: str, why: str, now: bool) -> None:
        if lane.state is State.STOPPED:
            return
        start = lane.starting
        if start is not None and not start.done() and lane.state is State.STARTING:
            start.cancel()
            await asyncio.wait({start})
            return
        if lane.state is State.FAILED and lane.run is None:
            return
        baseline = self.memory.read()
        self.lanes.move(lane, StopBegun(engine=lane.engine.id, at=self.clock.now()), actor=actor, message=why)
        await self.cut(lane, Draining(engine=lane.engine.id, why=why))
        await self.take_down(lane, now=now)
        self.lanes.move(lane, Stopped(engine=lane.engine.id, at=self.clock.now()), actor=actor, message=why)
        await self._memory_back(lane, baseline)

    async def cut(self, lane: Lane, cause: Refusal) -> None:
        """End every stream of the engine with an error frame and close our connections to it (ENG-6)."""
        for request in tuple(lane.requests):
            request.cut(cause)
        if lane.requests:
            await self.lanes.until(lane, self.clock.elapsed() + CUT_S, lambda it: not it.requests)
        self.connections.close(lane.launch.url)

    async def take_down(self, lane: Lane, *, now: bool = False) -> None:
        """Signal the recorded run and look; the run is forgotten only when it was seen to be gone."""
        if lane.run is None:
            return
        driver = self.drivers[lane.launch.driver]
        report = await driver.stop(lane.launch, lane.run, timeout_s=lane.engine.stop_timeout_s, now=now)
        if not report.gone or not report.port_free:
            left = ", ".join(map(str, report.left)) or f"port {lane.launch.port} is still open"
            failure = f"after {report.seconds:.0f} s and {' '.join(report.signals)}: {left}"
            self.lanes.move(lane, Failed(engine=lane.engine.id, at=self.clock.now(), why=failure))
            raise StopUnverified(engine=lane.engine.id, why=failure)
        lane.run = None

    async def _memory_back(self, lane: Lane, baseline: Pools) -> None:
        """Wait until what the engine held is available again (MEM-4)."""
        begun = self.clock.elapsed()
        while True:
            missing = residue(baseline, self.memory.read(), lane.taken, self.lanes.fleet.host.max_residue)
            waited = self.clock.elapsed() - begun
            if missing is None:
                lane.residue = None
                return
            if waited >= MEMORY_BACK_S:
                break
            await self.clock.sleep(MEMORY_LOOK_S)
        refusal = MemoryResidue(
            engine=lane.engine.id,
            host=lane.engine.host,
            residue=format_size(missing),
            waited_s=round(waited),
        )
        lane.residue = refusal.residue
        self.events.emit(
            Event(
                type="memory_residue",
                at=self.clock.now(),
                subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
                message=str(refusal),
                facts=frozen(refusal.facts()),
            )
        )
        raise refusal
