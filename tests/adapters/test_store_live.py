"""The leases and the fence that a store keeps in memory: at any time just what the file has."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.adapters.store.memory import MemoryStore
from hostler.adapters.store.sqlite import SqliteStore
from hostler.adapters.store.sqlite_tx import SqliteTx
from hostler.domain.lease import Lease, State
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.wire.records import fence_from_text, lease_from_text
from tests.adapters.schedule_calls import ids, put
from tests.adapters.schedule_rows import FENCE, lease, moment
from tests.adapters.stores import raw
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


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(State)), max_size=25)


@settings(max_examples=30)
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


class Undone(Exception):
    """A work that raises after it wrote."""


def known(tx: Tx, places: int) -> dict[str, object]:
    """All that a transaction may answer from memory."""
    return {
        "live": tx.live(),
        "waiting": tx.waiting(),
        "fence": tx.fence(),
        "leases": [tx.lease(lease(n + 1).id) for n in range(places)],
        "holders": {f"r{n}": it.id for n in range(places) if (it := tx.holder(f"r{n}")) is not None},
    }


def of_file(path: Path, places: int) -> dict[str, object]:
    """The same from the rows of the file, by a connection that knows nothing yet."""
    leases = [lease_from_text(str(body)) for (body,) in raw(path, "SELECT body FROM leases ORDER BY number")]
    by_id = {it.id: it for it in leases}
    return {
        "live": tuple(it for it in leases if not it.state.ended),
        "waiting": tuple(it for it in leases if it.state.waits),
        "fence": next((fence_from_text(str(body)) for (body,) in raw(path, "SELECT body FROM fence")), None),
        "leases": [by_id.get(lease(n + 1).id) for n in range(places)],
        "holders": {str(name): it for name, it in raw(path, "SELECT resource, lease FROM claims")},
    }


PLACES = 4
STEP = st.tuples(st.integers(0, PLACES - 1), st.sampled_from([*State, None]))
"""A lease and the state that it gets; None: the fence, up or down."""
WORKS = st.lists(
    st.tuples(st.sampled_from(["here", "there", "undone"]), st.lists(STEP, min_size=1, max_size=4)),
    max_size=10,
)


@settings(max_examples=60)
@given(works=WORKS)
async def test_what_is_known_is_what_the_file_has(
    tmp_path_factory: pytest.TempPathFactory,
    works: list[tuple[str, list[tuple[int, State | None]]]],
) -> None:
    """LEASE-7: whoever wrote last, whatever was undone: leases, claims and fence are those of the file."""
    path = tmp_path_factory.mktemp("known") / "schedule.db"
    here, there = (SqliteStore(path, CountingIds(), busy_s=30) for _ in range(2))
    try:
        for where, steps in works:

            def work(tx: Tx, where: str = where, steps: list[tuple[int, State | None]] = steps) -> None:
                for place, state in steps:
                    if state is None:
                        tx.put_fence(FENCE if tx.fence() is None else None)
                        continue
                    before = tx.lease(lease(place + 1).id) or lease(place + 1, covers=(f"r{place}",))
                    after = replace(before, state=state, ended=moment() if state.ended else None)
                    assert tx.put(after) == tx.lease(before.id)
                if where == "undone":
                    raise Undone

            with suppress(Undone):
                await (there if where == "there" else here).write(work)
            assert await here.read(lambda tx: known(tx, PLACES)) == of_file(path, PLACES)
            assert await here.write(lambda tx: known(tx, PLACES)) == of_file(path, PLACES)
    finally:
        await here.close()
        await there.close()


async def test_a_lease_that_changes_often_in_one_work_is_written_once(
    store: SqliteStore, tmp_path: Path
) -> None:
    """PERF-8: of all states that a lease goes through in one work only the last becomes a row."""
    path = tmp_path / "schedule.db"
    await store.cursor()
    raw(path, "CREATE TABLE seen (body TEXT)")
    raw(path, "CREATE TRIGGER a AFTER INSERT ON leases BEGIN INSERT INTO seen VALUES (new.body); END")
    raw(path, "CREATE TRIGGER b AFTER UPDATE ON leases BEGIN INSERT INTO seen VALUES (new.body); END")

    def work(tx: Tx) -> Lease:
        kept = tx.put(lease(1))
        for state in (State.OFFERED, State.ACTIVATING, State.ACTIVE):
            kept = tx.put(replace(kept, state=state))
        return kept

    kept = await store.write(work)
    assert [lease_from_text(str(body)) for (body,) in raw(path, "SELECT body FROM seen")] == [kept]


async def test_a_row_that_is_refused_fails_its_own_work_only(store: SqliteStore) -> None:
    """LEASE-7: of works that wait together, one whose row is there already undoes itself and no other."""

    def work(n: int, request: str) -> Callable[[Tx], int]:
        return lambda tx: tx.put(lease(n, State.OFFERED, request_id=request, covers=(f"r{n}",))).number

    results = await asyncio.gather(
        store.write(work(1, "a")),
        store.write(work(2, "a")),
        store.write(work(3, "b")),
        return_exceptions=True,
    )
    assert [type(each) for each in results] == [int, ValueError, int]
    assert await live(store) == ([1, 3], [])
    assert await store.read(lambda tx: [tx.holder(f"r{n}") is not None for n in (1, 2, 3)]) == [
        True,
        False,
        True,
    ]


async def test_what_a_work_wrote_is_found_by_every_query(store: SqliteStore) -> None:
    """LEASE-7: a query on the file has what the same work put, though its row is written at its end."""

    def work(tx: Tx) -> None:
        over = tx.put(lease(1, State.CANCELLED))
        held = tx.put(lease(2, State.ACTIVE))
        assert tx.lease_of_request("request-1") == over
        assert tx.ended(after=0, limit=9) == (over,)
        tx.put(replace(held, state=State.RELEASED, ended=moment(1)))
        assert ids(tx.ended(after=0, limit=9)) == [2, 1]
        assert tx.prune_ended("9999", 9) == 2
        assert tx.lease(held.id) is None

    await store.write(work)
    assert await live(store) == ([], [])
