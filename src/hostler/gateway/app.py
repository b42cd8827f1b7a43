"""The gateway's front: it answers inference paths itself, and stands in front of the control API (GW-3).

Decides who may ask, what the body must be, and which route it means. No store, lock or network call
stands between a request and an engine that runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from hostler.domain.engine import State
from hostler.domain.errors import (
    EngineNotFound,
    InvalidRequest,
    Loop,
    MethodNotAllowed,
    ModelNotFound,
    Refusal,
    TooLarge,
    UpstreamUnreachable,
)
from hostler.domain.fleet import Engine, Fleet, Route
from hostler.domain.gate import Ask
from hostler.domain.request_class import RequestClass
from hostler.domain.route import Found, Table, lookup, nearest
from hostler.domain.values import Cause, shorten
from hostler.gateway import body as bodies
from hostler.gateway import headers as head_rules
from hostler.gateway.ask import Means
from hostler.gateway.choose import Asked, Chooser
from hostler.gateway.exchange import App, CutShort, Exchange
from hostler.gateway.intake import body_here, read_body
from hostler.gateway.known import Known, known_of
from hostler.gateway.models import Models
from hostler.gateway.paths import Direct, Inference, ModelList, Path, classify
from hostler.gateway.serve import Serving
from hostler.services.browser_guard import BrowserGuard
from hostler.services.keys import Keyring, Principal
from hostler.services.keys import Scope as Right
from hostler.services.lanes import InFlight
from hostler.services.requests import Outcome, Requests
from hostler.services.routes import Routes

MOST_HOSTS: Final = 64
"""Spellings of our own address that are remembered, so that they are not taken apart for each request."""
ROUTED_MAX_BODY: Final = 8 << 20
"""A body that is edited is read whole: at most this, unless its route says otherwise (GW-12)."""

Fields = list[tuple[bytes, bytes]]
Ended = Callable[[InFlight, Outcome, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """Answers every request of one daemon. `control` gets what is no inference; `ended` hears every end."""

    routes: Routes
    requests: Requests
    keyring: Keyring
    guard: BrowserGuard
    chooser: Chooser
    models: Models
    means: Means
    control: App
    ended: Ended
    hosts: set[bytes] = field(default_factory=set)

    async def __call__(self, exchange: Exchange) -> None:
        """One request."""
        asked = exchange.asked
        path = classify(asked.method, asked.raw_path, asked.query)
        if path is None:
            await self.control(exchange)
            return
        known = known_of(exchange)
        serving = Serving(self.means, self.requests, known.who, exchange)
        outcome = Outcome.INTERNAL
        try:
            outcome = await serving.run(self._work(serving, path, known, exchange))
        finally:
            self.requests.close(serving.entry)
            serving.seat.leave()
            self.ended(serving.entry, outcome, serving.status)
        if serving.unfinished:
            raise CutShort

    def _work(self, serving: Serving, path: Path, known: Known, exchange: Exchange) -> Awaitable[None]:
        if isinstance(path, Inference):
            return self._infer(serving, path, known, exchange)
        if isinstance(path, Direct):
            return self._direct(serving, path, known, exchange)
        return self._list(serving, path, known)

    # ------------------------------------------------------------ who asks

    def _guard(self, method: str, known: Known) -> None:
        if known.plain_host not in self.hosts:
            self.guard.check(
                method,
                host=known.text(b"host"),
                origin=known.text(b"origin"),
                fetch_site=known.text(b"sec-fetch-site"),
            )
            if known.plain_host is not None and len(self.hosts) < MOST_HOSTS:
                self.hosts.add(known.plain_host)
        if known.hop > head_rules.MAX_HOPS:
            raise Loop

    # ------------------------------------------------------------ inference

    async def _infer(self, serving: Serving, path: Inference, known: Known, exchange: Exchange) -> None:
        self._guard(serving.method, known)
        if serving.method != "POST":
            raise MethodNotAllowed(method=serving.method, path=path.target, allowed="POST")
        principal = self._who(serving, known, Right.INFER)
        body = await self._body(serving, exchange, self.routes.table.largest)
        try:
            routed = bodies.route(body)
        except bodies.BodyError as error:
            raise _invalid(error) from error
        table = self.routes.table
        found = lookup(table, routed.model)
        self._may(principal, found)
        _fits(table.fleet, found, len(body))
        serving.wants_stream = path.streams and routed.streams
        chosen = _class(table.fleet, known, principal, found)
        asked = Asked(
            table=table,
            path=path.target,
            known=known,
            body=body,
            model=routed.model,
            span=routed.span,
            requester=serving.entry.requester,
            wait_s=chosen.max_wait_s,
            request_class=chosen.name,
        )
        serving.entry.route = found.name if isinstance(found, Route) else found.id
        await serving.serve(self.chooser.choose(found, asked))

    def _who(self, serving: Serving, known: Known, right: Right, other: Right | None = None) -> Principal:
        """Whose key it is; the in-flight table and the log then name it (GW-9).

        `other`: a right that suffices, too: other gateways come with this host's node key (NODE-6).
        """
        principal = self.keyring.check_either(known.key, right, other or right)
        serving.entry.requester = known.asker(principal)
        return principal

    async def _body(self, serving: Serving, exchange: Exchange, limit: int) -> bytes:
        body = body_here(exchange, limit, serving.seat)
        if body is None:
            body = await read_body(exchange, limit, exchange.length, serving.seat)
        serving.entry.bytes_in = len(body)
        serving.entry.phase = "read"
        return body

    def _may(self, principal: Principal, found: Found) -> None:
        """A key with a list of routes may use only these; another is as if it were not there."""
        name = found.name if isinstance(found, Route) else found.id
        if principal.routes is not None and name not in principal.routes:
            raise ModelNotFound(model=shorten(name, 256), nearest=nearest(name, principal.routes))

    # ------------------------------------------------------------ the rest

    async def _direct(self, serving: Serving, path: Direct, known: Known, exchange: Exchange) -> None:
        """`/upstream/<engine>/…`. A read starts nothing: an engine that does not run is refused."""
        self._guard(serving.method, known)
        principal = self._who(serving, known, Right.INFER, Right.NODE)
        table = self.routes.table
        found = table.engines.get(path.engine)
        if found is None:
            near = nearest(path.engine, table.engines)
            raise EngineNotFound(engine=shorten(path.engine, 256), nearest=near)
        self._may(principal, found)
        body = await self._body(serving, exchange, table.fleet.gateway.max_body)
        serving.wants_stream = _is_streamed(path, body)
        chosen = _class(table.fleet, known, principal, found)
        asked = Asked(
            table=table,
            path=path.target,
            known=known,
            body=body,
            model=found.model or found.id,
            span=(0, 0),
            requester=serving.entry.requester,
            wait_s=chosen.max_wait_s if path.starts else 0.0,
            request_class=chosen.name,
        )
        choice = self.chooser.choose(found, asked)
        serving.entry.route = found.id
        if path.starts or found.host != table.fleet.here:
            await serving.serve(choice)
            return
        self._runs(found, asked)
        await serving.serve(choice)

    def _runs(self, found: Engine, asked: Asked) -> None:
        """Refuses a look at an engine that does not run. It is no start, and no refused one either."""
        lane = self.means.engines.lanes.get(found.id)
        if lane.ready:
            return
        ask = Ask(engine=found.id, cause=Cause.REQUEST, requester=asked.requester)
        refusal = self.means.engines.gate.peek(ask)
        if refusal is not None:
            raise refusal
        if lane.state is State.STARTING:
            raise self.means.engines.starting.loading(lane)
        raise UpstreamUnreachable(target=found.id, why=f"it is {lane.state}, and a read starts nothing")

    async def _list(self, serving: Serving, path: ModelList, known: Known) -> None:
        self._guard(serving.method, known)
        if serving.method not in ("GET", "HEAD"):
            raise MethodNotAllowed(method=serving.method, path="/v1/models", allowed="GET")
        principal = self._who(serving, known, Right.MODELS)
        table = self.routes.table
        if path.names:
            found = self.models.one(table, named(table, path.names), principal.routes)
        else:
            found = self.models.all(table, principal.routes)
        serving.entry.route = "models"
        await serving.answer(200, [(b"content-type", b"application/json")], msgspec.json.encode(found))


def _fits(fleet: Fleet, found: Found, size: int) -> None:
    from_route = found.max_body if isinstance(found, Route) else None
    limit = from_route if from_route is not None else fleet.gateway.max_body
    edited = isinstance(found, Route) and (found.escalate is not None or bool(found.patches))
    if from_route is None and edited:
        limit = min(limit, ROUTED_MAX_BODY)
    if size > limit:
        raise _too_large(limit, found)


def _class(fleet: Fleet, known: Known, principal: Principal, found: Found) -> RequestClass:
    """Whose wait for a cold engine counts: the header's class, the key's, the route's (GW-6)."""
    named = known.request_class
    if named is not None:
        name = named.strip()
        if name not in fleet.classes:
            raise InvalidRequest(
                what=f"There is no request class {shorten(name)!r}.",
                expected=nearest(name, fleet.classes),
                where="x-hostler-class",
            )
        return fleet.classes[name]
    fallback = found.request_class if isinstance(found, Route) else "chat"
    chosen = principal.request_class or fallback
    return fleet.classes.get(chosen) or fleet.classes["chat"]


def named(table: Table, names: tuple[str, ...]) -> str:
    """The first of `names` that there is, else the first."""
    known = (table.routes, table.aliases, table.engines, table.shared)
    return next((name for name in names if any(name in it for it in known)), names[0])


def _is_streamed(path: Direct, body: bytes) -> bool:
    """Whether what another gateway sent on asks for a stream: it lives by comments while it waits (GW-6)."""
    meant = classify("POST", path.target.encode("latin-1"), b"")
    if not isinstance(meant, Inference) or not meant.streams or b'"stream"' not in body:
        return False
    try:
        return bodies.is_true(body, bodies.locate(body), "stream")
    except bodies.BodyError:
        return False


def _invalid(error: bodies.BodyError) -> Refusal:
    if isinstance(error, bodies.Malformed):
        return InvalidRequest(what=f"The body is no JSON: {error}.", expected="Send one JSON object.")
    if isinstance(error, bodies.NotAnObject):
        return InvalidRequest(what="The body is no JSON object.", expected='Send {"model": …, …}.')
    return InvalidRequest(
        what=f"{str(error)[:1].upper()}{str(error)[1:]}.",
        expected="Name one model as a text; GET /v1/models lists them.",
        where="model",
    )


def _too_large(limit: int, found: Found) -> Refusal:
    name = found.name if isinstance(found, Route) else found.id
    return TooLarge(what=f"request body for {name}", limit=limit, setting=f"routes.{name}.max_body")
