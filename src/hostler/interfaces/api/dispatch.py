"""How a call becomes an answer: guard, key, form, Idempotency-Key, handler; every refusal in one form.

Decides the order of these checks and what a caller is told of a bug: an id and nothing else. The same
for every endpoint; what an endpoint does is its handler's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hostler.domain.errors import Internal, MethodNotAllowed, Refusal
from hostler.domain.values import Requester, requester, with_lease
from hostler.interfaces.api.answers import refused
from hostler.interfaces.api.cleaning import cleaned, own_secrets
from hostler.interfaces.api.endpoint import Call, Endpoint
from hostler.interfaces.api.forms import query_from, read_body
from hostler.interfaces.api.idempotency import HEADER, Repeats
from hostler.services.browser_guard import BrowserGuard
from hostler.services.control import Control
from hostler.services.keys import Principal
from hostler.wire.redaction import Redactor
from hostler.wire.values import request_from

LEASE_HEADER: Final = "x-hostler-lease"
"""The lease that a caller acts under; it counts with the key that took it (LEASE-15)."""
log: Final = logging.getLogger("hostler.api")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Dispatch:
    """All endpoints of one path, by method: an ASGI application."""

    control: Control
    guard: BrowserGuard
    repeats: Repeats
    path: str
    endpoints: Mapping[str, Endpoint]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        request = Request(scope, receive)
        response = await self.answer(request)
        await response(scope, receive, send)

    async def answer(self, request: Request) -> Response:
        """The answer, or the refusal; never raises."""
        headers = headers_of(request.scope)
        endpoint = self.endpoints.get("GET" if request.method == "HEAD" else request.method)
        flat = endpoint is not None and endpoint.flat
        try:
            guarded(self.guard, request.method, headers)
            if endpoint is None:
                raise self._not_allowed(request.method)
            return await self._act(endpoint, request, headers)
        except Refusal as refusal:
            return refused(refusal, flat=flat, redact=Redactor(own_secrets(headers)))
        except ClientDisconnect:
            # It left while it sent its body: nobody hears this answer, and nothing was done.
            return Response(status_code=400)
        except Exception:
            # A bug of any kind is told by an id; its cause stays in the log.
            failure = Internal(id=self.control.requests.ids.new("err"))
            log.exception("%s in %s %s", failure.id, request.method, self.path)
            return refused(failure, flat=flat)

    async def _act(self, endpoint: Endpoint, request: Request, headers: Mapping[str, str]) -> Response:
        who = self.control.keyring.check(key_of(headers), endpoint.scope)
        body = await read_body(request, headers) if endpoint.changes else b""
        sent: object = request_from(endpoint.body, body)
        redact = Redactor(own_secrets(headers, sent))
        call = Call(
            control=self.control,
            who=who,
            by=asked_by(request, headers, who, redact),
            path=cleaned(request.path_params, redact),
            headers=headers,
            sent=cleaned(sent, redact),
            asked=cleaned(query_from(endpoint.query, request), redact),
        )
        key = headers.get(HEADER)
        if key is None or not endpoint.changes or endpoint.own_repeats:
            return await endpoint.handler(call)
        what = f"{request.method} {request.url.path}"
        return await self.repeats.once(key, who.name, what, body, lambda: endpoint.handler(call))

    def _not_allowed(self, method: str) -> MethodNotAllowed:
        return MethodNotAllowed(method=method, path=self.path, allowed=", ".join(sorted(self.endpoints)))


def headers_of(scope: Scope) -> Mapping[str, str]:
    """The headers by lower-case name; of one that came twice the first."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def guarded(guard: BrowserGuard, method: str, headers: Mapping[str, str]) -> None:
    """Refuse what a foreign page made a browser send (API-4)."""
    guard.check(
        method,
        host=headers.get("host"),
        origin=headers.get("origin"),
        fetch_site=headers.get("sec-fetch-site"),
    )


def key_of(headers: Mapping[str, str]) -> str | None:
    """The key that was sent, `Bearer KEY` or the key alone; None without one."""
    return headers.get("authorization") or headers.get("x-api-key")


def asked_by(
    request: Request, headers: Mapping[str, str], who: Principal, redact: Callable[[str], str]
) -> Requester:
    """Who asks, as the log tells it (HOLD-14): without a key that was sent as a name."""
    by = requester(
        ip=request.client.host if request.client is not None else None,
        ua=redact(headers.get("user-agent", "")),
        client=redact(headers.get("x-hostler-client") or headers.get("x-crow-client") or ""),
        key=who.name,
    )
    return with_lease(by, headers.get(LEASE_HEADER))
