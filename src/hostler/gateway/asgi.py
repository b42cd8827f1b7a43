"""An ASGI 3 application (HTTP only) as one that answers exchanges: for the control API.

Decides how a request becomes a scope, and an application's messages an answer. What goes over the wire is
decided by `exchange`, for these answers as for all others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from hostler.gateway.exchange import App, Exchange

Message = dict[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


def adapted(app: AsgiApp) -> App:
    """`app`, which then answers exchanges."""

    async def answer(exchange: Exchange) -> None:
        calls = _Calls(exchange)
        await app(scope_of(exchange), calls.receive, calls.send)

    return answer


def scope_of(exchange: Exchange) -> Scope:
    """What ASGI says of a request."""
    asked, connection = exchange.asked, exchange.connection
    length = [] if exchange.length is None else [(b"content-length", b"%d" % exchange.length)]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": asked.version,
        "server": connection.server,
        "client": connection.client,
        "scheme": connection.scheme,
        "method": asked.method,
        "root_path": "",
        "path": asked.path,
        "raw_path": asked.raw_path,
        "query_string": asked.query,
        "headers": asked.headers + length,
        "state": {},
    }


class _Calls:
    """The two calls that an application gets."""

    __slots__ = ("_end_received", "_exchange")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._end_received = False

    async def receive(self) -> Message:
        """ASGI: the next part of the body, or that the client is gone."""
        exchange = self._exchange
        if not self._end_received:
            part = await exchange.read()
            if part is not None:
                self._end_received = not exchange.more_body
                return {"type": "http.request", "body": part, "more_body": exchange.more_body}
        while not exchange.is_over:
            await exchange.changed()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """ASGI: the head of the answer, then its body; waits while the client is slow."""
        exchange = self._exchange
        if exchange.flow.write_paused and not exchange.disconnected:
            await exchange.flow.drain()
        if exchange.disconnected:
            return
        if not exchange.response_started:
            _expect(message, "http.response.start")
            exchange.start(message["status"], message.get("headers", ()))
            exchange.loop.call_soon(exchange.flush)
        elif not exchange.response_complete:
            _expect(message, "http.response.body")
            exchange.write(message.get("body", b""), last=not message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} after the answer was complete")


def _expect(message: Message, kind: str) -> None:
    """A message out of order is the application's bug."""
    if message["type"] != kind:
        raise RuntimeError(f"{kind} was expected, not {message['type']}")
