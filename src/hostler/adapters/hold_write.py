"""Writing and removing the hold file (HOLD-9): whole, under a lock beside it, decided on what is there.

Decides how bytes get there. Who may write what is `domain.hold_plan`'s decision, taken anew under the
lock. A reader sees the old record or the new one at every instant, a crash included.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hostler.adapters.hold_file import HoldFile
from hostler.adapters.hold_path import lingering_warning
from hostler.domain.errors import HoldPathUnusable, NotYours, Refusal, StoreFull
from hostler.domain.hold import HoldView
from hostler.domain.hold_plan import (
    RELEASED,
    ForcedChange,
    LeaseHold,
    Release,
    Removal,
    Taken,
    Wanted,
    Write,
    encode,
    plan_lease_extension,
    plan_lease_hold,
    plan_lease_removal,
    plan_release,
    plan_write,
)
from hostler.domain.hold_record import parse_instant
from hostler.domain.values import rfc3339, shorten

CHANGES_NAME: Final = "box.ndjson"
"""The file beside the record that forced changes are appended to; `hold_changes` reads it."""
READING: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Others may write the directory: what is no file of ours is neither followed nor waited for."""
CHANGES_READ: Final = 1 << 20
"""So many bytes of its end are looked through for what became of a lease's hold."""
LOCK_WAIT_S: Final = 5.0
"""A writer holds the lock for milliseconds: one that has it for longer is stopped, and is named."""

_LOCK_LOOK_S: Final = 0.01
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was there, what was decided, and where the bytes of an unreadable record are now."""

    before: HoldView
    plan: Write
    kept_as: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What was there and how it ended."""

    before: HoldView
    plan: Release
    kept_as: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldWriter:
    """Writes the file that `reader` reads, with the permission bits `mode`, on the machine below `root`."""

    reader: HoldFile
    mode: int = 0o600
    root: str = "/"

    def write(self, wanted: Wanted) -> Written:
        """Put the hold in place whole. Refusals: held, invalid_request, store_full, not_yours."""
        with self._told(), self._locked():
            while True:
                before = self.reader.read_fresh()
                now = self.reader.now()
                plan = plan_write(before, wanted, now=now, boot_id=self.reader.boot)
                try:
                    kept_as = self._put(encode(plan.record), plan, now)
                except FileExistsError:
                    # A script, which knows no lock, was faster: decide again on what it wrote.
                    continue
                warnings = self._note(plan.forced, now)
                return Written(before=before, plan=plan, kept_as=kept_as, warnings=warnings)

    def release(self, *, owner: str | None, force: bool, by: str) -> Ended:
        """End the hold that is there. Refusals: held, not_yours."""
        before, now = self.reader.read_fresh(), self.reader.now()
        plan = plan_release(before, owner=owner, force=force, by=by, now=now)
        if plan.removal is Removal.NOTHING:
            return Ended(before=before, plan=plan)
        with self._told(), self._locked():
            before, now = self.reader.read_fresh(), self.reader.now()
            plan = plan_release(before, owner=owner, force=force, by=by, now=now)
            kept_as = None
            if plan.removal is Removal.SET_ASIDE:
                kept_as = self._set_aside(now)
            elif plan.removal is Removal.REMOVE:
                self._path.unlink(missing_ok=True)
            return Ended(before=before, plan=plan, kept_as=kept_as, warnings=self._note(plan.forced, now))

    # ------------------------------------------------------------ for leases (HOLD-11)

    def short_lived(self) -> str | None:
        return lingering_warning(self.reader.path, os.geteuid(), self.root)

    def write_for_lease(self, wanted: LeaseHold) -> None:
        with self._told(), self._locked():
            self._put_for(wanted)

    def write_again_for_lease(self, wanted: LeaseHold, away: Callable[[Taken], bool]) -> bool:
        with self._told(), self._locked():
            taken = self._taken(wanted.lease)
            if taken is not None and away(taken):
                return False
            self._put_for(wanted)
            return True

    def _put_for(self, wanted: LeaseHold) -> None:
        while True:
            before, now = self.reader.read_fresh(), self.reader.now()
            plan = plan_lease_hold(before, wanted, now=now, boot_id=self.reader.boot)
            try:
                self._put(encode(plan.record), plan, now)
            except FileExistsError:
                continue
            return

    def _taken(self, lease: str) -> Taken | None:
        """The last time that a person took that lease's hold away by force; None: nobody did."""
        try:
            handle = os.open(self._path.with_name(CHANGES_NAME), READING)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return None
            end = os.pread(handle, CHANGES_READ, max(0, found.st_size - CHANGES_READ))
        finally:
            os.close(handle)
        told = (_taken_by(line, lease) for line in reversed(end.splitlines()))
        return next((it for it in told if it is not None), None)

    def extend_for_lease(self, lease: str, expires_at: datetime) -> bool:
        with self._told(), self._locked():
            plan = plan_lease_extension(self.reader.read_fresh(), lease, expires_at)
            if plan is not None:
                self._put(encode(plan.record), plan, self.reader.now())
            return plan is not None

    def remove_for_lease(self, lease: str) -> bool:
        if plan_lease_removal(self.reader.read_fresh(), lease) is Removal.NOTHING:
            return False
        with self._told(), self._locked():
            if plan_lease_removal(self.reader.read_fresh(), lease) is Removal.NOTHING:
                return False
            self._path.unlink(missing_ok=True)
            _sync(self._path.parent)
            return True

    def release_own(self, identity: str) -> bool:
        """Remove the record of that identity, lapsed or not; another's is left. Whether it went (HOLD-10)."""
        if self.reader.read_fresh().identity != identity:
            return False
        with self._told(), self._locked():
            if self.reader.read_fresh().identity != identity:
                return False
            self._path.unlink(missing_ok=True)
            return True

    @property
    def _path(self) -> Path:
        return Path(self.reader.path)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Translate trouble of the file system into refusals, once."""
        try:
            yield
        except OSError as error:
            raise refusal_of(error, self.reader.path) from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """The writers' lock, which goes with the process that has it."""
        lock = self._path.with_name(f"{self._path.name}.lock")
        handle = _open_lock(lock)
        try:
            self._take(handle, lock)
            yield
        finally:
            os.close(handle)

    def _take(self, handle: int, lock: Path) -> None:
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    why = f"another process has kept {lock} for {LOCK_WAIT_S:.0f} s"
                    raise HoldPathUnusable(path=self.reader.path, why=why) from None
            time.sleep(_LOCK_LOOK_S)

    def _put(self, data: bytes, plan: Write, now: datetime) -> str | None:
        """Replace or create the file; where the bytes of an unreadable one are kept.

        Under the lock one name for the temporary file is enough, and one that is there is a dead writer's.
        """
        new = self._path.with_name(f".{self._path.name}.{os.geteuid()}.new")
        new.unlink(missing_ok=True)
        try:
            _write_synced(new, data, self.mode)
            kept_as = self._set_aside(now, keep=True) if plan.set_aside else None
            if plan.replaces:
                new.rename(self._path)
            else:
                _create(new, self._path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        _sync(self._path.parent)
        return kept_as

    def _set_aside(self, now: datetime, *, keep: bool = False) -> str | None:
        """Keep what cannot be read beside its place, under a name that is free; None when it is gone.

        `keep` leaves it in its place too where it can, so that no reader finds the box free in between.
        """
        stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        for count in range(1000):
            suffix = f".unreadable-{stamp}" + (f"-{count}" if count else "")
            aside = self._path.with_name(self._path.name + suffix)
            if os.path.lexists(aside):
                continue
            try:
                if not (keep and _linked(self._path, aside)):
                    self._path.rename(aside)
            except FileNotFoundError:
                return None
            return str(aside)
        raise HoldPathUnusable(path=self.reader.path, why="a thousand unreadable records lie beside it")

    def _note(self, change: ForcedChange | None, now: datetime) -> tuple[str, ...]:
        """Append a forced change for the daemon to tell; a warning when that is not possible."""
        if change is None:
            return ()
        path = self._path.with_name(CHANGES_NAME)
        line = _line(change, now)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            handle = os.open(path, flags, self.mode)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)
        except OSError as error:
            told = f"{change.owner} is not told of this: {path} was not written: {error.strerror}"
            return (told, *_comes_back(change))
        return ()


def _comes_back(change: ForcedChange) -> Iterator[str]:
    """What follows where that a lease's hold was released is written nowhere: it counts as lost (HOLD-11)."""
    lease = change.record.get("lease")
    if change.change == RELEASED and isinstance(lease, str):
        yield (
            f"so nothing says that a person released it, and the daemon writes the hold of {shorten(lease)}"
            f" again within 30 s. Make {CHANGES_NAME} writable, then release it once more"
        )


def _line(change: ForcedChange, now: datetime) -> bytes:
    row: Mapping[str, object] = {
        "at": rfc3339(now),
        "change": change.change,
        "owner": change.owner,
        "by": change.by,
        "record": dict(change.record),
    }
    return json.dumps(row).encode("ascii") + b"\n"


def _taken_by(line: bytes, lease: str) -> Taken | None:
    """What that line of box.ndjson tells of this lease's record; None: nothing."""
    try:
        found: object = json.loads(line)
    except (ValueError, RecursionError):
        return None
    record = found.get("record") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(record, dict) or record.get("lease") != lease:
        return None
    return Taken(
        change=str(found.get("change")),
        at=parse_instant(found.get("at")),
        until=parse_instant(record.get("expires_at")),
    )


def refusal_of(error: OSError, path: str) -> Refusal:
    """What to tell of trouble with the hold file."""
    why = error.strerror or str(error)
    if error.errno in _FULL:
        return StoreFull(file=path, why=why)
    if error.errno in _FORBIDDEN:
        return NotYours(
            what=f"The hold file {path} cannot be changed: {why}.",
            expected="Its directory must let this user write; `hostler box path` shows where it is.",
        )
    return HoldPathUnusable(path=path, why=why)


def _open_lock(lock: Path) -> int:
    """The lock file, made readable by all: who may enter the directory may wait for its writers."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(lock, flags)
        try:
            handle = os.open(lock, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
        os.fchmod(handle, 0o644)
        return handle


def _write_synced(path: Path, data: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _create(new: Path, path: Path) -> None:
    """Give `new` the name `path`; FileExistsError, where the file system can tell, when that is taken."""
    try:
        path.hardlink_to(new)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        new.rename(path)
    else:
        new.unlink()


def _linked(path: Path, aside: Path) -> bool:
    """Whether `path` has the name `aside` as well now; directories and some file systems cannot."""
    try:
        os.link(path, aside, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def _sync(directory: Path) -> None:
    """Make the new name durable, where directories can be synced at all."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
