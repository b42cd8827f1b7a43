"""The gate: the ordered checks before every start (GATE-1, GATE-2).

Decides whether an engine may start now, by facts that its caller gathered; starts and stops nothing.
Permanent refusals come before temporary ones, so that a caller is never told to wait for what will not
come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hostler.domain.engine import State
from hostler.domain.errors import (
    MIN_RETRY_S,
    Fenced,
    Leased,
    MemoryNever,
    MemoryNow,
    NotLaunchable,
    OrchestrationDisabled,
    PortConflict,
    Refusal,
    ServingClassRefused,
    Suspended,
    TopologyRefused,
    UpstreamUnreachable,
)
from hostler.domain.eviction import Cannot, Eviction
from hostler.domain.fence import FenceUp
from hostler.domain.fleet import DriverKind, Engine, frozen
from hostler.domain.hold import HoldView
from hostler.domain.hold import refusal as hold_refusal
from hostler.domain.holding import ENGINE, Holding, closing
from hostler.domain.holding import refusal as lease_refusal
from hostler.domain.values import Cause, EngineId, HostName, Requester, ServingClass, rfc3339
from hostler.domain.watchdog import PROBE_EVERY_S

WHY_CLASS: Final[Mapping[ServingClass, str]] = frozen(
    {
        ServingClass.WINDOWED: "it runs on two boxes or evicts production, only with an operator present",
        ServingClass.WEDGE_RISK: "its shape has wedged a box",
    }
)


UNREADABLE: Final = "unknown"
"""The owner of a suspension whose record cannot be read: only a person lifts it (NODE-5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One wish to start an engine: which, why, who, on which route, and the class named in the call.

    `lease` is the one whose step this is, or whose holder asks: its own hold and suspensions do not refuse
    it (GATE-3, LEASE-15). It is proven: a caller's word for it is `Requester.lease`. `of` is the distributed
    engine that starts, where `engine` is a member of it (ENG-11).
    """

    engine: EngineId
    cause: Cause
    requester: Requester
    route: str | None = None
    override: ServingClass | None = None
    lease: str | None = None
    of: EngineId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the checks look at. The cheap part is always there; `live` needs reads of the machine.

    `orchestration_off` says why nothing is started here; `barred` why the catalog keeps it from starting;
    `missing` names files or the binary that are not there; `build` is why its binary is not the right one,
    `never` the sum of a need above the host's total. `leased` is the lease that has the engine, `opened`
    that it is a window which opened with the engine in its mode: its class was named then. `failed` is the
    sentence of the failure that it is in.
    """

    engine: Engine
    here: HostName
    state: State
    failed: str = ""
    orchestration_off: str | None = None
    barred: str | None = None
    missing: tuple[str, ...] = ()
    build: str | None = None
    context_most: int | None = None
    never: str | None = None
    suspended_by: tuple[str, ...] = ()
    hold: HoldView
    leased: Holding | None = None
    opened: bool = False
    fence: FenceUp | None = None
    now: datetime
    live: Live | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What is read of the machine at the moment of the decision.

    `port_holder` is who listens on the engine's port, None when nobody or an engine that the plan stops.
    `topology` is what is wrong with its links. `need` None is unknown; `measuring` is another engine of this
    host whose need is being measured. `members` is what the gate of a member said, of a distributed engine.
    """

    port_holder: str | None = None
    port: int = 0
    topology: str | None = None
    need: Mapping[str, int] | None = None
    measuring: EngineId | None = None
    eviction: Eviction | Cannot = field(default_factory=Eviction)
    members: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """Start it: `stop` these first. While `drain` or `fresh_until` is set the way is not open yet.

    `drain` are those of `stop` that still have requests; `fresh_until` is in elapsed seconds (EVICT-4).
    """

    stop: tuple[EngineId, ...] = ()
    drain: tuple[EngineId, ...] = ()
    fresh_until: float | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """Success, and no further check: it runs already, as itself."""

    text: str


def _known(ask: Ask, facts: Facts) -> Refusal | None:
    engine = facts.engine
    if ask.cause in _USES and _only_used(facts):
        return _silent(facts)
    if facts.orchestration_off is not None:
        return OrchestrationDisabled(host=facts.here, why=facts.orchestration_off)
    if engine.host != facts.here:
        why, fix = f"it is an engine of {engine.host}", f"Ask {engine.host} to start it."
    elif not engine.enabled:
        why, fix = "it is switched off", "Set enabled: true in the config."
    elif engine.driver is DriverKind.EXTERNAL:
        why, fix = "it is external: only used, never started", "Start it where it runs."
    elif engine.of is not None and ask.of != engine.of and ask.cause is not Cause.STEP:
        why, fix = f"it is a member of {engine.of} and does not start alone", f"Start {engine.of}."
    else:
        return None
    return NotLaunchable(engine=engine.id, why=why, fix=fix)


def _only_used(facts: Facts) -> bool:
    """Whether it is an engine of this host that runs elsewhere, and does not serve now."""
    engine = facts.engine
    external = engine.driver is DriverKind.EXTERNAL and engine.enabled and engine.host == facts.here
    return external and not facts.state.serves


def _silent(facts: Facts) -> Refusal:
    """Nobody asked to start it, only to be served: that it is down is no word about starts (GW-14)."""
    engine, seen = facts.engine, f" ({facts.failed})" if facts.failed else ""
    why = f"nothing answers at {engine.url} as {engine.model or engine.id}{seen}"
    return UpstreamUnreachable(
        target=engine.id,
        why=f"{why}; it is external, and Hostler does not start it",
        retry_after=math.ceil(PROBE_EVERY_S),
    )


def _running(_ask: Ask, facts: Facts) -> Settled | None:
    if facts.state is State.READY:
        return Settled("it runs already, as itself")
    if facts.state is State.STARTING:
        return Settled("its start is under way")
    return None


def _serving_class(ask: Ask, facts: Facts) -> Refusal | None:
    needed = facts.engine.serving_class
    if needed is ServingClass.RESIDENT:
        return None
    if (ask.override is needed or _own(ask, facts)) and ask.cause in _MAY_OVERRIDE:
        return None
    if facts.opened and not _own(ask, facts):
        return None  # No class is in the way: the window has it, which is told of below.
    return ServingClassRefused(engine=facts.engine.id, serving_class=needed.value, why=WHY_CLASS[needed])


def _own(ask: Ask, facts: Facts) -> bool:
    """Whether the window that opened with this engine asks for it: its own override counts (CAT-5)."""
    return facts.opened and facts.leased is not None and facts.leased.lease == ask.lease


def _launchable(_ask: Ask, facts: Facts) -> Refusal | None:
    engine = facts.engine
    if facts.barred is not None:
        fix = "`hostler catalog check` says what is wrong; `hostler catalog list` shows the entries."
        return NotLaunchable(engine=engine.id, why=facts.barred, fix=fix)
    if facts.missing:
        return NotLaunchable(
            engine=engine.id,
            why=f"{', '.join(facts.missing)} {'is' if len(facts.missing) == 1 else 'are'} not there",
            fix="Put files into models_dir and programs on the PATH; `hostler paths` shows where.",
        )
    if facts.context_most is not None and engine.context is not None and engine.context > facts.context_most:
        return NotLaunchable(
            engine=engine.id,
            why=f"its context of {engine.context} is above the model's {facts.context_most}",
            fix="Lower `context:`.",
        )
    if facts.build is not None:
        fix = "Name a binary of that build in argv; `hostler catalog show` says which its entry needs."
        return NotLaunchable(engine=engine.id, why=facts.build, fix=fix)
    if facts.never is not None:
        return MemoryNever(engine=engine.id, host=facts.here, arithmetic=facts.never)
    return None


def unlaunchable(facts: Facts) -> Refusal | None:
    """Why no start of it can come to anything here, whoever asks for it and whenever (GATE-1, step 4)."""
    ask = Ask(engine=facts.engine.id, cause=Cause.API, requester=Requester())
    return _launchable(ask, facts)


def personal(owner: str) -> bool:
    """Whether a suspension's owner is no lease: a person, or a record that cannot be read (NODE-5)."""
    return owner.startswith("person:") or owner == UNREADABLE


def _suspended(_ask: Ask, facts: Facts) -> Refusal | None:
    people = [owner.removeprefix("person:") for owner in facts.suspended_by if personal(owner)]
    return Suspended(engine=facts.engine.id, by=", ".join(people)) if people else None


def _kept_by(ask: Ask, facts: Facts) -> str | None:
    """Another's lease that keeps the engine suspended."""
    return next((it for it in facts.suspended_by if not personal(it) and it != ask.lease), None)


def _hold(ask: Ask, facts: Facts) -> Refusal | None:
    """The hold; an engine that a lease suspended is not let through by its own hold's `allow`."""
    hold = facts.hold
    of = hold.record.lease if hold.held and hold.record is not None else None
    if of is not None and of == ask.lease:
        return None
    allowed = hold.allows(facts.engine.id) or (ask.of is not None and hold.allows(ask.of))
    if allowed and (of is None or of != _kept_by(ask, facts)):
        return None
    return hold_refusal(hold, engine=facts.engine.id, host=facts.here, now=facts.now)


def _leased(ask: Ask, facts: Facts) -> Refusal | None:
    """Leased away: somebody's lease has the engine, or keeps it suspended without a live hold."""
    name = facts.engine.id
    if facts.leased is not None and facts.leased.lease != ask.lease:
        return lease_refusal(ENGINE, name, facts.leased, facts.now)
    kept = _kept_by(ask, facts)
    if kept is None:
        return None
    why = f"the lease {kept} keeps it suspended"
    if facts.leased is None:
        why += f" and has nothing here any more, `hostler resume {name}` ends that"
    return Leased(thing=name, why=why, lease=kept)


def _fence(ask: Ask, facts: Facts) -> Refusal | None:
    fence = facts.fence
    if fence is None or not ask.cause.timer:
        return None
    left = None if fence.until is None else math.ceil((fence.until - facts.now).total_seconds())
    return Fenced(
        until="unknown" if fence.until is None else rfc3339(fence.until),
        reason=fence.reason,
        by=fence.by,
        retry_after=max(MIN_RETRY_S, left or 0),
    )


def _window(ask: Ask, facts: Facts) -> Refusal | None:
    """A window's soft deadline: only the window's own steps start anything of it still (WIN-2)."""
    return None if ask.cause is Cause.STEP else closing(facts.engine.id, facts.leased, facts.now)


def _port(_ask: Ask, facts: Facts) -> Refusal | None:
    live = facts.live
    if live is None or live.port_holder is None:
        return None
    return PortConflict(
        engine=facts.engine.id, port=live.port, holder=live.port_holder, retry_after=MIN_RETRY_S
    )


def _topology(_ask: Ask, facts: Facts) -> Refusal | None:
    live = facts.live
    if live is None or live.topology is None:
        return None
    return TopologyRefused(
        engine=facts.engine.id, host=facts.here, why=live.topology, retry_after=MIN_RETRY_S
    )


def _memory(ask: Ask, facts: Facts) -> Refusal | None:
    live = facts.live
    if live is None:
        return None
    if live.measuring is not None:
        return _not_now(facts, f"{live.measuring} loads for the first time, and is measured alone")
    if live.need is None and not named(ask.cause) and ask.lease is None:
        return _not_now(facts, "what it needs is not known; it is measured when somebody asks for it by name")
    if isinstance(live.eviction, Cannot):
        return live.eviction.refusal
    return None


def _members(_ask: Ask, facts: Facts) -> Refusal | None:
    """What the gate of a member's own host says: nothing is started to be rolled back (ENG-11)."""
    return None if facts.live is None else facts.live.members


def _not_now(facts: Facts, why: str) -> MemoryNow:
    return MemoryNow(engine=facts.engine.id, host=facts.here, arithmetic=why, retry_after=MIN_RETRY_S)


def named(cause: Cause) -> bool:
    """Whether the start was asked for by name: a request for its route or engine is (MEM-2)."""
    return cause in (Cause.REQUEST, Cause.ACQUIRE, Cause.API)


_USES: Final = frozenset({Cause.REQUEST, Cause.ACQUIRE})
"""Wishes to be served, whoever runs the engine; the others are to start it."""

_MAY_OVERRIDE: Final = frozenset({Cause.API, Cause.STEP})
"""The start API and a mode's plan; chat, bots, acquire, residency and the panel never can (CAT-5)."""

CheckFn = Callable[[Ask, Facts], Refusal | Settled | None]

CHECKS: Final[tuple[tuple[str, CheckFn], ...]] = (
    ("known", _known),
    ("running", _running),
    ("serving_class", _serving_class),
    ("launchable", _launchable),
    ("suspended", _suspended),
    ("hold", _hold),
    ("leased", _leased),
    ("fence", _fence),
    ("window", _window),
    ("port", _port),
    ("topology", _topology),
    ("memory", _memory),
    ("members", _members),
)
"""The checks in GATE-1's order: permanent ones, then who has it, then what is read of the machine."""

LIVE: Final = frozenset({"port", "topology", "memory", "members"})
"""Checks that need `Facts.live`."""


def decide(ask: Ask, facts: Facts) -> Allow | Refusal:
    """The first refusal in GATE-1's order, or Allow with what must make way. Changes nothing."""
    for _, check in CHECKS:
        found = check(ask, facts)
        if isinstance(found, Settled):
            return Allow()
        if found is not None:
            return found
    plan = facts.live.eviction if facts.live is not None else None
    if not isinstance(plan, Eviction):
        return Allow()
    return Allow(stop=plan.stop, drain=plan.drain, fresh_until=plan.fresh_until)
