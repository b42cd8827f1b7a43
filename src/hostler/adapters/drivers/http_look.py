"""One look at an engine over HTTP: its health and the ids that it serves (ENG-4).

Decides how an answer is read (200 is ok, 503 loading, 404 no such route). Does not decide what it means
for the engine: `hostler.domain.engine.judge` does. No inference, no keep-alive, bounded in time and size.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httptools

from hostler.domain.engine import Health
from hostler.domain.values import shorten

LOOK_S: Final = 2.5
"""For the whole look, both requests: the Driver Protocol promises 3 s, the process table takes the rest."""
MAX_BODY: Final = 1 << 20
MODELS_PATH: Final = "/v1/models"
_HEALTH_OF: Final[Mapping[int, Health]] = {200: "ok", 503: "loading", 404: "no_route"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look saw: `status` is the health path's, `ids` the served models."""

    health: Health
    status: int | None = None
    ids: tuple[str, ...] = ()
    detail: str = ""


@dataclass(slots=True)
class _Answer:
    """Collects one response; the methods are httptools' callbacks."""

    body: bytearray = field(default_factory=bytearray)
    whole: bool = False

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.whole = True


async def look(url: str, health: str, headers: Mapping[str, str], *, timeout_s: float = LOOK_S) -> Look:
    """Ask `url` how it is: `health` is a path, `tcp` (a connection is enough) or `none` (nothing is asked).

    Never raises for what an engine does: silence, a reset and nonsense are `unreachable`.
    """
    if health == "none":
        return Look(health="ok", detail="no health check is configured")
    asked = f"GET {url}{health}" if health != "tcp" else f"connect to {url}"
    try:
        async with asyncio.timeout(timeout_s):
            if health == "tcp":
                await _connect_only(urlsplit(url))
                return Look(health="ok", detail=f"{asked}: accepted")
            return await _health_and_ids(url, health, headers, asked)
    except TimeoutError:
        return Look(health="unreachable", detail=f"{asked}: no answer within {timeout_s:g} s")
    except (OSError, httptools.HttpParserError, EOFError) as error:
        return Look(health="unreachable", detail=f"{asked}: {shorten(str(error) or type(error).__name__)}")


async def _health_and_ids(url: str, health: str, headers: Mapping[str, str], asked: str) -> Look:
    status, _ = await get(url + health, headers)
    found = _HEALTH_OF.get(status, "failed")
    if found not in ("ok", "no_route"):
        return Look(health=found, status=status, detail=f"{asked}: {status}")
    listed, body = await get(url + MODELS_PATH, headers)
    ids = model_ids(body) if listed == 200 else ()
    told = f"{asked}: {status}; {MODELS_PATH}: {listed}, {', '.join(map(shorten, ids)) or 'no model'}"
    return Look(health=found, status=status, ids=ids, detail=told)


def model_ids(body: bytes) -> tuple[str, ...]:
    """The ids in an answer of `/v1/models`; empty for anything that is no such answer."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    data = value.get("data") if isinstance(value, dict) else None
    items = data if isinstance(data, list) else []
    ids = (item.get("id") for item in items if isinstance(item, dict))
    return tuple(one for one in ids if isinstance(one, str))


async def get(url: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and body of one GET. Raises OSError, EOFError for a cut answer, HttpParserError for nonsense."""
    parts = urlsplit(url)
    reader, writer = await _open(parts)
    try:
        writer.write(_request(parts, headers))
        answer = _Answer()
        parser = httptools.HttpResponseParser(answer)
        while not answer.whole:
            data = await reader.read(65536)
            if not data:
                break
            parser.feed_data(data)
            if len(answer.body) > MAX_BODY:
                raise OSError(f"the answer is larger than {MAX_BODY} bytes")
        status = parser.get_status_code()
        if not status:
            raise EOFError("the connection was closed before the answer")
        return status, bytes(answer.body)
    finally:
        writer.close()


def _request(parts: SplitResult, headers: Mapping[str, str]) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [f"GET {target} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close", "Accept: */*"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _connect_only(parts: SplitResult) -> None:
    _, writer = await _open(parts)
    writer.close()


async def _open(parts: SplitResult) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    tls = ssl.create_default_context() if secure else None
    return await asyncio.open_connection(parts.hostname or "127.0.0.1", port, ssl=tls)
