import errno
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostler.adapters.hold_file import HoldFile, boot_id, read_file, user_ids
from hostler.adapters.hold_sight import FirstSight
from hostler.domain.hold import Defect, HoldState

NOW = datetime(2026, 9, 4, 21, 0, tzinfo=UTC)
END = "2026-09-04T21:15:11Z"


class Hands:
    """Two clocks that a test moves."""

    def __init__(self) -> None:
        self.wall = NOW
        self.steady = 100.0

    def now(self) -> datetime:
        return self.wall

    def elapsed(self) -> float:
        return self.steady

    def go(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.steady += seconds


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run/h.json"


@pytest.fixture
def hold(path: Path, tmp_path: Path, clock: Hands) -> HoldFile:
    sight = FirstSight(str(tmp_path / "state"))
    return HoldFile(path=str(path), sight=sight, boot="b-1", now=clock.now, elapsed=clock.elapsed)


def put(path: Path, owner: str = "w1", *, mode: int = 0o600, **changed: object) -> None:
    """Write a record in place, as a script does."""
    record = {"owner": owner, "reason": "bench", "expires_at": END, "allow": [], **changed}
    path.write_text(json.dumps(record), encoding="utf-8")
    path.chmod(mode)


def stamp(path: Path, moment: datetime) -> None:
    os.utime(path, (moment.timestamp(), moment.timestamp()), follow_symlinks=False)


def refuse(error: int) -> Callable[..., object]:
    def refused(*_given: object, **_named: object) -> object:
        raise OSError(error, os.strerror(error))

    return refused


def test_no_file_and_no_directory_are_no_hold(hold: HoldFile, path: Path) -> None:
    """HOLD-4: ENOENT and ENOTDIR are no hold."""
    assert hold.read().state is HoldState.FREE
    path.parent.rmdir()
    assert hold.read().state is HoldState.FREE
    path.parent.touch()
    assert hold.read().state is HoldState.FREE


def test_a_record_is_read(hold: HoldFile, path: Path) -> None:
    """HOLD-4: a whole record of ours is a hold."""
    put(path)
    view = hold.read()
    assert (view.state, view.owner, view.path) == (HoldState.HELD, "w1", str(path))


def test_a_cached_read_is_one_stat(
    hold: HoldFile, path: Path, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-6: within 2 s an unchanged file is not opened again; after that it is."""
    put(path)
    hold.read()
    opened: list[object] = []
    real = os.open

    def counted(name: str, flags: int) -> int:
        opened.append(name)
        return real(name, flags)

    monkeypatch.setattr(os, "open", counted)
    clock.go(2.0)
    assert hold.read().held
    assert opened == []
    clock.go(0.1)
    assert hold.read().held
    assert len(opened) == 1


def test_the_expiry_is_judged_at_every_read(hold: HoldFile, path: Path, clock: Hands) -> None:
    """HOLD-6: a cached record lapses at its expiry, not when the cache ends."""
    put(path)
    clock.go(911 - 0.5)
    assert hold.read().held
    clock.go(0.5)
    assert hold.read().state is HoldState.LAPSED


@pytest.mark.parametrize("change", ["size", "mtime", "inode", "gone", "mode"])
def test_a_changed_file_is_read_at_once(hold: HoldFile, path: Path, change: str) -> None:
    """HOLD-6: another size, mtime, inode or mode, and no file, are seen within the cache's time."""
    put(path)
    before = path.stat()
    assert hold.read().owner == "w1"
    if change == "size":
        put(path, "someone")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "mtime":
        put(path, "w2")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    elif change == "inode":
        other = path.with_name("other")
        put(other, "w2")
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
        other.rename(path)
    elif change == "mode":
        path.chmod(0o602)
    else:
        path.unlink()
    assert hold.read().owner != "w1"


def test_a_torn_write_is_looked_at_again_at_once(hold: HoldFile, path: Path) -> None:
    """HOLD-6: an unreadable record is never cached, even when the file looks the same afterwards."""
    put(path)
    whole = path.read_bytes()
    path.write_bytes(b"x" * len(whole))
    stamp(path, NOW)
    assert hold.read().state is HoldState.UNREADABLE
    path.write_bytes(whole)
    stamp(path, NOW)
    assert hold.read().owner == "w1"


@pytest.mark.parametrize(
    ("make", "defect"),
    [
        (lambda path: path.symlink_to(path.with_name("good")), "is a symbolic link"),
        (lambda path: path.symlink_to(path.with_name("nowhere")), "is a symbolic link"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: put(path, mode=0o602), "is writable by everybody"),
        (lambda path: put(path, mode=0o666), "is writable by everybody"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: put(path, reason="x" * 70000), "is larger than 64 KiB"),
    ],
)
def test_what_cannot_be_trusted_is_held(
    hold: HoldFile, path: Path, make: Callable[[Path], object], defect: str
) -> None:
    """HOLD-4: a link, a pipe, a directory, a file that others write and a torn one count as held."""
    put(path.with_name("good"))
    make(path)
    stamp(path, NOW)
    view = hold.read()
    assert (view.held, view.owner, view.defect) == (True, "unknown", defect)


def test_a_file_for_its_group_needs_a_private_directory(hold: HoldFile, path: Path) -> None:
    """HOLD-4: group-writable is a defect where others may enter, not under a 0700 directory (umask 002)."""
    put(path, mode=0o664)
    stamp(path, NOW)
    assert hold.read().owner == "w1"
    path.parent.chmod(0o755)
    view = hold.read_fresh()
    assert view.held
    assert view.defect == "is writable by its group, in a directory that others may enter"
    path.chmod(0o644)
    assert hold.read().owner == "w1"


def test_the_file_of_another_user_is_not_believed(path: Path) -> None:
    """HOLD-4: a record counts when this user, root or one of hold_writers owns it, nobody else."""
    put(path)
    ours = path.stat().st_uid
    found, _ = read_file(str(path), {ours + 1})
    assert isinstance(found.content, Defect)
    assert found.content.what == f"is owned by user {ours}, who is not among node.hold_writers"
    assert not isinstance(read_file(str(path), {ours})[0].content, Defect)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_named_writer_is_believed(hold: HoldFile, path: Path) -> None:
    """HOLD-4: another user's record counts once node.hold_writers names that user."""
    put(path)
    os.chown(path, 4242, 4242)
    stamp(path, NOW)
    assert hold.read().owner == "unknown"
    named = HoldFile(path=str(path), writers=user_ids(("4242",)), boot="b-1", now=hold.now)
    assert named.read().owner == "w1"


def test_writers_are_found_by_name() -> None:
    """HOLD-4: hold_writers are names of users; a name that is not here adds nobody."""
    assert user_ids(("root", "no-such-user-here", "4242")) == {0, 4242}


@pytest.mark.parametrize("error", [errno.EACCES, errno.ESTALE, errno.EIO, errno.ELOOP, errno.ENAMETOOLONG])
@pytest.mark.parametrize("call", ["lstat", "open", "read"])
def test_any_other_trouble_is_held(
    hold: HoldFile, path: Path, monkeypatch: pytest.MonkeyPatch, error: int, call: str
) -> None:
    """HOLD-4: whatever error but a missing file a system gives, a stale network mount too, it is held."""
    put(path)
    stamp(path, NOW)
    monkeypatch.setattr(os, call, refuse(error))
    view = hold.read()
    assert (view.held, view.owner) == (True, "unknown")
    assert view.defect == f"cannot be read: {os.strerror(error)}"


def test_trouble_after_a_good_read_is_held(
    hold: HoldFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-6: a cached record is not believed once its file cannot be looked at."""
    put(path, expires_at="2026-09-04T20:00:00Z")
    assert not hold.read().held
    monkeypatch.setattr(os, "lstat", refuse(errno.ESTALE))
    assert hold.read().held


def test_a_record_of_another_boot_clears(hold: HoldFile, path: Path) -> None:
    """HOLD-2: a record of another boot is no hold, on whatever file system it lies."""
    put(path, boot_id="b-0")
    assert hold.read().state is HoldState.OTHER_BOOT
    put(path, boot_id="b-1")
    assert hold.read().held


def test_the_boot_is_known(tmp_path: Path) -> None:
    """HOLD-2: the boot's id is the kernel's; where there is none, none is claimed."""
    assert boot_id(str(tmp_path)) is None
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b-7\n", encoding="ascii")
    assert boot_id(str(tmp_path)) == "b-7"


def test_the_first_sight_outlives_the_process(
    hold: HoldFile, path: Path, tmp_path: Path, clock: Hands
) -> None:
    """HOLD-4: an unreadable record ages from its first sight, kept in the state directory."""
    path.write_bytes(b"{")
    stamp(path, NOW + timedelta(days=2))
    assert hold.read().until == NOW + timedelta(hours=8)
    clock.go(3600)
    sight = FirstSight(str(tmp_path / "state"))
    again = HoldFile(path=str(path), sight=sight, now=clock.now)
    assert again.read().until == NOW + timedelta(hours=8)
    clock.go(7 * 3600)
    assert again.read().state is HoldState.AGED_OUT
    path.write_bytes(b"[")
    stamp(path, NOW + timedelta(days=3))
    assert again.read().state is HoldState.UNREADABLE


def test_a_clock_put_back_wedges_nothing(hold: HoldFile, path: Path, clock: Hands) -> None:
    """HOLD-4: a first sight noted by a clock that ran ahead counts as now, so the record ages out."""
    path.write_bytes(b"{")
    stamp(path, NOW + timedelta(days=999))
    clock.go(86400 * 30)
    hold.read()
    clock.go(-86400 * 30)
    assert hold.read().until == NOW + timedelta(hours=8)


@pytest.mark.parametrize("note", [b"", b"{", b'{"identity": 3, "at": []}', b"\xff"])
def test_a_broken_note_of_the_first_sight_fails_nobody(
    hold: HoldFile, path: Path, tmp_path: Path, note: bytes
) -> None:
    """HOLD-4: the note of the first sight may be broken or unwritable; the reader then counts from now."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state/hold_first_sight.json").write_bytes(note)
    path.write_bytes(b"{")
    stamp(path, NOW + timedelta(days=1))
    assert hold.read().until == NOW + timedelta(hours=8)
    blocked = tmp_path / "blocked"
    blocked.touch()
    nowhere = HoldFile(path=str(path), sight=FirstSight(str(blocked / "state")), now=hold.now)
    assert nowhere.read().held
    assert HoldFile(path=str(path), now=hold.now).read().held


def test_a_pipe_delays_no_reader(hold: HoldFile, path: Path) -> None:
    """HOLD-4: a pipe without a writer is a defect at once; the gate waits for nobody."""
    os.mkfifo(path)
    assert hold.read().defect == "is not a regular file"


def test_a_file_that_vanishes_while_read_is_no_hold(
    hold: HoldFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-4: a record that is removed between stat and open is no hold."""
    put(path)
    monkeypatch.setattr(os, "open", refuse(errno.ENOENT))
    assert hold.read().state is HoldState.FREE


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_the_zone_of_the_reader_changes_nothing(
    hold: HoldFile, path: Path, clock: Hands, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    """HOLD-3: the same record lapses at the same instant whatever the reader's time zone."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    put(path, expires_at="2026-09-05T02:45:11+05:30")
    clock.go(910)
    assert hold.read().held
    clock.go(1)
    assert hold.read().state is HoldState.LAPSED
    monkeypatch.undo()
    time.tzset()
