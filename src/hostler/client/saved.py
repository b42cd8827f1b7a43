"""What this user has asked for: the secret and the request of each lease and job, as small private files.

Decides where they lie (`<state>/client/leases/<request_id>.json` and `…/jobs/…`, 0600), that one is whole
and on the disk before its request is sent (LEASE-9), and that nothing from outside becomes a file's name:
a request id is one only when it has our pattern. Whoever can read such a file holds what it names.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from hostler.client.room import unusable
from hostler.domain.fleet import frozen
from hostler.wire.values import dump

REQUEST_ID: Final = re.compile(r"[0-9a-f]{32}")
"""What a request id of ours looks like. Ids that a daemon told are compared, and never a file's name."""
MAX_BYTES: Final = 64 << 10
DIRECTORY_MODE: Final = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLease:
    """One request for a resource, and what came of it. `body` is what was sent, to be sent again as it was.

    `attempt` and `trusted_until` are elapsed seconds of the run `boot` of this machine: when the last
    attempt that succeeded began, and until when the lease can be trusted without asking (LEASE-22; infinite
    is None with an `attempt`).
    """

    request_id: str
    secret: str = field(repr=False)
    url: str
    resource: str
    body: Mapping[str, object] = field(default_factory=lambda: frozen({}))
    lease: str | None = None
    epoch: str | None = None
    generation: int | None = None
    ttl_s: float | None = None
    attempt: float | None = None
    boot: str = ""
    trusted_until: float | None = None

    @property
    def id(self) -> str | None:
        """The lease's id, None until the head has told it."""
        return self.lease


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedJob:
    """One request for a job, and what came of it. Its updates wait in the spool of the same request id."""

    request_id: str
    secret: str = field(repr=False)
    url: str
    title: str
    body: Mapping[str, object] = field(default_factory=lambda: frozen({}))
    job: str | None = None
    lease: str | None = None
    every_s: float = 300.0

    @property
    def id(self) -> str | None:
        """The job's id, None until the head has told it."""
        return self.job


Kept = TypeVar("Kept", SavedLease, SavedJob)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawer(Generic[Kept]):
    """The files of one kind. Every method raises `state_unusable` when the directory cannot be used, or
    `store_full` where there is no room.
    """

    root: Path
    model: type[Kept]

    def path(self, request_id: str) -> Path:
        """Where that one lies. ValueError for what is no request id of ours."""
        if not REQUEST_ID.fullmatch(request_id):
            raise ValueError(f"{request_id!r} is no request id")
        return self.root / f"{request_id}.json"

    def save(self, it: Kept) -> None:
        """Put it on the disk, whole or not at all, before this returns."""
        path = self.path(it.request_id)
        try:
            make_private(self.root)
            write_private(path, dump(it))
        except OSError as error:
            raise unusable(path, error) from error

    def get(self, request_id: str) -> Kept | None:
        """That one; None when there is none, or when it cannot be read as one."""
        return self._read(self.path(request_id))

    def list(self) -> Sequence[Kept]:
        """All of them, in the order of their files' times. A file that is none of ours is passed over."""
        try:
            for place in (self.root.parent, self.root):
                if place.exists():
                    check_private(place)
            found = [(path.lstat().st_mtime_ns, path) for path in self.root.glob("*.json")]
        except OSError as error:
            raise unusable(self.root, error) from error
        read = [self._read(path) for _, path in sorted(found) if REQUEST_ID.fullmatch(path.stem)]
        return [it for it in read if it is not None]

    def find(self, id_: str) -> Kept | None:
        """The one of that lease or job."""
        return next((it for it in self.list() if it.id == id_), None)

    def forget(self, request_id: str) -> None:
        """Delete it; nothing happens when there is none."""
        self.path(request_id).unlink(missing_ok=True)

    def _read(self, path: Path) -> Kept | None:
        data = read_private(path)
        if data is None:
            return None
        try:
            found = msgspec.json.decode(data, type=self.model)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return found if found.request_id == path.stem else None


def saved_leases(state: Path) -> Drawer[SavedLease]:
    """The leases that this user asked for."""
    return Drawer(root=state / "client" / "leases", model=SavedLease)


def saved_jobs(state: Path) -> Drawer[SavedJob]:
    """The jobs that this user started."""
    return Drawer(root=state / "client" / "jobs", model=SavedJob)


def by_resource(drawer: Drawer[SavedLease], resource: str) -> Sequence[SavedLease]:
    """This user's requests for that resource, the oldest first."""
    return [it for it in drawer.list() if it.resource == resource]


# ---------------------------------------------------------------- files


def make_private(directory: Path) -> None:
    """Make `<state>/client/KIND` where it is missing, 0700, and check it. Raises OSError."""
    for place in (directory.parent, directory):
        place.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        check_private(place)


def check_private(place: Path) -> None:
    """Raises OSError unless this is a directory of ours, no link, where nobody else may write.

    Whoever may put a link there would choose where our secrets are written, and could take them away.
    """
    found = place.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "It is no directory of its own", str(place))
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "Others may write there", str(place))


def write_private(path: Path, data: bytes, *, synced: bool = True) -> None:
    """Put `data` at `path` in one step, 0600 from the first byte on. Raises OSError.

    `synced`: it is on the disk when this returns; without, it outlives the process but not the machine.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}.", dir=path.parent)  # Made with mode 0600.
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    if synced:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_private(path: Path) -> bytes | None:
    """The content of a regular file that is ours and that nobody else may read or write; else None.

    A file that others can read proves nothing any more (a token file readable by others is refused).
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            return None
        data = file.read(MAX_BYTES + 1)
    return data if len(data) <= MAX_BYTES else None
