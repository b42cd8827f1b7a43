"""Endpoints that change something: an engine's life, a route's profile, a request's end.

Decides what each call answers when it worked. What may be done is the services' decision.
"""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hostler.domain.errors import Loading
from hostler.domain.fleet import frozen
from hostler.domain.gate import Ask
from hostler.domain.values import Cause, EngineId, RouteName
from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.reading import one_engine
from hostler.interfaces.api.shapes import (
    Cancelled,
    DrainBody,
    Drained,
    OneRoute,
    ProfileBody,
    ReloadBody,
    Reloaded,
    ReloadedChange,
    StartBody,
    StopBody,
)

GOES_ON: Final = frozen({202: "`wait_s` passed first: the start goes on."})


async def reload(call: Call) -> Response:
    """200 with what was taken up, which may be nothing; a file that is not right changes nothing."""
    dry = call.body(ReloadBody).dry_run
    found = await (call.control.reload.plan() if dry else call.control.reload.reload(call.by))
    changes = tuple(
        ReloadedChange(how=it.how.value, what=it.what, keys=it.keys, note=it.note) for it in found.changes
    )
    return json_answer(Reloaded(file=found.file, done=not dry, changes=changes, follows=found.follows))


async def start(call: Call) -> Response:
    """200 once it is ready; 202 when `wait_s` passed first: the start goes on."""
    engine, sent = call.path["engine"], call.body(StartBody)
    ask = Ask(engine=EngineId(engine), cause=Cause.API, requester=call.by, override=sent.override)
    try:
        await call.control.engines.ensure_ready(engine, ask, wait_s=sent.wait_s)
    except Loading:
        return one_engine(call.control, engine, status=202)
    return one_engine(call.control, engine)


async def stop(call: Call) -> Response:
    """200 once it was seen to be gone; stopped already is a success."""
    engine, sent = call.path["engine"], call.body(StopBody)
    await call.control.engines.stop(engine, call.by, timeout_s=sent.timeout_s, now=sent.now)
    return one_engine(call.control, engine)


async def drain(call: Call) -> Response:
    """200 once no request is left in it; it takes none until `resume` or a stop."""
    control, engine = call.control, call.path["engine"]
    ended = await control.engines.drain(engine, call.by, timeout_s=call.body(DrainBody).timeout_s)
    return json_answer(Drained(at=control.status.at(), engine=control.status.engine(engine), ended=ended))


async def suspend(call: Call) -> Response:
    """200 once it is stopped and stays so until `resume`, across restarts."""
    engine = call.path["engine"]
    await call.control.engines.suspend(engine, call.by, timeout_s=call.body(DrainBody).timeout_s)
    return one_engine(call.control, engine)


async def resume(call: Call) -> Response:
    """It may start again, and takes requests again if it was draining."""
    await call.control.engines.resume(call.path["engine"], call.by)
    return one_engine(call.control, call.path["engine"])


async def clear(call: Call) -> Response:
    """A failed engine may be tried again at once."""
    call.control.engines.clear(call.path["engine"], call.by)
    return one_engine(call.control, call.path["engine"])


async def switch(call: Call) -> Response:
    """Requests from now on follow the profile; those under way finish where they are (GW-1)."""
    control, name = call.control, RouteName(call.path["name"])
    await control.routes.switch(name, call.body(ProfileBody).profile, call.by)
    route = control.status.route(control.routes.table.routes[name])
    return json_answer(OneRoute(at=control.status.at(), route=route))


async def cancel(call: Call) -> Response:
    """The request ends with an error frame (GW-9)."""
    request = call.path["request"]
    call.control.requests.cancel(request, call.by)
    return json_answer(Cancelled(request=request))
