"""The feed: the picture of this host at one instant, and every later event once and in order (FEED-1).

Decides what a reader gets and when it is told to begin anew. Numbering is the store's (FEED-2), the
picture is drawn by `services.status`.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.errors import CursorReset, InvalidRequest, Refusal, ScheduleUnavailable
from hostler.domain.events import TYPES, Recorded
from hostler.services.event_queue import EventQueue
from hostler.services.needs import Clock
from hostler.services.picture import Picture
from hostler.wire.values import dump, dump_plain, recorded_to_json, to_json

PAGE: Final = 500
"""Events in one answer: with 1 KiB each half a MiB."""
LONGEST_WAIT_S: Final = 60.0
"""A longer `wait` is cut to this: proxies between close what is silent for longer."""
HEARTBEAT_S: Final = 15.0
FRAMES: Final = 1_000
"""Events kept as they are written to streams: at 1 KiB each 1 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """`draw` gives the picture at this instant, without waiting.

    `schedule` gives what a head's store has, or of another node who the head is.
    """

    queue: EventQueue
    draw: Callable[[], Picture]
    clock: Clock
    schedule: Callable[[], Awaitable[Mapping[str, object]]] | None = None
    _frames: dict[str, bytes] = field(default_factory=dict)

    async def snapshot(self) -> Mapping[str, object]:
        """The picture and the cursor that goes with it: later events applied to it give later pictures.

        Leases and jobs are read after the cursor was taken, and say by `seq` which event changed them last: a
        reader passes over their events up to there (FEED-3). Refuses `schedule_unavailable` while the log
        cannot be written.
        """
        picture = self.draw()
        # No other task runs between these two: the mark stands behind just the events that made the picture.
        cursor = await self.queue.mark()
        stored = {} if self.schedule is None else await self.schedule()
        return {
            **stored,
            "cursor": cursor,
            "time": picture.at,
            "hosts": [to_json(picture.host)],
            "hold": to_json(picture.hold),
            "engines": to_json(picture.engines),
            "routes": to_json(picture.routes),
        }

    async def since(
        self, cursor: str, *, wait_s: float = 0.0, types: Sequence[str] = ()
    ) -> Mapping[str, object]:
        """`{"events", "cursor", "more"}`: events after `cursor`, and the cursor to go on from.

        With `wait_s` an answer without events comes only after so many seconds; `types` leaves out
        others, and the cursor moves over them. `more` is true when the next call need not wait. Refuses
        `cursor_reset`, `schedule_unavailable`, `invalid_request` for a type that there is not.
        """
        check_types(types)
        deadline = self.clock.elapsed() + min(wait_s, LONGEST_WAIT_S)
        while True:
            rows = await self.queue.since(cursor, PAGE)
            events = [recorded_to_json(row) for row in rows if not types or row.event.type in types]
            cursor = rows[-1].cursor if rows else cursor
            more = len(rows) == PAGE
            left = deadline - self.clock.elapsed()
            if events or more or left <= 0 or self.queue.released:
                return {"events": events, "cursor": cursor, "more": more}
            await self.queue.wait(cursor, left)

    async def follow(self, cursor: str | None = None, *, types: Sequence[str] = ()) -> AsyncIterator[bytes]:
        """Later events as server-sent events, from `cursor` (`Last-Event-ID`) or from now on.

        Refuses like `since` before the first byte, so that it can be a status. In the stream a reset is
        an event of type `reset`, trouble one of type `error`, and both end it.
        """
        check_types(types)
        start = cursor or await self.queue.mark()
        rows = await self.queue.since(start, PAGE)
        return self._stream(start, rows, frozenset(types))

    def stop(self) -> None:
        """End every stream and every wait by itself, soon: the daemon is to end (REL-5)."""
        self.queue.release()

    async def _stream(
        self, cursor: str, rows: Sequence[Recorded], types: frozenset[str]
    ) -> AsyncIterator[bytes]:
        beat = Beat(clock=self.clock)
        try:
            yield _heartbeat(cursor)
            while not self.queue.released:
                told = [row for row in rows if not types or row.event.type in types]
                cursor = rows[-1].cursor if rows else cursor
                if told:
                    yield b"".join(map(self._frame, told))
                    beat.sent()
                elif not await self.queue.wait_or(cursor, beat.timer()) and beat.due():
                    yield _heartbeat(cursor)
                    beat.sent()
                try:
                    rows = await self.queue.since(cursor, PAGE)
                except (CursorReset, ScheduleUnavailable) as refusal:
                    yield _ended(refusal)
                    return
        finally:
            beat.end()

    def _frame(self, row: Recorded) -> bytes:
        """The event as every reader of a stream gets it: written once for all of them."""
        known = self._frames.get(row.cursor)
        if known is None:
            if len(self._frames) >= FRAMES:
                self._frames.clear()
            known = self._frames[row.cursor] = _told(row)
        return known


@dataclass(eq=False, slots=True, kw_only=True)
class Beat:
    """When a stream that was silent for `HEARTBEAT_S` is to show that it lives.

    Its timer goes on while events come, and is set anew when it ends: a timer for each event would cost more
    than the event.
    """

    clock: Clock
    last: float = field(init=False)
    _timer: asyncio.Future[None] | None = None

    def __post_init__(self) -> None:
        self.sent()

    def sent(self) -> None:
        """Something was sent."""
        self.last = self.clock.elapsed()

    def timer(self) -> asyncio.Future[None]:
        """Done when it may be time."""
        if self._timer is None or self._timer.done():
            left = self.last + HEARTBEAT_S - self.clock.elapsed()
            self._timer = asyncio.ensure_future(self.clock.sleep(left))
        return self._timer

    def due(self) -> bool:
        """Whether it is time."""
        return self.clock.elapsed() - self.last >= HEARTBEAT_S

    def end(self) -> None:
        """Nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()


def check_types(types: Sequence[str]) -> None:
    """Refuses `invalid_request` for an event type that there is not, with the nearest one."""
    for each in types:
        if each not in TYPES:
            near = difflib.get_close_matches(each, TYPES, 1)
            raise InvalidRequest(
                what=f"There is no event type {each!r}.",
                expected=f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(TYPES)}.",
                where="type",
            )


def _told(row: Recorded) -> bytes:
    data = dump_plain(recorded_to_json(row))
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (row.cursor.encode(), row.event.type.encode(), data)


def _heartbeat(cursor: str) -> bytes:
    """A comment with the current cursor; its `id` moves the reader on over what it did not ask for."""
    return b"id: %b\n: heartbeat %b\n\n" % (cursor.encode(), cursor.encode())


def _ended(refusal: Refusal) -> bytes:
    kind = b"reset" if isinstance(refusal, CursorReset) else b"error"
    data = dump({"code": refusal.code, "message": str(refusal), "hint": refusal.advice(), **refusal.facts()})
    return b"event: %b\ndata: %b\n\n" % (kind, data)
