"""The endpoint of ports: who listens on this host, beside the registry (PORT-5)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hostler.domain.errors import InvalidConfig, NotFound
from hostler.domain.values import shorten
from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call, Endpoint
from hostler.interfaces.api.shapes import PortsQuery
from hostler.services.keys import Scope
from hostler.services.ports_live import LivePorts


async def ports(call: Call) -> Response:
    """Every listener of this host; another host's daemon is asked for its own."""
    asked, here = call.query(PortsQuery).host, call.control.config.fleet.here
    if asked is not None and asked != here:
        raise NotFound(
            what="host", name=shorten(asked), nearest=f"This daemon is {here}'s: ask the one of that host."
        )
    return json_answer(await call.control.ports.look())


PORTS: Final = Endpoint(
    method="GET",
    path="/v1/hostler/ports",
    scope=Scope.STATUS,
    summary="Who listens on this host, with process, unit, container and engine, beside the registry.",
    handler=ports,
    answer=LivePorts,
    query=PortsQuery,
    refusals=(NotFound, InvalidConfig),
)
