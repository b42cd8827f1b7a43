"""One answer of an upstream, while it arrives.

Decides when an answer is whole, when it is refused, and whether its connection is clean afterwards. Does not
own the connection: that is `upstream_link`. A `Response` is what httptools reports to, one parser per answer,
so that nothing of one answer can reach into the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from hostler.gateway.upstream_wire import (
    HIGH_WATER,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_INTERIM,
    Address,
    StaleLink,
    UpstreamDied,
    UpstreamInvalid,
)

Sink = Callable[[bytes], bool]
"""Takes bytes of a body as they arrive. False: enough for now."""

_BAD_INPUT = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class Line(Protocol):
    """What an answer needs of its connection."""

    address: Address
    loop: asyncio.AbstractEventLoop

    def pause(self) -> None:
        """Read no more for now."""

    def resume(self) -> None:
        """Read on."""

    def abort(self) -> None:
        """End the connection at once; the upstream sees it."""


class Response:
    """An answer: `status`, `reason`, `headers` as they came and in order, then the body by `next`.

    One reader at a time. Whoever got it must call `close` at the end, whole or not: it is free when whole.
    """

    __slots__ = (
        "_address",
        "_chunks",
        "_complete",
        "_error",
        "_head_bytes",
        "_head_done",
        "_interim",
        "_junk",
        "_keep",
        "_line",
        "_loop",
        "_parser",
        "_paused",
        "_quiet",
        "_simple",
        "_sink",
        "_size",
        "_to_eof",
        "_waiter",
        "content_encoding",
        "content_type",
        "head_only",
        "headers",
        "reason",
        "status",
    )

    def __init__(self, line: Line, *, head_only: bool) -> None:
        self.status = 0
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.content_type = b""
        self.content_encoding = b""
        self._parser: httptools.HttpResponseParser | None = None
        self._line: Line | None = line
        self._loop = line.loop
        self._address = line.address
        self.head_only = head_only
        self._head_done = False
        self._complete = False
        self._to_eof = False
        self._keep = False
        self._simple = False
        self._junk = False
        self._paused = False
        self._interim = 0
        self._head_bytes = 0
        self._quiet = 0
        self._chunks: list[bytes] = []
        self._size = 0
        self._sink: Sink | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: BaseException | None = None

    # For whoever asked.

    @property
    def at_end(self) -> bool:
        """Whether the answer is whole and all of it was taken: the next `next` gives b"" without waiting."""
        return self._complete and not self._chunks

    async def next(self) -> bytes:
        """The next bytes of the body as soon as there are any, all that wait in one piece; b"" at the end.

        Raises UpstreamDied, UpstreamInvalid or UpstreamSilent after what came before was given out, or what
        the iterator of the request's body raised.
        """
        chunks = self._chunks
        while not chunks:
            if self._error is not None:
                raise self._error
            if self._complete:
                return b""
            await self._wait()
        return self.take()

    def take(self) -> bytes:
        """All of the body that waits, in one piece; reading goes on. Empty when nothing does."""
        chunks = self._chunks
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            if self._line is not None:
                self._line.resume()
        return data

    async def pass_to(self, sink: Sink) -> bool:
        """Give the body to `sink` as it arrives, at once and without waking anybody for each piece.

        Whether there is more: then `sink` had enough, and is to be given the rest by another call. Raises as
        `next`, and what `sink` raises.
        """
        if self._chunks and not sink(self.take()):
            return True
        self._sink = sink
        try:
            while self._sink is sink and not self.is_over:
                await self._wait()
            enough = self._sink is None
        finally:
            self._sink = None
        if not enough and self._error is not None:
            raise self._error
        return enough

    async def read(self, limit: int) -> bytes:
        """The whole rest of the body, at most `limit` bytes: more raises UpstreamInvalid and closes."""
        parts: list[bytes] = []
        size = 0
        while data := await self.next():
            size += len(data)
            if size > limit:
                self.close()
                raise UpstreamInvalid(self._address, f"the answer is longer than {limit} bytes")
            parts.append(data)
        return b"".join(parts)

    def close(self) -> None:
        """Be done with the answer. When it is not whole the connection is aborted: the upstream sees it."""
        line = self._line
        if line is not None:
            self._line = None
            self.fail(UpstreamDied(self._address, "the answer was closed by its reader"))
            line.abort()
        self._chunks.clear()

    # For the link.

    async def started(self) -> Response:
        """Wait for the head, then return itself; a cancelled wait aborts the connection."""
        try:
            while not self._head_done and self._error is None:
                self._waiter = waiter = self._loop.create_future()
                await waiter
        except asyncio.CancelledError:
            self.close()
            raise
        if self._error is not None and not self._head_done:
            raise self._error
        return self

    def feed(self, data: bytes) -> bool:
        """Take bytes from the wire; whether the answer is over now, whole or failed."""
        before = self._size
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        try:
            self._parser.feed_data(data)
        except _BAD_INPUT as error:
            self._junk = True
            self.fail(UpstreamInvalid(self._address, f"no valid HTTP/1.1 answer: {error}"))
            return True
        if self._sink is not None and self._chunks and self._error is None:
            before = -1
            self._pour(self._sink)
        if self._complete:
            return True
        if self._size == before:
            return self._is_too_quiet(len(data))
        self._quiet = 0
        if self._size > HIGH_WATER and self._line is not None:
            self._paused = True
            self._line.pause()
        return False

    def take_whole(self, like: Response, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Be whole at once, with the head that was parsed as that of `like`, but for the length in it."""
        self.status, self.reason, self.headers = like.status, like.reason, headers
        self.content_type, self.content_encoding = like.content_type, like.content_encoding
        self._chunks, self._size = [body] if body else [], len(body)
        self._head_done = self._complete = self._keep = True

    @property
    def is_simple(self) -> bool:
        """Whether it is whole, with the length that it told, nothing before it and nothing behind it."""
        return self.is_clean and self._simple

    def fail(self, error: BaseException) -> None:
        """End the answer with `error`, after the bytes that are already here; the first error stays."""
        if not self._complete and self._error is None:
            self._error = error
            self._wake()

    def lost(self, *, clean: bool, stale: bool) -> None:
        """The connection ended: the end of an answer delimited by it, a death for any other."""
        if self._to_eof and clean:
            self._complete = self._error is None
        elif stale:
            self.fail(StaleLink(self._address, "the kept connection was closed"))
        else:
            when = "in the middle of the answer" if self._head_done else "before any answer"
            self.fail(UpstreamDied(self._address, f"the connection ended {when}"))
        self.release()

    def release(self) -> None:
        """The link and this answer have no more to do with each other; wakes the reader."""
        self._line = None
        self._paused = False
        self._parser = None  # It holds this answer: a ring that only the collector would open.
        self._wake()

    @property
    def is_over(self) -> bool:
        """Whether no more bytes will come: whole or failed."""
        return self._complete or self._error is not None

    @property
    def waiting(self) -> int:
        """Bytes of the body that wait for the reader."""
        return self._size

    @property
    def is_clean(self) -> bool:
        """Whether the connection may carry another request after this answer."""
        return self._complete and self._keep and not self._junk

    @property
    def is_paused(self) -> bool:
        """Whether reading waits for our own reader: then the upstream's silence is not its own."""
        return self._paused

    # For httptools.

    def on_message_begin(self) -> None:
        """A second message after the real answer is junk; one after an interim answer is awaited."""
        if self._head_done:
            self._junk = True
        else:
            self.headers = []
            self.reason = b""

    def on_status(self, part: bytes) -> None:
        """A part of the reason phrase."""
        if not self._head_done:
            self.reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field of the head; those after it are trailers and are dropped (GW-11)."""
        if self._head_done:
            return
        self._head_bytes += len(name) + len(value) + 4
        if len(self.headers) == MAX_HEADERS or self._head_bytes > MAX_HEAD_BYTES:
            raise self._refused(f"the head is over {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers")
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is whole: an interim one is skipped, the real one decides where the body ends."""
        if self._head_done:
            return
        parser = cast("httptools.HttpResponseParser", self._parser)
        status = parser.get_status_code()
        if status < 200:
            self._interim += 1
            if status == 101 or status < 100 or self._interim > MAX_INTERIM:
                raise self._refused(f"status {status} was not asked for")
            return
        self.status = status
        self._frame(parser)
        self._head_done = True
        self._wake()

    def on_body(self, data: bytes) -> None:
        """Bytes of the body; after the end of one (HEAD) they are junk."""
        if self._complete:
            self._junk = True
            return
        self._chunks.append(data)
        self._size += len(data)
        if self._sink is None and self._waiter is not None:
            self._wake()

    def on_message_complete(self) -> None:
        """The message is whole, unless it was an interim one."""
        if self._head_done and self._error is None:
            self._complete = True

    # Its own.

    def _frame(self, parser: httptools.HttpResponseParser) -> None:
        """Decide how the body is delimited, and note what it is.

        A coding beside `chunked` could be read in two ways. Both Content-Length and Transfer-Encoding, and a
        second Content-Length, are refused by llhttp itself.
        """
        codings = 0
        has_length = False
        for name, value in self.headers:
            size = len(name)
            if size == 17 and name.lower() == b"transfer-encoding":
                codings += 1
                if codings > 1 or value.strip().lower() != b"chunked":
                    raise self._refused("its transfer coding is not plain chunked")
            elif size == 14 and name.lower() == b"content-length":
                has_length = True
            elif size == 12 and not self.content_type and name.lower() == b"content-type":
                self.content_type = value
            elif size == 16 and not self.content_encoding and name.lower() == b"content-encoding":
                self.content_encoding = value
        if parser.get_http_version() not in ("1.1", "1.0"):
            raise self._refused("it is no HTTP/1.1")
        self._keep = parser.should_keep_alive()
        if self.head_only or self.status in (204, 304):
            self._complete = True
        else:
            self._to_eof = not codings and not has_length
            self._simple = has_length and not codings and not self._interim

    def _refused(self, reason: str) -> UpstreamInvalid:
        """Note why the answer is refused; raising it leaves the parser."""
        error = UpstreamInvalid(self._address, reason)
        self.fail(error)
        return error

    def _is_too_quiet(self, size: int) -> bool:
        """Count bytes that brought no body (a head, chunk extensions, trailers): 64 KiB in a row at most."""
        self._quiet += size
        if self._quiet <= MAX_HEAD_BYTES:
            return False
        self.fail(UpstreamInvalid(self._address, f"{MAX_HEAD_BYTES} bytes in a row that are no body"))
        return True

    def _pour(self, sink: Sink) -> None:
        """Give what one read brought to `sink`; wake who awaits `pass_to` when it had enough, or failed."""
        try:
            if not sink(self.take()):
                self._sink = None
                self._wake()
        except Exception as error:  # noqa: BLE001 # whatever it raises is for who awaits `pass_to`
            self._complete = False
            self.fail(error)

    async def _wait(self) -> None:
        """Sleep until something changed."""
        self._waiter = waiter = self._loop.create_future()
        await waiter

    def _wake(self) -> None:
        """Something changed."""
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
