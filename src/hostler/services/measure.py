"""What engines really take: peak while loading, steady once ready (MEM-5), and the floor (MEM-3).

Decides what a start's memory is: how far each pool's available memory fell since just before the spawn.
Keeps it in `engines/<id>/measured.json`, so that it is the engine's need from then on (MEM-2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.memory import Pools, effective_need, floor_of, pool_of
from hostler.domain.values import EngineId, format_size, sizes
from hostler.services.lanes import Lane, Lanes
from hostler.services.needs import Clock, Driver, Events, MemoryReader, StateFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """A pool that a start pushed under its floor, in bytes."""

    pool: str
    available: int
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Measures starts, one at a time per host."""

    lanes: Lanes
    memory: MemoryReader
    drivers: Mapping[str, Driver]
    files: StateFiles
    clock: Clock
    events: Events
    baselines: dict[EngineId, Pools] = field(default_factory=dict)
    peaks: dict[EngineId, Mapping[str, int]] = field(default_factory=dict)

    def begin(self, lane: Lane) -> None:
        """Note what is available just before the spawn.

        What an earlier start took stays its measure until this one is ready. While nobody knows what it
        needs it is measured alone (MEM-2). Of a distributed engine each member is measured by itself.
        """
        if lane.engine.members:
            return
        self.baselines[lane.engine.id] = self._pools()
        self.peaks.pop(lane.engine.id, None)
        lane.taken = frozen({})
        lane.unmeasured = effective_need(lane.engine.need, lane.peak) is None

    def baseline(self, lane: Lane) -> Pools:
        """What was available just before the spawn of the start that is under way."""
        return self.baselines.get(lane.engine.id, {})

    def abandon(self, lane: Lane) -> None:
        """The start was called off: what it took so far is what its stop is to give back (MEM-4)."""
        lane.taken = frozen(self.peaks.get(lane.engine.id, {}))
        self.drop(lane)

    def drop(self, lane: Lane) -> None:
        """The start failed: it measured nothing."""
        self.baselines.pop(lane.engine.id, None)
        self.peaks.pop(lane.engine.id, None)
        lane.unmeasured = False

    def sample(self, lane: Lane) -> Crossed | None:
        """Look once while it loads: keep the peak, and name a pool that fell under its floor (MEM-3).

        A pool that was under its floor before this start is not this start's doing.
        """
        baseline, now = self.baseline(lane), self._pools()
        taken = self._taken(lane, baseline, now)
        self.peaks[lane.engine.id] = _larger(self.peaks.get(lane.engine.id, {}), taken)
        for name, reading in now.items():
            floor = floor_of(pool_of(self.lanes.config.fleet.host, name), reading)
            before = baseline.get(name)
            if before is not None and reading.available < floor <= before.available:
                return Crossed(pool=name, available=reading.available, floor=floor)
        return None

    async def end(self, lane: Lane) -> None:
        """It is ready: what it holds now is its steady part. Both are written down and logged.

        A full disk costs the record only: the engine is ready all the same, and the event says so.
        """
        lane.taken = frozen(self._taken(lane, self.baseline(lane), self._pools()))
        measured = _larger(self.peaks.get(lane.engine.id, {}), lane.taken)
        self.drop(lane)
        if not measured:
            return
        lane.peak = frozen(measured)
        unkept = await self._keep(lane)
        parts = ", ".join(f"{name} {format_size(size)}" for name, size in lane.peak.items())
        self.events.emit(
            Event(
                type="engine_measured",
                at=self.clock.now(),
                subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
                message=f"took {parts} at its peak{unkept}",
                facts=frozen(
                    {
                        "peak": dict(lane.peak),
                        "steady": dict(lane.taken),
                        "claim": dict(lane.engine.need),
                    }
                ),
            )
        )

    async def _keep(self, lane: Lane) -> str:
        """Write it down; what is to be said when that failed, else nothing."""
        record: Mapping[str, object] = {"peak": dict(lane.peak), "steady": dict(lane.taken)}
        try:
            await asyncio.to_thread(self.files.save, _name(lane), record)
        except OSError as error:
            return f"; that was not written down: {error.strerror or error}"
        return ""

    def recall(self, lane: Lane) -> None:
        """Read what an earlier start of this engine took; a broken file counts as never measured."""
        try:
            found = self.files.load(_name(lane))
        except ValueError:
            return
        if found is not None:
            lane.peak = frozen(sizes(found.get("peak")))
            lane.taken = frozen(sizes(found.get("steady")))

    def _pools(self) -> Pools:
        """The live readings; of a machine that cannot be read nothing is measured."""
        try:
            return self.memory.read()
        except OSError:
            return {}

    def _taken(self, lane: Lane, baseline: Pools, now: Pools) -> dict[str, int]:
        """Bytes per pool since `baseline`; the host's is at least what the processes hold."""
        taken = {
            name: max(0, baseline[name].available - reading.available)
            for name, reading in now.items()
            if name in baseline
        }
        resident = self.drivers[lane.launch.driver].rss(lane.run) if lane.run is not None else None
        if resident is not None and "host" in taken:
            taken["host"] = max(taken["host"], resident)
        return taken


def _name(lane: Lane) -> str:
    return f"engines/{lane.engine.id}/measured"


def _larger(one: Mapping[str, int], two: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), two.get(name, 0)) for name in (*one, *two)}
