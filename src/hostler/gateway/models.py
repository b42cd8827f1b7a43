"""`/v1/models`: what may be asked for, and how it stands (GW-2). Fast, and starts nothing."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors import ModelNotFound
from hostler.domain.fleet import Engine, Escalating, Plain, Route, UpstreamTarget
from hostler.domain.route import Found, Shared, Table, engines_of, lookup, nearest
from hostler.domain.values import EngineId, shorten
from hostler.services.lanes import Lanes


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Lists models in OpenAI's shape, with what we know of each besides."""

    lanes: Lanes
    created: int

    def all(self, table: Table, allowed: frozenset[str] | None) -> dict[str, object]:
        """Every route; engines that are shown, no members and without a route of their name; peers' rows."""
        rows = [self._route(table, route) for route in table.routes.values()]
        rows += [
            self._engine(engine)
            for engine in table.engines.values()
            if not engine.hidden
            and engine.of is None
            and engine.id not in table.routes
            and engine.id not in table.aliases
        ]
        rows += [self._peers(it) for name, it in table.shared.items() if name == it.id and it.reached]
        shown = [row for row in rows if allowed is None or row["id"] in allowed]
        return {"object": "list", "data": shown}

    def one(self, table: Table, name: str, allowed: frozenset[str] | None) -> dict[str, object]:
        """The model of that name. Refuses `model_not_found`, for one that the key may not use too."""
        found = lookup(table, name)
        row = self._found(table, found)
        if allowed is not None and row["id"] not in allowed:
            raise ModelNotFound(model=shorten(name, 256), nearest=nearest(name, allowed))
        return row

    def _found(self, table: Table, found: Found) -> dict[str, object]:
        if isinstance(found, Route):
            return self._route(table, found)
        return self._peers(found) if isinstance(found, Shared) else self._engine(found)

    def _peers(self, shared: Shared) -> dict[str, object]:
        """A row of a paired node: how it stands is that node's affair."""
        row = self._row(shared.id, state="remote", host=shared.host, context=None)
        return {**row, "aliases": [it for it in shared.models if it != shared.id], "author": shared.author}

    def _row(self, name: str, *, state: str, host: str, context: int | None) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self.created,
            "owned_by": "hostler",
            "state": state,
            "host": host,
            "context_length": context,
        }

    def _engine(self, engine: Engine) -> dict[str, object]:
        row = self._row(engine.id, state=self._state(engine.id), host=engine.host, context=engine.context)
        return {**row, "class": engine.serving_class.value}

    def _route(self, table: Table, route: Route) -> dict[str, object]:
        active = table.profile(route)
        profile = active[1] if active is not None else None
        engines = [table.engines[name] for name in (engines_of(profile) if profile is not None else ())]
        first = next(
            (engine for engine in engines if self._ready(engine.id)), engines[0] if engines else None
        )
        state = self._state(first.id) if first is not None else "no_profile" if profile is None else "ready"
        host = first.host if first is not None else _upstream(profile)
        row = self._row(route.name, state=state, host=host, context=first.context if first else None)
        danger = max((engine.serving_class for engine in engines), key=lambda it: it.danger, default=None)
        return {
            **row,
            "aliases": list(route.aliases),
            "description": route.description,
            "profile": active[0] if active is not None else None,
            "class": danger.value if danger is not None else None,
        }

    def _ready(self, engine: EngineId) -> bool:
        lane = self.lanes.by_id.get(engine)
        return lane is not None and lane.ready

    def _state(self, engine: str) -> str:
        lane = self.lanes.by_id.get(EngineId(engine))
        return lane.state.value if lane is not None else "remote"


def _upstream(profile: Plain | Escalating | None) -> str:
    targets = profile.targets if isinstance(profile, Plain) else ()
    return next((it.upstream for it in targets if isinstance(it, UpstreamTarget)), "")
