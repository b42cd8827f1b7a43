from pathlib import Path

import pytest

from hostler.adapters.keys_file import kept_keys
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.errors import ScheduleUnavailable
from tests.adapters.stores import event
from tests.fakes.ids import CountingIds

pytestmark = pytest.mark.cases

OBJECTS = {"bom", "allow-string", "wrong-key-case", "wrong-shape"}
"""Those of BG-18 that are a JSON object, whatever is in it."""


def inputs(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.json"))
    assert len(found) == 12, found
    return found


async def test_a_broken_store_is_kept(cases_dir: Path, tmp_path: Path) -> None:
    """REL-1: each file of BG-18 in the store's place disables the schedule only, and stays as it was."""
    for given in inputs(cases_dir / "bugs/BG-18"):
        path = tmp_path / given.stem / "schedule.db"
        path.parent.mkdir()
        path.write_bytes(given.read_bytes())
        store = SqliteStore(path, CountingIds())
        with pytest.raises(ScheduleUnavailable, match=r"it is (empty|no database)"):
            await store.record([event(1)])
        await store.close()
        assert path.read_bytes() == given.read_bytes()
        assert [each.name for each in path.parent.iterdir()] == ["schedule.db"]


def test_a_broken_state_file_is_kept(cases_dir: Path, tmp_path: Path) -> None:
    """CONF-5: each file of BG-18 in a state file's place is an object or an error, and never "missing"."""
    files = DirectoryStateFiles(root=tmp_path)
    loaded = set()
    for given in inputs(cases_dir / "bugs/BG-18"):
        (tmp_path / "keys.json").write_bytes(given.read_bytes())
        try:
            assert files.load("keys") is not None
            loaded.add(given.stem)
        except ValueError:
            pass
        assert kept_keys(files) is None
        assert (tmp_path / "keys.json").read_bytes() == given.read_bytes()
    assert loaded <= OBJECTS
    assert "bom" in loaded
