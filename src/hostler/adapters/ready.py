"""Tells systemd that the daemon serves (`Type=notify`), by the socket that it gave it."""

from __future__ import annotations

import socket
from collections.abc import Mapping

READY = b"READY=1"


def tell_ready(env: Mapping[str, str]) -> None:
    """One datagram to $NOTIFY_SOCKET; nothing where there is none. Raises OSError when it does not arrive."""
    path = env.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # A leading @ stands for the null of a name that is not in the file system.
    place = f"\0{path[1:]}" if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(place)
        sock.send(READY)
