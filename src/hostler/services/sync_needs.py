"""What the exchange of rows needs from the world, and what the control API asks of it (SYNC-1).

Decides the calls and nothing else.
"""

from __future__ import annotations

from typing import Protocol

from hostler.domain.values import Requester
from hostler.wire.sync import (
    ExchangeAnswer,
    ExchangeCall,
    ExplainView,
    ProbeAnswer,
    ProbeCall,
    PublishBody,
    Published,
    RowView,
    SyncView,
)


class FarPeer(Protocol):
    """A paired node. Both calls refuse `node_unreachable`, and `node_outdated` for another version."""

    async def exchange(self, call: ExchangeCall) -> ExchangeAnswer:
        """Tell it what is new here, and hear what is new there."""
        ...

    async def probe(self, call: ProbeCall) -> ProbeAnswer:
        """Ask it whether it reaches a URL."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...


class Reacher(Protocol):
    """Connections to URLs that rows name."""

    async def look(self, url: str) -> str:
        """Empty when somebody takes a connection there, else why not. Asks nothing, never raises."""
        ...


class Interfaces(Protocol):
    """The network interfaces of this machine."""

    def addresses(self) -> frozenset[str]:
        """Their addresses, without loopback, bridges, and those of containers. Never raises (SYNC-3)."""
        ...


class SyncApi(Protocol):
    """The sync calls: for people, and for paired nodes."""

    async def now(self) -> SyncView:
        """The rows and the peers."""
        ...

    async def explain(self, id_: str) -> ExplainView:
        """Why a row travels or stays. Refuses `not_found`."""
        ...

    async def publish(self, body: PublishBody, by: Requester) -> Published:
        """Tell the peers of something of this node. Refuses `invalid_request`, `row_unreached`, `not_found`.

        Also `store_full`, as the others that change something.
        """
        ...

    async def retire(self, id_: str, by: Requester) -> RowView:
        """Tell the peers that a row is over. Refuses `invalid_request`, `not_found`."""
        ...

    async def exchange(self, call: ExchangeCall, peer: str) -> ExchangeAnswer:
        """What a paired node tells, and what is new here for it. Refuses `invalid_request`."""
        ...

    async def probe(self, call: ProbeCall, peer: str) -> ProbeAnswer:
        """Whether this node reaches a URL. Refuses `invalid_request`."""
        ...
