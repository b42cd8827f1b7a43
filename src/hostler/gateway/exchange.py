"""One request and its answer, between the connection and whoever answers it.

Decides the framing and the bytes of an answer's head. Does not read the socket, and does not decide when a
connection ends for reasons of its own: that is `server`. An ASGI application answers through `asgi`.
"""

from __future__ import annotations

import asyncio
import http
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl

from hostler.gateway.sockets import reset

Fields = list[tuple[bytes, bytes]]

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
    """Raised by who answers, after the answer began: the connection ends unfinished, and nobody is logged.

    For an answer that has no place for an error frame: its reader must not take it for whole.
    """


class Connection(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop
    flow: FlowControl
    """Who is slow: the client that does not read, or we who do not want more of its body."""
    client: tuple[str, int] | None

    @property
    def server(self) -> tuple[str, int] | None:
        """The address and port that it came to; None on a Unix socket."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""

    def finished(self, exchange: Exchange) -> None:
        """The answer is whole."""

    def answered(self, exchange: Exchange) -> None:
        """Nobody works on it any more."""

    def default_headers(self) -> Fields:
        """Headers of every answer that does not bring its own `date`."""


@dataclass(eq=False, slots=True)
class Asked:
    """The head of a request: `path` decoded, `raw_path` and `url` as they came, header names in lower case.

    `headers` are without the length of the body, so that a client that asks again in the same words has the
    same head: it is then the same object, and `noted` is what who answers made of it the time before.
    """

    verb: bytes
    method: str
    url: bytes
    path: str
    raw_path: bytes
    query: bytes
    version: str
    headers: Fields
    noted: object = None

    def is_again(self, verb: bytes, version: str, url: bytes, headers: Fields) -> bool:
        """Whether a request that came behind this one has the same head."""
        return headers == self.headers and url == self.url and verb == self.verb and version == self.version


class Exchange:
    """A request and its answer. `body` is what arrived and was not yet read, `length` the declared one."""

    __slots__ = (
        "_chunked",
        "_left",
        "_unsent",
        "_waiter",
        "asked",
        "body",
        "connection",
        "disconnected",
        "flow",
        "keep_alive",
        "length",
        "loop",
        "more_body",
        "on_hang_up",
        "response_complete",
        "response_started",
        "task",
        "waits_for_continue",
    )

    def __init__(
        self,
        asked: Asked,
        connection: Connection,
        *,
        length: int | None,
        keep_alive: bool,
        expects_continue: bool,
    ) -> None:
        self.asked = asked
        self.length = length
        self.task: asyncio.Task[None] | None = None
        self.keep_alive = keep_alive
        self.waits_for_continue = expects_continue
        self.body: bytes | bytearray = b""
        self.more_body = True
        self.disconnected = False
        self.response_started = False
        self.response_complete = False
        self.on_hang_up: Callable[[], object] | None = None
        self.flow = connection.flow
        self.loop = connection.loop
        self.connection = connection
        self._chunked = False
        self._left: int | None = None
        self._unsent = b""
        self._waiter: asyncio.Future[None] | None = None

    # For the connection.

    def add(self, part: bytes) -> None:
        """A part of the body arrived. One that comes alone, as most do, is not copied."""
        if not self.body:
            self.body = part
        elif isinstance(self.body, bytearray):
            self.body += part
        else:
            self.body = bytearray(self.body) + part
        self.wake()

    def wake(self) -> None:
        """Something changed that `read` or `changed` may wait for."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def hang_up(self) -> None:
        """The client is gone, or is refused the rest: who answers is told, what it writes is dropped."""
        if self.response_complete or self.disconnected:
            return
        self.disconnected = True
        self.wake()
        if self.on_hang_up is not None:
            self.on_hang_up()

    async def run(self, app: App) -> None:
        """Have it answered; whatever `app` does, the client gets an answer or a cut connection."""
        try:
            await app(self)
        except asyncio.CancelledError:
            self._cut()
            raise
        except CutShort:
            self._cut()
        except Exception:  # noqa: BLE001 # any bug of the application's must end in an answer or a cut
            if not self.disconnected:
                _log.exception("the application failed on %s %s", self.asked.method, self.asked.path)
            await self._fail()
        else:
            if not self.response_complete and not self.disconnected:
                _log.error("no whole answer for %s %s", self.asked.method, self.asked.path)
                await self._fail()
        finally:
            # Who is told and the exchange hold each other: a ring that only the collector would open.
            self.on_hang_up = None
            self.connection.answered(self)

    # For who answers.

    def when_gone(self, callback: Callable[[], object]) -> None:
        """Have `callback` called, once, when the client leaves amid its answer; at once if it left.

        Cheaper than a task that waits for it.
        """
        self.on_hang_up = callback
        if self.disconnected:
            callback()

    async def read(self) -> bytes | None:
        """The next part of the body, b"" at its end; None when the client is gone, or its answer is whole.

        Asking for the body sends 100.
        """
        if self.waits_for_continue and not self.disconnected:
            self.waits_for_continue = False
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.flow.resume_reading()
        while not self.body and self.more_body and not self.is_over:
            await self.changed()
        if self.is_over:
            return None
        part, self.body = bytes(self.body), b""
        return part

    def take(self) -> bytes | None:
        """The whole body, where it is here already; None: it is to be read."""
        if self.more_body or self.disconnected or isinstance(self.body, bytearray):
            return None
        part, self.body = self.body, b""
        return part

    @property
    def is_over(self) -> bool:
        """Whether there is nobody to answer, or nothing more to say."""
        return self.disconnected or self.response_complete

    async def changed(self) -> None:
        """Wait until something arrived, or it is over. One waits at a time."""
        self._waiter = self.loop.create_future()
        await self._waiter

    def start(self, status: int, headers: Fields) -> None:
        """Begin the answer. Its head goes out with the first part of the body, or by `flush`.

        Raises RuntimeError on a second beginning and on a header that is none, LookupError on such a status.
        """
        if self.response_started:
            raise RuntimeError("the answer has begun already")
        if self.disconnected:
            return
        self._unsent = self._head(status, headers)
        self.response_started = True
        self.waits_for_continue = False

    def flush(self) -> None:
        """Write the head, unless the first part of the body took it along: then both were one system call."""
        head = self._unsent
        if head and not self.disconnected:
            self._unsent = b""
            self.connection.transport.write(head)

    def write(self, body: bytes, *, last: bool = False) -> None:
        """Write a part of the body, and complete the answer when it is the last; dropped when it is over.

        Does not wait: `flow` says when the client is slow. Raises RuntimeError when a length that was told is
        not kept, and out of order.
        """
        if self.disconnected:
            return
        if not self.response_started or self.response_complete:
            raise RuntimeError("a part of no answer")
        data = self._framed(body, last=last)
        if self._unsent:
            data = self._unsent + data
            self._unsent = b""
        if data:
            self.connection.transport.write(data)
        if last:
            if self._left:
                raise RuntimeError("the answer is shorter than its Content-Length")
            self.response_complete = True
            self.wake()
            self.connection.finished(self)

    # Its own.

    def _head(self, status: int, headers: Fields) -> bytes:
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
        for name, value in () if dated else self.connection.default_headers():
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
        if self.asked.method == "HEAD" or status in (204, 304):
            self._left = 0
        elif length is not None:
            self._left = length
        elif self.asked.version == "1.1":
            self._chunked = True
            parts.append(b"transfer-encoding: chunked\r\n")
            lines += 1
        self.keep_alive = self.keep_alive and not closes and not self.more_body
        if not self.keep_alive and not closes:
            parts.append(b"connection: close\r\n")
            lines += 1
        return lines

    def _framed(self, body: bytes, *, last: bool) -> bytes:
        """A part of the body as it goes over the wire."""
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return data + b"0\r\n\r\n" if last else data
        if not body or self.asked.method == "HEAD":
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
        if self.flow.write_paused:
            await self.flow.drain()
        self.start(500, headers)
        self.write(_INTERNAL_ERROR, last=True)

    def _cut(self) -> None:
        """End the connection so that an unfinished answer cannot be taken for whole.

        One that is gone, or that its connection refused and lets linger, needs no ending.
        """
        if self.response_complete or self.disconnected:
            return
        self.flush()
        self.disconnected = True
        if self.response_started and not self._chunked and self._left is None:
            # Delimited by the connection's end: only a reset says that this was not it.
            reset(self.connection.transport)
        else:
            self.connection.transport.close()


App = Callable[[Exchange], Awaitable[None]]
"""Who answers: the gateway, or an ASGI application by `asgi.adapted`."""
