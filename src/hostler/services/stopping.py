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
from hostler.domain.memory import Pools, Sizes, residue
from hostler.domain.values import format_duration, format_size
from hostler.services.lanes import Lane, Lanes, heard
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

    # ------------------------------------------------------------ draining

    def shut(self, lane: Lane, *, by: str, actor: str = "daemon") -> None:
        """Let no new request in, on behalf of `by`. At once: nothing slips in between look and change."""
        if lane.state is State.READY:
            self.lanes.move(lane, DrainBegun(engine=lane.engine.id, at=self.clock.now()), actor=actor)
        if lane.state is State.DRAINING:
            lane.drains.add(by)

    async def drain(self, lane: Lane, *, by: str, timeout_s: float = DRAIN_S, actor: str = "daemon") -> bool:
        """Let no new request in and wait until those under way have ended; whether they did.

        False when `timeout_s` passed, or when it takes requests again. A drained engine stays DRAINING: the
        caller stops it, or calls `undrain`.
        """
        self.shut(lane, by=by, actor=actor)
        deadline = self.clock.elapsed() + timeout_s
        await self.lanes.until(lane, deadline, lambda it: not it.requests or it.state is not State.DRAINING)
        return not lane.requests

    def undrain(self, lane: Lane, *, by: str, actor: str = "daemon") -> None:
        """`by` needs it drained no more; requests come in again when nobody does (EVICT-2)."""
        if lane.state is not State.DRAINING:
            return
        lane.drains.discard(by)
        if not lane.drains:
            self.lanes.move(lane, DrainEnded(engine=lane.engine.id, at=self.clock.now()), actor=actor)

    def drained(self, lane: Lane, timeout_s: float) -> Draining:
        """The error of the requests that a drain's deadline ends (GW-8)."""
        return Draining(engine=lane.engine.id, why=f"its drain of {format_duration(timeout_s)} is over")

    # ------------------------------------------------------------ stopping

    async def cancel_start(self, lane: Lane) -> None:
        """Call off the start that is under way or waits for its turn (ENG-3).

        What it has started is left to `stop`. Twice is once: a start that cleans up is not disturbed.
        """
        start = lane.starting
        if start is None or start.done():
            return
        if not lane.unwanted:
            lane.unwanted = True
            start.cancel()
        await asyncio.wait({start})

    async def stop(
        self, lane: Lane, *, actor: str, why: str, now: bool = False, failed: str | None = None
    ) -> None:
        """Stop the engine, whatever it is doing; join a stop that is under way, `now` hurries that one.

        Requests still under way end with an error frame. `failed` leaves it FAILED for that reason instead of
        STOPPED. Raises StopUnverified when it cannot be seen to be gone, MemoryResidue when its memory does
        not come back.
        """
        if lane.state is State.STARTING:
            await self.cancel_start(lane)
        task = lane.stopping
        if task is None or task.done():
            if lane.state is State.STOPPED or (lane.state is State.FAILED and lane.run is None):
                return
            task = self._begin(lane, actor=actor, why=why, now=now, failed=failed)
        elif now and lane.run is not None:
            await self.drivers[lane.launch.driver].stop(lane.launch, lane.run, timeout_s=0.0, now=True)
        await asyncio.shield(task)

    def _begin(
        self, lane: Lane, *, actor: str, why: str, now: bool, failed: str | None
    ) -> asyncio.Task[None]:
        """From this line on no request enters: a caller that found it idle stops it idle (BG-05)."""
        baseline = self.available()
        self.lanes.move(lane, StopBegun(engine=lane.engine.id, at=self.clock.now()), actor=actor, message=why)
        task = asyncio.create_task(
            self._go_down(lane, baseline, actor=actor, why=why, now=now, failed=failed)
        )
        task.add_done_callback(heard)
        lane.stopping = task
        return task

    async def _go_down(
        self, lane: Lane, baseline: Pools, *, actor: str, why: str, now: bool, failed: str | None
    ) -> None:
        await self.cut(lane, Draining(engine=lane.engine.id, why=why))
        await self.take_down(lane, now=now)
        self.lanes.move(lane, Stopped(engine=lane.engine.id, at=self.clock.now()), actor=actor, message=why)
        if failed is not None:
            # Before anybody who waits for the stop can see it STOPPED: a crash loop ends here (ENG-8).
            self.lanes.give_up(lane, failed)
        await self.memory_back(lane, baseline, lane.taken)

    async def cut(self, lane: Lane, cause: Refusal) -> None:
        """End every stream of the engine with an error frame and close our connections to it (ENG-6)."""
        for request in tuple(lane.requests):
            request.cut(cause)
        if lane.requests:
            await self.lanes.until(lane, self.clock.elapsed() + CUT_S, lambda it: not it.requests)
        self.connections.close(lane.launch.url)

    async def take_down(self, lane: Lane, *, now: bool = False) -> None:
        """Signal the recorded run and look; the run is forgotten only when it was seen to be gone.

        Raises StopUnverified, the engine FAILED and its run still recorded, so that it can be tried again.
        """
        if lane.run is None:
            return
        driver = self.drivers[lane.launch.driver]
        try:
            report = await driver.stop(lane.launch, lane.run, timeout_s=lane.engine.stop_timeout_s, now=now)
        except StopUnverified as refusal:
            # Of a distributed engine: the member that did not stop, or cannot be asked about, is named.
            self._unverified(lane, refusal.why)
            raise
        except Exception as error:
            self._unverified(lane, f"the stop itself broke: {error}")
            raise
        if not report.gone or not report.port_free:
            left = ", ".join(map(str, report.left)) or f"port {lane.launch.port} is still open"
            failure = f"after {format_duration(report.seconds)} and {' '.join(report.signals)}: {left}"
            self._unverified(lane, failure)
            raise StopUnverified(engine=lane.engine.id, why=failure)
        lane.run = None

    def _unverified(self, lane: Lane, why: str) -> None:
        self.lanes.move(lane, Failed(engine=lane.engine.id, at=self.clock.now(), why=why))

    # ------------------------------------------------------------ memory

    def available(self) -> Pools:
        """Every pool now. A machine that cannot be read has none: that keeps nothing from being stopped."""
        try:
            return self.memory.read()
        except OSError:
            return {}

    async def memory_back(self, lane: Lane, baseline: Pools, gave_back: Sizes) -> None:
        """Wait until `gave_back` is available beside `baseline` (MEM-4). Raises MemoryResidue."""
        begun = self.clock.elapsed()
        most = self.lanes.config.fleet.host.max_residue
        while (missing := residue(baseline, self.available(), gave_back, most)) is not None:
            if self.clock.elapsed() - begun >= MEMORY_BACK_S:
                raise self._residue(lane, missing, round(self.clock.elapsed() - begun))
            await self.clock.sleep(MEMORY_LOOK_S)
        lane.residue = None

    def _residue(self, lane: Lane, missing: int, waited_s: int) -> MemoryResidue:
        refusal = MemoryResidue(
            engine=lane.engine.id, host=lane.engine.host, residue=format_size(missing), waited_s=waited_s
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
        return refusal
