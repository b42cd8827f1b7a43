"""`POST /llm/acquire`: a bot warms a model before it needs it (10-holds' table).

Decides which engine a name means and what its clients read: `{"ok", "warmed", "provider"}`, and flat
refusals. Whether it may start is the gate's decision.
"""

from __future__ import annotations

from dataclasses import replace

from starlette.responses import Response

from hostler.domain.errors import InvalidRequest, ModelNotFound, NodeUnreachable, NotFound
from hostler.domain.fleet import DriverKind, Engine, EngineTarget, Escalating, Target
from hostler.domain.gate import Ask
from hostler.domain.route import Shared, engines_of, lookup, nearest, order
from hostler.domain.values import Cause, shorten
from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.shapes import LONGEST_WAIT_S, AcquireBody, Acquired
from hostler.services.control import Control
from hostler.wire.nodes import NODE_API, WarmAnswer, WarmCall, spoken


async def acquire(call: Call) -> Response:
    """Waits until what `provider` means is ready."""
    provider = call.body(AcquireBody).provider
    if not provider:
        raise InvalidRequest(
            what="A provider is needed.", expected='{"provider": "ENGINE or route"}', where="provider"
        )
    _may(call, provider)
    engine = _cold(call.control, provider)
    if engine is None:
        return json_answer(Acquired(ok=True, warmed=None, provider=provider))
    started = await _warmed(call, engine, route=provider if provider != engine.id else None)
    return json_answer(Acquired(ok=True, warmed=engine.id if started else None, provider=provider))


async def warm(call: Call) -> Response:
    """An engine of this host, asked for at another one's gateway."""
    body = call.body(WarmCall)
    spoken(str(call.control.config.fleet.here), NODE_API, "who asks", body.api)
    lane = call.control.engines.lanes.get(body.engine)
    by = replace(call.by, client=shorten(body.by, 40) or call.by.client)
    started = not lane.ready
    if started:
        ask = Ask(engine=lane.engine.id, cause=Cause.ACQUIRE, requester=by)
        await call.control.engines.ensure_ready(lane.engine.id, ask, wait_s=LONGEST_WAIT_S)
    return json_answer(WarmAnswer(api=NODE_API, started=started))


async def _warmed(call: Call, engine: Engine, route: str | None) -> bool:
    """Have it ready, on whichever host it is; whether it was started."""
    control = call.control
    if engine.id in control.engines.lanes.by_id:
        ask = Ask(engine=engine.id, cause=Cause.ACQUIRE, requester=call.by, route=route)
        await control.engines.ensure_ready(engine.id, ask, wait_s=LONGEST_WAIT_S)
        return True
    far = control.far.get(engine.host)
    why = "this daemon knows no node of it; restart it" if far is None else control.nodes.away(engine.host)
    if far is None or why is not None:
        raise NodeUnreachable(host=engine.host, why=why or "")
    return await far.acquire(engine.id, call.by.client)


def _may(call: Call, provider: str) -> None:
    """A key with a list of routes may warm only these; another name is as if it were not there."""
    listed, table = call.who.routes, call.control.routes.table
    if listed is None:
        return
    name = provider if provider in table.engines else table.aliases.get(provider, provider)
    if name not in listed:
        raise ModelNotFound(model=shorten(provider, 256), nearest=nearest(provider, listed))


def _cold(control: Control, provider: str) -> Engine | None:
    """The engine to start for `provider`; None when one is ready here, or none of it is ours to start.

    Whether one of another host is ready only that host knows.
    """
    table, lanes = control.routes.table, control.engines.lanes
    own = table.engines.get(provider)
    engines = [own] if own is not None else [table.engines[it] for it in _meant(control, provider)]
    if any(it.id in lanes.by_id and lanes.by_id[it.id].ready for it in engines):
        return None
    return own or next((it for it in engines if it.driver is not DriverKind.EXTERNAL), None)


def _meant(control: Control, provider: str) -> tuple[str, ...]:
    """The engines that a request for the route may be served by, the first choice first.

    An escalating route is served by `fast` unless a request asks for more (GW-4): that is what is warmed.
    None where the route leads to an upstream first: there is nothing of ours to start.
    """
    table = control.routes.table
    found = lookup(table, provider)
    if isinstance(found, Engine):
        return (found.id,)
    if isinstance(found, Shared):
        return ()
    active = table.profile(found)
    if active is None:
        raise NotFound(
            what="active profile of the route", name=shorten(provider), nearest="`hostler routes` shows it."
        )
    profile = active[1]
    if isinstance(profile, Escalating):
        return engines_of(profile)
    tried = order(profile.targets, found.strategy, ready=lambda it: _ready(control, it), load=lambda _: 0)
    first = next(iter(tried), None)
    return (first.engine,) if isinstance(first, EngineTarget) else ()


def _ready(control: Control, target: Target) -> bool:
    lane = control.engines.lanes.by_id.get(target.engine) if isinstance(target, EngineTarget) else None
    return lane is not None and lane.ready
