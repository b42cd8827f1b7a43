"""Two things that asyncio's transports do not do by themselves.

Decides nothing: `server_protocol` and `exchange` say when.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

_INET = (socket.AF_INET, socket.AF_INET6)


def send_at_once(transport: asyncio.BaseTransport) -> None:
    """Set TCP_NODELAY: without it a chunk may wait 42 ms for the one before to be acknowledged (GW-13).

    asyncio sets it only where the listening socket was made with IPPROTO_TCP, so not on an inherited one.
    """
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None and sock.family in _INET:
        with contextlib.suppress(OSError):  # the client is gone already, of which the transport will tell
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def reset(transport: asyncio.Transport) -> None:
    """End a connection with a reset (RST), which no reader can take for the end of an answer."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None and sock.family in _INET:
        with contextlib.suppress(OSError):  # as above
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
