"""The hold of this host as the deadman reads it, and the removal of the window's own (WIN-4, WIN-5).

Decides as the daemon does (HOLD-2 to HOLD-4): a record that cannot be read counts as held for 8 h, one of
another boot or past its expiry counts no more. Whose hold it is, its `lease` says. Expiry is judged by the
wall clock, the only thing here that is: a shell script wrote it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from hostler.deadman import kernel
from hostler.deadman.written import Hold

MAX_BYTES: Final = 64 << 10
AGES_OUT_S: Final = 8 * 3600
LOCK_WAIT_S: Final = 5.0
LOCK_LOOK_S: Final = 0.01
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What lies at the hold's path: whose, and until which second since 1970. `lease` empty: no lease's."""

    owner: str
    lease: str
    until: float
    allow: tuple[str, ...] = ()


def in_the_way(hold: Hold, engine: str) -> str | None:
    """Who else's live hold keeps `engine` from being started, None when nobody's does."""
    found = look(hold.path)
    if found is None or found.lease == hold.lease or time.time() >= found.until:
        return None
    return None if engine in (*found.allow, *hold.essential) else found.owner


def look(path: str) -> Record | None:
    """The record at `path`, None when there is none, or one of another boot."""
    try:
        handle = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except OSError:
        return _unreadable(path)
    try:
        status = os.fstat(handle)
        data = os.read(handle, MAX_BYTES + 1) if stat.S_ISREG(status.st_mode) else b""
    except OSError:
        return _unreadable(path)
    finally:
        os.close(handle)
    try:
        row = json.loads(data.decode("utf-8-sig"))
        until = datetime.fromisoformat(row["expires_at"])
        if until.tzinfo is None or len(data) > MAX_BYTES or status.st_mode & stat.S_IWOTH:
            return _unreadable(path)
        if row.get("boot_id") not in (None, kernel.boot_id()):
            return None
        allow = row.get("allow")
        return Record(
            owner=str(row.get("owner") or "unknown"),
            lease=str(row.get("lease") or ""),
            until=until.timestamp(),
            allow=tuple(str(it) for it in allow) if isinstance(allow, list) else (),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return _unreadable(path)


def _unreadable(path: str) -> Record | None:
    """Held by nobody knows whom, until 8 h after it was written; by a future mtime, from now on."""
    try:
        since = min(os.lstat(path).st_mtime, time.time())
    except FileNotFoundError:
        return None
    except OSError:
        since = time.time()
    return Record(owner="unknown (the record cannot be read)", lease="", until=since + AGES_OUT_S)


def remove_own(hold: Hold) -> bool:
    """Remove the window's own record, under the writers' lock; another's is left. Whether it went.

    Raises OSError.
    """
    path = Path(hold.path)
    if not _is_own(hold):
        return False
    with _locked(path):
        if not _is_own(hold):
            return False
        path.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


def _is_own(hold: Hold) -> bool:
    found = look(hold.path)
    return found is not None and found.lease == hold.lease


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The writers' lock beside the record, bounded; on a disk that takes no lock file, without."""
    try:
        handle = os.open(path.with_name(f"{path.name}.lock"), _FLAGS | os.O_CREAT, 0o644)
    except OSError:
        yield
        return
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        while not _took(handle):
            if time.monotonic() >= deadline:
                raise TimeoutError(110, f"another process has kept {path.name}.lock for {LOCK_WAIT_S:.0f} s")
            kernel.pause(LOCK_LOOK_S)
        yield
    finally:
        os.close(handle)


def _took(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
