"""The model's name in what a caller gets: what it asked for (GW-11, BG-11)."""

from __future__ import annotations

import asyncio
import json

import pytest

from hostler.domain.fleet import EngineTarget, Plain
from hostler.domain.values import EngineId
from tests.fakes.raw_upstream import Wire, until
from tests.gateway.front import a_fleet, a_route, front
from tests.gateway.wire import JSON, SSE, Heard, Target, parsed

CHAT = a_route("chat", {"p": Plain(targets=(EngineTarget(engine=EngineId("fast")),))}, aliases=("gpt-4o",))
SAID = b'{"id":"1","model":"fast","choices":[{"message":{"content":"\\"model\\":\\"fast\\" \xc3\xa9"}}]}'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def saying(*parts: bytes) -> Target:
    """An engine that says these bytes, one write each."""

    async def says(wire: Wire, _: Heard) -> None:
        for part in parts:
            await wire.send(part)

    return Target(says=says)


@pytest.mark.parametrize("model", ["chat", "gpt-4o", "fast"])
async def test_an_answer_has_the_name_that_was_asked_for(model: str) -> None:
    """GW-11, BG-11: by route, alias or engine; every other byte, and the order of the headers, as it came."""
    head = JSON + b"Content-Length: %d\r\nX-After: 1\r\n\r\n" % len(SAID)
    async with front(a_fleet(CHAT), {"fast": saying(head, SAID)}) as it:
        it.up("fast")
        answer = await it.chat(model)
        expected = SAID.replace(b'"model":"fast"', b'"model":"%b"' % model.encode())
        assert (answer.status, answer.body, answer.whole) == (200, expected, True)
        names = [name.lower() for name, _ in answer.headers]
        assert names.index("content-length") == names.index("x-after") - 1
        assert it.outcomes == ["ok"]
        assert it.ends[0][2].bytes_out == len(expected)


async def test_a_stream_has_it_in_each_event() -> None:
    """GW-11, GW-13: each event is written on as it comes, also where the engine's writes cut the name."""
    go = asyncio.Event()

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(SSE + chunk(b'data: {"model":"fast","n":1}\n\n'))
        await go.wait()
        await wire.send(chunk(b'data: {"mod'))
        await wire.send(chunk(b'el": "fa') + chunk(b'st","n":2}\n\ndata: [DONE]\n\n') + b"0\r\n\r\n")

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it, asyncio.timeout(5):
        it.up("fast")
        client = await it.stream()
        first = await client.reader.readuntil(b'"n":1}\n\n')
        assert first.endswith(b'data: {"model":"chat","n":1}\n\n')
        go.set()
        rest = await client.rest()
        assert b"fast" not in rest.replace(b"\r\n", b"")
        assert it.outcomes == ["ok"]


async def test_a_stream_that_dies_amid_the_name() -> None:
    """GW-14: what waited to be seen whole is passed on before the error frame, as it came."""
    async with front(a_fleet(CHAT), {"fast": Target(says=_dies)}) as it:
        it.up("fast")
        answer = parsed(await (await it.stream()).rest())
        assert answer.body.startswith(b'data: {"mode\n\ndata: {"error"')
        assert answer.whole
        assert it.outcomes == ["upstream_died"]


async def test_an_answer_that_dies_before_it_began() -> None:
    """GW-14: a short answer is read whole to be changed: cut, it has not begun for the caller."""

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(JSON + b"Content-Length: 99\r\n\r\n{")
        wire.close()

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it:
        it.up("fast")
        refused = await it.chat("chat")
        assert (refused.status, refused.whole) == (502, True)
        assert b"upstream_died" in refused.body
        assert it.outcomes == ["upstream_died"]


async def _dies(wire: Wire, _: Heard) -> None:
    await wire.send(SSE + chunk(b'data: {"mode'))
    wire.close()


async def test_a_long_answer_is_not_kept() -> None:
    """GW-11, GW-13: of a long one what is past the first part goes on as it comes, with the name in each."""
    go = asyncio.Event()
    rows = b'{"model":"fast","data":"%b"},' % (b"x" * 1000)

    async def says(wire: Wire, _: Heard) -> None:
        await wire.send(JSON + b"Content-Length: %d\r\n\r\n" % (len(rows) * 200) + rows * 100)
        await go.wait()
        await wire.send(rows * 100)

    async with front(a_fleet(CHAT), {"fast": Target(says=says)}) as it, asyncio.timeout(5):
        it.up("fast")
        client = await it.stream()
        await until(lambda: bool(it.rows) and it.rows[0].bytes_out >= len(rows) * 60)
        go.set()
        answer = parsed(await client.rest())
        assert (answer.body, answer.whole) == (rows.replace(b"fast", b"chat") * 200, True)
        assert answer.all("content-length") == []


@pytest.mark.parametrize(
    "more", [b"Content-Encoding: gzip\r\n", b"Content-Type: text/plain\r\n", b"Content-Type: audio/mpeg\r\n"]
)
async def test_what_is_no_text_of_json_passes_untouched(more: bytes) -> None:
    """GW-11: compressed bytes and other types are not looked into."""
    kind = JSON if b"Encoding" in more else b"HTTP/1.1 200 OK\r\n"
    head = kind + more + b"Content-Length: %d\r\n\r\n" % len(SAID)
    async with front(a_fleet(CHAT), {"fast": saying(head, SAID)}) as it:
        it.up("fast")
        answer = await it.chat("chat")
        assert (answer.status, answer.body, answer.whole) == (200, SAID, True)


async def test_an_error_has_the_upstreams_words() -> None:
    """GW-14, GW-11: an upstream's error is passed as it came: no name is put into it."""
    text = json.dumps({"error": {"message": "no", "model": "fast"}}, separators=(",", ":")).encode()
    head = JSON.replace(b"200 OK", b"400 Bad Request") + b"Content-Length: %d\r\n\r\n" % len(text)
    async with front(a_fleet(CHAT), {"fast": saying(head, text)}) as it:
        it.up("fast")
        answer = await it.chat("chat")
        assert (answer.status, answer.body) == (400, text)
