"""Finds the config file, and decides whether it may be trusted (CONF-1).

Searched in order: the path that was given, $HOSTLER_CONFIG, the XDG config directory, /etc/hostler; for
`serve` and `config` the working directory last. A path that was named is used or fails; it is never
passed over.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from hostler.adapters.config.yaml import MAX_BYTES
from hostler.domain.errors import NoConfig

NAME: Final = "hostler.yaml"
SYSTEM: Final = Path("/etc/hostler")


INIT: Final = "`hostler init` writes one from what is on this box"


class Untrusted(Exception):
    """A config file that cannot be used: `str()` says why, `hint` what helps."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


def home(env: Mapping[str, str], name: str, below: str) -> Path | None:
    """An XDG directory: `$name` where it is absolute, else `below` in the home; None without a home."""
    given = env.get(name, "")
    if given.startswith("/"):
        return Path(given)
    base = env.get("HOME", "")
    return Path(base) / below if base.startswith("/") else None


def find_config(
    env: Mapping[str, str], given: str | None, *, here: Path | None = None, system: Path = SYSTEM
) -> Path:
    """The config file. `here` is the working directory for commands that read it there, else None.

    Raises NoConfig, naming where it looked.
    """
    named = given or env.get("HOSTLER_CONFIG")
    if named:
        return Path(named)
    looked = list(_places(env, here, system))
    for path in looked:
        if os.path.lexists(path):
            return path
    raise NoConfig(looked=tuple(str(path) for path in looked))


def _places(env: Mapping[str, str], here: Path | None, system: Path) -> Iterator[Path]:
    xdg = home(env, "XDG_CONFIG_HOME", ".config")
    if xdg is not None:
        yield xdg / "hostler" / NAME
    yield system / NAME
    if here is not None:
        yield here / NAME


def read_config(path: Path, *, missing: str = INIT) -> bytes:
    """The bytes of a config file, or of a like one; `missing` is the hint where there is none.

    Raises Untrusted unless it is a regular file of ours or root's that nobody else may write.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Untrusted("there is no such file", missing) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no path"
        raise Untrusted(f"it cannot be read: {why}") from error
    try:
        _check_trusted(path, os.fstat(descriptor))
        return os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def _check_trusted(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Untrusted("it is no regular file")
    if status.st_uid not in (os.geteuid(), 0):
        raise Untrusted(f"it belongs to user {status.st_uid}, neither to us nor to root")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        raise Untrusted(f"others may write it (mode {mode:04o})", f"chmod go-w {path}")
