"""One connection of a client: uvicorn's httptools protocol with the bounds that it lacks (SEC-3).

Decides when a connection is refused, late, or over, and in which order requests on it are answered. Does not
know what a path means. `limits` holds the bounds and the texts, `server_head` judges a request's head, and
`exchange` is one request with its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from hostler.gateway.exchange import App, Asked, Exchange
from hostler.gateway.limits import (
    LINGER_BYTES,
    LINGER_S,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_PIPELINED,
    Door,
    Entry,
    Limits,
    Trouble,
)
from hostler.gateway.server_head import asked_for, judge, without_upgrade
from hostler.gateway.sockets import send_at_once


class _Refused(Exception):
    """Leaves the parser; what is wrong is noted already."""


class HostlerProtocol(HttpToolsProtocol):
    """One connection of a client.

    Requests on it are answered one after another: `_running` is answered now, `_queue` wait, and `cycle` (a
    name of uvicorn's) is the one whose body arrives. A request that is refused while an earlier one is being
    answered is refused after that answer, never in the middle of it.
    """

    cycle: Exchange | None  # type: ignore[assignment] # ours, not uvicorn's: all of its users are overridden

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        door: Door,
        limits: Limits,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._door = door
        self._limits = limits
        self._entry = Entry.OPEN
        self._running: Exchange | None = None
        self._queue: deque[Exchange] = deque()
        self._deadline: asyncio.TimerHandle | None = None
        self._trouble: Trouble | None = None
        self._asked: Asked | None = None
        self._length: int | None = None
        self._is_deaf = False
        self._thrown_away = 0
        self._in_head = True
        self._has_begun = False
        self._is_replayed = False
        self._head_read = 0
        self._quiet = 0
        self._idle_since = 0.0
        self._received = 0
        self._receiving_since = 0.0

    # The transport's side.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Count the connection, and give it until the deadline to send a request's head."""
        super().connection_made(transport)
        send_at_once(transport)
        self._entry = self._door.enter(self._client_host)
        if self._entry is Entry.SHUT:
            transport.abort()
        elif self._entry is Entry.CLIENT_FULL:
            self._refuse(Trouble.CLIENT_FULL)
        else:
            self._arm(self._header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request on this connection that its client is gone."""
        self.cycle = None
        super().connection_lost(exc)
        self._door.leave(self._client_host)
        self._disarm()
        self._unset_keepalive_if_required()
        running, self._running = self._running, None
        for exchange in ([running] if running is not None else []) + list(self._queue):
            exchange.hang_up()
        self._queue.clear()

    def data_received(self, data: bytes) -> None:
        """Parse; afterwards see whether what did not complete is in time and in bounds."""
        if self._is_deaf:
            self._thrown_away += len(data)
            if self._thrown_away > LINGER_BYTES:
                self.transport.abort()
            return
        if self._in_head:
            self._head_read += len(data)
        seen = (self._in_head, self._received)
        self._feed(data)
        if self._trouble is not None:
            self._refuse(self._trouble)
        elif seen == (self._in_head, self._received):
            self._check_quiet(len(data))
        if self._deadline is None and not self._is_deaf:
            self._await_rest()

    # What an exchange asks for (`exchange.Connection`).

    def answered(self, exchange: Exchange) -> None:
        """As `Connection`."""
        if exchange.task is not None:
            self.tasks.discard(exchange.task)

    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """As `Connection`."""
        return self.server_state.default_headers

    def finished(self, exchange: Exchange) -> None:
        """The answer is whole: close, go on with the next request, or wait for one."""
        self.server_state.total_requests += 1
        self._running = None
        if self.transport.is_closing():
            return
        if not exchange.keep_alive:
            if exchange.more_body:
                self._linger()
            else:
                self.transport.close()
        elif self._queue:
            self.flow.resume_reading()
            self._start(self._queue.popleft())
        elif self._trouble is not None:
            self._refuse(self._trouble)
        else:
            self.flow.resume_reading()
            self._idle_since = self.loop.time()
            if self.timeout_keep_alive_task is None:
                self.timeout_keep_alive_handler()

    def timeout_keep_alive_handler(self) -> None:
        """Close when nothing was asked for long, else look again then: one timer serves many requests."""
        self.timeout_keep_alive_task = None
        if self._running is not None or self._has_begun or self._is_deaf:
            return
        until = self._idle_since + self.timeout_keep_alive
        if self.loop.time() < until:
            self.timeout_keep_alive_task = self.loop.call_at(until, self.timeout_keep_alive_handler)
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """The server stops: an idle connection closes, one under way closes after its answer."""
        if self._running is None:
            self.transport.close()
            return
        for exchange in (self._running, *self._queue):
            exchange.keep_alive = False

    # The parser's side.

    def on_message_begin(self) -> None:
        """The first byte of a request; one behind another shares its reads, so its head is counted itself."""
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._length = None
        self._has_begun = True
        if self._running is not None:
            self._head_read = MAX_HEAD_BYTES + 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field; trailers come here too, after the head, and are dropped."""
        if not self._in_head:
            return
        name = name.lower()
        if name == b"content-length":
            self._length = int(value)
            return
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Judge the head, and begin to answer, or queue."""
        method = self.parser.get_method()
        version = self.parser.get_http_version()
        asked = self._asked
        is_again = asked is not None and asked.is_again(method, version, self.url, self.headers)
        trouble = None if is_again else judge(method, version, self.url, self.headers)
        if len(self.headers) + (self._length is not None) > MAX_HEADERS or self._is_head_too_long():
            trouble = Trouble.HEAD_TOO_LARGE
        if trouble is not None:
            raise self._refused(trouble)
        if self.parser.should_upgrade():
            self._is_replayed = True
            return
        if asked is None or not is_again:
            self._asked = asked = asked_for(method, version, self.url, self.headers)
        if self._entry is Entry.RESERVE and not self._door.is_control(asked.path):
            raise self._refused(Trouble.FULL)
        if len(self._queue) >= MAX_PIPELINED:
            raise self._refused(Trouble.BAD_REQUEST)
        self._in_head = False
        self._has_begun = False
        self._disarm()
        self._quiet = 0
        exchange = Exchange(
            asked,
            self,
            length=self._length,
            keep_alive=version == "1.1" and self.parser.should_keep_alive() and self._entry is Entry.OPEN,
            expects_continue=self.expect_100_continue and version == "1.1",
        )
        self.cycle = exchange
        if self._running is None:
            self._start(exchange)
        else:
            self._queue.append(exchange)

    def on_body(self, body: bytes) -> None:
        """A part of the body; what comes after the answer is thrown away."""
        self._received += len(body)
        exchange = self.cycle
        if self._is_replayed or exchange is None or exchange.response_complete:
            return
        exchange.add(body)
        if len(exchange.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """The request is whole."""
        if self._is_replayed or self.cycle is None:
            return
        self.cycle.more_body = False
        self.cycle.wake()
        self._head_read = 0
        self._in_head = True
        self._disarm()
        self._quiet = 0

    # Its own.

    @property
    def _client_host(self) -> str | None:
        """The client's address, None on a Unix socket."""
        return self.client[0] if self.client else None

    @property
    def _header_s(self) -> float:
        """How long a head may take: less for those who are let in on the reserve."""
        limits = self._limits
        return limits.header_s if self._entry is Entry.OPEN else limits.reserve_header_s

    def _feed(self, data: bytes) -> None:
        """Give bytes to the parser; what it refuses becomes `_trouble`."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._is_replayed:
                self._replay(data[upgrade.args[0] :])
            else:
                self._trouble = Trouble.BAD_REQUEST
        except httptools.HttpParserError:
            self._trouble = self._trouble or Trouble.BAD_REQUEST

    def _replay(self, rest: bytes) -> None:
        """Parse a request that offered an upgrade once more, without the offer, which is declined so.

        llhttp takes what follows such a head for another protocol; clients that offer HTTP/2 (`h2c`) with
        their first request send its body all the same, and expect it to be read.
        """
        length = [] if self._length is None else [(b"content-length", b"%d" % self._length)]
        head = without_upgrade(
            self.parser.get_method(), self.parser.get_http_version(), self.url, self.headers + length
        )
        self._is_replayed = False
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(head + rest)

    def _start(self, exchange: Exchange) -> None:
        """Have it answered."""
        self._running = exchange
        app = cast("App", self.app)
        exchange.task = task = self.loop.create_task(exchange.run(app))
        self.tasks.add(task)

    def _is_head_too_long(self) -> bool:
        """Whether the head is past its bound; counted only where the reads that brought it may be."""
        if self._head_read <= MAX_HEAD_BYTES:
            return False
        return len(self.url) + sum(len(n) + len(v) + 4 for n, v in self.headers) > MAX_HEAD_BYTES

    def _check_quiet(self, size: int) -> None:
        """Bound bytes that complete nothing: a field without end, chunk extensions, trailers."""
        self._quiet += size
        if self._quiet > MAX_HEAD_BYTES:
            self._refuse(Trouble.HEAD_TOO_LARGE if self._in_head else Trouble.BAD_REQUEST)

    def _refused(self, trouble: Trouble) -> _Refused:
        """Note what is wrong; raising the result leaves the parser."""
        self._trouble = trouble
        return _Refused()

    def _refuse(self, trouble: Trouble) -> None:
        """Answer with what is wrong and close, at once or after the answers that are due before it."""
        running, receiving = self._running, self.cycle
        self._disarm()
        if running is not None and not (running is receiving and running.more_body):
            self._trouble = trouble
            self._is_deaf = True
            if receiving is not None and receiving.more_body and receiving in self._queue:
                self._queue.remove(receiving)
            return
        if running is not None:
            self._running = None
            running.hang_up()
            if running.response_started:
                self.transport.abort()
                return
        if not self.transport.is_closing():
            self.transport.write(trouble.wire())
            self._linger()

    def _linger(self) -> None:
        """Say no more, and read on until the client has read our answer and left.

        A socket that is closed with unread bytes in it resets the connection, and takes the answer with it.
        """
        self._is_deaf = True
        self._trouble = None
        self._disarm()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            with contextlib.suppress(OSError):  # The client reset its connection: it is told nothing more.
                self.transport.write_eof()
        self._arm(LINGER_S if self._entry is Entry.OPEN else self._limits.reserve_header_s)

    def _await_rest(self) -> None:
        """Give what has begun and is not whole its deadline. An answer under way has none."""
        if not self._in_head:
            self._receiving_since = self.loop.time()
            self._received = 0
            self._arm(self._limits.body_s)
        elif self._has_begun or self._running is None:
            self._arm(self._header_s)

    def _arm(self, seconds: float) -> None:
        """Have `_late` called."""
        self._deadline = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        """Nothing is awaited from the client."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        """A deadline passed: of a refused client, of a head, or of a body."""
        self._deadline = None
        if self._is_deaf:
            self.transport.abort()
        elif not self._in_head:
            self._body_late()
        elif self._has_begun:
            self._refuse(Trouble.HEAD_LATE)
        else:
            self.transport.close()

    def _body_late(self) -> None:
        """A body may take longer the more of it came; time in which we do not read does not count."""
        now = self.loop.time()
        exchange = self.cycle
        if self.flow.read_paused or (exchange is not None and exchange.waits_for_continue):
            self._receiving_since = now
            self._received = 0
        allowed = self._limits.body_s + self._received / self._limits.body_rate
        left = self._receiving_since + allowed - now
        if left > 0:
            self._arm(left)
        else:
            self._refuse(Trouble.BODY_LATE)
