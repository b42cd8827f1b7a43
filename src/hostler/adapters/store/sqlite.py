"""The schedule's store in one SQLite file, by the rule of the single writer.

One thread owns the one connection. Writes that wait together share one transaction, begun with BEGIN
IMMEDIATE and committed with `synchronous = FULL`, each in a savepoint of its own; a call returns after its
commit, so what was acknowledged survives `kill -9` (REL-2). Decides nothing about leases, jobs or events.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Generic, TypeVar

from hostler.adapters.store import care
from hostler.adapters.store.counters import Clean, unchanged
from hostler.adapters.store.cursors import seq_of
from hostler.adapters.store.remembered import Memory
from hostler.adapters.store.sql import Migration, migrations
from hostler.adapters.store.sqlite_file import BUSY_S, SQL, StoreFile, Unusable, is_broken, transaction
from hostler.adapters.store.sqlite_tx import SqliteTx, counters_of
from hostler.domain.errors import ScheduleUnavailable, StoreFull
from hostler.domain.events import Event, Recorded
from hostler.domain.values import rfc3339
from hostler.services.needs import Ids
from hostler.services.schedule_needs import Tx
from hostler.wire.values import event_and_text, event_from_text

_T = TypeVar("_T")
CALLS_AT_ONCE: Final = 256
"""So many waiting calls share one transaction at most: the first of them does not wait for all that come."""
Hear = Callable[[Sequence[Recorded]], None]


@dataclass(eq=False, kw_only=True)
class _Call(Generic[_T]):
    """Work for the thread. `tells_full`: it is refused with `store_full` where there is no room.

    `done` is the loop's: the thread only looks whether its caller has gone.
    """

    run: Callable[[SqliteTx], _T]
    done: asyncio.Future[_T]
    writes: bool
    tells_full: bool = False


@dataclass(eq=False, kw_only=True)
class _Alone(Generic[_T]):
    """Work for the thread on the file itself, outside any transaction."""

    run: Callable[[], _T]
    done: asyncio.Future[_T]
    tells_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one work; told after the commit, in the loop."""

    call: _Call[object] | _Alone[object]
    result: object = None
    error: BaseException | None = None

    def tell(self) -> None:
        """Let its caller go on, with what went wrong as it is to see it."""
        done, error = self.call.done, self.error
        if done.done():
            return  # Its caller has gone.
        if error is None:
            done.set_result(self.result)
            return
        if isinstance(error, StopIteration):  # No coroutine may raise it.
            error = RuntimeError(f"a work raised {error!r}")
        elif isinstance(error, StoreFull) and not self.call.tells_full:
            refusal = ScheduleUnavailable(why=error.why, file=error.file)
            refusal.__cause__ = error
            error = refusal
        done.set_exception(error)


class SqliteStore:
    """The needs `Store` and `ScheduleStore`. Opens its file at the first call; a refused call may be tried
    again at any time. `clean` takes secrets out of events that transactions record.
    """

    def __init__(
        self,
        path: Path,
        ids: Ids,
        *,
        busy_s: float = BUSY_S,
        steps: Sequence[Migration] | None = None,
        clean: Clean = unchanged,
    ) -> None:
        self._file = StoreFile(
            path=path, ids=ids, busy_s=busy_s, steps=migrations("sqlite") if steps is None else steps
        )
        self._clean = clean
        self._memory = Memory()
        self._hearing: list[Hear] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: queue.SimpleQueue[_Call[object] | _Alone[object] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True)
        self._closed = False

    async def record(self, events: Sequence[Event]) -> Sequence[Recorded]:
        # In the caller's thread: an event without a text form fails its own call and no other.
        texts = [event_and_text(event) for event in events]

        def work(tx: SqliteTx) -> Sequence[Recorded]:
            start = len(tx.rows)
            for event, text in texts:
                tx.append(event, text)
            return tuple(tx.rows[start:])

        return await self._call(work, writes=True)

    async def write(self, work: Callable[[Tx], _T]) -> _T:
        return await self._call(work, writes=True, tells_full=True)

    async def read(self, work: Callable[[Tx], _T]) -> _T:
        return await self._call(work, writes=False)

    def listen(self, hear: Hear) -> None:
        self._hearing.append(hear)

    async def since(self, cursor: str | None, limit: int) -> Sequence[Recorded]:
        return await self._call(lambda tx: _since(tx, cursor, limit), writes=False)

    async def cursor(self) -> str:
        return await self._call(lambda tx: f"{tx.counters.epoch}:{tx.counters.seq}", writes=False)

    async def prune(self, before: datetime, limit: int) -> int:
        return await self._call(lambda tx: tx.prune(rfc3339(before), limit), writes=True)

    async def backup(self, target: Path) -> None:
        """Copy the store as it is now to a new file; writers go on meanwhile (REL-4)."""
        self._check()
        await asyncio.to_thread(care.backup, self._file, target)

    async def recover(self, now: datetime, *, known: Sequence[str] = ()) -> care.Begun:
        """Begin a new epoch after all of `known`; a file that cannot be read is set aside (LEASE-8)."""

        def alone() -> care.Begun:
            with self._file.anew():
                begun = care.recover(self._file, now=now, known=known)
            self._tell((), (begun.told,))
            return begun

        return await self._submit(_Alone(run=alone, done=self._promise()))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._loop is not None:
            self._work.put(None)
            await asyncio.to_thread(self._thread.join)

    async def _call(self, run: Callable[[SqliteTx], _T], *, writes: bool, tells_full: bool = False) -> _T:
        return await self._submit(_Call(run=run, done=self._promise(), writes=writes, tells_full=tells_full))

    def _promise(self) -> asyncio.Future[_T]:
        """What a call waits for. The first call's loop is the one that the store serves."""
        self._check()
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._thread.start()
        return self._loop.create_future()

    async def _submit(self, call: _Call[_T] | _Alone[_T]) -> _T:
        self._work.put(call)  # type: ignore[arg-type] # the queue carries calls of every result
        return await call.done

    def _check(self) -> None:
        if self._closed:
            raise ScheduleUnavailable(why="it is closed", file=str(self._file.path))

    # ------------------------------------------------------------ on the thread

    def _serve(self) -> None:
        open_ = True
        while open_:
            waiting = self._take()
            open_ = None not in waiting
            calls = [each for each in waiting if each is not None and not each.done.cancelled()]
            # Writes first: a read between two of them would part what can be committed together, and nobody
            # who waits for both has a right to their order.
            writes = [each for each in calls if isinstance(each, _Call) and each.writes]
            if writes:
                self._write(writes)
            for each in calls:
                if isinstance(each, _Alone):
                    self._answer(each)
                elif not each.writes:
                    self._read(each)
        self._file.close()

    def _take(self) -> list[_Call[object] | _Alone[object] | None]:
        """What waits now, at least one, in order."""
        taken = [self._work.get()]
        while len(taken) < CALLS_AT_ONCE:
            try:
                taken.append(self._work.get_nowait())
            except queue.Empty:
                break
        return taken

    def _write(self, calls: Sequence[_Call[object]]) -> None:
        """All of them in one transaction; none is told of before the commit."""
        try:
            with self._file.connection() as connection, transaction(connection):
                tx = self._tx(connection, writing=True)
                before = tx.counters
                outcomes = [self._one(tx, call) for call in calls]
                if tx.counters != before:
                    tx.save()
        except BaseException as error:  # noqa: BLE001 - it is raised where the calls are awaited
            self._memory.known.forget()
            self._tell([_Outcome(call=call, error=error) for call in calls])
        else:
            self._tell(outcomes, tx.rows)

    def _one(self, tx: SqliteTx, call: _Call[object]) -> _Outcome:
        """One work in its savepoint: when it raises, it undoes itself and no other."""
        connection, counters, recorded = tx.connection, tx.counters, len(tx.rows)
        connection.execute("SAVEPOINT work")
        tx.changed = False
        try:
            outcome = _Outcome(call=call, result=call.run(tx))
            tx.flush()
        except BaseException as error:
            if not connection.in_transaction or is_broken(error):
                raise  # The whole transaction is undone with it, or is to be: no work of it stands.
            connection.execute("ROLLBACK TO work")
            tx.undone(counters, recorded)
            outcome = _Outcome(call=call, error=self._file.refusal(error))
        connection.execute("RELEASE work")
        return outcome

    def _answer(self, call: _Alone[object]) -> None:
        try:
            outcome = _Outcome(call=call, result=call.run())
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
            outcome = _Outcome(call=call, error=error)
        self._tell([outcome])

    def _read(self, call: _Call[object]) -> None:
        try:
            with self._file.connection() as connection, transaction(connection, "DEFERRED"):
                outcome = _Outcome(call=call, result=call.run(self._tx(connection, writing=False)))
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
            outcome = _Outcome(call=call, error=error)
        self._tell([outcome])

    def _tx(self, connection: sqlite3.Connection, *, writing: bool) -> SqliteTx:
        tx = SqliteTx(
            connection=connection,
            counters=counters_of(connection),
            writing=writing,
            memory=self._memory,
            clean=self._clean,
        )
        self._memory.known.look(connection)
        return tx

    def _tell(self, outcomes: Sequence[_Outcome], rows: Sequence[Recorded] = ()) -> None:
        """Wake the loop once for all of it. A loop that is closed has nobody left who waits or could hear."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hear, outcomes, rows)

    def _hear(self, outcomes: Sequence[_Outcome], rows: Sequence[Recorded]) -> None:
        """Before any caller goes on: who looks at what was heard after a write finds the write's events."""
        try:
            for hear in self._hearing if rows else ():
                hear(rows)
        finally:
            for outcome in outcomes:
                outcome.tell()


def _since(tx: SqliteTx, cursor: str | None, limit: int) -> Sequence[Recorded]:
    kept = tx.counters
    after = seq_of(cursor, epoch=kept.epoch, seq=kept.seq, pruned=kept.pruned)
    found = tx.connection.execute(SQL["since"], {"seq": after, "limit": limit}).fetchall()
    try:
        return tuple(Recorded(seq=row, epoch=kept.epoch, event=event_from_text(body)) for row, body in found)
    except ValueError as error:
        raise Unusable(f"an event of it is damaged: {error}") from error
