"""Nodes of an API test that is about something else: one host, nobody far."""

from __future__ import annotations

from typing import NoReturn

from hostler.domain.errors import NotFound
from hostler.domain.values import rfc3339
from hostler.wire.nodes import NodeList
from tests.fakes.clock import START


class NoNode:
    """The service `NodeApi` where no head asks for anything: every call is refused."""

    async def refuse(self, *_: object) -> NoReturn:
        """There is nothing."""
        raise NotFound(what="node", name="crow")

    now = operate = receipt = held = fence = register = end_processes = memory = report = refuse


class NoNodes:
    """The service `NodesApi` of a fleet that has none."""

    async def nodes(self) -> NodeList:
        """None."""
        return NodeList(at=rfc3339(START), nodes=())
