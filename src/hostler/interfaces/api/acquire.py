"""`POST /llm/acquire`: a bot warms a model before it needs it (10-holds' table).

Decides which engine a name means and what its clients read: `{"ok", "warmed", "provider"}`, and flat
refusals. Whether it may start is the gate's decision.
"""

from __future__ import annotations

from starlette.responses import Response

from hostler.domain.errors import InvalidRequest, ModelNotFound, NotFound
from hostler.domain.fleet import DriverKind, Engine, EngineTarget, Escalating, Target
from hostler.domain.gate import Ask
from hostler.domain.route import Shared, engines_of, lookup, nearest, order
from hostler.domain.values import Cause, EngineId, shorten
from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.shapes import LONGEST_WAIT_S, AcquireBody, Acquired
from hostler.services.control import Control
from hostler.services.lanes import Lane


async def acquire(call: Call) -> Response:
    """Waits until what `provider` means is ready."""
    provider = call.body(AcquireBody).provider
    if not provider:
        raise InvalidRequest(
            what="A provider is needed.", expected='{"provider": "ENGINE or route"}', where="provider"
        )
    _may(call, provider)
    lane = _cold(call.control, provider)
    if lane is None:
        return json_answer(Acquired(ok=True, warmed=None, provider=provider))
    engine = lane.engine.id
    route = provider if provider != engine else None
    ask = Ask(engine=engine, cause=Cause.ACQUIRE, requester=call.by, route=route)
    await call.control.engines.ensure_ready(engine, ask, wait_s=LONGEST_WAIT_S)
    return json_answer(Acquired(ok=True, warmed=engine, provider=provider))


def _may(call: Call, provider: str) -> None:
    """A key with a list of routes may warm only these; another name is as if it were not there."""
    listed, table = call.who.routes, call.control.routes.table
    if listed is None:
        return
    name = provider if provider in call.control.engines.lanes.by_id else table.aliases.get(provider, provider)
    if name not in listed:
        raise ModelNotFound(model=shorten(provider, 256), nearest=nearest(provider, listed))


def _cold(control: Control, provider: str) -> Lane | None:
    """The engine to start for `provider`; None when one is ready, or none of it is ours to start."""
    lanes = control.engines.lanes
    lane = lanes.by_id.get(EngineId(provider))
    if lane is not None:
        return None if lane.ready else lane
    engines = [lanes.get(it) for it in _meant(control, provider)]
    if any(it.ready for it in engines):
        return None
    return next((it for it in engines if it.engine.driver is not DriverKind.EXTERNAL), None)


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
