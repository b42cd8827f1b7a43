"""The floor: the standing watch over this host's memory (MEM-7).

Decides when too little has been left for too long, who is named for it, and which engine goes next where the
config says so. What a floor is, and how long is too long, is `domain.memory`'s decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.engine import State
from hostler.domain.errors import Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import HOST_POOL, frozen
from hostler.domain.holding import ENGINE
from hostler.domain.memory import FloorWatch, available_of, floor_of, pool_of, who_grew
from hostler.domain.values import EngineId, Priority, gib
from hostler.services.engines import Engines
from hostler.services.errands import Errands
from hostler.services.lanes import Lane
from hostler.services.needs import Clock, Driver, Events, MemoryReader

HELD_EVERY_S: Final = 60.0
"""While there is enough, how often it is noted what each engine holds: who grew is told against the last."""

_STOPPABLE = (State.STARTING, State.READY, State.DRAINING)


@dataclass(eq=False, slots=True, kw_only=True)
class Stay:
    """What is remembered of the present stay under the floor, and of the time before. Elapsed seconds."""

    watch: FloorWatch = field(default_factory=FloorWatch)
    since: float | None = None
    held: Mapping[EngineId, Mapping[str, int]] | None = None
    held_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Watches the host's main pool; a full card of its own is no such sign."""

    engines: Engines
    drivers: Mapping[str, Driver]
    memory: MemoryReader
    clock: Clock
    events: Events
    errands: Errands
    stay: Stay = field(default_factory=Stay)

    def tick(self) -> None:
        """One look. Memory that cannot be read is shown by the status; nothing follows from it here."""
        try:
            reading = self.memory.read().get(HOST_POOL)
        except OSError:
            return
        if reading is None:
            return
        pool = pool_of(self.engines.lanes.config.fleet.host, HOST_POOL)
        floor, available = floor_of(pool, reading), available_of(pool, reading)
        stay, now = self.stay, self.clock.elapsed()
        before = stay.watch
        stay.watch = before.step(available=available, floor=floor, now=now)
        if stay.watch.since is None:
            stay.since = None
        elif stay.since is None:
            stay.since = stay.watch.since
        if stay.held is None or (stay.watch.since is None and now - stay.held_at >= HELD_EVERY_S):
            stay.held, stay.held_at = self._holders(), now
        if stay.watch.told and not before.told:
            self._under(available, floor)

    def _holders(self) -> Mapping[EngineId, Mapping[str, int]]:
        held: dict[EngineId, Mapping[str, int]] = {}
        for lane in self.engines.lanes.by_id.values():
            size = self.drivers[lane.launch.driver].rss(lane.run) if lane.run is not None else None
            if size is not None:
                held[lane.engine.id] = frozen({HOST_POOL: size})
        return frozen(held)

    def _under(self, available: int, floor: int) -> None:
        """Say so once per stay, with who grew; then stop the next of `on_floor`, each after another 10 s."""
        grew = who_grew(self.stay.held or {}, self._holders(), HOST_POOL)
        named = ", ".join(f"{engine} grew by {gib(size)} GiB" for engine, size in grew)
        fleet = self.engines.lanes.config.fleet
        left = f"{gib(available)} GiB left, under its floor of {gib(floor)} GiB"
        self.events.emit(
            Event(
                type="memory_floor",
                at=self.clock.now(),
                subject=frozen({"host": fleet.here}),
                message=f"{fleet.here} has {left}: {named or 'no engine of ours grew'}",
                priority=Priority.HIGH,
                once=f"floor {self.stay.since}",
            )
        )
        if self.engines.gate.orchestration_off() is not None:
            return
        going = (self.engines.lanes.get(engine) for engine in fleet.host.on_floor)
        victim = next((lane for lane in going if lane.state in _STOPPABLE and not self._leased(lane)), None)
        if victim is not None:
            self.stay.watch = FloorWatch(since=self.clock.elapsed())
            self.errands.begin(self._stop(victim))

    def _leased(self, lane: Lane) -> bool:
        """What somebody leased is theirs until the lease is over (LEASE-15)."""
        return self.engines.gate.guard.holding(ENGINE, lane.engine.id) is not None

    async def _stop(self, lane: Lane) -> None:
        lane.owed = False
        try:
            await self.engines.stopping.stop(lane, actor="watchdog", why="memory is under the floor")
        except Refusal as refusal:
            self.events.emit(
                Event(
                    type="deferred",
                    at=self.clock.now(),
                    subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
                    message=str(refusal),
                )
            )
