"""The store's file in a person's hands: backed up, restored, recovered (REL-4, LEASE-8).

Decides what becomes of the file that is there: it is set aside as found, never overwritten. A store that went
back, or was begun anew, has a new epoch that sorts after every known one, so that no cursor and no fence
number of before holds. Whether the daemon is stopped is the caller's to see.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hostler.adapters.state_files import DIRECTORY_MODE, sync_directory
from hostler.adapters.store.remembered import Memory
from hostler.adapters.store.sql import migrations
from hostler.adapters.store.sqlite_file import (
    BUSY_S,
    Newer,
    StoreFile,
    Unusable,
    connect,
    copy_to,
    is_broken,
    is_passing,
    private,
    transaction,
)
from hostler.adapters.store.sqlite_tx import SqliteTx, counters_of
from hostler.domain.errors import InvalidRequest, StoreFull
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import frozen
from hostler.domain.values import Priority
from hostler.services.needs import Ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A store that began a new epoch. `before` is its last one, None when it could not be read.

    `aside` is where the file is that was there, None when it is the same one. `told` is the event of it.
    """

    epoch: str
    before: str | None
    aside: str | None
    told: Recorded


class Busy(Unusable):
    """Somebody has it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of stores before: epochs, and the highest generation."""

    epochs: tuple[str, ...] = ()
    generation: int = 0


def file_at(path: Path, ids: Ids, busy_s: float = BUSY_S) -> StoreFile:
    """The store's file at `path`, of this version's format."""
    return StoreFile(path=path, ids=ids, busy_s=busy_s, steps=migrations("sqlite"))


def backup(file: StoreFile, target: Path) -> None:
    """Copy the store as it is now to a new file, durably; writers go on meanwhile.

    Refuses `invalid_request` when that file is there, or cannot be made; `store_full` where there is no room
    for it; and as every call of the store does.
    """
    with _refused(file):
        file.check()
    there = replace(file, path=target)
    try:
        with closing(connect(file.path, "ro", file.busy_s)) as connection:
            copy_to(connection, target, file.ids, replace=False)
    except FileExistsError as error:
        raise InvalidRequest(
            what=f"{target} is there already.", expected="Name a new file.", where="file"
        ) from error
    except OSError as error:
        refusal = there.refusal(error)
        if not isinstance(refusal, StoreFull):
            what = f"{target} cannot be made: {error.strerror}."
            refusal = InvalidRequest(what=what, expected="Name a new file.", where="file")
        raise refusal from error
    except sqlite3.Error as error:
        raise (file if is_broken(error) else there).refusal(error) from error


def restore(present: StoreFile, source: Path, *, now: datetime, known: Sequence[str] = ()) -> Begun:
    """Put a copy of the backup `source` in the place of `present`; what was there is set aside as found.

    The daemon is stopped. Refuses `schedule_unavailable`, naming `source` when that cannot be used, and
    `store_full`: nothing was changed then.
    """
    path = present.path
    backed = file_at(source, present.ids, present.busy_s)
    with _refused(present):
        path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        with private(path, present.ids) as new:
            with _refused(backed):
                backed.check()
            with closing(connect(source, "ro", backed.busy_s)) as connection:
                copy_to(connection, new, present.ids)
            with closing(connect(new, "rw")) as connection:
                backed.migrate(connection, keep=False)
                with _refused(backed):
                    _damage(connection)
            there = _known(present)
            known_all = Known(epochs=(*there.epochs, *known), generation=there.generation)
            begun = _begin(replace(backed, path=new), known_all, now, f"restored from {source.name}")
            aside = _set_aside(path, now, "before-restore", stays=bool(there.epochs))
            new.rename(path)
            sync_directory(path.parent)
    return replace(begun, aside=aside)


def recover(file: StoreFile, *, now: datetime, known: Sequence[str] = ()) -> Begun:
    """Begin a new epoch: in the file when it can be read, else in a new one; the old is set aside as found.

    Refuses `schedule_unavailable` for a file of a newer version and for one that is only locked.
    """
    file.close()
    path, known_all = file.path, Known(epochs=tuple(known))
    with _refused(file):
        try:
            file.check()
            with closing(connect(path, "rw", file.busy_s)) as connection:
                file.migrate(connection)
                _damage(connection)
            return _begin(file, known_all, now, "recovered")
        except (Unusable, sqlite3.DatabaseError, FileNotFoundError) as error:
            if not _is_damage(error):
                raise
            why = str(error)
        aside = _set_aside(path, now, "unreadable")
        with file.connection():
            pass  # It is made anew where there is none.
        file.close()
        begun = _begin(file, known_all, now, f"begun anew: {why}")
    return replace(begun, before=None, aside=aside)


@contextmanager
def _refused(file: StoreFile) -> Iterator[None]:
    """What goes wrong with the file, as its refusal."""
    try:
        yield
    except (Unusable, sqlite3.Error, OSError) as error:
        raise file.refusal(error) from error


def later_epoch(ids: Ids, known: Iterable[str]) -> str:
    """A fresh epoch that sorts after all that are known, whatever the clock says."""
    fresh, highest = ids.new("ep"), max(known, default="")
    return fresh if fresh > highest else f"{highest}_{fresh.partition('_')[2]}"


def _begin(file: StoreFile, known: Known, now: datetime, why: str) -> Begun:
    """The store takes a new epoch, and says so as the first event of it."""
    with closing(connect(file.path, "rw", file.busy_s)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        with transaction(connection):
            counters = counters_of(connection)
            epoch = later_epoch(file.ids, (counters.epoch, *known.epochs))
            tx = SqliteTx(
                connection=connection,
                counters=replace(
                    counters,
                    epoch=epoch,
                    began=counters.seq,
                    generation=max(counters.generation, known.generation),
                ),
                writing=True,
                memory=Memory(),
            )
            tx.record(
                Event(
                    type="schedule_recovered",
                    at=now,
                    message=f"The schedule goes on in a new epoch: {why}.",
                    facts=frozen({"epoch": epoch, "before": counters.epoch}),
                    priority=Priority.HIGH,
                )
            )
            tx.save()
    return Begun(epoch=epoch, before=counters.epoch, aside=None, told=tx.rows[0])


def _known(file: StoreFile) -> Known:
    """What the file that is there knows, if it can be read; its journal is in it then."""
    try:
        file.check()
        with closing(connect(file.path, "rw", file.busy_s)) as connection:
            if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                raise Busy("another process has it open")
            (epoch,) = connection.execute("SELECT epoch FROM meta").fetchone()
            columns = {row[1] for row in connection.execute("PRAGMA table_info(meta)")}
            generation = counters_of(connection).generation if "generation" in columns else 0
    except (Unusable, sqlite3.DatabaseError, FileNotFoundError, TypeError) as error:
        if isinstance(error, Busy) or not (_is_damage(error) or isinstance(error, Newer)):
            raise
        return Known()
    return Known(epochs=(epoch,), generation=generation)


def _is_damage(error: Exception) -> bool:
    """Whether the file itself is what cannot be used: not a lock, no room, no right, a newer version."""
    if isinstance(error, sqlite3.Error):
        return is_broken(error) or not is_passing(error)
    return not isinstance(error, Newer | Busy)


def _set_aside(path: Path, now: datetime, why: str, *, stays: bool = False) -> str | None:
    """Move the file and its journal, byte for byte, beside their place; where they are now.

    `stays`: the file keeps its place too, until another is moved there; its journal is empty.
    """
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S")
    aside, number = path.with_name(f"{path.name}.{why}-{stamp}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.{why}-{stamp}-{number}")
    moved = False
    for ending in ("", "-wal", "-shm"):
        here, there = (each.with_name(f"{each.name}{ending}") for each in (path, aside))
        if here.exists():
            moved = True
            if stays and not ending:
                os.link(here, there)
            else:
                here.rename(there)
    if moved:
        sync_directory(path.parent)
    return str(aside) if moved else None


def _damage(connection: sqlite3.Connection) -> None:
    """Raises Unusable when a value in it cannot be read: what cannot be used is not gone on with."""
    if connection.execute("SELECT count(*) FROM meta").fetchone()[0] != 1:
        raise Unusable("its counter row is missing")
    tx = SqliteTx(connection=connection, counters=counters_of(connection), writing=False, memory=Memory())
    tx.check_all()
