import asyncio
import gzip
import json
from dataclasses import replace

import pytest

from hostler.domain.fleet import EngineTarget, Plain, Strategy, UpstreamTarget
from hostler.domain.values import EngineId
from hostler.gateway.places import Places
from hostler.gateway.upstream import Address
from tests.fakes.raw_upstream import RawUpstream, Wire
from tests.gateway.front import a_fleet, a_route, front
from tests.gateway.wire import DONE, JSON, OK, SSE, Heard, Target, chat_body, parsed
from tests.interfaces.room_fleet import engine

PATH = "/v1/chat/completions"
FAST = Plain(targets=(EngineTarget(engine=EngineId("fast")),))
CHAT = a_route("chat", {"p": FAST})
CLOUD = a_route("cloud", {"p": Plain(targets=(UpstreamTarget(upstream="cloud"),))})
BOTH = a_route(
    "both",
    {"p": Plain(targets=(UpstreamTarget(upstream="cloud"), UpstreamTarget(upstream="spare")))},
    strategy=Strategy(kind="first_ready"),
)


def sized(head: bytes, body: bytes, *fields: bytes) -> bytes:
    """An answer with a Content-Length."""
    lines = b"".join(field + b"\r\n" for field in fields)
    return head + lines + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


# ---------------------------------------------------------------- bytes, both ways


async def test_bytes_both_ways() -> None:
    """GW-11: white space, order, numbers, unknown fields and broken floats pass as they came, both ways."""
    said = b'{ "b": 1.0e+05,\t"a":[ 1 ,2], "\\u0041": 1e400 }\n'
    target = Target(answer=sized(JSON, said))
    body = b'{\n "messages": [ ] , "x":1.50,"model":\t"chat" ,"seed":00}'.replace(b"00}", b"0 }")
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        answer = await it.ask("POST", PATH, body, content_type="application/json; charset=utf-8")
        assert answer.body == said
        assert target.heard[0].body == body.replace(b'"chat"', b'"fast"')
        assert target.heard[0].all("content-type") == [b"application/json; charset=utf-8"]


async def test_headers_to_the_engine() -> None:
    """GW-11: hop-by-hop headers, those named in Connection and the caller's keys stay here; others pass."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        client = await it.server.connect()
        head = (
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close, x-mine\r\nX-Mine: 1\r\n"
            "Authorization: Bearer sk-1\r\nX-Api-Key: sk-2\r\nTE: trailers\r\nProxy-Authorization: x\r\n"
            "X-Trace: a\r\nX-Trace: b\r\nAccept: */*\r\n"
        )
        body = chat_body("chat")
        client.send(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert parsed(await client.rest()).status == 200
        heard = target.heard[0]
        for name in ("x-mine", "authorization", "x-api-key", "te", "proxy-authorization"):
            assert heard.all(name) == [], name
        assert heard.all("x-trace") == [b"a", b"b"]
        assert b"sk-" not in heard.head
        assert len(heard.all("host")) == 1


async def test_headers_to_the_caller() -> None:
    """GW-11: two Set-Cookie stay two, hop-by-hop headers stay here, and who served it is added (GW-5)."""
    fields = (b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"Connection: x-inner", b"X-Inner: 1", b"Server: llama")
    async with front(a_fleet(CHAT), {"fast": Target(answer=sized(JSON, b"{}", *fields))}) as it:
        it.up("fast")
        answer = await it.chat()
        assert answer.all("set-cookie") == ["a=1", "b=2"]
        assert answer["x-inner"] is None
        assert answer["server"] == "llama"
        assert (answer["x-hostler-route"], answer["x-hostler-served-by"]) == ("chat", "fast")
        assert answer["x-hostler-degraded"] is None


async def test_compression_passes_untouched() -> None:
    """GW-11: a gzipped answer arrives as the bytes that the engine sent."""
    packed = gzip.compress(b'{"a": 1}')
    target = Target(answer=sized(JSON, packed, b"Content-Encoding: gzip"))
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        answer = await it.chat(accept_encoding="gzip")
        assert (answer.body, answer["content-encoding"]) == (packed, "gzip")
        assert target.heard[0].all("accept-encoding") == [b"gzip"]


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body(status: int) -> None:
    """GW-11: an answer that has no body by its status passes, and its connection serves the next."""
    target = Target(answer=b"HTTP/1.1 %d Nothing\r\n\r\n" % status)
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        assert [(await it.chat()).status for _ in range(2)] == [status, status]
        assert target.connections == 1


async def test_head_below_upstream() -> None:
    """GW-11: HEAD passes with the length that a GET would have, and without a body."""
    target = Target(answer=OK + b"Content-Length: 99\r\n\r\n")
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        answer = await it.ask("HEAD", "/upstream/fast/health")
        assert (answer.status, answer["content-length"], answer.body) == (200, "99", b"")


async def test_unix_socket(tmp_path: object) -> None:
    """GW-16: an engine behind a Unix socket is served like any other."""
    target = Target()
    places = Places()
    async with RawUpstream(target.script, unix=f"{tmp_path}/engine.sock") as raw:
        places.known["http://127.0.0.1:8101"] = raw.address
        async with front(a_fleet(CHAT), places=places) as it:
            it.up("fast")
            assert (await it.chat()).status == 200
            assert target.heard[0].all("host") == [b"localhost"]


# ---------------------------------------------------------------- streams


async def test_each_chunk_at_once() -> None:
    """GW-13: the head and each chunk reach the caller before the engine has sent the next one."""
    more = asyncio.Event()

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(SSE)
        for number in range(5):
            await more.wait()
            more.clear()
            await wire.send(chunk(b"data: %d\n\n" % number))
        await more.wait()
        await wire.send(chunk(DONE) + b"0\r\n\r\n")

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it:
        it.up("fast")
        client = await it.stream()
        head = await client.head()
        for name in (b"x-accel-buffering: no", b"cache-control: no-cache", b"x-hostler-served-by: fast"):
            assert name in head
        assert b"content-length" not in head.lower()
        for number in range(5):
            more.set()
            assert await client.reader.readuntil(b"\n\n\r\n") == chunk(b"data: %d\n\n" % number)
        assert it.rows[0].phase == "streaming"
        assert it.rows[0].bytes_out == 45
        more.set()
        assert await client.rest() == chunk(DONE) + b"0\r\n\r\n"
        assert it.outcomes == ["ok"]


async def test_an_engines_own_no_buffering_stays() -> None:
    """GW-11: an engine's own cache and buffering headers of a stream are not replaced."""
    fields = b"Cache-Control: no-store\r\nX-Accel-Buffering: yes\r\n"
    head = OK + b"Content-Type: text/event-stream\r\n" + fields + b"Transfer-Encoding: chunked\r\n\r\n"
    async with front(a_fleet(CHAT), {"fast": Target(answer=head + chunk(DONE) + b"0\r\n\r\n")}) as it:
        it.up("fast")
        answer = parsed(await (await it.stream()).rest())
        assert answer.all("cache-control") == ["no-store"]
        assert answer.all("x-accel-buffering") == ["yes"]


async def test_a_stream_that_dies() -> None:
    """GW-14: a stream whose engine dies ends with an error frame after the cut event, without [DONE]."""

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(SSE + chunk(b'data: {"a"'))
        wire.close()

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it:
        it.up("fast")
        answer = parsed(await (await it.stream()).rest())
        assert (answer.status, answer.whole) == (200, True)
        cut, frame, rest = answer.body.split(b"\n\n")
        assert (cut, rest) == (b'data: {"a"', b"")
        error = json.loads(frame.removeprefix(b"data: "))["error"]
        assert error["code"] == "upstream_died"
        assert "in the middle" in error["message"]
        assert b"[DONE]" not in answer.body
        assert it.outcomes == ["upstream_died"]
        assert (it.rows, it.lanes.get("fast").requests) == ([], set())


@pytest.mark.parametrize("framing", [b"Content-Length: 99", b"Transfer-Encoding: chunked"])
async def test_an_answer_that_dies(framing: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """GW-14: a plain answer that is cut is cut for the caller too: never a clean end of half of it."""

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(JSON + framing + b"\r\n\r\n" + (chunk(b"{") if b"chunked" in framing else b"{"))
        wire.close()

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it:
        it.up("fast")
        answer = await it.chat("fast")
        assert (answer.status, answer.body, answer.whole) == (200, b"{", False)
        assert caplog.text == ""
        assert it.outcomes == ["upstream_died"]
        assert it.rows == []


async def test_a_compressed_stream_that_dies() -> None:
    """GW-14: no frame of ours goes into compressed bytes: such a stream is cut."""

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(SSE[:-2] + b"Content-Encoding: gzip\r\n\r\n" + chunk(b"\x1f\x8b"))
        wire.close()

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it:
        it.up("fast")
        answer = parsed(await (await it.stream()).rest())
        assert (answer.body, answer.whole) == (b"\x1f\x8b", False)


async def test_silence() -> None:
    """GW-13: an engine that sends nothing for the route's silence is ended with an error frame."""
    told = asyncio.Event()

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(SSE + chunk(b"data: 1\n\n"))
        await wire.gone()
        told.set()

    async with front(a_fleet(replace(CHAT, silence_s=0.05)), {"fast": Target(says=says)}) as it:
        it.up("fast")
        answer = parsed(await (await it.stream()).rest())
        assert b'"code":"upstream_died"' in answer.body
        await told.wait()
        assert it.outcomes == ["silent"]


# ---------------------------------------------------------------- errors of targets


async def test_a_target_that_is_down() -> None:
    """GW-14: a target that nobody listens for is 502 `upstream_unreachable`."""
    places = Places(known={"http://127.0.0.1:8101": Address(host="127.0.0.1", port=9)})
    async with front(a_fleet(CHAT), places=places) as it:
        it.up("fast")
        answer = await it.chat()
        assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
        assert answer["x-hostler-route"] == "chat"
        assert it.lanes.get("fast").requests == set()


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
async def test_an_upstreams_error(status: int) -> None:
    """GW-14: an upstream's error arrives with its status, body and Retry-After, not made over."""
    said = b'{"error": {"message": "no", "extra": [1.0]}}'
    target = Target(answer=sized(b"HTTP/1.1 %d X\r\n" % status, said, b"Retry-After: 7", b"X-Request-Id: 1"))
    async with front(a_fleet(CLOUD), {"cloud": target}) as it:
        answer = await it.chat("cloud")
        assert (answer.status, answer.body, answer["retry-after"]) == (status, said, "7")
        assert (answer["x-request-id"], answer["x-hostler-served-by"]) == ("1", "cloud")
        assert it.outcomes == ["upstream_error" if status >= 500 else "ok"]


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_secrets_in_an_error(framing: str) -> None:
    """GW-14: our key that an upstream's error repeats is taken out, and the answer stays whole."""
    said = b'{"error": {"message": "Incorrect key: sk-ours"}}'
    head = b"HTTP/1.1 401 X\r\nContent-Type: application/json\r\nX-Echo: Bearer sk-ours\r\n"
    answer = sized(head, said)
    if framing == "chunked":
        answer = (
            head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(said[:30]) + chunk(said[30:]) + b"0\r\n\r\n"
        )
    redact = lambda text: text.replace("sk-ours", "****")  # noqa: E731 - what the daemon's redactor does
    async with front(a_fleet(CLOUD), {"cloud": Target(answer=answer)}, redact=redact) as it:
        got = await it.chat("cloud")
        assert (got.status, got.whole) == (401, True)
        assert got.body == said.replace(b"sk-ours", b"****")
        assert got["x-echo"] == "Bearer ****"


async def test_a_large_error() -> None:
    """GW-14: an error that is longer than what is looked at passes to its end."""
    said = b"x" * 300_000
    async with front(a_fleet(CLOUD), {"cloud": Target(answer=sized(b"HTTP/1.1 500 X\r\n", said))}) as it:
        answer = await it.chat("cloud")
        assert (answer.status, answer.body, answer.whole) == (500, said, True)


@pytest.mark.parametrize("status", [503, 429])
async def test_a_failing_upstream_is_left_alone(status: int) -> None:
    """GW-13: one that says it is overloaded is not asked again before its Retry-After, then probed once."""
    target = Target(answer=sized(b"HTTP/1.1 %d X\r\n" % status, b"{}", b"Retry-After: 30"))
    async with front(a_fleet(CLOUD), {"cloud": target}) as it:
        assert (await it.chat("cloud")).status == status
        refused = await it.chat("cloud")
        assert (refused.status, refused.error["code"]) == (502, "upstream_unreachable")
        assert refused["retry-after"] == "30"
        assert len(target.heard) == 1
        await it.clock.advance(30)
        target.answer = sized(JSON, b"{}")
        assert [(await it.chat("cloud")).status for _ in range(2)] == [200, 200]
        assert it.backoff.off == {}


async def test_an_upstream_that_is_down_is_left_alone() -> None:
    """GW-13: one that cannot be reached is not dialled again before its time."""
    places = Places(known={"http://cloud.example.net/v1": Address(host="127.0.0.1", port=9)})
    async with front(a_fleet(CLOUD), places=places) as it:
        assert "left alone" not in str((await it.chat("cloud")).error["message"])
        assert "left alone" in str((await it.chat("cloud")).error["message"])


async def test_an_engine_that_is_down_is_left() -> None:
    """GW-13: an engine that could not be reached does not count the request that another target serves."""
    targets = (EngineTarget(engine=EngineId("fast")), UpstreamTarget(upstream="cloud"))
    route = a_route("chat", {"p": Plain(targets=targets)}, strategy=Strategy(kind="first_ready"))
    go = asyncio.Event()

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(SSE)
        await go.wait()
        await wire.send(b"0\r\n\r\n")

    places = Places(known={"http://127.0.0.1:8101": Address(host="127.0.0.1", port=9)})
    async with front(a_fleet(route), {"cloud": Target(says=says)}, places=places) as it:
        it.up("fast")
        client = await it.stream()
        assert b"served-by: cloud" in await client.head()
        assert it.lanes.get("fast").requests == set()
        assert it.rows[0].engine is None
        go.set()
        await client.rest()


async def test_the_other_one_serves_meanwhile() -> None:
    """GW-13: while one upstream is left alone the next target of the route serves."""
    down, spare = Target(answer=sized(b"HTTP/1.1 503 X\r\n", b"{}")), Target()
    async with front(a_fleet(BOTH), {"cloud": down, "spare": spare}) as it:
        assert (await it.chat("both")).status == 503
        answer = await it.chat("both")
        assert (answer.status, answer["x-hostler-served-by"]) == (200, "spare")
        assert len(down.heard) == 1


async def test_a_probe_whose_client_leaves() -> None:
    """GW-13: a probe that is hung up on shuts nobody out: the next request is the probe."""
    held = asyncio.Event()

    async def says(wire: Wire, _: Heard) -> None:
        held.set()
        await wire.gone()

    target = Target(says=says)
    async with front(a_fleet(CLOUD), {"cloud": target}) as it:
        it.backoff.failed("cloud")
        await it.clock.advance(1)
        client = await it.send("POST", PATH, chat_body("cloud"))
        await held.wait()
        client.close()
        await target.gone.wait()
        target.says = None
        assert (await it.chat("cloud")).status == 200


async def test_a_stale_connection() -> None:
    """GW-13: a kept connection that was closed meanwhile costs one more try, which the caller never sees."""
    seen: list[int] = []

    async def says(wire: Wire, heard: Heard) -> None:
        seen.append(wire.number)
        if wire.number == 1 and seen.count(1) == 2:
            wire.close()
            return
        await wire.send(sized(JSON, b"{}"))

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it:
        it.up("fast")
        assert [(await it.chat()).status for _ in range(2)] == [200, 200]
        assert seen == [1, 1, 2]
        assert it.outcomes == ["ok", "ok"]


async def test_no_second_try_on_a_new_connection() -> None:
    """GW-13: a request on a new connection is sent once: its engine may have begun to work."""

    async def says(wire: Wire, _: Heard) -> None:
        wire.close()

    target = Target(says=says)
    fleet = a_fleet(BOTH, engines=(engine("fast", 8101),))
    async with front(fleet, {"cloud": target, "spare": Target()}) as it:
        answer = await it.chat("both")
        assert (answer.status, answer.error["code"]) == (502, "upstream_died")
        assert len(target.heard) == 1
