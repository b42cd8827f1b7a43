"""Endpoints that show something. None of them changes, starts, probes or wakes anything (API-2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from hostler.domain.gate import Ask
from hostler.domain.gate_words import Result
from hostler.domain.values import Cause, EngineId, escape_controls
from hostler.interfaces.api.answers import NO_STORE, json_answer, sse_answer, sse_comment, sse_frame
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.pages import page
from hostler.interfaces.api.shapes import (
    CatalogList,
    EngineList,
    HoldNow,
    LogQuery,
    Logs,
    OneEngine,
    OwnLogQuery,
    PageQuery,
    RequestList,
    RouteList,
    Why,
    WhyQuery,
)
from hostler.services.catalog_views import entry_view
from hostler.services.control import Control
from hostler.services.feed import HEARTBEAT_S
from hostler.services.keys import Scope
from hostler.wire.nodes import LogAnswer
from hostler.wire.values import dump

LOOK_S: Final = 1.0
"""How soon a followed log ends once the daemon is to end."""
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"


async def health(call: Call) -> Response:
    """Whether the daemon's work goes on; 200 as long as it answers at all."""
    return json_answer(call.control.status.health())


async def metrics(call: Call) -> Response:
    """The exposition text."""
    text = call.control.metrics()
    return Response(text, media_type=METRICS, headers={"cache-control": NO_STORE})


async def status(call: Call) -> Response:
    """The whole picture; requests under way hold what others wrote, so they need more than `status`."""
    picture = call.control.status.picture()
    return json_answer(picture if call.who.may(Scope.LOGS) else replace(picture, requests=()))


async def engines(call: Call) -> Response:
    """All engines, a page of them."""
    control, asked = call.control, call.query(PageQuery)
    rows, more = page(control.status.engines(), asked, lambda it: it.id, path="/v1/hostler/engines")
    return json_answer(EngineList(at=control.status.at(), engines=tuple(rows), next=more))


async def catalog(call: Call) -> Response:
    """The entries in force, a page of them, each with its class and what is offered of it."""
    control, asked = call.control, call.query(PageQuery)
    found = control.config.fleet.catalog
    views = [entry_view(found.entries[name]) for name in sorted(found.entries)]
    rows, more = page(views, asked, lambda it: it.id, path="/v1/hostler/catalog")
    return json_answer(
        CatalogList(
            at=control.status.at(),
            directory=found.directory,
            trouble=found.trouble,
            entries=tuple(rows),
            next=more,
        )
    )


async def engine(call: Call) -> Response:
    """One engine."""
    return one_engine(call.control, call.path["engine"])


def one_engine(control: Control, engine: str, status: int = 200) -> Response:
    """The engine as it is now: what a call about an engine answers."""
    shown = OneEngine(at=control.status.at(), engine=control.status.engine(engine))
    return json_answer(shown, status)


async def why(call: Call) -> Response:
    """Every check of the gate with its result, starting nothing."""
    control, engine = call.control, call.path["engine"]
    lane = control.engines.lanes.get(engine)
    ask = Ask(
        engine=EngineId(engine),
        cause=Cause.API,
        requester=call.by,
        override=call.query(WhyQuery).override,
    )
    checks = await control.engines.why(engine, ask)
    shown = Why(
        at=control.status.at(),
        engine=engine,
        state=lane.state.value,
        allowed=all(check.result is not Result.REFUSED for check in checks),
        checks=checks,
    )
    return json_answer(shown)


async def logs(call: Call) -> Response:
    """The last lines of an engine's log, of another host's too; with `follow`, of ours, every later one.

    What goes on is asked of the host that has the engine: the refusal says where.
    """
    control, engine, asked = call.control, call.path["engine"], call.query(LogQuery)
    known = control.config.fleet.engines.get(EngineId(engine))
    far = None if known is None or asked.follow else control.far.get(known.host)
    if far is not None:
        return json_answer(Logs(engine=engine, lines=await far.logs(engine, asked.lines)))
    lines = await _tail(control, engine, asked.lines)
    if asked.follow:
        return sse_answer(_follow(control, engine, lines))
    return json_answer(Logs(engine=engine, lines=lines))


async def own_logs(call: Call) -> Response:
    """The last lines of the log of an engine of this host, for another one."""
    return json_answer(
        LogAnswer(lines=await _tail(call.control, call.path["engine"], call.query(OwnLogQuery).lines))
    )


async def _tail(control: Control, engine: str, lines: int) -> tuple[str, ...]:
    control.engines.lanes.get(engine)
    tail = await asyncio.to_thread(control.engines.tail, engine, lines)
    return tuple(escape_controls(line) for line in tail)


async def _follow(control: Control, engine: str, first: tuple[str, ...]) -> AsyncIterator[bytes]:
    """Log lines as they come, and a comment when none does, until the daemon ends (REL-5)."""
    for line in first:
        yield sse_frame(dump(line), event="line")
    lane = control.engines.lanes.get(engine)
    lines = aiter(control.engines.drivers[lane.launch.driver].follow(lane.launch))
    silent, coming = 0.0, asyncio.ensure_future(_next(lines))
    try:
        while not control.feed.queue.released:
            await _either(coming, control.clock.sleep(LOOK_S))
            if not coming.done():
                silent += LOOK_S
                if silent >= HEARTBEAT_S:
                    silent = 0.0
                    yield sse_comment("nothing new")
                continue
            later = coming.result()
            if later is None:
                return
            silent, coming = 0.0, asyncio.ensure_future(_next(lines))
            yield sse_frame(dump(escape_controls(later)), event="line")
    finally:
        coming.cancel()


async def _next(lines: AsyncIterator[str]) -> str | None:
    """The next line; None when the driver has no more."""
    return await anext(lines, None)


async def _either(coming: asyncio.Future[str | None], passing: Coroutine[object, object, None]) -> None:
    """Return when there is a line, or the time has passed."""
    timer = asyncio.ensure_future(passing)
    both: set[asyncio.Future[str | None] | asyncio.Future[None]] = {coming, timer}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()


async def routes(call: Call) -> Response:
    """All routes, a page of them."""
    control, asked = call.control, call.query(PageQuery)
    rows, more = page(control.status.route_list(), asked, lambda it: it.name, path="/v1/hostler/routes")
    return json_answer(RouteList(at=control.status.at(), routes=tuple(rows), next=more))


async def requests(call: Call) -> Response:
    """The requests under way, a page of them."""
    control, asked = call.control, call.query(PageQuery)
    rows, more = page(control.status.request_list(), asked, lambda it: it.id, path="/v1/hostler/requests")
    return json_answer(RequestList(at=control.status.at(), requests=tuple(rows), next=more))


async def hold(call: Call) -> Response:
    """The hold as the gate sees it."""
    return json_answer(HoldNow(at=call.control.status.at(), hold=call.control.status.hold()))
