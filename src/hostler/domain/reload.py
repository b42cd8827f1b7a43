"""From one config to the next: what differs, and what a running daemon can take up of it (CONF-3).

Decides what each difference means for what runs. Changes nothing: a reload stops no engine, cuts no stream
and moves no lease. What cannot be taken up without a restart keeps its old value, and is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final, TypeVar

from hostler.domain.fleet import Fleet, Host, frozen
from hostler.domain.values import HostName

K = TypeVar("K", bound=str)

LAUNCH: Final = frozenset(
    {
        "driver",
        "argv",
        "args",
        "files",
        "env",
        "cwd",
        "model",
        "address",
        "port",
        "health",
        "context",
        "url",
        "container",
        "compose",
        "unit",
        "scope",
        "members",
    }
)
"""Keys of an engine that its next start takes up; the others are taken up at once."""
KEPT_HOST: Final = ("url", "orchestration", "reader")
"""Keys of a host that are read when its daemon starts, and not again."""
KEPT_FLEET: Final = ("timezone", "head", "store")
"""As `KEPT_HOST`, of the fleet."""


class How(StrEnum):
    """What becomes of one difference."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    LATER = "later"
    """An engine that its next start takes up."""
    KEPT = "kept"
    """Only a restart of the daemon takes it up; the old value stays in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference: `what` names it as `engine fast` or `node.listen`, `keys` says which keys differ."""

    how: How
    what: str
    keys: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        """`changed engine fast: ttl, memory`."""
        keys = f": {', '.join(self.keys)}" if self.keys else ""
        note = f" ({self.note})" if self.note else ""
        return f"{self.how} {self.what}{keys}{note}"


def taken_up(old: Fleet, new: Fleet) -> Fleet:
    """The fleet that is in force after the reload: `new`, with the old value of what needs a restart."""
    host = replace(new.host, **{name: getattr(old.host, name) for name in KEPT_HOST})
    return replace(
        new,
        node=old.node,
        timezone=old.timezone,
        head=old.head,
        store=old.store,
        hosts=frozen({**new.hosts, new.here: host}),
    )


def changes(old: Fleet, new: Fleet) -> tuple[Change, ...]:
    """Every difference between what is in force and what was read, in the order of the config's parts."""
    return (
        *_kept(old, new),
        *_hosts(old, new),
        *_engines(old, new),
        *_named("upstream", old.upstreams, new.upstreams),
        *_named("route", old.routes, new.routes),
        *_named("class", old.classes, new.classes),
        *_named("resource", old.resources, new.resources),
        *_named("mode", old.modes, new.modes),
        *_named("peer", old.peers, new.peers),
        *_named("catalog entry", old.catalog.entries, new.catalog.entries),
        *_named("key", {key.name: key for key in old.keys}, {key.name: key for key in new.keys}),
        *_rest(old, new),
    )


def _kept(old: Fleet, new: Fleet) -> Iterator[Change]:
    """What only a restart takes up."""
    keys = [f"node.{name}" for name in _differing(old.node, new.node)]
    keys += [f"hosts.{old.here}.{name}" for name in _differing(old.host, new.host) if name in KEPT_HOST]
    keys += [f"fleet.{name}" for name in KEPT_FLEET if getattr(old, name) != getattr(new, name)]
    for key in keys:
        yield Change(how=How.KEPT, what=key, note="restart the daemon to take it up")


def _hosts(old: Fleet, new: Fleet) -> Iterator[Change]:
    others = [replace(fleet, hosts=_without(fleet, KEPT_HOST)) for fleet in (old, new)]
    yield from _named("host", others[0].hosts, others[1].hosts)


def _without(fleet: Fleet, names: Sequence[str]) -> Mapping[HostName, Host]:
    """The hosts, this one's keys of that name as if they were not given."""
    plain = Host(name=fleet.here)
    here = replace(fleet.host, **{name: getattr(plain, name) for name in names})
    return frozen({**fleet.hosts, fleet.here: here})


def _engines(old: Fleet, new: Fleet) -> Iterator[Change]:
    for name, engine in old.engines.items():
        if name not in new.engines:
            yield Change(how=How.REMOVED, what=f"engine {name}")
            continue
        keys = _differing(engine, new.engines[name])
        now = tuple(key for key in keys if key not in LAUNCH)
        later = tuple(key for key in keys if key in LAUNCH)
        if now:
            yield Change(how=How.CHANGED, what=f"engine {name}", keys=now)
        if later:
            yield Change(how=How.LATER, what=f"engine {name}", keys=later, note="from its next start on")
    for name in new.engines:
        if name not in old.engines:
            yield Change(how=How.ADDED, what=f"engine {name}")


def _named(kind: str, old: Mapping[K, object], new: Mapping[K, object]) -> Iterator[Change]:
    for name, value in old.items():
        if name not in new:
            yield Change(how=How.REMOVED, what=f"{kind} {name}")
        elif value != new[name]:
            yield Change(how=How.CHANGED, what=f"{kind} {name}", keys=_differing(value, new[name]))
    for name in new:
        if name not in old:
            yield Change(how=How.ADDED, what=f"{kind} {name}")


def _rest(old: Fleet, new: Fleet) -> Iterator[Change]:
    if old.gateway != new.gateway:
        yield Change(how=How.CHANGED, what="gateway", keys=_differing(old.gateway, new.gateway))
    for name in ("name", "ended_kept_s"):
        if getattr(old, name) != getattr(new, name):
            yield Change(how=How.CHANGED, what=f"fleet.{name}")
    if old.uncurated != new.uncurated:
        yield Change(how=How.CHANGED, what="policy", keys=("uncurated",))
    if (old.catalog.directory, old.catalog.trouble) != (new.catalog.directory, new.catalog.trouble):
        yield Change(how=How.CHANGED, what="catalog", note=new.catalog.trouble)


def _differing(old: object, new: object) -> tuple[str, ...]:
    """The fields of two values of one dataclass that differ."""
    names = (it.name for it in fields(old))  # type: ignore[arg-type]  # each is a dataclass
    return tuple(name for name in names if getattr(old, name) != getattr(new, name))
