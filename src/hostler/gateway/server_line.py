"""A client's connection as far as it is no HTTP: who is at its ends, who is slow, and how long it is idle.

Is what uvicorn's server expects of a protocol: it makes one for each connection, counts them and their tasks,
and tells each of them when it stops. Does not read a byte: that is `server_protocol`.
"""

from __future__ import annotations

import asyncio
from typing import cast

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.server import ServerState

from hostler.gateway.exchange import App, Exchange
from hostler.gateway.sockets import send_at_once

Place = tuple[str, int]


class Line(asyncio.Protocol):
    """The connection. `client` is the address and port at the other end, None on a Unix socket."""

    transport: asyncio.Transport
    flow: FlowControl

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        loop: asyncio.AbstractEventLoop,
        idle_s: float,
    ) -> None:
        self.loop = loop
        self.client: Place | None = None
        self.server_state = server_state
        self._app = cast("App", config.loaded_app)
        self._tasks = server_state.tasks
        self._running: Exchange | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._idle_s = idle_s
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be counted."""
        self.transport = cast("asyncio.Transport", transport)
        self.flow = FlowControl(self.transport)
        self.client = _place(transport.get_extra_info("peername"))
        self.server_state.connections.add(self)  # type: ignore[arg-type] # uvicorn names its own protocols
        send_at_once(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 # however it was lost
        """Be counted no more; who waits for the client need not."""
        self.server_state.connections.discard(self)
        self.flow.resume_writing()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def eof_received(self) -> bool:
        """The client says no more: the transport closes."""
        return False

    def pause_writing(self) -> None:
        """The client is slow."""
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        """The client caught up."""
        self.flow.resume_writing()

    # What an exchange asks for (`exchange.Connection`).

    @property
    def server(self) -> Place | None:
        """As `Connection`."""
        return _place(self.transport.get_extra_info("sockname"))

    @property
    def scheme(self) -> str:
        """As `Connection`."""
        return "https" if self.transport.get_extra_info("sslcontext") else "http"

    def answered(self, exchange: Exchange) -> None:
        """As `Connection`."""
        if exchange.task is not None:
            self._tasks.discard(exchange.task)

    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """As `Connection`."""
        return self.server_state.default_headers

    # For the protocol.

    def _start(self, exchange: Exchange) -> None:
        """Have it answered."""
        self._running = exchange
        exchange.task = task = self.loop.create_task(exchange.run(self._app))
        self._tasks.add(task)

    @property
    def _client_host(self) -> str | None:
        """The client's address, None on a Unix socket."""
        return self.client[0] if self.client else None

    def _rest(self) -> None:
        """Nothing is asked from now on."""
        self._idle_since = self.loop.time()
        if self._idle_timer is None:
            self.look_idle()

    def look_idle(self) -> None:
        """Close when nothing was asked for long, else look again then: one timer serves many requests."""
        self._idle_timer = None
        if not self._is_idle():
            return
        until = self._idle_since + self._idle_s
        if self.loop.time() < until:
            self._idle_timer = self.loop.call_at(until, self.look_idle)
        else:
            self.transport.close()

    def _arm(self, seconds: float) -> None:
        """Have `_late` called."""
        self._deadline = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        """Nothing is awaited from the client."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        """A deadline passed."""

    def _is_idle(self) -> bool:
        """Whether nothing is asked, nor answered."""
        return self._running is None


def _place(name: object) -> Place | None:
    """An address and a port; None for anything else, such as the path of a Unix socket."""
    return (str(name[0]), int(name[1])) if isinstance(name, list | tuple) else None
