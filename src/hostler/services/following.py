"""Following distributed engines: what becomes of the whole when its members change (ENG-11).

Decides when a whole is taken for running, for stopped or for failed, and that what is left of one that is
down is ended. How its members stop is `services.distributed`'s; what their states mean is the domain's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.distributed import Sight, lost, told, whole
from hostler.domain.engine import State
from hostler.domain.errors import Refusal
from hostler.domain.values import EngineId
from hostler.services.distributed import SERVING, Distributed
from hostler.services.engines import Engines
from hostler.services.lanes import Lane
from hostler.services.needs import Clock

EVERY_S: Final = 2.0
"""How often the members are looked at: a killed worker is told within that and a look."""
AGAIN_S: Final = 30.0
"""How long after what is left of a whole could not be ended it is tried again."""
ACTOR: Final = "watchdog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Follows the distributed engines of this host. `bug` logs an exception of ours and returns its id.

    `tried` is when what was left of one was ended last (elapsed seconds).
    """

    engines: Engines
    parts: Distributed
    clock: Clock
    bug: Callable[[BaseException], str]
    tried: dict[EngineId, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Look at each again and again until cancelled; one whose stop takes long delays no other."""
        looks: dict[EngineId, asyncio.Task[None]] = {}
        try:
            while True:
                for name, lane in self.engines.lanes.by_id.items():
                    before = looks.get(name)
                    if lane.engine.members and (before is None or before.done()):
                        looks[name] = asyncio.create_task(self.look(lane))
                await self.clock.sleep(EVERY_S)
        finally:
            for it in looks.values():
                it.cancel()
            await asyncio.gather(*looks.values(), return_exceptions=True)

    async def look(self, lane: Lane) -> None:
        """One look at one of them, and what follows from it."""
        try:
            await self._look(lane)
        except Refusal:
            # Told by the stop itself: what it left is tried again in its turn.
            self.tried[lane.engine.id] = self.clock.elapsed()
        except Exception as error:  # noqa: BLE001 - one look's bug must not end the loop
            self.bug(error)

    async def _look(self, lane: Lane) -> None:
        run = lane.run
        sights = await self.parts.look(lane.engine)
        if lane.state in SERVING and run is not None and lane.run is run:
            await self._of_running(lane, sights)
        elif lane.known and lane.state in (State.STOPPED, State.FAILED):
            await self._of_resting(lane, sights)

    async def _of_running(self, lane: Lane, sights: Sequence[Sight]) -> None:
        """A member that is gone: lost, or taken down in order by whoever has the whole."""
        gone = lost(sights)
        state = whole(it.state for it in sights)
        if state is State.STOPPED or (gone and self.parts.in_order(lane, sights)):
            why = f"its members were stopped: {told(sights)}"
            await self.engines.stopping.stop(lane, actor=ACTOR, why=why)
        elif gone and lane.run is not None:
            self.parts.end(lane.run, f"lost a member: {told(gone)}")

    async def _of_resting(self, lane: Lane, sights: Sequence[Sight]) -> None:
        """One that is down: taken for running when a window started all of its members, else tidied up."""
        if whole(it.state for it in sights) is State.READY:
            await self.engines.adopt(lane)
        elif self._owed(lane) and all(it.state is not None for it in sights):
            await self._end(lane)

    def _owed(self, lane: Lane) -> bool:
        """Whether members of it are ours to end: of a start or run that is over, and of no lease."""
        again = self.clock.elapsed() - self.tried.get(lane.engine.id, float("-inf")) >= AGAIN_S
        gate = self.engines.gate
        ours = gate.orchestration_off() is None and gate.holding(lane) is None
        return again and ours and (lane.run is not None or self.parts.owes(lane.engine.id))

    async def _end(self, lane: Lane) -> None:
        self.tried[lane.engine.id] = self.clock.elapsed()
        if lane.run is None:
            await self.parts.clean(lane)
        else:
            why = lane.status.why or "what was left of it is ended"
            await self.engines.stopping.stop(lane, actor=ACTOR, why=why, failed=why)
