"""Small files of state, each written whole: what must be known without a database (CONF-5).

Decides how a file is replaced and which names are allowed. Does not decide what is in it. A reader
sees the old content or the new one, at every instant and after every crash; what could not be read is
never overwritten by the reader.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.domain.values import NAME

MAX_BYTES: Final = 16 << 20
"""A larger file is somebody else's, and is not read into memory: of ours `sync.json` may come to 9 MiB."""
DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryStateFiles:
    """The need `StateFiles`, below one directory. The directory is made when it is first needed."""

    root: Path

    def load(self, name: str) -> Mapping[str, object] | None:
        return read_object(self._place(name, ".json"))

    def save(self, name: str, value: Mapping[str, object]) -> None:
        path = self._place(name, ".json")
        make_private(path.parent, self.root)
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1)
        data = f"{text}\n".encode("utf-8", "backslashreplace")
        if len(data) > MAX_BYTES:
            # The reader would not take it: what is there stays, rather than to be lost with the next start.
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        keep_unreadable(path)
        write_whole(path, data)

    def set_aside(self, name: str) -> None:
        _set_aside(self._place(name, ".json"))

    def directory(self, name: str) -> str:
        path = self._place(name, "")
        make_private(path, self.root)
        return str(path)

    def stands(self, name: str) -> bool:
        """The need `Markers`: also what cannot be looked at counts as there (WIN-6)."""
        try:
            self._place(name, "").lstat()
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def _place(self, name: str, ending: str) -> Path:
        """ValueError for a name that is not one of ours: nothing from outside leads elsewhere (SEC-2)."""
        parts = name.split("/")
        if not all(NAME.fullmatch(part) for part in parts):
            raise ValueError(f"{name!r} is no name of a state file")
        return self.root.joinpath(*parts[:-1], parts[-1] + ending)


def read_object(path: Path) -> Mapping[str, object] | None:
    """The JSON object in `path`, None when there is no file.

    A byte order mark of an editor is accepted (BG-18). Raises ValueError, naming the file, for anything
    that is not one whole JSON object, or that cannot be read at all.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ValueError(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is broken: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is broken: it holds no object")  # noqa: TRY004 - one error for all defects
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def keep_unreadable(path: Path) -> None:
    """Put a file that cannot be read aside as `NAME.unreadable-…`: nothing is written over it.

    Raises OSError when that cannot be done.
    """
    try:
        read_object(path)
    except ValueError:
        _set_aside(path)


def _set_aside(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.rename(path.with_name(f"{path.name}.unreadable-{path.lstat().st_mtime_ns:x}"))


def make_private(directory: Path, root: Path) -> None:
    """Make `directory` and what is missing above it, from `root` down with mode 0700."""
    if directory.is_dir():
        return
    if directory != root:
        make_private(directory.parent, root)
    directory.mkdir(mode=DIRECTORY_MODE, parents=directory == root, exist_ok=True)


def write_whole(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Put `data` at `path` as one step, durably: a temporary file beside it, fsync, rename, fsync.

    `replace` False leaves an existing file as it is and raises FileExistsError. Raises OSError; the old
    content stays then and no temporary file is left. Only where the disk fails to take the name at the very
    end the new content is there, and may be gone after a crash.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    # Opened first: what fails for want of a handle has changed nothing yet.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _write_synced(temporary, data)
        if replace:
            temporary.rename(path)
        else:
            os.link(temporary, path)
            temporary.unlink()
        os.fsync(directory)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(directory)


def _write_synced(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make the names in `directory` durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
