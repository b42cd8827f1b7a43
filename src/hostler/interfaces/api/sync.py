"""Endpoints of rows: what people publish and see, and what paired nodes tell (SYNC-1).

Decides nothing. What is done for whom is `services.sync`'s.
"""

from __future__ import annotations

from starlette.responses import Response

from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call
from hostler.wire.sync import ExchangeCall, ProbeCall, PublishBody, RetireBody


async def now(call: Call) -> Response:
    """The rows and the peers."""
    return json_answer(await call.control.sync.now())


async def explain(call: Call) -> Response:
    """Why a row travels or stays, and whose word counts."""
    return json_answer(await call.control.sync.explain(call.path["row"]))


async def publish(call: Call) -> Response:
    """A row is told to every peer from now on."""
    return json_answer(await call.control.sync.publish(call.body(PublishBody), call.by))


async def retire(call: Call) -> Response:
    """A row is over, and every peer hears so."""
    return json_answer(await call.control.sync.retire(call.body(RetireBody).id, call.by))


async def exchange(call: Call) -> Response:
    """What a paired node tells, and what is new for it."""
    return json_answer(await call.control.sync.exchange(call.body(ExchangeCall), call.who.peer))


async def probe(call: Call) -> Response:
    """Whether this node reaches a URL."""
    return json_answer(await call.control.sync.probe(call.body(ProbeCall), call.who.peer))
