"""What our upstream client takes and what it raises: addresses, request heads, and its own errors.

Decides the bytes of a request's head and which heads are refused. Does not connect and keeps no state:
connections are `upstream_link`, dialling is `upstream_dial`, the pool is `upstream`. The errors here are
foreign to the rest of the product; the gateway turns them into refusals at the seam, once.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

MAX_HEAD_BYTES = 64 * 1024
"""The most bytes of an answer's status line and headers, interim (1xx) answers counted in."""

MAX_HEADERS = 200
"""The most header fields of one answer."""

MAX_INTERIM = 20
"""The most interim (1xx) answers before the real one: each is a byte that resets the silence limit."""

HIGH_WATER = 256 * 1024
"""Bytes of an answer that wait for a slow reader before reading from the upstream is paused."""

DEFAULT_SILENCE_S = 300.0
"""Seconds without a byte from the upstream, when a request does not say otherwise."""

_BODYLESS = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"TRACE"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an upstream listens: `host` and `port`, or the path of a Unix socket in `unix` (GW-16).

    `tls` is the context to speak TLS with, None for plain. `name` is sent as `Host` (and as the TLS server
    name); without it that is `host`, with the port unless it is the scheme's own.
    """

    host: str = ""
    port: int = 0
    unix: str | None = None
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    name: str | None = None
    foreign: bool = False
    """Another node told it: it never leads to this machine, whatever its name means here (SYNC-6)."""
    authority: bytes = field(init=False, repr=False, compare=False, default=b"")

    def __str__(self) -> str:
        """The address as a person would write it."""
        if self.unix is not None:
            return f"unix:{self.unix}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", self._authority())
        parts = (self.host, self.port, self.unix, self.tls, self.name, self.foreign)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        """Made once: each request looks its pool up."""
        return self._hash

    def _authority(self) -> bytes:
        """The value of the `Host` header for this address."""
        if self.name is not None:
            return _ascii(self.name)
        if self.unix is not None:
            return b"localhost"
        usual = 443 if self.tls is not None else 80
        named = _ascii(f"[{self.host}]" if ":" in self.host else self.host)
        return named if self.port == usual else b"%s:%d" % (named, self.port)


def _ascii(name: str) -> bytes:
    """A host name as it stands in a header; one beyond ASCII in its IDNA form."""
    return name.encode("ascii" if name.isascii() else "idna")


@dataclass(eq=False, slots=True, kw_only=True)
class RequestHead:
    """The head of a request, not to be changed once it was sent: it may be sent again.

    Its headers go out in this order, after a `Host` of the address's own. `headers` holds no framing
    (`content-length`, `transfer-encoding`), no `host`, no `connection`: the client writes those. `length` is
    the size in bytes of a body that comes as an iterator, None when unknown (it is then sent chunked).
    `silence_s` is how many seconds without a byte end the request, None for no limit.
    """

    method: bytes
    target: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()
    length: int | None = None
    silence_s: float | None = DEFAULT_SILENCE_S
    _begun: tuple[Address, bytes] | None = field(init=False, repr=False, default=None)

    def begun(self, address: Address) -> bytes:
        """Its bytes for `address`, but for the framing; made once. Raises RequestRefused."""
        if self._begun is None or self._begun[0] is not address:
            self._begun = (address, _begun(address, self))
        return self._begun[1]


class UpstreamError(Exception):
    """The upstream gave no whole, valid answer. `address` says who, `reason` why, in one clause."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class UpstreamUnreachable(UpstreamError):
    """No connection was made: the name is unknown, nothing listens, TLS failed, or it took too long."""


class UpstreamForbidden(UpstreamError):
    """The address is one that is never spoken to: a cloud's metadata service (GW-16)."""


class UpstreamDied(UpstreamError):
    """The connection ended before the answer was whole."""


class UpstreamClosed(UpstreamDied):
    """We ended the connection ourselves, with `close_all`: its engine is being stopped."""


class UpstreamInvalid(UpstreamError):
    """The answer is no HTTP/1.1 that we accept: ambiguous framing, a head past its bounds, garbage."""


class UpstreamSilent(UpstreamError):
    """No byte came from the upstream for the request's `silence_s`."""


class StaleLink(UpstreamDied):
    """A kept connection ended before any byte of the answer: inside the client, the sign to try once more."""


class RequestRefused(ValueError):
    """The caller's head cannot be put on the wire: a line break or NUL in it would make another request."""


class BodyLengthMismatch(Exception):
    """An iterator gave more or fewer bytes than the head's `length` said; the connection was aborted."""


def encode_head(address: Address, head: RequestHead, size: int | None) -> bytes:
    """The bytes of `head`, with `Host` first and the framing last; `size` None means chunked.

    Raises RequestRefused when a part holds CR, LF, or NUL: each line end in the result is one we wrote.
    """
    begun = head.begun(address)
    if size is None:
        return begun + b"transfer-encoding: chunked\r\n\r\n"
    if size or head.method not in _BODYLESS:
        return b"%bcontent-length: %d\r\n\r\n" % (begun, size)
    return begun + b"\r\n"


def _begun(address: Address, head: RequestHead) -> bytes:
    """The request line, `Host`, and the headers."""
    if b" " in head.target or b" " in head.method:
        raise RequestRefused("the method or the target holds a space")
    parts = [head.method, b" ", head.target, b" HTTP/1.1\r\nhost: ", address.authority, b"\r\n"]
    for name, value in head.headers:
        parts += (name, b": ", value, b"\r\n")
    wire = b"".join(parts)
    lines = 2 + len(head.headers)
    if wire.count(b"\n") != lines or wire.count(b"\r") != lines or b"\0" in wire:
        raise RequestRefused("a header, the method or the target holds a line break or NUL")
    return wire
