"""What an earlier window left up, as one that was abandoned does: seen before the next one opens (WIN-8).

Decides that an engine of the mode which runs already, and is none of the standing mode, makes way like
everything outside it, and that no route may lead to such a one alone: the restore would lead it there again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import Fleet
from hostler.domain.mode import Mode, standing
from hostler.domain.step import FoundRoute, PointRoute, Step
from hostler.domain.values import EngineId, RouteName
from hostler.domain.window_plan import shifts
from hostler.services.fleet_look import FleetLook


async def left_up(look: FleetLook, fleet: Fleet, mode: Mode) -> frozenset[EngineId]:
    """The engines that a window of `mode` would start and that run; a script sees to its own (MODE-4)."""
    if mode.tool is not None:
        return frozenset()
    return await look.up_of([engine for it in shifts(fleet, mode) for engine in it.into])


async def not_led_to(look: FleetLook, fleet: Fleet, plan: Sequence[Step], left: Collection[EngineId]) -> None:
    """Refuse `invalid_request` where a route of the plan leads to nothing but what was left up."""
    routes = [it for it in plan if isinstance(it, PointRoute)] if left else []
    for step, found in zip(routes, await look.found(routes), strict=True):
        if not isinstance(found, FoundRoute) or found.upstreams or not found.engines:
            continue
        if all(it in left for it in found.engines):
            usual, name = standing(fleet.modes), RouteName(step.route)
            profile = (None if usual is None else usual.routes.get(name)) or fleet.routes[name].active
            raise InvalidRequest(
                what=f"Route {name} leads to {', '.join(found.engines)}, left up outside the standing mode.",
                expected=f"Put it back first: `hostler routes set {name} {profile or 'PROFILE'}`.",
                where="mode",
            )
