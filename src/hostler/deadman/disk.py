"""What the deadman writes: whole files, a line per thing done, its log, the claim to be the one restore.

Decides that a disk which takes nothing stops nothing: what could not be written is kept, told, tried again.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import syslog
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostler.deadman import kernel

UNLOCKED = -1
"""The claim of a deadman that can make no lock file: it goes on without."""


def say(text: str) -> None:
    """One line for people: the log file (standard error) and the machine's log. Never raises."""
    syslog.syslog(syslog.LOG_WARNING, text)
    try:
        os.write(sys.stderr.fileno(), f"{kernel.wall()} {text}\n".encode())
    except (OSError, ValueError):
        return


def write_whole(path: Path, value: Mapping[str, object]) -> None:
    """`value` as JSON at `path`: temporary file, fsync, rename, fsync of the directory. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def wrote(path: Path, value: Mapping[str, object]) -> bool:
    """`write_whole`, and whether it could be done; told when not."""
    try:
        write_whole(path, value)
    except OSError as error:
        say(f"{path.name} was not written: {error.strerror}")
        return False
    return True


@dataclass(slots=True)
class Lines:
    """`restore.ndjson`: what was done, a line each, durable before the next thing where there is room."""

    path: Path
    waiting: list[bytes] = field(default_factory=list)

    def add(self, **facts: object) -> None:
        """Append one line, and what could not be written before it."""
        row = {"at": kernel.wall(), "boot_s": round(kernel.boot_s(), 3), "by": "deadman", **facts}
        say(" ".join(f"{name}={value}" for name, value in facts.items()))
        self.waiting.append(json.dumps(row).encode() + b"\n")
        self.flush()

    def flush(self) -> None:
        """Write what waits."""
        while self.waiting:
            try:
                _append(self.path, self.waiting[0])
            except OSError as error:
                say(f"{self.path.name} was not written: {error.strerror}")
                return
            del self.waiting[0]


def _append(path: Path, line: bytes) -> None:
    """Append the line whole or not at all."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        before = os.fstat(fd).st_size
        try:
            if os.write(fd, line) < len(line):
                raise OSError(28, "No space left on device")
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, before)
            raise
    finally:
        os.close(fd)


def claim(path: Path, *, take_over: bool) -> int | None:
    """Be the one restore of the window (WIN-7): the lock's descriptor, None while somebody else has it.

    `take_over`: who has it hangs. Then the file is replaced: its holder sees that before its next step.
    """
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            say(f"{path.name} cannot be opened: {error.strerror}; it goes on without")
            return UNLOCKED
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            if not take_over:
                return None
            say("the restore of a daemon that gives no sign of life is taken over")
            path.unlink(missing_ok=True)
            continue
        if _is_at(fd, path):
            return fd
        os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
