"""Endpoints of modes and windows: each call is the service's, in the form of the wire (MODE-2, WIN-10)."""

from __future__ import annotations

from starlette.responses import Response

from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.idempotency import request_id
from hostler.wire.windows import AbortBody, CloseBody, OpenBody, PlanQuery, WindowsQuery


async def modes(call: Call) -> Response:
    """Every mode with how the fleet differs from it."""
    return json_answer(await call.control.modes.modes())


async def plan(call: Call) -> Response:
    """What opening a window would do; nothing is done."""
    return json_answer(await call.control.modes.plan(call.path["mode"], call.query(PlanQuery).cap_s))


async def open_window(call: Call) -> Response:
    """The window of that request: its `state` says whether it is open already."""
    windows, body = call.control.windows, call.body(OpenBody)
    return json_answer(await windows.open(body, request_id(call.headers), call.who, call.by))


async def close(call: Call) -> Response:
    """It is put back; with `wait_s` the answer comes when that is verified (WIN-4)."""
    body = call.body(CloseBody)
    return json_answer(await call.control.windows.close(call.path["window"], body, call.who, call.by))


async def abort(call: Call) -> Response:
    """It ends at once, and is put back (WIN-10)."""
    body = call.body(AbortBody)
    return json_answer(await call.control.windows.abort(call.path["window"], body, call.who, call.by))


async def windows(call: Call) -> Response:
    """The windows that there are."""
    return json_answer(await call.control.windows.windows(call.query(WindowsQuery)))


async def status(call: Call) -> Response:
    """One window."""
    return json_answer(await call.control.windows.status(call.path["window"]))


async def report(call: Call) -> Response:
    """How it ended, and what came back (WIN-4)."""
    return json_answer(await call.control.windows.report(call.path["window"]))
