import asyncio
import json
import signal
import socket

import pytest

from hostler.gateway import limits as limits_module
from hostler.gateway.exchange import Receive, Scope, Send
from hostler.gateway.limits import MAX_PIPELINED, Door, Entry
from hostler.gateway.server import CutShort, Limits, make_server, on_hang_up
from tests.fakes.listening import echo, listening, part, read_all, start

GET = b"GET /a HTTP/1.1\r\nHost: crow.lan\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: crow.lan\r\n"
SOON = Limits(header_s=0.05, body_s=0.05, reserve_header_s=0.05)


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


async def test_idle_connection_is_closed() -> None:
    """SEC-3: a kept connection on which nothing is asked is closed after its time, not before."""
    async with listening(echo, Limits(keep_alive_s=1)) as server, asyncio.timeout(5):
        client = await server.connect()
        for _ in range(2):
            client.send(GET)
            assert (await client.answer())[0] == 200
        (connection,) = server.connections
        connection.timeout_keep_alive_handler()
        assert not connection.transport.is_closing()
        connection._idle_since -= 2  # noqa: SLF001 # as if 2 s went by
        connection.timeout_keep_alive_handler()
        assert await client.rest() == b""


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


async def test_slow_head() -> None:
    """SEC-3: a head that is not whole by its deadline is refused, on a new connection and on a kept one."""
    async with listening(echo, SOON) as server, asyncio.timeout(5):
        fresh = await server.connect()
        fresh.send(b"GET / HT")
        assert (await fresh.answer())[0] == 408
        assert await fresh.rest() == b""
        kept = await server.connect()
        kept.send(GET)
        assert (await kept.answer())[0] == 200
        kept.send(b"G")
        assert (await kept.answer())[0] == 408


async def test_silent_connection() -> None:
    """SEC-3: a connection without a request is closed at the deadline, without a word."""
    async with listening(echo, SOON) as server, asyncio.timeout(5):
        client = await server.connect()
        assert await client.rest() == b""
        client = await server.connect()
        client.send(GET)
        await client.answer()
        client.send(b"\r\n")
        assert await client.rest() == b""


async def test_slow_body() -> None:
    """SEC-3: a body that stops coming is refused at its deadline, and the application learns of it."""
    told = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if await read_all(receive) is None:
            told.set()

    async with listening(app, SOON) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(POST + b"Content-Length: 10\r\n\r\nabc")
        assert (await client.answer())[0] == 408
        assert await client.rest() == b""
        await told.wait()


async def test_steady_body_has_more_time() -> None:
    """SEC-3: a large body that keeps coming outlives the first deadline: time grows with what arrived."""
    limits = Limits(header_s=5, body_s=0.05, body_rate=100)
    read = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert len((await receive())["body"]) > 0
        read.set()
        await echo(scope, receive, send)

    async with listening(app, limits) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(POST + b"Content-Length: 2001\r\n\r\n")
        client.send(b"a")
        await read.wait()
        client.send(b"b" * 1000)
        (connection,) = server.connections
        while connection._received < 1000:  # noqa: ASYNC110, SLF001 # until the second part is counted
            await asyncio.sleep(0)
        connection._receiving_since -= 5  # noqa: SLF001 # as if 5 s went by: 1,000 bytes allow 10
        connection._late()  # noqa: SLF001
        client.send(b"c" * 1000)
        assert (await client.answer())[0] == 200


async def test_held_body_is_not_late() -> None:
    """SEC-3: a body is not late while we do not read it, nor before we asked for it with 100."""
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        await echo(scope, receive, send)

    async with listening(app, SOON) as server, asyncio.timeout(5):
        held = await server.connect()
        held.send(POST + b"Content-Length: 1000000\r\n\r\n" + b"a" * 300_000)
        asking = await server.connect()
        asking.send(POST + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n")
        fresh = await server.connect()
        fresh.send(b"G")
        assert (await fresh.answer())[0] == 408
        go.set()
        held.send(b"a" * 700_000)
        assert (await held.answer())[0] == 200
        assert await asking.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        asking.send(b"x")
        assert await asking.answer() == (200, b"POST /a x")


async def test_long_answers_have_no_deadline() -> None:
    """SEC-3: a streamed answer goes on after every deadline of its request has passed."""
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_all(receive)
        await send(start())
        await send(part(b"a", more=True))
        await go.wait()
        await send(part(b"b"))

    async with listening(app, SOON) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(POST + b"Content-Length: 1\r\n\r\nx")
        await client.head()
        assert await client.reader.readexactly(6) == b"1\r\na\r\n"
        fresh = await server.connect()
        assert await fresh.rest() == b""
        go.set()
        assert await client.reader.readexactly(11) == b"1\r\nb\r\n0\r\n\r\n"


async def test_refusal_before_the_body_can_be_read() -> None:
    """GW-12: an answer given before the body arrived is read by a client that sends on, then it closes."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(413, (b"content-length", b"3")))
        await send(part(b"big"))

    async with listening(app) as server, asyncio.timeout(10):
        client = await server.connect()
        client.send(POST + b"Content-Length: 20000000\r\n\r\n")
        for _ in range(200):
            client.send(b"a" * 100_000)
            await client.writer.drain()
        head = await client.head()
        assert head.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in head
        assert await client.rest() == b"big"


async def test_continue_is_sent_when_the_body_is_wanted() -> None:
    """GW-12: `Expect: 100-continue` is answered when the application asks for the body, not on a refusal."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/a":
            await echo(scope, receive, send)
        else:
            await send(start(503, (b"content-length", b"0")))
            await send(part(b""))

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await client.head() == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"ok")
        assert await client.answer() == (200, b"POST /a ok")
        client.send(POST.replace(b"/a", b"/b") + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await client.head()).startswith(b"HTTP/1.1 503 ")
        assert await client.rest() == b""


@pytest.mark.parametrize("body", [b"Content-Length: 5\r\n\r\nab", b"Content-Length: 2\r\n\r\nab"])
@pytest.mark.parametrize("way", ["receive", "callback"])
async def test_client_hangs_up(body: bytes, way: str) -> None:
    """GW-9: a client that leaves is told of to the application, amid its body and before the first byte."""
    arrived = asyncio.Event()
    told = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        arrived.set()
        if way == "callback":
            assert on_hang_up(scope, told.set)
            await told.wait()
        while (await receive())["type"] != "http.disconnect":
            pass
        told.set()
        await send(start())

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(POST + body)
        await arrived.wait()
        client.close()
        await told.wait()


async def test_hang_up_behind_a_pipelined_request() -> None:
    """GW-9: a client that sent a second request and leaves is told of to the first one's application."""
    told = asyncio.Event()
    arrived = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        on_hang_up(scope, told.set)
        arrived.set()
        await told.wait()

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET + GET)
        await arrived.wait()
        client.close()
        await told.wait()


async def test_hang_up_that_was() -> None:
    """GW-9: who asks after the client left is told at once; under another server it is told so."""
    told = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        assert on_hang_up(scope, told.set)

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET)
        client.close()
        await told.wait()
    assert not on_hang_up({}, told.set)


async def test_slow_reader() -> None:
    """GW-13: the application is held while its client does not read; memory holds two parts at most."""
    sent = 0
    total = 400

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send(start())
        for n in range(total):
            await send(part(b"a" * 65536, more=n < total - 1))
            sent += 1

    async with listening(app) as server, asyncio.timeout(20):
        client = await server.connect()
        client.send(GET)
        await client.head()
        (connection,) = server.connections
        while not connection.flow.write_paused:  # noqa: ASYNC110 # uvicorn's flow control has no such event
            await asyncio.sleep(0)
        held_at = sent
        for _ in range(50):
            await asyncio.sleep(0)
        assert sent <= held_at + 1 < total
        assert connection.transport.get_write_buffer_size() < 4 * 65536
        size = 0
        while not (await client.reader.read(1 << 20)).endswith(b"0\r\n\r\n"):
            size += 1
        assert sent == total


async def test_head_before_the_body() -> None:
    """GW-13: an answer's head is passed on at once, however long its first byte takes."""
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start())
        await go.wait()
        await send(part(b"a"))

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET)
        assert (await client.head()).startswith(b"HTTP/1.1 200 OK\r\n")
        go.set()
        assert await client.reader.readexactly(11) == b"1\r\na\r\n0\r\n\r\n"


async def test_unread_body_is_held() -> None:
    """GW-13: a body that the application does not read yet is not taken into memory whole."""
    go = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await go.wait()
        await echo(scope, receive, send)

    async with listening(app) as server, asyncio.timeout(10):
        client = await server.connect()
        client.send(POST + b"Content-Length: 8000000\r\n\r\n" + b"a" * 8_000_000)
        (connection,) = await server.held()
        while not connection.flow.read_paused:  # noqa: ASYNC110 # uvicorn's flow control has no such event
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(connection.cycle.body) <= 65536 + 256 * 1024
        go.set()
        status, body = await client.answer()
        assert (status, len(body)) == (200, 8_000_008)


async def test_http_1_0() -> None:
    """GW-13: a client of HTTP/1.0 gets no chunks: the connection's end is the answer's."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, (b"x", b"y")))
        await send(part(b"ab", more=True))
        await send(part(b"cd"))

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert await client.rest() == b"HTTP/1.1 200 OK\r\nx: y\r\ndate: now\r\nconnection: close\r\n\r\nabcd"


@pytest.mark.parametrize("length", [None, b"9"])
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("how", ["cut", "bug", "return"])
async def test_cut_answer(
    length: bytes | None, version: bytes, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """GW-14: an answer that its application leaves unfinished never looks whole to the client."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start(200, *([(b"content-length", length)] if length else [])))
        await send(part(b"half", more=True))
        if how == "cut":
            raise CutShort
        if how == "bug":
            raise LookupError("a bug")

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(b"GET / HTTP/%b\r\nHost: a\r\n\r\n" % version)
        if version == b"1.0" and not length:
            with pytest.raises(ConnectionResetError):
                await client.rest()
        else:
            got = await client.rest()
            assert not got.endswith(b"0\r\n\r\n")
            assert got.split(b"\r\n\r\n", 1)[1] == (b"half" if length else b"4\r\nhalf\r\n")
    assert bool(caplog.records) == (how != "cut")


@pytest.mark.parametrize("how", ["bug", "return", "header", "status"])
async def test_application_fails(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-3: an application that fails before its answer is logged; its client is told nothing of it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if how == "bug":
            raise LookupError("secret")
        if how == "header":
            await send(start(200, (b"x", b"1\r\nset-cookie: evil=1")))
        if how == "status":
            await send(start(99))

    async with listening(app) as server:
        status, body = await server.ask(GET)
    assert status == 500
    assert json.loads(body)["error"]["code"] == "internal"
    assert b"secret" not in body
    assert len(caplog.records) == 1


async def test_head_request() -> None:
    """GW-13: an answer to HEAD keeps its length and has no body, and the connection goes on."""
    async with listening(echo) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
        assert b"content-length: 8\r\n" in await client.head()
        assert await client.answer() == (200, b"GET /a ")


async def test_headers_of_an_answer() -> None:
    """GW-11: an answer's headers keep order, case and duplicates; a date is added where there is none."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        own = [
            (b"Set-Cookie", b"a=1"),
            (b"Date", b"then"),
            (b"Set-Cookie", b"b=2"),
            (b"Transfer-Encoding", b"x"),
        ]
        await send(start(299, *own))
        await send(part(b""))

    async with listening(app) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET)
        assert await client.head() == (
            b"HTTP/1.1 299 \r\nSet-Cookie: a=1\r\nDate: then\r\nSet-Cookie: b=2\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )


async def test_no_delay() -> None:
    """GW-13: TCP_NODELAY is set on accepted connections, also when the listening socket was inherited."""
    async with listening(echo) as server:
        await server.ask(GET)
        (connection,) = server.connections
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_connection_caps() -> None:
    """SEC-3: past the cap only control requests are answered, from the reserve; past the reserve nothing."""
    limits = Limits(max_connections=3, reserve=2)
    async with (
        listening(echo, limits, lambda path: path.startswith("/gateway/")) as server,
        asyncio.timeout(5),
    ):
        held = [await server.connect() for _ in range(3)]
        for client in held:
            client.send(GET)
            assert (await client.answer())[0] == 200
        status, body = await server.ask(GET)
        assert (status, json.loads(body)["error"]["code"]) == (503, "limit")
        control = await server.connect()
        control.send(GET.replace(b"/a", b"/gateway/status"))
        assert (await control.answer())[0] == 200
        assert await control.rest() == b""
        while len(server.connections) > 3:  # until the server saw both leave
            for client in server.clients[3:]:
                client.close()
            await asyncio.sleep(0)
        spare = [await server.connect() for _ in range(2)]
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await server.ask(GET)
        for client in spare:
            client.close()
        held[0].close()
        while len(server.connections) > 2:  # noqa: ASYNC110 # until the server saw them leave
            await asyncio.sleep(0)
        assert (await server.ask(GET))[0] == 200


async def test_reserve_is_not_held() -> None:
    """SEC-3: who is let in on the reserve has less time for a head, so that slow ones cannot hold it."""
    limits = Limits(header_s=60, max_connections=0, reserve=1, reserve_header_s=0.05)
    async with listening(echo, limits) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(b"GET /gate")
        assert (await client.answer())[0] == 408


def test_cap_per_client() -> None:
    """SEC-3: one address has its own cap; this host's own addresses and Unix sockets have none."""
    door = Door(Limits(per_client=2), lambda _: False)
    assert [door.enter("10.99.0.7") for _ in range(3)] == [Entry.OPEN, Entry.OPEN, Entry.CLIENT_FULL]
    assert door.enter("10.99.0.8") is Entry.OPEN
    own = ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1", None] * 3
    assert {door.enter(client) for client in own} == {Entry.OPEN}
    door.leave("10.99.0.7")
    door.leave("10.99.0.7")
    assert door.enter("10.99.0.7") is Entry.OPEN
    assert door.total == 3 + 1 + 15 - 2 + 1


async def test_client_over_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-3: a connection over its address's cap is told so at once, and closed."""
    monkeypatch.setattr(limits_module, "_is_own", lambda _: False)
    async with listening(echo, Limits(per_client=1, reserve_header_s=0.05)) as server, asyncio.timeout(5):
        first = await server.connect()
        first.send(GET)
        assert (await first.answer())[0] == 200
        second = await server.connect()
        status, body = await second.answer()
        assert (status, json.loads(body)["error"]["code"]) == (429, "rate_limited")
        assert await second.rest() == b""


async def test_slow_connections_do_not_slow_others() -> None:
    """SEC-3: with 300 connections that drip their heads, requests are answered."""
    async with listening(echo) as server, asyncio.timeout(20):
        for _ in range(300):
            (await server.connect()).send(b"GET / HTTP/1.1\r\nX")
        assert (await server.ask(GET))[0] == 200


async def test_endless_trailers() -> None:
    """SEC-3: trailers or chunk extensions without end are refused: they complete nothing."""
    async with listening(echo) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 400_000)
        assert (await client.answer())[0] == 400


async def test_many_requests_are_not_quiet() -> None:
    """SEC-3: the bound on bytes that complete nothing does not count whole requests, large ones included."""
    async with listening(echo) as server, asyncio.timeout(10):
        client = await server.connect()
        for _ in range(5):
            client.send(POST + b"X: " + b"a" * 30_000 + b"\r\nContent-Length: 90000\r\n\r\n" + b"a" * 90_000)
            assert (await client.answer())[0] == 200


async def test_server_runs_and_stops() -> None:
    """REL-5: the server stops when told, after the answer under way, and leaves signals to the daemon."""
    go = asyncio.Event()
    arrived = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        arrived.set()
        await go.wait()
        await echo(scope, receive, send)

    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    server = make_server(app)
    before = signal.getsignal(signal.SIGTERM)
    async with asyncio.timeout(10):
        task = asyncio.create_task(server.serve(sockets=[sock]))
        reader, writer = await asyncio.open_connection(*sock.getsockname())
        writer.write(GET)
        await arrived.wait()
        assert signal.getsignal(signal.SIGTERM) is before
        server.should_exit = True
        go.set()
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        assert await reader.read() == b"GET /a "
        await task
        writer.close()
