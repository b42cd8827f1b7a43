"""Lanes: what this daemon knows of each engine of its host, and the requests that each is serving.

Decides whether a request may enter an engine and when an engine is idle. Does not start or stop
anything (`services.starting`, `services.stopping`). All methods are called on the one event loop and
none awaits between a look and the change that follows from it: a request can never enter an engine
whose stop has begun (ENG-6, GW-8).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hostler.domain.engine import (
    BecameReady,
    Cleared,
    DrainBegun,
    DrainEnded,
    EngineEvent,
    EngineState,
    Failed,
    Found,
    Launch,
    Run,
    StartBegun,
    State,
    StopBegun,
    Stopped,
    apply,
    as_started,
)
from hostler.domain.errors import Draining, EngineNotFound, Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import Engine, frozen
from hostler.domain.gate import Ask
from hostler.domain.route import nearest
from hostler.domain.values import EngineId, Requester
from hostler.services.needs import Clock, Events
from hostler.services.present import Present

EVENT_TYPES: Mapping[type[EngineEvent], str] = frozen(
    {
        StartBegun: "engine_starting",
        BecameReady: "engine_ready",
        DrainBegun: "engine_draining",
        DrainEnded: "engine_drain_ended",
        StopBegun: "engine_stopping",
        Stopped: "engine_stopped",
        Failed: "engine_failed",
        Found: "engine_found",
        Cleared: "engine_cleared",
    }
)


@dataclass(eq=False, slots=True, kw_only=True)
class InFlight:
    """One request under way (GW-9). `cut` ends it with a refusal: an error frame, never a clean end."""

    id: str
    requester: Requester
    route: str
    path: str
    started: float
    cut: Callable[[Refusal], None]
    engine: EngineId | None = None
    phase: str = "accepted"
    bytes_in: int = 0
    bytes_out: int = 0
    first_byte: float | None = None
    degraded: str | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Lane:
    """One engine of this host. Times are `Clock.elapsed` seconds.

    `known` is False until it was looked for what an earlier daemon left running (ENG-7). `ask` is the
    strongest wish of those who wait for its start. `drains` names who keeps it DRAINING. `owed` is a
    restart that the watchdog still owes it, not before `retry_at`. `unwanted` marks a start that somebody
    calls off, `cleared` a failure that somebody cleared, `unmeasured` a start whose need nobody knows.
    `pending` is how a reload wants it launched, once what runs now has ended; `removed` says that it is no
    more in the config and is forgotten then (CONF-3). `server` is the member that answers for a distributed
    engine: what is under way in the whole is under way in that one too (ENG-11).
    """

    engine: Engine
    launch: Launch
    status: EngineState
    run: Run | None = None
    requests: set[InFlight] = field(default_factory=set)
    used: float = 0.0
    ready_at: float | None = None
    down_since: float = 0.0
    looked: float = 0.0
    changed_at: float = 0.0
    known: bool = True
    ask: Ask | None = None
    drains: set[str] = field(default_factory=set)
    retry_at: float = 0.0
    owed: bool = False
    unwanted: bool = False
    cleared: bool = False
    starting: asyncio.Task[None] | None = None
    stopping: asyncio.Task[None] | None = None
    waiters: int = 0
    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    load_s: float | None = None
    last_lines: tuple[str, ...] = ()
    activity: float | None = None
    suspended_by: tuple[str, ...] = ()
    peak: Mapping[str, int] = field(default_factory=lambda: frozen({}))
    taken: Mapping[str, int] = field(default_factory=lambda: frozen({}))
    residue: str | None = None
    unmeasured: bool = False
    pending: Launch | None = None
    removed: bool = False
    server: Lane | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def state(self) -> State:
        """Where the engine is."""
        return self.status.state

    @property
    def at_rest(self) -> bool:
        """Whether nothing of it runs or is about to: it may be launched in another way, or be forgotten."""
        down = self.status.state in (State.STOPPED, State.FAILED)
        return self.known and down and self.run is None and (self.starting is None or self.starting.done())

    def settle(self) -> None:
        """Take up what a reload wants of its launch, if nothing of it runs."""
        if self.pending is not None and self.run is None and not self.status.state.up:
            self.launch, self.pending = self.pending, None

    def take_over(self, run: Run) -> None:
        """`run` is its: used as it was started, and the config is taken up by its next start (ENG-7)."""
        self.run, configured = run, self.pending or self.launch
        self.launch = as_started(configured, run)
        self.pending = configured if configured != self.launch else None

    @property
    def ready(self) -> bool:
        """Whether a request may be sent to it now."""
        return self.status.state is State.READY

    def notify(self) -> None:
        """Wake everybody who waits for this lane to change."""
        self.changed.set()
        self.changed = asyncio.Event()

    def enter(self, request: InFlight) -> None:
        """Count `request` as this engine's. Refuses `draining` unless the engine is ready."""
        if not self.ready:
            raise Draining(engine=self.engine.id, why=f"it is {self.state}", retry_after=1)
        if self.server is not None:
            self.server.enter(request)
        request.engine = self.engine.id
        self.requests.add(request)

    def leave(self, request: InFlight, elapsed: float) -> None:
        """The last byte of `request` went out: idle starts here (ENG-9)."""
        if self.server is not None:
            self.server.leave(request, elapsed)
        self.requests.discard(request)
        self.used = elapsed
        if not self.requests:
            self.notify()


@dataclass(eq=False, slots=True, kw_only=True)
class Lanes:
    """Every engine of this host, by id, and the one place where an engine's state is moved.

    `by_id` is never changed, but replaced by a reload: whoever walks it sees one set of engines.
    """

    config: Present
    clock: Clock
    events: Events
    by_id: Mapping[EngineId, Lane]

    def get(self, engine: str) -> Lane:
        """The lane of `engine`. Refuses `engine_not_found`, with the nearest names."""
        lane = self.by_id.get(EngineId(engine))
        if lane is None:
            raise EngineNotFound(engine=engine, nearest=self._elsewhere(engine))
        return lane

    def _elsewhere(self, engine: str) -> str:
        """Where it is, when another host has it; else the nearest names."""
        fleet = self.config.fleet
        known = fleet.engines.get(EngineId(engine))
        if known is None or known.host == fleet.here:
            return nearest(engine, self.by_id)
        url = fleet.hosts[known.host].url
        return EngineNotFound.way_to(known.host, url)

    def move(self, lane: Lane, event: EngineEvent, *, actor: str = "daemon", message: str = "") -> None:
        """Apply `event` to the engine, log it, and wake who waits. Raises IllegalTransition."""
        before = lane.status.state
        lane.status = apply(lane.status, event)
        lane.changed_at = self.clock.elapsed()
        lane.cleared = False
        if lane.status.state is not State.DRAINING:
            lane.drains.clear()
        if before is State.READY or (before is State.DRAINING and not lane.status.state.up):
            lane.down_since = lane.changed_at
        if isinstance(event, BecameReady):
            lane.ready_at = lane.used = lane.changed_at
            lane.failures, lane.activity = 0, None
            lane.owed, lane.retry_at = False, 0.0
        if isinstance(event, Stopped | Failed):
            lane.settle()
        why = event.why if isinstance(event, Failed) else message
        self.events.emit(
            Event(
                type=EVENT_TYPES[type(event)],
                at=event.at,
                actor=actor,
                subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
                before=before,
                after=lane.status.state,
                message=why,
            )
        )
        lane.notify()

    def give_up(self, lane: Lane, why: str) -> None:
        """A stopped engine that failed too often is left failed, until its time or `clear` (ENG-3)."""
        self.move(lane, Failed(engine=lane.engine.id, at=self.clock.now(), why=why))

    async def until(self, lane: Lane, deadline: float, done: Callable[[Lane], bool]) -> bool:
        """Wait until `done(lane)`, or `deadline` (elapsed seconds) has passed. Whether it was done."""
        while not done(lane):
            left = deadline - self.clock.elapsed()
            if left <= 0:
                return False
            if left == math.inf:
                await lane.changed.wait()
                continue
            changed = asyncio.ensure_future(lane.changed.wait())
            timer = asyncio.ensure_future(self.clock.sleep(left))
            try:
                await asyncio.wait({changed, timer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
                timer.cancel()
        return True


def coupled(lanes: Mapping[EngineId, Lane]) -> Mapping[EngineId, Lane]:
    """The same lanes, each distributed engine joined to the member that answers for it."""
    for lane in lanes.values():
        if lane.engine.members:
            lane.server = lanes.get(lane.engine.members[-1])
    return lanes


def heard(task: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    """Fetch the result, so that a task nobody waits for any more leaves no warning."""
    if not task.cancelled():
        task.exception()
