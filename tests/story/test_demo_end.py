import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.ending import Ending
from demo.real_engine import fake
from demo.show import Show
from demo.stage import Stage
from hostler.adapters.deadmen import SystemDeadmen


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A demo as it was left running, with the fake engine; ended hard if the test did not end it."""
    it = Stage(engine=fake(), root=tmp_path / "demo")
    it.set_up()
    try:
        it.start_daemon()
        yield it
    finally:
        deadmen = SystemDeadmen(root=it.root / "state", host="", hold_path=it.hold, environment={})
        for each in deadmen.windows():
            asyncio.run(deadmen.end(each.window))
        it.tear_down()


def end(root: Path) -> subprocess.CompletedProcess[str]:
    """The line that the demo prints at its end."""
    words = [sys.executable, "-m", "demo", "--end", str(root)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def test_a_kept_demo_ends_whole_with_a_window_open(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """INTERFACE-2: the line that ends a kept demo leaves no deadman, supervisor or engine behind."""
    Show().done(stage)
    assert f"-m demo --end {stage.root}\n" in capsys.readouterr().out
    opened = stage.command("window", "open", "heavy", "--override", "windowed", "--reason", "a look")
    assert opened.returncode == 0, opened.stderr
    ending = Ending(root=stage.root, show=Show())
    kinds = " ".join(ending.left().values())
    assert [it in kinds for it in ("the deadman of", "supervisor", "heavy.gguf")] == [True, True, True], kinds
    ended = end(stage.root)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "is aborted; all that it stopped comes back first" in ended.stdout
    assert (ending.left(), stage.root.exists()) == ({}, False)


def test_a_demo_whose_daemon_died_in_a_window_ends(stage: Stage) -> None:
    """INTERFACE-2: where the daemon is dead its deadman and its engines are ended by their ids."""
    opened = stage.command("window", "open", "heavy", "--override", "windowed", "--reason", "a look")
    assert opened.returncode == 0, opened.stderr
    stage.kill_daemon()
    ended = end(stage.root)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (Ending(root=stage.root, show=Show()).left(), stage.root.exists()) == ({}, False)


def test_no_other_directory_is_removed(tmp_path: Path) -> None:
    """INTERFACE-2: a directory that is no demo's stays, and that is told."""
    (tmp_path / "mine").touch()
    ended = end(tmp_path)
    assert ended.returncode == 1
    assert "is no directory of a demo" in ended.stderr
    assert (tmp_path / "mine").exists()
