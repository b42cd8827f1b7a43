import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from hostler.domain.errors import Draining, EngineFailed
from hostler.domain.fleet import EngineTarget, Plain, Strategy
from hostler.domain.values import EngineId
from tests.fakes.listening import Client
from tests.fakes.raw_upstream import until
from tests.gateway.front import Front, a_fleet, a_route, front
from tests.gateway.wire import DONE, SSE, Target, chat_body, parsed, unchunked

PATH = "/v1/chat/completions"
FAST = EngineId("fast")
CHAT = a_route("chat", {"p": Plain(targets=(EngineTarget(engine=FAST),))})
STREAMED = SSE + b"%x\r\n%b\r\n0\r\n\r\n" % (len(DONE), DONE)


async def loading(it: Front, engine: str = "fast") -> None:
    """Return when that engine loads."""
    await settled(it, lambda: it.lanes.get(engine).state == "starting")


async def settled(it: Front, true: Callable[[], bool]) -> None:
    """Let everything run that needs no time to pass, until `true`."""
    async with asyncio.timeout(5):
        while not true():
            await it.clock.advance(0)


async def lines(client: Client, count: int) -> list[bytes]:
    """The next comment lines of a stream."""
    return [(await client.reader.readuntil(b"\n\n\r\n")).split(b"\r\n")[1] for _ in range(count)]


async def test_a_plain_request_waits() -> None:
    """GW-6: a request for a cold engine waits for its start and is answered by it."""
    async with front(a_fleet(CHAT), {"fast": Target()}) as it:
        answer = await it.chat()
        assert (answer.status, answer["x-hostler-served-by"]) == (200, "fast")
        assert it.driver.started == [FAST]


async def test_ten_at_once_join_one_start() -> None:
    """ENG-3: ten requests that come at once start their engine once, and all are served."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        answers = await asyncio.gather(*(it.chat() for _ in range(10)))
        assert [answer.status for answer in answers] == [200] * 10
        assert (it.driver.started, len(target.heard)) == ([FAST], 10)


@pytest.mark.parametrize("path", [PATH, "/v1/completions"])
async def test_comments_while_it_loads(path: str) -> None:
    """GW-6: a stream has its head after a second, then a comment each 10 s, then the engine's bytes."""
    async with front(a_fleet(CHAT), {"fast": Target(answer=STREAMED)}) as it:
        it.driver.loading.add(FAST)
        client = await it.send("POST", path, chat_body("chat", stream=True), connection="close")
        await loading(it)
        await it.clock.advance(1)
        head = await client.head()
        assert b" 200 OK" in head
        for field in (b"text/event-stream", b"x-accel-buffering: no", b"x-hostler-served-by: fast"):
            assert field in head
        await it.clock.advance(40)
        assert await lines(client, 5) == [
            b": loading %d s of 120 s, place 1\n\n" % second for second in (1, 11, 21, 31, 41)
        ]
        assert it.rows[0].phase == "loading"
        it.driver.finish_loading(FAST)
        await it.clock.advance(1)
        assert unchunked(await client.rest()) == (DONE, True)
        assert it.outcomes == ["ok"]


async def test_a_refusal_within_a_second_keeps_its_status() -> None:
    """GW-6: a stream whose start is refused at once gets the real status, not a 200 with an error in it."""
    async with front(a_fleet(CHAT)) as it:
        it.held()
        answer = parsed(await (await it.stream()).rest())
        assert (answer.status, answer.error["code"]) == (503, "box_reserved")


async def test_a_late_failure_is_an_error_frame() -> None:
    """GW-6: a start that fails after comments went out ends the stream with an error frame, no [DONE]."""
    async with front(a_fleet(CHAT)) as it:
        it.driver.loading.add(FAST)
        client = await it.stream()
        await loading(it)
        await it.clock.advance(1)
        await client.head()
        it.lanes.get("fast").crashes = 9
        for _ in range(3):
            await loading(it)
            it.driver.crash(FAST)
            await settled(it, lambda: it.lanes.get("fast").state == "failed" or not it.rows)
            await it.clock.advance(30)
        body, whole = unchunked(await client.rest())
        frame = body.split(b"\n\n")[-2]
        assert json.loads(frame.removeprefix(b"data: "))["error"]["code"] == "engine_failed"
        assert whole
        assert (it.rows, it.outcomes) == ([], ["refused"])


async def test_an_answer_that_cannot_follow_comments() -> None:
    """GW-14: an error, or no stream at all, after comments becomes an error frame with what it said."""
    target = Target(answer=b'HTTP/1.1 400 X\r\nContent-Length: 14\r\n\r\n{"error": "x"}')
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        for answer in (target.answer, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"):
            target.answer = answer
            it.driver.loading.add(FAST)
            client = await it.stream()
            await loading(it)
            await it.clock.advance(1)
            await client.head()
            it.driver.finish_loading(FAST)
            await it.clock.advance(1)
            text = await client.rest()
            assert b'"code":"upstream_died"' in text
            assert answer[-14:].split(b"\n")[-1].replace(b'"', b'\\"') in text
            await it.clock.advance(60)
            await it.gateway.means.engines.stopping.stop(it.lanes.get("fast"), actor="test", why="again")


async def test_hopeless() -> None:
    """GW-6: a plain request that will not make it in time is 503 `loading` at once, with Retry-After."""
    async with front(a_fleet(replace(CHAT, request_class="interactive"))) as it:
        it.lanes.get("fast").load_s = 41.0
        answer = await it.chat()
        assert (answer.status, answer.error["code"], answer["retry-after"]) == (503, "loading", "41")
        assert answer["x-should-retry"] is None
        assert (it.driver.started, it.clock.elapsed()) == ([], 1000.0)


async def test_a_stream_is_not_hopeless() -> None:
    """GW-6: a stream waits on, whatever the last load took: its comments keep it alive."""
    async with front(a_fleet(replace(CHAT, request_class="interactive"))) as it:
        it.driver.loading.add(FAST)
        it.lanes.get("fast").load_s = 41.0
        client = await it.stream()
        await loading(it)
        await it.clock.advance(1)
        assert b" 200 OK" in await client.head()


async def test_the_wait_ends() -> None:
    """GW-6: a wait that is over is 503 `loading`, the start goes on, and the next request is served."""
    async with front(a_fleet(replace(CHAT, request_class="interactive")), {"fast": Target()}) as it:
        it.driver.loading.add(FAST)
        client = await it.send("POST", PATH, chat_body("chat"), connection="close")
        await loading(it)
        await it.clock.advance(10)
        answer = parsed(await client.rest())
        assert (answer.status, answer.error["code"]) == (503, "loading")
        it.driver.finish_loading(FAST)
        await it.clock.advance(1)
        assert (await it.chat()).status == 200
        assert it.driver.started == [FAST]


async def test_all_targets_share_one_wait() -> None:
    """GW-6: a route with two cold targets keeps its caller for one `max_wait`, not for two."""
    targets = tuple(EngineTarget(engine=EngineId(name)) for name in ("fast", "embed"))
    route = a_route("chat", {"p": Plain(targets=targets)}, strategy=Strategy(kind="first_ready"))
    async with front(a_fleet(replace(route, request_class="interactive"))) as it:
        it.driver.loading |= {FAST, EngineId("embed")}
        client = await it.send("POST", PATH, chat_body("chat"), connection="close")
        await loading(it)
        await it.clock.advance(10.5)
        assert parsed(await client.rest()).error["code"] == "loading"


async def test_a_client_that_leaves_while_it_loads() -> None:
    """GW-9: hanging up while waiting frees the row, is `client_gone` (BG-03), and ends no start (ENG-3)."""
    async with front(a_fleet(CHAT), {"fast": Target()}) as it:
        it.driver.loading.add(FAST)
        for streams in (False, True):
            client = await it.send("POST", PATH, chat_body("chat", stream=streams))
            await loading(it)
            await settled(it, lambda: bool(it.rows) and it.rows[0].phase == "loading")
            client.close()
            await until(lambda: not it.rows)
        assert it.outcomes == ["client_gone", "client_gone"]
        assert [status for _, status, _ in it.ends] == [0, 0]
        await until(lambda: it.lanes.get("fast").waiters == 0)
        it.driver.finish_loading(FAST)
        await it.clock.advance(1)
        assert (await it.chat()).status == 200
        assert it.driver.started == [FAST]


async def test_a_cut_while_it_loads() -> None:
    """GW-9: a request that waits can be cancelled by its id: a refusal before comments, a frame after."""
    async with front(a_fleet(CHAT)) as it:
        it.driver.loading.add(FAST)
        plain = await it.send("POST", PATH, chat_body("chat"), connection="close")
        await settled(it, lambda: bool(it.rows) and it.rows[0].phase == "loading")
        it.gateway.requests.cancel(it.rows[0].id, it.rows[0].requester)
        answer = parsed(await plain.rest())
        assert answer.error["code"] == "ended"
        assert answer.whole
        stream = await it.stream()
        await settled(it, lambda: bool(it.rows) and it.rows[0].phase == "loading")
        await it.clock.advance(1)
        await stream.head()
        it.rows[0].cut(Draining(engine="fast", why="the daemon shuts down"))
        assert b'"code":"draining"' in await stream.rest()
        assert it.outcomes == ["cut", "cut"]
        assert it.rows == []


async def test_a_start_that_is_called_off() -> None:
    """GW-6: a request whose start somebody calls off hears it, and is not left waiting."""
    async with front(a_fleet(CHAT)) as it:
        it.driver.loading.add(FAST)
        client = await it.send("POST", PATH, chat_body("chat"), connection="close")
        await settled(it, lambda: bool(it.rows) and it.rows[0].phase == "loading")
        stopping = asyncio.create_task(it.gateway.means.engines.stopping.cancel_start(it.lanes.get("fast")))
        answer = parsed(await client.rest())
        assert answer.error["code"] == EngineFailed.code
        await it.clock.advance(60)
        with contextlib.suppress(asyncio.CancelledError):
            await stopping
