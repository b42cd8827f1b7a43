"""Reading the hold file (HOLD-4, HOLD-6): the need `HoldReader`.

Decides whether the file can be trusted: its kind, owner, mode and size. What its bytes say and mean is
decided in `domain.hold_record` and `domain.hold`. What cannot be read is never taken for a free box.
"""

from __future__ import annotations

import os
import pwd
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hostler.adapters.hold_sight import FirstSight
from hostler.domain.hold import Found, HoldState, HoldView, view
from hostler.domain.hold_record import MAX_BYTES, Defect, HoldRecord, parse_record

CACHED_S: Final = 2.0
"""How long a readable record is believed while its file looks the same (HOLD-6)."""

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Follow no link, and wait for nobody who should write into a pipe."""
_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH

_Looks = tuple[int, int, int, int, int, int]


def utc_now() -> datetime:
    """The wall clock, aware, in UTC."""
    return datetime.now(UTC)


def boot_id(root: str = "/") -> str | None:
    """The kernel's id of this boot (HOLD-2); None where there is none."""
    try:
        return Path(root, "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def user_ids(names: tuple[str, ...]) -> frozenset[int]:
    """The ids of users by name; digits are an id. A user that is not here owns no file here either."""
    found = set()
    for name in names:
        try:
            found.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return frozenset(found)


@dataclass(eq=False, slots=True, kw_only=True)
class HoldFile:
    """The hold file at `path`. Records of this user, root and `writers` (user ids) count (HOLD-4).

    `boot` is this boot's id, `elapsed` any steady clock in seconds.
    """

    path: str
    sight: FirstSight = field(default_factory=FirstSight)
    essentials: frozenset[str] = frozenset()
    writers: frozenset[int] = frozenset()
    boot: str | None = field(default_factory=boot_id)
    now: Callable[[], datetime] = utc_now
    elapsed: Callable[[], float] = time.monotonic
    _cached: Found | None = None
    _looks: _Looks | None = None
    _last: HoldView | None = None
    _read_at: float = 0.0

    def read(self) -> HoldView:
        """What holds now: one stat when cached, and the expiry judged anew (HOLD-6)."""
        try:
            looks = _looks(os.lstat(self.path))
            if looks == self._looks and self.elapsed() - self._read_at <= CACHED_S:
                return self._again()
            return self._judge(self._load())
        except (FileNotFoundError, NotADirectoryError):
            self._looks = None
            return self._judge(None)
        except OSError as error:
            # Any other trouble, a network file system's too, leaves open what the file says: held.
            self._looks = None
            return self._judge(Found(content=Defect(f"cannot be read: {error.strerror}")))

    def _again(self) -> HoldView:
        """The last answer while nothing but the time has changed and its end is still to come."""
        last = self._last
        if last is not None and last.until is not None and not last.overlong and self.now() < last.until:
            return last
        return self._judge(self._cached)

    def read_fresh(self) -> HoldView:
        """As `read`, never from the cache: for decisions made under the writers' lock."""
        self._looks = None
        return self.read()

    def _load(self) -> Found:
        """Read the file. Only a readable record is kept: a torn write is looked at again at once."""
        self._looks, self._last, self._read_at = None, None, self.elapsed()
        found, looks = read_file(self.path, self.writers | {0, os.geteuid()})
        if isinstance(found.content, HoldRecord):
            self._cached, self._looks = found, looks
        return found

    def _judge(self, found: Found | None) -> HoldView:
        now = self.now()
        unreadable = found is not None and isinstance(found.content, Defect)
        judged = view(
            found,
            path=self.path,
            now=now,
            first_seen=self.sight.of(self.path, found.identity(), now) if found and unreadable else None,
            boot_id=self.boot,
            essentials=self.essentials,
        )
        self._last = judged if judged.state is HoldState.HELD else None
        return judged


def read_file(path: str, owners: frozenset[int] | set[int]) -> tuple[Found, _Looks]:
    """What lies at `path`, and what it looks like to a stat. Raises OSError where none can be read."""
    seen = os.lstat(path)
    if stat.S_ISLNK(seen.st_mode):
        return _defective(seen, "is a symbolic link")
    if not stat.S_ISREG(seen.st_mode):
        return _defective(seen, "is not a regular file")
    try:
        handle = os.open(path, _FLAGS)
    except PermissionError as error:
        return _defective(seen, f"cannot be read: {error.strerror}")
    try:
        # The stat of what was opened decides: the name may lead elsewhere by now.
        opened = os.fstat(handle)
        distrust = _distrust(opened, path, owners)
        if distrust is not None:
            return _defective(opened, distrust)
        data = _read(handle)
    finally:
        os.close(handle)
    found = Found(content=parse_record(data), inode=opened.st_ino, mtime_ns=opened.st_mtime_ns)
    return found, _looks(opened)


def _read(handle: int) -> bytes:
    """Up to one byte more than a record may have."""
    parts: list[bytes] = []
    left = MAX_BYTES + 1
    while left > 0 and (part := os.read(handle, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _distrust(opened: os.stat_result, path: str, owners: frozenset[int] | set[int]) -> str | None:
    """Why what this file says is not believed (HOLD-4), or None."""
    if not stat.S_ISREG(opened.st_mode):
        return "is not a regular file"
    if opened.st_uid not in owners:
        return f"is owned by user {opened.st_uid}, who is not among node.hold_writers"
    if opened.st_mode & stat.S_IWOTH:
        return "is writable by everybody"
    if opened.st_mode & stat.S_IWGRP and Path(path).parent.stat().st_mode & _ENTER:
        return "is writable by its group, in a directory that others may enter"
    return None


def _defective(seen: os.stat_result, what: str) -> tuple[Found, _Looks]:
    return Found(content=Defect(what), inode=seen.st_ino, mtime_ns=seen.st_mtime_ns), _looks(seen)


def _looks(seen: os.stat_result) -> _Looks:
    """What a stat tells two files apart by: owner and mode too, for these decide as well."""
    return (seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_size, seen.st_mode, seen.st_uid)
