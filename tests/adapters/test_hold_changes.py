from pathlib import Path

import pytest

from hostler.adapters.hold_changes import HoldChanges
from hostler.adapters.hold_write import HoldWriter
from tests.adapters.hold_writers import at, wanted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run/h.json"


@pytest.fixture
def writer(path: Path) -> HoldWriter:
    return at(path)


def test_a_change_without_a_daemon_is_told_by_the_next_one(
    writer: HoldWriter, path: Path, tmp_path: Path
) -> None:
    """HOLD-9: changes made while no daemon ran are told by the next one, and none is told twice."""
    writer.write(wanted())
    writer.release(owner=None, force=True, by="user ada")
    put = path.parent / "box.ndjson"
    assert not put.exists()
    writer.write(wanted())
    writer.write(wanted("w2", take_over="w1"))
    assert len(HoldChanges(str(path), str(tmp_path / "state")).take()) == 1
    writer.write(wanted("w3", take_over="w2"))
    fresh = HoldChanges(str(path), str(tmp_path / "state"))
    assert fresh.take() == ["The hold of w2 was taken over by w3 at 2026-09-04T21:00:00.000Z."]
    put.unlink()
    put.write_bytes(b"nonsense\n" + b"[]\n" + b"half a li")
    assert list(fresh.take()) == ["A forced change of the hold was noted, but its line cannot be read."] * 2
    assert list(fresh.take()) == []
    put.write_bytes(b"x" * 4000 + b"\n")
    assert len(fresh.take()) == 1


@pytest.mark.parametrize("note", [b"{", b'{"head": "x", "offset": 1}', b'{"head": "00", "offset": -1}'])
def test_a_broken_place_tells_again(writer: HoldWriter, path: Path, tmp_path: Path, note: bytes) -> None:
    """HOLD-9: when the note of how far was read is broken, a change is told again rather than never."""
    writer.write(wanted())
    writer.write(wanted("w2", take_over="w1"))
    (tmp_path / "state").mkdir()
    (tmp_path / "state/hold_changes_read.json").write_bytes(note)
    assert len(HoldChanges(str(path), str(tmp_path / "state")).take()) == 1


def test_changes_that_cannot_be_read_fail_no_daemon(path: Path, tmp_path: Path) -> None:
    """HOLD-9: a link or directory in the place of box.ndjson is passed over, and nothing is raised."""
    changes = HoldChanges(str(path), str(tmp_path / "state"))
    (path.parent / "box.ndjson").symlink_to(tmp_path)
    assert changes.take() == ()
    (path.parent / "box.ndjson").unlink()
    (path.parent / "box.ndjson").mkdir()
    assert changes.take() == ()
