"""The history: every event of the log as a line in files, also for after the log was pruned (HIST-1).

Decides where writing goes on and what is told of a hole. Trouble with it blocks nobody: it is tried again,
and shown. Where lines are kept is an adapter's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from hostler.domain.errors import CursorReset, ScheduleUnavailable
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import frozen
from hostler.domain.values import Priority, rfc3339
from hostler.services.event_queue import EventQueue
from hostler.services.needs import Clock, Events, Ids
from hostler.services.schedule_needs import ScheduleStore
from hostler.wire.values import recorded_to_json

PAGE: Final = 500
LOOK_S: Final = 60.0
"""How often the log is looked at when nothing was heard: another process may have written."""
GATHER_S: Final = 0.1
"""What comes so soon after a line was written is written together: the log has it meanwhile."""
FIRST_RETRY_S: Final = 1.0
LAST_RETRY_S: Final = 60.0
GAP: Final = "history_gap"
KEYS: Final = (
    "cursor",
    "seq",
    "time",
    "type",
    "actor",
    "subject",
    "from",
    "to",
    "message",
    "facts",
)

_log = logging.getLogger("hostler.history")


class HistoryLog(Protocol):
    """Lines in files. Every method may raise OSError."""

    def last(self) -> str | None:
        """The cursor of the last whole line; what is torn behind it is cut off. None when there is none."""
        ...

    def append(self, lines: Sequence[Mapping[str, object]]) -> None:
        """Write these lines behind the last."""
        ...

    def read(
        self, *, lease: str | None = None, job: str | None = None, since: datetime | None = None
    ) -> Sequence[Mapping[str, object]]:
        """Lines of that lease, that job, from that time on, oldest first; the newest when there are many."""
        ...


@dataclass(eq=False, slots=True, kw_only=True)
class History:
    """Follows the log and writes it down. `failing` says why that does not work now, `cursor` how far it is.

    The need `HistoryApi`.
    """

    queue: EventQueue
    store: ScheduleStore
    log: HistoryLog
    clock: Clock
    events: Events
    ids: Ids
    failing: str | None = None
    cursor: str | None = None
    _looked: bool = False
    _wrote: float = -GATHER_S
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self) -> None:
        """Write what comes, until cancelled or until the daemon ends; trouble is retried with back-off."""
        failures = 0
        while not self.queue.released:
            try:
                await self.catch_up()
            except (OSError, ScheduleUnavailable) as error:
                self._fails(error)
                delay = min(LAST_RETRY_S, FIRST_RETRY_S * 2**failures)
                failures = min(failures + 1, 10)
                await self.clock.sleep(delay * (0.5 + self.ids.jitter() / 2))
                continue
            self.failing, failures = None, 0
            if self.cursor is not None and await self.queue.wait(self.cursor, LOOK_S):
                await self.clock.sleep(self._wrote + GATHER_S - self.clock.elapsed())

    async def catch_up(self) -> None:
        """Write every event that is in the log now. Raises OSError, refuses `schedule_unavailable`."""
        async with self._one:
            while await self._step():
                pass

    async def read(
        self,
        *,
        lease: str | None = None,
        job: str | None = None,
        since_s: float | None = None,
        limit: int | None = None,
    ) -> Sequence[Mapping[str, object]]:
        """Events as lines, oldest first, of a lease, a job, the last `since_s` seconds (HIST-2).

        The newest `limit` when there are more. Refuses `schedule_unavailable` when the files cannot be read.
        """
        try:
            await self.catch_up()
        except (OSError, ScheduleUnavailable) as error:
            self._fails(error)  # What was written before can be read all the same.
        since = None if since_s is None else self.clock.now() - timedelta(seconds=since_s)
        try:
            found = await asyncio.to_thread(self.log.read, lease=lease, job=job, since=since)
        except OSError as error:
            raise ScheduleUnavailable(
                why=f"the history: {error.strerror}", file=str(error.filename)
            ) from error
        return found if limit is None else found[max(0, len(found) - limit) :]

    # ------------------------------------------------------------ how

    async def _step(self) -> bool:
        """One page of it; False when there was none."""
        if not self._looked:
            self.cursor = await asyncio.to_thread(self.log.last)
            self._looked = True
        try:
            rows = await self._rows(self.cursor)
        except CursorReset:
            await self._tell_gap(str(self.cursor))
            return True
        await self._append([_line(row) for row in rows], rows[-1].cursor if rows else self.cursor)
        return bool(rows)

    async def _rows(self, cursor: str | None) -> Sequence[Recorded]:
        """The next events; without a cursor the oldest that there are, and the cursor when there are none."""
        if cursor is not None:
            return await self.queue.since(cursor, PAGE)
        end = await self.queue.store.cursor()
        rows = await self.queue.since(None, PAGE)
        if not rows:
            self.cursor = end  # Asked for before: nothing came between that these rows could lack.
        return rows

    async def _append(self, lines: Sequence[Mapping[str, object]], cursor: str | None) -> None:
        if not lines:
            return
        writing = asyncio.ensure_future(asyncio.to_thread(self.log.append, lines))
        try:
            await asyncio.shield(writing)
        except (OSError, asyncio.CancelledError):
            # Some of it may be written, or is being written still: after that the files say how far.
            self._looked = False
            await asyncio.wait({writing})
            raise
        self.cursor, self._wrote = cursor, self.clock.elapsed()

    async def _tell_gap(self, before: str) -> None:
        """The log cannot go on from the last line: it was pruned, restored or begun anew. Say so there."""
        meta = await self.store.read(lambda tx: tx.meta())
        epoch, _, number = before.rpartition(":")
        start: str | None = None
        if epoch != meta.epoch:
            # What the epoch before had up to `began` is in these files already, as far as they go.
            seen = int(number) if number.isascii() and number.isdigit() else 0
            start = f"{meta.epoch}:{min(seen, meta.began)}"
        try:
            rows = await self._rows(start)
        except CursorReset:
            start, rows = None, await self._rows(None)
        if start is None:
            start = f"{rows[0].epoch}:{rows[0].seq - 1}" if rows else str(self.cursor)
        await self._append([self._gap(before, start)], start)

    def _gap(self, before: str, after: str) -> Mapping[str, object]:
        (old, _, last), (new, _, first) = before.rpartition(":"), after.rpartition(":")
        if old == new and last.isdigit() and int(first) > int(last):
            count = int(first) - int(last)
            text = f"{count} events are missing here: they were dropped before they were written."
        else:
            text = f"The schedule's store went back or began anew: what follows is of epoch {new}."
        told = {
            "cursor": after,
            "seq": int(first),
            "time": rfc3339(self.clock.now()),
            "type": GAP,
            "actor": "history",
            "subject": {},
            "from": before,
            "to": after,
            "message": text,
            "facts": {},
        }
        _log.warning("%s", text)
        return told

    def _fails(self, error: OSError | ScheduleUnavailable) -> None:
        why = str(error)
        if self.failing is None:
            _log.warning("the history is not written: %s", why)
            if isinstance(error, OSError):
                self.events.emit(
                    Event(
                        type="history_failing",
                        at=self.clock.now(),
                        message=f"The history cannot be written: {why}. It goes on when it can.",
                        facts=frozen({"why": why}),
                        priority=Priority.HIGH,
                    )
                )
        self.failing = why


def _line(row: Recorded) -> Mapping[str, object]:
    told = recorded_to_json(row)
    return {key: told[key] for key in KEYS}
