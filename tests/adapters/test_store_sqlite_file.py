"""What the SQLite store does with a file that it cannot use: refuse, keep it as found, come back."""

# ruff: noqa: ASYNC240 - the files are small and local, and no other task waits

import hashlib
import resource
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.errors import CursorReset, ScheduleUnavailable
from tests.adapters.stores import START, event, numbers, raw, refusal
from tests.fakes.ids import CountingIds


def digests(folder: Path) -> dict[str, str]:
    """What the store's own file and journal hold."""
    if not (folder / "schedule.db").is_file():
        return {"schedule.db": str(folder.joinpath("schedule.db").is_dir())}
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if not path.name.endswith("-shm") and path.stat().st_size
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "schedule.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(path, CountingIds(), busy_s=0)
    yield made
    await made.close()


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def scribbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xa5" * 4096
    path.write_bytes(data)


def scribbled_far_in(path: Path) -> None:
    """A page that nothing reads at first: only a check of the whole file finds it."""
    data = bytearray(path.read_bytes())
    page = len(data) // 4096 // 2 * 4096
    data[page : page + 4096] = b"\xa5" * 4096
    path.write_bytes(data)


def of_something_else(path: Path) -> None:
    path.unlink()
    raw(path, "CREATE TABLE recipes (id INTEGER)")


def without_counter(path: Path) -> None:
    raw(path, "DELETE FROM meta")


def made_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def made_a_link(path: Path) -> None:
    """To a good store, which somebody else chose (JB-11)."""
    path.symlink_to(path.rename(path.with_name("elsewhere")))


DEFECTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "it is empty"),
    "text": (lambda path: path.write_text("hello"), "it is no database"),
    "nul bytes": (lambda path: path.write_bytes(b"\0" * 8192), "it is no database"),
    "header only": (lambda path: path.write_bytes(path.read_bytes()[:100]), "it"),
    "truncated": (truncated, "its content is damaged"),
    "scribbled over": (scribbled, "its content is damaged"),
    "scribbled over far in": (scribbled_far_in, "its content is damaged"),
    "of something else": (of_something_else, "it is a database of something else"),
    "of a newer version": (
        lambda path: raw(path, "PRAGMA user_version = 7"),
        "a newer version wrote it: its format is 7, this one knows 2",
    ),
    "without its counter": (without_counter, "its counter row is missing"),
    "a directory": (made_a_directory, "it is no regular file"),
    "a link": (made_a_link, "it is no regular file"),
}


@pytest.mark.parametrize("defect", DEFECTS)
async def test_a_file_that_cannot_be_used_is_kept_as_found(path: Path, defect: str) -> None:
    """REL-1: a store that is empty, damaged, foreign or newer is refused, and kept to the byte."""
    first = SqliteStore(path, CountingIds())
    await first.record([event(number) for number in range(500)])
    await first.close()
    spoil, reason = DEFECTS[defect]
    spoil(path)
    before = digests(path.parent)
    store = SqliteStore(path, CountingIds(), busy_s=0)
    assert (await refusal(store)).startswith(reason)
    await store.close()
    assert digests(path.parent) == before


async def test_a_store_comes_back_when_its_file_does(path: Path, store: SqliteStore) -> None:
    """REL-1: a refused store is looked at anew at each call, so it serves again once the file is mended."""
    await store.record([event(1)])
    await store.close()
    good = path.read_bytes()
    path.write_bytes(b"")
    again = SqliteStore(path, CountingIds(), busy_s=0)
    assert await refusal(again) == "it is empty"
    path.write_bytes(good)
    assert numbers(await again.since(None, 10)) == [1]
    await again.close()


async def test_damage_that_comes_later_is_told(path: Path, store: SqliteStore) -> None:
    """REL-1: a row that is damaged under a running daemon is a refusal of the schedule, not a crash."""
    await store.record([event(1)])
    raw(path, "UPDATE events SET body = '{' WHERE seq = 1")
    with pytest.raises(ScheduleUnavailable, match="an event of it is damaged"):
        await store.since(None, 10)


async def test_a_locked_store_is_told_and_comes_back(path: Path, store: SqliteStore) -> None:
    """REL-1: while another process has the write lock a write is refused and reads go on."""
    await store.record([event(1)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ScheduleUnavailable, match="another process has it locked"):
        await store.record([event(2)])
    assert numbers(await store.since(None, 10)) == [1]
    other.execute("COMMIT")
    other.close()
    assert (await store.record([event(3)]))[0].seq == 2


async def test_a_full_disk_is_told_and_nothing_is_half_written(path: Path, store: SqliteStore) -> None:
    """REL-1: a write that finds no room is refused whole, and with room the numbers go on without a gap."""
    await store.record([event(1)])
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        with pytest.raises(ScheduleUnavailable, match=r"disk is full|writing it failed"):
            await store.record([event(number) for number in range(5000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert (await store.record([event(2)]))[0].seq == 2
    assert numbers(await store.since(None, 10)) == [1, 2]


async def test_a_removed_file_is_not_written_to(path: Path, store: SqliteStore) -> None:
    """REL-2, LEASE-8, R85: no new log takes a removed one's place by itself; after `recover` there is one."""
    row = (await store.record([event(1)]))[0]
    path.unlink()
    for number in range(2, 4):
        with pytest.raises(ScheduleUnavailable, match=r"removed or replaced.*schedule recover"):
            await store.record([event(number)])
    assert not path.exists()
    assert (await store.recover(START, known=[row.epoch])).epoch > row.epoch
    with pytest.raises(CursorReset):
        await store.since(row.cursor, 10)
    assert (await store.record([event(4)]))[0].epoch > row.epoch


async def test_a_replaced_file_is_not_mixed_with_the_old_journal(path: Path, store: SqliteStore) -> None:
    """REL-2, LEASE-8: a store in the place of one in use waits for a look, without the other's journal."""
    other = SqliteStore(path.with_name("other.db"), CountingIds())
    await other.record([event(number) for number in range(100, 110)])
    await other.close()
    await store.record([event(number) for number in range(20)])
    path.with_name("other.db").rename(path)
    for _ in range(2):
        with pytest.raises(ScheduleUnavailable, match="removed or replaced"):
            await store.record([event(2)])
    await store.close()
    later = SqliteStore(path, CountingIds())
    assert numbers(await later.since(None, 100)) == list(range(100, 110))
    await later.close()
    assert raw(path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_recovery_that_is_refused_leaves_a_lost_store_lost(path: Path, store: SqliteStore) -> None:
    """LEASE-8, R85: what lies there is of a newer version: it is not recovered, and not used afterwards."""
    await store.record([event(1)])
    newer = path.with_name("newer.db")
    other = SqliteStore(newer, CountingIds())
    await other.record([event(2)])
    await other.close()
    (version,) = raw(newer, "PRAGMA user_version")[0]
    raw(newer, "PRAGMA user_version = 999")
    newer.rename(path)
    with pytest.raises(ScheduleUnavailable, match="removed or replaced"):
        await store.record([event(3)])
    with pytest.raises(ScheduleUnavailable, match="newer"):
        await store.recover(START)
    raw(path, f"PRAGMA user_version = {version}")
    with pytest.raises(ScheduleUnavailable, match="removed or replaced"):
        await store.record([event(3)])


async def test_a_journal_without_its_file_is_not_swallowed(path: Path, store: SqliteStore) -> None:
    """REL-2: where the file is gone and its journal is there, no new file is put over what could be saved."""
    await store.record([event(1)])
    copy = path.parent / "copy"
    copy.mkdir()
    shutil.copy(f"{path}-wal", copy / "schedule.db-wal")
    other = SqliteStore(copy / "schedule.db", CountingIds(), busy_s=0)
    assert await refusal(other) == "it is missing, but its journal schedule.db-wal is there"
    assert [each.name for each in copy.iterdir()] == ["schedule.db-wal"]
    await other.close()


async def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """REL-1: a state directory that cannot be there is the schedule's trouble and no crash."""
    (tmp_path / "file").write_text("")
    store = SqliteStore(tmp_path / "file" / "schedule.db", CountingIds())
    assert await refusal(store) == "Not a directory"
    await store.close()
