"""The endpoint of ports: who listens on this host, beside the registry (PORT-5)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hostler.domain.errors import InvalidConfig, NodeUnreachable, NotFound
from hostler.domain.route import nearest
from hostler.domain.values import shorten
from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.endpoint import Call, Endpoint
from hostler.interfaces.api.shapes import PortsQuery
from hostler.services.keys import Scope
from hostler.services.ports_live import LivePorts


async def ports(call: Call) -> Response:
    """Every listener of this host, or of another one, whose own daemon is asked."""
    asked, fleet = call.query(PortsQuery).host, call.control.config.fleet
    if asked is None or asked == fleet.here:
        return json_answer(await call.control.ports.look())
    far = call.control.far.get(asked)
    if far is None:
        raise NotFound(what="host", name=shorten(asked), nearest=nearest(asked, fleet.hosts))
    return json_answer(await far.ports())


async def own_ports(call: Call) -> Response:
    """Every listener of this host, for another one."""
    return json_answer(await call.control.ports.look())


PORTS: Final = Endpoint(
    method="GET",
    path="/v1/hostler/ports",
    scope=Scope.STATUS,
    summary="Who listens on a host, with process, unit, container and engine, beside the registry.",
    handler=ports,
    answer=LivePorts,
    query=PortsQuery,
    refusals=(NotFound, NodeUnreachable, InvalidConfig),
)
