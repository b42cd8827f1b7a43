"""One request and its answer, between the connection and the application (ASGI 3, HTTP only).

Decides the framing and the bytes of an answer's head. Does not read the socket, and does not decide when a
connection ends for reasons of its own: that is `server`.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from hostler.gateway.sockets import reset

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SCOPE_KEY: Final = "hostler.exchange"
"""Where an application finds the exchange in its scope, for `on_hang_up`."""

_log = logging.getLogger("hostler.gateway.server")

_STATUS_LINES = {
    **{code: b"HTTP/1.1 %d \r\n" % code for code in range(200, 600)},
    **{s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in http.HTTPStatus if s >= 200},
}

_WATCHED = frozenset(map(len, (b"date", b"connection", b"content-length", b"transfer-encoding")))
"""Lengths of the names that matter here: nearly every other header is passed by one look at its length."""

_INTERNAL_ERROR = (
    b'{"error": {"message": "Internal error.", "type": "server_error", "param": null, "code": "internal"}}'
)


class CutShort(Exception):
    """Raised by the application after its answer began: the connection ends unfinished, and nobody is logged.

    For an answer that has no place for an error frame: its reader must not take it for whole.
    """


class Connection(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    async def drain(self) -> None:
        """Wait until the client took enough of what was written; returns at once when it left."""

    @property
    def is_write_paused(self) -> bool:
        """Whether there is anything to wait for."""

    def let_read(self) -> None:
        """The application wants more of the body."""

    def finished(self, exchange: Exchange) -> None:
        """The answer is whole."""

    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """Headers of every answer that does not bring its own `date`."""


class Exchange:
    """A request and its answer. `body` is what arrived and was not yet received by the application."""

    __slots__ = (
        "_chunked",
        "_connection",
        "_end_received",
        "_is_head",
        "_left",
        "_unsent",
        "_waiter",
        "body",
        "disconnected",
        "keep_alive",
        "more_body",
        "on_hang_up",
        "response_complete",
        "response_started",
        "scope",
        "waits_for_continue",
    )

    def __init__(
        self, scope: Scope, connection: Connection, *, keep_alive: bool, expects_continue: bool
    ) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.waits_for_continue = expects_continue
        self.body = bytearray()
        self.more_body = True
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self.on_hang_up: Callable[[], object] | None = None
        self._connection = connection
        self._is_head = scope["method"] == "HEAD"
        self._end_received = False
        self._chunked = False
        self._left: int | None = None
        self._unsent = b""
        self._waiter: asyncio.Future[None] | None = None
        scope[SCOPE_KEY] = self

    # For the connection.

    def wake(self) -> None:
        """Something changed that the application may wait for in `receive`."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def hang_up(self) -> None:
        """The client is gone, or is refused the rest: the application is told, what it sends is dropped."""
        if self.response_complete or self.disconnected:
            return
        self.disconnected = True
        self.wake()
        if self.on_hang_up is not None:
            self.on_hang_up()

    async def run_asgi(self, app: App) -> None:
        """Run the application; whatever it does, the client gets an answer or a cut connection."""
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            self._cut()
            raise
        except CutShort:
            self._cut()
        except Exception:  # noqa: BLE001 # any bug of the application's must end in an answer or a cut
            if not self.disconnected:
                _log.exception("the application failed on %s %s", self.scope["method"], self.scope["path"])
            await self._fail()
        else:
            if not self.response_complete and not self.disconnected:
                _log.error("no whole answer for %s %s", self.scope["method"], self.scope["path"])
                await self._fail()
        finally:
            # The scope and the exchange hold each other: a ring that only the collector would open.
            self.scope.pop(SCOPE_KEY, None)
            self.on_hang_up = None

    # For the application.

    async def receive(self) -> Message:
        """ASGI: the next part of the body, or that the client is gone. Asking for the body sends 100."""
        if self.waits_for_continue and not self.disconnected:
            self.waits_for_continue = False
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._connection.let_read()
        while not (self.disconnected or self.response_complete):
            if self.body or not (self.more_body or self._end_received):
                self._end_received = not self.more_body
                data = bytes(self.body)
                self.body.clear()
                return {"type": "http.request", "body": data, "more_body": self.more_body}
            self._waiter = self._connection.loop.create_future()
            await self._waiter
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """ASGI: the head of the answer, then its body; waits while the client is slow."""
        if self._connection.is_write_paused and not self.disconnected:
            await self._connection.drain()
        if self.disconnected:
            return
        if not self.response_started:
            self._expect(message, "http.response.start")
            head = self._head(message["status"], message.get("headers", ()))
            self.response_started = True
            self.waits_for_continue = False
            self._unsent = head
            self._connection.loop.call_soon(self._send_head)
        elif not self.response_complete:
            self._expect(message, "http.response.body")
            self._write(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} after the answer was complete")

    # Its own.

    @staticmethod
    def _expect(message: Message, kind: str) -> None:
        """A message out of order is the application's bug."""
        if message["type"] != kind:
            raise RuntimeError(f"{kind} was expected, not {message['type']}")

    def _head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The head's bytes; how the body is delimited is decided here.

        Raises RuntimeError on a line break in a header: each line end in the result is one we wrote.
        """
        self._chunked = False
        self._left = None
        parts = [_STATUS_LINES[status]]
        closes = dated = False
        length: int | None = None
        count = 2
        for name, value in headers:
            if len(name) in _WATCHED:
                low = name.lower()
                if low == b"transfer-encoding":
                    continue
                if low == b"content-length":
                    length = int(value)
                closes = closes or (low == b"connection" and b"close" in value.lower())
                dated = dated or low == b"date"
            parts += (name, b": ", value, b"\r\n")
            count += 1
        for name, value in () if dated else self._connection.default_headers():
            parts += (name, b": ", value, b"\r\n")
            count += 1
        count += self._frame(parts, status, length, closes=closes)
        parts.append(b"\r\n")
        head = b"".join(parts)
        if head.count(b"\n") != count or head.count(b"\r") != count or b"\0" in head:
            raise RuntimeError("a header of the answer holds a line break or NUL")
        return head

    def _frame(self, parts: list[bytes], status: int, length: int | None, *, closes: bool) -> int:
        """Add the lines that delimit the body and the connection; returns how many.

        A request whose body has not all arrived closes its connection: what is still to come would otherwise
        have to be read to its end. HTTP/1.0 knows no chunks: there the connection's end is the body's.
        """
        lines = 0
        if self._is_head or status in (204, 304):
            self._left = 0
        elif length is not None:
            self._left = length
        elif self.scope["http_version"] == "1.1":
            self._chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
            lines += 1
        self.keep_alive = self.keep_alive and not closes and not self.more_body
        if not self.keep_alive and not closes:
            parts.append(b"connection: close\r\n")
            lines += 1
        return lines

    def _send_head(self) -> None:
        """Write the head, unless the first part of the body took it along: then both were one system call."""
        head = self._unsent
        if head and not self.disconnected:
            self._unsent = b""
            self._connection.transport.write(head)

    def _write(self, body: bytes, *, more: bool) -> None:
        """Write a part of the body, and complete the answer when it is the last."""
        data = self._framed(body, more=more)
        if self._unsent:
            data = self._unsent + data
            self._unsent = b""
        if data:
            self._connection.transport.write(data)
        if not more:
            if self._left:
                raise RuntimeError("the answer is shorter than its Content-Length")
            self.response_complete = True
            self.wake()
            self._connection.finished(self)

    def _framed(self, body: bytes, *, more: bool) -> bytes:
        """A part of the body as it goes over the wire."""
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return data if more else data + b"0\r\n\r\n"
        if self._is_head or not body:
            return b""
        if self._left is not None:
            self._left -= len(body)
            if self._left < 0:
                raise RuntimeError("the answer is longer than its Content-Length")
        return body

    async def _fail(self) -> None:
        """The application failed: an answer that says so, or, when one began, a cut."""
        if self.response_started or self.disconnected:
            self._cut()
            return
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_INTERNAL_ERROR))]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": _INTERNAL_ERROR})

    def _cut(self) -> None:
        """End the connection so that an unfinished answer cannot be taken for whole.

        One that is gone, or that its connection refused and lets linger, needs no ending.
        """
        if self.response_complete or self.disconnected:
            return
        self._send_head()
        self.disconnected = True
        if self.response_started and not self._chunked and self._left is None:
            # Delimited by the connection's end: only a reset says that this was not it.
            reset(self._connection.transport)
        else:
            self._connection.transport.close()


def on_hang_up(scope: Scope, callback: Callable[[], object]) -> bool:
    """Have `callback` called, once, when the client leaves before its answer is whole; at once if it left.

    Cheaper than a task that waits in `receive`. False under another server, where only `receive` tells.
    """
    exchange = scope.get(SCOPE_KEY)
    if not isinstance(exchange, Exchange):
        return False
    exchange.on_hang_up = callback
    if exchange.disconnected:
        callback()
    return True
