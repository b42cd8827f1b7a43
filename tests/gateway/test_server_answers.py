import asyncio
import json
import signal
import socket

import pytest

from hostler.gateway.asgi import Receive, Scope, Send, adapted
from hostler.gateway.exchange import Exchange
from hostler.gateway.server import CutShort, make_server
from tests.fakes.listening import GET, POST, answering, echo, listening, part, start


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


BODIES = [b"Content-Length: 5\r\n\r\nab", b"Content-Length: 2\r\n\r\nab"]


@pytest.mark.parametrize("body", BODIES)
async def test_client_hangs_up(body: bytes) -> None:
    """GW-9: a client that leaves is told of to the application, amid its body and before the first byte."""
    arrived = asyncio.Event()
    told = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        arrived.set()
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


@pytest.mark.parametrize("body", BODIES)
async def test_client_hangs_up_and_nobody_reads(body: bytes) -> None:
    """GW-9: who waits for something else is told by a call that a client left; what it says then is lost."""
    arrived = asyncio.Event()
    told = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        assert await exchange.read() == b"ab"
        exchange.when_gone(told.set)
        arrived.set()
        await told.wait()
        assert await exchange.read() is None
        exchange.start(200, [])
        exchange.write(b"late")

    async with answering(answer) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(POST + body)
        await arrived.wait()
        client.close()
        await told.wait()


async def test_hang_up_behind_a_pipelined_request() -> None:
    """GW-9: a client that sent a second request and leaves is told of to who answers the first one."""
    told = asyncio.Event()
    arrived = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        exchange.when_gone(told.set)
        arrived.set()
        await told.wait()

    async with answering(answer) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET + GET)
        await arrived.wait()
        client.close()
        await told.wait()


async def test_hang_up_that_was() -> None:
    """GW-9: who asks after the client left is told at once."""
    told = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        while not exchange.is_over:
            await exchange.changed()
        exchange.when_gone(told.set)

    async with answering(answer) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET)
        client.close()
        await told.wait()


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("twice", "has begun already"),
        ("before", "a part of no answer"),
        ("after", "a part of no answer"),
        ("short", "shorter than"),
        ("long", "longer than"),
    ],
)
async def test_an_answer_out_of_order(how: str, why: str, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-3: who breaks the order or the length of an answer is logged, and no client takes it for whole."""

    async def answer(exchange: Exchange) -> None:
        if how != "before":
            exchange.start(200, [(b"content-length", b"3")])
        if how == "twice":
            exchange.start(200, [])
        exchange.write(b"abcd" if how == "long" else b"ab", last=how == "short")
        if how == "after":
            exchange.write(b"c", last=True)
            exchange.write(b"d")

    async with answering(answer) as server, asyncio.timeout(5):
        client = await server.connect()
        client.send(GET)
        if how == "after":
            assert await client.answer() == (200, b"abc")
        elif how == "before":
            assert (await client.reader.readexactly(13)) == b"HTTP/1.1 500 "
        else:
            assert not (await client.rest()).endswith(b"\r\n\r\nabc")
    assert len(caplog.records) == 1
    assert why in caplog.text


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
    server = make_server(adapted(app))
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
