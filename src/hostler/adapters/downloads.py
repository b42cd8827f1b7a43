"""Model files fetched from where the catalog says, or adopted where they lie (CAT-12).

Decides what counts as the file: its SHA-256, else its size within half a percent, and then it is unverified.
Writes no more than the file can have: by the catalog, by the other side's word, by what is free on the disk.
Deletes nothing but what it wrote itself, and replaces nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import unquote, urlsplit

import httpx2

from hostler.adapters.state_files import sync_directory
from hostler.domain.errors import DownloadFailed, NotTheFile, StoreFull
from hostler.domain.values import format_size
from hostler.services.catalog_parts import Outcome, Progress, Pulled, Wanted

CHUNK: Final = 1 << 20
TRIES: Final = 3
"""A line that breaks is taken up again where it broke, this often."""
CONNECT_S: Final = 20.0
SILENCE_S: Final = 60.0
TOLERANCE: Final = 200
"""One in 200 is half a percent: how far a size may be off for a file to be adopted by it."""
SPARE: Final = 256 << 20
"""Left free on the disk of the models."""
LOOK_EVERY: Final = 16 << 20
"""Where nobody says how long a file is, the disk's room is looked at after so many bytes."""
LONGER: Final = "what an earlier pull left was longer than the file"


def pull(wanted: Wanted, progress: Progress) -> Pulled:
    """Have one file. Refuses `not_the_file`, `store_full`, `download_failed`."""
    path = Path(wanted.path)
    if path.exists():
        return _adopt(wanted, path, progress)
    if wanted.url is None:
        raise DownloadFailed(
            file=wanted.file.name,
            why=f"the catalog does not say where {wanted.entry} is had",
            way=f"Put it at {wanted.path}; `hostler pull` then adopts it.",
        )
    if os.path.lexists(path):
        raise NotTheFile(
            file=str(path),
            model=wanted.entry,
            why="it is a link that leads nowhere",
            way=f"Nothing was changed. Remove the link, or put there what it names: {path}",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _part(path, wanted) as part:
            return _Fetch(wanted=wanted, url=wanted.url, path=path, part=part, progress=progress).run()
    except OSError as error:
        raise StoreFull(file=str(path), why=error.strerror or str(error)) from error


def _adopt(wanted: Wanted, path: Path, progress: Progress) -> Pulled:
    """What is there already: the file if it is it, else a refusal. It is never touched."""
    file, size = wanted.file, path.stat().st_size
    way = f"Nothing was changed. Move it away, or keep it and do not pull: {path}"
    if not path.is_file():
        raise NotTheFile(file=str(path), model=wanted.entry, why="it is no file", way=way)
    if file.sha256 is not None:
        found = _digest(path, size, file.name, progress)
        if found != file.sha256:
            why = f"its SHA-256 is {found}, the catalog's is {file.sha256}"
            raise NotTheFile(file=str(path), model=wanted.entry, why=why, way=way)
        return Pulled(file=file.name, path=str(path), size=size, outcome=Outcome.VERIFIED)
    if file.size is None:
        why = "the catalog has neither its size nor its SHA-256"
    elif not alike(size, file.size):
        told = f"it is {size} bytes, the catalog's is {file.size}, and they differ by more than 0.5 %"
        raise NotTheFile(file=str(path), model=wanted.entry, why=told, way=way)
    else:
        why = f"its size alone speaks for it: {size} of {file.size} bytes"
    return Pulled(file=file.name, path=str(path), size=size, outcome=Outcome.UNVERIFIED, why=why)


def alike(size: int, expected: int) -> bool:
    """Whether a size is within half a percent of what is expected."""
    return abs(size - expected) * TOLERANCE <= expected


def _digest(path: Path, size: int, name: str, progress: Progress) -> str:
    found, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            found.update(data)
            done += len(data)
            progress("reads", name, done, size)
    return found.hexdigest()


@contextlib.contextmanager
def _part(path: Path, wanted: Wanted) -> Iterator[BinaryIO]:
    """What was fetched so far, open at its end, with no other pull on it."""
    with path.with_name(f"{path.name}.part").open("ab+") as part:
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DownloadFailed(
                file=wanted.file.name, why="another pull fetches it now", way="Wait until that one is done."
            ) from None
        yield part


class _Broken(Exception):
    """A line that ended before its time, or whoever answers there cannot now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """An open source: its bytes from `start` on, and how many there are in all."""

    start: int
    total: int | None
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetch:
    """One file under way."""

    wanted: Wanted
    url: str
    path: Path
    part: BinaryIO
    progress: Progress
    told: list[str] = field(default_factory=list)

    @property
    def most(self) -> int | None:
        """No file of the catalog's size is longer; None where the catalog has none."""
        size = self.wanted.file.size
        return None if size is None else size + size // TOLERANCE

    def run(self) -> Pulled:
        """Fetch what is missing, prove it, and give it its name."""
        why = ""
        if self.most is not None and self._have() > self.most:
            self._anew()
        for _ in range(TRIES):
            try:
                total = self._rest()
                break
            except (_Broken, httpx2.HTTPError, httpx2.InvalidURL) as error:
                why = str(error) or type(error).__name__
        else:
            raise DownloadFailed(file=self.wanted.file.name, why=why)
        return self._done(total)

    def _rest(self) -> int | None:
        """Fetch from where the part ends; how many bytes there are in all, None where nobody says."""
        have = self._have()
        opened = _from_disk if self.url.startswith("file:") else self._from_net
        with opened(self.url, have) as source:
            if source.start != have:
                self.part.truncate(source.start)
            self._room(source)
            done = looked = source.start
            self.part.seek(done)
            for data in source.chunks:
                done += len(data)
                self._bounded(done, source.total)
                if source.total is None and self.most is None and done - looked >= LOOK_EVERY:
                    self._need(done - looked)
                    looked = done
                self.part.write(data)
                self.progress("fetches", self.wanted.file.name, done, source.total)
            self.part.flush()
            os.fsync(self.part.fileno())
            if source.total is not None and done != source.total:
                raise _Broken(f"it ended at {done} of {source.total} bytes")
            return source.total

    def _have(self) -> int:
        # A line that dropped left its last bytes in the buffer.
        self.part.flush()
        return os.fstat(self.part.fileno()).st_size

    def _anew(self) -> None:
        """What is there is no beginning of the file: it is begun anew, and that is told."""
        self.part.truncate(0)
        self.told[:] = [LONGER]

    def _bounded(self, done: int, total: int | None) -> None:
        """Refuses `not_the_file` for more than the catalog's size: an end may never come. Keeps nothing."""
        if self.most is not None and done > self.most:
            self._reject(f"it goes on after the {self.wanted.file.size} bytes that the catalog says")
        if total is not None and done > total:
            self.part.truncate(0)
            raise _Broken(f"it goes on after the {total} bytes that were told")

    def _room(self, source: _Source) -> None:
        """Refuses before a byte is written: `not_the_file` for a longer one, `store_full` without room."""
        if source.total is not None:
            if source.start > source.total:
                self._anew()
                raise _Broken(LONGER)
            self._bounded(source.total, source.total)
        total = source.total if source.total is not None else self.most
        self._need(LOOK_EVERY if total is None else total - source.start)

    def _need(self, need: int) -> None:
        """Refuses `store_full` unless the disk has room for so many bytes more."""
        free = shutil.disk_usage(self.path.parent).free
        if need + SPARE > free:
            why = (
                f"it needs {format_size(need)} more, {format_size(SPARE)} stay free, and"
                f" {format_size(free)} are free"
            )
            raise StoreFull(file=str(self.path), why=why)

    @contextlib.contextmanager
    def _from_net(self, url: str, have: int) -> Iterator[_Source]:
        """The bytes from `have` on; from the beginning where the other side cannot begin there."""
        # Nothing is compressed on the way: a range is one of the file's own bytes.
        headers = {"accept-encoding": "identity"} | ({"range": f"bytes={have}-"} if have else {})
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S)
        with (
            httpx2.Client(follow_redirects=True, timeout=timeout) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            if url.startswith("https:") and answer.url.scheme != "https":
                raise DownloadFailed(
                    file=self.wanted.file.name,
                    why="it leads from https:// to http://",
                    way="Name another url.",
                )
            total = _length(answer)
            if answer.status_code == 416 and total == have:
                yield _Source(start=have, total=have, chunks=iter(()))
            elif answer.status_code == 206 and _starts_at(answer) == have:
                yield _Source(start=have, total=total, chunks=answer.iter_raw())
            elif answer.status_code == 200:
                yield _Source(start=0, total=total, chunks=answer.iter_raw())
            elif answer.status_code in (206, 416):
                # What we have is not a beginning of what is there now.
                self.part.truncate(0)
                raise _Broken("the file there is another than before")
            elif answer.status_code >= 500 or answer.status_code == 429:
                raise _Broken(f"{answer.url.host} answers {answer.status_code}")
            else:
                raise DownloadFailed(
                    file=self.wanted.file.name,
                    why=f"{answer.url.host} answers {answer.status_code}",
                    way="A gated model needs an account there: fetch it by hand, and pull adopts it.",
                )

    def _done(self, total: int | None) -> Pulled:
        """Prove it and give it its name; what is not it goes, for it is ours."""
        file, size = self.wanted.file, self._have()
        outcome, why = Outcome.DOWNLOADED, ""
        if file.sha256 is not None:
            found = _digest(Path(self.part.name), size, file.name, self.progress)
            if found != file.sha256:
                self._reject(f"its SHA-256 is {found}, the catalog's is {file.sha256}")
        else:
            if file.size is not None and not alike(size, file.size):
                self._reject(f"it is {size} bytes, the catalog's is {file.size}")
            outcome, why = Outcome.UNVERIFIED, "the catalog has no SHA-256 of it"
        os.link(self.part.name, self.path)
        Path(self.part.name).unlink()
        sync_directory(self.path.parent)
        anew = "".join(self.told)
        return Pulled(file=file.name, path=str(self.path), size=size, outcome=outcome, why=why, anew=anew)

    def _reject(self, why: str) -> None:
        Path(self.part.name).unlink()
        raise NotTheFile(
            file=self.wanted.file.name,
            model=self.wanted.entry,
            why=why,
            way="What was fetched is gone. Pull again, or mend the catalog's url or sha256.",
        )


@contextlib.contextmanager
def _from_disk(url: str, have: int) -> Iterator[_Source]:
    path = Path(unquote(urlsplit(url).path))
    try:
        file = path.open("rb")
    except OSError as error:
        raise DownloadFailed(
            file=path.name, why=f"{path}: {error.strerror}", way="Name another url."
        ) from error
    with file:
        total = os.fstat(file.fileno()).st_size
        start = have if have <= total else 0
        file.seek(start)
        yield _Source(start=start, total=total, chunks=iter(lambda: file.read(CHUNK), b""))


def _length(answer: httpx2.Response) -> int | None:
    """How many bytes the whole file has, as the answer says."""
    ranged = answer.headers.get("content-range", "").rpartition("/")[2]
    text = ranged if answer.status_code in (206, 416) else answer.headers.get("content-length", "")
    return int(text) if text.isdigit() else None


def _starts_at(answer: httpx2.Response) -> int | None:
    text = answer.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
    return int(text) if text.isdigit() else None
