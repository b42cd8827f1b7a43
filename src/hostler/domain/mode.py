"""Modes: named states of the fleet, which engines run on which host and where each route leads (MODE-1).

Decides how far the fleet is from a mode. Values that the config is turned into; how a mode is entered is
`hostler.domain.window_plan`'s. Sizes are bytes, durations seconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType

from hostler.domain.values import EngineId, HostName, RouteName, ServingClass


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """Hours of the day in which no window is open, in minutes since midnight; `end` may be past it."""

    start: int
    end: int

    def __str__(self) -> str:
        return "-".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in (self.start, self.end))


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyCommand:
    """A command that must end with exit 0 on `host` before a window counts as closed (WIN-4)."""

    host: HostName
    argv: tuple[str, ...]
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCommand:
    """One command of a window script."""

    argv: tuple[str, ...]
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A window script that evicts and restores by itself (MODE-4)."""

    open: ToolCommand
    close: ToolCommand
    status: ToolCommand

    @property
    def digest(self) -> str:
        """The SHA-256 of what it does: equal where two configs say the same (CONF-6)."""
        parts = [[it.argv, it.timeout_s] for it in (self.open, self.close, self.status)]
        return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A named state of the fleet (MODE-1). The fields from `resource` on are of one that a window enters.

    `hosts`: exactly which engines run on each; `routes`: the profile of each. `available`: memory that must
    be seen by host after the evictions (WIN-3). `drain_before_s`: how long before the cap no new requests are
    taken (WIN-2).
    """

    name: str
    standing: bool = False
    hosts: Mapping[HostName, tuple[EngineId, ...]]
    routes: Mapping[RouteName, str] = field(default_factory=lambda: MappingProxyType({}))
    resource: str | None = None
    serving_class: ServingClass = ServingClass.RESIDENT
    cap_s: float = 3600.0
    cap_max_s: float = 8 * 3600.0
    drain_before_s: float = 600.0
    available: Mapping[HostName, int] = field(default_factory=lambda: MappingProxyType({}))
    max_residue: int = 2 << 30
    verify: tuple[VerifyCommand, ...] = ()
    not_between: tuple[QuietHours, ...] = ()
    tool: Tool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The fleet as it is seen: the engines that are up on each host, and each route's profile."""

    up: Mapping[HostName, AbstractSet[EngineId]]
    routes: Mapping[RouteName, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What keeps the fleet from being in `mode`: engines that are down, or up beside it, and routes.

    In the standing mode what is on demand comes and goes: `extra` is what cannot have come by itself.
    """

    mode: str
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How much differs: 0 is the mode itself."""
        return len(self.missing) + len(self.extra) + len(self.routes)


def difference(mode: Mode, present: Present, strange: AbstractSet[EngineId] = frozenset()) -> Difference:
    """How the fleet differs from `mode`, on the mode's hosts; each part as a phrase of the form `E on H`.

    `strange` are engines that do not come up on demand: of a class that has to be named, or left by a window.
    """
    missing: list[str] = []
    extra: list[str] = []
    for host, engines in mode.hosts.items():
        up = present.up.get(host, frozenset())
        missing += [f"{engine} on {host}" for engine in engines if engine not in up]
        beside = sorted(it for it in up if it not in engines and (it in strange or not mode.standing))
        extra += [f"{engine} on {host}" for engine in beside]
    routes = [
        f"{route} on {present.routes.get(route) or 'no profile'}, not {profile}"
        for route, profile in mode.routes.items()
        if present.routes.get(route) != profile
    ]
    return Difference(mode=mode.name, missing=tuple(missing), extra=tuple(extra), routes=tuple(routes))


def nearest(
    modes: Mapping[str, Mode], present: Present, strange: AbstractSet[EngineId] = frozenset()
) -> Difference | None:
    """The mode that differs least, the standing one first among equals; None where there are no modes."""
    found = [(difference(mode, present, strange), not mode.standing) for mode in modes.values()]
    return min(found, key=lambda it: (it[0].size, it[1]), default=(None, False))[0]


def standing(modes: Mapping[str, Mode]) -> Mode | None:
    """The mode that the fleet is in while no window is open; None where there are no modes."""
    return next((mode for mode in modes.values() if mode.standing), None)
