"""A request's body, taken in whole (GW-12).

Decides when a body is too large. What is in it is `body`'s to find.
"""

from __future__ import annotations

from hostler.domain.errors import TooLarge
from hostler.gateway.exchange import Receive


class ClientGone(Exception):
    """The client closed its connection before the answer was whole."""


async def read_body(receive: Receive, limit: int, declared: int | None) -> bytes:
    """The whole request body. Refuses `too_large` before reading when its declared length says so.

    What comes byte by byte is kept as bytes, not as a million parts.
    """
    if declared is not None and declared > limit:
        raise TooLarge(what="request body", limit=limit)
    whole: bytes | bytearray = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        if len(whole) + len(part) > limit:
            raise TooLarge(what="request body", limit=limit)
        if not whole:
            whole = bytearray(part) if more else part
        else:
            whole += part
    return bytes(whole)
