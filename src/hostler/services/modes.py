"""Modes as people see them: which one the fleet is in, and what entering another would do (MODE-2).

Decides nothing: what differs is `domain.mode`'s answer, the steps are `domain.window_plan`'s. It changes
nothing either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.errors import Refusal
from hostler.domain.fleet import DriverKind
from hostler.domain.mode import Difference, Mode, difference, nearest
from hostler.domain.mode import Present as Seen
from hostler.domain.plan import text
from hostler.domain.resource import Resource
from hostler.domain.step import FoundEngine, FoundRoute, PointRoute, Step, StopEngine
from hostler.domain.values import EngineId, HostName, RouteName, rfc3339
from hostler.domain.window import Terms, mode_of
from hostler.domain.window_plan import AFTER_S, by_members, shifts, sums, window_plan, window_resource
from hostler.services.needs import Clock
from hostler.services.operations import Operations
from hostler.services.present import Present
from hostler.services.promotion import Promotion, asking
from hostler.services.schedule_needs import Node, ScheduleStore
from hostler.services.windows import bounded
from hostler.wire.schedule import StepView
from hostler.wire.windows import HostSum, ModePlan, ModesNow, ModeView

LOOK_S: Final = 2.0
"""How long one look at an engine may take: who asks waits for all of them."""
PATIENCE_S: Final = 5.0
"""A node that is away or hangs counts as unseen after that: whoever asks gets an answer all the same."""
NOTHING: Final = Resource(name="", hosts=(), covers=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """The need `ModesApi`, on the head."""

    config: Present
    store: ScheduleStore
    nodes: Mapping[str, Node]
    promotion: Promotion
    clock: Clock

    async def modes(self) -> ModesNow:
        """Every mode with how the fleet differs from it now."""
        fleet = self.config.fleet
        seen = await self._seen()
        whole = {name: by_members(fleet, mode) for name, mode in fleet.modes.items()}
        found = nearest(whole, seen)
        live = await self.store.read(lambda tx: tx.live())
        return ModesNow(
            at=rfc3339(self.clock.now()),
            present=found.mode if found is not None and found.size == 0 else None,
            nearest=None if found is None else found.mode,
            window=next((it.id for it in live if it.mode and it.state.holds), None),
            modes=tuple(_view(mode, difference(whole[mode.name], seen)) for mode in fleet.modes.values()),
        )

    async def plan(self, name: str) -> ModePlan:
        """What opening a window would do, with its sums, and what is in its way. Refuses `not_found`."""
        fleet = self.config.fleet
        mode = mode_of(fleet, name)
        given = Terms(mode=name, cap_s=mode.cap_s, drain_before_s=mode.drain_before_s)
        resource = bounded(window_resource(fleet, mode), given)
        steps = window_plan(fleet, mode, given.cap_s, resource.drain_s)
        look = await self.promotion.look_at(steps, resource)
        told = {it.host: it for it in sums(fleet, mode)}
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
                    need=told[it.host].need,
                    text=told[it.host].text,
                    back=tuple(engine.id for engine in it.back),
                    restore_s=it.restore_s,
                    hold_after_s=max(AFTER_S, it.restore_s),
                )
                for it in shifts(fleet, mode)
            ),
            steps=tuple(_step(n, step) for n, step in enumerate(steps, start=1)),
            refused=None if look.refusal is None else str(look.refusal),
        )

    async def _seen(self) -> Seen:
        """The fleet as its nodes see it; what cannot be seen counts as down."""
        fleet = self.config.fleet
        known = [(it.host, it.id) for it in fleet.engines.values() if it.driver not in _OTHERS]
        looks = await asyncio.gather(*(self._up(host, engine) for host, engine in known))
        up: dict[HostName, set[EngineId]] = {host: set() for host in fleet.hosts}
        for (host, engine), found in zip(known, looks, strict=True):
            if found:
                up[host].add(engine)
        profiles = await asyncio.gather(*map(self._profile, fleet.routes))
        return Seen(up=up, routes=dict(zip(fleet.routes, profiles, strict=True)))

    async def _up(self, host: str, engine: str) -> bool:
        found = await self._observed(StopEngine(host=host, engine=engine))
        return isinstance(found, FoundEngine) and found.up

    async def _profile(self, route: RouteName) -> str | None:
        given = self.config.fleet.routes[route]
        host = next(iter(given.on or self.nodes or self.config.fleet.hosts))
        found = await self._observed(PointRoute(host=host, route=route, profile=""))
        return found.profile if isinstance(found, FoundRoute) else None

    async def _observed(self, step: Step) -> object:
        """What a node sees of it; None where it cannot be asked, or says nothing for a moment."""
        node = self.nodes.get(step.host)
        if node is None:
            return None
        now = self.clock.moment()
        ask = Operations(nodes=self.nodes, bug=str, lease=asking(NOTHING, "", (), now), now=now)
        look = asyncio.ensure_future(node.observe(replace(ask.forward(1, step), deadline_s=LOOK_S)))
        timer = asyncio.ensure_future(self.clock.sleep(PATIENCE_S))
        try:
            await asyncio.wait({look, timer}, return_when=asyncio.FIRST_COMPLETED)
            return look.result() if look.done() else None
        except Refusal:
            return None
        finally:
            for it in (look, timer):
                it.cancel()
            await asyncio.gather(look, timer, return_exceptions=True)


_OTHERS: Final = (DriverKind.EXTERNAL, DriverKind.DISTRIBUTED)


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
