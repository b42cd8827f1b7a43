"""The schedule's store in one SQLite file, by the rule of the single writer.

One thread owns the one connection. Calls that wait together are written in one transaction, begun
with BEGIN IMMEDIATE and committed with `synchronous = FULL`; a call returns after its commit, so what
was acknowledged survives `kill -9` (REL-2). Decides nothing about events.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Generic, TypeVar

from hostler.adapters.store.cursors import seq_of
from hostler.adapters.store.sql import Migration, migrations
from hostler.adapters.store.sqlite_file import BUSY_S, SQL, StoreFile, Unusable
from hostler.domain.errors import ScheduleUnavailable
from hostler.domain.events import Event, Recorded
from hostler.domain.values import rfc3339
from hostler.services.needs import Ids
from hostler.wire.values import event_from_text, event_to_text

_T = TypeVar("_T")
CALLS_AT_ONCE: Final = 256
"""So many waiting calls share one transaction at most: the first of them does not wait for all that come."""


@dataclass(eq=False, kw_only=True)
class _Call(Generic[_T]):
    """Work for the thread, alone in its transaction or without one."""

    run: Callable[[sqlite3.Connection], _T]
    done: Future[_T]


@dataclass(eq=False, kw_only=True)
class _Append:
    """Events to append, as texts; may share a transaction with other appends."""

    texts: Sequence[str]
    done: Future[Sequence[Recorded]]


_Work = _Call[object] | _Append


class SqliteStore:
    """The need `Store`. Opens its file at the first call; a refused call may be tried again at any time."""

    def __init__(
        self, path: Path, ids: Ids, *, busy_s: float = BUSY_S, steps: Sequence[Migration] | None = None
    ) -> None:
        self._file = StoreFile(
            path=path, ids=ids, busy_s=busy_s, steps=migrations("sqlite") if steps is None else steps
        )
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True)
        self._begun = False
        self._closed = False

    async def record(self, events: Sequence[Event]) -> Sequence[Recorded]:
        # In the caller's thread: an event without a text form fails its own call and no other.
        texts = [event_to_text(event) for event in events]
        work = _Append(texts=texts, done=Future())
        self._submit(work)
        return await asyncio.wrap_future(work.done)

    async def since(self, cursor: str | None, limit: int) -> Sequence[Recorded]:
        return await self._call(lambda connection: _since(connection, cursor, limit))

    async def cursor(self) -> str:
        return await self._call(lambda connection: "{}:{}".format(*_meta(connection)))

    async def prune(self, before: datetime, limit: int) -> int:
        return await self._call(lambda connection: _prune(connection, rfc3339(before), limit))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._begun:
            self._work.put(None)
            await asyncio.to_thread(self._thread.join)

    async def _call(self, run: Callable[[sqlite3.Connection], _T]) -> _T:
        work = _Call(run=run, done=Future[_T]())
        self._submit(work)  # type: ignore[arg-type] # the queue carries calls of every result
        return await asyncio.wrap_future(work.done)

    def _submit(self, work: _Work) -> None:
        if self._closed:
            raise ScheduleUnavailable(why="it is closed", file=str(self._file.path))
        if not self._begun:
            self._begun = True
            self._thread.start()
        self._work.put(work)

    # ------------------------------------------------------------ on the thread

    def _serve(self) -> None:
        open_ = True
        while open_:
            waiting = self._take()
            open_ = None not in waiting
            work = [each for each in waiting if each is not None and each.done.set_running_or_notify_cancel()]
            for appends, group in itertools.groupby(work, key=lambda each: isinstance(each, _Append)):
                if appends:
                    self._append([each for each in group if isinstance(each, _Append)])
                else:
                    for each in group:
                        if isinstance(each, _Call):
                            self._answer(each)
        self._file.close()

    def _take(self) -> list[_Work | None]:
        """What waits now, at least one, in order."""
        taken = [self._work.get()]
        while len(taken) < CALLS_AT_ONCE:
            try:
                taken.append(self._work.get_nowait())
            except queue.Empty:
                break
        return taken

    def _append(self, appends: Sequence[_Append]) -> None:
        """All of them in one transaction; none is told of before the commit."""
        try:
            with self._file.connection() as connection, _transaction(connection):
                rows = _append(connection, [text for each in appends for text in each.texts])
        except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
            for each in appends:
                each.done.set_exception(error)
            return
        left = iter(rows)
        for each in appends:
            each.done.set_result(tuple(itertools.islice(left, len(each.texts))))

    def _answer(self, call: _Call[object]) -> None:
        try:
            with self._file.connection() as connection:
                result = call.run(connection)
        except Exception as error:  # noqa: BLE001 - it is raised where the call is awaited
            call.done.set_exception(error)
        else:
            call.done.set_result(result)


@contextmanager
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """IMMEDIATE has the write lock from its first statement on: two writers never read the same counter."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _meta(connection: sqlite3.Connection) -> tuple[str, int, int]:
    epoch, seq, pruned = connection.execute(SQL["meta"]).fetchone()
    return epoch, seq, pruned


def _append(connection: sqlite3.Connection, texts: Sequence[str]) -> Sequence[Recorded]:
    epoch, seq, _ = _meta(connection)
    rows = [
        Recorded(seq=seq + place, epoch=epoch, event=event_from_text(text))
        for place, text in enumerate(texts, start=1)
    ]
    connection.execute(SQL["take"], {"count": len(rows)})
    connection.executemany(
        SQL["append"],
        (
            {"seq": row.seq, "time": rfc3339(row.event.at), "type": row.event.type, "body": text}
            for row, text in zip(rows, texts, strict=True)
        ),
    )
    return rows


def _since(connection: sqlite3.Connection, cursor: str | None, limit: int) -> Sequence[Recorded]:
    with _transaction(connection, "DEFERRED"):  # One view: a prune between two reads would leave a hole.
        epoch, seq, pruned = _meta(connection)
        after = seq_of(cursor, epoch=epoch, seq=seq, pruned=pruned)
        found = connection.execute(SQL["since"], {"seq": after, "limit": limit}).fetchall()
    try:
        return tuple(Recorded(seq=row, epoch=epoch, event=event_from_text(body)) for row, body in found)
    except ValueError as error:
        raise Unusable(f"an event of it is damaged: {error}") from error


def _prune(connection: sqlite3.Connection, before: str, limit: int) -> int:
    """From the oldest on, up to the first that is not old: the log never has a hole, whatever clocks did."""
    with _transaction(connection):
        oldest = connection.execute(SQL["oldest"], {"limit": limit}).fetchall()
        old = list(itertools.takewhile(lambda row: row[1] < before, oldest))
        if old:
            connection.execute(SQL["drop"], {"seq": old[-1][0]})
            connection.execute(SQL["pruned"], {"seq": old[-1][0]})
    return len(old)
