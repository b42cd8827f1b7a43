"""The control API as an ASGI application, made from the endpoint table.

Decides which path belongs to which rows, and what an unknown path answers. Inference paths are not here:
the gateway stands in front.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hostler.domain.errors import NotFound, Refusal
from hostler.domain.fleet import frozen
from hostler.domain.values import shorten
from hostler.interfaces.api.answers import NO_STORE, refused
from hostler.interfaces.api.cleaning import own_secrets
from hostler.interfaces.api.dispatch import Dispatch, guarded, headers_of
from hostler.interfaces.api.endpoint import Call, Endpoint
from hostler.interfaces.api.endpoints import ENDPOINTS
from hostler.interfaces.api.idempotency import Repeats
from hostler.interfaces.api.openapi import describe
from hostler.interfaces.api.paths import Paths, paths
from hostler.services.browser_guard import BrowserGuard
from hostler.services.control import Control
from hostler.wire.redaction import Redactor
from hostler.wire.values import dump

DESCRIPTION: Final = "/v1/hostler/openapi.json"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ControlApp:
    """The application: ready to be served, and without state of its own but repeated calls' answers."""

    endpoints: Paths[Dispatch]
    guard: BrowserGuard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one call."""
        found = self.endpoints.find(scope["path"])
        if found is None:
            await self._unknown(scope)(scope, receive, send)
            return
        dispatch, parameters = found
        scope["path_params"] = parameters
        await dispatch(scope, receive, send)

    def _unknown(self, scope: Scope) -> Response:
        """What a path that nobody knows answers: in the one form of errors too."""
        headers = headers_of(scope)
        try:
            guarded(self.guard, scope["method"], headers)
        except Refusal as refusal:
            return refused(refusal)
        path = shorten(Redactor(own_secrets(headers))(scope["path"]), 200)
        return refused(NotFound(what="path", name=path, nearest=f"{DESCRIPTION} lists what there is."))


def create_app(control: Control) -> ControlApp:
    """The application of the whole endpoint table."""
    repeats = Repeats()
    by_path: defaultdict[str, dict[str, Endpoint]] = defaultdict(dict)
    for endpoint in (*ENDPOINTS, description(ENDPOINTS)):
        by_path[endpoint.path][endpoint.method] = endpoint
    return ControlApp(
        endpoints=paths(
            (
                path,
                Dispatch(
                    control=control,
                    guard=control.browsers,
                    repeats=repeats,
                    path=path,
                    endpoints=frozen(endpoints),
                ),
            )
            for path, endpoints in by_path.items()
        ),
        guard=control.browsers,
    )


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
