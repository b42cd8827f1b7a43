"""A server of ours on loopback for one test, and a client of it that speaks bytes."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from hostler.gateway.asgi import AsgiApp, Message, Receive, Scope, Send, adapted
from hostler.gateway.exchange import App
from hostler.gateway.server import Limits, make_server

GET = b"GET /a HTTP/1.1\r\nHost: crow.lan\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nHost: crow.lan\r\n"
SOON = Limits(header_s=0.05, body_s=0.05, reserve_header_s=0.05)


class Client:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        """Write, without waiting."""
        self.writer.write(data)

    async def head(self) -> bytes:
        """The next answer's head."""
        return await self.reader.readuntil(b"\r\n\r\n")

    async def answer(self) -> tuple[int, bytes]:
        """The next answer with a Content-Length: status and body."""
        head = await self.head()
        fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
        return int(head.split()[1]), await self.reader.readexactly(int(fields[b"content-length"]))

    async def rest(self) -> bytes:
        """All until the server hangs up."""
        return await self.reader.read()

    def close(self) -> None:
        """Hang up."""
        self.writer.close()


class Listening:
    """A running server: its port, and what it holds."""

    def __init__(self, address: tuple[str, int], connections: set[Any]) -> None:
        self.address = address
        self.connections = connections
        self.clients: list[Client] = []

    async def connect(self, host: str | None = None) -> Client:
        """A new connection, from `host` if given."""
        local = (host, 0) if host is not None else None
        client = Client(*await asyncio.open_connection(*self.address, local_addr=local))
        self.clients.append(client)
        return client

    async def held(self) -> set[Any]:
        """The server's connections, once it has any."""
        while not self.connections:  # noqa: ASYNC110 # uvicorn's set has no event
            await asyncio.sleep(0)
        return self.connections

    async def ask(self, data: bytes) -> tuple[int, bytes]:
        """Send bytes on a new connection and read one answer."""
        client = await self.connect()
        client.send(data)
        async with asyncio.timeout(5):
            return await client.answer()


@contextlib.asynccontextmanager
async def listening(
    app: AsgiApp,
    limits: Limits | None = None,
    is_control: Callable[[str], bool] = lambda _: False,
) -> AsyncIterator[Listening]:
    """Run a server with an ASGI `app` for the length of the block."""
    async with answering(adapted(app), limits, is_control) as running:
        yield running


@contextlib.asynccontextmanager
async def answering(
    app: App,
    limits: Limits | None = None,
    is_control: Callable[[str], bool] = lambda _: False,
) -> AsyncIterator[Listening]:
    """Run a server with `app` for the length of the block, without uvicorn's waiting at the end."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = make_server(app, limits=limits, is_control=is_control)
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[sock])
    server.server_state.default_headers = [(b"date", b"now")]
    running = Listening(sock.getsockname(), server.server_state.connections)
    try:
        yield running
    finally:
        for one in server.servers:
            one.close()
        for client in running.clients:
            client.writer.transport.abort()
        for connection in list(server.server_state.connections):
            connection.transport.abort()
        tasks = list(server.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        sock.close()


async def read_all(receive: Receive) -> bytes | None:
    """The whole body; None when the client left first."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message["body"]
        if not message["more_body"]:
            return body


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> Message:
    """ASGI's first message of an answer."""
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def part(body: bytes, *, more: bool = False) -> Message:
    """ASGI's message of a part of an answer."""
    return {"type": "http.response.body", "body": body, "more_body": more}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with the method, the path, and the body."""
    body = await read_all(receive)
    if body is None:
        return
    answer = f"{scope['method']} {scope['path']} ".encode() + body
    await send(start(200, (b"content-length", b"%d" % len(answer))))
    await send(part(answer))
