"""The listening side, put together: uvicorn, embedded, with our protocol.

Decides how uvicorn is set. Does not bind sockets, handle signals, or know what a path means.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from typing import Any, cast

import uvicorn

from hostler.domain.fleet import Tls
from hostler.gateway.exchange import App, CutShort
from hostler.gateway.limits import Door, Limits, Trouble
from hostler.gateway.server_protocol import HostlerProtocol

__all__ = ["CutShort", "Door", "HostlerProtocol", "Limits", "Trouble", "make_server"]


def make_server(
    app: App,
    *,
    limits: Limits | None = None,
    is_control: Callable[[str], bool] = lambda _: False,
    grace_s: int | None = None,
    tls: Tls | None = None,
) -> uvicorn.Server:
    """A server for the daemon's own loop: `await server.serve(sockets=…)`, then `should_exit = True` to stop.

    `app` answers exchanges; an ASGI application does so by `asgi.adapted`. `sockets` are bound by the caller.
    `is_control(path)` names the paths that the reserve of connections is for. `grace_s` bounds a stop; None
    waits for every answer. `tls`: every listener speaks it. The server leaves signals and logging alone, and
    runs no lifespan.
    """
    bounds = limits if limits is not None else Limits()
    protocol = functools.partial(HostlerProtocol, door=Door(bounds, is_control), limits=bounds)
    config = uvicorn.Config(
        cast("Any", app),
        http=cast("type[asyncio.Protocol]", protocol),
        ws="none",
        loop="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=bounds.keep_alive_s,
        timeout_graceful_shutdown=grace_s,
        ssl_certfile=None if tls is None else tls.cert,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment] # signals are the daemon's
    return server
