"""The queue between those who report events and the log that keeps them.

Decides that reporting never blocks and never fails (HOLD-15): events wait here for the store, a full
queue drops the newest and counts them, and the gap is told once the store takes events again. Keeps the
last events in memory, those that others write in their transactions too, so that readers who are up to date
touch no store (GW-3). Runs on the one loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from hostler.domain.errors import ScheduleUnavailable
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import frozen
from hostler.domain.values import Priority
from hostler.services.cleaning import Cleaner, unchanged
from hostler.services.needs import Clock, Ids, Store

LIMIT: Final = 10_000
"""Events that may wait: at 1 KiB each 10 MiB, which a daemon may spend on a broken disk."""
BATCH: Final = 500
RING: Final = 2_000
"""Recorded events kept in memory for readers."""
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 30.0
MARK_S: Final = 5.0
"""How long a reader waits for the log to catch up with the state that it was shown."""

_log = logging.getLogger("hostler.events")


@dataclass(eq=False, slots=True, kw_only=True)
class _Mark:
    """Somebody who waits for the event of that number; `cursor` is set when it is written."""

    number: int
    cursor: str | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False, slots=True, kw_only=True)
class EventQueue:
    """The need `Events`. `redact` takes secrets out of every text (SEC-1); `dropped` counts the lost."""

    store: Store
    clock: Clock
    ids: Ids
    redact: Callable[[str], str] = unchanged
    limit: int = LIMIT
    dropped: int = 0
    failing: str | None = None
    released: bool = False
    _waiting: deque[tuple[float, Event]] = field(default_factory=deque)
    _gap: int = 0
    _accepted: int = 0
    _written: int = 0
    _last: str | None = None
    _ring: deque[Recorded] = field(default_factory=lambda: deque(maxlen=RING))
    _marks: list[_Mark] = field(default_factory=list)
    _hearing: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Future[None] | None = None

    def emit(self, event: Event) -> None:
        if len(self._waiting) >= self.limit:
            self.dropped += 1
            self._gap += 1
            return
        self._accept(event)

    def lag_s(self) -> float:
        """How long the oldest event has waited to be written; 0 when none waits."""
        return self.clock.elapsed() - self._waiting[0][0] if self._waiting else 0.0

    # ------------------------------------------------------------ writing

    async def run(self) -> None:
        """Write what comes until cancelled, in batches; while the store fails, retry with back-off."""
        failures = singly = 0
        self._listen()
        while True:
            try:
                if self._last is None:
                    self._began(await self.store.cursor())
                batch = [event for _, event in islice(self._waiting, 1 if singly else BATCH)]
                if not batch:
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                self._wrote(await self.store.record(batch))
                singly = max(0, singly - 1)
            except ScheduleUnavailable as refusal:
                self._fails(refusal)
                delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2**failures)
                failures = min(failures + 1, 10)
                await self.clock.sleep(delay * (0.5 + self.ids.jitter() / 2))
                continue
            except (TypeError, ValueError) as error:
                # One event has no text form. Alone it is found, and the others are kept.
                if len(batch) > 1:
                    singly = len(batch)
                else:
                    self._lost(batch[0], error)
                    singly = max(0, singly - 1)
            self.failing, failures = None, 0

    async def flush(self, timeout_s: float) -> bool:
        """Wait until all that was reported so far is written; False when that took too long."""
        try:
            await self.mark(timeout_s)
        except ScheduleUnavailable:
            return False
        return True

    async def mark(self, timeout_s: float = MARK_S) -> str:
        """The cursor after the last event reported before this call.

        Read the state, then await this without anything between: state and cursor fit each other
        exactly (FEED-1). Refuses `schedule_unavailable` when the log does not catch up in time.
        """
        if self._last is not None and self._written == self._accepted:
            return self._last
        mark = _Mark(number=self._accepted)
        self._marks.append(mark)
        try:
            await self._heard(mark.reached, timeout_s)
        finally:
            self._marks = [each for each in self._marks if each is not mark]
        if mark.cursor is None:
            why = self.failing or f"{len(self._waiting)} events wait to be written"
            raise ScheduleUnavailable(why=why, file="see the daemon's log")
        return mark.cursor

    def _accept(self, event: Event) -> None:
        self._waiting.append((self.clock.elapsed(), Cleaner(redact=self.redact).event(event)))
        self._accepted += 1
        self._wake.set()

    def _listen(self) -> None:
        if not self._hearing:
            self._hearing = True
            self.store.listen(self._heard_of)

    def _began(self, cursor: str) -> None:
        """Where the log stood at the first look, unless an event was heard of meanwhile."""
        if self._last is None:
            self._last = cursor
        self._reached(self._last)

    def _heard_of(self, rows: Sequence[Recorded]) -> None:
        """What anybody committed through this store, in the order of commits."""
        for row in rows:
            if self._ring and (self._ring[-1].epoch, self._ring[-1].seq + 1) != (row.epoch, row.seq):
                self._ring.clear()  # Another process wrote between: only the store has it all.
            self._ring.append(row)
        self._last = rows[-1].cursor
        self._reached(self._last)
        self._wake_readers()

    def _wrote(self, rows: Sequence[Recorded]) -> None:
        """Our own events are in the log; they were heard of before."""
        for row in rows:
            self._waiting.popleft()
            self._written += 1
            self._reached(row.cursor)
        self._tell_gap()

    def _reached(self, cursor: str) -> None:
        for mark in self._marks:
            if mark.cursor is None and mark.number <= self._written:
                mark.cursor = cursor
                mark.reached.set()

    def _tell_gap(self) -> None:
        """The place of what was dropped is here: behind all that waits, before all that comes."""
        if self._gap:
            count, self._gap = self._gap, 0
            self._accept(
                Event(
                    type="events_dropped",
                    at=self.clock.now(),
                    message=f"{count} events were lost: the store did not take them in time.",
                    facts=frozen({"count": count}),
                    priority=Priority.HIGH,
                )
            )

    def _fails(self, refusal: ScheduleUnavailable) -> None:
        if self.failing is None:
            _log.warning("events wait in memory: %s", refusal)
            self.failing = refusal.why
            self.emit(
                Event(
                    type="store_unavailable",
                    at=self.clock.now(),
                    message=str(refusal),
                    facts=frozen(refusal.facts()),
                    priority=Priority.HIGH,
                )
            )
        self.failing = refusal.why

    def _lost(self, event: Event, error: Exception) -> None:
        _log.error("an event of type %s has no text form and is lost: %r", event.type, error)
        self._waiting.popleft()
        self._written += 1
        self.dropped += 1
        self._gap += 1
        if self._last is not None:
            self._reached(self._last)
        self._tell_gap()

    # ------------------------------------------------------------ reading

    async def since(self, cursor: str | None, limit: int) -> Sequence[Recorded]:
        """Later events, oldest first, from memory where it has them all; as `Store.since` otherwise."""
        if cursor is not None and cursor == self._last:
            return ()
        start = self._place(cursor)
        if start is None:
            return await self.store.since(cursor, limit)
        return tuple(islice(self._ring, start, start + limit))

    def _place(self, cursor: str | None) -> int | None:
        """Where in the ring the reader of `cursor` goes on; None when the ring cannot say."""
        if cursor is None or not self._ring:
            return None
        first, (epoch, _, number) = self._ring[0], cursor.rpartition(":")
        if epoch != first.epoch or not (number.isascii() and number.isdigit() and len(number) <= 18):
            return None
        start = int(number) + 1 - first.seq
        return start if 0 <= start <= len(self._ring) else None

    def release(self) -> None:
        """Let everybody go who waits for an event, now and from here on: the daemon is to end (REL-5)."""
        self.released = True
        self._wake_readers()

    async def wait(self, cursor: str, timeout_s: float) -> bool:
        """Wait until there is something after `cursor`. False when `timeout_s` passed, or `release`d.

        Only what this process writes wakes it: a reader looks anew at its end all the same.
        """
        timer = asyncio.ensure_future(self.clock.sleep(timeout_s))
        try:
            return await self.wait_or(cursor, timer)
        finally:
            timer.cancel()

    async def wait_or(self, cursor: str, timer: asyncio.Future[None]) -> bool:
        """The same until `timer` is done, which is the caller's and stays as it is.

        Many readers wait for the same: one future wakes them all, and none makes a task of its own for it.
        """
        while cursor == self._last:
            if self.released or timer.done():
                return False
            if self._changed is None:
                self._changed = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._changed, timer), return_when=asyncio.FIRST_COMPLETED)
        return True

    def _wake_readers(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    async def _heard(self, event: asyncio.Event, seconds: float) -> None:
        """Return when `event` is set, or `seconds` have passed."""
        heard = asyncio.ensure_future(event.wait())
        timer = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait((heard, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            heard.cancel()
            timer.cancel()
