"""Which processes a unit has, while it changes."""

import shutil
from pathlib import Path

import pytest

from hostler.adapters.drivers import units


def test_a_group_that_goes_while_it_is_looked_at_has_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENG-2, ENG-6: the end of a unit, amid a look at its processes, is no fault."""
    for name in ("app.service", "app.service/inner", "app.service/inner/most"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").write_text("7\n")
    inner, read = tmp_path / "app.service" / "inner", Path.read_text

    def vanish(path: Path) -> str:
        if path.parent == inner:
            shutil.rmtree(inner)
        return read(path)

    monkeypatch.setattr(Path, "read_text", vanish)
    assert units.members("app.service", None, tmp_path) == {7}
