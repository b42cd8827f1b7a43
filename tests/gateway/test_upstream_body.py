import asyncio
from collections.abc import AsyncIterator

import pytest

from hostler.gateway import upstream_link
from hostler.gateway.upstream import (
    BodyLengthMismatch,
    LinkStats,
    RequestHead,
    Upstream,
)
from hostler.gateway.upstream_wire import HIGH_WATER
from tests.fakes.raw_upstream import GET, HELLO, OK, POST, RawUpstream, Wire, answering, until


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
