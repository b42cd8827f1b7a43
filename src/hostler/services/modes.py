"""Modes as people see them: which one the fleet is in, and what entering another would do (MODE-2).

Decides nothing: what differs is `domain.mode`'s answer, the steps are `domain.window_plan`'s. It changes
nothing either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final

from hostler.domain.errors import InvalidRequest, TtlRefused
from hostler.domain.journal import owed
from hostler.domain.lease import Lease
from hostler.domain.mode import Difference, Mode, difference, nearest, standing
from hostler.domain.mode import Present as Seen
from hostler.domain.plan import text
from hostler.domain.step import FoundRoute, PointRoute, StartEngine, Step
from hostler.domain.values import EngineId, HostName, RouteName, rfc3339
from hostler.domain.window import Terms, Wish, mode_of, terms
from hostler.domain.window_plan import AFTER_S, by_members, shifts, sums, window_plan, window_resource
from hostler.services.fleet_look import FleetLook
from hostler.services.leftovers import left_up
from hostler.services.needs import Clock
from hostler.services.present import Present
from hostler.services.promotion import Promotion
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.services.schedule_views import ABANDONED
from hostler.services.strays import named_only, told
from hostler.services.windows import bounded
from hostler.wire.schedule import StepView
from hostler.wire.windows import HostSum, ModePlan, ModesNow, ModeView

LOOKED_AT: Final = 1000
"""So many of the leases that ended last are looked through for what was left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The need `ModesApi`, on the head. `zone`: what quiet hours are in (TIME-1)."""

    config: Present
    store: ScheduleStore
    look: FleetLook
    promotion: Promotion
    clock: Clock
    zone: tzinfo

    async def modes(self) -> ModesNow:
        """Every mode with how the fleet differs from it now."""
        fleet = self.config.fleet
        seen, silent = await self._seen()
        whole = {name: by_members(fleet, mode) for name, mode in fleet.modes.items()}
        live, left = await self.store.read(_windows)
        strange = left | named_only(fleet)
        found = nearest(whole, seen, strange)
        usual, window = standing(whole), next((it.id for it in live if it.mode and it.state.holds), None)
        strays = difference(usual, seen, strange).extra if usual is not None and window is None else ()
        return ModesNow(
            at=rfc3339(self.clock.now()),
            present=found.mode if found is not None and found.size == 0 else None,
            nearest=None if found is None else found.mode,
            window=window,
            modes=tuple(_view(it, difference(whole[it.name], seen, strange)) for it in fleet.modes.values()),
            silent=silent,
            strays=tuple(told(fleet, EngineId(it.partition(" on ")[0])) for it in strays),
        )

    async def plan(self, name: str, cap_s: float | None = None) -> ModePlan:
        """What opening a window would do, with its sums, and what is in its way. Refuses `not_found`.

        `cap_s` None: the mode's default. A cap that is not given, or runs into quiet hours, is in its way.
        """
        fleet = self.config.fleet
        mode = mode_of(fleet, name)
        cap_s = mode.cap_s if cap_s is None else cap_s
        given = Terms(mode=name, cap_s=cap_s, drain_before_s=mode.drain_before_s)
        resource = bounded(window_resource(fleet, mode), given)
        left = await left_up(self.look, fleet, mode)
        steps = window_plan(fleet, mode, given.cap_s, resource.drain_s, left)
        look = await self.promotion.look_at(steps, resource)
        needs = {it.host: it for it in sums(fleet, mode)}
        return ModePlan(
            at=rfc3339(self.clock.now()),
            mode=name,
            resource=resource.name,
            covers=resource.covers,
            cap_s=given.cap_s,
            drain_before_s=given.drain_before_s,
            hosts=tuple(
                HostSum(
                    host=it.host,
                    need=needs[it.host].need,
                    text=needs[it.host].text,
                    back=tuple(engine.id for engine in it.back),
                    restore_s=it.restore_s,
                    hold_after_s=max(AFTER_S, it.restore_s),
                )
                for it in shifts(fleet, mode)
            ),
            steps=tuple(_step(n, step) for n, step in enumerate(steps, start=1)),
            refused=self._capped(mode, cap_s) or (None if look.refusal is None else str(look.refusal)),
        )

    def _capped(self, mode: Mode, cap_s: float) -> str | None:
        """Why a window of that cap would not be opened now without `--force`; its class counts as named."""
        wish = Wish(mode=mode.name, cap_s=cap_s, override=mode.serving_class.value)
        try:
            terms(self.config.fleet, wish, self.clock.now(), self.zone)
        except (InvalidRequest, TtlRefused) as refusal:
            return str(refusal)
        return None

    async def _seen(self) -> tuple[Seen, tuple[HostName, ...]]:
        """The fleet as its nodes see it, and who of them says nothing: what cannot be seen counts as down."""
        fleet = self.config.fleet
        up: dict[HostName, set[EngineId]] = {host: set() for host in fleet.hosts}
        looked = await self.look.seen(fleet)
        for engine in looked.up:
            up[fleet.engines[engine].host].add(engine)
        found = await self.look.found([self._route(it) for it in fleet.routes])
        profiles = [it.profile if isinstance(it, FoundRoute) else None for it in found]
        return Seen(up=up, routes=dict(zip(fleet.routes, profiles, strict=True))), looked.silent

    def _route(self, route: RouteName) -> PointRoute:
        given = self.config.fleet.routes[route]
        host = next(iter(given.on or self.look.nodes or self.config.fleet.hosts))
        return PointRoute(host=host, route=route, profile="")


def _windows(tx: Tx) -> tuple[Sequence[Lease], frozenset[EngineId]]:
    """The leases that there are, and the engines that abandoned windows did not put away again (LEASE-14)."""
    given_up = [it for it in tx.ended(after=0, limit=LOOKED_AT) if it.mode and it.cause.startswith(ABANDONED)]
    entries = [entry for it in given_up for entry, _ in owed(tx.journal(it.id))]
    left = frozenset(EngineId(it.step.engine) for it in entries if isinstance(it.step, StartEngine))
    return tx.live(), left


def _view(mode: Mode, differs: Difference) -> ModeView:
    return ModeView(
        name=mode.name,
        standing=mode.standing,
        hosts={str(host): tuple(map(str, engines)) for host, engines in mode.hosts.items()},
        routes={str(route): profile for route, profile in mode.routes.items()},
        resource=mode.resource,
        serving_class=mode.serving_class.value,
        cap_s=mode.cap_s,
        cap_max_s=mode.cap_max_s,
        missing=differs.missing,
        extra=differs.extra,
        differing=differs.routes,
    )


def _step(n: int, step: Step) -> StepView:
    return StepView(n=n, host=step.host, text=text(step), state="planned")
