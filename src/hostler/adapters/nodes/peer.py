"""A paired node over its sync calls: the need `FarPeer` (SYNC-1).

Decides that a call has the key of the pair and no other, that whoever answers is that very node and speaks a
version that is understood, and that its words are bounded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeVar

from hostler.adapters.nodes.lines import Far, Lines, Lost
from hostler.client.address import Address
from hostler.client.call import answer, call, fitted
from hostler.domain.errors import DaemonUnreachable, Kind, NodeUnreachable, Refusal
from hostler.domain.fleet import Peer
from hostler.domain.values import HostName, shorten
from hostler.services.present import Present
from hostler.wire.nodes import spoken
from hostler.wire.sync import SYNC_API, ExchangeAnswer, ExchangeCall, ProbeAnswer, ProbeCall
from hostler.wire.values import to_json

T = TypeVar("T", ExchangeAnswer, ProbeAnswer)

BASE: Final = "/v1/hostler/sync"
ASK_S: Final = 10.0
MOST_TEXT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePeer:
    """The paired node `name`, as the config says now."""

    name: HostName
    config: Present
    lines: Lines = field(default_factory=Lines)

    async def exchange(self, call: ExchangeCall) -> ExchangeAnswer:
        """See `FarPeer.exchange`."""
        return await self._post("/exchange", call, ExchangeAnswer)

    async def probe(self, call: ProbeCall) -> ProbeAnswer:
        """See `FarPeer.probe`."""
        return await self._post("/probe", call, ProbeAnswer)

    async def close(self) -> None:
        """See `FarPeer.close`."""
        await self.lines.close()

    async def _post(self, path: str, body: ExchangeCall | ProbeCall, model: type[T]) -> T:
        peer = self.config.fleet.peers.get(self.name)
        if peer is None:
            raise self._unreachable(f"the config has no sync.peers.{self.name} any more")
        try:
            found = await self._sent(peer, path, body, model)
        except Lost as error:
            raise self._unreachable(error.why) from error
        except DaemonUnreachable as refusal:
            raise self._unreachable(refusal.why) from refusal
        except Refusal as refusal:
            if refusal.kind in (Kind.UNAUTHORIZED, Kind.FORBIDDEN):
                why = f"it does not accept the key in sync.peers.{self.name}.key: both sides have the same"
                raise self._unreachable(why) from refusal
            if refusal.kind is Kind.NOT_FOUND:
                raise self._unreachable("it is a Hostler that knows no such call") from refusal
            raise
        if found.node != self.name:
            raise self._unreachable(f"the node of {shorten(found.node)} answers at its address")
        spoken(self.config.fleet.here, SYNC_API, self.name, found.api)
        return found

    async def _sent(self, peer: Peer, path: str, body: object, model: type[T]) -> T:
        url = peer.url.rstrip("/")
        request = call(
            Address(url=url, key=peer.key), "POST", BASE + path, body=to_json(body), timeout_s=ASK_S
        )
        far = Far(url=url, tls_pin=peer.tls_pin, plain=peer.allow_plain_http, named=f"sync.peers.{self.name}")
        status, content = await self.lines.sent(far, request, ASK_S)
        return fitted(answer(request, status, content), model, url)

    def _unreachable(self, why: str) -> NodeUnreachable:
        return NodeUnreachable(host=self.name, why=shorten(why, MOST_TEXT))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePeers:
    """Every paired node by name, made when it is first spoken to."""

    config: Present
    made: dict[str, RemotePeer] = field(default_factory=dict)

    def at(self, name: str) -> RemotePeer:
        """The peer of that name."""
        found = self.made.get(name)
        if found is None:
            found = self.made[name] = RemotePeer(name=HostName(name), config=self.config)
        return found

    async def close(self) -> None:
        """End the connections to all of them."""
        for peer in self.made.values():
            await peer.close()
