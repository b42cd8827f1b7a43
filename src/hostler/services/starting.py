"""Starting: the one way an engine comes up, whoever asks (ENG-3, ENG-4, GATE-1).

Decides the order gate, evict, gate, spawn, ready; joins all who ask for one engine into one start; and
cleans up after a start that failed. Whether a start is allowed is the gate's decision.

One engine loads at a time on a host: a box that carries two loaded models can still wedge while two
are loading, because neither's memory is in the live reading yet (docs/decisions/0006).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler.domain.engine import (
    BecameReady,
    Cleared,
    ExitReport,
    Failed,
    Probe,
    Readiness,
    Run,
    StartBegun,
    State,
    StopBegun,
    Stopped,
    judge,
)
from hostler.domain.errors import (
    Draining,
    EngineFailed,
    Loading,
    MemoryNow,
    PortConflict,
    Refusal,
)
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.gate import Allow, Ask
from hostler.domain.start_policy import after_failure, leaves_failed_in, start_budget_s
from hostler.domain.values import EngineId, gib
from hostler.services.gate import Gate
from hostler.services.lanes import Lane, Lanes
from hostler.services.measure import Measure
from hostler.services.needs import Clock, Driver, Events, Models
from hostler.services.stopping import DRAIN_S, Stopping

LOG_LINES = 200
"""Last log lines that a failed start keeps (ENG-3)."""
FIRST_LOOK_S = 0.05
LOOK_S = 0.25
"""How often a start is looked at: readiness, and the memory floor (MEM-3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """Brings engines of this host up."""

    lanes: Lanes
    gate: Gate
    stopping: Stopping
    measure: Measure
    drivers: Mapping[str, Driver]
    models: Models
    clock: Clock
    events: Events
    placement: asyncio.Lock = field(default_factory=asyncio.Lock)
    queue: list[EngineId] = field(default_factory=list)

    async def ensure_ready(self, lane: Lane, ask: Ask, *, wait_s: float) -> None:
        """Return once the engine is ready. At most `wait_s`, then Refusal `loading` (GW-6).

        A waiter that leaves ends no start (ENG-3). Raises what the gate refuses, `engine_failed`,
        `draining`, `port_conflict`, `memory_now`.
        """
        if lane.ready:
            return
        self.gate.admit(ask)
        task = self._join(lane, ask)
        lane.waiters += 1
        timer = asyncio.ensure_future(self.clock.sleep(wait_s))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise self.loading(lane)
            if task.cancelled():
                raise EngineFailed(engine=lane.engine.id, why="its start was cancelled", retry_after=1)
            task.result()
        finally:
            timer.cancel()
            lane.waiters -= 1

    def loading(self, lane: Lane) -> Loading:
        """The refusal of a caller that will not wait for the rest of this start."""
        budget = self.budget_s(lane)
        elapsed = self.clock.elapsed() - lane.changed_at if lane.state is State.STARTING else 0.0
        return Loading(
            engine=lane.engine.id,
            elapsed_s=round(elapsed),
            budget_s=round(budget),
            retry_after=max(1, round(min(budget, lane.load_s or budget) - elapsed)),
        )

    def hopeless(self, lane: Lane, wait_s: float) -> bool:
        """Whether a wait of `wait_s` cannot be enough, by what this engine's last load took (GW-6)."""
        if lane.load_s is None:
            return False
        elapsed = self.clock.elapsed() - lane.changed_at if lane.state is State.STARTING else 0.0
        return lane.load_s - elapsed > wait_s

    def progress(self, lane: Lane) -> str:
        """`loading 41 s of 240 s`, or the place in the queue of this host's starts (GW-6, ENG-5)."""
        place = self.queue.index(lane.engine.id) + 1 if lane.engine.id in self.queue else 1
        if lane.state is State.STARTING:
            elapsed = round(self.clock.elapsed() - lane.changed_at)
            return f"loading {elapsed} s of {round(self.budget_s(lane))} s, place {place}"
        return f"waiting to load, place {place}"

    def budget_s(self, lane: Lane) -> float:
        """Seconds that this engine's start may take (ENG-5)."""
        sizes = (self.models.size(name) for name in lane.engine.files)
        return start_budget_s(lane.engine, sum(size or 0 for size in sizes))

    def _join(self, lane: Lane, ask: Ask) -> asyncio.Task[None]:
        task = lane.starting
        if task is None or task.done():
            if lane.state is State.FAILED:
                self._leave_failed(lane, ask)
            task = asyncio.create_task(self._bring_up(lane, ask))
            task.add_done_callback(_seen)
            lane.starting = task
        return task

    def _leave_failed(self, lane: Lane, ask: Ask) -> None:
        since = self.clock.elapsed() - lane.changed_at
        left = leaves_failed_in(since, ask.cause)
        if left > 0:
            raise EngineFailed(engine=lane.engine.id, why=lane.status.why, retry_after=max(1, round(left)))
        lane.attempts = 0

    async def _bring_up(self, lane: Lane, ask: Ask) -> None:
        self.queue.append(lane.engine.id)
        try:
            while not await self._attempt(lane, ask):
                pass
        finally:
            self.queue.remove(lane.engine.id)

    async def _attempt(self, lane: Lane, ask: Ask) -> bool:
        """One try. True when ready, False when it failed and may be tried again after its back-off."""
        try:
            await self._place(lane, ask)
        except EngineFailed as failure:
            lane.attempts += 1
            delay = after_failure(lane.attempts)
            if delay is None:
                failure.retry_after = round(leaves_failed_in(0.0, ask.cause))
                raise
            await self.clock.sleep(delay)
            return False
        lane.attempts = 0
        return True

    async def _place(self, lane: Lane, ask: Ask) -> None:
        """Find or make room, then load. Nothing is touched unless the gate has said yes (GATE-1)."""
        while True:
            await self._settled(lane)
            async with self.placement:
                if lane.ready:
                    return
                allow = self.gate.decide(ask)
                if not allow.drain and allow.fresh_until is None:
                    await self._evict(lane, allow, ask)
                    self.gate.decide(ask)
                    await self._load(lane, ask)
                    return
            await self._make_way(lane, allow)

    async def _settled(self, lane: Lane) -> None:
        """Wait out a stop or a first look that is under way; a failed engine is cleared."""
        moving = (State.STOPPING, State.UNKNOWN, State.DRAINING)
        await self.lanes.until(lane, float("inf"), lambda it: it.state not in moving)
        if lane.state is State.FAILED:
            if lane.run is not None:
                await self.stopping.stop(lane, actor="daemon", why="left over from a failed start")
            if lane.state is State.FAILED:
                self.lanes.move(lane, Cleared(engine=lane.engine.id, at=self.clock.now()))

    async def _make_way(self, wanted: Lane, allow: Allow) -> None:
        """Wait for busy siblings: first as long as they may keep us waiting, then a bounded drain (EVICT-4).

        Past the bound the sibling takes requests again and the start is refused `draining` (EVICT-2).
        """
        if allow.fresh_until is not None:
            await self.clock.sleep(max(0.0, allow.fresh_until - self.clock.elapsed()))
        group = self.lanes.fleet.group_of(wanted.engine)
        patience = group.yield_after_s if group is not None else 0.0
        for victim in allow.drain:
            lane = self.lanes.get(victim)
            deadline = self.clock.elapsed() + patience
            if await self.lanes.until(lane, deadline, lambda it: not it.requests or not it.state.up):
                continue
            ours = lane.ready
            if not await self.stopping.drain(lane, timeout_s=DRAIN_S):
                if ours:
                    self.stopping.undrain(lane)
                why = f"{len(lane.requests)} of its requests did not end within {DRAIN_S:.0f} s"
                raise Draining(engine=victim, why=why, retry_after=round(DRAIN_S))

    async def _evict(self, wanted: Lane, allow: Allow, ask: Ask) -> None:
        for victim in allow.stop:
            lane = self.lanes.get(victim)
            why = f"makes room for {wanted.engine.id}"
            self.events.emit(
                Event(
                    type="evicted",
                    at=self.clock.now(),
                    actor=ask.requester.tag(),
                    subject=frozen({"engine": victim, "host": lane.engine.host}),
                    message=why,
                    facts=frozen({"for": wanted.engine.id, "cause": ask.cause.value}),
                )
            )
            await self.stopping.stop(lane, actor=ask.requester.tag(), why=why)

    async def _load(self, lane: Lane, ask: Ask) -> None:
        now, actor = self.clock.now(), ask.requester.tag()
        self.lanes.move(
            lane, StartBegun(engine=lane.engine.id, at=now), actor=actor, message=f"for {ask.cause}"
        )
        lane.unmeasured = self.gate.need(lane) is None
        self.measure.begin(lane)
        try:
            lane.run = await self.drivers[lane.launch.driver].start(lane.launch)
            await self._until_ready(lane, lane.run)
        except Refusal as refusal:
            await self._clean_up(lane, refusal)
            raise
        except asyncio.CancelledError:
            await self._cancelled(lane)
            raise
        lane.load_s = self.clock.elapsed() - lane.changed_at
        self.lanes.move(lane, BecameReady(engine=lane.engine.id, at=self.clock.now()), actor=actor)
        self.measure.end(lane)

    async def _until_ready(self, lane: Lane, run: Run) -> None:
        driver = self.drivers[lane.launch.driver]
        ended = asyncio.ensure_future(driver.wait_exit(lane.launch, run))
        deadline = self.clock.elapsed() + self.budget_s(lane)
        look = FIRST_LOOK_S
        try:
            while True:
                probe = await driver.probe(lane.launch, run)
                if ended.done():
                    raise EngineFailed(engine=lane.engine.id, why=f"it {ended.result()} while loading")
                if self._judged(lane, probe):
                    return
                self._floor(lane)
                if self.clock.elapsed() >= deadline:
                    raise EngineFailed(
                        engine=lane.engine.id,
                        why=f"not ready after {self.budget_s(lane):.0f} s; {probe.detail}",
                    )
                await self._wait_or_exit(ended, look)
                look = min(LOOK_S, look * 2)
        finally:
            ended.cancel()

    async def _wait_or_exit(self, ended: asyncio.Future[ExitReport], seconds: float) -> None:
        timer: asyncio.Future[None] = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait((ended, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

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

    def _floor(self, lane: Lane) -> None:
        crossed = self.measure.sample(lane)
        if crossed is not None:
            raise MemoryNow(
                engine=lane.engine.id,
                host=lane.engine.host,
                arithmetic=f"its start left {gib(crossed.available)} GiB, under the floor of"
                f" {gib(crossed.floor)}, and was ended",
                retry_after=60,
            )

    async def _clean_up(self, lane: Lane, refusal: Refusal) -> None:
        """Stop what this start started, keep its last words, and say that it failed (ENG-3)."""
        lane.last_lines = tuple(self.drivers[lane.launch.driver].tail(lane.launch, LOG_LINES))
        why = refusal.why if isinstance(refusal, EngineFailed) else str(refusal)
        if lane.run is not None:
            await self.stopping.take_down(lane)
        if lane.state is State.STARTING:
            self.lanes.move(lane, Failed(engine=lane.engine.id, at=self.clock.now(), why=why))

    async def _cancelled(self, lane: Lane) -> None:
        self.lanes.move(
            lane, StopBegun(engine=lane.engine.id, at=self.clock.now()), message="start cancelled"
        )
        await self.stopping.take_down(lane)
        self.lanes.move(lane, Stopped(engine=lane.engine.id, at=self.clock.now()))


def _seen(task: asyncio.Task[None]) -> None:
    """Fetch the result, so that a start nobody waits for any more leaves no warning."""
    if not task.cancelled():
        task.exception()
