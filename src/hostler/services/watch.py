"""This host's loop: what happens without being asked (ENG-10, HOLD-15).

Decides when to look, not what a look means: residency and holds are judged by the domain. Each duty fails by
itself, and none is waited for: a fault in one is logged, and a slow engine delays no other (HOLD-12).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.engine import Launch, State
from hostler.domain.errors import EngineFailed, Leased, Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.gate import Ask
from hostler.domain.holding import ENGINE
from hostler.domain.holding import refusal as leased_refusal
from hostler.domain.residency import RETRY_S, Due, Seen, World, due
from hostler.domain.values import RESIDENCY, Cause, EngineId, Priority, format_duration, rfc3339
from hostler.services.engines import Engines
from hostler.services.errands import Errands
from hostler.services.floor import Floor
from hostler.services.holds import Holds
from hostler.services.lanes import Lane
from hostler.services.needs import (
    Activity,
    Clock,
    Driver,
    Events,
    MemoryReader,
    PortTable,
    StateFiles,
)
from hostler.services.probing import Probing
from hostler.services.status import Vitals
from hostler.services.window_guard import Markers, Strike, WindowGuard

TICK_S: Final = 1.0
"""A hold that ends is seen within this: well under the 2 s that production may wait for it (HOLD-12)."""
RESIDENT_WAIT_S: Final = 3600.0
"""How long a timer waits for its start: longer than any budget."""
UPKEEP_S: Final = 30.0
"""How often the hold records of leases are looked after: an indefinite one is rewritten in time (HOLD-11)."""
DEADMEN_S: Final = 5.0
"""How often deadmen are looked at: a killed one is replaced within 10 s (WIN-11)."""
WRITE_AGAIN_S: Final = 60.0
"""How long after a failure the refusals are written again: a full disk is worth no log line a second."""


@dataclass(eq=False, slots=True, kw_only=True)
class Memory:
    """What the loop remembers between two ticks. Elapsed seconds."""

    tried: dict[EngineId, float] = field(default_factory=dict)
    launches: dict[EngineId, Launch] = field(default_factory=dict)
    told_down: set[EngineId] = field(default_factory=set)
    told_leased: dict[EngineId, str] = field(default_factory=dict)
    kept_at: float | None = None
    deadmen_at: float | None = None
    deadmen: bool = False
    write_after: float = 0.0
    writing: bool = False


@dataclass(eq=False, slots=True, kw_only=True)
class Watch:
    """The loop of one host. `bug` logs an exception of ours and returns its id.

    `upkeep` is what this host does for its leases (`LocalNode.upkeep`), `deadmen` its look at the deadmen of
    windows (`NodeDeadman.tick`); None where there is none. `markers` and `strike` are the window guard's
    (WIN-6).
    """

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
    ports: PortTable
    markers: Markers
    strike: Strike
    upkeep: Callable[[], Coroutine[object, object, None]] | None = None
    deadmen: Callable[[], Coroutine[object, object, None]] | None = None
    mind: Memory = field(default_factory=Memory)
    errands: Errands = field(init=False)
    probing: Probing = field(init=False)
    floor: Floor = field(init=False)
    window: WindowGuard = field(init=False)

    def __post_init__(self) -> None:
        self.errands = Errands(bug=self.bug)
        self.probing = Probing(
            engines=self.engines,
            drivers=self.drivers,
            activity=self.activity,
            clock=self.clock,
            errands=self.errands,
        )
        self.floor = Floor(
            engines=self.engines,
            drivers=self.drivers,
            memory=self.memory,
            clock=self.clock,
            events=self.events,
            errands=self.errands,
        )
        self.window = WindowGuard(
            engines=self.engines,
            holds=self.holds,
            memory=self.memory,
            ports=self.ports,
            markers=self.markers,
            clock=self.clock,
            events=self.events,
            errands=self.errands,
            strike=self.strike,
        )

    async def run(self) -> None:
        """Tick until cancelled; then end the work that a tick began."""
        try:
            while True:
                self.tick()
                await self.clock.sleep(TICK_S)
        finally:
            await self.errands.end()

    def tick(self) -> None:
        """One look at everything. Waits for nothing."""
        for duty in self._duties():
            try:
                duty()
            except Exception as error:  # noqa: BLE001 - one duty's bug must not end the others
                self.bug(error)
        self.vitals.keeper_at = self.clock.elapsed()

    def _duties(self) -> tuple[Callable[[], None], ...]:
        own = self._hold, self._keep, self._deadmen, self._residency, self._owed
        return (*own, self.probing.tick, self.floor.tick, self.window.tick)

    # ------------------------------------------------------------ holds and leases

    def _keep(self) -> None:
        """Look after what leases have here (HOLD-11), again and again."""
        now, kept = self.clock.elapsed(), self.mind.kept_at
        if self.upkeep is not None and (kept is None or now - kept >= UPKEEP_S):
            self.mind.kept_at = now
            self.errands.begin(self.upkeep())

    def _deadmen(self) -> None:
        """Look at the deadmen, one look at a time: one that starts another may take a while."""
        now, last = self.clock.elapsed(), self.mind.deadmen_at
        if self.deadmen is None or self.mind.deadmen or (last is not None and now - last < DEADMEN_S):
            return
        self.mind.deadmen_at, self.mind.deadmen = now, True
        self.errands.begin(self._look_at_deadmen(self.deadmen))

    async def _look_at_deadmen(self, look: Callable[[], Coroutine[object, object, None]]) -> None:
        try:
            await look()
        finally:
            self.mind.deadmen = False

    def _hold(self) -> None:
        freed = self.engines.gate.guard.take_freed(self.clock.moment())
        ended = self.holds.tick()
        if ended:
            self.mind.kept_at = None  # Whose hold it was sees that it is gone at once.
        if ended or freed:
            self.mind.tried.clear()
            self.engines.gate.forget()
        if self.mind.writing or self.clock.elapsed() < self.mind.write_after:
            return
        refusals = self.holds.unwritten()
        if refusals is not None:
            self.mind.writing = True
            self.errands.begin(self._write(refusals))

    async def _write(self, refusals: Mapping[str, object]) -> None:
        try:
            await asyncio.to_thread(self.files.save, "hold_refusals", refusals)
        except OSError as error:
            self.bug(error)
            self.holds.write_again()
            self.mind.write_after = self.clock.elapsed() + WRITE_AGAIN_S
        finally:
            self.mind.writing = False

    # ------------------------------------------------------------ residency

    def _residency(self) -> None:
        todo = self.due()
        for engine in todo.down:
            self._resident_down(engine)
        for engine in todo.unload:
            lane = self.engines.lanes.get(engine)
            if lane.engine.of is None and not self._leased(engine):
                self.errands.begin(self._unload(lane))
        if todo.start is not None:
            engine, cause = todo.start
            self._begin(self.engines.lanes.get(engine), cause)

    def due(self) -> Due:
        """What residency wants now. Under a fence it unloads nothing either (LEASE-28)."""
        guard = self.engines.gate.guard
        world = World(
            engines=[self._seen(lane) for lane in self.engines.lanes.by_id.values()],
            groups=self.engines.lanes.config.fleet.host.groups,
            held=self.holds.view().held or guard.fence(self.clock.moment()) is not None,
            orchestrated=self.engines.gate.orchestration_off() is None,
            now=self.clock.elapsed(),
        )
        return due(world)

    def _seen(self, lane: Lane) -> Seen:
        engine = lane.engine.id
        leased = self.engines.gate.guard.holding(ENGINE, engine) is not None
        if lane.ready:
            self.mind.told_down.discard(engine)
        return Seen(
            engine=lane.engine,
            state=lane.state,
            suspended=bool(lane.suspended_by),
            starting=_starts(lane),
            quiet_since=None if lane.requests else lane.used,
            tried=self._tried(lane),
            down_since=None if lane.ready else lane.down_since,
            told_down=engine in self.mind.told_down or leased,
        )

    def _tried(self, lane: Lane) -> float | None:
        """When it was tried last, as it is to be launched now: another port may be had at once (CONF-3)."""
        if self.mind.launches.get(lane.engine.id) != lane.launch:
            return None
        return self.mind.tried.get(lane.engine.id)

    def _begin(self, lane: Lane, cause: Cause) -> None:
        self.mind.tried[lane.engine.id] = self.clock.elapsed()
        self.mind.launches[lane.engine.id] = lane.launch
        self.errands.begin(self._start(lane, cause))

    async def _start(self, lane: Lane, cause: Cause) -> None:
        ask = Ask(engine=lane.engine.id, cause=cause, requester=RESIDENCY)
        try:
            await self.engines.starting.ensure_ready(lane, ask, wait_s=RESIDENT_WAIT_S)
        except Refusal as refusal:
            # The gate, or the failed start, has told it already; what may pass is tried again in its turn.
            passes = isinstance(refusal, Leased) or (
                refusal.retry_after is not None and not isinstance(refusal, EngineFailed)
            )
            lane.owed = lane.owed and passes
            self.mind.tried[lane.engine.id] = self.clock.elapsed()
            return
        self.mind.tried.pop(lane.engine.id, None)
        self.engines.gate.forget(lane.engine.id)

    def _owed(self) -> None:
        """Restart what crashed: after its back-off, and again when what refused it may have gone (ENG-8).

        Like residency it throws nobody out: where a member of its group is up by now, it is owed no more.
        """
        now = self.clock.elapsed()
        for lane in self.engines.lanes.by_id.values():
            if not lane.owed or _starts(lane) or lane.state not in (State.STOPPED, State.FAILED):
                continue
            if self._displaced(lane):
                lane.owed = False
                continue
            tried = self._tried(lane)
            if now >= lane.retry_at and (tried is None or now - tried >= RETRY_S):
                self._begin(lane, Cause.WATCHDOG)

    def _displaced(self, lane: Lane) -> bool:
        group = lane.engine.group
        return group is not None and any(
            other is not lane and other.engine.group == group and (other.state.up or _starts(other))
            for other in self.engines.lanes.by_id.values()
        )

    def _leased(self, engine: EngineId) -> bool:
        """Whether it is a lease's to unload; said once for each lease (LEASE-15)."""
        held = self.engines.gate.guard.holding(ENGINE, engine)
        if held is None:
            self.mind.told_leased.pop(engine, None)
            return False
        if self.mind.told_leased.get(engine) != held.lease:
            self.mind.told_leased[engine] = held.lease
            refusal = leased_refusal(ENGINE, engine, held, self.clock.now())
            self._tell("deferred", engine, f"It is idle, and stays: {refusal}", None)
        return True

    async def _unload(self, lane: Lane) -> None:
        """Stop it, if it is idle at this very moment: nothing is awaited between look and stop (BG-05)."""
        if lane.requests or not lane.ready:
            return
        try:
            why = f"idle for {format_duration(lane.engine.ttl_s)}"
            await self.engines.stopping.stop(lane, actor=RESIDENCY.tag(), why=why)
        except Refusal as refusal:
            self._tell("deferred", lane.engine.id, str(refusal), None)

    def _resident_down(self, engine: EngineId) -> None:
        self.mind.told_down.add(engine)
        why = self.engines.lanes.get(engine).status.why
        text = "A resident engine has not been ready for 10 minutes" + (f": {why}" if why else "")
        self._tell("resident_down", engine, text, Priority.HIGH)

    def _tell(self, kind: str, engine: EngineId, text: str, priority: Priority | None) -> None:
        at = self.clock.now()
        self.events.emit(
            Event(
                type=kind,
                at=at,
                subject=frozen({"engine": engine, "host": self.engines.lanes.config.fleet.here}),
                message=text,
                priority=priority,
                once=f"{kind} {engine} {rfc3339(at)}" if priority is not None else None,
            )
        )


def _starts(lane: Lane) -> bool:
    return lane.starting is not None and not lane.starting.done()
