"""HTTP with as little as it takes: kept connections, one call at a time on each, event streams.

So that the client's own work is small beside the daemon's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.peers import BenchError
from bench.schedule.place import KEY

BIGGEST = 1 << 26


@dataclass(eq=False, slots=True)
class Line:
    """One connection to the daemon."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def call(self, method: str, path: str, body: object = None, *, once: str = "") -> bytes:
        """The body of the answer. BenchError for any other status than 200."""
        sent = b"" if body is None else json.dumps(body).encode()
        repeat = f"Idempotency-Key: {once}\r\n" if once else ""
        self.writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n{repeat}"
            f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n".encode()
            + sent
        )
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        found = await self.reader.readexactly(size)
        if not head.startswith(b"HTTP/1.1 200"):
            raise BenchError(f"{method} {path}: {head.splitlines()[0]!r} {found[:500]!r}")
        return found

    async def told(self, method: str, path: str, body: object = None, *, once: str = "") -> Any:  # noqa: ANN401 - an answer's JSON may be anything
        """The answer as values."""
        return json.loads(await self.call(method, path, body, once=once))


@asynccontextmanager
async def lines(port: int, count: int) -> AsyncIterator[list[Line]]:
    """So many connections, closed at the end."""
    made = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=BIGGEST)
            made.append(Line(reader, writer))
        yield made
    finally:
        for each in made:
            each.writer.close()


@dataclass(eq=False, slots=True)
class Stream(asyncio.Protocol):
    """A reader of the feed: counts what comes and keeps nothing."""

    events: int = 0
    taken: int = 0
    open: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the events."""
        assert isinstance(transport, asyncio.Transport)
        self.open = True
        transport.write(
            f"GET /gateway/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Count."""
        self.taken += len(data)
        self.events += data.count(b"\nevent: ")

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        del exc
        self.open = False


@asynccontextmanager
async def streams(port: int, count: int) -> AsyncIterator[list[Stream]]:
    """So many readers of the feed. BenchError when one was cut."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Stream, "127.0.0.1", port) for _ in range(count)]
    try:
        while not all(reader.taken for _, reader in made):
            if not all(reader.open for _, reader in made):
                raise BenchError("the daemon cut a reader of the feed at its begin")
            await asyncio.sleep(0.05)
        yield [reader for _, reader in made]
        if not all(reader.open for _, reader in made):
            raise BenchError("the daemon cut a reader of the feed")
    finally:
        for transport, _ in made:
            transport.close()
