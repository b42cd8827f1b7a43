import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from hostler.adapters import hold_write
from hostler.adapters.hold_changes import HoldChanges
from hostler.adapters.hold_file import HoldFile
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.errors import HoldPathUnusable, HoldTaken, NotYours, StoreFull
from hostler.domain.hold import HoldState
from hostler.domain.hold_plan import Removal
from tests.adapters.hold_writers import NOW, at, kept, wanted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run/h.json"


@pytest.fixture
def writer(path: Path) -> HoldWriter:
    return at(path)


def spoil(path: Path, data: bytes = b"{torn") -> None:
    path.write_bytes(data)
    os.utime(path, (NOW.timestamp(), NOW.timestamp()))


def test_a_hold_is_written_and_read(writer: HoldWriter, path: Path) -> None:
    """HOLD-8: what is written says who, until when, by which command and at which boot."""
    written = writer.write(wanted())
    assert written.before.state is HoldState.FREE
    view = writer.reader.read()
    assert (view.state, view.owner) == (HoldState.HELD, "w1")
    assert view.record is not None
    assert (view.record.by, view.record.boot_id) == ("cli", "b-1")
    assert kept(path) == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_the_mode_is_the_config_s(path: Path, mode: int) -> None:
    """HOLD-9: a record has the permission bits of hold_mode whatever the umask, when replaced too."""
    before = os.umask(0o077)
    try:
        at(path, mode).write(wanted())
        assert stat.S_IMODE(path.stat().st_mode) == mode
        at(path, mode).write(wanted(minutes=60))
        assert stat.S_IMODE(path.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_another_s_hold_is_left_as_it_is(writer: HoldWriter, path: Path) -> None:
    """HOLD-9: a refused write changes no byte."""
    writer.write(wanted())
    before = path.read_bytes()
    with pytest.raises(HoldTaken):
        writer.write(wanted("w2"))
    assert path.read_bytes() == before
    assert kept(path) == []


def test_a_take_over_is_told(writer: HoldWriter, path: Path, tmp_path: Path) -> None:
    """HOLD-9: a take-over is appended to box.ndjson beside the record, and the daemon reads it once."""
    changes = HoldChanges(str(path), str(tmp_path / "state"))
    assert changes.take() == ()
    writer.write(wanted())
    writer.write(wanted("w2", take_over="w1"))
    row = json.loads((path.parent / "box.ndjson").read_text(encoding="utf-8"))
    assert (row["change"], row["owner"], row["by"]) == ("taken over", "w1", "w2")
    assert row["record"]["reason"] == "r"
    assert changes.take() == ["The hold of w1 was taken over by w2 at 2026-09-04T21:00:00.000Z."]
    assert changes.take() == ()


def test_a_note_that_cannot_be_written_is_a_warning(writer: HoldWriter, path: Path) -> None:
    """HOLD-9: the change stands when box.ndjson cannot be written, and the caller is warned."""
    writer.write(wanted())
    (path.parent / "box.ndjson").mkdir()
    (warning,) = writer.write(wanted("w2", take_over="w1")).warnings
    assert warning.startswith("w1 is not told of this")
    assert writer.reader.read().owner == "w2"


def test_a_release_removes_the_file(writer: HoldWriter, path: Path) -> None:
    """HOLD-8: releasing one's own hold leaves nothing behind; again there is nothing to release."""
    writer.write(wanted())
    assert writer.release(owner=None, force=False, by="user ada").plan.removal is Removal.REMOVE
    assert not path.exists()
    assert writer.release(owner=None, force=False, by="user ada").plan.removal is Removal.NOTHING
    assert kept(path) == []


def test_a_lapsed_file_is_left(writer: HoldWriter, path: Path) -> None:
    """HOLD-3: the file of a lapsed hold is left where it is."""
    path.write_text('{"owner": "w1", "expires_at": "2026-09-04T20:59:59Z"}', encoding="utf-8")
    path.chmod(0o600)
    assert writer.release(owner=None, force=True, by="user ada").plan.removal is Removal.NOTHING
    assert path.exists()


@pytest.mark.parametrize("again", [False, True])
def test_an_unreadable_record_keeps_its_bytes(writer: HoldWriter, path: Path, again: bool) -> None:
    """HOLD-4: a release of what cannot be read keeps its bytes beside it, under a name that is free."""
    if again:
        spoil(path, b"first")
        writer.release(owner=None, force=False, by="user ada")
    spoil(path)
    ended = writer.release(owner=None, force=False, by="user ada")
    assert ended.plan.removal is Removal.SET_ASIDE
    suffix = "-1" if again else ""
    assert ended.kept_as == f"{path}.unreadable-20260904T210000Z{suffix}"
    assert Path(ended.kept_as).read_bytes() == b"{torn"
    assert writer.reader.read().state is HoldState.FREE


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("x")])
def test_what_is_no_file_is_set_aside_too(
    writer: HoldWriter, path: Path, make: Callable[[Path], object]
) -> None:
    """HOLD-4: a directory, a pipe and a link in the record's place are cleared by the same release."""
    make(path)
    os.utime(path, (NOW.timestamp(), NOW.timestamp()), follow_symlinks=False)
    assert writer.release(owner=None, force=False, by="user ada").plan.removal is Removal.SET_ASIDE
    assert not os.path.lexists(path)
    assert len(kept(path)) == 1


def test_taking_over_what_cannot_be_read_keeps_it_too(writer: HoldWriter, path: Path) -> None:
    """HOLD-9: a take-over of `unknown` holds and keeps the bytes that nobody could read."""
    spoil(path)
    with pytest.raises(HoldTaken):
        writer.write(wanted())
    assert path.read_bytes() == b"{torn"
    written = writer.write(wanted(take_over="unknown"))
    assert written.kept_as is not None
    assert Path(written.kept_as).read_bytes() == b"{torn"
    assert writer.reader.read().owner == "w1"


def test_a_full_disk_leaves_the_unreadable_one_in_place(
    writer: HoldWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-4: when the take-over fails, what could not be read still holds the box."""
    spoil(path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull):
        writer.write(wanted(take_over="unknown"))
    assert writer.reader.read_fresh().state is HoldState.UNREADABLE
    assert kept(path) == []


def full(_handle: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_old_one(
    writer: HoldWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-9: without room the old record stands whole, no half file is left, and the error says so."""
    writer.write(wanted())
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreFull) as refused:
        writer.write(wanted(minutes=60))
    assert str(refused.value) == f"{path} was not written: No space left on device."
    assert path.read_bytes() == before
    assert kept(path) == []


def test_a_directory_that_is_gone_is_told(writer: HoldWriter, path: Path) -> None:
    """HOLD-9: without its directory a hold cannot be written, which is one clear error; a release is none."""
    path.parent.rmdir()
    with pytest.raises(HoldPathUnusable, match="No such file or directory"):
        writer.write(wanted())
    assert writer.release(owner=None, force=False, by="user ada").plan.removal is Removal.NOTHING
    assert not writer.release_own("w1@x")


def test_a_forbidden_directory_is_told(
    writer: HoldWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-9: who may not write there is told so, and nothing changes."""
    writer.write(wanted())

    def forbidden(*_given: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "rename", forbidden)
    with pytest.raises(NotYours, match="cannot be changed: Permission denied"):
        writer.write(wanted(minutes=60))
    assert writer.reader.read_fresh().until == NOW + timedelta(minutes=30)


def test_a_script_that_is_faster_is_seen(
    writer: HoldWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-9: a script, which knows no lock, that writes in between is not overwritten."""
    real = os.fchmod

    def overtaken(handle: int, mode: int) -> None:
        real(handle, mode)
        if mode != 0o600:
            return
        path.write_text('{"owner": "script", "expires_at": "2026-09-04T22:00:00Z"}', encoding="utf-8")
        path.chmod(0o600)

    monkeypatch.setattr(os, "fchmod", overtaken)
    with pytest.raises(HoldTaken) as refused:
        writer.write(wanted())
    assert refused.value.owner == "script"
    assert kept(path) == []


def test_a_file_system_without_links_will_do(
    writer: HoldWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-9: where files cannot have two names, the record is put in place by a rename."""

    def unable(*_given: object, **_named: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", unable)
    writer.write(wanted())
    assert writer.reader.read().owner == "w1"
    spoil(path)
    written = writer.write(wanted(take_over="unknown"))
    assert written.kept_as is not None
    assert Path(written.kept_as).read_bytes() == b"{torn"


def test_a_writer_that_stands_still_is_named(
    writer: HoldWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HOLD-9: the lock is waited for with a bound; past it the error names the lock."""
    monkeypatch.setattr(hold_write, "LOCK_WAIT_S", 0.0)
    lock = path.with_name("h.json.lock")
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(HoldPathUnusable, match=r"another process has kept .*h\.json\.lock"):
            writer.write(wanted())
    writer.write(wanted())


def test_what_a_dead_writer_left_is_no_obstacle(writer: HoldWriter, path: Path) -> None:
    """HOLD-9: the temporary file of a writer that was killed is taken away by the next one."""
    left = path.with_name(f".h.json.{os.geteuid()}.new")
    left.write_text("half", encoding="utf-8")
    writer.write(wanted())
    assert not left.exists()
    assert writer.reader.read().owner == "w1"


def test_only_the_own_record_is_removed_at_the_end(writer: HoldWriter, path: Path) -> None:
    """HOLD-10: at a command's end its own record goes, lapsed or not; another's is left."""
    writer.write(wanted())
    mine = writer.reader.read().identity
    late = HoldWriter(reader=HoldFile(path=str(path), boot="b-1", now=lambda: NOW + timedelta(hours=1)))
    assert late.reader.read().state is HoldState.LAPSED
    assert late.release_own(mine)
    writer.write(wanted("w2"))
    assert not writer.release_own(mine)
    assert writer.reader.read().owner == "w2"


def test_whether_it_could_go_with_a_login(tmp_path: Path) -> None:
    """HOLD-2: in a run-time directory without lingering a window's hold would not last; elsewhere it does."""
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    path = f"{tmp_path}/run/user/{os.geteuid()}/h.json"
    there = HoldWriter(reader=HoldFile(path=path), root=str(tmp_path))
    assert "loginctl enable-linger" in (there.short_lived() or "")
    assert HoldWriter(reader=HoldFile(path=f"{tmp_path}/h.json"), root=str(tmp_path)).short_lived() is None
