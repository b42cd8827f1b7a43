"""Who listens on another host: asked of this user's daemon, which asks that host's (PORT-5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hostler.client import Client, find_daemon
from hostler.client.call import fitted
from hostler.domain.errors import NodeUnreachable
from hostler.services.ports_live import Listening, LivePorts

PATH: Final = "/v1/hostler/ports"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonListeners:
    """The need `FarListeners`."""

    env: Mapping[str, str]

    def listening_on(self, host: str) -> tuple[Listening, ...]:
        address = find_daemon(self.env)
        with Client(address) as client:
            found = fitted(client.get(PATH, {"host": host}), LivePorts, address.url)
        if found.unread:
            raise NodeUnreachable(host=host, why=found.note.removesuffix("."))
        return tuple(
            Listening(address=it.address, port=it.port, protocol=it.protocol, uid=0) for it in found.ports
        )
