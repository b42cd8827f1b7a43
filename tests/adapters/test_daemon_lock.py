import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hostler.adapters.daemon_lock import take, take_all
from hostler.domain.errors import DaemonRuns

HOLDER = """
    import subprocess, sys
    from pathlib import Path
    from hostler.adapters.daemon_lock import take
    lock = take(Path(sys.argv[1]), Path("/state/of/another"))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    print(child.pid, flush=True)
    input()
"""


def test_the_second_daemon_is_told_of_the_first(tmp_path: Path) -> None:
    """CONF-5: a box's second orchestrating daemon is refused, naming the first one's pid and place."""
    path = tmp_path / "run" / "hostler-daemon.lock"
    first = take(path, Path("/state/one"))
    with pytest.raises(DaemonRuns) as refused:
        take(path, Path("/state/two"))
    assert refused.value.facts() == {"pid": os.getpid(), "where": "state directory /state/one"}
    assert path.stat().st_mode & 0o777 == 0o600
    found = json.loads(path.read_text())
    assert found["start_ticks"] > 0
    first.release()


def test_a_given_up_lock_is_free_at_once(tmp_path: Path) -> None:
    """CONF-5: a daemon that gives the lock up leaves it to its successor, and the file with nobody's name."""
    path = tmp_path / "hostler-daemon.lock"
    take(path, tmp_path).release()
    assert path.read_text() == ""
    second = take(path, Path("/state/two"))
    assert json.loads(path.read_text())["state_dir"] == "/state/two"
    second.release()


def test_a_killed_daemon_holds_no_lock(tmp_path: Path) -> None:
    """CONF-5: kill -9 of the holder frees the lock, though its name is still in the file."""
    path = tmp_path / "hostler-daemon.lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert int(holder.stdout.readline()) > 0
    with pytest.raises(DaemonRuns, match=f"pid {holder.pid}, state directory /state/of/another"):
        take(path, tmp_path)
    holder.kill()
    holder.wait()
    take(path, tmp_path).release()
    holder.stdin.close()
    holder.stdout.close()


def test_a_forked_child_does_not_keep_it(tmp_path: Path) -> None:
    """CONF-5: a lock that is given up is free, though a child has a copy of its open file."""
    path = tmp_path / "hostler-daemon.lock"
    first = take(path, tmp_path)
    copy = os.dup(first.handle)
    first.release()
    take(path, tmp_path).release()
    os.close(copy)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1e999}', "[" * 4000])
def test_a_holder_without_a_name_still_holds(tmp_path: Path, content: str) -> None:
    """CONF-5: what the file says is no proof: while the lock is held the second is refused, named or not."""
    path = tmp_path / "hostler-daemon.lock"
    first = take(path, tmp_path)
    path.write_text(content)
    with pytest.raises(DaemonRuns, match="just starting"):
        take(path, tmp_path)
    first.release()
    path.write_text(json.dumps({"pid": 1, "state_dir": "/x"}))
    take(path, tmp_path).release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """SEC-2: where somebody put a link in the lock's place, nothing is opened through it."""
    (tmp_path / "hostler-daemon.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        take(tmp_path / "hostler-daemon.lock", tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_several_locks_are_had_together_or_not_at_all(tmp_path: Path) -> None:
    """CONF-5: where one of them is somebody else's, none is kept."""
    box, state = tmp_path / "box.lock", tmp_path / "state.lock"
    other = take(state, tmp_path)
    with pytest.raises(DaemonRuns):
        take_all((box, state), tmp_path)
    take(box, tmp_path).release()
    other.release()
    both = take_all((box, state), tmp_path)
    with pytest.raises(DaemonRuns):
        take(state, tmp_path)
    both.release()
    take(state, tmp_path).release()


def test_a_full_disk_keeps_nobody_from_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """REL-1, CONF-5: where the holder's name cannot be written or removed the lock is had, and given up."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    monkeypatch.setattr(os, "ftruncate", full)
    path = tmp_path / "hostler-daemon.lock"
    first = take(path, tmp_path)
    with pytest.raises(DaemonRuns):
        take(path, tmp_path)
    first.release()
    take(path, tmp_path).release()
