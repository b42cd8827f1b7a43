"""The engine's output as lines, read back from the supervisor's rotated files (ENG-12).

Decides which file comes after which. Does not write, and does not escape: the lines are the engine's.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

CURRENT: Final = "engine.log"
POLL_S: Final = 0.2
"""How often `follow` looks for more. A file has no event that asyncio could wait for."""
MAX_LINE: Final = 65536
"""A longer line is given in parts of this size (bytes)."""
_BLOCK: Final = 65536


def tail(directory: Path, lines: int, files: int) -> list[str]:
    """The last `lines` lines, oldest first, across file ends; empty when there are none yet."""
    found: list[bytes] = []
    for path in _paths(directory, files):
        if len(found) >= lines:
            break
        try:
            found = _last(path, lines - len(found)) + found
        except FileNotFoundError:  # Not written yet, or just being moved on: the next number has it.
            continue
    return [line.decode(errors="replace") for line in found]


def _last(path: Path, lines: int) -> list[bytes]:
    """The last lines of one file, read from its end in blocks."""
    with os.fdopen(_opened(path), "rb") as file:
        place = file.seek(0, os.SEEK_END)
        data = b""
        while place > 0 and data.count(b"\n") <= lines:
            step = min(_BLOCK, place)
            place -= step
            file.seek(place)
            data = file.read(step) + data
    found = data.removesuffix(b"\n").split(b"\n") if data else []
    return found[-lines:] if lines > 0 else []


def _opened(path: Path) -> int:
    """The file, opened. FileNotFoundError for a link too: what it leads to is no log of ours (BG-23)."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileNotFoundError(error.errno, error.strerror, str(path)) from error
        raise


async def follow(directory: Path, files: int) -> AsyncIterator[str]:
    """Lines from now on, as they come, across rotations; waits for a file that is not there yet."""
    reader = _Reader(_paths(directory, files))
    reader.open_at_end()
    try:
        while True:
            got = reader.lines()
            for line in got:
                yield line
            if not got:
                await asyncio.sleep(POLL_S)
    finally:
        reader.close()


class _Reader:
    """A place in the log: each file is read to its end, then the next newer one from its beginning."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._fd = -1
        self._rest = b""

    def open_at_end(self) -> None:
        """Start behind what is written already."""
        if any(self._open(number) for number in range(len(self._paths))):
            os.lseek(self._fd, 0, os.SEEK_END)

    def lines(self) -> list[str]:
        """Whole lines that came since the last call; empty when there are none now."""
        while True:
            data = self._read()
            if not data and self._number() > 0:
                data = self._read()  # What was written between the last look and the file's move.
            if not data and not self._next():
                return []
            *whole, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > MAX_LINE:
                whole.append(self._rest)
                self._rest = b""
            if whole:
                return [line.decode(errors="replace") for line in whole]

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> bytes:
        return os.read(self._fd, _BLOCK) if self._fd >= 0 else b""

    def _number(self) -> int:
        """Which of the files this one is now; one past the oldest when it is gone, or none is open."""
        if self._fd < 0:
            return len(self._paths)
        mine = os.fstat(self._fd)
        return next((n for n, path in enumerate(self._paths) if _same(path, mine)), len(self._paths))

    def _next(self) -> bool:
        """Turn to the file after this one; False when this is the newest."""
        return self._open_oldest(self._number())

    def _open_oldest(self, below: int) -> bool:
        """Open the oldest file whose number is less than `below`."""
        return any(self._open(number) for number in reversed(range(below)))

    def _open(self, number: int) -> bool:
        try:
            fd = _opened(self._paths[number])
        except FileNotFoundError:
            return False
        self.close()
        self._fd = fd
        return True


def _same(path: Path, mine: os.stat_result) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)


def _paths(directory: Path, files: int) -> tuple[Path, ...]:
    """The newest file first."""
    return (directory / CURRENT, *(directory / f"{CURRENT}.{number}" for number in range(1, files)))
