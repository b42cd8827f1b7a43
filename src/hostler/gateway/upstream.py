"""Our HTTP/1.1 client towards engines and other upstreams: streaming, pooled, and small (GW-13, GW-16).

Decides which connection carries a request, and whether a request is sent a second time: only when a kept
connection was closed before any byte of the answer came. Does not follow redirects, decompress, or speak
anything but HTTP/1.1; does not choose the upstream.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from hostler.gateway.upstream_answer import Response
from hostler.gateway.upstream_dial import CONNECT_S, LOCAL_CONNECT_S, dial, is_forbidden, is_loopback
from hostler.gateway.upstream_link import Link
from hostler.gateway.upstream_wire import (
    DEFAULT_SILENCE_S,
    Address,
    BodyLengthMismatch,
    RequestHead,
    RequestRefused,
    StaleLink,
    UpstreamClosed,
    UpstreamDied,
    UpstreamError,
    UpstreamForbidden,
    UpstreamInvalid,
    UpstreamSilent,
    UpstreamUnreachable,
    encode_head,
)

__all__ = [
    "DEFAULT_SILENCE_S",
    "Address",
    "BodyLengthMismatch",
    "LinkStats",
    "RequestHead",
    "RequestRefused",
    "Response",
    "Upstream",
    "UpstreamClosed",
    "UpstreamDied",
    "UpstreamError",
    "UpstreamForbidden",
    "UpstreamInvalid",
    "UpstreamSilent",
    "UpstreamUnreachable",
    "is_forbidden",
]

IDLE_S = 3.0
"""Seconds a connection is kept idle. Many servers close theirs at 5 s; with the sweep we are done by 3.5."""

SWEEP_S = 0.5
"""Seconds between looks for connections idle too long, while there are any."""

MAX_IDLE = 256
"""Idle connections kept for one address; one more is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStats:
    """Connections to one address: kept for later, and carrying a request now."""

    idle: int
    active: int


class Upstream:
    """The client: one per process, used from one event loop; `close` it at the end."""

    __slots__ = ("_connect_s", "_idle_s", "_local_s", "_loop", "_sweep", "pools")

    def __init__(
        self,
        *,
        connect_s: float = CONNECT_S,
        local_connect_s: float = LOCAL_CONNECT_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._connect_s = connect_s
        self._local_s = local_connect_s
        self._idle_s = idle_s
        self._loop = asyncio.get_running_loop()
        self.pools: dict[Address, Pool] = {}
        self._sweep: asyncio.TimerHandle | None = None

    async def request(
        self, address: Address, head: RequestHead, body: bytes | AsyncIterator[bytes] = b""
    ) -> Response:
        """Send a request and return its answer as soon as the answer's head is here.

        Raises UpstreamUnreachable, UpstreamForbidden, UpstreamDied, UpstreamClosed, UpstreamInvalid,
        UpstreamSilent, RequestRefused, and what the body's iterator raises. A cancelled request aborts its
        connection. An iterator can be sent once only, so it goes out on a connection of its own.
        """
        pool = self.pools.get(address)
        if pool is None:
            pool = self.pools[address] = Pool(self)
        if isinstance(body, bytes):
            wire = encode_head(address, head, len(body))
            link = pool.take(self._loop.time() - self._idle_s)
            if link is not None:
                try:
                    return await link.begin(head, wire, body).started()
                except StaleLink:
                    pass  # No byte came: what was sent was never answered, so it is sent once more.
        else:
            wire = encode_head(address, head, head.length)
        link = await self._dialled(address, pool)
        return await link.begin(head, wire, body).started()

    def close_all(self, address: Address) -> int:
        """End every connection to `address`, idle and active: requests under way raise UpstreamClosed.

        Done before an engine is stopped: a llama-server does not end while a client reads from it. Returns
        how many ended. A request being dialled at this moment fails too.
        """
        pool = self.pools.pop(address, None)
        return pool.kill() if pool is not None else 0

    def close(self) -> None:
        """End every connection."""
        for address in list(self.pools):
            self.close_all(address)
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    def stats(self) -> dict[Address, LinkStats]:
        """Connections per address, for those that have any."""
        counts = {a: LinkStats(idle=len(p.idle), active=len(p.active)) for a, p in self.pools.items()}
        return {address: count for address, count in counts.items() if count.idle or count.active}

    async def _dialled(self, address: Address, pool: Pool) -> Link:
        """A new connection, unless `close_all` came in between."""
        patience = self._local_s if is_loopback(address) else self._connect_s
        link = await dial(address, lambda: Link(address, pool, self._loop), patience)
        if pool.is_killed:
            link.abort()
            raise UpstreamClosed(address, "the engine is being stopped")
        pool.active.add(link)
        return link

    def expect_idle(self) -> None:
        """A link became idle: look after it later."""
        if self._sweep is None:
            self._sweep = self._loop.call_later(SWEEP_S, self._sweep_idle)

    def _sweep_idle(self) -> None:
        """Close what is idle too long; look again while anything is idle."""
        self._sweep = None
        before = self._loop.time() - self._idle_s
        for pool in self.pools.values():
            pool.expire(before)
        if any(pool.idle for pool in self.pools.values()):
            self.expect_idle()


class Pool:
    """The connections of one address. `idle` is a stack: the one used last is used next, the rest expire."""

    __slots__ = ("_owner", "active", "idle", "is_killed")

    def __init__(self, owner: Upstream) -> None:
        self._owner = owner
        self.idle: list[Link] = []
        self.active: set[Link] = set()
        self.is_killed = False

    def take(self, idle_after: float) -> Link | None:
        """The link that became idle last, if that was after `idle_after` and it is still open."""
        while self.idle:
            link = self.idle.pop()
            if link.idle_since > idle_after and link.is_open:
                link.reused = True
                self.active.add(link)
                return link
            link.abort()
        return None

    def give_back(self, link: Link) -> None:
        """As `Home`."""
        self.active.discard(link)
        if self.is_killed or len(self.idle) >= MAX_IDLE:
            link.abort()
            return
        link.idle_since = link.loop.time()
        self.idle.append(link)
        self._owner.expect_idle()

    def forget(self, link: Link) -> None:
        """As `Home`."""
        self.active.discard(link)
        if link in self.idle:
            self.idle.remove(link)

    def expire(self, before: float) -> None:
        """Close links that became idle at or before the loop's time `before`."""
        for link in [link for link in self.idle if link.idle_since <= before]:
            link.abort()

    def kill(self) -> int:
        """Close all links, now and those still being dialled; returns how many there were."""
        self.is_killed = True
        links = [*self.idle, *self.active]
        for link in links:
            link.kill()
        return len(links)
