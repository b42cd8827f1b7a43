import asyncio
import json
import socket
from pathlib import Path

import httpx2
import pytest

from tests.fakes.fake_engine import eventually
from tests.story.house import House, chat

CHAT = "/v1/chat/completions"
MIB = 1 << 20


def resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * 4096


def memory(it: House) -> int:
    """Of the daemon."""
    assert it.daemon is not None
    return resident(it.daemon.pid)


async def connect(it: House, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of bytes, the first of them sent."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", it.port))
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.write(data)
    return reader, writer


async def test_a_body_without_end(fake: House) -> None:
    """BG-29, GW-12: a body without end is 413 at the limit, readable to its end, and takes no memory."""
    fake.top = {"gateway": {"max_body": "4 MiB"}}
    fake.fakes("fast")
    await fake.start()
    assert (await fake.chat("fast")).status_code == 200
    before = memory(fake)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    reader, writer = await connect(fake, head)
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    sent = 0
    answer = asyncio.create_task(reader.readuntil(b"}}"))
    while not answer.done() and sent < 64 * MIB:
        writer.write(piece)
        await writer.drain()
        sent += 0x10000
    text = await answer
    writer.transport.abort()
    assert b" 413 " in text
    assert json.loads(text[text.index(b"{") :])["error"]["code"] == "too_large"
    assert memory(fake) - before < 24 * MIB
    assert (await fake.chat("fast")).status_code == 200


async def test_a_large_body_that_is_allowed(fake: House) -> None:
    """BG-29, GW-12: 20 MB of base64 pass to the engine unchanged, the model's name behind them."""
    fake.fakes("fast")
    await fake.start()
    url = "data:image/png;base64," + "A" * 20_000_000
    body = b'{"messages": [{"role": "user", "content": "%b"}], "model": "fast"}' % url.encode()
    async with fake.client() as client:
        answer = await client.post(CHAT, content=body)
    assert answer.status_code == 200
    assert (await fake.heard("fast"))[-1]["body"] == body.decode()


async def test_a_reader_that_is_slow(fake: House) -> None:
    """BG-29, GW-13: a client that reads nothing holds its engine back; memory stays flat, others go on."""
    fake.fakes("fast", "endless")
    await fake.start()
    assert (await fake.chat("fast", max_tokens=1)).status_code == 200
    before = memory(fake)
    body = json.dumps(chat("fast", stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    _, writer = await connect(fake, head + body)
    writer.transport.pause_reading()  # type: ignore[attr-defined] # asyncio's own, of a reader
    seen: list[object] = []

    async def stands_still() -> bool:
        rows = await fake.rows()
        seen.append(rows[0]["bytes_out"] if rows else -1)
        return len(seen) > 10 and len({seen[-1], *seen[-5:]}) == 1 and seen[-1] != -1

    await eventually(stands_still, "the engine is held back")
    assert memory(fake) - before < 24 * MIB
    assert (await fake.chat("fast", max_tokens=1)).status_code == 200
    writer.transport.abort()

    async def freed() -> bool:
        return await fake.rows() == []

    await eventually(freed, "the row is gone")


@pytest.mark.slow
async def test_headers_that_do_not_end(fake: House) -> None:
    """BG-29: 300 clients that send half a header keep nobody out, and are hung up on in the end."""
    fake.fakes("fast")
    await fake.start()
    slow = [await connect(fake, b"POST / HTTP/1.1\r\nHos") for _ in range(300)]
    async with fake.client() as client:
        for path in ("/health", "/v1/models", "/v1/hostler/status"):
            assert (await client.get(path)).status_code == 200
    assert (await fake.chat("fast")).status_code == 200
    async with asyncio.timeout(60):
        answers = [await reader.read() for reader, _ in slow]
    assert {answer.split(b" ")[1] for answer in answers} == {b"408"}
    for _, writer in slow:
        writer.close()


async def test_keys(fake: House) -> None:
    """API-4: with a key in the config inference needs it, its routes bound it, and the CLI works on."""
    fake.fakes("fast")
    fake.routes["chat"] = {"profiles": {"local": "fast"}, "active": "local"}
    key = fake.root / "bots.key"
    key.write_text("hk_bots_of_this_test")
    key.chmod(0o600)
    bots = {"name": "bots", "key": f"${{file:{key}}}", "scope": ["infer"], "routes": ["chat"]}
    fake.top = {"keys": [bots]}
    await fake.start()
    for sent, status in (({}, 401), ({"authorization": "Bearer hk_other"}, 401)):
        assert (await fake.ask(CHAT, chat("chat"), **sent)).status_code == status
    good = {"authorization": "Bearer hk_bots_of_this_test"}
    assert (await fake.ask(CHAT, chat("chat"), **good)).status_code == 200
    assert (await fake.ask(CHAT, chat("fast"), **good)).status_code == 404
    async with httpx2.AsyncClient(base_url=fake.url, headers=good) as client:
        assert (await client.post("/v1/hostler/engines/fast/stop")).status_code == 403
    assert "fast" in await fake.told("engines")
    assert "hk_bots" not in fake.log.read_text()
    local = {"authorization": f"Bearer {fake.key}"}
    heard = (await (await _look(fake, local)).aread()).decode()
    assert "hk_bots" not in heard


async def _look(it: House, headers: dict[str, str]) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=it.url, headers=headers) as client:
        return await client.get("/upstream/fast/fake/requests")
