import pytest

from hostler.gateway.headers import MAX_HOPS, hops, is_plain, is_stream, to_caller, to_upstream

HOP = (b"x-hostler-hop", b"1")


def test_request_headers_stay() -> None:
    """GW-11: a caller's headers reach the upstream in order, with duplicates and values as they came."""
    headers = [
        (b"accept", b"*/*"),
        (b"x-a", b"1 "),
        (b"x-b", b""),
        (b"x-a", b"2"),
        (b"accept-encoding", b"gzip"),
    ]
    assert to_upstream(headers, hop=1) == [*headers, HOP]


@pytest.mark.parametrize(
    "name",
    [
        b"connection",
        b"keep-alive",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
        b"host",
        b"content-length",
        b"expect",
        b"authorization",
        b"x-api-key",
        b"api-key",
        b"x-goog-api-key",
        b"x-hostler-hop",
    ],
)
def test_what_no_upstream_gets(name: bytes) -> None:
    """GW-11: what belongs to the caller's connection, and the caller's key, is never forwarded."""
    assert to_upstream([(name, b"x"), (b"a", b"b")], hop=1) == [(b"a", b"b"), HOP]


def test_named_in_connection() -> None:
    """GW-11: headers that `Connection` names are dropped in both directions, whatever their case."""
    headers = [
        (b"connection", b"close, X-Secret"),
        (b"x-secret", b"1"),
        (b"connection", b"x-b"),
        (b"x-b", b"2"),
    ]
    assert to_upstream([*headers, (b"x-c", b"3")], hop=1) == [(b"x-c", b"3"), HOP]
    answer = [(b"X-Secret", b"1"), (b"Connection", b"x-secret"), (b"X-C", b"3")]
    assert to_caller(answer, streams=False) == [(b"X-C", b"3")]


def test_targets_key() -> None:
    """GW-11: the target's key is added, and takes the place of what the caller sent under that name."""
    headers = [(b"authorization", b"Bearer callers"), (b"x-tag", b"callers"), (b"a", b"b")]
    added = [(b"authorization", b"Bearer targets"), (b"x-tag", b"targets")]
    assert to_upstream(headers, hop=2, added=added) == [(b"a", b"b"), *added, (b"x-hostler-hop", b"2")]


@pytest.mark.parametrize(
    ("cookie", "kept"),
    [
        (b"a=1; ours=secret; b=2", b"a=1; b=2"),
        (b"ours=secret", None),
        (b"ours=secret;a=1", b"a=1"),
        (b"a=ours ;b=2 ", b"a=ours ;b=2 "),
    ],
)
def test_own_cookie(cookie: bytes, kept: bytes | None) -> None:
    """GW-11: a cookie of ours is not forwarded; others in the same header are, as they came."""
    expected = [(b"cookie", kept)] if kept is not None else []
    assert to_upstream([(b"cookie", cookie)], hop=1, own_cookies=frozenset((b"ours",))) == [*expected, HOP]


def test_answer_headers_stay() -> None:
    """GW-11: two Set-Cookie stay two; gzip, Retry-After and the length stay what they are."""
    headers = [
        (b"Set-Cookie", b"a=1"),
        (b"Content-Encoding", b"gzip"),
        (b"Set-Cookie", b"b=2"),
        (b"Retry-After", b"7"),
        (b"Content-Length", b"5"),
    ]
    added = [(b"x-hostler-route", b"chat")]
    assert to_caller(headers, streams=False, added=added) == headers + added


def test_what_no_caller_gets() -> None:
    """GW-11: an answer's hop-by-hop headers stay behind, the announcement of trailers among them."""
    dropped = [
        b"Connection",
        b"Keep-Alive",
        b"Transfer-Encoding",
        b"Trailer",
        b"Upgrade",
        b"Proxy-Authenticate",
    ]
    assert to_caller([(name, b"x") for name in dropped] + [(b"A", b"b")], streams=False) == [(b"A", b"b")]


def test_streams_are_not_buffered() -> None:
    """GW-11: a stream carries X-Accel-Buffering and Cache-Control, and no length; an upstream's own stay."""
    kind = (b"Content-Type", b"text/event-stream")
    assert to_caller([kind, (b"Content-Length", b"9")], streams=True) == [
        kind,
        (b"x-accel-buffering", b"no"),
        (b"cache-control", b"no-cache"),
    ]
    own = [kind, (b"X-Accel-Buffering", b"yes"), (b"Cache-Control", b"no-store")]
    assert to_caller(own, streams=True) == own


@pytest.mark.parametrize(
    ("kind", "streams"),
    [
        (b"text/event-stream", True),
        (b"Text/Event-Stream; charset=utf-8", True),
        (b"application/x-ndjson", True),
        (b"application/json", False),
        (b"text/event-streams", False),
    ],
)
def test_is_stream(kind: bytes, streams: bool) -> None:
    """GW-6: what a stream is, is told by the answer's type."""
    assert is_stream(kind) is streams
    assert not is_stream(b"")


def test_is_plain() -> None:
    """GW-14: a frame of ours may follow plain bytes only, never compressed ones."""
    assert is_plain(b"")
    assert is_plain(b" Identity")
    assert not is_plain(b"gzip")


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([], 0),
        ([b"0"], 0),
        ([b"1"], 1),
        ([b" 2"], 2),
        ([b"x"], 2),
        ([b"-1"], 2),
        ([b"1", b"1"], 2),
        ([b"9" * 9], 2),
    ],
)
def test_hops(values: list[bytes], count: int) -> None:
    """GW-11: the loop guard counts gateways; what it cannot read is one too many."""
    assert hops([(b"x-hostler-hop", value) for value in values]) == count
    assert MAX_HOPS == 1
