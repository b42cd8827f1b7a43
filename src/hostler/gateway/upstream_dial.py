"""How a connection to an upstream is made: names are resolved now, and forbidden addresses are refused.

Decides which addresses are never dialled and how long dialling may take. Does not pool, and knows nothing of
HTTP. What was checked is what is dialled: the name is resolved here, once, and the socket connects to the
numbers, so that a name which answers differently a moment later (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import cast

from hostler.domain.addresses import is_link_local, is_metadata, is_this_machine
from hostler.gateway.sockets import send_at_once
from hostler.gateway.upstream_link import Link
from hostler.gateway.upstream_wire import Address, UpstreamForbidden, UpstreamUnreachable

CONNECT_S = 0.8
"""Seconds to resolve and connect: an upstream that is down is told in under one second (GW-14)."""

LOCAL_CONNECT_S = 5.0
"""As `CONNECT_S`, of an engine on this machine. One that is down refuses at once; one whose queue is full
does not answer, and the kernel asks again after 1 s and 3 s."""

TLS_S = 3.0
"""Seconds more for the TLS handshake of a connection that stands."""


Where = tuple[str, int] | tuple[str, int, int, int]
Info = tuple[socket.AddressFamily, Where]


def is_loopback(address: Address) -> bool:
    """Whether `address` is this machine's own: there, silence is a full queue and never a lost machine."""
    return address.unix is not None or address.host == "::1" or address.host.startswith("127.")


def is_forbidden(host: str) -> bool:
    """Whether the numeric address `host` is a metadata service, also when IPv6 wraps the IPv4 one."""
    return is_metadata(host)


async def dial(address: Address, make: Callable[[], Link], connect_s: float = CONNECT_S) -> Link:
    """Connect to `address` and return the link that `make` made, within `connect_s` seconds (TLS apart).

    Raises UpstreamForbidden and UpstreamUnreachable. A cancelled dial leaves no socket behind.
    """
    try:
        if address.unix is not None:
            async with asyncio.timeout(connect_s):
                _, link = await asyncio.get_running_loop().create_unix_connection(
                    make, address.unix, ssl=address.tls, server_hostname=_server_name(address)
                )
            return link
        if address.tls is None and _numeric(address.host, address.port):
            return await _straight(address, make, connect_s)
        sock = await _connected(address, connect_s)
        return await _adopt(address, sock, make)
    except TimeoutError:
        raise UpstreamUnreachable(address, f"no connection within {connect_s:g} s") from None
    except UnicodeError:
        raise UpstreamUnreachable(address, "the host name cannot be looked up") from None
    except OSError as error:
        raise UpstreamUnreachable(address, _reason(error)) from None


async def reached(address: Address, connect_s: float) -> str:
    """Empty when somebody takes a connection there, else why not. Nothing is sent. Never raises."""
    try:
        sock = await _connected(address, connect_s)
    except UpstreamForbidden as error:
        return error.reason
    except TimeoutError:
        return f"no connection within {connect_s:g} s"
    except UnicodeError:
        return "the host name cannot be looked up"
    except OSError as error:
        return _reason(error)
    sock.close()
    return ""


def _reason(error: OSError) -> str:
    """The system's words for a failure; asyncio's own texts repeat the address instead."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason}"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


async def _straight(address: Address, make: Callable[[], Link], connect_s: float) -> Link:
    """A plain connection to an address in numbers: nothing is looked up, so the loop does all in one step."""
    await _resolve(address)
    async with asyncio.timeout(connect_s):
        transport, link = await asyncio.get_running_loop().create_connection(make, address.host, address.port)
    send_at_once(transport)
    return link


async def _adopt(address: Address, sock: socket.socket, make: Callable[[], Link]) -> Link:
    """Give a connected socket to the loop, with TLS where the address asks for it."""
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, link = await asyncio.get_running_loop().create_connection(
            make,
            sock=sock,
            ssl=address.tls,
            server_hostname=_server_name(address),
            ssl_handshake_timeout=TLS_S if address.tls is not None else None,
        )
    except BaseException:
        sock.close()
        raise
    return link


def _server_name(address: Address) -> str | None:
    """The name to ask TLS for; None without TLS, as asyncio wants it."""
    if address.tls is None:
        return None
    return address.name.partition(":")[0] if address.name is not None else address.host or "localhost"


async def _connected(address: Address, connect_s: float) -> socket.socket:
    """A socket connected to the first address of the name that accepts; time left is shared among them."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + connect_s
    async with asyncio.timeout(connect_s):
        infos = await _resolve(address)
    failure: OSError = OSError("the name has no address")
    for left, (family, where) in zip(range(len(infos), 0, -1), infos, strict=True):
        sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        sock.settimeout(0)
        try:
            async with asyncio.timeout((deadline - loop.time()) / left):
                await loop.sock_connect(sock, where)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _resolve(address: Address) -> Sequence[Info]:
    """The numeric addresses of the host, none of them forbidden. A name may only resolve to allowed ones."""
    found = _numeric(address.host, address.port) or await _looked_up(address)
    for _, where in found:
        reason = _never(where[0], address.foreign)
        if reason:
            raise UpstreamForbidden(address, reason)
    return found


@functools.lru_cache(maxsize=256)
def _never(host: str, foreign: bool) -> str:  # noqa: FBT001 # only called here, by position for the cache
    """Why the numeric address `host` is never dialled; empty when it may be."""
    if is_forbidden(host):
        return "a cloud's metadata service is never an upstream"
    if foreign and (is_this_machine(host) or is_link_local(host)):
        return "another node's URL never leads to this machine"
    return ""


@functools.lru_cache(maxsize=256)
def _numeric(host: str, port: int) -> tuple[Info, ...]:
    """The address itself when it is written in numbers (without a zone): no thread need look it up."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return ()
    if isinstance(ip, ipaddress.IPv4Address):
        return ((socket.AF_INET, (str(ip), port)),)
    return () if ip.scope_id else ((socket.AF_INET6, (str(ip), port, 0, 0)),)


async def _looked_up(address: Address) -> Sequence[Info]:
    """What the system's resolver says of the host; other spellings of numbers (0x7f.1) come out plain."""
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    inet = (socket.AF_INET, socket.AF_INET6)
    return [(family, cast("Where", where)) for family, _, _, _, where in infos if family in inet]
