"""Updates of one job on their way to the head: a local NDJSON file that outlives the process (JOB-6).

Decides each update's sequence number, and that it lies in the file before it is sent and until the head has
answered it. A number is given once, across processes; the head applies a number once; so each update counts
once, however often it is sent. Which calls they are, and when to send, is `hostler.client.job`'s.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from hostler.client.room import unusable
from hostler.client.saved import REQUEST_ID, make_private, write_private
from hostler.domain.errors import LimitReached
from hostler.domain.fleet import frozen

MAX_BYTES: Final = 64 << 20
"""120 h of one update a second, 150 bytes each, are 65 MB."""
_TAIL: Final = 1 << 20
"""No line is longer: an update is at most 256 KiB (JOB-7)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One call that was not answered yet. `verb` None: only the number was given, its call is done."""

    n: int
    verb: str | None = None
    body: Mapping[str, object] = field(default_factory=lambda: frozen({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """The calls of one job that wait. Every method raises `state_unusable` when the file cannot be used, or
    `store_full` where there is no room.
    """

    path: Path

    def check(self) -> None:
        """Make its directory: where that cannot be used no job begins, and not one without updates."""
        try:
            make_private(self.path.parent)
        except OSError as error:
            raise unusable(self.path.parent, error) from error

    def put(self, verb: str, body: Mapping[str, object]) -> int:
        """Append a call and give its number, from 1. Refuses `limit` when the file is full."""
        with self._locked() as handle:
            size = os.fstat(handle).st_size
            if size > MAX_BYTES:
                raise LimitReached(what=f"bytes of updates in {self.path}", limit=MAX_BYTES)
            start = max(0, size - _TAIL)
            tail = os.pread(handle, _TAIL, start)
            n = max((line.n for line in _lines(tail)), default=0) + 1
            line = _text(n, verb, body)
            # A line that a crash tore is closed, so that it spoils no other.
            torn = b"\n" if tail and not tail.endswith(b"\n") else b""
            _append(handle, torn + line + b"\n")
        return n

    def waiting(self) -> Sequence[Waiting]:
        """The calls that wait, in the order of their numbers; a torn line is none."""
        if not self.path.exists():
            return []
        with self._locked() as handle:
            data = os.pread(handle, os.fstat(handle).st_size, 0)
        return [line for line in _lines(data) if line.verb is not None]

    def done(self, n: int) -> None:
        """Every call up to `n` has been answered: they go, their numbers are never given again."""
        with self._locked() as handle:
            found = _lines(os.pread(handle, os.fstat(handle).st_size, 0))
            last = max((line.n for line in found), default=n)
            rest = [line for line in found if line.n > n and line.verb is not None]
            kept = [Waiting(n=max(last, n)), *rest]
            data = b"".join(_text(line.n, line.verb, line.body) + b"\n" for line in kept)
            write_private(self.path, data, synced=False)

    def forget(self) -> None:
        """Delete it: its job is over."""
        self.path.unlink(missing_ok=True)
        self._lock_path.unlink(missing_ok=True)

    @property
    def _lock_path(self) -> Path:
        return self.path.with_suffix(".lock")

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, open, while nobody else has it. The lock is a file of its own: this one is replaced."""
        try:
            make_private(self.path.parent)
            lock = _open(self._lock_path)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                handle = _open(self.path)
                try:
                    yield handle
                finally:
                    os.close(handle)
            finally:
                os.close(lock)
        except OSError as error:
            raise unusable(self.path, error) from error


def _text(n: int, verb: str | None, body: Mapping[str, object]) -> bytes:
    return json.dumps({"n": n, "verb": verb, "body": dict(body)}, allow_nan=False).encode()


def spool(state: Path, request_id: str) -> Spool:
    """The spool of the job of that request. ValueError for what is no request id of ours."""
    if not REQUEST_ID.fullmatch(request_id):
        raise ValueError(f"{request_id!r} is no request id")
    return Spool(path=state / "client" / "spool" / f"{request_id}.ndjson")


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _append(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _lines(data: bytes) -> list[Waiting]:
    found = []
    for line in data.split(b"\n"):
        try:
            found.append(msgspec.json.decode(line, type=Waiting))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # Torn, or the first piece of a tail that begins within a line.
    return found
