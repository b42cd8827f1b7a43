"""What should run without being asked for: residents, group defaults, idle unloads (ENG-10).

Decides who is due for a start or an unload at one instant. Whether it may start is the gate's decision;
what was refused is tried again when the reason may have gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.engine import State
from hostler.domain.fleet import DriverKind, Engine, Group, frozen
from hostler.domain.values import Cause, EngineId

RETRY_S: Final = 120.0
"""How often a resident that is not up is tried again."""
DOWN_NOTICE_S: Final = 600.0
"""A resident that has not been ready for this long is a notice, once per outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An engine of this host as residency sees it. Times are elapsed seconds.

    `tried` is when residency last asked for it; None: it may be asked for now. `quiet_since` is when
    its last use ended, None while it is in use; `down_since` since when it is not ready, None while it is.
    """

    engine: Engine
    state: State
    suspended: bool = False
    starting: bool = False
    quiet_since: float | None = None
    tried: float | None = None
    down_since: float | None = None
    told_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What is to be done: one start at most at a time, unloads, and residents to speak of."""

    start: tuple[EngineId, Cause] | None = None
    unload: tuple[EngineId, ...] = ()
    down: tuple[EngineId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The host at one instant: its engines, groups, and whether it is held or not ours to orchestrate."""

    engines: Sequence[Seen]
    groups: Mapping[str, Group] = field(default_factory=lambda: frozen({}))
    held: bool = False
    orchestrated: bool = True
    now: float = 0.0


def due(world: World) -> Due:
    """What residency wants at `world.now`. Pure; one start at a time, in the residents' order (ENG-10).

    Nothing where the host is not ours to orchestrate (GATE-4). Who is refused is tried again after 120 s; the
    others do not wait for it.
    """
    if not world.orchestrated:
        return Due()
    wanted = [it for it in world.engines if it.engine.resident and it.engine.enabled and not it.suspended]
    missed = [it for it in wanted if not _displaced(it, world)]
    return Due(
        start=_resident(missed, world.now) or _revert(world),
        unload=_unloads(world),
        down=tuple(
            it.engine.id
            for it in missed
            if not it.told_down and it.down_since is not None and world.now - it.down_since >= DOWN_NOTICE_S
        ),
    )


def _resident(missed: Sequence[Seen], now: float) -> tuple[EngineId, Cause] | None:
    for it in sorted(missed, key=lambda it: (it.engine.order, it.engine.id)):
        if _startable(it) and _turn(it, now):
            return it.engine.id, Cause.RESIDENCY
    return None


def _startable(it: Seen) -> bool:
    return it.state in (State.STOPPED, State.FAILED) and not it.suspended and not it.starting


def _turn(it: Seen, now: float) -> bool:
    return it.tried is None or now - it.tried >= RETRY_S


def _displaced(it: Seen, world: World) -> bool:
    """Whether a member of its group is up or coming up: somebody asked for that one by name.

    Residency throws nobody out; idle revert, or the end of the other, brings it back.
    """
    group = it.engine.group
    return group is not None and any(
        other is not it and other.engine.group == group and _busy(other) for other in world.engines
    )


def _busy(other: Seen) -> bool:
    return other.state.up or other.starting


def _revert(world: World) -> tuple[EngineId, Cause] | None:
    """The default of a group whose other member has been idle long enough (ENG-10)."""
    for group in sorted(world.groups.values(), key=lambda group: group.name):
        default = next((it for it in world.engines if it.engine.id == group.idle_revert), None)
        if default is None or not default.engine.enabled or not _startable(default):
            continue
        rivals = [it for it in world.engines if it is not default and it.engine.group == group.name]
        owed = [it for it in rivals if _busy(it) or _used_since_it_went(it, default)]
        quiet = all(_quiet(it, group.idle_s, world.now) for it in owed)
        if owed and quiet and _turn(default, world.now):
            return default.engine.id, Cause.IDLE_REVERT
    return None


def _used_since_it_went(rival: Seen, default: Seen) -> bool:
    """Whether the rival served after the default went down, though it may be unloaded by now."""
    used, down = rival.quiet_since, default.down_since
    return used is not None and down is not None and used >= down


def _quiet(rival: Seen, idle_s: float, now: float) -> bool:
    """Whether it has not been used for `idle_s`; one that comes up or goes down is not quiet."""
    settled = not rival.starting and (rival.state is State.READY or not rival.state.up)
    return settled and rival.quiet_since is not None and now - rival.quiet_since >= idle_s


def _unloads(world: World) -> tuple[EngineId, ...]:
    """Engines whose `ttl` has passed; none while the host is held, since they could not come back."""
    if world.held:
        return ()
    return tuple(
        it.engine.id
        for it in world.engines
        if it.engine.ttl_s > 0
        and it.engine.driver is not DriverKind.EXTERNAL
        and it.state is State.READY
        and it.quiet_since is not None
        and world.now - it.quiet_since >= it.engine.ttl_s
    )
