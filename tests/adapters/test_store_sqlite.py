"""What the SQLite store owes beyond the suite: its file, other processes, and what a crash leaves."""

import asyncio
import gzip
import hashlib
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hostler.adapters.store import sqlite_tx
from hostler.adapters.store.sql import Migration, migrations
from hostler.adapters.store.sqlite import SqliteStore
from hostler.adapters.store.sqlite_file import SQL
from hostler.domain.errors import CursorReset, ScheduleUnavailable
from hostler.domain.events import Recorded
from hostler.domain.lease import State
from hostler.domain.step import FenceNumber
from tests.adapters.schedule_rows import lease
from tests.adapters.stores import event, everything, numbers, raw, refusal
from tests.fakes.ids import CountingIds

NOW = len(migrations("sqlite"))
NEXT = (
    *migrations("sqlite"),
    Migration(number=NOW + 1, sql="CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);"),
)
FIRST = "850b1d71729eab452cb0bcd9df06de082de100fc62ac52b3fe49c1a1c6da2009"

WRITER = """
    import asyncio, sys
    from pathlib import Path
    from dataclasses import replace
    from hostler.adapters.ids import SystemIds
    from hostler.adapters.store.sqlite import SqliteStore
    from hostler.domain.fleet import frozen
    from tests.adapters.stores import event
    async def main(path, name, count):
        store = SqliteStore(Path(path), SystemIds(), busy_s=60)
        for number in range(count):
            (row,) = await store.record([replace(event(number), facts=frozen({"number": f"{name}{number}"}))])
            print(row.seq, f"{name}{number}", flush=True)
        await store.close()
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def writer(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    """A process of its own that records events one by one and says each that was acknowledged."""
    argv = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), name, str(count)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "schedule.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(path, CountingIds(), busy_s=0)
    yield made
    await made.close()


# ---------------------------------------------------------------- acknowledged is durable


async def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    """REL-2: kill -9 of a writing process loses no acknowledged event and leaves no gap."""
    child = writer(path, "a", 100_000)
    assert child.stdout is not None
    told = [child.stdout.readline().split() for _ in range(200)]
    child.send_signal(signal.SIGKILL)
    told += [line.split() for line in child.stdout if line.endswith("\n")]
    child.wait()
    child.stdout.close()
    store = SqliteStore(path, CountingIds())
    rows = await everything(store)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert len(told) >= 200
    assert [[str(row.seq), row.event.facts["number"]] for row in rows][: len(told)] == told
    assert (await store.record([event(1)]))[0].seq == len(rows) + 1
    await store.close()


async def test_writers_of_several_processes_lose_nothing(path: Path) -> None:
    """FEED-2: three processes that write at once number their events without gaps, each's own in order."""
    children = [writer(path, name, 150) for name in "abc"]
    told: dict[int, str] = {}
    for child in children:
        assert child.stdout is not None
        for line in child.stdout:
            seq, name = line.split()
            assert told.setdefault(int(seq), name) == name
        assert child.wait() == 0
        child.stdout.close()
    store = SqliteStore(path, CountingIds())
    rows = await everything(store)
    assert {row.seq: row.event.facts["number"] for row in rows} == told
    assert sorted(told) == list(range(1, 451))
    for name in "abc":
        own = [told[seq] for seq in sorted(told) if told[seq].startswith(name)]
        assert own == [f"{name}{number}" for number in range(150)]
    await store.close()


async def test_two_stores_on_one_file_take_turns(path: Path) -> None:
    """FEED-2: two stores that write to one file at once number all events once, and both read all of them."""
    one, two = (SqliteStore(path, CountingIds(), busy_s=60) for _ in range(2))
    await one.cursor()
    results = await asyncio.gather(*((one, two)[n % 2].record([event(n)]) for n in range(300)))
    assert sorted(row.seq for rows in results for row in rows) == list(range(1, 301))
    assert await everything(one) == await everything(two)
    assert sorted(map(str, numbers(await everything(two)))) == sorted(map(str, range(300)))
    for each in (one, two):
        await each.close()


async def test_an_event_is_told_of_after_its_commit(path: Path) -> None:
    """REL-2: at the moment when `record` returns, another reader of the file sees the event."""
    store = SqliteStore(path, CountingIds())
    for number in range(1, 101):
        await store.record([event(number)])
        assert raw(path, "SELECT max(seq) FROM events") == [(number,)]
    await store.close()


async def test_a_failed_transaction_takes_no_number(path: Path, store: SqliteStore) -> None:
    """FEED-2: when an event cannot be written, the number that was taken for it is given back with it."""
    await store.record([event(1)])
    raw(
        path, "CREATE TRIGGER t BEFORE INSERT ON events WHEN new.seq = 3 BEGIN SELECT raise(ABORT, 'no'); END"
    )
    with pytest.raises(ScheduleUnavailable, match="no"):
        await store.record([event(2), event(3)])
    raw(path, "DROP TRIGGER t")
    assert [row.seq for row in await store.record([event(4)])] == [2]
    assert numbers(await store.since(None, 10)) == [1, 4]


async def test_calls_that_wait_together_share_a_commit(path: Path, store: SqliteStore) -> None:
    """FEED-2: calls that come while a write is under way are committed together, not one by one."""
    await store.record([event(0)])
    raw(path, "CREATE TABLE log (seq INTEGER, top INTEGER)")
    note = "INSERT INTO log VALUES (new.seq, new.seq - old.seq)"
    raw(path, f"CREATE TRIGGER t AFTER UPDATE OF seq ON meta BEGIN {note}; END")
    await asyncio.gather(*(store.record([event(number)]) for number in range(100)))
    taken = raw(path, "SELECT top FROM log")
    assert sum(int(str(top)) for (top,) in taken) == 100
    assert len(taken) < 100


# ---------------------------------------------------------------- formats


async def test_the_file_is_private(path: Path, store: SqliteStore) -> None:
    """SEC-1: the store's file and journals are 0600, in a directory of 0700, and nothing is left over."""
    inner = SqliteStore(path.parent / "state" / "schedule.db", CountingIds())
    await inner.record([event(1)])
    folder = path.parent / "state"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()} == {
        "schedule.db": 0o600,
        "schedule.db-shm": 0o600,
        "schedule.db-wal": 0o600,
    }
    await inner.close()
    assert [each.name for each in folder.iterdir()] == ["schedule.db"]


async def test_an_older_store_is_brought_up_to_date(path: Path, store: SqliteStore) -> None:
    """REL-4: an older format is migrated with its events and cursors, after a copy of it was kept."""
    cursor = (await store.record([event(1), event(2)]))[0].cursor
    await store.close()
    newer = SqliteStore(path, CountingIds(), steps=NEXT)
    assert numbers(await newer.since(cursor, 10)) == [2]
    assert raw(path, "PRAGMA user_version") == [(NOW + 1,)]
    assert raw(path, "SELECT count(*) FROM notes") == [(0,)]
    await newer.close()
    kept = path.with_name(f"schedule.db.format-{NOW}")
    assert raw(kept, "PRAGMA user_version") == [(NOW,)]
    assert raw(kept, "SELECT count(*) FROM events") == [(2,)]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in path.parent.iterdir()) == ["schedule.db", kept.name]
    before = kept.read_bytes()
    again = SqliteStore(path, CountingIds(), steps=NEXT)
    await again.record([event(3)])
    await again.close()
    assert kept.read_bytes() == before
    old = SqliteStore(path, CountingIds())
    assert (await refusal(old)).startswith("a newer version wrote it")
    await old.close()


async def test_a_failed_migration_changes_nothing(path: Path, store: SqliteStore) -> None:
    """REL-4: a migration that fails in its middle leaves the old format, which the old version still uses."""
    await store.record([event(1)])
    await store.close()
    bad = (*migrations("sqlite"), Migration(number=NOW + 1, sql="DROP TABLE events; CREATE TABLE meta (x);"))
    newer = SqliteStore(path, CountingIds(), steps=bad)
    assert "already exists" in await refusal(newer)
    await newer.close()
    old = SqliteStore(path, CountingIds())
    assert numbers(await old.since(None, 10)) == [1]
    await old.close()


async def test_two_that_make_the_store_at_once_make_one(path: Path) -> None:
    """REL-2: of two daemons that find no store one makes it and both use it."""
    ids = CountingIds()
    stores = [SqliteStore(path, ids, busy_s=60) for _ in range(8)]
    rows = await asyncio.gather(*(each.record([event(number)]) for number, each in enumerate(stores)))
    assert sorted(row.seq for (row,) in rows) == list(range(1, 9))
    for each in stores:
        await each.close()
    assert [each.name for each in path.parent.iterdir()] == ["schedule.db"]


def test_migrations_are_numbered_without_gaps() -> None:
    """REL-4: migrations are numbered from 1 on, and each that was released is as it was then."""
    found = migrations("sqlite")
    assert [each.number for each in found] == [1, 2]
    assert hashlib.sha256(found[0].sql.encode()).hexdigest() == FIRST


def first_version(path: Path) -> None:
    """The file that version 0.1.0 made: events 0 to 9, of which 0 to 2 were pruned."""
    path.write_bytes(gzip.decompress((Path(__file__).parent / "formats" / "schedule-1.db.gz").read_bytes()))


async def test_a_store_of_the_first_version_is_brought_up_to_date(path: Path) -> None:
    """REL-4: a file that version 0.1.0 made keeps its events and cursors; a copy stays as it was."""
    first_version(path)
    store = SqliteStore(path, CountingIds())
    epoch = "ep_" + "2".zfill(26)
    assert numbers(await store.since(f"{epoch}:3", 100)) == list(range(3, 10))
    with pytest.raises(CursorReset):
        await store.since(f"{epoch}:2", 100)
    kept = await store.write(lambda tx: (tx.put(lease(1, State.ACTIVE)).number, tx.next_generation()))
    assert kept == (1, FenceNumber(epoch=epoch, generation=1))
    assert (await store.record([event(10)]))[0].seq == 11
    await store.close()
    kept_copy = path.with_name("schedule.db.format-1")
    assert raw(kept_copy, "PRAGMA user_version") == [(1,)]
    assert raw(kept_copy, "SELECT epoch, seq, pruned FROM meta") == [(epoch, 10, 3)]
    assert raw(kept_copy, "SELECT name FROM sqlite_master ORDER BY 1") == [("events",), ("meta",)]


async def test_a_listener_that_fails_holds_nobody_up(tmp_path: Path) -> None:
    """REL-1: whatever one who listens does with the events, who wrote them is answered."""
    store = SqliteStore(tmp_path / "schedule.db", CountingIds())
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, found: told.append(found["exception"]))
    failing = KeyError("a bug")

    def hear(rows: Sequence[Recorded]) -> None:
        raise failing

    store.listen(hear)
    async with asyncio.timeout(30):
        assert await store.write(lambda tx: tx.record(event(1))) == 1
    assert told == [failing]
    await store.close()


def test_every_statement_is_used() -> None:
    """REL-4: each statement of the dialect is used somewhere, and none is used that is not there."""
    code = "".join(each.read_text() for each in Path(sqlite_tx.__file__).parent.glob("*.py"))
    names = r'(?:SQL\[|_rows\(|_change\(|_one\([a-z_.]+, |_all\([a-z_.]+, |^ +\()\s*"([a-z_]+)"'
    used = set(re.findall(names, code, re.MULTILINE))
    assert used | {"new_lease", "keep_lease"} == set(SQL)
