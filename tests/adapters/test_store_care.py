"""The store's file backed up, restored, recovered: nothing is lost, nothing of before holds after."""

# ruff: noqa: ASYNC240 - the files are small and local, and no other task waits

import asyncio
import gzip
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hostler.adapters.store import care
from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.errors import CursorReset, InvalidRequest, ScheduleUnavailable, StoreFull
from hostler.domain.events import Recorded
from hostler.domain.lease import State
from hostler.services.schedule_needs import Tx
from tests.adapters.schedule_calls import put
from tests.adapters.schedule_rows import entry, job, lease
from tests.adapters.stores import START, event, numbers, raw
from tests.adapters.test_schedule_sqlite import no_room
from tests.fakes.ids import CountingIds


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fill(start: int, count: int) -> Callable[[Tx], None]:
    """Leases, events and generations, told apart by number."""

    def work(tx: Tx) -> None:
        for n in range(start, start + count):
            held = tx.put(lease(n, State.ACTIVE, covers=(f"r{n}",)))
            tx.begin(entry(held, 1))
            tx.put_job(job(n, lease=held.id), watch=1.0)
            tx.next_generation()
            tx.record(event(n))

    return work


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "schedule.db"


@pytest.fixture
def ids() -> CountingIds:
    return CountingIds()


@pytest.fixture
async def store(path: Path, ids: CountingIds) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(path, ids, busy_s=0)
    yield made
    await made.close()


# ---------------------------------------------------------------- backup


async def test_a_backup_is_whole_while_writers_go_on(path: Path, store: SqliteStore) -> None:
    """REL-4: a backup made through a working store is one private file with a state that the store had."""
    await store.write(fill(1, 5))
    target = path.with_name("backup.db")
    writes = asyncio.gather(*(store.write(fill(n, 1)) for n in range(6, 60)))
    await store.backup(target)
    await writes
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in path.parent.glob("*backup*")) == ["backup.db"]
    assert raw(target, "PRAGMA integrity_check") == [("ok",)]
    ((events, leases),) = raw(target, "SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM leases)")
    assert events == leases
    assert raw(target, "SELECT seq, generation, leases FROM meta") == [(events, events, events)]


async def test_a_backup_overwrites_nothing(path: Path, store: SqliteStore) -> None:
    """REL-4: a file that is there is never overwritten by a backup, and is named in the refusal."""
    await store.cursor()
    target = path.with_name("backup.db")
    target.write_text("mine")
    with pytest.raises(InvalidRequest, match=r"backup\.db is there already"):
        await store.backup(target)
    assert target.read_text() == "mine"
    with pytest.raises(InvalidRequest, match=r"nowhere/backup\.db cannot be made: No such file"):
        await store.backup(path.parent / "nowhere" / "backup.db")


async def test_a_backup_of_what_cannot_be_read_is_refused(path: Path, store: SqliteStore) -> None:
    """REL-4: there is no backup of a damaged store, nor half of one where there is no room."""
    await store.write(fill(1, 5))
    with no_room(8192), pytest.raises(StoreFull, match=r"small\.db was not written"):
        await store.backup(path.with_name("small.db"))
    await store.close()
    path.write_bytes(b"hello")
    broken = SqliteStore(path, CountingIds())
    with pytest.raises(ScheduleUnavailable, match="it is no database"):
        await broken.backup(path.with_name("backup.db"))
    await broken.close()
    assert [each.name for each in path.parent.iterdir()] == ["schedule.db"]


# ---------------------------------------------------------------- restore


async def test_a_restored_store_went_back_and_says_so(
    path: Path, store: SqliteStore, ids: CountingIds
) -> None:
    """F25, LEASE-8: what a restored store gives out was never given out before; old cursors are told."""
    await store.write(fill(1, 5))
    await store.backup(path.with_name("backup.db"))
    await store.write(fill(6, 5))
    before = await store.cursor()
    old = await store.read(lambda tx: tx.meta())
    await store.close()
    begun = care.restore(care.file_at(path, ids, 0), path.with_name("backup.db"), now=START)
    again = SqliteStore(path, ids)
    for cursor in (before, f"{old.epoch}:3", f"{old.epoch}:5"):
        with pytest.raises(CursorReset):
            await again.since(cursor, 10)
    meta = await again.read(lambda tx: tx.meta())
    assert (meta.epoch, meta.seq, meta.began, begun.before) == (begun.epoch, 6, 5, old.epoch)
    assert begun.epoch > old.epoch
    fence = await again.write(lambda tx: tx.next_generation())
    assert (fence.epoch, fence.generation) == (begun.epoch, 11)
    assert len(await again.read(lambda tx: tx.live())) == 5
    rows = await again.since(None, 99)
    assert rows[-1] == begun.told
    assert rows[-1].event.type == "schedule_recovered"
    assert "backup.db" in rows[-1].event.message
    await again.close()


async def test_what_was_there_is_set_aside_as_found(path: Path, store: SqliteStore, ids: CountingIds) -> None:
    """REL-4, R84: each restore keeps the file that was there, with all that was in it."""
    await store.write(fill(1, 3))
    backup = path.with_name("backup.db")
    await store.backup(backup)
    await store.write(fill(4, 3))
    kept = path.with_name("crashed")
    kept.mkdir()
    for ending in ("", "-wal"):  # As a killed daemon leaves them: the newest rows are in the journal only.
        (kept / f"schedule.db{ending}").write_bytes(path.with_name(f"schedule.db{ending}").read_bytes())
    crashed = kept / "schedule.db"
    asides = []
    for _ in range(2):
        begun = care.restore(care.file_at(crashed, ids), backup, now=START)
        assert begun.aside is not None
        asides.append(Path(begun.aside))
    assert asides[0] != asides[1]
    assert raw(asides[0], "SELECT count(*), max(number) FROM leases") == [(6, 6)]
    assert raw(asides[1], "SELECT count(*), max(number) FROM leases") == [(3, 3)]
    assert raw(crashed, "SELECT count(*) FROM leases") == [(3,)]
    assert crashed.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("present", ["no folder", "nothing", "garbage", "newer", "a directory"])
async def test_a_restore_needs_no_good_file_before_it(path: Path, ids: CountingIds, present: str) -> None:
    """REL-4: a restore works over a file that is gone, damaged, or newer, which is kept to the byte."""
    source, backup = SqliteStore(path.with_name("other.db"), ids), path.with_name("backup.db")
    await source.write(fill(1, 2))
    await source.backup(backup)
    await source.close()
    if present == "no folder":
        path = path.parent / "state" / "schedule.db"
    if present == "garbage":
        path.write_bytes(b"hello" * 999)
        path.with_name("schedule.db-wal").write_bytes(b"journal")
    elif present == "newer":
        path.write_bytes(backup.read_bytes())
        raw(path, "PRAGMA user_version = 99")
    elif present == "a directory":
        path.mkdir()
    was = digest(path) if path.is_file() else None
    begun = care.restore(care.file_at(path, ids, 0), backup, now=START)
    assert (begun.aside is None) is (present in ("nothing", "no folder"))
    if was is not None and begun.aside is not None:
        assert digest(Path(begun.aside)) == was
    if present == "garbage":
        assert Path(f"{begun.aside}-wal").read_bytes() == b"journal"
    store = SqliteStore(path, ids)
    assert len(await store.read(lambda tx: tx.live())) == 2
    await store.close()


@pytest.mark.parametrize("defect", ["missing", "garbage", "newer", "a bad row", "no room"])
async def test_a_bad_backup_changes_nothing(
    path: Path, store: SqliteStore, ids: CountingIds, defect: str
) -> None:
    """REL-4: a backup that cannot be used, or does not fit, is refused; the store stays as it was."""
    await store.write(fill(1, 5))
    backup = path.with_name("backup.db")
    await store.backup(backup)
    await store.close()
    if defect == "missing":
        backup.unlink()
    elif defect == "garbage":
        backup.write_bytes(b"hello")
    elif defect == "newer":
        raw(backup, "PRAGMA user_version = 99")
    elif defect == "a bad row":
        raw(backup, "UPDATE leases SET body = '{' WHERE number = 3")
    before = {each.name: digest(each) for each in path.parent.iterdir()}
    with (
        no_room(8192 if defect == "no room" else 1 << 30),
        pytest.raises(
            (ScheduleUnavailable, StoreFull), match=r"schedule\.db|schedule cannot be read"
        ) as refused,
    ):
        care.restore(care.file_at(path, ids), backup, now=START)
    named = path if defect == "no room" else backup
    assert str(named) in f"{refused.value} {refused.value.advice()}"
    assert {each.name: digest(each) for each in path.parent.iterdir()} == before


async def test_a_restore_beside_a_running_daemon_is_refused(
    path: Path, store: SqliteStore, ids: CountingIds
) -> None:
    """REL-4: a store that somebody reads just now is not taken away from under them."""
    await store.write(fill(1, 1))
    await store.backup(path.with_name("backup.db"))
    await store.write(fill(2, 1))
    await store.close()
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchall()
    other = SqliteStore(path, ids)
    await other.write(fill(3, 1))
    with pytest.raises(ScheduleUnavailable, match="another process has it"):
        care.restore(care.file_at(path, ids, 0), path.with_name("backup.db"), now=START)
    reader.close()
    await other.write(fill(4, 1))
    await other.close()


async def test_an_old_backup_is_brought_up_to_date(path: Path, ids: CountingIds) -> None:
    """REL-4: a backup that version 0.1.0 made is restored in this format, and stays as it is itself."""
    backup = path.with_name("backup.db")
    backup.write_bytes(gzip.decompress((Path(__file__).parent / "formats" / "schedule-1.db.gz").read_bytes()))
    was = digest(backup)
    care.restore(care.file_at(path, ids), backup, now=START)
    store = SqliteStore(path, ids)
    assert numbers((await store.since(None, 99))[:-1]) == list(range(3, 10))
    assert (await store.write(put(lease(1)))).number == 1
    await store.close()
    assert digest(backup) == was
    assert not [each for each in path.parent.iterdir() if "format" in each.name or each.name.startswith(".")]


# ---------------------------------------------------------------- recover


async def test_a_store_that_can_be_read_is_kept(path: Path, store: SqliteStore) -> None:
    """LEASE-8: recovering a whole store only begins a new epoch, which readers hear of at once."""
    await store.write(fill(1, 3))
    old = await store.read(lambda tx: tx.meta())
    heard: list[Recorded] = []
    store.listen(heard.extend)
    begun = await store.recover(START)
    assert begun.aside is None
    assert heard == [begun.told]
    meta = await store.read(lambda tx: tx.meta())
    assert (meta.epoch, meta.seq, meta.began, meta.generation) == (begun.epoch, 4, 3, 3)
    assert begun.epoch > old.epoch == begun.before
    assert len(await store.read(lambda tx: tx.live())) == 3
    with pytest.raises(CursorReset):
        await store.since(f"{old.epoch}:3", 9)
    assert (await store.record([event(9)]))[0].cursor == f"{begun.epoch}:5"
    assert [each.name for each in path.parent.glob("*.db")] == ["schedule.db"]


def scribbled(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xa5" * 4096
    path.write_bytes(data)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    path.unlink()
    raw(path, "CREATE TABLE recipes (id INTEGER)")


def row_damaged(path: Path) -> None:
    raw(path, "UPDATE leases SET body = '{' WHERE number = 2")


def step_damaged(path: Path) -> None:
    raw(path, 'UPDATE journal SET step = \'{"kind": "no such"}\' WHERE n = 1')


def without_counter(path: Path) -> None:
    raw(path, "DELETE FROM meta")


def without_table(path: Path) -> None:
    raw(path, "DROP TABLE leases")


@pytest.mark.parametrize(
    "spoil", [scribbled, emptied, foreign, row_damaged, step_damaged, without_counter, without_table]
)
async def test_an_unreadable_store_is_set_aside_as_found(
    path: Path, store: SqliteStore, ids: CountingIds, spoil: Callable[[Path], None]
) -> None:
    """REL-4, F24, R84: recovering sets an unreadable file aside to the byte and begins a store anew."""
    await store.write(fill(1, 3))
    old = await store.cursor()
    await store.close()
    spoil(path)
    was = digest(path)
    again = SqliteStore(path, ids)
    begun = await again.recover(START)
    assert begun.aside is not None
    assert digest(Path(begun.aside)) == was
    assert begun.before is None
    assert begun.epoch > old.rpartition(":")[0]
    assert await again.read(lambda tx: tx.live()) == ()
    assert [row.event.type for row in await again.since(None, 9)] == ["schedule_recovered"]
    with pytest.raises(CursorReset):
        await again.since(old, 9)
    assert (await again.write(put(lease(1)))).number == 1
    await again.close()


async def test_damage_under_a_running_daemon_is_recovered_from(path: Path, store: SqliteStore) -> None:
    """REL-4: recovering goes through the daemon: the damaged file is given up and a new one used at once."""
    await store.write(fill(1, 3))
    raw(path, "UPDATE leases SET body = '{' WHERE number = 2")
    with pytest.raises(ScheduleUnavailable):
        await store.read(lambda tx: tx.live())
    begun = await store.recover(START)
    assert begun.aside is not None
    assert raw(Path(begun.aside), "SELECT count(*) FROM leases") == [(3,)]
    await store.write(fill(1, 1))
    assert len(await store.read(lambda tx: tx.live())) == 1
    await store.close()
    assert [each.name for each in path.parent.iterdir() if "-wal" in each.name] == []


async def test_a_journal_without_its_file_is_set_aside_too(path: Path, ids: CountingIds) -> None:
    """REL-4: where only the journal is left, recovering keeps it and begins anew."""
    path.with_name("schedule.db-wal").write_bytes(b"journal")
    store = SqliteStore(path, ids)
    with pytest.raises(ScheduleUnavailable, match="journal"):
        await store.cursor()
    begun = await store.recover(START)
    assert Path(f"{begun.aside}-wal").read_bytes() == b"journal"
    assert (await store.write(put(lease(1)))).number == 1
    await store.close()


@pytest.mark.parametrize("reason", ["newer", "locked"])
async def test_what_is_only_not_for_us_is_left(
    path: Path, store: SqliteStore, ids: CountingIds, reason: str
) -> None:
    """REL-4: a newer version's store and a locked one are refused with the reason, and nothing is moved."""
    await store.write(fill(1, 3))
    await store.close()
    holder = sqlite3.connect(path, isolation_level=None)
    if reason == "newer":
        raw(path, "PRAGMA user_version = 99")
    else:
        holder.execute("BEGIN EXCLUSIVE")
    again = SqliteStore(path, ids, busy_s=0)
    with pytest.raises(ScheduleUnavailable, match=r"newer version|another process has it locked"):
        await again.recover(START)
    await again.close()
    holder.close()
    assert {each.name.removeprefix("schedule.db") for each in path.parent.iterdir()} <= {"", "-wal", "-shm"}
    assert raw(path, "SELECT count(*) FROM leases") == [(3,)]


async def test_a_new_epoch_sorts_after_every_known_one(store: SqliteStore) -> None:
    """LEASE-8: even when the clock went back a new epoch sorts after the last and after what nodes know."""
    last = (await store.read(lambda tx: tx.meta())).epoch
    assert care.later_epoch(CountingIds(), [last]) > last
    assert care.later_epoch(CountingIds(), ["ep_zzz", last]) > "ep_zzz"
    assert ":" not in care.later_epoch(CountingIds(), ["ep_zzz"])
    begun = await store.recover(START - timedelta(days=9), known=["ep_zzz"])
    assert begun.epoch > "ep_zzz"
    again = await store.recover(START)
    assert again.epoch > begun.epoch
    fence = await store.write(lambda tx: tx.next_generation())
    assert fence.order > replace(fence, epoch="ep_zzz", generation=10**9).order
