"""A request's body, taken in whole (GW-12).

Decides when a body is too large. What is in it is `body`'s to find.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hostler.domain.errors import LimitReached, TooLarge
from hostler.gateway.exchange import Exchange

MOST_HELD: Final = 256 << 20
"""Bytes of all bodies together that are held at once: the memory gate counts on what the box has left."""


class ClientGone(Exception):
    """The client closed its connection before the answer was whole."""


@dataclass(eq=False, slots=True)
class Hall:
    """What all bodies of a gateway hold together, bytes."""

    most: int = MOST_HELD
    held: int = 0


@dataclass(eq=False, slots=True)
class Seat:
    """What one request holds of the hall, until `leave`."""

    hall: Hall
    held: int = 0

    def take(self, size: int) -> None:
        """Hold `size` bytes more. Refuses `limit` when the hall is full."""
        if self.hall.held + size > self.hall.most:
            raise LimitReached(what="bytes of request bodies at once", limit=self.hall.most, retry_after=1)
        self.hall.held += size
        self.held += size

    def leave(self) -> None:
        """Hold nothing more."""
        self.hall.held -= self.held
        self.held = 0


def body_here(exchange: Exchange, limit: int, seat: Seat) -> bytes | None:
    """The whole body, where it came with its head: nearly always. Refuses as `read_body`."""
    body = exchange.take()
    if body is not None:
        if len(body) > limit:
            raise TooLarge(what="request body", limit=limit)
        seat.take(len(body))
    return body


async def read_body(exchange: Exchange, limit: int, declared: int | None, seat: Seat) -> bytes:
    """The whole request body. Refuses `too_large` before reading when its declared length says so.

    Refuses `limit` when all bodies together are too much. What comes byte by byte is kept as bytes, not as
    a million parts.
    """
    if declared is not None and declared > limit:
        raise TooLarge(what="request body", limit=limit)
    whole: bytes | bytearray = b""
    while True:
        part = await exchange.read()
        if part is None:
            raise ClientGone
        if len(whole) + len(part) > limit:
            raise TooLarge(what="request body", limit=limit)
        seat.take(len(part))
        if not exchange.more_body and not whole:
            return part
        whole = whole if isinstance(whole, bytearray) else bytearray()
        whole += part
        if not exchange.more_body:
            return bytes(whole)
