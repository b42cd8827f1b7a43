"""The deadmen of this host: armed and disarmed, told of each step, replaced when killed (WIN-1, WIN-7).

Decides what a deadman is told and when the daemon keeps its hands off: who restores a window is one of the
two. When a deadman acts is `hostler.deadman.when`'s decision; what its report means for the lease is
`services.deadman_reports`'.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.deadman import DeadmanReport
from hostler.domain.engine import State
from hostler.domain.errors import (
    AlreadyRestored,
    DeadmanFailed,
    NotLaunchable,
    Refusal,
    StoreFull,
)
from hostler.domain.events import Event
from hostler.domain.fleet import HOST_POOL, DriverKind, frozen
from hostler.domain.holding import Holding
from hostler.domain.memory import effective_need
from hostler.domain.step import ArmDeadman, DisarmDeadman, FoundDeadman, Operation
from hostler.domain.values import Priority, rfc3339
from hostler.services.deadman_needs import Check, DeadmanState, Deadmen, Orders, PhaseName, Words
from hostler.services.engines import Engines
from hostler.services.lanes import Lane
from hostler.services.needs import Clock, Events
from hostler.services.receipts import is_undo

BEAT_S: Final = 5.0
"""How often a restore of the daemon's own says that it goes on: one that hangs is taken over at the cap."""
LOOK_S: Final = 0.2
LOST: Final = "the daemon that began this died on the way"
SECOND_S: Final = 5.0
"""So long after the cap the deadman acts: a daemon that lives ends its window at the cap, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeadman:
    """The deadman steps of one host, and what goes on beside them.

    `active`: windows that are open by what the schedule told last. `taken_up`: reports whose engines this
    daemon knows of by now. `missing`: windows of which it was told that no deadman could be started.
    """

    host: str
    deadmen: Deadmen
    engines: Engines
    clock: Clock
    events: Events
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    active: set[str] = field(default_factory=set)
    taken_up: dict[str, DeadmanReport] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)

    # ------------------------------------------------------------ the steps

    def preflight(self, step: ArmDeadman) -> None:
        """Refuses `engine_not_found`, `not_launchable` for an engine that no written words can start, and
        `deadman_failed` while another window has its deadman here.
        """
        self._words(step.bring_back)
        self._words(step.end)
        other = next((it for it in self.deadmen.windows() if it.waits and it.window != step.window), None)
        if other is not None:
            why = f"window {other.window} has its deadman there"
            raise DeadmanFailed(window=step.window, host=self.host, why=why)

    def observe(self, step: ArmDeadman | DisarmDeadman) -> FoundDeadman:
        """Whose deadman this host has."""
        own = self.deadmen.state(step.window)
        if own is not None and not own.over:
            return FoundDeadman(window=own.window, alive=own.alive)
        other = next((it for it in self.deadmen.windows() if it.waits), None)
        return FoundDeadman() if other is None else FoundDeadman(window=other.window, alive=other.alive)

    async def arm(self, step: ArmDeadman) -> None:
        """Write the restore, start the process, see it alive. Again for the same window changes nothing.

        Refuses `deadman_failed`, `store_full`, and as `preflight`.
        """
        async with self.lock:
            known = self.deadmen.state(step.window)
            if known is not None and known.waits and known.alive:
                return
            if known is None or not known.waits:
                await self._written(step)
            await self.deadmen.start(step.window)

    async def _written(self, step: ArmDeadman) -> None:
        try:
            orders = Orders(
                window=step.window,
                mode=step.mode,
                host=self.host,
                cap_s=step.cap_s + SECOND_S,
                end=self._words(step.end),
                start=self._words(step.bring_back),
                verify=self._checks(step.mode),
                essential=tuple(sorted(self.engines.lanes.config.fleet.essentials())),
            )
            await asyncio.to_thread(self.deadmen.write, orders)
        except OSError as error:
            raise _full(step.window, error) from error

    async def disarm(self, step: DisarmDeadman) -> None:
        """End it, and see it gone. Refuses `deadman_failed` when it is still there, `store_full`."""
        async with self.lock:
            try:
                left = await self.deadmen.end(step.window)
            except OSError as error:
                raise _full(step.window, error) from error
        if left is not None:
            raise DeadmanFailed(window=step.window, host=self.host, why=left)
        self.taken_up.pop(step.window, None)
        self.missing.discard(step.window)

    def verify(self, step: ArmDeadman | DisarmDeadman) -> str | None:
        """None when it lives, or, for a disarm, when it is over."""
        own = self.deadmen.state(step.window)
        if isinstance(step, ArmDeadman):
            return None if own is not None and own.waits and own.alive else "no deadman of it is alive"
        return None if own is None or (own.over and not own.alive) else "its deadman is not disarmed"

    # ------------------------------------------------------------ beside every step of a window

    @asynccontextmanager
    async def step(self, operation: Operation) -> AsyncIterator[None]:
        """Around each operation of a lease: the phase is written before it, and one restore runs (WIN-7).

        Refuses `already_restored` where the deadman restores or has done so, or will, because the daemon died
        midway (nothing goes on then), `store_full` where the phase cannot be written. For a lease that is no
        window it is nothing.
        """
        own = await asyncio.to_thread(self.deadmen.state, operation.lease)
        if own is None or own.over or isinstance(operation.step, ArmDeadman):
            yield
            return
        undo = is_undo(operation.id)
        if own.report is not None and undo:
            # What it did is seen as it is, its engines known; what it could not do is left to this daemon.
            await self._take_up(own, own.report)
            yield
            return
        if own.restoring or own.report is not None:
            raise self._already(own)
        if not undo:
            if own.phase == "opening" and not own.ours:
                raise self._already(own)
            await self._note(own.window, "opening")
            yield
            return
        async with self._alone(own):
            yield

    @asynccontextmanager
    async def _alone(self, own: DeadmanState) -> AsyncIterator[None]:
        """Have the window's restore lock, and give signs of life."""
        try:
            release = await asyncio.to_thread(self.deadmen.claim, own.window)
        except OSError as error:
            raise _full(own.window, error) from error
        if release is None:
            raise self._already(own)
        try:
            await self._note(own.window, "closing")
            beating = asyncio.create_task(self._beat(own.window))
            try:
                yield
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
        finally:
            release()

    async def _beat(self, window: str) -> None:
        while True:
            await self.clock.sleep(BEAT_S)
            with suppress(StoreFull):
                await self._note(window, "closing")

    async def _note(self, window: str, phase: PhaseName) -> None:
        try:
            await asyncio.to_thread(self.deadmen.note, window, phase)
        except OSError as error:
            raise _full(window, error) from error

    def _already(self, own: DeadmanState) -> AlreadyRestored:
        state = "it has done so" if own.report else "it is at it" if own.restoring else LOST
        return AlreadyRestored(lease=own.window, host=self.host, state=state)

    # ------------------------------------------------------------ again and again

    async def settle(self, held: Mapping[str, Holding]) -> None:
        """Which leases hold what was told: a window whose lease has an end is open (`Holding.until`)."""
        self.active.clear()
        self.active.update(it.lease for it in held.values() if it.until is not None)
        await self._open()

    async def _open(self) -> None:
        """Write `open` where the schedule says so and the phase does not, or by a daemon that is gone."""
        if not self.active:
            return
        for it in await asyncio.to_thread(self.deadmen.windows):
            if (
                it.waits
                and not it.restoring
                and it.window in self.active
                and not (it.ours and it.phase == "open")
            ):
                with suppress(StoreFull):  # The next look tries it again.
                    await self._note(it.window, "open")

    async def tick(self) -> None:
        """One look: a killed deadman is replaced and told, a report is taken up (WIN-11)."""
        for it in await asyncio.to_thread(self.deadmen.windows):
            if it.report is not None and not it.over:
                await self._take_up(it, it.report)
            elif it.waits and not it.alive:
                await self._replace(it.window)
        await self._open()

    async def _replace(self, window: str) -> None:
        async with self.lock:
            now = self.deadmen.state(window)
            if now is None or not now.waits or now.alive:
                return
            try:
                await self.deadmen.start(window)
            except DeadmanFailed as refusal:
                self._tell_missing(window, refusal)
                return
        self.missing.discard(window)
        self._tell("deadman_restarted", window, "Its deadman was gone; another was started.", Priority.HIGH)

    async def begin(self) -> None:
        """As the daemon starts: where neither daemon nor deadman was left, restore before anything else.

        What a deadman restored or restores is not put away again: the lease's suspensions of it go.
        """
        for it in await asyncio.to_thread(self.deadmen.windows):
            if it.waits and not it.alive:
                await self._restore_now(it.window)
            now = self.deadmen.state(it.window)
            if (
                now is not None
                and not now.over
                and now.this_boot
                and (now.restoring or now.report is not None)
            ):
                await self._let_run(now)

    async def _restore_now(self, window: str) -> None:
        try:
            await self.deadmen.start(window, at_once=True)
        except DeadmanFailed as refusal:
            self._tell_missing(window, refusal)
            return
        while (now := self.deadmen.state(window)) is not None and now.alive and now.report is None:
            await self.clock.sleep(LOOK_S)

    def reports(self) -> tuple[DeadmanReport, ...]:
        """The receipts of restores by deadmen whose windows are not over, their engines known (NODE-4)."""
        return tuple(self.taken_up.values())

    def left_s(self, window: str) -> float | None:
        """Seconds until its deadman restores at the latest; None where none waits. Looks at files."""
        own = self.deadmen.state(window)
        return own.left_s if own is not None and own.waits else None

    def restoring(self) -> tuple[str, ...]:
        """The windows that deadmen of this host are putting back now. Looks at files."""
        return tuple(it.window for it in self.deadmen.windows() if it.restoring and not it.over)

    async def _take_up(self, own: DeadmanState, report: DeadmanReport) -> None:
        """Know of the engines as the deadman left them; then the schedule is told."""
        if self.taken_up.get(own.window) == report:
            return
        await self._let_run(own)
        for lane in self._lanes(own.end):
            lane.owed = False
        for lane in self._lanes(report.back):
            if lane.state in (State.STOPPED, State.FAILED) and lane.run is None:
                await self.engines.adopt(lane)
        self.taken_up[own.window] = report

    async def _let_run(self, own: DeadmanState) -> None:
        """Take the lease's drains and suspensions off: the deadman brings back what it took down.

        Off all engines: with a head that stays away nobody else would (WIN-11).
        """
        for lane in self.engines.lanes.by_id.values():
            if own.window in lane.drains:
                self.engines.stopping.undrain(lane, by=own.window, actor=f"deadman:{own.window}")
            try:
                self.engines.suspensions.recall(lane)
                await self.engines.suspensions.remove(lane, f"deadman:{own.window}", owner=own.window)
            except Refusal as refusal:
                self._tell("deferred", own.window, str(refusal), None)

    # ------------------------------------------------------------ what is written for it

    def _lanes(self, names: Sequence[str]) -> list[Lane]:
        return [lane for lane in self.engines.lanes.by_id.values() if lane.engine.id in names]

    def _words(self, names: Sequence[str]) -> tuple[Words, ...]:
        """How these engines are ended and started. Raises OSError where a driver cannot write its part."""
        return tuple(self._engine_words(self.engines.lanes.get(name)) for name in names)

    def _engine_words(self, lane: Lane) -> Words:
        restore = self.engines.drivers[lane.launch.driver].restore(lane.launch)
        if not restore.argv or not (restore.stop_argv or lane.launch.driver == DriverKind.PROCESS):
            why = f"driver {lane.launch.driver} has no words for its start and stop without a daemon"
            raise NotLaunchable(engine=lane.engine.id, why=why, fix="Leave it out of the modes.")
        need = effective_need(lane.engine.need, lane.peak)
        return Words(
            launch=lane.launch,
            restore=restore,
            stop_timeout_s=lane.engine.stop_timeout_s,
            budget_s=self.engines.starting.budget_s(lane),
            task=lane.engine.task.value,
            key="" if lane.engine.key is None else lane.engine.key.value,
            need=None if need is None else need.get(HOST_POOL),
        )

    def _checks(self, mode: str) -> tuple[Check, ...]:
        """The mode's verify commands of this host."""
        found = self.engines.lanes.config.fleet.modes.get(mode)
        rows = () if found is None else found.verify
        return tuple(Check(argv=it.argv, timeout_s=it.timeout_s) for it in rows if it.host == self.host)

    # ------------------------------------------------------------ telling

    def _tell_missing(self, window: str, refusal: Refusal) -> None:
        if window not in self.missing:
            self.missing.add(window)
            self._tell("deadman_missing", window, str(refusal), Priority.URGENT)

    def _tell(self, kind: str, window: str, text: str, priority: Priority | None) -> None:
        at = self.clock.now()
        self.events.emit(
            Event(
                type=kind,
                at=at,
                subject=frozen({"lease": window, "host": self.host}),
                message=text,
                priority=priority,
                once=None if priority is None else f"{kind} {window} {rfc3339(at)}",
            )
        )


def _full(window: str, error: OSError) -> StoreFull:
    return StoreFull(file=f"windows/{window}", why=error.strerror or str(error))
