"""The history's files: one event a line, the newest file as text, older ones compressed (HIST-1, HIST-2).

Decides where a file ends, which are kept and what counts as a whole line. Reads and writes no database. One
process writes; any may read meanwhile.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, cast

import msgspec

from hostler.adapters.state_files import DIRECTORY_MODE, FILE_MODE, sync_directory
from hostler.domain.values import rfc3339
from hostler.wire.values import dump_plain

MAX_BYTES: Final = 10 << 20
KEPT: Final = 10
"""Compressed files; with MAX_BYTES each that is 110 MiB of lines at most."""
MOST: Final = 10_000
"""Lines in one answer: at 1 KiB each 10 MiB."""
CURRENT: Final = "history.ndjson"
GAP: Final = "history_gap"
_OLD: Final = re.compile(r"history-(\d{6,})\.ndjson\.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFiles:
    """The need `HistoryLog`, in one folder, which is made when it is first needed."""

    folder: Path
    max_bytes: int = MAX_BYTES
    kept: int = KEPT

    def last(self) -> str | None:
        """The cursor of the last whole line; what is torn behind it is cut off. Raises OSError."""
        cursor = self._cut()
        newest = self._old()[-1:]
        if not newest:
            return cursor
        before = self._last_of(newest[0])
        if cursor is not None and cursor == before:
            # A crash between the two steps of a rotation: this file is in the compressed one already.
            self._current.unlink()
        return before if cursor is None else cursor

    def append(self, lines: Sequence[Mapping[str, object]]) -> None:
        """Write these lines behind the last. Raises OSError; `last` says what is there then."""
        self.folder.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        size = self._current.stat().st_size if self._current.exists() else 0
        waiting: list[bytes] = []
        for line in lines:
            text = dump_plain(line) + b"\n"
            if size and size + len(text) > self.max_bytes:
                self._write(waiting)
                self._rotate()
                size, waiting = 0, []
            waiting.append(text)
            size += len(text)
        self._write(waiting)

    def read(
        self,
        *,
        lease: str | None = None,
        job: str | None = None,
        since: datetime | None = None,
        limit: int = MOST,
    ) -> Sequence[Mapping[str, object]]:
        """The newest `limit` lines of that lease, that job, from that time on, oldest first. Raises OSError.

        Gaps are told whatever is asked for. Lines that cannot be read are left out.
        """
        edge = "" if since is None else rfc3339(since)
        found: deque[Mapping[str, object]] = deque(maxlen=limit)
        wanted = [each.encode() for each in (lease, job) if each is not None]
        with ExitStack() as files:
            for text in self._lines(files):
                if not all(each in text for each in wanted) and GAP.encode() not in text:
                    continue
                line = _line(text)
                if line is not None and str(line.get("time", "")) >= edge and _is_of(line, lease, job):
                    found.append(line)
        return tuple(found)

    # ------------------------------------------------------------ writing

    @property
    def _current(self) -> Path:
        return self.folder / CURRENT

    def _old(self) -> list[Path]:
        """The compressed files, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(each for each in self.folder.iterdir() if _OLD.fullmatch(each.name))

    def _cut(self) -> str | None:
        """The cursor of the current file's last whole line, which is its end from now on.

        A file without any such line is no history of ours: it is set aside as found.
        """
        if not self._current.exists():
            return None
        data = self._current.read_bytes()
        lines = data.split(b"\n")
        end = len(data) - len(lines.pop())
        while lines and (line := _line(lines[-1])) is None:
            end -= len(lines.pop()) + 1
        if not lines and b"\n" in data:
            self._current.rename(self.folder / f"history-damaged-{self._current.stat().st_mtime_ns:x}")
            return None
        if end < len(data):
            os.truncate(self._current, end)
        return str(line["cursor"]) if lines and line is not None else None

    @staticmethod
    def _last_of(path: Path) -> str | None:
        with gzip.open(path, "rb") as file:
            newest = deque((line for text in _whole(file) if (line := _line(text)) is not None), maxlen=1)
        return str(newest[0]["cursor"]) if newest else None

    def _write(self, lines: Sequence[bytes]) -> None:
        handle = os.open(self._current, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(handle, "wb") as file:
            file.writelines(lines)

    def _rotate(self) -> None:
        """The compressed file is whole and durable before the other one goes."""
        old = self._old()
        number = int(cast("re.Match[str]", _OLD.fullmatch(old[-1].name))[1]) + 1 if old else 1
        target = self.folder / f"history-{number:06d}.ndjson.gz"
        new = self.folder / f".{target.name}.new"
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            with os.fdopen(handle, "wb") as raw, self._current.open("rb") as source:
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    shutil.copyfileobj(source, packed)
                raw.flush()
                os.fsync(raw.fileno())
            new.rename(target)
        finally:
            new.unlink(missing_ok=True)
        sync_directory(self.folder)
        self._current.unlink()
        for path in (*old, target)[: -self.kept]:
            path.unlink()

    # ------------------------------------------------------------ reading

    def _lines(self, files: ExitStack) -> Iterator[bytes]:
        """Whole lines, oldest first. All files are open before one is read: a rotation moves none away."""
        while True:
            before = self._names()
            try:
                opened = [_opened(files, self.folder / name) for name in before]
            except FileNotFoundError:  # A rotation came between: look anew.
                continue
            if self._names() == before:
                break
            files.close()
        first = b""
        for file in opened:
            lines = _whole(file)
            head = next(lines, b"")
            if head == first:
                continue  # Empty; or a rotation's second step is still to come: it was read before.
            first = head
            yield head
            yield from lines

    def _names(self) -> list[str]:
        current = [CURRENT] if self._current.exists() else []
        return [each.name for each in self._old()] + current


def _opened(files: ExitStack, path: Path) -> Iterable[bytes]:
    file = files.enter_context(path.open("rb"))
    return file if path.name == CURRENT else files.enter_context(gzip.GzipFile(fileobj=file))


def _whole(file: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that have their end; of a damaged compressed file those before the damage."""
    try:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]
    except (EOFError, gzip.BadGzipFile, zlib.error):
        return


def _line(text: bytes) -> Mapping[str, object] | None:
    """The line as an object with its cursor, None when it is none."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("cursor"), str) else None


def _is_of(line: Mapping[str, object], lease: str | None, job: str | None) -> bool:
    return line.get("type") == GAP or (_names(line, "lease", lease) and _names(line, "job", job))


def _names(line: Mapping[str, object], kind: str, wanted: str | None) -> bool:
    """Whether the line's subject or facts name it."""
    places = (line.get("subject"), line.get("facts"))
    return wanted is None or any(isinstance(each, dict) and each.get(kind) == wanted for each in places)
