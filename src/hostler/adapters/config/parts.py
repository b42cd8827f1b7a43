"""Which part of a config is left out when something in it is wrong (CONF-2).

Decides how much: enough that no error brings others, and no more, so that the rest is still checked. A key
that no relation needs goes alone; one that says what its entry is takes the whole entry with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from pydantic import BaseModel

from hostler.adapters.config.schema.engines import EngineKeys
from hostler.adapters.config.schema.hosts import HostKeys
from hostler.adapters.config.schema.reservations import ResourceKeys
from hostler.adapters.config.schema.routes import RouteKeys
from hostler.adapters.config.tree import Path
from hostler.domain.fleet import frozen

_RESOURCES: Final[Path] = ("reservations", "resources")
_ENTRIES: Final[Mapping[Path, type[BaseModel]]] = frozen(
    {("engines",): EngineKeys, ("hosts",): HostKeys, ("routes",): RouteKeys, _RESOURCES: ResourceKeys}
)
_ALONE: Final[Mapping[Path, frozenset[str]]] = frozen(
    {
        ("engines",): frozenset(
            [
                "memory",
                "order",
                "ttl",
                "start_timeout",
                "stop_timeout",
                "note",
                "on_disconnect",
                "websockets",
                "hidden",
                "ui",
                "cwd",
                "env",
                "task",
                "health",
            ]
        ),
        ("hosts",): frozenset({"memory", "ports"}),
        ("routes",): frozenset({"description", "max_body", "silence", "patches"}),
        _RESOURCES: frozenset({"title", "ttl", "indefinite", "drain", "queue"}),
    }
)
"""Keys of an entry whose absence brings no error but at themselves, where theirs is told."""
_GUARDED: Final[Path] = ("hosts",)
"""Where a wrong name may stand for a key whose default brings errors elsewhere: the whole entry goes."""


def part_of(path: Path, *, unknown: bool = False) -> Path:
    """What is left out for an error at `path`; `unknown`: its last key is none that there is."""
    section = next((it for it in _ENTRIES if path[: len(it)] == it), None)
    if section is None:
        return entry_of(path)
    at = len(section) + 1
    if section == _RESOURCES and path[at : at + 1] == ("actions",) and len(path) > at + 1:
        return path[: at + 2]
    if len(path) <= at:
        return entry_of(path)
    alone, key = _ALONE[section], str(path[at])
    if key in alone:
        return path[: at + 1]
    if not unknown or len(path) != at + 1 or section == _GUARDED:
        return entry_of(path)
    needed = [it for it in _names(_ENTRIES[section]) if it not in alone]
    return entry_of(path) if get_close_matches(key, needed, n=1, cutoff=0.6) else path


def entry_of(path: Path) -> Path:
    """The whole entry that `path` is in: of a named section, an item of a list, else one key of a section."""
    if path[:2] == _RESOURCES or path[:2] in (("ports", "rows"), ("ports", "tables")):
        return path[:3]
    return path[:2]


def _names(keys: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in keys.model_fields.items()]
