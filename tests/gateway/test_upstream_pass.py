import asyncio

import pytest

from hostler.gateway.upstream import Upstream, UpstreamDied
from tests.fakes.raw_upstream import GET, OK, RawUpstream, Wire, until

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Steps:
    """An upstream that says its head, and then what it is told to."""

    def __init__(self) -> None:
        self.says: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(self, wire: Wire) -> None:
        await wire.head()
        await wire.send(CHUNKED)
        while piece := await self.says.get():
            await wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))

    def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.says.put_nowait(piece)


async def test_pieces_go_on_as_they_come(client: Upstream) -> None:
    """GW-13: each piece is given on where it is read, before the next is sent, until it is enough."""
    steps, got = Steps(), list[bytes]()

    def sink(piece: bytes) -> bool:
        got.append(piece)
        return piece != b"enough"

    async with RawUpstream(steps.script) as up, asyncio.timeout(5):
        response = await client.request(up.address, GET)
        passing = asyncio.ensure_future(response.pass_to(sink))
        for piece in (b"a", b"b", b"enough"):
            steps.say(piece)
            await until(lambda piece=piece: piece in got)  # type: ignore[misc] # a default of a lambda
        assert await passing
        steps.say(b"held")
        await until(lambda: response.waiting == 4)
        assert got == [b"a", b"b", b"enough"]
        rest = asyncio.ensure_future(response.pass_to(sink))
        await until(lambda: got[-1] == b"held")
        steps.say(b"")
        with pytest.raises(UpstreamDied):
            await rest
        response.close()


async def test_enough_of_what_waited(client: Upstream) -> None:
    """GW-13: what waited is given on first; when it is enough at once, nothing more is."""
    steps, got = Steps(), list[bytes]()

    def sink(piece: bytes) -> bool:
        got.append(piece)
        return False

    async with RawUpstream(steps.script) as up, asyncio.timeout(5):
        response = await client.request(up.address, GET)
        steps.say(b"ab")
        await until(lambda: response.waiting == 2)
        assert await response.pass_to(sink)
        steps.say(b"cd")
        await until(lambda: response.waiting == 2)
        assert got == [b"ab"]
        response.close()


async def test_who_takes_pieces_fails(client: Upstream) -> None:
    """GW-14: an error of who takes the pieces is raised where they are awaited, and no more are given."""
    steps, got = Steps(), list[bytes]()

    def sink(piece: bytes) -> bool:
        got.append(piece)
        raise LookupError("a bug")

    async with RawUpstream(steps.script) as up, asyncio.timeout(5):
        response = await client.request(up.address, GET)
        passing = asyncio.ensure_future(response.pass_to(sink))
        await asyncio.sleep(0)
        steps.say(b"a")
        with pytest.raises(LookupError):
            await passing
        steps.say(b"b")
        await until(lambda: response.waiting == 1)
        assert got == [b"a"]
        response.close()
        assert client.stats() == {}
