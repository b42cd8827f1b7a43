"""An upstream that speaks bytes: each connection runs a script of the test's, which may misbehave at will."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from hostler.gateway.upstream import Address, RequestHead

GET = RequestHead(method=b"GET", target=b"/v1/models", headers=[(b"accept", b"*/*")])
POST = RequestHead(method=b"POST", target=b"/v1/chat/completions", headers=[(b"x-a", b"1"), (b"x-a", b"2")])

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"Content-Length: 5\r\n\r\nhello"


class Wire:
    """The server's side of one connection. `number` counts connections from 1."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number

    async def head(self) -> bytes:
        """The next request's head, up to the empty line."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def send(self, data: bytes) -> None:
        """Write and wait until it is with the kernel, as far as asyncio tells."""
        self.writer.write(data)
        await self.writer.drain()

    async def gone(self) -> None:
        """Wait until the client hung up."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def close(self) -> None:
        """End the connection in order (FIN)."""
        self.writer.close()

    def reset(self) -> None:
        """End the connection rudely (RST)."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Script = Callable[[Wire], Awaitable[None]]


class RawUpstream:
    """`async with RawUpstream(script) as up:` listens on loopback; `up.address` says where."""

    def __init__(self, script: Script, *, unix: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._unix = unix
        self._tls = tls
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self.connections = 0

    async def __aenter__(self) -> Self:
        """Listen."""
        if self._unix is not None:
            self._server = await asyncio.start_unix_server(self._serve, self._unix)
            self.address = Address(unix=self._unix)
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
            self.address = Address(host="127.0.0.1", port=self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and end every script."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run the script on a new connection; a client that leaves early ends it quietly."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        self.connections += 1
        wire = Wire(reader, writer, self.connections)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                await self._script(wire)
            finally:
                writer.close()


def answering(*answers: bytes) -> Script:
    """A script that answers each request of a connection with the next of `answers`, then waits."""

    async def script(wire: Wire) -> None:
        for answer in answers:
            await wire.head()
            await wire.send(answer)
        await wire.gone()

    return script


def chunked(*pieces: bytes) -> bytes:
    """Pieces as a chunked body, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 # what the client knows of a socket has no event
            await asyncio.sleep(0)
