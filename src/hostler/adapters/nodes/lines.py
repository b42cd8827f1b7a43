"""Connections to other daemons: one URL and pin each, and what may go wrong with a call (NODE-2, NODE-3).

Decides how a call is sent: no redirect, no proxy, no key of anybody else, plain HTTP only where the config
says so, a pinned certificate or one that the machine trusts, and an answer of a bounded size. Whose key it
has, and what the answer is worth, is decided by who calls.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Final

import httpx2

from hostler.client.address import is_local
from hostler.client.call import Call
from hostler.wire.pinning import context_for

CONNECT_S: Final = 3.0
MOST_ANSWER: Final = 8 << 20
"""Bytes of an answer: the largest, a node's memory of its leases, has less than one tenth of them."""


class Lost(Exception):
    """No answer came. `why` in words for people."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why: Final = why


@dataclass(frozen=True, slots=True, kw_only=True)
class Far:
    """Where another daemon is, as the config says. `named` is where its keys stand, for texts."""

    url: str
    tls_pin: str | None = None
    plain: bool = False
    named: str = ""


@dataclass(eq=False, slots=True, kw_only=True)
class Line:
    """The connections to one daemon, made for one URL and pin: a reload makes others."""

    to: tuple[str, str | None]
    http: httpx2.AsyncClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """All of them. `transport` takes the place of the network in tests."""

    transport: httpx2.AsyncBaseTransport | None = None
    open: list[Line] = field(default_factory=list)

    async def sent(self, far: Far, request: Call, patience_s: float) -> tuple[int, bytes]:
        """Status and body of the answer. Raises Lost."""
        try:
            async with self._line(far).stream(
                request.method,
                request.url,
                headers=request.headers,
                content=request.body,
                timeout=httpx2.Timeout(patience_s, connect=CONNECT_S),
            ) as response:
                return response.status_code, await _read(response)
        except httpx2.ConnectTimeout as error:
            raise Lost(f"no connection within {CONNECT_S:g} s") from error
        except httpx2.TimeoutException as error:
            raise Lost(f"no answer within {patience_s:g} s") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError) as error:
            raise Lost(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """End the connections."""
        while self.open:
            await self.open.pop().http.aclose()

    def _line(self, far: Far) -> httpx2.AsyncClient:
        to = (far.url, far.tls_pin)
        for line in self.open:
            if line.to == to:
                return line.http
        if far.url.startswith("http://") and not (far.plain or is_local(far.url)):
            raise Lost(f"plain http:// beyond loopback is not allowed ({far.named}.allow_plain_http)")
        http = httpx2.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            verify=context_for(far.tls_pin) if far.url.startswith("https://") else True,
            transport=self.transport,
        )
        self.open.append(Line(to=to, http=http))
        return http


async def _read(response: httpx2.Response) -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MOST_ANSWER:
            raise Lost(f"its answer is larger than {MOST_ANSWER} bytes")
        parts.append(part)
    return b"".join(parts)
