import asyncio
import json
from dataclasses import replace

import pytest

from hostler.domain.errors import Draining, NotFound
from hostler.domain.fleet import EngineTarget, Fleet, Plain
from hostler.domain.values import EngineId, Requester
from hostler.gateway.serve import DRAINED_S, END_S
from tests.fakes.listening import Client
from tests.fakes.raw_upstream import Wire, until
from tests.gateway.front import Front, a_fleet, a_route, front
from tests.gateway.wire import DONE, JSON, SSE, Heard, Target, chat_body, parsed, request
from tests.interfaces.room_fleet import engine

PATH = "/v1/chat/completions"
CHAT = a_route("chat", {"p": Plain(targets=(EngineTarget(engine=EngineId("fast")),))})
FIRST = b"data: 1\n\n"
BY = Requester(client="ada")


class Slow:
    """An engine that says `first`, then waits for `go`, then ends its stream."""

    def __init__(self, first: bytes = SSE + b"9\r\n" + FIRST + b"\r\n") -> None:
        self.first = first
        self.asked = asyncio.Event()
        self.go = asyncio.Event()
        self.target = Target(says=self.says)

    async def says(self, wire: Wire, _: Heard) -> None:
        await wire.send(self.first)
        self.asked.set()
        gone, go = asyncio.ensure_future(wire.gone()), asyncio.ensure_future(self.go.wait())
        done, _left = await asyncio.wait({gone, go}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        go.cancel()
        await asyncio.gather(gone, go, return_exceptions=True)
        if gone in done:
            self.target.gone.set()
            raise ConnectionResetError
        await wire.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE))


def a_draining_fleet() -> Fleet:
    fast = replace(engine("fast", 8101), on_disconnect="drain")
    return a_fleet(CHAT, engines=(fast,))


async def begun(it: Front, slow: Slow, *, model: str = "chat", stream: bool = True) -> Client:
    """A request that the engine is working on."""
    client = await it.send("POST", PATH, chat_body(model, stream=stream), connection="close")
    await slow.asked.wait()
    if slow.first:
        await until(lambda: it.rows[0].phase in ("streaming", "answering"))
    return client


# ---------------------------------------------------------------- the client leaves


@pytest.mark.parametrize(
    "first", [b"", SSE, SSE + b"9\r\n" + FIRST + b"\r\n", JSON + b"Content-Length: 9\r\n\r\n{"]
)
async def test_a_client_that_leaves(first: bytes) -> None:
    """GW-9: hanging up cancels the engine's work in every phase, before the first token too; never a 200."""
    slow = Slow(first)
    async with front(a_fleet(CHAT), {"fast": slow.target}) as it:
        it.up("fast")
        client = await begun(it, slow)
        client.close()
        await slow.target.gone.wait()
        await until(lambda: not it.rows)
        assert it.outcomes == ["client_gone"]
        assert it.lanes.get("fast").requests == set()


async def test_a_client_that_leaves_in_its_body() -> None:
    """GW-9: hanging up while the body is on its way leaves no row, and no engine is asked."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        client = await it.send("POST", PATH, content_length="100")
        await until(lambda: bool(it.rows))
        client.close()
        await until(lambda: not it.rows)
        assert (it.outcomes, target.heard) == (["client_gone"], [])


async def test_a_client_that_leaves_at_once() -> None:
    """GW-9: a hundred clients that send and hang up at the same moment leave no row and no engine busy."""
    async with front(a_fleet(CHAT), {"fast": Target()}) as it:
        it.up("fast")
        for path, body in ((PATH, chat_body("chat")), (PATH, b"{"), ("/v1/models", b"")):
            for _ in range(33):
                client = await it.server.connect()
                client.send(request("POST", path, body))
                await asyncio.sleep(0)
                client.writer.transport.abort()
        await until(lambda: len(it.ends) + len(it.rows) >= 1)
        await it.chat()
        await until(lambda: not it.rows)
        assert it.lanes.get("fast").requests == set()


async def test_an_engine_that_wants_to_finish() -> None:
    """GW-9: with `on_disconnect: drain` the engine finishes, its slot busy till then, the end no success."""
    slow = Slow()
    async with front(a_draining_fleet(), {"fast": slow.target}) as it:
        it.up("fast")
        client = await begun(it, slow)
        client.close()
        await until(lambda: it.rows[0].phase == "drained")
        assert len(it.lanes.get("fast").requests) == 1
        assert not slow.target.gone.is_set()
        slow.go.set()
        await until(lambda: not it.rows)
        assert it.outcomes == ["client_gone"]
        assert it.lanes.get("fast").requests == set()


async def test_others_are_not_touched() -> None:
    """BG-04, GW-9: the hang-up of one client ends no other's stream."""
    slow = Slow()
    async with front(a_fleet(CHAT), {"fast": slow.target}) as it:
        it.up("fast")
        one, other = await begun(it, slow), await it.stream()
        await until(lambda: [row.phase for row in it.rows] == ["streaming"] * 2)
        one.close()
        await until(lambda: len(it.rows) == 1)
        slow.go.set()
        answer = parsed(await other.rest())
        assert (answer.body, answer.whole) == (FIRST + DONE, True)


@pytest.mark.parametrize("how", ["cap", "cut"])
async def test_a_finish_without_end(how: str) -> None:
    """GW-9: an engine may finish for ten minutes after its client left; a cancel by id ends it before."""
    slow = Slow()
    more = asyncio.Event()

    async def endless(wire: Wire, heard: Heard) -> None:
        await wire.send(SSE + b"9\r\n" + FIRST + b"\r\n")
        slow.asked.set()
        await more.wait()
        await wire.send(b"9\r\n" + FIRST + b"\r\n")
        await wire.gone()
        slow.target.gone.set()

    slow.target.says = endless
    async with front(a_draining_fleet(), {"fast": slow.target}) as it:
        it.up("fast")
        client = await begun(it, slow)
        client.close()
        await until(lambda: it.rows[0].phase == "drained")
        if how == "cut":
            it.gateway.requests.cancel(it.rows[0].id, BY)
        else:
            await it.clock.advance(DRAINED_S + 1)
        more.set()
        await slow.target.gone.wait()
        await until(lambda: not it.rows)
        assert it.outcomes == ["client_gone"]


# ---------------------------------------------------------------- ended from outside


async def test_the_table() -> None:
    """GW-9: a row says id, key, client, route, engine, phase, bytes and seconds while its request runs."""
    slow = Slow()
    async with front(a_fleet(CHAT), {"fast": slow.target}) as it:
        it.up("fast")
        body = chat_body("chat", stream=True)
        await it.send("POST", PATH, body, x_hostler_client="bot")
        await slow.asked.wait()
        await until(lambda: it.rows[0].phase == "streaming")
        row = it.rows[0]
        assert (row.route, row.engine, row.requester.client, row.requester.key) == (
            "chat",
            "fast",
            "bot",
            "-",
        )
        assert (row.bytes_in, row.bytes_out, row.started) == (len(body), len(FIRST), 1000.0)
        assert row.first_byte == 1000.0
        assert row in it.lanes.get("fast").requests


@pytest.mark.parametrize("first", [b"", SSE, SSE + b"5\r\ndata:\r\n"])
async def test_cancel_by_id(first: bytes) -> None:
    """GW-9: a cancel by id ends a request in every phase: a refusal before the first byte, a frame after."""
    slow = Slow(first)
    async with front(a_fleet(CHAT), {"fast": slow.target}) as it:
        it.up("fast")
        client = await begun(it, slow)
        name = it.rows[0].id
        it.gateway.requests.cancel(name, BY)
        answer = parsed(await client.rest())
        assert answer.whole
        if first:
            error = json.loads(answer.body.split(b"data: ")[-1])["error"]
        else:
            assert answer.status == 409
            error = answer.error
        assert error["code"] == "ended"
        assert "ada" in str(error["message"])
        assert b"[DONE]" not in answer.body
        await slow.target.gone.wait()
        assert (it.outcomes, it.rows) == (["cut"], [])
        with pytest.raises(NotFound):
            it.gateway.requests.cancel(name, BY)


async def test_cancel_of_a_plain_answer() -> None:
    """GW-14: a plain answer that is cut in its middle is no clean end."""
    slow = Slow(JSON + b"Content-Length: 9\r\n\r\n{")
    async with front(a_fleet(CHAT), {"fast": slow.target}) as it:
        it.up("fast")
        client = await begun(it, slow, model="fast", stream=False)
        it.rows[0].cut(Draining(engine="fast", why="it stops"))
        answer = parsed(await client.rest())
        assert (answer.body, answer.whole) == (b"{", False)
        assert it.outcomes == ["cut"]


async def test_cancel_in_the_body() -> None:
    """GW-9: a request whose body is still on its way can be cancelled by its id."""
    async with front(a_fleet(CHAT)) as it:
        client = await it.send("POST", PATH, content_length="100")
        await until(lambda: bool(it.rows))
        it.gateway.requests.cancel(it.rows[0].id, BY)
        assert b" 409 " in await client.head()
        assert it.outcomes == ["cut"]


async def test_cut_twice() -> None:
    """GW-9: a second cut, or a hang-up, while a request is being ended changes nothing."""
    slow = Slow()
    async with front(a_fleet(CHAT), {"fast": slow.target}) as it:
        it.up("fast")
        client = await begun(it, slow)
        row = it.rows[0]
        row.cut(Draining(engine="fast", why="first"))
        row.cut(Draining(engine="fast", why="second"))
        answer = parsed(await client.rest())
        assert answer.body.count(b"error") == 1 + answer.body.count(b"_error")
        assert b"first" in answer.body
        row.cut(Draining(engine="fast", why="third"))
        assert (it.outcomes, it.rows) == (["cut"], [])


async def test_a_drains_deadline() -> None:
    """GW-8: a drain lets a stream finish, takes no new request, and its deadline ends it with a frame."""
    slow = Slow()
    async with front(a_fleet(CHAT), {"fast": slow.target}) as it:
        it.up("fast")
        client = await begun(it, slow)
        draining = asyncio.create_task(it.gateway.means.engines.drain("fast", BY, timeout_s=5))
        await until(lambda: it.lanes.get("fast").state == "draining")
        refused = await it.chat()
        assert (refused.status, refused.error["code"]) == (503, "draining")
        await it.clock.advance(5)
        answer = parsed(await client.rest())
        assert answer.body.startswith(FIRST)
        assert b'"code":"draining"' in answer.body
        assert b"[DONE]" not in answer.body
        await it.clock.advance(5)
        assert await draining == 1


async def test_a_client_that_does_not_read_its_end() -> None:
    """GW-8: a cut client that reads nothing keeps no engine from stopping, and its connection is ended."""

    async def floods(wire: Wire, _: Heard) -> None:
        await wire.send(SSE)
        while True:
            await wire.send(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")

    async with front(a_fleet(CHAT), {"fast": Target(says=floods)}) as it:
        it.up("fast")
        client = await it.stream()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own, of a reader
        sent = -1
        while sent != it.rows[0].bytes_out if it.rows else True:
            sent = it.rows[0].bytes_out if it.rows else -1
            for _ in range(200):
                await asyncio.sleep(0)
        lane = it.lanes.get("fast")
        it.rows[0].cut(Draining(engine="fast", why="it stops"))
        await until(lambda: not lane.requests)
        assert len(it.rows) == 1
        await it.clock.advance(END_S)
        await until(lambda: not it.rows)
        assert it.outcomes == ["cut"]


async def test_back_pressure() -> None:
    """GW-13: a client that does not read holds its engine back: what is kept for it is bounded."""
    pushed = 0

    async def floods(wire: Wire, _: Heard) -> None:
        nonlocal pushed
        await wire.send(SSE)
        while True:
            await wire.send(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
            pushed += 0x2000

    async with front(a_fleet(CHAT), {"fast": Target(says=floods)}) as it:
        it.up("fast")
        client = await it.stream()
        client.writer.transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own, of a reader
        before = -1
        while before != pushed or pushed == 0:
            before = pushed
            for _ in range(500):
                await asyncio.sleep(0)
        assert pushed < 64 << 20
        assert it.rows[0].bytes_out <= pushed


async def test_all_bodies_together_are_bounded() -> None:
    """GW-12: bodies that together hold more than the bound are refused `limit`; an ended one makes room."""
    slow = Slow()
    async with front(a_draining_fleet(), {"fast": slow.target}) as it:
        hall = it.gateway.means.hall
        client = await begun(it, slow)
        assert hall.held == len(chat_body("chat", stream=True))
        hall.most = hall.held + 10
        refused = await it.chat("chat")
        assert (refused.status, refused["retry-after"]) == (503, "1")
        assert b'"code":"limit"' in refused.body
        slow.go.set()
        await client.rest()
        await until(lambda: not it.rows)
        assert hall.held == 0
