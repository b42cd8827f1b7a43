"""Probing: whether what runs still serves, and what becomes of what does not (ENG-8, ENG-9).

Decides when to look at an engine, and that one which failed is stopped and owed a restart. What a look means
is the domain's decision; the restart itself goes through the gate like any start (`services.watch`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.engine import BecameReady, Failed, Found, Readiness, Run, State, Stopped, judge
from hostler.domain.errors import Refusal
from hostler.domain.fleet import DriverKind, frozen
from hostler.domain.start_policy import after_failure
from hostler.domain.values import EngineId, format_duration
from hostler.domain.watchdog import PROBE_EVERY_S, Progress, observe, progress
from hostler.services.engines import Engines
from hostler.services.errands import Errands
from hostler.services.lanes import Lane
from hostler.services.loading import last_lines
from hostler.services.needs import Activity, Clock, Driver

ACTIVITY_EVERY_S: Final = 10.0
YOUNG_S: Final = 120.0
"""An engine that fails within this of becoming ready counts as failing again, not anew."""
WATCHDOG: Final = "watchdog"

_STARTED_BY_OTHERS: Final = (DriverKind.CONTAINER, DriverKind.COMPOSE)
"""Drivers of what other programs start as well: one that was stopped is looked for now and then (ENG-2)."""
_SERVING = (State.READY, State.DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """Looks at the engines of this host. The mappings are what it remembers of each between two ticks."""

    engines: Engines
    drivers: Mapping[str, Driver]
    activity: Activity
    clock: Clock
    errands: Errands
    probed: dict[EngineId, float] = field(default_factory=dict)
    progress: dict[EngineId, Progress] = field(default_factory=dict)
    exits: dict[EngineId, Run] = field(default_factory=dict)

    def tick(self) -> None:
        """Begin the looks that are due: each engine that should run every 10 s (ENG-8)."""
        now = self.clock.elapsed()
        for lane in self.engines.lanes.by_id.values():
            self._await_exit(lane)
            if now - self.probed.get(lane.engine.id, float("-inf")) >= PROBE_EVERY_S and self._probe(lane):
                self.probed[lane.engine.id] = now
            if self._asks(lane) and now - lane.looked >= ACTIVITY_EVERY_S:
                lane.looked = now
                self.errands.begin(self._direct_traffic(lane))

    def _probe(self, lane: Lane) -> bool:
        """Begin a look, by what is ours to do about it. Whether there was anything to look at."""
        off = self.engines.gate.orchestration_off() is not None
        if lane.launch.driver == DriverKind.EXTERNAL or (
            off and lane.state is State.FAILED and lane.run is not None
        ):
            self.errands.begin(self.look_outside(lane))
        elif lane.state in _SERVING:
            self.errands.begin(self.look(lane))
        elif lane.state in (State.STOPPED, State.FAILED) and (off or _may_be_up(lane)):
            # Nothing is started here; another may have started it, and consuming works (GATE-4).
            self.errands.begin(self.engines.adopt(lane))
        else:
            return False
        return True

    # ------------------------------------------------------------ engines of ours

    async def look(self, lane: Lane) -> None:
        """Probe one running engine; one that failed is stopped and owed a restart."""
        run = lane.run
        probe = await self.drivers[lane.launch.driver].probe(lane.launch, run)
        moved = await self._moved(lane)
        if lane.run is not run or lane.state not in _SERVING:
            return
        verdict = judge(probe, health=lane.launch.health, model=lane.launch.model)
        pulse = observe(lane.failures, verdict, progressed=moved)
        lane.failures = pulse.failures
        stalled = self._stalled(lane)
        if pulse.failed:
            await self.failed(lane, run, f"{verdict.value.replace('_', ' ')}: {probe.detail}")
        elif stalled is not None:
            await self.failed(lane, run, stalled)

    async def _moved(self, lane: Lane) -> bool:
        """Whether its work went on since the last look, by the bytes that passed us and by its own count."""
        before = self.progress.get(lane.engine.id)
        mark = float(sum(it.bytes_out for it in lane.requests))
        if lane.requests and before is not None and mark == before.mark:
            counted = await self.activity.read(lane.launch)
            mark += counted if counted is not None and counted != float("inf") else 0.0
        after = progress(before, in_flight=len(lane.requests), mark=mark, now=self.clock.elapsed())
        if after is None:
            self.progress.pop(lane.engine.id, None)
            return False
        self.progress[lane.engine.id] = after
        return before is not None and after != before

    def _stalled(self, lane: Lane) -> str | None:
        now, work = self.clock.elapsed(), self.progress.get(lane.engine.id)
        if work is None or not work.stalled(now):
            return None
        idle = now - work.since
        return (
            f"{len(lane.requests)} requests are under way and nothing has moved for {format_duration(idle)}"
        )

    def _await_exit(self, lane: Lane) -> None:
        if lane.run is None or lane.state not in _SERVING or self.exits.get(lane.engine.id) is lane.run:
            return
        self.exits[lane.engine.id] = lane.run
        self.errands.begin(self.watch_exit(lane, lane.run))

    async def watch_exit(self, lane: Lane, run: Run) -> None:
        """Wait for the end of `run`; an end that nobody asked for is a failure."""
        report = await self.drivers[lane.launch.driver].wait_exit(lane.launch, run)
        await self.failed(lane, run, f"it {report}", ended=True)

    async def failed(self, lane: Lane, run: Run | None, why: str, *, ended: bool = False) -> None:
        """That run failed: end what is left of it, and owe it a restart through the gate (ENG-8).

        One that fails again soon after is owed as many as a start has tries, then left failed (ENG-3). A
        distributed engine and its members are owed none: that is left to whoever may start it (ENG-11). Where
        nothing is ours to stop it is only marked (GATE-4), and a leased one that still lives is touched when
        the lease is over (LEASE-15). What is being stopped, or gone, did not fail. `ended`: by itself, so
        that its memory is back already, and none is waited for.
        """
        if lane.run is not run or lane.state not in _SERVING:
            return
        now = self.clock.elapsed()
        young = lane.ready_at is not None and now - lane.ready_at < YOUNG_S
        lane.crashes = lane.crashes + 1 if young else 1
        lane.failures = 0
        lane.last_lines = last_lines(self.drivers[lane.launch.driver], lane)
        at = self.clock.now()
        self.engines.lanes.move(lane, Failed(engine=lane.engine.id, at=at, why=why), actor=WATCHDOG)
        if self.engines.gate.orchestration_off() is not None:
            return
        delay = after_failure(lane.crashes) if _restarts(lane) else None
        lane.owed, lane.retry_at = delay is not None, now + (delay or 0.0)
        if ended:
            lane.taken = frozen({})
        elif self.engines.gate.holding(lane) is not None:
            return
        often = f"{why}; it failed {lane.crashes} times soon after its start" if delay is None else None
        if not _restarts(lane):
            often = why
        try:
            await self.engines.stopping.stop(lane, actor=WATCHDOG, why=why, failed=often)
        except Refusal:
            # Told by the stop itself: stop_unverified leaves it FAILED, a residue is an event of its own.
            return

    # ------------------------------------------------------------ engines of others

    async def look_outside(self, lane: Lane) -> None:
        """Probe one that is not ours to stop: ready when it answers as itself, gone when it does not."""
        probe = await self.drivers[lane.launch.driver].probe(lane.launch, lane.run)
        verdict = judge(probe, health=lane.launch.health, model=lane.launch.model)
        lanes, at, engine = self.engines.lanes, self.clock.now(), lane.engine.id
        if verdict is Readiness.READY:
            if lane.state in (State.STOPPED, State.FAILED):
                lanes.move(lane, Found(engine=engine, at=at))
            if lane.state is State.UNKNOWN:
                lanes.move(lane, BecameReady(engine=engine, at=at))
            return
        if lane.state is State.UNKNOWN:
            lanes.move(lane, Stopped(engine=engine, at=at))
        elif lane.ready:
            lanes.move(lane, Failed(engine=engine, at=at, why=probe.detail), actor=WATCHDOG)

    # ------------------------------------------------------------ use that does not pass us

    def _asks(self, lane: Lane) -> bool:
        """Whether anybody asks how long this engine has been idle."""
        group = self.engines.lanes.config.fleet.group_of(lane.engine)
        timed = lane.engine.ttl_s > 0 or (group is not None and group.idle_revert is not None)
        return timed and lane.ready and not lane.requests

    async def _direct_traffic(self, lane: Lane) -> None:
        """Traffic that does not pass us counts as use, by the engine's own counters (ENG-9)."""
        seen = await self.activity.read(lane.launch)
        busy = seen == float("inf") or (
            seen is not None and lane.activity is not None and seen != lane.activity
        )
        if busy and lane.ready:
            lane.used = max(lane.used, self.clock.elapsed())
        lane.activity = seen


def _restarts(lane: Lane) -> bool:
    """Whether the watchdog may bring it back: no member starts alone, and no whole is of a class for it."""
    return not lane.engine.members and lane.engine.of is None


def _may_be_up(lane: Lane) -> bool:
    """Whether something else may have started it: a restart policy, or a person at the container engine."""
    begun = lane.starting is not None and not lane.starting.done()
    return lane.engine.driver in _STARTED_BY_OTHERS and lane.run is None and not begun
