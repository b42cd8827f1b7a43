"""The store's file: opened, checked, brought up to date; kept as found when it cannot be used.

Decides whether a file is a store of ours that this version can use (REL-4), and makes a new one where
there is none. What could not be read is never overwritten, moved or repaired here: a person decides
(BG-18). All of it runs on the store's one thread.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from hostler.adapters.state_files import DIRECTORY_MODE, FILE_MODE, sync_directory
from hostler.adapters.store.sql import Migration, statements
from hostler.domain.errors import ScheduleUnavailable, StoreFull
from hostler.services.needs import Ids

APPLICATION_ID: Final = 0x486F7374
"""`Host` in ASCII, in the file's header: a database of something else is told apart."""
MAGIC: Final = b"SQLite format 3\0"
BUSY_S: Final = 5.0
"""How long a write waits for another process before the store counts as locked."""
CACHE_KIB: Final = 32 << 10
"""Pages kept in memory: the indexes of 100,000 jobs fit."""
SQL: Final = statements("sqlite")

REASONS: Final = {
    "SQLITE_BUSY": "another process has it locked",
    "SQLITE_LOCKED": "another process has it locked",
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it may not be written",
    "SQLITE_PERM": "it may not be opened",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_CORRUPT": "its content is damaged",
    "SQLITE_NOTADB": "it is no database",
    "SQLITE_IOERR": "reading or writing it failed",
}
FULL: Final = "SQLITE_FULL"
ROOM: Final = ("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_SHMSIZE")
"""These may mean that there is no room: a quota or a limit is no ENOSPC."""
NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ROOM_BYTES: Final = 65536
BROKEN: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
"""After these the connection is given up: the next call checks the file from its first byte on."""


LOST: Final = (
    "it was removed or replaced while it was in use; `hostler schedule recover`, or a restart of the daemon,"
    " goes on with what is there and what the nodes remember"
)


class Unusable(Exception):
    """The file is not one that may be used; the text says why."""


class Newer(Unusable):
    """A newer version wrote it: it is whole, and not for this version."""


@dataclass(eq=False, kw_only=True)
class StoreFile:
    """One SQLite file and the connection to it.

    `lost`: it was removed or replaced while it was in use. Whatever lies there now knows nothing of what is
    leased, so it is not used before somebody asked the nodes: at a start, or by `recover` (LEASE-8).
    """

    path: Path
    ids: Ids
    steps: Sequence[Migration]
    busy_s: float = BUSY_S
    _open: sqlite3.Connection | None = None
    _identity: tuple[int, int] | None = None
    lost: bool = False

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Use what lies there now, whatever became of the file in use; where that fails, it is as before."""
        lost, self.lost = self.lost, False
        try:
            yield
        except BaseException:
            self.lost = lost
            raise

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The open connection, outside any transaction. Refuses `schedule_unavailable` with the reason, and
        `store_full` where there is no room.

        A refused call may be tried again: the file is looked at anew then.
        """
        try:
            yield self._connected()
        except (Unusable, sqlite3.Error, OSError) as error:
            if isinstance(error, Unusable) or is_broken(error):
                self.close()
            raise self.refusal(error) from error

    def refusal(self, error: BaseException) -> BaseException:
        """The refusal that an error in using the file is; any other error as it is."""
        if isinstance(error, sqlite3.Error):
            full = _name(error).startswith(FULL) or (_name(error) in ROOM and not self._has_room())
            return self._full() if full else self._unavailable(_reason(error))
        if isinstance(error, OSError):
            return self._full() if error.errno in NO_ROOM else self._unavailable(error.strerror or str(error))
        return self._unavailable(str(error)) if isinstance(error, Unusable) else error

    def _full(self) -> StoreFull:
        return StoreFull(file=str(self.path), why="the disk is full")

    def _has_room(self) -> bool:
        """Whether a file as long as the journal takes some more: SQLite tells a quota as a plain failure."""
        probe = self.path.with_name(f".{self.path.name}.{self.ids.new('room')}")
        journal = self.path.with_name(f"{self.path.name}-wal")
        try:
            with probe.open("xb", buffering=0) as file:
                sizes = (each.stat().st_size for each in (self.path, journal) if each.exists())
                file.seek(max(sizes, default=0))
                return file.write(b"\1" * ROOM_BYTES) == ROOM_BYTES
        except OSError as error:
            return error.errno not in NO_ROOM
        finally:
            probe.unlink(missing_ok=True)

    def close(self) -> None:
        """Give the connection back, if there is one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _unavailable(self, why: str) -> ScheduleUnavailable:
        return ScheduleUnavailable(why=why, file=str(self.path))

    def _connected(self) -> sqlite3.Connection:
        if self.lost:
            raise Unusable(LOST)
        if self._open is not None and self._identity != _identity(self.path):
            # What is written to a removed file is lost at the next start: it may not be acknowledged. The
            # journal is emptied into the old file: it must not be played onto the one that came in its place.
            self._open.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.lost = True
            raise Unusable(LOST)
        if self._open is None:
            self._open = self._opened()
            self._identity = _identity(self.path)
        return self._open

    def _opened(self) -> sqlite3.Connection:
        if _identity(self.path) is None:
            self._create()
        else:
            self.check()
        connection = connect(self.path, "rw", self.busy_s)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            self.migrate(connection)
            if connection.execute(SQL["meta"]).fetchone() is None:
                raise Unusable("its counter row is missing")
        except BaseException:
            connection.close()
            raise
        return connection

    def check(self) -> None:
        """Raises Unusable unless the file is a store of ours, whole, and not newer. Only reads."""
        found = self.path.lstat()  # Not through a link: whoever put it there would choose the file.
        if not stat.S_ISREG(found.st_mode):
            raise Unusable("it is no regular file")
        with self.path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise Unusable("it is empty" if found.st_size == 0 else "it is no database")
        with closing(connect(self.path, "ro", self.busy_s)) as connection:
            if _pragma(connection, "application_id") != APPLICATION_ID:
                raise Unusable("it is a database of something else")
            version = _pragma(connection, "user_version")
            if version > len(self.steps):
                raise Newer(
                    f"a newer version wrote it: its format is {version}, this one knows {len(self.steps)}"
                )
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise Unusable(f"its content is damaged: {' '.join(str(verdict).split())}")

    def _create(self) -> None:
        """Make a new store beside its place and link it there whole: a crash leaves none, or a good one."""
        journal = self.path.with_name(f"{self.path.name}-wal")
        if journal.exists() and journal.stat().st_size and not self.path.exists():
            raise Unusable(f"it is missing, but its journal {journal.name} is there")
        self.path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        with private(self.path, self.ids) as new:
            with closing(connect(new, "rw", self.busy_s)) as connection:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                self.migrate(connection)
                connection.execute(SQL["found"], {"epoch": self.ids.new("ep")})
            try:
                os.link(new, self.path)
                sync_directory(self.path.parent)
            except FileExistsError:
                self.check()

    def migrate(self, connection: sqlite3.Connection, *, keep: bool = True) -> None:
        """Apply the steps that are missing, each as one transaction, after a copy was kept (REL-4)."""
        version = _pragma(connection, "user_version")
        if keep and 0 < version < len(self.steps):
            copy_to(connection, self.path.with_name(f"{self.path.name}.format-{version}"), self.ids)
        for step in self.steps[version:]:
            try:
                connection.executescript(
                    f"BEGIN IMMEDIATE;\n{step.sql}\nPRAGMA user_version = {step.number};\nCOMMIT;"
                )
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")


def connect(path: Path, mode: str, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """A connection that begins and ends transactions only as it is told; `mode` `ro` writes nothing."""
    address = f"file:{quote(str(path))}?mode={mode}"
    return sqlite3.connect(address, uri=True, isolation_level=None, timeout=busy_s)


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """IMMEDIATE has the write lock from its first statement on: two writers never read the same counter."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def private(path: Path, ids: Ids) -> Iterator[Path]:
    """An empty file of ours beside `path`, which is gone at the end unless it was moved."""
    new = path.with_name(f".{path.name}.{ids.new('new')}")
    os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


def copy_to(connection: sqlite3.Connection, target: Path, ids: Ids, *, replace: bool = True) -> None:
    """What the connection sees now, as one file at `target`, whole or not at all.

    Raises FileExistsError when something is there and `replace` is False.
    """
    with private(target, ids) as new:
        with closing(connect(new, "rw")) as copy:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # A copy is one file, without a journal beside it.
        if replace:
            new.rename(target)
        else:
            os.link(new, target)
        sync_directory(target.parent)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def is_broken(error: BaseException) -> bool:
    """Whether the file was found damaged: everything about it is to be checked anew."""
    return isinstance(error, sqlite3.Error) and _name(error).startswith(BROKEN)


def is_passing(error: sqlite3.Error) -> bool:
    """Whether it is for a known reason outside the file: a lock, no room, no right, a disk that fails."""
    return _name(error).startswith(tuple(each for each in REASONS if each not in BROKEN))


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or "SQLITE_ERROR"


def _reason(error: sqlite3.Error) -> str:
    name = _name(error)
    for start, reason in REASONS.items():
        if name.startswith(start):
            return reason
    return f"{error} ({name})"
