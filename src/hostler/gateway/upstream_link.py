"""One connection to an upstream: its bytes, its silence, and the request body that goes out on it.

Decides when a connection is over. Does not choose among connections and does not retry: that is `upstream`;
what an answer means is `upstream_answer`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Protocol, cast

from hostler.gateway.upstream_again import Memory
from hostler.gateway.upstream_answer import Response
from hostler.gateway.upstream_wire import (
    Address,
    BodyLengthMismatch,
    RequestHead,
    UpstreamClosed,
    UpstreamSilent,
)

_WRITE_HIGH = 256 * 1024
"""Bytes of a request that wait for a slow upstream before the body's iterator is held."""

_ONE_WRITE = 16 * 1024
"""A body up to this many bytes is joined to its head: one segment, one system call."""


class Home(Protocol):
    """Where a link goes when its answer is whole, or when it is gone."""

    def give_back(self, link: Link) -> None:
        """The link is clean and idle: it may carry another request."""

    def forget(self, link: Link) -> None:
        """The link is over; said once or more."""


class Link(asyncio.Protocol):
    """A connection, carrying one request at a time."""

    __slots__ = (
        "_blocked",
        "_heard",
        "_home",
        "_memory",
        "_pump",
        "_response",
        "_sent",
        "_silence_s",
        "_timer",
        "_timer_at",
        "address",
        "idle_since",
        "loop",
        "reused",
        "touched",
        "transport",
    )

    def __init__(self, address: Address, home: Home, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self.loop = loop
        self.idle_since = 0.0
        self.reused = False
        self._home = home
        self.transport: asyncio.Transport | None = None
        self._response: Response | None = None
        self._heard = False
        self._memory = Memory()
        self._sent = True
        self.touched = 0.0
        self._silence_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._pump: asyncio.Task[None] | None = None
        self._blocked: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it can carry a request, as far as this side knows."""
        return self.transport is not None and not self.transport.is_closing()

    def begin(self, head: RequestHead, wire: bytes, body: bytes | AsyncIterator[bytes]) -> Response:
        """Send a request whose head's bytes are `wire`; the answer comes in the Response."""
        transport = cast("asyncio.Transport", self.transport)
        response = Response(self, head_only=head.method == b"HEAD")
        self._response = response
        self._heard = False
        self.touched = now = self.loop.time()
        self._silence_s = head.silence_s
        if head.silence_s is not None and now + head.silence_s < self._timer_at:
            self._listen_at(now + head.silence_s)
        if not isinstance(body, bytes):
            self._sent = False
            transport.write(wire)
            self._pump = self.loop.create_task(self._send_body(response, body, head.length))
        elif len(body) <= _ONE_WRITE:
            transport.write(wire + body)
        else:
            transport.write(wire)
            transport.write(body)
        return response

    def kill(self) -> None:
        """End the connection because its engine is being stopped; the answer under way fails."""
        if self._response is not None:
            self._response.fail(UpstreamClosed(self.address, "the connection was closed to stop the engine"))
        self.abort()

    def pause(self) -> None:
        """Read no more: our reader is slow."""
        if self.transport is not None:
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on; the upstream's silence counts from now."""
        self.touched = self.loop.time()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        """End the connection at once, whatever it carries."""
        self._part(self._response)
        self._stop_listening()
        if self.transport is not None:
            self.transport.abort()
        self._home.forget(self)

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=_WRITE_HIGH)

    def data_received(self, data: bytes) -> None:
        """Bytes: of the answer, or, on an idle connection, junk that ends it."""
        response = self._response
        if response is None:
            self.abort()
            return
        is_first = not self._heard
        self._heard = True
        self.touched = self.loop.time()
        if is_first and self._memory.recall(response, data):
            self._over(response)
        elif response.feed(data):
            if is_first:
                self._memory.keep(response, data)
            self._over(response)

    def eof_received(self) -> bool:
        """The upstream says no more: the transport closes itself, and `connection_lost` decides."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        response = self._response
        if response is not None:
            stale = self.reused and not self._heard and self._sent
            response.lost(clean=exc is None, stale=stale)
        self._part(response)
        self._stop_listening()
        self.transport = None
        self._home.forget(self)

    def pause_writing(self) -> None:
        """The upstream reads slowly: the body's iterator is held."""
        self._blocked = self.loop.create_future()

    def resume_writing(self) -> None:
        """The upstream caught up."""
        blocked = self._blocked
        self._blocked = None
        if blocked is not None and not blocked.done():
            blocked.set_result(None)

    # Its own.

    def _over(self, response: Response) -> None:
        """The answer is over: back to the pool when both sides are through with it and it was clean."""
        if not (response.is_clean and self._sent and self.is_open):
            self.abort()
            return
        if response.is_paused:
            self.resume()
        self._part(response)
        self._home.give_back(self)

    def _part(self, response: Response | None) -> None:
        """Separate the link from its answer: no body and no reader is left behind."""
        self._response = None
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None
        self.resume_writing()
        if response is not None:
            response.release()

    def listen(self) -> None:
        """The silence limit may be reached: not when a byte came since, nor when we are the slow side.

        The timer outlives the answer it was set for, and is set anew only for an earlier time: requests that
        follow each other quickly set it once.
        """
        self._stop_listening()
        response = self._response
        if response is None or self._silence_s is None:
            return
        now = self.loop.time()
        waits_for_us = response.is_paused or (not self._sent and self._blocked is None)
        until = (now if waits_for_us else self.touched) + self._silence_s
        if now < until:
            self._listen_at(until)
            return
        response.fail(UpstreamSilent(self.address, f"no byte for {self._silence_s:g} s"))
        self.abort()

    def _listen_at(self, when: float) -> None:
        """Have `listen` called at the loop's time `when`."""
        self._stop_listening()
        self._timer = self.loop.call_at(when, self.listen)
        self._timer_at = when

    def _stop_listening(self) -> None:
        """No timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._timer_at = math.inf

    async def _send_body(self, response: Response, body: AsyncIterator[bytes], length: int | None) -> None:
        """Send what the iterator gives, as fast as the upstream takes it; its errors end the request."""
        try:
            sent = 0
            async for piece in body:
                sent += len(piece)
                if length is not None and sent > length:
                    raise BodyLengthMismatch(f"the body is longer than its {length} bytes")
                await self._send_piece(piece, chunked=length is None)
            if length is not None and sent != length:
                raise BodyLengthMismatch(f"the body is {sent} bytes, not {length}")
            if length is None:
                self._write(b"0\r\n\r\n")
        except Exception as error:  # noqa: BLE001 # whatever the caller's iterator raises is the caller's to get
            response.fail(error)
            self.abort()
            return
        self._sent = True
        self._pump = None

    async def _send_piece(self, piece: bytes, *, chunked: bool) -> None:
        """Write one piece; returns when the upstream is ready for the next."""
        if not piece:
            return
        self.touched = self.loop.time()
        self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if self._blocked is not None:
            await self._blocked

    def _write(self, data: bytes) -> None:
        """Write unless the connection is gone meanwhile."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)
