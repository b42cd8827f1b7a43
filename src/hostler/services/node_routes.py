"""What a lease does to the routes of this node's gateway: it makes another profile the active one (LEASE-4).

Decides what keeps a route from being moved before anything is changed. The switch itself, one atomic swap
that survives restarts, is `services.routes`'.
"""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.errors import MIN_RETRY_S, EngineFailed, NotFound
from hostler.domain.fleet import EngineTarget, Escalating, Profile, Route, Target
from hostler.domain.plan import upstreams_of
from hostler.domain.route import engines_of, nearest, switched
from hostler.domain.step import FoundRoute, Operation, PointRoute
from hostler.services.lanes import Lanes
from hostler.services.node_engines import requester_of
from hostler.services.routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoutes:
    """The route steps of one host."""

    routes: Routes
    lanes: Lanes

    def preflight(self, step: PointRoute) -> None:
        """Whether the route could go there now (LEASE-10).

        Refuses `not_found` for a route that is not there or has no active profile, and `invalid_request` for
        an unknown profile: lasting. `engine_failed`, for a while, when no target of the profile is up.
        """
        route = self._route(step.route)
        switched(self.routes.table, step.route, step.profile)
        if self.routes.table.profile(route) is None:
            raise NotFound(
                what="active profile of the route",
                name=step.route,
                nearest=f"`hostler routes set {step.route} PROFILE` sets one.",
            )
        if self.routes.active(step.route) != step.profile:
            self._leads_somewhere(step, route)

    def observe(self, step: PointRoute) -> FoundRoute:
        """The active profile and where it leads. Refuses `not_found`."""
        active = self.routes.table.profile(self._route(step.route))
        if active is None:
            return FoundRoute(profile=None)
        name, profile = active
        return FoundRoute(profile=name, engines=engines_of(profile), upstreams=upstreams_of(profile))

    async def point(self, operation: Operation, step: PointRoute) -> None:
        """One atomic swap, durable first. Refuses unknown names, and `store_full`."""
        if self.routes.active(step.route) != step.profile:
            await self.routes.point(step.route, step.profile, requester_of(operation))

    def verify(self, step: PointRoute) -> str | None:
        """None when the profile is the active one."""
        active = self.routes.active(step.route)
        return None if active == step.profile else f"route {step.route} is on {active or 'no profile'}"

    def _route(self, name: str) -> Route:
        route = self.routes.table.routes.get(name)
        if route is None:
            raise NotFound(what="route", name=name, nearest=nearest(name, self.routes.table.routes))
        return route

    def _leads_somewhere(self, step: PointRoute, route: Route) -> None:
        """The first target must be up or need no start: of several, whichever the strategy may take."""
        firsts = _firsts(route.profiles[step.profile], pinned=route.strategy.kind == "pin")
        down = [it for it in map(self._down, firsts) if it is not None]
        if down and len(down) == len(firsts):
            engine, state = down[0]
            raise EngineFailed(
                engine=engine,
                why=f"it is {state}, and route {step.route} is to lead to it as {step.profile}",
                retry_after=MIN_RETRY_S,
            )

    def _down(self, target: Target) -> tuple[str, str] | None:
        """The engine that is not up, and what it is; None for what serves, or is not this host's to see."""
        if not isinstance(target, EngineTarget):
            return None
        lane = self.lanes.by_id.get(target.engine)
        return None if lane is None or lane.ready else (lane.engine.id, lane.state.value)


def _firsts(profile: Profile, *, pinned: bool) -> tuple[Target, ...]:
    """Who serves first: of an escalating profile `fast`, which answers for `large` too (GW-4)."""
    if isinstance(profile, Escalating):
        return (EngineTarget(engine=profile.fast),)
    return profile.targets[:1] if pinned else profile.targets
