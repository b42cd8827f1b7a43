"""What the schedule's SQLite store owes beyond the suite: durability, one commit for many, no scans, room."""

# ruff: noqa: ASYNC240 - the files are small and local, and no other task waits

import asyncio
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.store.remembered import REMEMBERED, Remembered
from hostler.adapters.store.sqlite import SqliteStore
from hostler.adapters.store.sqlite_file import SQL
from hostler.domain.errors import ScheduleUnavailable, StoreFull
from hostler.domain.lease import State
from hostler.services.schedule_needs import Tx
from tests.adapters.schedule_calls import put
from tests.adapters.schedule_rows import entry, job, lease, moment
from tests.adapters.stores import event, numbers, raw
from tests.fakes.ids import CountingIds

WRITER = """
    import asyncio, sys
    from pathlib import Path
    from hostler.adapters.ids import SystemIds
    from hostler.adapters.store.sqlite import SqliteStore
    from hostler.domain.lease import State
    from tests.adapters.schedule_rows import entry, job, lease
    from tests.adapters.stores import event
    async def main(path):
        store = SqliteStore(Path(path), SystemIds())
        async def one(n):
            def work(tx):
                kept = tx.put(lease(n, State.ACTIVATING, covers=(f"r{n}",)))
                tx.begin(entry(kept, 1))
                tx.put_job(job(n, lease=kept.id), watch=float(n))
                tx.record(event(n))
                return kept
            kept = await store.write(work)
            print(n, kept.number, flush=True)
        for start in range(0, 1_000_000, 4):
            await asyncio.gather(*(one(start + n) for n in range(4)))
    asyncio.run(main(sys.argv[1]))
"""


def writer(path: Path) -> "subprocess.Popen[str]":
    """A process of its own that writes four transactions at a time and says each that was acknowledged."""
    argv = [sys.executable, "-c", textwrap.dedent(WRITER), str(path)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "schedule.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(path, CountingIds(), busy_s=0)
    yield made
    await made.close()


@contextmanager
def no_room(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


# ---------------------------------------------------------------- durable


async def test_an_acknowledged_transaction_survives_a_kill(path: Path) -> None:
    """REL-2, R86: after kill -9 of a process each acknowledged transaction is there, and each is whole."""
    child = writer(path)
    assert child.stdout is not None
    told = [child.stdout.readline().split() for _ in range(150)]
    child.send_signal(signal.SIGKILL)
    told += [line.split() for line in child.stdout if line.endswith("\n")]
    child.wait()
    child.stdout.close()
    store = SqliteStore(path, CountingIds())
    leases = await store.read(lambda tx: tx.live())
    found = [(each.request_id.removeprefix("request-"), str(each.number)) for each in leases]
    assert {(n, number) for n, number in told} <= set(found)
    assert [each.number for each in leases] == list(range(1, len(leases) + 1))
    rows = await store.since(None, 100_000)
    assert [f"request-{n}" for n in numbers(rows)] == [each.request_id for each in leases]
    whole = await store.read(
        lambda tx: [
            (len(tx.journal(each.id)), len(tx.jobs_of(each.id)), tx.holder(each.covers[0]) == each)
            for each in leases
        ]
    )
    assert set(whole) == {(1, 1, True)}
    await store.close()


async def test_a_write_is_told_of_after_its_commit(path: Path, store: SqliteStore) -> None:
    """REL-2, R86: at the moment when `write` returns, another reader of the file sees what was written."""
    for n in range(1, 51):
        await store.write(put(lease(n, covers=(f"r{n}",))))
        assert raw(path, "SELECT max(number) FROM leases") == [(n,)]


async def test_writes_that_wait_together_share_a_commit(path: Path, store: SqliteStore) -> None:
    """PERF-8: 200 writers at once lose nothing and need fewer commits than they are."""
    await store.record([event(0)])
    raw(path, "CREATE TABLE log (seq INTEGER)")
    raw(path, "CREATE TRIGGER t AFTER UPDATE ON meta BEGIN INSERT INTO log VALUES (new.seq); END")

    async def one(n: int) -> None:
        def work(tx: Tx) -> None:
            tx.put(lease(n, State.OFFERED, covers=(f"r{n}",)))
            tx.record(event(n))

        await store.write(work)

    await asyncio.gather(*(one(n) for n in range(1, 201)))
    assert sorted(map(str, numbers(await store.since(None, 999)))) == sorted(map(str, range(201)))
    assert len(await store.read(lambda tx: tx.live())) == 200
    assert raw(path, "SELECT count(*) FROM claims") == [(200,)]
    assert raw(path, "SELECT count(*) < 100 FROM log") == [(1,)]


async def test_a_failed_commit_fails_every_work_of_it(path: Path, store: SqliteStore) -> None:
    """REL-2: when the commit fails, no work of that transaction is acknowledged, and none of it stands."""
    heard: list[object] = []
    store.listen(heard.extend)
    await store.write(put(lease(1)))
    journal = path.with_name("schedule.db-wal")
    while journal.stat().st_size <= path.stat().st_size:  # So that it is the journal that finds no room.
        await store.write(lambda tx: tx.next_generation())

    def work(n: int) -> Callable[[Tx], object]:
        return lambda tx: (tx.put(lease(n)), tx.record(event(n)))

    with no_room(journal.stat().st_size + 4096):
        results = await asyncio.gather(*(store.write(work(n)) for n in range(2, 9)), return_exceptions=True)
    assert {type(each) for each in results} == {StoreFull}
    assert heard == []
    assert [each.number for each in await store.read(lambda tx: tx.live())] == [1]
    assert await store.write(lambda tx: (tx.put(lease(9)).number, tx.record(event(9)))) == (2, 1)
    assert len(heard) == 1


async def test_a_transaction_that_sqlite_undid_fails_every_work_of_it(path: Path, store: SqliteStore) -> None:
    """REL-2: when SQLite undoes the whole transaction, no work of it is acknowledged, and all say why."""
    await store.write(put(lease(1)))
    raw(path, "CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT raise(ROLLBACK, 'all of it'); END")
    begun, go = threading.Event(), threading.Event()

    def slow(tx: Tx) -> bool:
        begun.set()
        return go.wait(30)

    first = asyncio.ensure_future(store.write(slow))
    while not begun.is_set():  # noqa: ASYNC110 - the store's thread sets it
        await asyncio.sleep(0)  # From here on the others wait together.
    rest = asyncio.gather(
        store.write(put(lease(2))),
        store.write(lambda tx: tx.record(event(1))),
        store.write(put(lease(3))),
        return_exceptions=True,
    )
    await asyncio.sleep(0)
    go.set()
    assert await first is True
    assert {str(each).partition(": ")[2] for each in await rest} == {"all of it (SQLITE_CONSTRAINT_TRIGGER)."}
    assert [each.number for each in await store.read(lambda tx: tx.live())] == [1]
    assert (await store.write(put(lease(4)))).number == 2


# ---------------------------------------------------------------- who has what


async def test_the_file_itself_keeps_a_claim_unique(path: Path, store: SqliteStore) -> None:
    """LEASE-7: a second claim row for a resource is refused by the file, whatever the code believes."""
    await store.write(put(lease(1, State.ACTIVE)))
    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE constraint failed: claims\.resource"):
        raw(path, "INSERT INTO claims VALUES ('pair', 'ls_other')")
    with pytest.raises(sqlite3.IntegrityError, match=r"UNIQUE constraint failed: leases\.request"):
        raw(path, "INSERT INTO leases VALUES (9, 'ls_9', 'request-1', NULL, '{}')")


async def test_two_processes_do_not_both_get_a_resource(path: Path) -> None:
    """LEASE-7: of two stores on one file that race for 50 resources each resource goes to one of them."""
    stores = [SqliteStore(path, CountingIds(), busy_s=60) for _ in range(2)]
    await stores[0].cursor()
    calls = [stores[n % 2].write(put(lease(n, State.OFFERED, covers=(f"r{n // 4}",)))) for n in range(1, 201)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    kept = [each for each in results if not isinstance(each, BaseException)]
    assert {type(each).__name__ for each in results} == {"Lease", "Taken"}
    assert len({each.covers for each in kept}) == len(kept) == 51
    assert len({each.number for each in kept}) == 51
    for each in stores:
        await each.close()


# ---------------------------------------------------------------- the same cost at any size

INSERTS = {"found", "append", "new_lease", "put_fence", "begin", "add_point"}
WHOLE = {"leases_live", "leases_over", "jobs_open", "jobs_over"}
"""Partial indexes that have just the rows that the answer has: running along them is no scan."""


@pytest.mark.parametrize("name", sorted(name for name in set(SQL) - INSERTS if not name.startswith("all_")))
async def test_no_statement_looks_at_every_row(path: Path, store: SqliteStore, name: str) -> None:
    """PERF-9: each statement finds its rows by an index and sorts nothing: it costs the same at any size."""
    await store.cursor()
    connection = sqlite3.connect(path)
    names = {word.strip(":(),;") for word in SQL[name].replace("(:", " :").split() if word.startswith(":")}
    plan = connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", dict.fromkeys(names, 1)).fetchall()
    connection.close()
    for *_, text in plan:
        assert "TEMP B-TREE" not in text, text
        if text.startswith("SCAN"):
            # The oldest events are read in the order of their key, up to a limit.
            one_at_a_time = name == "oldest" and text == "SCAN events"
            assert "VIRTUAL TABLE" in text or text.split()[-1] in WHOLE or one_at_a_time, text


async def test_what_was_read_is_remembered_within_a_bound() -> None:
    """PERF-9: a row is read once while its text is the same; memory has a bound, the oldest goes first."""
    made: list[str] = []

    def make(text: str) -> str:
        made.append(text)
        return text

    known = Remembered(make)
    assert [known("1", "a"), known("2", "b"), known("1", "a"), known("1", "c")] == ["a", "b", "a", "c"]
    assert made == ["a", "b", "c"]
    for n in range(3, REMEMBERED + 2):
        known(str(n), "")
    assert len(known.by_id) == REMEMBERED
    assert (known("1", "c"), known("2", "b")) == ("c", "b")
    assert [text for text in made if text] == ["a", "b", "c", "b"]


async def test_a_row_that_another_process_changed_is_read_anew(path: Path) -> None:
    """LEASE-7: what is remembered is known by the row's text: another writer's change is seen at once."""
    one, two = (SqliteStore(path, CountingIds(), busy_s=60) for _ in range(2))
    kept = await one.write(put(lease(1, State.ACTIVE)))
    assert await one.read(lambda tx: tx.holder("pair")) == kept
    changed = await two.write(put(replace(kept, state=State.RELEASING)))
    assert await one.read(lambda tx: tx.holder("pair")) == changed
    for each in (one, two):
        await each.close()


# ---------------------------------------------------------------- trouble


async def test_a_full_disk_refuses_a_write_whole(path: Path, store: SqliteStore) -> None:
    """F22: without room a write is refused as store_full and nothing of it is there; with room it goes on."""
    first = await store.write(put(lease(1, State.ACTIVE)))

    def work(tx: Tx) -> None:
        tx.put(replace(first, state=State.RELEASING))
        for n in range(2000):
            tx.record(event(n))

    with no_room(400_000):
        with pytest.raises(StoreFull, match="the disk is full") as refused:
            await store.write(work)
        assert refused.value.file == str(path)
        with pytest.raises(ScheduleUnavailable, match="the disk is full"):
            await store.record([event(n) for n in range(5000)])
        assert await store.read(lambda tx: tx.live()) == (first,)
    assert await store.write(lambda tx: tx.record(event(1))) == 1
    assert await store.read(lambda tx: tx.live()) == (first,)


async def test_a_store_that_cannot_be_made_for_want_of_room_says_so(path: Path) -> None:
    """F22: a disk without room for a new store is told as full, and leaves no half of one."""
    store = SqliteStore(path, CountingIds())
    with no_room(8192):
        with pytest.raises(StoreFull):
            await store.write(put(lease(1)))
        with pytest.raises(ScheduleUnavailable, match="the disk is full"):
            await store.cursor()
    assert list(path.parent.iterdir()) == []
    assert (await store.write(put(lease(1)))).number == 1
    await store.close()


async def test_a_failure_that_is_no_want_of_room_is_told_as_that(path: Path, store: SqliteStore) -> None:
    """F22: a store that may not be written is unavailable, and not full."""
    await store.write(put(lease(1)))
    raw(path, "CREATE TRIGGER t BEFORE UPDATE ON leases BEGIN SELECT raise(FAIL, 'not today'); END")
    with pytest.raises(ScheduleUnavailable, match="not today"):
        await store.write(put(replace(lease(1), number=1)))


async def test_a_damaged_row_refuses_what_needs_it(path: Path, store: SqliteStore) -> None:
    """R83, R85: a lease that cannot be read makes what reads it unavailable: it never counts as free."""
    await store.write(put(lease(1, State.ACTIVE)))
    raw(path, "UPDATE leases SET body = '{' WHERE number = 1")
    looks: list[Callable[[Tx], object]] = [
        lambda tx: tx.live(),
        lambda tx: tx.holder("pair"),
        lambda tx: tx.lease(lease(1).id),
    ]
    for look in looks:
        with pytest.raises(ScheduleUnavailable, match="a row of it is damaged"):
            await store.read(look)
        with pytest.raises(ScheduleUnavailable, match="a row of it is damaged"):
            await store.write(look)
    beside = await asyncio.gather(
        store.write(lambda tx: tx.live()), store.write(lambda tx: tx.record(event(1))), return_exceptions=True
    )
    assert [type(each) for each in beside] == [ScheduleUnavailable, int]


async def test_what_was_written_is_there_after_a_restart(path: Path) -> None:
    """R36: leases, claims, entries and jobs are found again after the file was closed and opened."""
    store = SqliteStore(path, CountingIds())
    kept = await store.write(put(lease(1, State.STUCK)))
    await store.write(lambda tx: tx.begin(entry(kept, 1)))
    await store.write(lambda tx: tx.put_job(job(1), watch=1.0))
    await store.close()
    again = SqliteStore(path, CountingIds())
    assert await again.read(lambda tx: tx.holder("pair")) == kept
    assert await again.read(lambda tx: tx.journal(kept.id)) == (entry(kept, 1),)
    assert await again.read(lambda tx: tx.jobs_quiet(1.0, 9)) == (job(1),)
    assert await again.write(put(replace(kept, state=State.RELEASED, ended=moment()))) is not None
    await again.close()
