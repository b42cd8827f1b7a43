import asyncio

import pytest

from hostler.gateway.upstream import (
    LinkStats,
    RequestHead,
    Upstream,
    UpstreamClosed,
    UpstreamDied,
    UpstreamSilent,
)
from tests.fakes.raw_upstream import GET, HELLO, OK, POST, RawUpstream, Wire, answering, until


async def test_connection_is_kept(client: Upstream) -> None:
    """GW-16: requests one after another go over one connection."""
    async with RawUpstream(answering(HELLO, HELLO, HELLO)) as up:
        for _ in range(3):
            response = await client.request(up.address, GET)
            assert await response.read(100) == b"hello"
            response.close()
        assert up.connections == 1
        assert client.stats() == {up.address: LinkStats(idle=1, active=0)}


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


async def test_body_after_head_is_junk(client: Upstream) -> None:
    """GW-13: a body sent in answer to HEAD is not passed on, and its connection is dropped."""
    async with RawUpstream(answering(HELLO)) as up:
        response = await client.request(up.address, RequestHead(method=b"HEAD", target=b"/"))
        assert await response.next() == b""
        assert client.stats() == {}


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
