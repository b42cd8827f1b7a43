import asyncio

import pytest

from hostler.gateway.upstream import (
    LinkStats,
    RequestHead,
    RequestRefused,
    Upstream,
    UpstreamDied,
    UpstreamInvalid,
)
from tests.fakes.raw_upstream import GET, HELLO, OK, POST, RawUpstream, Wire, answering, chunked, until


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
