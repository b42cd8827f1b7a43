"""A distributed engine in memory: `wide`, whose worker is on a fake raven, whose master on crow, here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from hostler.domain.fleet import DriverKind
from hostler.domain.gate import Ask
from hostler.domain.values import Cause, EngineId, HostName, ServingClass
from hostler.services.following import Following
from tests.fakes.node import FakeEngine, FakeNode
from tests.fakes.node import World as FakeWorld
from tests.fakes.node_parts import Parts, parts
from tests.fakes.world import BOT, LONG, World, engine, world

T = TypeVar("T")
RAVEN = HostName("raven")
WIDE, MASTER = EngineId("wide"), EngineId("master")


@dataclass(slots=True, kw_only=True)
class Pair:
    """Both hosts. `log` has in order what was done to either member; `far` is raven's node."""

    parts: Parts
    far: FakeNode
    log: list[str]

    @property
    def world(self) -> World:
        """This host."""
        return self.parts.world

    @property
    def worker(self) -> FakeEngine:
        """The worker, on raven."""
        return self.far.world.engines["worker"]

    @property
    def follow(self) -> Following:
        """What follows the whole."""
        it = self.world

        def bug(error: BaseException) -> str:
            it.bugs.append(error)
            return "bug"

        return Following(engines=it.engines, parts=it.parts, clock=it.clock, bug=bug)

    def wanted(self, cause: Cause = Cause.API) -> asyncio.Task[None]:
        """A caller who names the class and waits for the whole."""
        ask = Ask(engine=WIDE, cause=cause, requester=BOT, override=ServingClass.WINDOWED)
        work = self.world.starting.ensure_ready(self.world.lane("wide"), ask, wait_s=LONG)
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda it: it.cancelled() or it.exception())
        return task

    async def during(self, seconds: float, work: Awaitable[T]) -> T:
        """Its result, after so much time."""
        task = asyncio.ensure_future(work)
        await self.world.clock.advance(seconds)
        return await task

    async def up(self) -> None:
        """Start the whole."""
        await self.during(60, self.wanted())

    def states(self) -> tuple[str, str]:
        """Of the whole, and of its master."""
        return self.world.state("wide").value, self.world.state("master").value

    def again(self) -> Pair:
        """A second daemon on this host."""
        return _joined(self.parts.again(), self.far, self.log)


@asynccontextmanager
async def pair() -> AsyncIterator[Pair]:
    """Both hosts, nothing up."""
    windowed = ServingClass.WINDOWED
    async with world(
        engine("worker", host=RAVEN, of=WIDE, serving_class=windowed),
        engine("master", of=WIDE, serving_class=windowed),
        engine(
            "wide",
            need=None,
            driver=DriverKind.DISTRIBUTED,
            members=(EngineId("worker"), MASTER),
            serving_class=windowed,
        ),
    ) as it:
        far = FakeNode("raven", FakeWorld(engines={"worker": FakeEngine(up=False)}))
        far.changed = it.driver.journal.append
        yield _joined(parts(it), far, it.driver.journal)


def _joined(found: Parts, far: FakeNode, log: list[str]) -> Pair:
    found.world.parts.nodes["raven"] = far
    return Pair(parts=found, far=far, log=log)
