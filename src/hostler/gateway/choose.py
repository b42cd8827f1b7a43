"""Who serves a request: from the model's name and the route's rules to targets in order (GW-1, GW-4).

Decides the targets, what each is sent, and whether an answer is degraded. Starts nothing and sends
nothing: `exchange` does, in the order that is chosen here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from hostler.domain import escalation, route
from hostler.domain.engine import State
from hostler.domain.errors import (
    EngineNotFound,
    Loop,
    ModelNotFound,
    NodeUnreachable,
    Refusal,
    UpstreamUnreachable,
)
from hostler.domain.escalation import Can, Said
from hostler.domain.fleet import (
    Engine,
    EngineTarget,
    Escalating,
    Escalation,
    Plain,
    Profile,
    Route,
    Target,
    UpstreamTarget,
)
from hostler.domain.gate import Ask
from hostler.domain.route import Found, Shared, Table
from hostler.domain.values import Cause, EngineId, Requester, escape_controls
from hostler.gateway import body as bodies
from hostler.gateway import edit
from hostler.gateway.backoff import Backoff
from hostler.gateway.headers import MAX_HOPS
from hostler.gateway.known import Known
from hostler.gateway.places import Places, keys
from hostler.gateway.upstream import Address, RequestHead
from hostler.services.engines import Engines
from hostler.services.lanes import Lane
from hostler.services.needs import Clock

# What lives for one request is not frozen: a frozen value of ten fields takes 3 µs longer to make.

CLASS: Final = b"x-hostler-class"
PEER_S: Final = 10.0
"""How much longer than a cold start may take its host's gateway is waited for: it says then why not."""
LOOK_S: Final = 15
"""Seconds after which a peer's row that was not reached is looked at again."""
MESSAGES: Final = 64
"""The latest messages that escalation looks at; `lookback` is at most this."""
Fields = list[tuple[bytes, bytes]]


@dataclass(eq=False, slots=True, kw_only=True)
class Attempt:
    """One target and what it is sent. `lane` None: an upstream, or an engine of the host `peer` (NODE-6).

    `ask` is the wish to start its engine, None where it runs. `names`: the model's there, and as asked for.
    """

    name: str
    address: Address
    head: RequestHead
    body: bytes
    names: tuple[str, str]
    lane: Lane | None = None
    ask: Ask | None = None
    wait_s: float = 0.0
    degraded: str | None = None
    peer: str | None = None

    @property
    def line(self) -> str:
        """What is left alone for a while when it does not answer: an upstream, or the node of a host."""
        return self.name if self.peer is None else node_line(self.peer)


@dataclass(eq=False, slots=True, kw_only=True)
class Choice:
    """The attempts in order, each made when its turn comes, and what to try when all were refused."""

    route: str
    attempts: Sequence[Callable[[], Attempt]]
    otherwise: Callable[[Refusal], Attempt | None] = lambda _: None
    reason: str = ""

    def served(self, attempt: Attempt) -> Fields:
        """The headers that say who served it (GW-5)."""
        return _told(self.route, attempt.degraded, attempt.name)

    def headers(self, degraded: str | None) -> Fields:
        """The headers that say on which route it is, and whether it is degraded (GW-5)."""
        return _told(self.route, degraded, None)


@dataclass(eq=False, slots=True, kw_only=True)
class Asked:
    """A request as far as choosing needs it, and the table that it sees from its begin to its end."""

    table: Table
    path: str
    known: Known
    body: bytes
    model: str
    span: bodies.Span
    requester: Requester
    wait_s: float
    request_class: str = "chat"


@functools.lru_cache(maxsize=1024)
def header(text: str) -> bytes:
    """A name as a header's value: ASCII, no controls."""
    return escape_controls(text).encode("ascii", "backslashreplace")


@functools.lru_cache(maxsize=1024)
def _told(route: str, degraded: str | None, served_by: str | None) -> Fields:
    fields: Fields = [(b"x-hostler-route", header(route))]
    if degraded is not None:
        fields.append((b"x-hostler-degraded", degraded.encode()))
    if served_by is not None:
        fields.append((b"x-hostler-served-by", header(served_by)))
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """Chooses for one gateway. `away` says why another host's node is known not to answer."""

    engines: Engines
    places: Places
    backoff: Backoff
    clock: Clock
    away: Callable[[str], str | None]

    def choose(self, found: Found, asked: Asked) -> Choice:
        """The attempts for a request whose model means `found`. Refuses where nothing can be tried."""
        if isinstance(found, Shared):
            return Choice(route=found.id, attempts=[lambda: self._shared(found, asked)])
        if isinstance(found, Engine):
            return Choice(route=found.id, attempts=[lambda: self._engine(found.id, asked, None)])
        active = asked.table.profile(found)
        if active is None:
            raise ModelNotFound(
                model=found.name,
                nearest=f"It has no active profile; `hostler routes set {found.name} PROFILE` sets one.",
            )
        profile = active[1]
        if isinstance(profile, Escalating):
            return self._escalating(found, profile, asked)
        return self._plain(found, profile, asked)

    # ------------------------------------------------------------ plain routes

    def _plain(self, found: Route, profile: Plain, asked: Asked) -> Choice:
        targets: Sequence[Target] = profile.targets
        if len(targets) > 1:
            ordered = route.order(targets, found.strategy, ready=self._ready, load=self._load)
            targets = self.backoff.last(ordered)
        return Choice(
            route=found.name,
            attempts=[functools.partial(self._attempt, target, asked, found) for target in targets],
            otherwise=functools.partial(self._fallback, found, asked),
        )

    def _fallback(self, found: Route, asked: Asked, refusal: Refusal) -> Attempt | None:
        """The fallback profile's first target that needs no start, marked as degraded (GW-1, HOLD table)."""
        profile = found.profiles.get(found.fallback) if found.fallback is not None else None
        if profile is None or not asked.known.may_degrade:
            return None
        for target in _targets(profile):
            if self._ready(target):
                return self._degraded(target, asked, found, refusal)
        return None

    # ------------------------------------------------------------ escalating routes

    def _escalating(self, found: Route, profile: Escalating, asked: Asked) -> Choice:
        rules = found.escalate or Escalation()
        wish = self._wish(found, rules, asked)
        fast, large = self._lane(profile.fast), self._lane(profile.large)
        fast_can = Can.SERVE if fast is None or fast.ready else Can.START
        refusal = self.engines.gate.closing(profile.large) if wish.large else None
        large_can = Can.SERVE if large is None or large.ready else Can.START
        if refusal is not None:
            large_can = Can.NOTHING
        elif wish.large and large is not None and large_can is Can.START and _is_known(large):
            refusal = self.engines.gate.probe(self._ask(profile.large, asked, found))
            if refusal is not None:
                large_can = Can.NOTHING
                self.engines.gate.tell(self._ask(profile.large, asked, found), refusal)
        made = escalation.decide(
            wish, fast=fast_can, large=large_can, refusal=refusal, may_degrade=asked.known.may_degrade
        )
        if made.refused and refusal is not None:
            raise refusal
        stripped = self._stripped(rules, asked) if wish.token else asked
        if made.degraded is not None and refusal is not None:
            served = self._degraded(EngineTarget(engine=profile.fast), stripped, found, refusal)
            return Choice(route=found.name, attempts=[lambda: served], reason=made.reason)
        chosen = profile.large if made.large else profile.fast

        def otherwise(late: Refusal) -> Attempt | None:
            target = EngineTarget(engine=profile.fast)
            if not made.large or not asked.known.may_degrade or not self._ready(target):
                return None
            return self._degraded(target, stripped, found, late)

        return Choice(
            route=found.name,
            attempts=[lambda: self._engine(chosen, stripped, found)],
            otherwise=otherwise,
            reason=made.reason,
        )

    def _wish(self, found: Route, rules: Escalation, asked: Asked) -> escalation.Wish:
        where = bodies.locate(asked.body)
        messages = [
            Said(role=it.role, text=it.text, tools=it.tools)
            for it in edit.outline(asked.body, where, MESSAGES)
        ]
        offered = bodies.has_items(asked.body, where, "tools")
        return escalation.wish(
            messages, tools_offered=offered, rules=rules, intents=asked.table.intents.get(found.name, ())
        )

    def _stripped(self, rules: Escalation, asked: Asked) -> Asked:
        """The request without its token: stripped before forwarding, when degraded too (GW-4, GATE-6)."""
        change = edit.token_edit(asked.body, bodies.locate(asked.body), rules.token or "")
        return asked if change is None else _edited(asked, [change])

    # ------------------------------------------------------------ attempts

    def _degraded(self, target: Target, asked: Asked, found: Route, refusal: Refusal) -> Attempt:
        note = asked.table.fleet.gateway.degrade_note.replace("{cause}", escalation.cause_of(refusal))
        place = edit.Place.MERGE
        if isinstance(target, EngineTarget):
            place = edit.Place(asked.table.engines[target.engine].note)
        change = edit.note_edit(asked.body, bodies.locate(asked.body), note, place)
        noted = asked if change is None else _edited(asked, [change])
        return replace(self._attempt(target, noted, found), degraded=refusal.code, wait_s=0.0)

    def _attempt(self, target: Target, asked: Asked, found: Route) -> Attempt:
        if isinstance(target, EngineTarget):
            return self._engine(target.engine, asked, found)
        return self._upstream(target, asked, found)

    def _engine(self, engine: EngineId, asked: Asked, found: Route | None) -> Attempt:
        lane = self._lane(engine)
        if lane is None:
            return self._far(asked.table.engines[engine], asked, found)
        address, path = self.places.engine(lane.launch), asked.path.encode("latin-1")
        return Attempt(
            name=engine,
            address=address,
            head=asked.known.head_to(address, path, keys(lane.engine.key), _silence(asked, found)),
            body=self._body(asked, lane.launch.model, found, engine),
            names=(lane.launch.model, asked.model),
            lane=lane,
            ask=None if lane.ready else self._ask(engine, asked, found),
            wait_s=asked.wait_s,
        )

    def _far(self, engine: Engine, asked: Asked, found: Route | None) -> Attempt:
        """An engine of another host: its own gateway serves it, by all of its own rules (NODE-6).

        With that host's key, never the caller's. Refuses `loop` for what another gateway sent here already,
        and `node_unreachable` for a host that is known to be away: one that hangs answers nobody.
        """
        fleet = asked.table.fleet
        if engine.host == fleet.here:
            raise EngineNotFound(engine=engine.id, nearest="It was taken out of the config a moment ago.")
        if asked.known.hop >= MAX_HOPS:
            raise Loop
        host = fleet.hosts[engine.host]
        if host.url is None or host.key is None:
            missing = "url" if host.url is None else "key"
            raise NodeUnreachable(host=engine.host, why=f"this config has no hosts.{engine.host}.{missing}")
        why = self.away(engine.host)
        if why is not None:
            raise NodeUnreachable(host=engine.host, why=why)
        address = self.places.node(host.url, host.tls_pin)
        target = f"/upstream/{quote(engine.id, safe='')}{asked.path}".encode("latin-1")
        added = [*keys(host.key), (CLASS, asked.request_class.encode())]
        return Attempt(
            name=engine.id,
            address=address,
            head=asked.known.head_to(
                address, target, added, max(_silence(asked, found), asked.wait_s + PEER_S)
            ),
            body=self._body(asked, engine.model or engine.id, found, engine.id),
            names=(engine.model or engine.id, asked.model),
            peer=engine.host,
        )

    def _upstream(self, target: UpstreamTarget, asked: Asked, found: Route) -> Attempt:
        upstream = asked.table.fleet.upstreams[target.upstream]
        address, path = self.places.upstream(upstream), self.places.path(upstream, asked.path)
        return Attempt(
            name=upstream.name,
            address=address,
            head=asked.known.head_to(address, path, keys(upstream.key), _silence(asked, found)),
            body=self._body(asked, target.model or asked.model, found, upstream.name),
            names=(target.model or asked.model, asked.model),
        )

    def _shared(self, row: Shared, asked: Asked) -> Attempt:
        """A row of a paired node: asked as an upstream is, with no key and never on this machine (SYNC-6).

        Refuses `loop` for what a gateway sent here already, and `upstream_unreachable` at once for a row that
        was not reached when it was looked at last (SYNC-5).
        """
        if asked.known.hop >= MAX_HOPS:
            raise Loop
        if not row.reached:
            why = f"{row.author} says that it is at {row.url}, and it was not reached from here"
            raise UpstreamUnreachable(target=row.id, why=why, retry_after=LOOK_S)
        address, path = self.places.foreign(row.url), self.places.below(row.url, asked.path)
        return Attempt(
            name=row.id,
            address=address,
            head=asked.known.head_to(address, path, [], _silence(asked, None)),
            body=self._body(asked, row.model, None, row.id),
            names=(row.model, asked.model),
        )

    def _body(self, asked: Asked, model: str, found: Route | None, target: str) -> bytes:
        """The body as the target gets it: only the model's value and configured patches change (GW-11)."""
        patch = found.patches.get(target) if found is not None else None
        if not patch:
            return asked.body if model == asked.model else edit.replace_model(asked.body, asked.span, model)
        where = bodies.locate(asked.body)
        return edit.apply(
            asked.body, [edit.model_edit(asked.span, model), *edit.patch_edits(asked.body, where, patch)]
        )

    def _ask(self, engine: EngineId, asked: Asked, found: Route | None) -> Ask:
        return Ask(
            engine=engine,
            cause=Cause.REQUEST,
            requester=asked.requester,
            route=found.name if found is not None else None,
        )

    def _lane(self, engine: EngineId) -> Lane | None:
        return self.engines.lanes.by_id.get(engine)

    def _ready(self, target: Target) -> bool:
        if isinstance(target, EngineTarget):
            lane = self._lane(target.engine)
            if lane is not None:
                return lane.ready and self.engines.gate.closing(target.engine) is None
            # What its own gateway says of it is asked there; only a node that does not answer is known here.
            engine = self.engines.lanes.config.fleet.engines.get(target.engine)
            return engine is not None and not self.backoff.is_off(node_line(engine.host))
        return not self.backoff.is_off(target.upstream)

    def _load(self, target: Target) -> int:
        lane = self._lane(target.engine) if isinstance(target, EngineTarget) else None
        return len(lane.requests) if lane is not None else 0


def node_line(host: str) -> str:
    """The name of the connections to a host's node: no upstream has a name like it."""
    return f"node {host}"


def _is_known(lane: Lane) -> bool:
    """Whether the gate can tell about it: not while it is looked at what an earlier daemon left (ENG-7)."""
    return lane.known and lane.state is not State.UNKNOWN


def _targets(profile: Profile) -> Sequence[Target]:
    if isinstance(profile, Plain):
        return profile.targets
    return (EngineTarget(engine=profile.fast), EngineTarget(engine=profile.large))


def _silence(asked: Asked, found: Route | None) -> float:
    own = found.silence_s if found is not None else None
    return asked.table.fleet.gateway.silence_s if own is None else own


def _edited(asked: Asked, changes: Sequence[edit.Edit]) -> Asked:
    """The request after edits; the model's value is found anew, since bytes may have moved."""
    changed = edit.apply(asked.body, changes)
    return replace(asked, body=changed, span=bodies.route(changed).span)
