"""Proving: that an engine serves as itself, by looks in a row and one real piece of work (LEASE-13).

Decides what counts as serving before a lease says that it put an engine back, or that it started one. One
answer of `health` proves little: an engine may flap, or load its model at its first request (F11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hostler.domain.engine import Readiness, judge
from hostler.domain.errors import EngineFailed
from hostler.domain.fleet import Task
from hostler.domain.values import format_duration
from hostler.services.lanes import Lane
from hostler.services.needs import Clock, Driver
from hostler.services.node_needs import Completions

IN_A_ROW: Final = 3
LOOK_S: Final = 1.0
WITHIN_S: Final = 120.0
"""How long an engine that is ready may take to prove it: it flaps, or loads more at its first request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """Proves engines of this host, past every route: these may point away (LEASE-13)."""

    drivers: Mapping[str, Driver]
    work: Completions
    clock: Clock

    async def prove(self, lane: Lane, *, within_s: float = WITHIN_S) -> None:
        """Return once it was ready as itself three times in a row, 1 s apart, and did one piece of work.

        A look that fails begins the row anew; after `within_s` refuses `engine_failed`, with what was seen.
        """
        ends = self.clock.elapsed() + within_s
        row, seen = 0, "it was not looked at"
        while True:
            look = await self.look(lane)
            row = 0 if look is not None else row + 1
            seen = look or seen
            if row >= IN_A_ROW:
                failed = await self._work(lane)
                if failed is None:
                    return
                row, seen = 0, failed
            if self.clock.elapsed() >= ends:
                why = f"not seen to serve as itself within {format_duration(within_s)}: {seen}"
                raise EngineFailed(engine=lane.engine.id, why=why)
            await self.clock.sleep(LOOK_S)

    async def look(self, lane: Lane) -> str | None:
        """One look: None when it is ready as itself, else what is seen (ENG-4)."""
        if not lane.ready:
            return f"it is {lane.state}"
        probe = await self.drivers[lane.launch.driver].probe(lane.launch, lane.run)
        verdict = judge(probe, health=lane.launch.health, model=lane.launch.model)
        if verdict is Readiness.READY:
            return None
        return f"{verdict.value.replace('_', ' ')}: {probe.detail}"

    async def _work(self, lane: Lane) -> str | None:
        """One token, or one embedding; of other tasks health alone is seen.

        A worker of a distributed engine speaks no HTTP: its health is a port, and the whole does the work.
        """
        if lane.engine.of is not None and lane.launch.health in ("tcp", "none"):
            return None
        match lane.engine.task:
            case Task.CHAT:
                return await self.work.chat(lane.launch, lane.engine.key)
            case Task.EMBED:
                return await self.work.embed(lane.launch, lane.engine.key)
            case _:
                return None
