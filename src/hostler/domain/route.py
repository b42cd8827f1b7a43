"""Routes: the names clients ask for, and where each leads (GW-1, GW-2).

Decides which route or engine a name means, which profile is active, and the order of its targets. A name that
the config has never means a peer's row.
The table is immutable and swapped as a whole: a request sees one table from its begin to its end.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hostler.domain.errors import InvalidRequest, ModelNotFound, NotFound
from hostler.domain.fleet import (
    Engine,
    EngineTarget,
    Escalating,
    Fleet,
    Profile,
    Route,
    Strategy,
    Target,
    frozen,
)
from hostler.domain.registry import Row
from hostler.domain.values import RouteName, shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A row of a paired node, as the gateway forwards to it (SYNC-5). `model` is what it is asked for there.

    `reached` False: it was not reached from here when it was looked at last; it is not offered then (SYNC-4).
    """

    id: str
    url: str
    host: str
    author: str
    model: str
    models: tuple[str, ...] = ()
    reached: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Routes and engines by every name that finds them, and each route's active profile.

    `fleet` is the config that it was made of; `largest` the most bytes that a request of any route may have,
    `intents` each route's patterns, compiled (GW-4). `shared` are peers' rows, by every name that finds one.
    """

    fleet: Fleet
    routes: Mapping[str, Route]
    aliases: Mapping[str, RouteName]
    engines: Mapping[str, Engine]
    active: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    largest: int = 0
    intents: Mapping[str, tuple[re.Pattern[str], ...]] = field(default_factory=lambda: frozen({}))
    shared: Mapping[str, Shared] = field(default_factory=lambda: frozen({}))

    def profile(self, route: Route) -> tuple[str, Profile] | None:
        """The route's active profile and its name; None for a route without one (GW-1)."""
        name = self.active.get(route.name)
        found = route.profiles.get(name) if name is not None else None
        return None if found is None or name is None else (name, found)


Found = Route | Engine | Shared
"""What a model's name may mean."""


def build(fleet: Fleet, kept: Mapping[str, str], rows: Sequence[Row] = ()) -> Table:
    """The table of this node. `kept` are the active profiles of routes.json; they win over the config's.

    A kept profile that the config no longer has is not used; a single profile is the active one. `rows` are
    those of paired nodes that an id leads to.
    """
    routes = {name: route for name, route in fleet.routes.items() if not route.on or fleet.here in route.on}
    table = Table(
        fleet=fleet,
        routes=frozen({str(name): route for name, route in routes.items()}),
        aliases=frozen({alias: name for name, route in routes.items() for alias in route.aliases}),
        engines=frozen({str(engine.id): engine for engine in fleet.engines.values()}),
        active=frozen(
            {
                name: profile
                for name, route in routes.items()
                if (profile := _active(route, kept.get(name))) is not None
            }
        ),
        largest=max(
            [fleet.gateway.max_body, *(it.max_body for it in routes.values() if it.max_body is not None)]
        ),
        intents=frozen(
            {
                str(name): tuple(re.compile(text) for text in route.escalate.intent)
                for name, route in routes.items()
                if route.escalate is not None
            }
        ),
    )
    return with_rows(table, rows)


def with_rows(table: Table, rows: Sequence[Row]) -> Table:
    """The table with these rows of peers, and no others: those of nodes that the config pairs with.

    What the config names itself, be it a route, an alias, an engine or an upstream, is never a peer's.
    """
    fleet = table.fleet
    taken = {*table.routes, *table.aliases, *table.engines, *fleet.upstreams}
    shared: dict[str, Shared] = {}
    paired = [row for row in rows if row.author in fleet.peers]
    for row in paired:
        if row.id not in taken:
            shared[row.id] = _shared(row, fleet.here, row.models[0] if row.models else row.id)
    for row in paired:
        for model in row.models if row.id in shared else ():
            if model not in taken:
                shared.setdefault(model, _shared(row, fleet.here, model))
    return replace(table, shared=frozen(shared))


def _shared(row: Row, here: str, model: str) -> Shared:
    return Shared(
        id=row.id,
        url=row.url,
        host=row.host,
        author=row.author,
        model=model,
        models=row.models,
        reached=row.reach.get(here) is not False,
    )


def _active(route: Route, kept: str | None) -> str | None:
    if kept in route.profiles:
        return kept
    if route.active is not None:
        return route.active
    return next(iter(route.profiles)) if len(route.profiles) == 1 else None


def nearest(name: str, known: Iterable[str]) -> str:
    """`Did you mean a, b?`, or the first few names; empty when there are none."""
    names = sorted(known)
    close = difflib.get_close_matches(name[:256], names, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {', '.join(shorten(it) for it in close)}?"
    if not names:
        return ""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"There are: {', '.join(shorten(it) for it in names[:8])}{more}."


def lookup(table: Table, model: str) -> Found:
    """The route of that name, else by alias, else the engine of that id (GW-2), each matched exactly.

    What the config does not name may be a peer's row (SYNC-5). Refuses `model_not_found` with the nearest
    names.
    """
    route = table.routes.get(model)
    if route is None and model in table.aliases:
        route = table.routes[table.aliases[model]]
    if route is not None:
        return route
    engine = table.engines.get(model)
    if engine is not None:
        return engine
    shared = table.shared.get(model)
    if shared is not None:
        return shared
    known = {*table.routes, *table.aliases, *(e.id for e in table.engines.values() if not e.hidden)}
    known |= {name for name, it in table.shared.items() if it.reached}
    raise ModelNotFound(model=shorten(model, 256), nearest=nearest(model, known))


def switched(table: Table, name: str, profile: str) -> Table:
    """The table with another active profile of a route (GW-1). Refuses unknown routes and profiles."""
    route = table.routes.get(name)
    if route is None:
        raise NotFound(what="route", name=shorten(name, 256), nearest=nearest(name, table.routes))
    if profile not in route.profiles:
        raise InvalidRequest(
            what=f"The route {name} has no profile {shorten(profile)!r}.",
            expected=nearest(profile, route.profiles),
            where="profile",
        )
    return replace(table, active=frozen({**table.active, name: profile}))


def order(
    targets: Sequence[Target],
    strategy: Strategy,
    *,
    ready: Callable[[Target], bool],
    load: Callable[[Target], int],
) -> tuple[Target, ...]:
    """The targets in the order in which they are tried (GW-1).

    `pin`: the first only. `first_ready`: those that are ready first. `least_loaded`: the fewest requests
    first among the ready. `spill`: the first ready one with fewer than N requests, then those that need a
    start, then the fullest last. What is not ready comes in its own order, in case nothing better answers.
    """
    if strategy.kind == "pin":
        return tuple(targets[:1])
    up = [it for it in targets if ready(it)]
    down = [it for it in targets if not ready(it)]
    if strategy.kind == "least_loaded":
        up.sort(key=load)
    elif strategy.kind == "spill":
        full = sorted((it for it in up if load(it) >= strategy.spill), key=load)
        return (*(it for it in up if it not in full), *down, *full)
    return (*up, *down)


def engines_of(profile: Profile) -> tuple[str, ...]:
    """The engines that a profile may lead to."""
    if isinstance(profile, Escalating):
        return (profile.fast, profile.large)
    return tuple(it.engine for it in profile.targets if isinstance(it, EngineTarget))
