"""The stores that the conformance suite runs on, and what a test of them needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest

from hostler.adapters.store.counters import Clean, unchanged
from hostler.adapters.store.memory import MemoryStore
from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.errors import ScheduleUnavailable
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import frozen
from hostler.domain.values import Priority
from hostler.services.needs import Ids, Store
from hostler.services.schedule_needs import ScheduleStore


class Both(Store, ScheduleStore, Protocol):
    """A store with its event log and its transactions."""


class Make(Protocol):
    """Makes a store in a folder."""

    def __call__(self, folder: Path, ids: Ids, *, clean: Clean = unchanged) -> Both: ...


START = datetime(2026, 9, 4, 20, 5, 11, 482_917, tzinfo=UTC)


def _memory(folder: Path, ids: Ids, *, clean: Clean = unchanged) -> Both:
    return MemoryStore(ids, clean=clean)


def _sqlite(folder: Path, ids: Ids, *, clean: Clean = unchanged) -> Both:
    return SqliteStore(folder / "schedule.db", ids, busy_s=30, clean=clean)


STORES: dict[str, Make] = {"memory": _memory, "sqlite": _sqlite}


def event(number: int = 0, *, seconds: float = 0.0, type_: str = "engine_ready") -> Event:
    """An event that can be told from its neighbours."""
    return Event(
        type=type_,
        at=START + timedelta(seconds=seconds or number),
        actor="residency",
        subject=frozen({"engine": "fast-4b"}),
        before="starting",
        after="ready",
        message=f"number {number}: schön, “quoted”, line\nend",
        facts=frozen({"number": number, "sizes": (1, 2.5, None), "deep": {"a": [True]}}),
        priority=Priority.HIGH,
        once=f"once-{number}",
    )


def numbers(rows: Sequence[Recorded]) -> list[object]:
    """Which events these are."""
    return [row.event.facts["number"] for row in rows]


async def everything(store: Store, cursor: str | None = None, page: int = 100) -> list[Recorded]:
    """All events after `cursor`, page by page, as a reader takes them."""
    rows: list[Recorded] = []
    while found := await store.since(cursor, page):
        rows += found
        cursor = found[-1].cursor
    return rows


def raw(path: Path, sql: str, *parameters: object) -> list[tuple[object, ...]]:
    """Run one statement on the file, beside the store."""
    connection = sqlite3.connect(path, timeout=30)
    try:
        with connection:
            return connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


async def refusal(store: SqliteStore) -> str:
    """Why the store cannot be used; every call says the same."""
    with pytest.raises(ScheduleUnavailable) as refused:
        await store.record([event(1)])
    for call in (store.since(None, 1), store.cursor()):
        with pytest.raises(ScheduleUnavailable, match=refused.value.why.split()[0]):
            await call
    assert str(refused.value).startswith("The schedule cannot be read: ")
    return refused.value.why
