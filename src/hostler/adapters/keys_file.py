"""Where keys lie on this machine: `local.key` of the daemon's own user, and `keys.json` (API-4).

Decides how they are made and read. Does not decide what they may do (`services.keys`). `keys.json` has
digests only; `local.key` has the one key that is kept in clear, for the CLI of the same user.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from hostler.adapters.ids import new_key
from hostler.adapters.state_files import make_private, write_whole
from hostler.domain.fleet import Key, Secret
from hostler.domain.values import NAME, whole
from hostler.services.keys import GIVEN
from hostler.services.needs import StateFiles

LOCAL_KEY: Final = "local.key"
KEYS: Final = "keys"
MAX_BYTES: Final = 4096
MOST_LIMIT: Final = 10**9
_GOOD: Final = re.compile(r"[\x21-\x7e]{40,512}")


def local_key(state: Path) -> Secret:
    """The key in `<state>/local.key`, made at the first start: 256 random bits, 0600.

    Raises ValueError when the file is there and is not one that only we can read, or holds no key; it
    is kept as found. Raises OSError when it cannot be made.
    """
    path = state / LOCAL_KEY
    if not path.exists():
        make_private(state, state)
        with suppress(FileExistsError):  # Another first start was faster: its key is the one.
            write_whole(path, f"{new_key()}\n".encode(), replace=False)
    return _read(path)


def _read(path: Path) -> Secret:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.getuid(), 0) or found.st_mode & 0o077:
            raise ValueError("it must be a file that only its owner can read: chmod 600 it, or remove it")
        text = file.read(MAX_BYTES).decode("ascii", "replace").strip()
    if not _GOOD.fullmatch(text):
        raise ValueError("it holds no key: remove it, and the next start makes another")
    return Secret(text)


def kept_keys(files: StateFiles) -> Sequence[Key] | None:
    """The keys in `keys.json`, none when there is no file, None when it cannot be read: not "no keys"."""
    try:
        found = files.load(KEYS)
        rows = [] if found is None else found.get("keys")
        if not isinstance(rows, list):
            return None
        return tuple(_key(row) for row in rows)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _key(row: Mapping[str, object]) -> Key:
    """One row. Raises for anything that is not as it was written: a key half read may do too much."""
    name, scopes, routes = str(row["name"]), row["scope"], row.get("routes")
    expires, limits = row.get("expires"), row.get("limits") or {}
    if not NAME.fullmatch(name) or not isinstance(scopes, list) or not isinstance(limits, Mapping):
        raise ValueError(f"the key {name!r} is broken")
    if not scopes or not set(scopes) <= GIVEN or not isinstance(routes, list | None):
        raise ValueError(f"the key {name!r} has scopes or routes that there are not")
    if expires is not None and datetime.fromisoformat(str(expires)).tzinfo is None:
        raise ValueError(f"the key {name!r} expires at a time without a zone")
    digest = bytes.fromhex(str(row["sha256"]))
    if len(digest) != 32:
        raise ValueError(f"the key {name!r} has no SHA-256")
    class_ = row.get("class")
    return Key(
        name=name,
        digest=digest,
        scopes=frozenset(scopes),
        routes=None if routes is None else frozenset(routes),
        request_class=None if class_ is None else str(class_),
        per_minute=_count(limits.get("per_minute")),
        concurrent=_count(limits.get("concurrent")),
        expires=None if expires is None else str(expires),
    )


def _count(value: object) -> int | None:
    if value is None:
        return None
    found = whole(value, 1, MOST_LIMIT)
    if found is None:
        raise ValueError(f"{value!r} is no limit")
    return found
