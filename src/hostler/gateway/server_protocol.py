"""One connection of a client: HTTP/1.1 by httptools, with the bounds that strangers need (SEC-3).

Decides when a connection is refused, late, or over, and in which order requests on it are answered. Does not
know what a path means. `limits` holds the bounds and the texts, `server_head` judges a request's head, and
`exchange` is one request with its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.server import ServerState

from hostler.gateway.again import Seen, seen
from hostler.gateway.exchange import Asked, Exchange
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
from hostler.gateway.server_line import Line


class _Refused(Exception):
    """Leaves the parser; what is wrong is noted already."""


class HostlerProtocol(Line):
    """One connection of a client.

    Requests on it are answered one after another: `_running` is answered now, `_queue` wait, and `cycle` is
    the one whose body arrives. A request that is refused while an earlier one is being answered is refused
    after that answer, never in the middle of it.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # noqa: ARG002 # uvicorn gives it: what a lifespan made
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        door: Door,
        limits: Limits,
    ) -> None:
        super().__init__(config, server_state, _loop or asyncio.get_running_loop(), limits.keep_alive_s)
        self.cycle: Exchange | None = None
        self._parser = _parser_for(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._door = door
        self._limits = limits
        self._entry = Entry.OPEN
        self._queue: deque[Exchange] = deque()
        self._trouble: Trouble | None = None
        self._asked: Asked | None = None
        self._seen: tuple[Seen, Asked] | None = None
        self._is_again = False
        self._length: int | None = None
        self._is_deaf = False
        self._thrown_away = 0
        self._in_head = True
        self._has_begun = False
        self._is_replayed = False
        self._head_read = 0
        self._quiet = 0
        self._received = 0
        self._receiving_since = 0.0

    # The transport's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and give it until the deadline to send a request's head."""
        super().connection_made(transport)
        self._entry = self._door.enter(self._client_host)
        if self._entry is Entry.SHUT:
            self.transport.abort()
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
        del self._parser  # It holds this connection: a ring that only the collector would open.
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
        if self._is_repeated(data):
            return
        begins = self._in_head and not self._has_begun and self._running is None
        if self._in_head:
            self._head_read += len(data)
        before = (self._in_head, self._received)
        self._feed(data)
        if begins:
            self._remember(data)
        if self._trouble is not None:
            self._refuse(self._trouble)
        elif before == (self._in_head, self._received):
            self._check_quiet(len(data))
        if self._deadline is None and not self._is_deaf:
            self._await_rest()

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
            self._rest()

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
        self._url = b""
        self._headers = []
        self._expects_continue = False
        self._length = None
        self._has_begun = True
        if self._running is not None:
            self._head_read = MAX_HEAD_BYTES + 1

    def on_url(self, part: bytes) -> None:
        """A part of the target."""
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header field; trailers come here too, after the head, and are dropped."""
        if not self._in_head:
            return
        name = name.lower()
        if name == b"content-length":
            self._length = int(value)
            return
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Judge the head, and begin to answer, or queue."""
        method = self._parser.get_method()
        version = self._parser.get_http_version()
        asked = self._asked
        self._is_again = asked is not None and asked.is_again(method, version, self._url, self._headers)
        trouble = None if self._is_again else judge(method, version, self._url, self._headers)
        if len(self._headers) + (self._length is not None) > MAX_HEADERS or self._is_head_too_long():
            trouble = Trouble.HEAD_TOO_LARGE
        if trouble is not None:
            raise self._refused(trouble)
        if self._parser.should_upgrade():
            self._is_replayed = True
            return
        if asked is None or not self._is_again:
            self._asked = asked = asked_for(method, version, self._url, self._headers)
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
            keep_alive=version == "1.1" and self._parser.should_keep_alive() and self._entry is Entry.OPEN,
            expects_continue=self._expects_continue and version == "1.1",
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
    def _header_s(self) -> float:
        """How long a head may take: less for those who are let in on the reserve."""
        limits = self._limits
        return limits.header_s if self._entry is Entry.OPEN else limits.reserve_header_s

    def _feed(self, data: bytes) -> None:
        """Give bytes to the parser; what it refuses becomes `_trouble`."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._is_replayed:
                self._replay(data[upgrade.args[0] :])
            else:
                self._trouble = Trouble.BAD_REQUEST
        except httptools.HttpParserError:
            self._trouble = self._trouble or Trouble.BAD_REQUEST

    def _is_repeated(self, data: bytes) -> bool:
        """Whether `data` was a request, whole, with the head of the one before: then it needs no parser."""
        if self._seen is None or self._running is not None or self._has_begun or not self._in_head:
            return False
        head, asked = self._seen
        start = head.body_at(data)
        if start < 0:
            return False
        self._disarm()
        exchange = Exchange(asked, self, length=len(data) - start, keep_alive=True, expects_continue=False)
        exchange.body, exchange.more_body = data[start:], False
        self.cycle = exchange
        self._start(exchange)
        return True

    def _remember(self, data: bytes) -> None:
        """Keep the head of a request that came whole and alone, if it was that of the one before as well."""
        running = self._running
        self._seen = None
        if running is None or not self._is_again or self._queue or self._has_begun:
            return
        head = seen(data)
        if head is not None and head.body_at(data) >= 0:
            self._seen = (head, running.asked)

    def _replay(self, rest: bytes) -> None:
        """Parse a request that offered an upgrade once more, without the offer, which is declined so.

        llhttp takes what follows such a head for another protocol; clients that offer HTTP/2 (`h2c`) with
        their first request send its body all the same, and expect it to be read.
        """
        length = [] if self._length is None else [(b"content-length", b"%d" % self._length)]
        head = without_upgrade(
            self._parser.get_method(), self._parser.get_http_version(), self._url, self._headers + length
        )
        self._is_replayed = False
        self._parser = _parser_for(self)
        self._feed(head + rest)

    def _is_idle(self) -> bool:
        """As `Line`."""
        return self._running is None and not self._has_begun and not self._is_deaf

    def _is_head_too_long(self) -> bool:
        """Whether the head is past its bound; counted only where the reads that brought it may be."""
        if self._head_read <= MAX_HEAD_BYTES:
            return False
        return len(self._url) + sum(len(n) + len(v) + 4 for n, v in self._headers) > MAX_HEAD_BYTES

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

    def _late(self) -> None:
        """As `Line`. A deadline passed: of a refused client, of a head, or of a body."""
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


def _parser_for(protocol: HostlerProtocol) -> httptools.HttpRequestParser:
    """A parser that reports to `protocol`, and lets a client write on behind a request that closes."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
