"""Distributed engines: members on several hosts that run as one (ENG-11).

Decides the order in which members start and stop, what of a start is rolled back, and which node is asked.
The driver `distributed` is built on it, so that gate, joining, drain and backoff are those of every engine.
What the states of the members make of the whole is `domain.distributed`'s decision; each member is started by
its own node, through its own gate (docs/decisions/0011).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from hostler.domain.distributed import Sight, members_of
from hostler.domain.engine import Run, State
from hostler.domain.errors import EngineFailed, NodeUnreachable, Refusal, StopUnverified, StoreFull
from hostler.domain.events import Event
from hostler.domain.fleet import Engine, frozen
from hostler.domain.gate import Ask
from hostler.domain.holding import ENGINE, place
from hostler.domain.step import FenceNumber, FoundEngine, Operation, StartEngine, StopEngine
from hostler.domain.values import EngineId
from hostler.services.guard import Guard
from hostler.services.lanes import Lane, Lanes
from hostler.services.needs import Clock, Events, Ids, StateFiles
from hostler.services.operations import UNGRANTED, deadline_s
from hostler.services.schedule_needs import Node

T = TypeVar("T")

LOOK_S: Final = 3.0
"""How long a look at a member may take: a probe's own bound."""
ADOPT_S: Final = 5.0
"""How long the first look waits for what is not known yet of the members on this host."""
SERVING: Final = (State.READY, State.DRAINING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The number of one start or stop: a member's node refuses what comes late of an earlier one (LEASE-8).

    `begun`: members may be up that this daemon started, and that were not seen to be down since.
    """

    epoch: str
    generation: int = 0
    begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributed:
    """Starts, stops and looks at the members. `nodes` are those of all hosts, by name.

    `over` is set when the daemon ends: what is loading then is left to be adopted. `locks` keep one start or
    stop of each whole, `ends` are what runs now, with how it ended; `seen` is the last look at each.
    """

    lanes: Lanes
    files: StateFiles
    ids: Ids
    clock: Clock
    events: Events
    guard: Guard
    over: asyncio.Event
    nodes: dict[str, Node] = field(default_factory=dict)
    locks: dict[EngineId, asyncio.Lock] = field(default_factory=dict)
    ends: dict[str, asyncio.Future[str]] = field(default_factory=dict)
    seen: dict[EngineId, tuple[Sight, ...]] = field(default_factory=dict)

    # ------------------------------------------------------------ the gates of the members

    async def refusal(self, engine: Engine, ask: Ask) -> Refusal | None:
        """See `MemberGates.refusal`: they are asked in the order in which they would start."""
        for member in members_of(self.lanes.config.fleet, engine):
            step = _start_of(engine, member, ask)
            try:
                await self._node(member).preflight(_looking(step, deadline_s(step)))
            except Refusal as refusal:
                return refusal
        return None

    # ------------------------------------------------------------ up and down

    async def up(self, engine: Engine, ask: Ask) -> Stamp:
        """Start the members in order, each when the one before it is ready; the number of this start.

        Refuses what the gate or the start of a member refuses; those that were begun are stopped first, in
        reverse. The daemon's own end rolls nothing back.
        """
        async with self._lock(engine.id):
            stamp = await self._next(engine.id)
            try:
                for n, member in enumerate(members_of(self.lanes.config.fleet, engine), start=1):
                    step = _start_of(engine, member, ask)
                    await self._started(engine, member, _operation(engine, step, stamp, n))
                await self.look(engine)
            except asyncio.CancelledError:
                if self.over.is_set():
                    await self._rolled_back(engine)
                raise
            except Exception:
                await self._rolled_back(engine)
                raise
            return stamp

    async def _started(self, engine: Engine, member: Engine, operation: Operation) -> None:
        """Start one member. Of one that failed the whole tells it, with whose failure it is."""
        try:
            await self._node(member).perform(operation)
        except EngineFailed as failure:
            why = f"its member {member.id} on {member.host}: {failure.why}"
            raise EngineFailed(engine=engine.id, why=why, retry_after=failure.retry_after) from failure

    async def down(self, engine: Engine) -> None:
        """Stop the members in reverse, each seen to be gone. Refuses `stop_unverified`, naming who is not."""
        async with self._lock(engine.id):
            left = await self._down(engine)
        if left:
            raise StopUnverified(engine=engine.id, why="; ".join(left))

    async def clean(self, lane: Lane) -> None:
        """End what is left of a whole that is down. A start that began meanwhile is not touched."""
        async with self._lock(lane.engine.id):
            if lane.at_rest:
                await self._down(lane.engine)

    async def _rolled_back(self, engine: Engine) -> None:
        """Stop what was begun, though the start is called off meanwhile; what stays up is told."""
        work = asyncio.ensure_future(self._down(engine))
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                continue
        for why in work.result():
            self.events.emit(
                Event(
                    type="deferred",
                    at=self.clock.now(),
                    subject=frozen({"engine": engine.id, "host": engine.host}),
                    message=f"Its start failed, and is not rolled back yet: {why}",
                )
            )

    async def _down(self, engine: Engine) -> list[str]:
        """Stop every member in reverse; a sentence for each that was not seen to be gone."""
        stamp, left = await self._next(engine.id), list[str]()
        for n, member in enumerate(reversed(members_of(self.lanes.config.fleet, engine)), start=1):
            step = StopEngine(host=member.host, engine=member.id, of=engine.id)
            try:
                await self._node(member).perform(_operation(engine, step, stamp, n))
            except Refusal as refusal:
                left.append(f"{member.id} on {member.host}: {str(refusal).removesuffix('.')}")
        if not left:
            await self._save(engine.id, replace(stamp, begun=False))
        await self.look(engine)
        return left

    # ------------------------------------------------------------ looking

    async def look(self, engine: Engine) -> tuple[Sight, ...]:
        """Every member as it is now. Takes at most 3 s."""
        members = members_of(self.lanes.config.fleet, engine)
        states = await asyncio.gather(*(self._state(it) for it in members))
        sights = tuple(
            Sight(member=it.id, host=it.host, state=state) for it, state in zip(members, states, strict=True)
        )
        self.seen[engine.id] = sights
        return sights

    def in_order(self, lane: Lane, sights: Sequence[Sight]) -> bool:
        """Whether a lease takes its members down one after the other: then none of them is lost."""
        held = (self.guard.holding(ENGINE, it.engine.id) for it in (lane, lane.server) if it is not None)
        return any(held) and all(it.state is not State.FAILED for it in sights)

    def end(self, run: Run, said: str) -> None:
        """That run is over: whoever waits for its end is told how."""
        ended = self.ends.pop(run.identity, None)
        if ended is not None:
            ended.set_result(said)

    def owes(self, engine: EngineId) -> bool:
        """Whether members may still be up of a start of ours that is over."""
        stamp = self.stamp(engine)
        return stamp is not None and stamp.begun

    async def _state(self, member: Engine) -> State | None:
        """The state of a member; None when its node does not answer in time."""
        lane = self.lanes.by_id.get(member.id)
        if lane is not None:
            return lane.state if lane.known else State.UNKNOWN
        step = StopEngine(host=member.host, engine=member.id, of=member.of or "")
        try:
            found = await self._within(self._node(member).observe(_looking(step, LOOK_S / 2)))
        except Refusal:
            return None
        return State(found.state) if isinstance(found, FoundEngine) and found.state else None

    async def _within(self, call: Awaitable[T]) -> T | None:
        """What it answers within `LOOK_S`, else None."""
        task = asyncio.ensure_future(call)
        timer = asyncio.ensure_future(self.clock.sleep(LOOK_S))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for it in (task, timer):
                it.cancel()
            await asyncio.gather(task, timer, return_exceptions=True)

    async def until_known(self, engine: Engine) -> None:
        """Wait a moment for the members on this host: they are adopted at the same time."""
        ends = self.clock.elapsed() + ADOPT_S
        for member in engine.members:
            lane = self.lanes.by_id.get(member)
            if lane is not None:
                await self.lanes.until(lane, ends, lambda it: it.known and it.state is not State.UNKNOWN)

    # ------------------------------------------------------------ what all of it needs

    def _node(self, member: Engine) -> Node:
        node = self.nodes.get(member.host)
        if node is None:
            raise NodeUnreachable(host=member.host, why="this daemon knows no node of it; restart it")
        return node

    def _lock(self, engine: EngineId) -> asyncio.Lock:
        return self.locks.setdefault(engine, asyncio.Lock())

    def end_of(self, run: Run) -> asyncio.Future[str]:
        """What will say how that run ended. Those of earlier runs of the engine are over."""
        found = self.ends.get(run.identity)
        if found is None:
            found = self.ends[run.identity] = asyncio.get_running_loop().create_future()
        return found

    def stamp(self, engine: EngineId) -> Stamp | None:
        """The last number; None where there is none, or it cannot be read: another epoch begins then."""
        try:
            found = self.files.load(_name(engine))
        except ValueError:
            return None
        epoch, generation = (found or {}).get("epoch"), (found or {}).get("generation")
        if found is None or not isinstance(epoch, str) or not isinstance(generation, int):
            return None
        return Stamp(epoch=epoch, generation=generation, begun=found.get("begun") is True)

    def first(self) -> Stamp:
        """Before the first number of an epoch. Epochs sort by the time of their making."""
        return Stamp(epoch=self.ids.new("whole"))

    async def _next(self, engine: EngineId) -> Stamp:
        """The number of the next start or stop, on disk before anything is done. Refuses `store_full`."""
        last = self.stamp(engine) or self.first()
        stamp = Stamp(epoch=last.epoch, generation=last.generation + 1, begun=True)
        await self._save(engine, stamp)
        return stamp

    async def _save(self, engine: EngineId, stamp: Stamp) -> None:
        value = {"epoch": stamp.epoch, "generation": stamp.generation, "begun": stamp.begun}
        try:
            await asyncio.to_thread(self.files.save, _name(engine), value)
        except OSError as error:
            raise StoreFull(file=f"{_name(engine)}.json", why=error.strerror or str(error)) from error


def _start_of(engine: Engine, member: Engine, ask: Ask) -> StartEngine:
    """The start of a member: the class that the call named is passed on, and whose lease it is (CAT-5)."""
    return StartEngine(
        host=member.host,
        engine=member.id,
        override="" if ask.override is None else ask.override.value,
        of=engine.id,
        cause=ask.cause.value,
        lease=ask.lease or "",
    )


def _operation(engine: Engine, step: StartEngine | StopEngine, stamp: Stamp, n: int) -> Operation:
    return Operation(
        id=f"{stamp.epoch}.{stamp.generation}.{n}",
        lease=stamp.epoch,
        fence=FenceNumber(epoch=stamp.epoch, generation=stamp.generation),
        covers=(place(ENGINE, engine.id),),
        step=step,
        deadline_s=deadline_s(step),
    )


def _looking(step: StartEngine | StopEngine, within_s: float) -> Operation:
    """An operation that is only asked about: it has no number to compare, and leaves no receipt."""
    return Operation(id="look.0.0", lease="look", fence=UNGRANTED, covers=(), step=step, deadline_s=within_s)


def _name(engine: EngineId) -> str:
    return f"engines/{engine}/whole"
