"""Loading: from the spawn of an engine to its first healthy answer (ENG-3, ENG-4, ENG-5, MEM-3).

Decides when a start that began has become ready or has failed, and leaves nothing of one that failed. Who
may start, and what must make way, was decided before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass

from hostler.domain.engine import (
    BecameReady,
    Failed,
    Probe,
    Readiness,
    Run,
    StartBegun,
    judge,
)
from hostler.domain.errors import (
    EngineFailed,
    MemoryNow,
    MemoryResidue,
    PortConflict,
    Refusal,
)
from hostler.domain.values import exact_duration, gib
from hostler.services.lanes import Lane, Lanes, heard
from hostler.services.measure import Measure
from hostler.services.needs import Clock, Driver
from hostler.services.stopping import Stopping

LOG_LINES = 200
"""Last log lines that a failed start keeps (ENG-3)."""
FIRST_LOOK_S = 0.05
LOOK_S = 0.25
"""How often a start is looked at: readiness, and the memory floor (MEM-3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """Loads one engine at a time."""

    lanes: Lanes
    stopping: Stopping
    measure: Measure
    drivers: Mapping[str, Driver]
    clock: Clock

    async def load(self, lane: Lane, *, actor: str, cause: str, budget_s: float) -> None:
        """Spawn it and return once it is ready. The gate has just said yes.

        Refuses `engine_failed`, `port_conflict`, `not_launchable`, `memory_now`, `stop_unverified`. Cancelled
        it leaves the engine STARTING: who calls a start off stops it; at the daemon's end it is adopted.
        """
        began = StartBegun(engine=lane.engine.id, at=self.clock.now())
        self.measure.begin(lane)
        self.lanes.move(lane, began, actor=actor, message=f"for {cause}")
        try:
            lane.run = await self.drivers[lane.launch.driver].start(lane.launch)
            await self._until_ready(lane, lane.run, budget_s)
        except asyncio.CancelledError:
            self.measure.abandon(lane)
            raise
        except Exception as error:
            await _whole(self._clean_up(lane, error))
            raise
        lane.load_s = self.clock.elapsed() - lane.changed_at
        self.lanes.move(lane, BecameReady(engine=lane.engine.id, at=self.clock.now()), actor=actor)
        await self.measure.end(lane)

    # ------------------------------------------------------------ until it is ready

    async def _until_ready(self, lane: Lane, run: Run, budget_s: float) -> None:
        """Look, watch the floor and wait for its end, all at once: a slow answer delays none of them."""
        floor = asyncio.ensure_future(self._floor(lane))
        ended = asyncio.ensure_future(self.drivers[lane.launch.driver].wait_exit(lane.launch, run))
        ready = asyncio.ensure_future(self._looks(lane, run, budget_s))
        try:
            await asyncio.wait((floor, ended, ready), return_when=asyncio.FIRST_COMPLETED)
            if floor.done():
                floor.result()
            if ended.done():
                raise EngineFailed(engine=lane.engine.id, why=f"it {ended.result()} while loading")
            ready.result()
        finally:
            for task in (floor, ended, ready):
                task.cancel()
            await asyncio.gather(floor, ended, ready, return_exceptions=True)

    async def _looks(self, lane: Lane, run: Run, budget_s: float) -> None:
        driver = self.drivers[lane.launch.driver]
        deadline = self.clock.elapsed() + budget_s
        pause = FIRST_LOOK_S
        while True:
            probe = await driver.probe(lane.launch, run)
            if self._judged(lane, probe):
                return
            if self.clock.elapsed() >= deadline:
                why = f"not ready after {exact_duration(round(budget_s))}; {probe.detail}"
                raise EngineFailed(engine=lane.engine.id, why=why)
            await self.clock.sleep(pause)
            pause = min(LOOK_S, pause * 2)

    def _judged(self, lane: Lane, probe: Probe) -> bool:
        """Whether it is ready; raises when it never will be (ENG-4)."""
        match judge(probe, health=lane.launch.health, model=lane.launch.model):
            case Readiness.READY:
                return True
            case Readiness.STRANGER:
                raise PortConflict(engine=lane.engine.id, port=lane.launch.port, holder=probe.stranger)
            case Readiness.WRONG_MODEL:
                serves = ", ".join(probe.model_ids)
                why = f"it serves {serves}, expected {lane.launch.model}"
                raise EngineFailed(engine=lane.engine.id, why=why)
            case Readiness.DEAD:
                raise EngineFailed(engine=lane.engine.id, why=f"it died while loading; {probe.detail}")
            case _:
                return False

    async def _floor(self, lane: Lane) -> None:
        """Return never; refuse `memory_now` when this start pushed a pool under its floor (MEM-3)."""
        while (crossed := self.measure.sample(lane)) is None:
            await self.clock.sleep(LOOK_S)
        raise MemoryNow(
            engine=lane.engine.id,
            host=lane.engine.host,
            arithmetic=f"its start left {gib(crossed.available)} GiB of {crossed.pool}, under the floor of"
            f" {gib(crossed.floor)}, and was ended",
            retry_after=60,
        )

    # ------------------------------------------------------------ when it is not to be

    async def _clean_up(self, lane: Lane, error: Exception) -> None:
        """Stop what this start started, keep its last words, and say that it failed (ENG-3)."""
        why = "an internal error ended its start"
        if isinstance(error, Refusal):
            why = error.why if isinstance(error, EngineFailed) else str(error)
        try:
            await self._take_down(lane)
        finally:
            lane.last_lines = last_lines(self.drivers[lane.launch.driver], lane)
        self.lanes.move(lane, Failed(engine=lane.engine.id, at=self.clock.now(), why=why))

    async def _take_down(self, lane: Lane) -> None:
        """End the run and wait for its memory: the next try is judged by what is available then (MEM-4)."""
        baseline = self.measure.baseline(lane)
        self.measure.drop(lane)
        if lane.run is None:
            return
        await self.stopping.take_down(lane)
        try:
            await self.stopping.memory_back(lane, baseline, dict.fromkeys(baseline, 0))
        except MemoryResidue:
            # Told as an event and kept in the status; that the start failed, and why, is what callers need.
            return


def last_lines(driver: Driver, lane: Lane) -> tuple[str, ...]:
    """The engine's last words (ENG-3); a log that cannot be read has none."""
    try:
        return tuple(driver.tail(lane.launch, LOG_LINES))
    except (OSError, Refusal) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return (f"(the log cannot be read: {why or error})",)


async def _whole(work: Coroutine[object, object, None]) -> None:
    """Do all of `work`, though the start is called off meanwhile; that takes effect after it."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(heard)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
