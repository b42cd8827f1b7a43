import errno
import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hostler.adapters.state_files import MAX_BYTES, DirectoryStateFiles, write_whole

BROKEN = {
    "empty": b"",
    "torn": b'{"owners": ["per',
    "nul bytes": b"\0" * 64,
    "a list": b"[1, 2]",
    "two values": b'{"a": 1}{"b": 2}',
    "not utf-8": b'{"a": "\xff\xfe"}',
    "not a number": b'{"a": NaN}',
    "nested": b"[" * 200_000,
}

WRITER = """
    import sys
    from pathlib import Path
    from hostler.adapters.state_files import DirectoryStateFiles
    files = DirectoryStateFiles(root=Path(sys.argv[1]))
    number = 0
    while True:
        number += 1
        files.save("routes", {"number": number, "padding": "x" * 20_000})
        if number == 1:
            print("begun", flush=True)
"""


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.fixture
def files(tmp_path: Path) -> DirectoryStateFiles:
    return DirectoryStateFiles(root=tmp_path / "state")


def test_what_was_saved_is_loaded(files: DirectoryStateFiles) -> None:
    """CONF-5: a small file of state comes back as it was saved, and a missing one is told as missing."""
    assert files.load("engines/fast-4b/suspended") is None
    files.save("engines/fast-4b/suspended", {"owners": ["person:crow"], "note": "für später"})
    assert files.load("engines/fast-4b/suspended") == {"owners": ["person:crow"], "note": "für später"}
    assert (files.root / "engines/fast-4b/suspended.json").is_file()


def test_half_a_character_is_kept(files: DirectoryStateFiles) -> None:
    """SYNC-5, REL-1: what somebody wrote as half of a pair is kept as it was, and breaks no later save."""
    files.save("sync", {"rows": [{"id": "\ud800"}], "more": "é"})
    assert files.load("sync") == {"rows": [{"id": "\ud800"}], "more": "é"}


def test_files_are_private(files: DirectoryStateFiles) -> None:
    """SEC-1: state files are 0600 and their directories 0700, whatever the umask is."""
    before = os.umask(0)
    try:
        files.save("engines/embed/run", {"pid": 1})
        made = Path(files.directory("engines/voice/logs"))
    finally:
        os.umask(before)
    for path in (files.root, files.root / "engines", files.root / "engines/embed", made):
        assert path.stat().st_mode & 0o777 == 0o700
    assert (files.root / "engines/embed/run.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../up", "engines/../../up", "a//b", "engines/", "Über", "a\0b", "a" * 64, ".x"],
)
def test_a_name_leads_nowhere_else(files: DirectoryStateFiles, name: str) -> None:
    """SEC-2: a name whose parts do not fit the one pattern is refused before any path is made of it."""
    for call in (files.load, files.directory, lambda it: files.save(it, {})):
        with pytest.raises(ValueError, match="no name of a state file"):
            call(name)
    assert not files.root.exists()


@pytest.mark.parametrize("defect", BROKEN)
def test_a_broken_file_is_told_and_kept(files: DirectoryStateFiles, defect: str) -> None:
    """CONF-5: content that is not one JSON object is an error that names the file, which stays as it was."""
    path = files.root / "routes.json"
    files.root.mkdir()
    path.write_bytes(BROKEN[defect])
    with pytest.raises(ValueError, match=r"routes\.json is broken"):
        files.load("routes")
    assert path.read_bytes() == BROKEN[defect]


def test_an_editors_mark_is_accepted(files: DirectoryStateFiles) -> None:
    """CONF-5: a byte order mark before the object is no defect."""
    files.root.mkdir()
    (files.root / "routes.json").write_bytes(b'\xef\xbb\xbf{"chat": "local"}')
    assert files.load("routes") == {"chat": "local"}


def test_a_directory_in_the_place_is_told(files: DirectoryStateFiles) -> None:
    """CONF-5: what cannot be read at all is the same kind of error, not a crash and not "missing"."""
    (files.root / "routes.json").mkdir(parents=True)
    with pytest.raises(ValueError, match="cannot be read"):
        files.load("routes")


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_full_disk_leaves_the_old_one(
    files: DirectoryStateFiles, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """CONF-5: when a write cannot be finished the old content stays, and nothing is left over."""
    files.save("routes", {"chat": "local"})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr("hostler.adapters.state_files._write_synced", full)
        elif step == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(Path, "rename", full)
        with pytest.raises(OSError, match="No space left"):
            files.save("routes", {"chat": "away"})
    assert files.load("routes") == {"chat": "local"}
    assert names(files.root) == ["routes.json"]


def test_what_no_reader_would_take_is_not_written(files: DirectoryStateFiles) -> None:
    """CONF-5: a file over 4 MiB would be lost with the next start: the write fails, the old content stays."""
    files.save("routes", {"chat": "local"})
    with pytest.raises(OSError, match="File too large"):
        files.save("routes", {"chat": "x" * MAX_BYTES})
    assert files.load("routes") == {"chat": "local"}


def test_a_write_that_lacks_a_handle_changes_nothing(
    files: DirectoryStateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REL-2: where the directory cannot be opened to be synced nothing is renamed before that is known."""
    files.save("routes", {"chat": "local"})
    real = os.open

    def scarce(path: str | Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECTORY:
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", scarce)
        with pytest.raises(OSError, match="Too many open files"):
            files.save("routes", {"chat": "away"})
    assert files.load("routes") == {"chat": "local"}
    assert names(files.root) == ["routes.json"]


def test_content_is_durable_before_its_name_and_the_name_before_the_return(
    files: DirectoryStateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REL-2: a save syncs the file, then renames it, then syncs the directory, in that order."""
    files.save("routes", {})
    steps: list[str] = []
    real_fsync, real_rename = os.fsync, Path.rename

    def fsync(handle: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real_fsync(handle)

    def rename(self: Path, target: Path) -> Path:
        steps.append("rename")
        return real_rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    files.save("routes", {"chat": "local"})
    assert steps == ["file", "rename", "directory"]


def test_a_killed_writer_leaves_old_or_new(files: DirectoryStateFiles) -> None:
    """REL-2: kill -9 among a thousand writes leaves a whole file, and each read meanwhile was whole."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(files.root)], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"begun\n"
    seen = 0
    while seen < 50:
        found = files.load("routes")
        assert found is not None
        assert isinstance(found["number"], int)
        assert found["number"] >= seen
        seen = found["number"]
    child.kill()
    child.wait()
    child.stdout.close()
    last = files.load("routes")
    assert last is not None
    assert json.dumps(last["padding"]) == f'"{"x" * 20_000}"'


def test_a_file_that_must_be_new_is_not_replaced(tmp_path: Path) -> None:
    """CONF-5: of two that write a file for the first time one wins, and the other is told."""
    path = tmp_path / "local.key"
    write_whole(path, b"first", replace=False)
    with pytest.raises(FileExistsError):
        write_whole(path, b"second", replace=False)
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["local.key"]


def test_what_cannot_be_read_is_kept_aside(tmp_path: Path) -> None:
    """CONF-5: a state file that could not be read is never written over: it is kept beside the new one."""
    files = DirectoryStateFiles(root=tmp_path)
    (tmp_path / "routes.json").write_bytes(b'{"active": {"cha')
    files.save("routes", {"active": {}})
    files.save("routes", {"active": {"chat": "away"}})
    assert files.load("routes") == {"active": {"chat": "away"}}
    kept = [path.read_bytes() for path in tmp_path.glob("routes.json.unreadable-*")]
    assert kept == [b'{"active": {"cha']
