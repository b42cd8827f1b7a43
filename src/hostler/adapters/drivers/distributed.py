"""The driver of engines with members on several hosts: the whole as one engine (ENG-2, ENG-11).

Decides how what is known of the members reads as one probe, one run, one end. Who starts and stops when is
`services.distributed`'s; each member has its own driver, on its own host.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from hostler.domain.distributed import anything_up, lost, told, whole
from hostler.domain.engine import ExitReport, Launch, Probe, Restore, Run, State, StopReport
from hostler.domain.errors import EngineFailed
from hostler.domain.fleet import DriverKind, Engine, frozen
from hostler.domain.gate import Ask
from hostler.domain.values import Cause, Requester
from hostler.services.distributed import SERVING, Distributed, Stamp
from hostler.services.lanes import Lane
from hostler.services.needs import Driver


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedDriver:
    """`parts` acts on the members; `drivers` are those of the members on this host."""

    parts: Distributed
    drivers: Mapping[str, Driver]

    async def start(self, launch: Launch) -> Run:
        """Start the members in order. It returns when all are ready, and rolls back what was begun else.

        By whom and under which class the whole is started is the wish that its lane is started for.
        """
        lane = self._lane(launch)
        ask = lane.ask or Ask(engine=launch.engine, cause=Cause.API, requester=Requester())
        return self._run(launch, await self.parts.up(lane.engine, ask))

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        """One look at all members: healthy when all are up, dead when one is lost before the whole serves.

        What becomes of a whole that serves and loses one is for whoever follows it: a window may end it.
        """
        lane = self._lane(launch)
        sights = await self.parts.look(lane.engine)
        state = whole(it.state for it in sights)
        serves = state in SERVING
        gone = state is State.STOPPED or bool(lost(sights))
        return Probe(
            alive=lane.state in SERVING or not gone,
            port_owner="ours",
            health="ok" if serves else "unreachable",
            model_ids=(launch.model,) if serves else (),
            detail=told(it for it in sights if it.state is not State.READY) or told(sights),
        )

    async def adopt(self, launch: Launch) -> Run | None:
        """What runs already, whoever started its members: a window does so by its own steps.

        One of which an earlier daemon started a part is none: refuses `engine_failed`, and what is left of it
        is ended by the loop that follows it.
        """
        engine, stamp = self._engine(launch), self.parts.stamp(launch.engine)
        await self.parts.until_known(engine)
        sights = await self.parts.look(engine)
        if whole(it.state for it in sights) in SERVING:
            return self._run(launch, stamp or self.parts.first())
        if stamp is None or not stamp.begun:
            return None
        if lost(sights):
            raise EngineFailed(engine=launch.engine, why=told(sights))
        return self._run(launch, stamp) if anything_up(sights) else None

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        """Stop the members in reverse, each in its own time. Refuses `stop_unverified`."""
        began = self.parts.clock.elapsed()
        await self.parts.down(self._engine(launch))
        self.parts.end(run, "was stopped")
        return StopReport(gone=True, port_free=True, seconds=self.parts.clock.elapsed() - began)

    async def wait_exit(self, launch: Launch, run: Run) -> ExitReport:
        """Return when the run was stopped, or was seen to have lost a member."""
        said = await asyncio.shield(self.parts.end_of(run))
        return ExitReport(status=None, signal=None, instead=said)

    def tail(self, launch: Launch, lines: int) -> list[str]:
        """The last log lines of the member that answers; another member has its own, on its host."""
        server = self._lane(launch).server
        return [] if server is None else self.drivers[server.launch.driver].tail(server.launch, lines)

    async def follow(self, launch: Launch) -> AsyncIterator[str]:
        """Log lines of the member that answers, as they come."""
        server = self._lane(launch).server
        if server is not None:
            async for line in self.drivers[server.launch.driver].follow(server.launch):
                yield line

    def restore(self, launch: Launch) -> Restore:
        """No words of its own: a window restores each member by that one's."""
        return Restore(argv=(), env=frozen({}), cwd=launch.cwd, probe_url=launch.url, model=launch.model)

    def rss(self, run: Run) -> int | None:
        """Nothing of its own: its members are measured, each on its host."""
        return None

    async def revival(self, launch: Launch) -> str | None:
        """None: nothing but a daemon brings the whole up."""
        return None

    async def set_revival(self, launch: Launch, revival: str | None) -> None:
        """Nothing: there is no such setting."""

    def _lane(self, launch: Launch) -> Lane:
        return self.parts.lanes.get(launch.engine)

    def _engine(self, launch: Launch) -> Engine:
        return self._lane(launch).engine

    def _run(self, launch: Launch, stamp: Stamp) -> Run:
        """No process is its own; it is known by the number of its start."""
        moment = self.parts.clock.moment()
        return Run(
            engine=launch.engine,
            driver=DriverKind.DISTRIBUTED,
            pid=0,
            start_ticks=0,
            supervisor_pid=0,
            supervisor_ticks=0,
            boot_id=moment.boot,
            port=launch.port,
            started_at=moment.at,
            identity=f"{launch.engine} {stamp.epoch}.{stamp.generation}",
        )
