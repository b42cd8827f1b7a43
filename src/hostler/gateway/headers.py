"""Which headers cross the gateway, in each direction (GW-11).

Decides what is dropped and what is added; order, duplicates, and values stay as they came. Does not write a
head: that is `upstream_wire` on the one side and `exchange` on the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

Headers = Sequence[tuple[bytes, bytes]]
"""Header fields in order, duplicates kept. A request's names are in lower case, as ASGI has them."""

HOP_HEADER = b"x-hostler-hop"
"""How many gateways passed a request on: the guard against loops (GW-11)."""

MAX_HOPS = 1
"""Gateway to gateway is the one hop there is (NODE-6); a second is refused with 508."""

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"trailers",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    )
)

_USUAL = frozenset((b"keep-alive", b"close", b""))

_CALLERS_KEY = frozenset((b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"))

_NOT_TO_UPSTREAM = _HOP_BY_HOP | _CALLERS_KEY | frozenset((b"host", b"content-length", b"expect", HOP_HEADER))

_EVENT_TYPES = (b"text/event-stream", b"application/x-ndjson", b"application/jsonl")


def to_upstream(
    headers: Headers, *, hop: int, added: Headers = (), own_cookies: frozenset[bytes] = frozenset()
) -> list[tuple[bytes, bytes]]:
    """A caller's headers as an upstream gets them, then `added` (the target's key), then the hop `hop`.

    Dropped: what belongs to the caller's connection, also what its `Connection` names; framing and `Host`,
    which the client writes itself; the caller's key; cookies named in `own_cookies`. What `added` brings
    replaces the caller's.
    """
    ours = {name for name, _ in added} if added else ()
    named: set[bytes] = set()
    kept: list[tuple[bytes, bytes]] = []
    for field in headers:
        name = field[0]
        if name in _NOT_TO_UPSTREAM or name in ours:
            if name == b"connection":
                named |= _tokens(field[1])
        elif name == b"cookie" and own_cookies:
            rest = _without(field[1], own_cookies)
            if rest:
                kept.append((name, rest))
        else:
            kept.append(field)
    if named:
        kept = [field for field in kept if field[0] not in named]
    kept += added
    kept.append((HOP_HEADER, b"%d" % hop))
    return kept


def to_caller(headers: Headers, *, streams: bool, added: Headers = ()) -> list[tuple[bytes, bytes]]:
    """An upstream's headers as the caller gets them, then `added` (`x-hostler-…`).

    With `streams` (see `is_stream`) there is no `Content-Length`, since an error frame may follow, and
    proxies are told not to buffer or cache, unless the upstream said something on that itself. What `added`
    brings replaces theirs: a gateway of another host names itself, too (NODE-6).
    """
    ours = {name for name, _ in added} if added else ()
    named: set[bytes] = set()
    kept: list[tuple[bytes, bytes]] = []
    buffering = caching = False
    for field in headers:
        name = field[0].lower()
        if name in _HOP_BY_HOP or (streams and name == b"content-length"):
            if name == b"connection":
                named |= _tokens(field[1])
            continue
        if name in ours:
            continue
        kept.append(field)
        if streams:
            buffering = buffering or name == b"x-accel-buffering"
            caching = caching or name == b"cache-control"
    if named:
        kept = [field for field in kept if field[0].lower() not in named]
    if streams and not buffering:
        kept.append((b"x-accel-buffering", b"no"))
    if streams and not caching:
        kept.append((b"cache-control", b"no-cache"))
    kept += added
    return kept


def with_length(headers: Headers, length: int | None) -> list[tuple[bytes, bytes]]:
    """The headers of an answer whose body has another length than theirs; None: one not known beforehand."""
    kept = [field for field in headers if field[0].lower() != b"content-length"]
    if length is not None:
        at = next((n for n, field in enumerate(headers) if field[0].lower() == b"content-length"), len(kept))
        kept.insert(at, (b"Content-Length", b"%d" % length))
    return kept


def first(headers: Headers, name: bytes) -> bytes | None:
    """The first value of `name` (in lower case), None without one."""
    return next((value for key, value in headers if key.lower() == name), None)


def hops(headers: Headers) -> int:
    """How many gateways passed this request on; what is no number counts as one too many."""
    values = [value.strip() for name, value in headers if name == HOP_HEADER]
    if not values:
        return 0
    if len(values) > 1 or not values[0].isdigit() or len(values[0]) > 2:
        return MAX_HOPS + 1
    return int(values[0])


@functools.lru_cache(maxsize=64)
def is_stream(content_type: bytes) -> bool:
    """Whether an answer of this `Content-Type` is a stream of events or lines."""
    return _kind(content_type) in _EVENT_TYPES


@functools.lru_cache(maxsize=64)
def is_json(content_type: bytes) -> bool:
    """Whether an answer of this `Content-Type` is JSON, or a stream of it."""
    return _kind(content_type) in (b"application/json", *_EVENT_TYPES)


def _kind(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()


def is_plain(content_encoding: bytes) -> bool:
    """Whether the bytes of an answer are text as such: a frame of ours may follow them only then."""
    return not content_encoding or content_encoding.strip().lower() in (b"", b"identity")


def _tokens(connection: bytes) -> frozenset[bytes]:
    """What a `Connection` field names, in lower case: it belongs to the connection too (RFC 9110, 7.6.1)."""
    return frozenset(token.strip().lower() for token in connection.split(b",")) - _USUAL


def _without(cookie: bytes, names: frozenset[bytes]) -> bytes:
    """A `Cookie` value without the cookies of these names; as it came when it has none of them."""
    pairs = cookie.split(b";")
    kept = [pair for pair in pairs if pair.partition(b"=")[0].strip() not in names]
    return cookie if len(kept) == len(pairs) else b";".join(kept).strip()
