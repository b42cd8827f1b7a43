"""The two thin senders: the same calls, synchronous and asynchronous.

Decides transport only: no redirect is followed, no proxy of the environment is used for this machine,
nothing is sent twice. What is sent and what an answer means is `hostler.client.call`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import aclosing, closing
from types import TracebackType
from typing import Self

import httpx2

from hostler.client.address import Address
from hostler.client.call import (
    ANSWER_S,
    CONNECT_S,
    SILENCE_S,
    Call,
    Lines,
    Sent,
    SentEvents,
    answer,
    call,
    silent,
    unanswered,
    unreachable,
)
from hostler.domain.errors import Refusal
from hostler.wire.pinning import context_for

STREAM = {"accept": "text/event-stream, application/x-ndjson, text/plain"}


def _translated(request: Call, error: Exception) -> Refusal:
    if isinstance(error, httpx2.ReadTimeout):
        return silent(request)
    if isinstance(error, httpx2.InvalidURL):
        # Its words may hold a part of a password.
        return unanswered(request.address, "its address cannot be understood")
    return unreachable(request, error)


def _timeout(request: Call) -> httpx2.Timeout:
    return httpx2.Timeout(request.silence_s, connect=CONNECT_S)


class Client:
    """A daemon, spoken to synchronously. Answers are JSON values; refusals are raised as their classes.

    `client` is the tag that the daemon's log and suspensions have for who asks (HOLD-14), `lease` the one
    that every call is made under (LEASE-15). Every method may refuse `daemon_unreachable`.
    """

    def __init__(self, address: Address, *, client: str | None = None, lease: str | None = None) -> None:
        self.address = address
        self._named = _named(client, lease)
        self._http = httpx2.Client(
            trust_env=not address.local, follow_redirects=False, verify=_trusted(address)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout_s: float | None = ANSWER_S
    ) -> object:
        """The value at `path`. `timeout_s` None waits for ever."""
        return self.send(
            call(self.address, "GET", path, query=query, timeout_s=timeout_s, headers=self._named)
        )

    def post(
        self,
        path: str,
        body: object = None,
        *,
        timeout_s: float | None = ANSWER_S,
        idempotency_key: str | None = None,
    ) -> object:
        """Ask for a change. With `idempotency_key` it may be sent again and is done once (API-2)."""
        headers = {**self._named, **_once(idempotency_key)}
        sent = {} if body is None else body
        return self.send(call(self.address, "POST", path, body=sent, timeout_s=timeout_s, headers=headers))

    def send(self, request: Call) -> object:
        """Send any call."""
        try:
            got = self._http.request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.body,
                timeout=_timeout(request),
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _translated(request, error) from error
        return answer(request, got.status_code, got.content)

    def lines(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Generator[str, None, None]:
        """The lines of a stream as they come, until it ends."""
        asked = {**STREAM, **self._named, **(headers or {})}
        request = call(self.address, "GET", path, query=query, timeout_s=SILENCE_S, headers=asked)
        split = Lines()
        try:
            with self._http.stream(
                request.method, request.url, headers=request.headers, timeout=_timeout(request)
            ) as got:
                if got.status_code != 200:
                    answer(request, got.status_code, got.read())
                for data in got.iter_bytes():
                    yield from split.feed(data)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise _translated(request, error) from error
        yield from split.end()

    def events(
        self, path: str, query: Mapping[str, object] | None = None, *, after: str | None = None
    ) -> Generator[Sent, None, None]:
        """Server-sent events as they come, from `after` (a cursor) on."""
        parsed = SentEvents()
        with closing(self.lines(path, query, headers=_after(after))) as lines:
            for line in lines:
                yield from parsed.feed(line)


class AsyncClient:
    """A daemon, spoken to asynchronously: the same methods as `Client`, awaited."""

    def __init__(self, address: Address, *, client: str | None = None, lease: str | None = None) -> None:
        self.address = address
        self._named = _named(client, lease)
        self._http = httpx2.AsyncClient(
            trust_env=not address.local, follow_redirects=False, verify=_trusted(address)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(
        self, path: str, query: Mapping[str, object] | None = None, *, timeout_s: float | None = ANSWER_S
    ) -> object:
        """See `Client.get`."""
        return await self.send(
            call(self.address, "GET", path, query=query, timeout_s=timeout_s, headers=self._named)
        )

    async def post(
        self,
        path: str,
        body: object = None,
        *,
        timeout_s: float | None = ANSWER_S,
        idempotency_key: str | None = None,
    ) -> object:
        """See `Client.post`."""
        headers = {**self._named, **_once(idempotency_key)}
        sent = {} if body is None else body
        return await self.send(
            call(self.address, "POST", path, body=sent, timeout_s=timeout_s, headers=headers)
        )

    async def send(self, request: Call) -> object:
        """See `Client.send`."""
        try:
            got = await self._http.request(
                request.method,
                request.url,
                headers=request.headers,
                content=request.body,
                timeout=_timeout(request),
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _translated(request, error) from error
        return answer(request, got.status_code, got.content)

    async def lines(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[str, None]:
        """See `Client.lines`."""
        asked = {**STREAM, **self._named, **(headers or {})}
        request = call(self.address, "GET", path, query=query, timeout_s=SILENCE_S, headers=asked)
        split = Lines()
        try:
            async with self._http.stream(
                request.method, request.url, headers=request.headers, timeout=_timeout(request)
            ) as got:
                if got.status_code != 200:
                    answer(request, got.status_code, await got.aread())
                async for data in got.aiter_bytes():
                    for line in split.feed(data):
                        yield line
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise _translated(request, error) from error
        for line in split.end():
            yield line

    async def events(
        self, path: str, query: Mapping[str, object] | None = None, *, after: str | None = None
    ) -> AsyncGenerator[Sent, None]:
        """See `Client.events`."""
        parsed = SentEvents()
        async with aclosing(self.lines(path, query, headers=_after(after))) as lines:
            async for line in lines:
                for event in parsed.feed(line):
                    yield event


def _trusted(address: Address) -> ssl.SSLContext | bool:
    """Whom to believe over TLS: who has the pinned key, else whom this machine's authorities vouch for."""
    return True if address.pin is None else context_for(address.pin)


def _named(client: str | None, lease: str | None) -> Mapping[str, str]:
    named = {"x-hostler-client": client, "x-hostler-lease": lease}
    return {header: value for header, value in named.items() if value is not None}


def _once(idempotency_key: str | None) -> Mapping[str, str]:
    return {} if idempotency_key is None else {"idempotency-key": idempotency_key}


def _after(cursor: str | None) -> Mapping[str, str]:
    return {} if cursor is None else {"last-event-id": cursor}
