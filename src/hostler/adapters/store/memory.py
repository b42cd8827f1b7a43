"""A store that lives as long as its process: for tests, and where a daemon is to leave nothing behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hostler.adapters.store.cursors import seq_of
from hostler.domain.errors import ScheduleUnavailable
from hostler.domain.events import Event, Recorded
from hostler.domain.values import rfc3339
from hostler.services.needs import Ids
from hostler.wire.values import event_from_text, event_to_text


class MemoryStore:
    """The need `Store`. `broken` set to a reason makes every call refuse with it, until it is None again."""

    def __init__(self, ids: Ids) -> None:
        self.epoch = ids.new("ep")
        self.broken: str | None = None
        self._seq = 0
        self._pruned = 0
        self._rows: list[Recorded] = []

    async def record(self, events: Sequence[Event]) -> Sequence[Recorded]:
        self._check()
        # Through the text form, as every store: what is given back is what will be read later.
        kept = [event_from_text(event_to_text(event)) for event in events]
        rows = [
            Recorded(seq=self._seq + place, epoch=self.epoch, event=event)
            for place, event in enumerate(kept, start=1)
        ]
        self._rows += rows
        self._seq += len(rows)
        return tuple(rows)

    async def since(self, cursor: str | None, limit: int) -> Sequence[Recorded]:
        self._check()
        after = seq_of(cursor, epoch=self.epoch, seq=self._seq, pruned=self._pruned)
        return tuple(self._rows[after - self._pruned :][:limit])

    async def cursor(self) -> str:
        self._check()
        return f"{self.epoch}:{self._seq}"

    async def prune(self, before: datetime, limit: int) -> int:
        self._check()
        edge, old = rfc3339(before), 0
        while old < min(limit, len(self._rows)) and rfc3339(self._rows[old].event.at) < edge:
            old += 1
        del self._rows[:old]
        self._pruned += old
        return old

    async def close(self) -> None:
        self.broken = "it is closed"

    def _check(self) -> None:
        if self.broken is not None:
            raise ScheduleUnavailable(why=self.broken, file="memory")
