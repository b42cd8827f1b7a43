"""This host's loop: what happens without being asked (ENG-8, ENG-10, HOLD-15, MEM-7).

Decides when to look, not what a look means: residency, probes, floors and holds are judged by the domain.
Each duty fails by itself; a fault in one is logged and the others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.engine import BecameReady, Failed, Found, Readiness, Run, State, Stopped, judge
from hostler.domain.errors import Refusal, StopUnverified
from hostler.domain.events import Event
from hostler.domain.fleet import HOST_POOL, DriverKind, frozen
from hostler.domain.gate import Ask
from hostler.domain.memory import FloorWatch, available_of, floor_of, pool_of, who_grew
from hostler.domain.residency import Due, Seen, World, due
from hostler.domain.start_policy import after_failure
from hostler.domain.values import RESIDENCY, Cause, EngineId, Priority, gib
from hostler.domain.watchdog import PROBE_EVERY_S, Progress, observe, progress
from hostler.services.engines import Engines
from hostler.services.holds import Holds
from hostler.services.lanes import Lane
from hostler.services.needs import Activity, Clock, Driver, Events, MemoryReader, StateFiles
from hostler.services.starting import LOG_LINES
from hostler.services.status import Vitals

TICK_S: Final = 1.0
"""A hold that ends is seen within this: well under the 2 s that production may wait for it (HOLD-12)."""
RESIDENT_WAIT_S: Final = 3600.0
"""How long a timer waits for its start: longer than any budget."""
ACTIVITY_EVERY_S: Final = 10.0
YOUNG_S: Final = 120.0
"""An engine that fails within this of becoming ready counts as failing again, not anew."""


@dataclass(eq=False, slots=True, kw_only=True)
class Memory:
    """What the loop remembers between two ticks. Elapsed seconds by engine."""

    tried: dict[EngineId, float] = field(default_factory=dict)
    told_down: set[EngineId] = field(default_factory=set)
    probed: dict[EngineId, float] = field(default_factory=dict)
    progress: dict[EngineId, Progress] = field(default_factory=dict)
    exits: dict[EngineId, Run] = field(default_factory=dict)
    floor: FloorWatch = field(default_factory=FloorWatch)
    floor_stay: float | None = None
    held_before: Mapping[EngineId, Mapping[str, int]] = field(default_factory=lambda: frozen({}))
    tasks: set[asyncio.Task[None]] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The loop of one host. `bug` logs an exception of ours and returns its id."""

    engines: Engines
    holds: Holds
    drivers: Mapping[str, Driver]
    activity: Activity
    memory: MemoryReader
    files: StateFiles
    clock: Clock
    events: Events
    vitals: Vitals
    bug: Callable[[BaseException], str]
    mind: Memory = field(default_factory=Memory)

    async def run(self) -> None:
        """Tick until cancelled; then end the tasks that a tick began."""
        try:
            while True:
                await self.tick()
                await self.clock.sleep(TICK_S)
        finally:
            for task in tuple(self.mind.tasks):
                task.cancel()

    async def tick(self) -> None:
        """One look at everything."""
        for duty in (self._hold, self._residency, self._probes, self._floor):
            try:
                await duty()
            except Exception as error:  # noqa: BLE001 - one duty's bug must not end the others
                self.bug(error)
        self.vitals.keeper_at = self.clock.elapsed()

    # ------------------------------------------------------------ holds

    async def _hold(self) -> None:
        if self.holds.tick():
            self.mind.tried.clear()
            self.engines.gate.forget()
        refusals = self.holds.unwritten()
        if refusals is not None:
            try:
                await asyncio.to_thread(self.files.save, "hold_refusals", refusals)
            except OSError as error:
                self.bug(error)

    # ------------------------------------------------------------ residency

    async def _residency(self) -> None:
        await self._direct_traffic()
        todo = self.due()
        for engine in todo.down:
            self._resident_down(engine)
        for engine in todo.unload:
            self._spawn(self._unload(self.engines.lanes.get(engine)))
        if todo.start is not None:
            engine, cause = todo.start
            self.mind.tried[engine] = self.clock.elapsed()
            self._spawn(self._start(self.engines.lanes.get(engine), cause))

    def due(self) -> Due:
        """What residency wants now."""
        host = self.engines.lanes.fleet.host
        world = World(
            engines=[self._seen(lane) for lane in self.engines.lanes.by_id.values()],
            groups=host.groups,
            held=self.holds.view().held,
            orchestrated=self.engines.gate.orchestration_off() is None,
            now=self.clock.elapsed(),
        )
        return due(world)

    def _seen(self, lane: Lane) -> Seen:
        engine = lane.engine.id
        if lane.ready:
            self.mind.told_down.discard(engine)
        return Seen(
            engine=lane.engine,
            state=lane.state,
            suspended=bool(lane.suspended_by),
            starting=lane.starting is not None and not lane.starting.done(),
            quiet_since=None if lane.requests else lane.used,
            tried=self.mind.tried.get(engine),
            down_since=None if lane.ready else lane.down_since,
            told_down=engine in self.mind.told_down,
        )

    async def _start(self, lane: Lane, cause: Cause) -> None:
        ask = Ask(engine=lane.engine.id, cause=cause, requester=RESIDENCY)
        try:
            await self.engines.starting.ensure_ready(lane, ask, wait_s=RESIDENT_WAIT_S)
        except Refusal:
            # The gate, or the failed start, has told it already; it is tried again in its turn.
            return
        self.mind.tried.pop(lane.engine.id, None)
        self.engines.gate.forget(lane.engine.id)

    async def _unload(self, lane: Lane) -> None:
        if lane.requests or not lane.ready:
            return
        try:
            why = f"idle for {lane.engine.ttl_s:.0f} s"
            await self.engines.stopping.stop(lane, actor=RESIDENCY.tag(), why=why)
        except Refusal as refusal:
            self._tell("deferred", lane.engine.id, str(refusal), None)

    async def _direct_traffic(self) -> None:
        """Traffic that does not pass us counts as use, by the engine's own counters (ENG-9)."""
        now = self.clock.elapsed()
        due_ = [
            lane
            for lane in self.engines.lanes.by_id.values()
            if lane.ready
            and not lane.requests
            and self._idles(lane)
            and now - lane.looked >= ACTIVITY_EVERY_S
        ]
        for lane in due_:
            lane.looked = now
            seen = await self.activity.read(lane.launch)
            if seen is not None and seen != lane.activity and lane.activity is not None and lane.ready:
                lane.used = max(lane.used, self.clock.elapsed())
            lane.activity = seen

    def _idles(self, lane: Lane) -> bool:
        """Whether anybody asks how long this engine has been idle."""
        group = self.engines.lanes.fleet.group_of(lane.engine)
        return lane.engine.ttl_s > 0 or (group is not None and group.idle_revert is not None)

    def _resident_down(self, engine: EngineId) -> None:
        self.mind.told_down.add(engine)
        why = self.engines.lanes.get(engine).status.why
        text = "A resident engine has not been ready for 10 minutes" + (f": {why}" if why else "")
        self._tell("resident_down", engine, text, Priority.HIGH)

    # ------------------------------------------------------------ probes

    async def _probes(self) -> None:
        """Look at every engine that should run, every 10 s (ENG-8)."""
        now = self.clock.elapsed()
        for lane in self.engines.lanes.by_id.values():
            external = lane.engine.driver is DriverKind.EXTERNAL
            if not external and not (lane.ready or lane.state is State.DRAINING):
                continue
            if lane.run is not None and self.mind.exits.get(lane.engine.id) is not lane.run:
                self.mind.exits[lane.engine.id] = lane.run
                self._spawn(self.watch_exit(lane))
            if now - self.mind.probed.get(lane.engine.id, float("-inf")) < PROBE_EVERY_S:
                continue
            self.mind.probed[lane.engine.id] = now
            self._spawn(self._look_outside(lane) if external else self.look(lane))

    async def look(self, lane: Lane) -> None:
        """Probe one running engine; failed is stopped, and restarted through the gate."""
        run = lane.run
        probe = await self.drivers[lane.launch.driver].probe(lane.launch, run)
        if lane.run is not run or lane.state not in (State.READY, State.DRAINING):
            return
        verdict = judge(probe, health=lane.launch.health, model=lane.launch.model)
        moved = await self._moved(lane)
        pulse = observe(lane.failures, verdict, progressed=moved)
        lane.failures = pulse.failures
        stalled = self._stalled(lane)
        if pulse.failed:
            await self.failed(lane, f"{verdict.value.replace('_', ' ')}: {probe.detail}")
        elif stalled is not None:
            await self.failed(lane, stalled)

    async def _moved(self, lane: Lane) -> bool:
        """Whether its work went on since the last look, by the bytes that passed us and by its own count."""
        before = self.mind.progress.get(lane.engine.id)
        mark = float(sum(it.bytes_out for it in lane.requests))
        if lane.requests and before is not None and mark == before.mark:
            counted = await self.activity.read(lane.launch)
            mark += counted if counted is not None and counted != float("inf") else 0.0
        after = progress(before, in_flight=len(lane.requests), mark=mark, now=self.clock.elapsed())
        if after is None:
            self.mind.progress.pop(lane.engine.id, None)
            return False
        self.mind.progress[lane.engine.id] = after
        return before is not None and after != before

    def _stalled(self, lane: Lane) -> str | None:
        now, work = self.clock.elapsed(), self.mind.progress.get(lane.engine.id)
        if work is None or not work.stalled(now):
            return None
        return (
            f"{len(lane.requests)} requests are under way and nothing has moved for {now - work.since:.0f} s"
        )

    async def watch_exit(self, lane: Lane) -> None:
        """Wait for the end of the run that `lane` has now; an end that nobody asked for is a failure."""
        run = lane.run
        if run is None:
            return
        report = await self.drivers[lane.launch.driver].wait_exit(lane.launch, run)
        if lane.run is run and lane.state in (State.READY, State.DRAINING):
            await self.failed(lane, f"it {report}")

    async def failed(self, lane: Lane, why: str) -> None:
        """A running engine failed: end what is left of it, and start it again through the gate (ENG-8).

        One that fails again soon after is tried as often as a start is, then left failed (ENG-3).
        """
        now = self.clock.elapsed()
        young = lane.ready_at is not None and now - lane.ready_at < YOUNG_S
        lane.crashes = lane.crashes + 1 if young else 1
        lane.failures = 0
        lane.last_lines = tuple(self.drivers[lane.launch.driver].tail(lane.launch, LOG_LINES))
        self.engines.lanes.move(
            lane, Failed(engine=lane.engine.id, at=self.clock.now(), why=why), actor="watchdog"
        )
        try:
            await self.engines.stopping.stop(lane, actor="watchdog", why=why)
        except StopUnverified:
            return
        except Refusal as refusal:
            self._tell("deferred", lane.engine.id, str(refusal), None)
        delay = after_failure(lane.crashes)
        if delay is None:
            why = f"{why}; it failed {lane.crashes} times soon after its start"
            self.engines.lanes.give_up(lane, why)
            return
        self._spawn(self._restart(lane, delay))

    async def _restart(self, lane: Lane, delay: float) -> None:
        await self.clock.sleep(delay)
        if lane.state is State.STOPPED:
            await self._start(lane, Cause.WATCHDOG)

    async def _look_outside(self, lane: Lane) -> None:
        """Probe an external engine: ready when it answers as itself, stopped when it does not."""
        probe = await self.drivers[lane.launch.driver].probe(lane.launch, None)
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
            lanes.move(lane, Failed(engine=engine, at=at, why=probe.detail), actor="watchdog")

    # ------------------------------------------------------------ memory

    async def _floor(self) -> None:
        """The standing watch over the host's memory; a full card of its own is no such sign (MEM-7)."""
        reading = self.memory.read().get(HOST_POOL)
        if reading is None:
            return
        pool = pool_of(self.engines.lanes.fleet.host, HOST_POOL)
        floor, available = floor_of(pool, reading), available_of(pool, reading)
        before = self.mind.floor
        after = before.step(available=available, floor=floor, now=self.clock.elapsed())
        self.mind.floor = after
        if after.since is None:
            self.mind.floor_stay = None
        elif before.since is None:
            self.mind.held_before = self._holders()
        if after.told and not before.told:
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
        grew = who_grew(self.mind.held_before, self._holders(), HOST_POOL)
        named = ", ".join(f"{engine} grew by {gib(size)} GiB" for engine, size in grew)
        fleet, stay = self.engines.lanes.fleet, self.mind.floor.since
        left = f"{gib(available)} GiB left, under its floor of {gib(floor)} GiB"
        self.events.emit(
            Event(
                type="memory_floor",
                at=self.clock.now(),
                subject=frozen({"host": fleet.here}),
                message=f"{fleet.here} has {left}: {named or 'no engine of ours grew'}",
                priority=Priority.HIGH,
                once=f"floor {self.mind.floor_stay if self.mind.floor_stay is not None else stay}",
            )
        )
        if self.mind.floor_stay is None:
            self.mind.floor_stay = stay
        victim = next((it for it in fleet.host.on_floor if self.engines.lanes.get(it).state.up), None)
        if victim is not None:
            self.mind.floor = FloorWatch(since=self.clock.elapsed())
            self._spawn(self._stop_for_floor(self.engines.lanes.get(victim)))

    async def _stop_for_floor(self, lane: Lane) -> None:
        try:
            await self.engines.stopping.stop(lane, actor="watchdog", why="memory is under the floor")
        except Refusal as refusal:
            self._tell("deferred", lane.engine.id, str(refusal), None)

    # ------------------------------------------------------------ the rest

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(self._guarded(work))
        self.mind.tasks.add(task)
        task.add_done_callback(self.mind.tasks.discard)

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - a bug in one task is logged, the loop goes on
            self.bug(error)

    def _tell(self, kind: str, engine: EngineId, text: str, priority: Priority | None) -> None:
        self.events.emit(
            Event(
                type=kind,
                at=self.clock.now(),
                subject=frozen({"engine": engine, "host": self.engines.lanes.fleet.here}),
                message=text,
                priority=priority,
                once=f"{kind} {engine} {self.clock.now().date()}" if priority is not None else None,
            )
        )
