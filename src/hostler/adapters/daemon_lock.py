"""One orchestrating daemon per box: the lock that says which (CONF-5).

Decides who is the one: whoever has the flock. The kernel gives it back when its process ends, however
that was; the file's content only names the holder and is never the proof. It lies beside the hold file,
where all daemons of a box meet, whatever their state directories are. Another lies in the state directory:
two daemons whose hold paths differ must not write one schedule either.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.host.process_table import read
from hostler.domain.errors import DaemonRuns

MAX_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLock:
    """The lock, held. `handle` is its open file: closing it gives the lock back."""

    path: Path
    handle: int

    def release(self) -> None:
        """Give it up, for a successor that is starting already. The file stays: a name is not a lock."""
        with contextlib.suppress(OSError):  # A disk that takes nothing keeps the name: it is no proof.
            os.ftruncate(self.handle, 0)
        fcntl.flock(self.handle, fcntl.LOCK_UN)  # A forked child may have the same open file.
        os.close(self.handle)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonLocks:
    """Several locks, held together."""

    locks: tuple[DaemonLock, ...]

    def release(self) -> None:
        """Give all of them up."""
        for lock in self.locks:
            lock.release()


def take_all(paths: Sequence[Path], state_dir: Path) -> DaemonLocks:
    """Every one of these locks, or none. Refuses and raises as `take`."""
    locks: list[DaemonLock] = []
    try:
        locks.extend(take(path, state_dir) for path in paths)
    except BaseException:
        DaemonLocks(locks=tuple(locks)).release()
        raise
    return DaemonLocks(locks=tuple(locks))


def take(path: Path, state_dir: Path) -> DaemonLock:
    """Become the one orchestrating daemon of this box. Refuses `daemon_runs`, naming the one that is.

    Raises OSError when the file cannot be opened: without the lock nothing may be orchestrated.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(handle)
        os.close(handle)
        raise holder from None
    except OSError:
        os.close(handle)
        raise
    _name(handle, state_dir)
    return DaemonLock(path=path, handle=handle)


def _name(handle: int, state_dir: Path) -> None:
    """Write who has it. Where the disk takes nothing the lock is had all the same: it is no name (REL-1)."""
    process = read(os.getpid())
    named = {
        "pid": os.getpid(),
        "start_ticks": 0 if process is None else process.start_ticks,
        "state_dir": str(state_dir),
    }
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(named).encode(), 0)


def _holder(handle: int) -> DaemonRuns:
    """Who has it, as far as the file says: it may be between the lock and its name."""
    try:
        found = json.loads(os.pread(handle, MAX_BYTES, 0))
        return DaemonRuns(pid=int(found["pid"]), where=f"state directory {found['state_dir']}")
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return DaemonRuns(pid=0, where="which is just starting")
