"""What holds need to know of this host's config, found in a blink (PERF-11).

Decides whether there is a config at all: only then is a reader of YAML loaded (`hold_config`), which costs
as much as all the rest of `hostler box status`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILE_NAME: Final = "hostler.yaml"
SYSTEM: Final = Path("/etc/hostler")


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldSettings:
    """The config's part of holds, for this host. `engines` None: there is no config."""

    state_dir: str
    hold_path: str | None = None
    hold_mode: int = 0o600
    hold_writers: tuple[str, ...] = ()
    essentials: frozenset[str] = frozenset()
    engines: frozenset[str] | None = None
    config: str | None = None


def hold_settings(env: Mapping[str, str], system: Path = SYSTEM) -> HoldSettings:
    """What the config says of holds on this host. Raises InvalidConfig, naming file, place and key."""
    if not env.get("HOSTLER_CONFIG") and not any(map(os.path.lexists, _places(env, system))):
        return HoldSettings(state_dir=state_dir(env))
    from hostler.adapters.hold_config import read_settings  # noqa: PLC0415 - see the module's docstring

    return read_settings(env, system)


def state_dir(env: Mapping[str, str], configured: str | None = None) -> str:
    """The state directory (CONF-5): the config's, $HOSTLER_STATE_DIR, or the XDG one."""
    named = configured or env.get("HOSTLER_STATE_DIR")
    base = _home(env, "XDG_STATE_HOME", ".local/state") or Path("~/.local/state").expanduser()
    return named or str(base / "hostler")


def _places(env: Mapping[str, str], system: Path) -> Iterator[Path]:
    """Where a config may be that nobody named (CONF-1)."""
    own = _home(env, "XDG_CONFIG_HOME", ".config")
    if own is not None:
        yield own / "hostler" / FILE_NAME
    yield system / FILE_NAME


def _home(env: Mapping[str, str], name: str, below: str) -> Path | None:
    """An XDG directory: `$name` where it is absolute, else `below` in the home; None without a home."""
    given, base = env.get(name, ""), env.get("HOME", "")
    if given.startswith("/"):
        return Path(given)
    return Path(base) / below if base.startswith("/") else None
