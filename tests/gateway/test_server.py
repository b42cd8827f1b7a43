import asyncio
import json

import pytest

from hostler.gateway.asgi import Receive, Scope, Send
from hostler.gateway.limits import MAX_PIPELINED
from tests.fakes.listening import GET, POST, echo, listening, part, start

SAME = [("POST", "/a", "1")] * 3 + [
    ("PUT", "/a", "1"),
    ("PUT", "/b", "1"),
    ("PUT", "/b", "2"),
    ("PUT", "/b", "2"),
]


async def test_request_and_answer() -> None:
    """GW-11: a request reaches the application as it came: path, query, header order, body."""
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await echo(scope, receive, send)

    async with listening(app) as server:
        head = b"POST /v1/%C3%A9?a=%20b HTTP/1.1\r\nHost: crow.lan\r\nX-A: 1\r\nx-b: 2\r\nX-A: 3\r\n"
        assert await server.ask(head + b"Content-Length: 2\r\n\r\n{}") == (200, "POST /v1/é {}".encode())
    scope = seen[0]
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/v1/é", b"/v1/%C3%A9", b"a=%20b")
    assert scope["headers"] == [
        (b"host", b"crow.lan"),
        (b"x-a", b"1"),
        (b"x-b", b"2"),
        (b"x-a", b"3"),
        (b"content-length", b"2"),
    ]


async def test_nearly_the_same_again() -> None:
    """GW-11: requests in a row that differ in method, target or one header are each read as they are."""
    seen: list[tuple[str, str, bytes]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["method"], scope["path"], dict(scope["headers"]).get(b"x", b"")))
        await echo(scope, receive, send)

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        for method, path, x in SAME:
            client.send(
                f"{method} {path} HTTP/1.1\r\nHost: a\r\nX: {x}\r\nContent-Length: 1\r\n\r\nb".encode()
            )
            assert (await client.answer())[0] == 200
    assert seen == [(method, path, x.encode()) for method, path, x in SAME]


async def test_the_same_again_before_the_answer() -> None:
    """GW-13: who says the same again before the answer to the one before waits for its turn."""
    go, begun = asyncio.Event(), asyncio.Event()
    under_way = most = asked = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal under_way, most, asked
        under_way, asked = under_way + 1, asked + 1
        most = max(most, under_way)
        if asked == 3:
            begun.set()
            await go.wait()
        await echo(scope, receive, send)
        under_way -= 1

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        same = POST + b"Content-Length: 1\r\n\r\n%d"
        for n in (1, 2):
            client.send(same % n)
            assert await client.answer() == (200, b"POST /a %d" % n)
        client.send(same % 3)
        await begun.wait()
        client.send(same % 4)
        (connection,) = server.connections
        while connection.cycle.body != b"4":  # noqa: ASYNC110 # what arrived has no event
            await asyncio.sleep(0)
        go.set()
        assert [await client.answer() for _ in range(2)] == [(200, b"POST /a 3"), (200, b"POST /a 4")]
        assert most == 1


async def test_kept_connection() -> None:
    """GW-16: one connection carries many requests, of any size, one after another."""
    async with listening(echo) as server, asyncio.timeout(10):
        client = await server.connect()
        for size in (0, 5, 70_000, 300_000, 300_000):
            client.send(POST + b"Content-Length: %d\r\n\r\n" % size + b"a" * size)
            assert await client.answer() == (200, b"POST /a " + b"a" * size)


async def test_body_in_chunks() -> None:
    """GW-12: a chunked body arrives whole, also in pieces of one byte."""
    async with listening(echo) as server, asyncio.timeout(10):
        client = await server.connect()
        for byte in POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 50 + b"0\r\n\r\n":
            client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await client.answer() == (200, b"POST /a " + b"a" * 50)


async def test_trailers_of_a_request() -> None:
    """SEC-3: trailers of a request do not become headers."""
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await echo(scope, receive, send)
        seen.append(scope)

    async with listening(app) as server:
        body = b"1\r\na\r\n0\r\nAuthorization: evil\r\nX-B: 2\r\n\r\n"
        await server.ask(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert seen[0]["headers"] == [(b"host", b"crow.lan"), (b"transfer-encoding", b"chunked")]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405),
        (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (POST + b"Content-Length: 1, 1\r\n\r\na", 400),
        (POST + b"Content-Length: +1\r\n\r\na", 400),
        (POST + b"Content-Length: 0x1\r\n\r\na", 400),
        (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"X: a\r\n folded\r\n\r\n", 400),
        (POST + b"X : a\r\n\r\n", 400),
        (POST + b"X: a\n\n", 400),
        (POST + b"X: a\rb\r\n\r\n", 400),
        (POST + b"X: a\0b\r\n\r\n", 400),
        (POST + b"X: 1\r\n" * 200 + b"\r\n", 431),
        (POST + b"X: " + b"a" * 66_000 + b"\r\n\r\n", 431),
        (POST + b"X: " + b"a" * 66_000, 431),
        (b"GET /" + b"a" * 66_000, 431),
        (b"GET /" + b"a" * 66_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
    ],
)
async def test_refused_requests(request_: bytes, status: int) -> None:
    """SEC-3: ambiguous, malformed and oversized requests get a readable error, and no application runs."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        pytest.fail("the application ran")

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(request_)
        got, body = await client.answer()
        assert got == status
        error = json.loads(body)["error"]
        assert error["message"].endswith(".")
        assert error["code"]
        assert await client.rest() == b""


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", b"GET / "),
        (b"GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", b"GET /a "),
        (b"GET /a HTTP/1.1\r\nHost:\r\n\r\n", b"GET /a "),
        (b"GET http://A:80/b?c HTTP/1.1\r\nHost: a:80\r\n\r\n", b"GET /b "),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", b"OPTIONS * "),
        (b"\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /a "),
        (POST + b"X: 1\r\n" * 198 + b"Content-Length: 1\r\n\r\nb", b"POST /a b"),
        (POST + b"Transfer-Encoding: Chunked\r\n\r\n1;ext=1\r\nb\r\n0\r\n\r\n", b"POST /a b"),
    ],
)
async def test_accepted_requests(request_: bytes, answer: bytes) -> None:
    """SEC-3: what is valid, if unusual, is served."""
    async with listening(echo) as server:
        assert await server.ask(request_) == (200, answer)


@pytest.mark.parametrize(
    "body", [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]
)
async def test_offer_of_http2(body: bytes) -> None:
    """GW-10: a request that offers HTTP/2 is served in HTTP/1.1 with its body, and its connection kept."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAM\r\nX-Z: 1\r\n"
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await echo(scope, receive, send)

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        for _ in range(2):
            client.send(POST + offer + body)
            assert await client.answer() == (200, b"POST /a abc")
    assert [name for name, _ in seen[0]["headers"]][:2] == [b"host", b"x-z"]


async def test_pipelining() -> None:
    """SEC-3: pipelined requests are answered in their order, each with its own body."""
    async with listening(echo) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(b"".join(POST + b"Content-Length: 1\r\n\r\n%d" % n for n in range(8)))
        for n in range(8):
            assert await client.answer() == (200, b"POST /a %d" % n)


async def test_oversized_head_behind_a_request() -> None:
    """SEC-3: a head past its bound is refused also when it came in one piece with the request before it."""
    async with listening(echo) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET + GET[:-2] + b"X: " + b"a" * 66_000 + b"\r\n\r\n")
        assert (await client.answer())[0] == 200
        assert (await client.answer())[0] == 431


async def test_too_much_pipelining() -> None:
    """SEC-3: more requests than may wait are refused after the answers before them."""
    async with listening(echo) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET * 100)
        for _ in range(MAX_PIPELINED + 1):
            assert (await client.answer())[0] == 200
        assert (await client.answer())[0] == 400
        assert await client.rest() == b""


async def test_bad_request_behind_an_answer() -> None:
    """SEC-3: a malformed request behind one being answered is refused after that answer, not within it."""
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, (b"content-length", b"4")))
        await send(part(b"ab", more=True))
        await go.wait()
        await send(part(b"cd"))

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET + b"BAD\r\n\r\n")
        await client.head()
        assert await client.reader.readexactly(2) == b"ab"
        go.set()
        assert await client.reader.readexactly(2) == b"cd"
        assert (await client.answer())[0] == 400
