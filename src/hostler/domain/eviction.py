"""Whom a start displaces: the one planner (EVICT-2). Pure and deterministic.

Decides which engines of the host are stopped for a start, which of them must first finish what they do,
how long they may still stay, or why the start cannot be. Stops nothing, and never picks what a lease
keeps or what loads. An eviction never cuts an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.engine import State
from hostler.domain.errors import MIN_RETRY_S, Leased, Loading, MemoryNow, NotLaunchable, Refusal
from hostler.domain.fleet import Engine, Host, frozen
from hostler.domain.memory import Fit, Pools, Sizes, fits
from hostler.domain.start_policy import start_budget_s
from hostler.domain.values import EngineId

LEAST_LOAD_S: Final = 1.0
"""What a load counts at least when idle time is weighed by it."""

_LOADS: Final = frozenset({State.STARTING, State.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An engine of this host. Times are elapsed seconds; what is stopped is not looked at.

    `held` is what a stop gives back, in bytes by pool; `used` the last byte of its last answer; `ready_at`
    when it became ready; `load_s` what its last load took. `changed_at` and `budget_s` tell how far one that
    loads has come.
    """

    engine: Engine
    state: State
    held: Sizes
    in_flight: int = 0
    used: float = 0.0
    ready_at: float | None = None
    load_s: float = 0.0
    changed_at: float | None = None
    budget_s: float | None = None
    leased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A plan that works out: `stop` are all that go, `drain` those of them that still have requests.

    Until `fresh_until` (elapsed seconds) the freshest of them stays, to be worth its load (EVICT-4). `fit` is
    the sum that the start then passes.
    """

    stop: tuple[EngineId, ...] = ()
    drain: tuple[EngineId, ...] = ()
    fresh_until: float | None = None
    fit: Fit = field(default_factory=Fit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cannot:
    """Why there is no plan."""

    refusal: Refusal


def plan(
    wanted: Engine, need: Sizes, running: Sequence[Running], host: Host, pools: Pools, now: float
) -> Eviction | Cannot:
    """Whom to stop for `wanted`, in which order, or why it cannot be started now (EVICT-2).

    Members of its group and of the groups that it evicts must go; then, for memory only, spare engines: the
    least recently used first, weighed by load time, and none more than needed. An empty `need` is unknown:
    nothing is stopped for its memory (MEM-2). What `wanted` itself still holds comes back before it starts.
    """
    up = sorted((it for it in running if it.state is not State.STOPPED), key=lambda it: it.engine.id)
    others = [it for it in up if it.engine.id != wanted.id]
    displaced = _displaced(wanted, host)
    must = [it for it in others if it.engine.group in displaced]
    for member in must:
        stays = _stays(wanted, member, now)
        if stays is not None:
            return Cannot(refusal=stays)
    certain = [*must, *(it for it in up if it.engine.id == wanted.id)]
    spare = [it for it in others if it not in must and _spare(it, host, now)]
    total = _Sum(need=need, host=host, pools=pools, up=up)
    extra = _for_memory(total, certain, spare, now)
    fit = total.without(*certain, *extra)
    if not fit.ok:
        return Cannot(
            refusal=MemoryNow(
                engine=wanted.id, host=host.name, arithmetic=fit.arithmetic, retry_after=MIN_RETRY_S
            )
        )
    going = [*must, *extra]
    fresh = [until for it in going if (until := _fresh_until(it, host)) > now]
    return Eviction(
        stop=tuple(it.engine.id for it in going),
        drain=tuple(it.engine.id for it in going if it.in_flight > 0),
        fresh_until=max(fresh, default=None),
        fit=fit,
    )


def _displaced(wanted: Engine, host: Host) -> frozenset[str | None]:
    """The groups of this host whose members cannot stay: its own, and those it evicts (EVICT-1)."""
    if wanted.group is None:
        return frozenset()
    group = host.groups.get(wanted.group)
    return frozenset({wanted.group, *(group.evicts if group is not None else ())})


def _stays(wanted: Engine, member: Running, now: float) -> Refusal | None:
    """Why a member that must go cannot, None when it can."""
    name = member.engine.id
    if member.leased:
        return Leased(thing=name, why=f"{wanted.id} cannot be up beside it", retry_after=MIN_RETRY_S)
    if member.engine.of is not None and member.state.up:
        return NotLaunchable(
            engine=wanted.id,
            why=f"{name}, which cannot be up beside it, is a member of {member.engine.of}",
            fix=f"`hostler stop {member.engine.of}` makes room.",
        )
    if member.engine.pinned and member.state.up:
        return NotLaunchable(
            engine=wanted.id,
            why=f"{name}, which cannot be up beside it, is pinned",
            fix=f"`hostler stop {name}` makes room.",
        )
    if member.state in _LOADS:
        elapsed = now - member.changed_at if member.changed_at is not None else 0.0
        budget = member.budget_s if member.budget_s is not None else start_budget_s(member.engine, 0)
        return Loading(
            engine=name,
            elapsed_s=round(elapsed),
            budget_s=round(budget),
            retry_after=max(1, round(budget - elapsed)),
        )
    return None


def _spare(it: Running, host: Host, now: float) -> bool:
    """Whether it may go for memory only: it goes already, or is idle and not wanted to stay (EVICT-2)."""
    if it.state is State.STOPPING:
        return True
    engine = it.engine
    kept = engine.resident or engine.essential or engine.pinned or it.leased or engine.of is not None
    return it.state is State.READY and it.in_flight == 0 and not kept and _fresh_until(it, host) <= now


def _fresh_until(it: Running, host: Host) -> float:
    """Until when (elapsed seconds) it stays to be worth its load: its group's `min_resident` (EVICT-4)."""
    group = host.groups.get(it.engine.group or "")
    if it.state is not State.READY or it.ready_at is None or group is None:
        return 0.0
    return it.ready_at + group.min_resident_s


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """The one sum of a plan, for different sets of engines that go."""

    need: Sizes
    host: Host
    pools: Pools
    up: Sequence[Running]

    def without(self, *going: Running) -> Fit:
        """Whether it fits once these are gone."""
        holders = {it.engine.id: it.held for it in self.up if it.state.up}
        return fits(self.need, self.host, self.pools, _total(going), holders)


def _for_memory(
    total: _Sum, certain: Sequence[Running], spare: Sequence[Running], now: float
) -> Sequence[Running]:
    """The spare engines that go: in their order until it fits, less those that were not needed after all."""

    def turn(it: Running) -> tuple[bool, float, EngineId]:
        # What is being stopped already costs nobody anything.
        idle_for_load = (now - it.used) / max(LEAST_LOAD_S, it.load_s)
        return it.state is not State.STOPPING, -idle_for_load, it.engine.id

    extra: list[Running] = []
    for it in sorted(spare, key=turn):
        short = total.without(*certain, *extra).short
        if any(it.held.get(pool, 0) > 0 for pool in short):
            extra.append(it)
    for it in tuple(extra):
        fewer = [other for other in extra if other is not it]
        if total.without(*certain, *fewer).ok:
            extra = fewer
    return extra


def _total(going: Sequence[Running]) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for it in going:
        # Of what failed it is not known what it still holds: nothing is started on hope (EVICT-3).
        for pool, size in it.held.items() if it.state.up else ():
            total[pool] = total.get(pool, 0) + size
    return frozen(total)
