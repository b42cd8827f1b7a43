"""The leases that a store keeps in memory: at any time just what the file has."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.adapters.store.live import KeptLive
from hostler.adapters.store.memory import MemoryStore
from hostler.adapters.store.sqlite import SqliteStore
from hostler.adapters.store.sqlite_tx import SqliteTx
from hostler.domain.lease import Lease, State
from hostler.services.schedule_needs import ScheduleStore, Tx
from tests.adapters.schedule_calls import ids, put
from tests.adapters.schedule_rows import lease, moment
from tests.fakes.ids import CountingIds


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "schedule.db", CountingIds(), busy_s=30)
    yield made
    await made.close()


async def live(store: ScheduleStore) -> tuple[list[int], list[int]]:
    """The numbers of the live leases, and of those that wait."""
    return await store.read(lambda tx: (ids(tx.live()), ids(tx.waiting())))


async def test_what_another_connection_writes_is_seen(store: SqliteStore, tmp_path: Path) -> None:
    """LEASE-7: leases that another process wrote count from its commit on."""
    kept = await store.write(lambda tx: tx.put(lease(1)))
    assert await live(store) == ([1], [1])
    other = SqliteStore(tmp_path / "schedule.db", CountingIds(), busy_s=30)
    await other.write(lambda tx: tx.put(replace(kept, state=State.OFFERED)))
    await other.write(lambda tx: tx.put(lease(2)))
    await other.close()
    assert await live(store) == ([1, 2], [2])


async def test_what_is_undone_was_never_there(store: SqliteStore) -> None:
    """LEASE-7: a lease of a work that raised is not live, neither in its transaction nor after it."""
    await store.write(lambda tx: tx.put(lease(1)))

    def bad(tx: Tx) -> None:
        tx.put(lease(2))
        assert ids(tx.live()) == [1, 2]
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await store.write(bad)
    assert await live(store) == ([1], [1])


async def test_a_transaction_that_cannot_be_committed_leaves_nothing(store: SqliteStore) -> None:
    """REL-2: a lease of a transaction that was undone as a whole is not live."""
    await store.write(lambda tx: tx.put(lease(1)))
    assert await live(store) == ([1], [1])

    def bad(tx: Tx) -> None:
        assert isinstance(tx, SqliteTx)
        tx.put(lease(2))
        tx.connection.execute("ROLLBACK")  # As SQLite does by itself on a full disk.
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        await store.write(bad)
    assert await live(store) == ([1], [1])


def test_undone_is_forgotten() -> None:
    """LEASE-7: what was read before something was undone is read anew."""
    kept, connection = KeptLive(), sqlite3.connect(":memory:")
    rows = [replace(lease(1), number=1)]
    kept.get(connection, lambda: rows)
    kept.put(replace(lease(2), number=2))
    assert ids(kept.get(connection, lambda: rows).all()) == [1, 2]
    kept.forget()
    assert ids(kept.get(connection, lambda: rows).all()) == [1]
    connection.close()


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(State)), max_size=25)


@settings(max_examples=30, deadline=None)
@given(changes=CHANGES)
async def test_both_stores_have_the_same(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, State]]
) -> None:
    """R41: whatever becomes of leases, those that live and that wait come by number from either store."""
    stores: tuple[ScheduleStore, ScheduleStore] = (
        MemoryStore(CountingIds()),
        made := SqliteStore(tmp_path_factory.mktemp("live") / "schedule.db", CountingIds(), busy_s=30),
    )
    kept: list[dict[int, Lease]] = [{}, {}]
    try:
        for place, state in changes:
            for store, had in zip(stores, kept, strict=True):
                over = moment() if state.ended else None
                before = had.get(place, lease(place + 1, covers=(f"r{place}",)))
                had[place] = await store.write(put(replace(before, state=state, ended=over)))
            assert await live(stores[0]) == await live(stores[1])
    finally:
        await made.close()
