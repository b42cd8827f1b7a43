import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hostler.gateway import upstream_link
from hostler.gateway.upstream import (
    Address,
    BodyLengthMismatch,
    LinkStats,
    RequestHead,
    RequestRefused,
    Upstream,
    UpstreamClosed,
    UpstreamDied,
    UpstreamForbidden,
    UpstreamInvalid,
    UpstreamSilent,
    UpstreamUnreachable,
    is_forbidden,
)
from hostler.gateway.upstream_wire import HIGH_WATER
from tests.fakes.raw_upstream import HELLO, OK, RawUpstream, Wire, answering, chunked

GET = RequestHead(method=b"GET", target=b"/v1/models", headers=[(b"accept", b"*/*")])
POST = RequestHead(method=b"POST", target=b"/v1/chat/completions", headers=[(b"x-a", b"1"), (b"x-a", b"2")])


@pytest.fixture
async def client() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 # what the client knows of a socket has no event
            await asyncio.sleep(0)


async def test_answer_as_it_came(client: Upstream) -> None:
    """GW-11: status, reason, header order, case and duplicates of an answer reach the caller as they came."""
    answer = b"HTTP/1.1 418 Short And Stout\r\nSet-Cookie: a=1\r\nX-B:  two\r\nSet-Cookie: b=2\r\n"
    async with RawUpstream(answering(answer + b"Content-Length: 2\r\n\r\nno")) as up:
        response = await client.request(up.address, GET)
        assert (response.status, response.reason) == (418, b"Short And Stout")
        assert response.headers == [
            (b"Set-Cookie", b"a=1"),
            (b"X-B", b"two"),
            (b"Set-Cookie", b"b=2"),
            (b"Content-Length", b"2"),
        ]
        assert await response.next() == b"no"
        assert response.at_end
        assert await response.next() == b""


async def test_request_on_the_wire(client: Upstream) -> None:
    """GW-11: the request's headers go out in order with duplicates, one Host, and the body byte for byte."""
    seen: list[bytes] = []

    async def script(wire: Wire) -> None:
        seen.append(await wire.head())
        seen.append(await wire.reader.readexactly(40_000))
        await wire.send(HELLO)

    body = bytes(range(250)) * 160
    async with RawUpstream(script) as up:
        await (await client.request(up.address, POST, body)).read(5)
        assert seen[0].split(b"\r\n") == [
            b"POST /v1/chat/completions HTTP/1.1",
            b"host: 127.0.0.1:%d" % up.address.port,
            b"x-a: 1",
            b"x-a: 2",
            b"content-length: 40000",
            b"",
            b"",
        ]
    assert seen[1] == body


@pytest.mark.parametrize(
    "head",
    [
        RequestHead(method=b"GET", target=b"/", headers=[(b"x", b"1\r\nx-evil: 2")]),
        RequestHead(method=b"GET", target=b"/", headers=[(b"x\n", b"1")]),
        RequestHead(method=b"GET", target=b"/ HTTP/1.1\r\n\r\nGET /evil", headers=[]),
        RequestHead(method=b"GET", target=b"/a b", headers=[]),
        RequestHead(method=b"GET", target=b"/", headers=[(b"x", b"a\0b")]),
    ],
)
async def test_header_injection(client: Upstream, head: RequestHead) -> None:
    """SEC-3: a head with a line break, NUL or space where none may be is refused before anything is sent."""
    async with RawUpstream(answering(HELLO)) as up:
        with pytest.raises(RequestRefused):
            await client.request(up.address, head)
        assert up.connections == 0


async def test_connection_is_kept(client: Upstream) -> None:
    """GW-16: requests one after another go over one connection."""
    async with RawUpstream(answering(HELLO, HELLO, HELLO)) as up:
        for _ in range(3):
            response = await client.request(up.address, GET)
            assert await response.read(100) == b"hello"
            response.close()
        assert up.connections == 1
        assert client.stats() == {up.address: LinkStats(idle=1, active=0)}


async def test_nodelay(client: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """GW-13: TCP_NODELAY is set on the connection to the upstream, whichever loop runs."""
    # Neither loop's own doing may hide that ours is missing.
    monkeypatch.setattr("asyncio.base_events._set_nodelay", lambda sock: None)
    async with RawUpstream(answering(HELLO)) as up:
        await (await client.request(up.address, GET)).read(5)
        (link,) = client.pools[up.address].idle
        assert link.transport is not None
        sock: socket.socket = link.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_chunks_pass_at_once(client: Upstream) -> None:
    """GW-13: each chunk is handed on as it comes, before the next is sent."""
    more = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for piece in (b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"):
            await more.wait()
            more.clear()
            await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await more.wait()
        await wire.send(b"0\r\n\r\n")
        await wire.gone()

    async with RawUpstream(script) as up:
        response = await client.request(up.address, POST, b"{}")
        for piece in (b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n"):
            more.set()
            assert await response.next() == piece
            assert not response.at_end
        more.set()
        assert await response.next() == b""


async def test_waiting_chunks_come_together(client: Upstream) -> None:
    """GW-13: chunks that already wait are given out in one piece."""
    async with RawUpstream(answering(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"a", b"b"))) as up:
        response = await client.request(up.address, POST, b"{}")
        await until(lambda: response.is_over)
        assert await response.next() == b"ab"


async def test_stale_connection_is_retried_once(client: Upstream) -> None:
    """GW-13: a POST on a kept connection that ends without a byte is sent once more, on a new one."""
    bodies: list[bytes] = []

    async def script(wire: Wire) -> None:
        await wire.head()
        bodies.append(await wire.reader.readexactly(2))
        await wire.send(HELLO)
        if wire.number == 1:
            await wire.head()

    async with RawUpstream(script) as up:
        await (await client.request(up.address, POST, b"{}")).read(5)
        response = await client.request(up.address, POST, b"[]")
        assert await response.read(5) == b"hello"
        assert up.connections == 2
    assert bodies == [b"{}", b"[]"]


async def test_fresh_connection_is_not_retried(client: Upstream) -> None:
    """GW-13: a request whose new connection ends without an answer is not sent again."""

    async def script(wire: Wire) -> None:
        await wire.head()

    async with RawUpstream(script) as up:
        with pytest.raises(UpstreamDied) as caught:
            await client.request(up.address, POST, b"{}")
        assert caught.type is UpstreamDied
        assert up.connections == 1


async def test_second_failure_is_told(client: Upstream) -> None:
    """GW-13: the retry of a stale connection happens exactly once."""

    async def script(wire: Wire) -> None:
        await wire.head()
        if wire.number == 1:
            await wire.send(HELLO)
            await wire.head()

    async with RawUpstream(script) as up:
        await (await client.request(up.address, GET)).read(5)
        with pytest.raises(UpstreamDied):
            await client.request(up.address, GET)
        assert up.connections == 2


async def test_no_retry_after_a_byte(client: Upstream) -> None:
    """GW-13: once any byte of an answer came, a request is never sent again."""

    async def script(wire: Wire) -> None:
        await wire.head()
        if wire.number == 1:
            await wire.send(HELLO)
            await wire.head()
            await wire.send(b"HTTP/1.1 2")

    async with RawUpstream(script) as up:
        await (await client.request(up.address, GET)).read(5)
        with pytest.raises(UpstreamDied, match="before any answer"):
            await client.request(up.address, GET)
        assert up.connections == 1


async def test_idle_connections_expire() -> None:
    """GW-13: an idle connection is closed by us, below the 5 s at which many servers close theirs."""
    hung_up = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(HELLO)
        await wire.gone()
        hung_up.set()

    client = Upstream(idle_s=0.0)
    async with RawUpstream(script) as up:
        await (await client.request(up.address, GET)).read(5)
        async with asyncio.timeout(5):
            await hung_up.wait()
        assert client.stats() == {}
    client.close()


async def test_old_connection_is_not_taken(client: Upstream) -> None:
    """GW-13: a connection idle for longer than the limit carries no request, even before the sweep."""
    async with RawUpstream(answering(HELLO)) as up:
        await (await client.request(up.address, GET)).read(5)
        client.pools[up.address].idle[0].idle_since -= 3.1
        assert await (await client.request(up.address, GET)).read(5) == b"hello"
        assert up.connections == 2


async def test_idle_junk_drops_the_connection() -> None:
    """GW-13: bytes on an idle connection end it, and are not taken for the next answer."""
    client = Upstream(idle_s=3600)

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(HELLO)
        if wire.number == 1:
            await idle.wait()
            await wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        await wire.gone()

    idle = asyncio.Event()
    async with RawUpstream(script) as up:
        await (await client.request(up.address, GET)).read(5)
        idle.set()
        await until(lambda: client.stats() == {})
        assert await (await client.request(up.address, GET)).read(5) == b"hello"
        assert up.connections == 2
    client.close()


@pytest.mark.parametrize(
    "junk", [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", b"HTTP/1.1 ", b"x", b"\0"]
)
async def test_junk_after_an_answer(client: Upstream, junk: bytes) -> None:
    """GW-13: an answer with bytes after its end is whole, and its connection is not used again."""
    async with RawUpstream(answering(HELLO + junk)) as up:
        assert await (await client.request(up.address, GET)).read(5) == b"hello"
        assert client.stats() == {}
        assert await (await client.request(up.address, GET)).read(5) == b"hello"
        assert up.connections == 2


@pytest.mark.parametrize(
    "cut",
    [
        OK + b"Content-Length: 50\r\n\r\nhalf",
        OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf",
    ],
)
@pytest.mark.parametrize("rude", [False, True])
async def test_death_in_the_middle(client: Upstream, cut: bytes, rude: bool) -> None:
    """GW-14: an answer cut short raises UpstreamDied after its bytes; it never looks whole."""
    taken = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(cut)
        await taken.wait()
        if rude:
            wire.reset()

    async with RawUpstream(script) as up:
        response = await client.request(up.address, POST, b"{}")
        assert await response.next() == b"half"
        taken.set()
        with pytest.raises(UpstreamDied, match="in the middle"):
            await response.next()
        with pytest.raises(UpstreamDied):
            await response.next()
        assert not response.at_end


async def test_answer_delimited_by_eof(client: Upstream) -> None:
    """GW-13: an answer without length or chunks ends, whole, when the connection ends in order."""

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(b"HTTP/1.0 200 OK\r\n\r\nall ")
        await wire.send(b"of it")

    async with RawUpstream(script) as up:
        assert await (await client.request(up.address, GET)).read(100) == b"all of it"
        assert client.stats() == {}


async def test_reset_is_no_eof(client: Upstream) -> None:
    """GW-14: an answer without length whose connection is reset is cut, not whole."""
    taken = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(OK + b"\r\nhalf")
        await taken.wait()
        wire.reset()

    async with RawUpstream(script) as up:
        response = await client.request(up.address, GET)
        assert await response.next() == b"half"
        taken.set()
        with pytest.raises(UpstreamDied):
            await response.next()


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (b"HEAD", OK + b"Content-Length: 5000\r\n\r\n"),
        (b"HEAD", OK + b"Transfer-Encoding: chunked\r\n\r\n"),
        (b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        (b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
    ],
)
async def test_answers_without_body(client: Upstream, method: bytes, answer: bytes) -> None:
    """GW-13: HEAD, 204 and 304 have no body whatever their headers say, and keep their connection."""
    async with RawUpstream(answering(answer, HELLO)) as up:
        response = await client.request(up.address, RequestHead(method=method, target=b"/"))
        assert response.at_end
        assert await response.next() == b""
        assert await (await client.request(up.address, GET)).read(5) == b"hello"
        assert up.connections == 1


async def test_body_after_head_is_junk(client: Upstream) -> None:
    """GW-13: a body sent in answer to HEAD is not passed on, and its connection is dropped."""
    async with RawUpstream(answering(HELLO)) as up:
        response = await client.request(up.address, RequestHead(method=b"HEAD", target=b"/"))
        assert await response.next() == b""
        assert client.stats() == {}


async def test_interim_answers_are_skipped(client: Upstream) -> None:
    """GW-13: 1xx answers are skipped; their headers and reasons do not mix with the real ones."""
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with RawUpstream(answering(interim + HELLO, HELLO)) as up:
        response = await client.request(up.address, GET)
        assert (response.status, response.reason) == (200, b"OK")
        assert response.headers == [(b"Content-Length", b"5")]
        assert await response.read(5) == b"hello"
        assert client.stats() == {up.address: LinkStats(idle=1, active=0)}


async def test_trailers_are_dropped(client: Upstream) -> None:
    """GW-11: trailers of an answer are not passed on, and do not soil the connection."""
    body = b"1\r\na\r\n0\r\nX-Trailer: 1\r\nSet-Cookie: evil=1\r\n\r\n"
    async with RawUpstream(answering(OK + b"Transfer-Encoding: chunked\r\n\r\n" + body)) as up:
        response = await client.request(up.address, GET)
        assert await response.read(5) == b"a"
        assert response.headers == [(b"Transfer-Encoding", b"chunked")]
        assert client.stats() == {up.address: LinkStats(idle=1, active=0)}


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        OK + b"Content-Length: 5, 6\r\n\r\nhello",
        OK + b"Content-Length: -5\r\n\r\nhello",
        OK + b"Transfer-Encoding: gzip\r\n\r\nhello",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"X: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
        OK + b"X : a\r\nContent-Length: 0\r\n\r\n",
        OK + b"X: a\nContent-Length: 0\n\n",
        OK + b"X: a\rb\r\nContent-Length: 0\r\n\r\n",
        OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 21 + HELLO,
        b"SSH-2.0-OpenSSH\r\n",
        b"\0\0\0",
        OK + b"X: 1\r\n" * 201 + b"Content-Length: 0\r\n\r\n",
        OK + b"X: " + b"a" * 66_000 + b"\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_invalid_answers(client: Upstream, answer: bytes) -> None:
    """SEC-3: an answer that could be read in two ways, or past the bounds of its head, is refused."""
    async with RawUpstream(answering(answer)) as up:
        with pytest.raises(UpstreamInvalid):
            await client.request(up.address, GET)
        assert client.stats() == {}


@pytest.mark.parametrize("start", [OK + b"X: ", OK, b"HTTP/1.1 200 "])
async def test_endless_head(client: Upstream, start: bytes) -> None:
    """SEC-3: a head that never ends is refused at 64 KiB, and the upstream is hung up on."""
    hung_up = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(start)
        try:
            while True:
                await wire.send(b"a" * 1000)
        finally:
            hung_up.set()

    async with RawUpstream(script) as up, asyncio.timeout(5):
        with pytest.raises(UpstreamInvalid):
            await client.request(up.address, GET)
        await hung_up.wait()


async def test_endless_trailers(client: Upstream) -> None:
    """SEC-3: trailers without end are refused at 64 KiB: they are no body, and are kept by the parser."""

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ")
        while True:
            await wire.send(b"a" * 1000)

    async with RawUpstream(script) as up, asyncio.timeout(5):
        response = await client.request(up.address, GET)
        with pytest.raises(UpstreamInvalid, match="no body"):
            await response.next()


async def test_bad_chunk_in_the_middle(client: Upstream) -> None:
    """GW-14: garbage in place of a chunk raises after the bytes before it."""
    answer = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n"
    async with RawUpstream(answering(answer)) as up:
        response = await client.request(up.address, GET)
        assert await response.next() == b"ok"
        with pytest.raises(UpstreamInvalid):
            await response.next()
        assert client.stats() == {}


async def test_slow_reader_holds_the_upstream(client: Upstream) -> None:
    """GW-13: while our reader waits, at most the bound and one read are kept, and the upstream is held."""
    size = 64 * 1024 * 1024

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(OK + b"Content-Length: %d\r\n\r\n" % size)
        for _ in range(size // 65536):
            await wire.send(b"a" * 65536)
        await wire.gone()

    async with RawUpstream(script) as up, asyncio.timeout(20):
        response = await client.request(up.address, GET)
        total = 0
        while not response.at_end:
            await until(lambda: response.is_paused or response.is_over)
            assert response.waiting <= HIGH_WATER + 256 * 1024
            total += len(await response.next())
        assert total == size
        assert client.stats() == {up.address: LinkStats(idle=1, active=0)}


async def test_slow_upstream_holds_the_body(client: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """GW-13: while the upstream does not read, the body's iterator is held; then all of it arrives."""
    reads = asyncio.Event()
    blocked = asyncio.Event()
    given = 0
    pause = upstream_link.Link.pause_writing

    def pause_writing(link: upstream_link.Link) -> None:
        pause(link)
        blocked.set()

    monkeypatch.setattr(upstream_link.Link, "pause_writing", pause_writing)

    async def body() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(512):
            given += 1
            yield b"a" * 65536

    async def script(wire: Wire) -> None:
        await wire.head()
        await reads.wait()
        await wire.reader.readexactly(512 * 65536)
        await wire.send(HELLO)

    head = RequestHead(method=b"POST", target=b"/", length=512 * 65536)
    async with RawUpstream(script) as up, asyncio.timeout(20):
        task = asyncio.create_task(client.request(up.address, head, body()))
        await blocked.wait()
        held_at = given
        for _ in range(100):
            await asyncio.sleep(0)
        assert given == held_at < 512
        reads.set()
        assert await (await task).read(5) == b"hello"
        assert given == 512


async def test_body_of_unknown_length_is_chunked(client: Upstream) -> None:
    """GW-12: a body that comes as an iterator of unknown length is sent chunked, and arrives whole."""
    seen: list[bytes] = []

    async def script(wire: Wire) -> None:
        seen.append(await wire.head())
        seen.append(await wire.reader.readuntil(b"0\r\n\r\n"))
        await wire.send(HELLO)
        await wire.gone()

    async def body() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b""
        yield b"c"

    async with RawUpstream(script) as up:
        assert await (await client.request(up.address, POST, body())).read(5) == b"hello"
        assert client.stats() == {up.address: LinkStats(idle=1, active=0)}
    assert b"transfer-encoding: chunked" in seen[0]
    assert seen[1] == b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"


@pytest.mark.parametrize("length", [3, 9])
async def test_body_of_wrong_length(client: Upstream, length: int) -> None:
    """GW-12: a body that is not as long as said ends the request; the next one cannot be read into it."""

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.gone()

    async def body() -> AsyncIterator[bytes]:
        yield b"abcd"

    async with RawUpstream(script) as up:
        with pytest.raises(BodyLengthMismatch):
            await client.request(up.address, RequestHead(method=b"POST", target=b"/", length=length), body())
        assert client.stats() == {}


async def test_error_of_the_body(client: Upstream) -> None:
    """GW-9: what the body's iterator raises reaches the caller, and the upstream is hung up on."""
    hung_up = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.gone()
        hung_up.set()

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        raise LookupError("the client left")

    async with RawUpstream(script) as up:
        with pytest.raises(LookupError):
            await client.request(up.address, POST, body())
        async with asyncio.timeout(5):
            await hung_up.wait()


async def test_early_answer(client: Upstream) -> None:
    """GW-13: an answer that comes while the body is still sent is given out; its connection is dropped."""
    never = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        await never.wait()

    async with RawUpstream(answering(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")) as up:
        response = await client.request(up.address, POST, body())
        assert response.status == 413
        assert await response.read(5) == b"big"
        assert client.stats() == {}


@pytest.mark.parametrize("phase", ["silent", "streaming", "sending"])
async def test_cancelling_hangs_up(client: Upstream, phase: str) -> None:
    """GW-9: a request cancelled before the first byte, amid the answer or amid its body is hung up on."""
    arrived = asyncio.Event()
    hung_up = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        if phase == "streaming":
            await wire.send(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        arrived.set()
        await wire.gone()
        hung_up.set()

    async def body() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.Event().wait()

    async def work() -> None:
        response = await client.request(up.address, POST, body() if phase == "sending" else b"{}")
        try:
            while await response.next():
                pass
        finally:
            response.close()

    async with RawUpstream(script) as up, asyncio.timeout(5):
        task = asyncio.create_task(work())
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await hung_up.wait()
        assert client.stats() == {}


async def test_cancelling_while_connecting(client: Upstream) -> None:
    """GW-9: a request cancelled while it connects leaves no connection behind."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = Address(host="127.0.0.1", port=full.getsockname()[1])
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        task = asyncio.create_task(client.request(address, GET))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.stats() == {}
        for filler in fillers:
            filler.close()


async def test_nothing_listens(client: Upstream) -> None:
    """GW-14: a port that nobody listens on is told as unreachable, with the system's reason."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with pytest.raises(UpstreamUnreachable, match="refused"):
        await client.request(Address(host="127.0.0.1", port=port), GET)


async def test_black_hole() -> None:
    """GW-14: an upstream that swallows connection attempts is told as unreachable after the time allowed."""
    client = Upstream(connect_s=0.05)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        with pytest.raises(UpstreamUnreachable, match=r"within 0\.05 s"):
            await client.request(Address(host="127.0.0.1", port=full.getsockname()[1]), GET)
        for filler in fillers:
            filler.close()
    client.close()


async def test_name_is_resolved(client: Upstream) -> None:
    """GW-16: a name is resolved when the connection is made, and all its addresses are tried."""
    async with RawUpstream(answering(HELLO)) as up:
        named = Address(host="localhost", port=up.address.port)
        assert await (await client.request(named, GET)).read(5) == b"hello"


async def test_unix_socket(client: Upstream, tmp_path: Path) -> None:
    """GW-16: an upstream may listen on a Unix socket; one that is not there is unreachable."""
    path = str(tmp_path / "engine.sock")
    with pytest.raises(UpstreamUnreachable):
        await client.request(Address(unix=path), GET)
    async with RawUpstream(answering(HELLO, HELLO), unix=path) as up:
        for _ in range(2):
            assert await (await client.request(up.address, GET)).read(5) == b"hello"
        assert up.connections == 1


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "169.254.43518",
        "fd00:ec2::254",
        "fd00:0ec2:0:0::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
    ],
)
async def test_metadata_addresses(client: Upstream, host: str) -> None:
    """GW-16: a metadata address is refused in every spelling, before anything is sent."""
    with pytest.raises(UpstreamForbidden):
        await client.request(Address(host=host, port=80), GET)


def test_link_local_is_allowed() -> None:
    """GW-16: link-local addresses as such are no metadata addresses: a cabled pair of boxes uses them."""
    assert not is_forbidden("169.254.7.8")
    assert not is_forbidden("fe80::1%eth0")
    assert is_forbidden("2002:a9fe:a9fe::1")


@pytest.mark.parametrize("start", [b"", OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"])
async def test_silence(client: Upstream, start: bytes) -> None:
    """GW-13: an upstream that sends no byte for the request's silence limit is hung up on and told."""
    hung_up = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(start)
        await wire.gone()
        hung_up.set()

    async with RawUpstream(script) as up, asyncio.timeout(5):
        with pytest.raises(UpstreamSilent, match=r"no byte for 0\.05 s"):
            await (
                await client.request(up.address, RequestHead(method=b"GET", target=b"/", silence_s=0.05))
            ).read(9)
        await hung_up.wait()


async def test_slow_reader_is_not_silence(client: Upstream) -> None:
    """GW-13: an upstream held back by a slow reader is not silent: the limit counts while we read."""

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(OK + b"Content-Length: 16777216\r\n\r\n")
        for _ in range(256):
            await wire.send(b"a" * 65536)
        await wire.gone()

    async with RawUpstream(script) as up, asyncio.timeout(20):
        response = await client.request(up.address, RequestHead(method=b"GET", target=b"/", silence_s=0.05))
        await until(lambda: response.is_paused)
        (link,) = client.pools[up.address].active
        link.touched -= 10
        link.listen()
        assert len(await response.read(16777216)) == 16777216


async def test_close_all(client: Upstream) -> None:
    """GW-8: before an engine is stopped its connections are ended; requests under way fail, not retried."""
    arrived = asyncio.Event()

    async def script(wire: Wire) -> None:
        await wire.head()
        await wire.send(HELLO)
        await wire.head()
        arrived.set()
        await wire.gone()

    async with RawUpstream(script) as up, asyncio.timeout(5):
        await (await client.request(up.address, GET)).read(5)
        task = asyncio.create_task(client.request(up.address, GET))
        await arrived.wait()
        assert client.stats() == {up.address: LinkStats(idle=0, active=1)}
        assert client.close_all(up.address) == 1
        with pytest.raises(UpstreamClosed):
            await task
        assert up.connections == 1
        assert client.stats() == {}
        assert client.close_all(up.address) == 0


async def test_close_all_while_dialling(client: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """GW-8: a connection made just as its engine is being stopped carries no request."""
    async with RawUpstream(answering(HELLO)) as up:
        task = asyncio.create_task(client.request(up.address, GET))
        await asyncio.sleep(0)
        client.close_all(up.address)
        with pytest.raises(UpstreamClosed):
            await task


async def test_pieces_of_any_size(client: Upstream) -> None:
    """GW-11: an answer arriving one byte at a time is the same answer."""
    answer = b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Transfer-Encoding: chunked\r\nX: yes\r\n\r\n"
    answer += chunked(b"hello", b" ", b"world")

    async def script(wire: Wire) -> None:
        await wire.head()
        for i in range(len(answer)):
            await wire.send(answer[i : i + 1])
            await asyncio.sleep(0)
        await wire.gone()

    async with RawUpstream(script) as up:
        response = await client.request(up.address, GET)
        assert response.headers == [(b"Transfer-Encoding", b"chunked"), (b"X", b"yes")]
        assert await response.read(100) == b"hello world"
        assert client.stats() == {up.address: LinkStats(idle=1, active=0)}
