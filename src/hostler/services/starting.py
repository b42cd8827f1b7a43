"""Starting: the one way an engine comes up, whoever asks (ENG-3, GATE-1, EVICT-2 to EVICT-4).

Decides the order gate, evict, gate, load; joins all who ask for one engine into one start; and how long
what is busy may keep it waiting. Whether a start is allowed is the gate's decision; how it becomes ready is
`services.loading`'s.

One engine loads at a time on a host: a box that carries two loaded models can still wedge while two
are loading, because neither's memory is in the live reading yet (docs/decisions/0006).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.distributed import whole_budget_s
from hostler.domain.engine import Cleared, State
from hostler.domain.errors import MIN_RETRY_S, Draining, EngineFailed, Loading
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.gate import Allow, Ask, named
from hostler.domain.start_policy import ASKED_AFTER_S, after_failure, leaves_failed_in, start_budget_s
from hostler.domain.values import EngineId
from hostler.services.gate import Gate
from hostler.services.lanes import Lane, Lanes, heard
from hostler.services.loading import Loader
from hostler.services.measure import Measure
from hostler.services.needs import Clock, Driver, Events, Models
from hostler.services.stopping import DRAIN_S, Stopping

BY_HAND = "drain"
"""The claim of a drain that a person asked for: it stands until `resume` or a stop (GW-8)."""
ENTER_S = 1.0
"""Those who waited for an engine enter it within this; until then it counts as in use (EVICT-4)."""

_RESTS = frozenset({State.STOPPED, State.FAILED, State.READY})
LOOK_AGAIN_S: Final = 0.5
"""How soon a waiter whose start has not begun hears of a hold that came meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starting:
    """Brings engines of this host up. `placement` is held by the one start that may touch the host."""

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
    over: asyncio.Event = field(default_factory=asyncio.Event)

    # ------------------------------------------------------------ for callers

    async def ensure_ready(self, lane: Lane, ask: Ask, *, wait_s: float) -> None:
        """Return once the engine is ready. At most `wait_s`, then Refusal `loading` (GW-6).

        A waiter that leaves ends no start (ENG-3). Raises what the gate refuses, `engine_failed`,
        `draining`, `port_conflict`, `memory_now`, `stop_unverified`, `memory_residue`.
        """
        if lane.ready:
            return
        ask = self.gate.proven(ask)
        await self.gate.survey(lane)
        self.gate.admit(ask)
        if self.over.is_set():
            raise Draining(engine=lane.engine.id, why="the daemon shuts down", retry_after=1)
        if BY_HAND in lane.drains:
            why = "somebody drains it, until it is resumed or stopped"
            raise Draining(engine=lane.engine.id, why=why, retry_after=MIN_RETRY_S)
        task = self._join(lane, ask)
        lane.waiters += 1
        timer = asyncio.ensure_future(self.clock.sleep(wait_s))
        try:
            while not task.done() and not timer.done():
                await self._look_again(task, timer)
                if not task.done() and lane.state in (State.STOPPED, State.FAILED):
                    # Nothing is spawned yet, and what came meanwhile, a hold, is told at once (GATE-1).
                    self.gate.admit(ask)
            if not task.done():
                raise self.loading(lane)
            if task.cancelled():
                raise EngineFailed(engine=lane.engine.id, why="its start was called off", retry_after=1)
            task.result()
        finally:
            timer.cancel()
            lane.waiters -= 1

    async def _look_again(self, task: asyncio.Task[None], timer: asyncio.Future[None]) -> None:
        """Wait for the start, the end of the wait, or a moment."""
        pause = asyncio.ensure_future(self.clock.sleep(LOOK_AGAIN_S))
        try:
            await asyncio.wait({task, timer, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()

    def end(self) -> None:
        """The daemon ends: nothing more is started. What loads already is left to be adopted (ENG-7)."""
        self.over.set()
        for lane in self.lanes.by_id.values():
            if lane.starting is not None:
                lane.starting.cancel()

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
        if lane.engine.members:
            return whole_budget_s(self.lanes.config.fleet, lane.engine)
        sizes = (self.models.size(name) for name in lane.engine.files)
        return start_budget_s(lane.engine, sum(size or 0 for size in sizes))

    # ------------------------------------------------------------ one start for all who ask

    def _join(self, lane: Lane, ask: Ask) -> asyncio.Task[None]:
        """The start under way, or a new one. It is judged by the strongest wish of those who wait (MEM-2)."""
        task = lane.starting
        if task is not None and not task.done():
            if lane.ask is None or _strength(ask) > _strength(lane.ask):
                lane.ask = ask
            return task
        if lane.state is State.FAILED:
            self._leave_failed(lane, ask)
        lane.ask = ask
        task = asyncio.create_task(self._bring_up(lane, ask))
        task.add_done_callback(heard)
        lane.starting = task
        return task

    def _leave_failed(self, lane: Lane, ask: Ask) -> None:
        since = self.clock.elapsed() - lane.changed_at
        left = leaves_failed_in(since, ask.cause)
        if left > 0 and not lane.cleared:
            raise EngineFailed(engine=lane.engine.id, why=lane.status.why, retry_after=max(1, round(left)))

    async def _bring_up(self, lane: Lane, ask: Ask) -> None:
        """Try until it is ready, with one backoff; then every claim on what was to make way is given up."""
        self.queue.append(lane.engine.id)
        since, lane.attempts = self.clock.elapsed(), 0
        try:
            while not await self._attempt(lane, ask, since):
                pass
        finally:
            self.queue.remove(lane.engine.id)
            lane.ask, lane.unwanted = None, False
            for other in self.lanes.by_id.values():
                self.stopping.undrain(other, by=_claim(lane))

    async def _attempt(self, lane: Lane, ask: Ask, since: float) -> bool:
        """One try. True when ready, False when it failed and may be tried again after its back-off."""
        try:
            await self._place(lane, ask, since)
        except EngineFailed as failure:
            if failure.retry_after is not None:
                raise
            lane.attempts += 1
            delay = after_failure(lane.attempts)
            if delay is None:
                failure.retry_after = round(ASKED_AFTER_S)
                raise
            await self.clock.sleep(delay)
            return False
        return True

    # ------------------------------------------------------------ finding or making room

    async def _place(self, lane: Lane, ask: Ask, since: float) -> None:
        """Find or make room, then load. Nothing is touched unless the gate has said yes (GATE-1)."""
        while True:
            # What an earlier daemon left counts for everybody's start: each lane is looked at first (ENG-7).
            for other in self.lanes.by_id.values():
                await self.lanes.until(other, float("inf"), lambda it: it.known)
            await self.lanes.until(lane, float("inf"), lambda it: it.state in _RESTS)
            pause = lane.retry_at - self.clock.elapsed()
            if pause > 0:
                await self.clock.sleep(pause)
                continue
            # The whole of a distributed engine loads nothing itself: its members take their turns (0006).
            async with nullcontext() if lane.engine.members else self.placement:
                allow = await self._try(lane, ask, since)
            if allow is None:
                return
            await self._wait(allow, self._patience_ends(lane, since))

    async def _try(self, lane: Lane, ask: Ask, since: float) -> Allow | None:
        """With the host to itself: None when it is ready, an empty Allow to look again, else whom to await.

        The gate is asked anew after everything that took time: what it allowed a minute ago proves nothing.
        """
        while lane.known and lane.state in (State.STOPPED, State.FAILED):
            ask = lane.ask or ask
            lane.settle()
            if lane.state is State.FAILED:
                await self._failed_before(lane, ask)
                if lane.run is not None or lane.state not in (State.STOPPED, State.FAILED):
                    continue
            await self.gate.survey(lane)
            topology, members = await self.gate.topology(lane), await self.gate.member_refusal(lane, ask)
            allow = self.gate.decide(ask, topology, members)
            if self._keeps_waiting(allow, self._patience_ends(lane, since)):
                return allow
            if allow.stop:
                await self._make_way(lane, allow, ask)
                continue
            if lane.state is State.FAILED:
                self.lanes.move(lane, Cleared(engine=lane.engine.id, at=self.clock.now()))
            await self._loader().load(
                lane, actor=ask.requester.tag(), cause=ask.cause, budget_s=self.budget_s(lane)
            )
        return None if lane.ready else Allow()

    async def _failed_before(self, lane: Lane, ask: Ask) -> None:
        """A failed engine waits its time; what is left of it goes first, if it may start at all (ENG-3)."""
        if lane.attempts == 0:
            self._leave_failed(lane, ask)
        if lane.run is not None:
            self.gate.admit(ask)
            await self.stopping.stop(lane, actor=ask.requester.tag(), why="left over from a failure")

    def _patience_ends(self, lane: Lane, since: float) -> float:
        group = self.lanes.config.fleet.group_of(lane.engine)
        return since + (group.yield_after_s if group is not None else 0.0)

    def _keeps_waiting(self, allow: Allow, patience_ends: float) -> bool:
        """Whether those who must make way may stay: fresh, just entered, or busy and patience left."""
        now = self.clock.elapsed()
        fresh = allow.fresh_until is not None and allow.fresh_until > now
        return fresh or self._entered(allow.stop) > now or (bool(allow.drain) and now < patience_ends)

    def _entered(self, stop: Sequence[EngineId]) -> float:
        """Until when those who waited for one of `stop` are still on their way into it (elapsed seconds)."""
        ready = (lane.ready_at for lane in map(self.lanes.get, stop) if lane.ready)
        return max((at + ENTER_S for at in ready if at is not None), default=0.0)

    async def _wait(self, allow: Allow, patience_ends: float) -> None:
        """Leave the host to others while what must make way may stay: it serves on (EVICT-4)."""
        stays = max(allow.fresh_until or 0.0, self._entered(allow.stop)) - self.clock.elapsed()
        if stays > 0:
            await self.clock.sleep(stays)
            return
        for victim in allow.drain:
            lane = self.lanes.get(victim)
            await self.lanes.until(lane, patience_ends, lambda it: not it.requests or not it.state.up)

    async def _make_way(self, wanted: Lane, allow: Allow, ask: Ask) -> None:
        """Drain those who must go, bounded, or else stop them. Never cuts (EVICT-2).

        They are shut before anything is awaited: no request slips into one that was found idle. Past the
        bound they take requests again and the start is refused `draining`.
        """
        victims = [self.lanes.get(victim) for victim in allow.stop]
        actor, claim = ask.requester.tag(), _claim(wanted)
        for lane in victims:
            self.stopping.shut(lane, by=claim, actor=actor)
        busy = [lane for lane in victims if lane.state is State.DRAINING and lane.requests]
        ends = self.clock.elapsed() + DRAIN_S
        for lane in busy:
            left = max(0.0, ends - self.clock.elapsed())
            if not await self.stopping.drain(lane, by=claim, timeout_s=left, actor=actor):
                why = f"{len(lane.requests)} of its requests did not end within {DRAIN_S:.0f} s"
                raise Draining(engine=lane.engine.id, why=why, retry_after=round(DRAIN_S))
        if busy:
            return
        for lane in victims:
            self._evicted(wanted, lane, ask)
            await self.stopping.stop(lane, actor=actor, why=f"makes room for {wanted.engine.id}")

    def _evicted(self, wanted: Lane, lane: Lane, ask: Ask) -> None:
        self.events.emit(
            Event(
                type="evicted",
                at=self.clock.now(),
                actor=ask.requester.tag(),
                subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
                message=f"makes room for {wanted.engine.id}",
                facts=frozen({"for": wanted.engine.id, "cause": ask.cause.value}),
            )
        )

    def _loader(self) -> Loader:
        return Loader(
            lanes=self.lanes,
            stopping=self.stopping,
            measure=self.measure,
            drivers=self.drivers,
            clock=self.clock,
        )


def _strength(ask: Ask) -> tuple[bool, bool, bool]:
    """What a wish may do that another may not.

    Pass a lease's own hold (GATE-3), start what nobody measured yet, and name a class (CAT-5).
    """
    return ask.lease is not None, named(ask.cause), ask.override is not None


def _claim(lane: Lane) -> str:
    """In whose name a start drains what must make way."""
    return f"start {lane.engine.id}"
