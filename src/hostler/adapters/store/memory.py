"""A store that lives as long as its process: for tests, and where a daemon is to leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from hostler.adapters.store.counters import Clean, Counters, unchanged
from hostler.adapters.store.cursors import seq_of
from hostler.adapters.store.memory_tx import MemoryTx, Tables
from hostler.domain.errors import ScheduleUnavailable, StoreFull
from hostler.domain.events import Event, Recorded
from hostler.domain.values import rfc3339
from hostler.services.needs import Ids
from hostler.services.schedule_needs import Tx
from hostler.wire.values import event_from_text, event_to_text

_T = TypeVar("_T")


class MemoryStore:
    """The needs `Store` and `ScheduleStore`. `broken` set to a reason makes every call refuse with it,
    until it is None again; `full` makes writes refuse.
    """

    def __init__(self, ids: Ids, *, clean: Clean = unchanged) -> None:
        self.broken: str | None = None
        self.full: str | None = None
        self._clean = clean
        self._tables = Tables(counters=Counters(epoch=ids.new("ep")))
        self._events: list[Recorded] = []
        self._hearing: list[Callable[[Sequence[Recorded]], None]] = []

    @property
    def epoch(self) -> str:
        """This store's life."""
        return self._tables.counters.epoch

    async def record(self, events: Sequence[Event]) -> Sequence[Recorded]:
        self._check()
        if self.full is not None:
            raise ScheduleUnavailable(why=self.full, file="memory")
        # Through the text form, as every store: what is given back is what will be read later.
        kept = [event_from_text(event_to_text(event)) for event in events]

        def work(tx: MemoryTx) -> Sequence[Recorded]:
            start = len(tx.rows)
            for event in kept:
                tx.append(event)
            return tuple(tx.rows[start:])

        return self._write(work)

    async def write(self, work: Callable[[Tx], _T]) -> _T:
        self._check()
        if self.full is not None:
            raise StoreFull(why=self.full, file="memory")
        return self._write(work)

    async def read(self, work: Callable[[Tx], _T]) -> _T:
        self._check()
        return work(MemoryTx(tables=self._tables, events=self._events, writing=False))

    def listen(self, hear: Callable[[Sequence[Recorded]], None]) -> None:
        self._hearing.append(hear)

    async def since(self, cursor: str | None, limit: int) -> Sequence[Recorded]:
        self._check()
        kept = self._tables.counters
        after = seq_of(cursor, epoch=kept.epoch, seq=kept.seq, pruned=kept.pruned)
        return tuple(self._events[after - kept.pruned :][:limit])

    async def cursor(self) -> str:
        self._check()
        return f"{self.epoch}:{self._tables.counters.seq}"

    async def prune(self, before: datetime, limit: int) -> int:
        self._check()
        return self._write(lambda tx: tx.prune(rfc3339(before), limit))

    async def close(self) -> None:
        self.broken = "it is closed"

    def _write(self, work: Callable[[MemoryTx], _T]) -> _T:
        """Run it on a copy, which takes the place of the tables only when nothing was raised."""
        tables = self._tables.copy()
        tx = MemoryTx(tables=tables, events=self._events, writing=True, clean=self._clean)
        result = work(tx)
        self._tables = tables
        del self._events[: tx.dropped]
        self._events += tx.rows
        if tx.rows:
            for hear in self._hearing:
                hear(tuple(tx.rows))
        return result

    def _check(self) -> None:
        if self.broken is not None:
            raise ScheduleUnavailable(why=self.broken, file="memory")
