"""How much a client may cost before its request is known, and what it is told when it is too much (SEC-3).

Decides bounds, who may connect, and what is said to those who may not. Does no input or output: `server`
applies it.
"""

from __future__ import annotations

import functools
import ipaddress
import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes of a request line and its headers."""

MAX_HEADERS = 200
"""The most header fields of a request."""

MAX_PIPELINED = 8
"""Requests that may wait behind the one under way on one connection; hardly a client sends any."""

LINGER_S = 10.0
"""Seconds that a refused client gets to read our answer while what it still sends is thrown away."""

LINGER_BYTES = 64 * 1024 * 1024
"""The most bytes thrown away in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the listening side. Seconds and bytes.

    A request's head has `header_s` from its first byte (a new connection's from the start). Its body has
    `body_s`, plus a second for every `body_rate` bytes that arrived: 20 MB may take 30 + 320 s. That counts
    only while we are ready to receive; an answer has no limit. `max_connections` in all and `per_client` for
    one address other than this host's own; `reserve` more are for control paths only.
    """

    header_s: float = 10.0
    body_s: float = 30.0
    body_rate: int = 64 * 1024
    keep_alive_s: int = 75
    max_connections: int = 4096
    per_client: int = 512
    reserve: int = 64
    reserve_header_s: float = 2.0


class Trouble(Enum):
    """Why a connection ends before the application had its say: status, code, and text."""

    BAD_REQUEST = (400, "invalid_request", "This is no valid HTTP/1.1 request.")
    AMBIGUOUS = (400, "invalid_request", "The request's length is stated in more than one way.")
    HOST = (400, "invalid_request", "A request needs exactly one valid Host header.")
    TARGET = (400, "invalid_request", "The request's target must be a path, or name the same host as Host.")
    CONNECT = (405, "method_not_allowed", "This is no proxy: CONNECT is not served.")
    HEAD_LATE = (408, "invalid_request", "The request's headers did not arrive in time.")
    BODY_LATE = (408, "invalid_request", "The request's body did not arrive in time.")
    HEAD_TOO_LARGE = (
        431,
        "invalid_request",
        f"The request's headers are over {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} fields.",
    )
    CLIENT_FULL = (429, "rate_limited", "Too many connections from this address.")
    FULL = (503, "limit", "Too many connections: only control requests are answered now.")

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.value[0]

    @property
    def code(self) -> str:
        """The refusal's code, as in the one table of refusals."""
        return self.value[1]

    @property
    def text(self) -> str:
        """One sentence for people."""
        return self.value[2]

    def body(self) -> bytes:
        """The JSON that clients of OpenAI read."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        error = {"message": self.text, "type": kind, "param": None, "code": self.code}
        return json.dumps({"error": error}).encode()

    def wire(self) -> bytes:
        """The whole answer, after which the connection closes. Retry-After where waiting helps."""
        body = self.body()
        retry = b"retry-after: 1\r\n" if self.status in (429, 503) else b""
        return b"".join(
            (
                b"HTTP/1.1 %d %b\r\n" % (self.status, _PHRASES[self.status]),
                b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body),
                retry,
                b"connection: close\r\n\r\n",
                body,
            )
        )


_PHRASES = {
    400: b"Bad Request",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class Entry(Enum):
    """What the door says to a new connection."""

    OPEN = auto()
    """Come in."""
    RESERVE = auto()
    """Come in for a control request only."""
    CLIENT_FULL = auto()
    """This address has enough connections."""
    SHUT = auto()
    """Not even the reserve has room."""


class Door:
    """Counts connections, in all and per address. One per server."""

    __slots__ = ("_limits", "_of_client", "is_control", "total")

    def __init__(self, limits: Limits, is_control: Callable[[str], bool]) -> None:
        self.total = 0
        self.is_control = is_control
        self._limits = limits
        self._of_client: dict[str, int] = {}

    def enter(self, client: str | None) -> Entry:
        """A connection from `client` (an address, None: a Unix socket) was made; counted until `leave`."""
        self.total += 1
        limits = self._limits
        if client is not None and not _is_own(client):
            self._of_client[client] = self._of_client.get(client, 0) + 1
            if self._of_client[client] > limits.per_client:
                return Entry.CLIENT_FULL
        if self.total <= limits.max_connections:
            return Entry.OPEN
        return Entry.RESERVE if self.total <= limits.max_connections + limits.reserve else Entry.SHUT

    def leave(self, client: str | None) -> None:
        """A connection that entered is over."""
        self.total -= 1
        if client in self._of_client:
            self._of_client[client] -= 1
            if not self._of_client[client]:
                del self._of_client[client]


@functools.lru_cache(maxsize=1024)
def _is_own(client: str) -> bool:
    """Whether an address is this host's loopback: services behind it are many, and share one address."""
    try:
        ip = ipaddress.ip_address(client.partition("%")[0])
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return ip.is_loopback or (mapped is not None and mapped.is_loopback)
