"""Nodes of an API test that is about something else: one host, nobody far."""

from __future__ import annotations

from typing import NoReturn

from hostler.domain.errors import NotFound
from hostler.domain.fleet import frozen
from hostler.domain.values import rfc3339
from hostler.wire.nodes import NodeList
from hostler.wire.sync import ExplainView, PeerView, RowView, SyncView
from tests.fakes.clock import START

AT = rfc3339(START)


class NoNode:
    """The service `NodeApi` where no head asks for anything: every call is refused."""

    async def refuse(self, *_: object) -> NoReturn:
        """There is nothing."""
        raise NotFound(what="node", name="crow")

    now = operate = receipt = held = fence = register = end_processes = memory = report = refuse


class NoSync:
    """The service `SyncApi` where no node is paired: there is one row to read, and nothing to do."""

    ROW = RowView(
        id="far",
        url="http://10.99.0.9:8000",
        host="annex",
        author="annex",
        models=("far",),
        version=1,
        retired=False,
        state="offered",
        why="",
        reach=frozen({"crow": True}),
        allowed=frozen({}),
    )

    async def now(self) -> SyncView:
        """One peer, one row."""
        peer = PeerView(name="annex", url="https://annex.lan:7070", up=True, since=AT, why="", waiting=False)
        return SyncView(at=AT, node="crow", clock=1, peers=(peer,), rows=(self.ROW,), notes=("a note",))

    async def explain(self, id_: str) -> ExplainView:
        """That row."""
        return ExplainView(at=AT, id=id_, travels=True, why="it may", claims=(self.ROW,))

    async def refuse(self, *_: object) -> NoReturn:
        """There is nothing."""
        raise NotFound(what="row", name="x")

    publish = retire = exchange = probe = refuse


class NoNodes:
    """The service `NodesApi` of a fleet that has none."""

    def away(self, host: str) -> str | None:
        """Nobody is known to be."""

    async def nodes(self) -> NodeList:
        """None."""
        return NodeList(at=rfc3339(START), nodes=())
