"""The control API as an ASGI application, made from the endpoint table.

Decides which path belongs to which rows, and what an unknown path answers. Inference paths are not here:
the gateway stands in front.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hostler.domain.errors import NotFound, Refusal
from hostler.domain.fleet import frozen
from hostler.domain.values import shorten
from hostler.interfaces.api.answers import NO_STORE, refused
from hostler.interfaces.api.cleaning import own_secrets
from hostler.interfaces.api.dispatch import Dispatch, guarded
from hostler.interfaces.api.endpoint import Call, Endpoint
from hostler.interfaces.api.endpoints import ENDPOINTS
from hostler.interfaces.api.idempotency import Repeats
from hostler.interfaces.api.openapi import describe
from hostler.services.browser_guard import BrowserGuard
from hostler.services.control import Control
from hostler.wire.redaction import Redactor
from hostler.wire.values import dump

DESCRIPTION: Final = "/v1/hostler/openapi.json"


def create_app(control: Control) -> Starlette:
    """The application: ready to be served, and without state of its own but repeated calls' answers."""
    guard = control.browsers
    repeats = Repeats()
    by_path: defaultdict[str, dict[str, Endpoint]] = defaultdict(dict)
    for endpoint in (*ENDPOINTS, description(ENDPOINTS)):
        by_path[endpoint.path][endpoint.method] = endpoint
    routes = [
        Route(
            path,
            Dispatch(control=control, guard=guard, repeats=repeats, path=path, endpoints=frozen(endpoints)),
        )
        for path, endpoints in by_path.items()
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _unknown(guard)})
    app.router.redirect_slashes = False
    return app


def description(endpoints: Sequence[Endpoint]) -> Endpoint:
    """The endpoint that gives the description of all, itself among them; drawn once."""

    async def answer(call: Call) -> Response:
        del call
        return Response(text, media_type="application/json", headers={"cache-control": NO_STORE})

    row = Endpoint(
        method="GET",
        path=DESCRIPTION,
        scope=None,
        summary="This description, OpenAPI 3.1.",
        handler=answer,
    )
    text = dump(describe((*endpoints, row)))
    return row


def _unknown(guard: BrowserGuard) -> Callable[[Request, Exception], Awaitable[Response]]:
    """What a path that nobody knows answers: in the one form of errors too."""

    async def answer(request: Request, error: Exception) -> Response:
        del error
        try:
            guarded(guard, request)
        except Refusal as refusal:
            return refused(refusal)
        redact = Redactor(own_secrets(request.headers))
        path = shorten(redact(request.url.path), 200)
        return refused(NotFound(what="path", name=path, nearest=f"{DESCRIPTION} lists what there is."))

    return answer
