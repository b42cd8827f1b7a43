"""What every Node must do (NODE-1): the rigs that it is asked of, this host's own and the tests' fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, TypeVar

from hostler.domain.fleet import EngineTarget, Plain, Route, UpstreamTarget, frozen
from hostler.domain.resource import Action
from hostler.domain.step import FenceNumber, Found, FoundHold, Operation, Step, Undo
from hostler.domain.values import EngineId, HostName, RouteName
from hostler.services.schedule_needs import Node
from tests.fakes.far_host import FarHost, far_host
from tests.fakes.node import FakeEngine, FakeNode, FakeRoute
from tests.fakes.node import World as FakeWorld
from tests.fakes.node_parts import Parts, parts, with_routes
from tests.fakes.world import engine, world

T = TypeVar("T")
HOST = "crow"
POWER = Action(
    verb="exec",
    host=HostName(HOST),
    argv=("make", "power"),
    undo=("unmake", "power"),
    check=("is", "power"),
    definition="box/1",
)
HOOK = Action(
    verb="webhook",
    host=HostName(HOST),
    target="https://example.net/hook",
    undo_url="https://example.net/hook/free",
    timeout_s=10.0,
    definition="box/2",
)
LEASE = "lease_1"
OTHER = "lease_2"


class Rig(Protocol):
    """One implementation with its host: `big` serves, `cold` does not; route `chat` is on `local`, of `big`,
    and may go `away`, to an upstream; route `bare` has no active profile.
    """

    @property
    def node(self) -> Node: ...

    async def wait(self, call: Awaitable[T]) -> T:
        """Let time pass until `call` is over; its result."""
        ...

    async def suspended_by_ann(self, name: str) -> None:
        """A person suspends an engine that is down."""
        ...

    def revived(self, name: str, revival: str) -> None:
        """Something else brings that engine up."""
        ...

    def held_by_bench(self) -> None:
        """Somebody else holds the host."""
        ...


@dataclass(slots=True)
class LocalRig:
    """This host's own node, on the services of a world."""

    parts: Parts

    @property
    def node(self) -> Node:
        return self.parts.node

    async def wait(self, call: Awaitable[T]) -> T:
        task = asyncio.ensure_future(call)
        for _ in range(1000):
            await self.parts.world.clock.advance(1)
            if task.done():
                break
        return await task

    async def suspended_by_ann(self, name: str) -> None:
        it = self.parts.world
        await it.engines.suspensions.add(it.lane(name), "person:ann")

    def revived(self, name: str, revival: str) -> None:
        self.parts.world.driver.revivals[EngineId(name)] = revival

    def held_by_bench(self) -> None:
        self.parts.world.hold.write("bench")


@dataclass(slots=True)
class RemoteRig:
    """A host's node as its head has it: over its node API, in memory."""

    far: FarHost

    @property
    def node(self) -> Node:
        return self.far.remote

    async def wait(self, call: Awaitable[T]) -> T:
        return await LocalRig(self.far.parts).wait(call)

    async def suspended_by_ann(self, name: str) -> None:
        await LocalRig(self.far.parts).suspended_by_ann(name)

    def revived(self, name: str, revival: str) -> None:
        LocalRig(self.far.parts).revived(name, revival)

    def held_by_bench(self) -> None:
        LocalRig(self.far.parts).held_by_bench()


@dataclass(slots=True)
class FakeRig:
    """The fake that the tests of the runner use."""

    node: FakeNode

    async def wait(self, call: Awaitable[T]) -> T:
        return await call

    async def suspended_by_ann(self, name: str) -> None:
        self.node.world.engines[name].suspended_by.add("person:ann")

    def revived(self, name: str, revival: str) -> None:
        self.node.world.engines[name].revival = revival

    def held_by_bench(self) -> None:
        self.node.world.hold = FoundHold(identity="bench@now", owner="bench")


@asynccontextmanager
async def local_rig() -> AsyncIterator[LocalRig]:
    """A host in memory with its node."""
    cloud = Plain(targets=(UpstreamTarget(upstream="cloud"),))
    local = Plain(targets=(EngineTarget(engine=EngineId("big")),))
    profiles = frozen({"local": local, "away": cloud})
    chat = Route(name=RouteName("chat"), profiles=profiles, active="local")
    bare = Route(name=RouteName("bare"), profiles=profiles)
    async with world(engine("big", need=40), engine("cold", need=10)) as base:
        it = with_routes(base, chat=chat, bare=bare)
        await it.up("big")
        yield LocalRig(parts(it))


@asynccontextmanager
async def remote_rig() -> AsyncIterator[RemoteRig]:
    """The same host, reached through its node API."""
    async with local_rig() as local:
        yield RemoteRig(far_host(local.parts, POWER, HOOK))


def fake_rig() -> FakeRig:
    """The same host, faked."""
    profiles: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "local": (("big",), ()),
        "away": ((), ("cloud",)),
    }
    made = FakeWorld(
        engines={"big": FakeEngine(), "cold": FakeEngine(up=False)},
        routes={
            "chat": FakeRoute(active="local", profiles=profiles),
            "bare": FakeRoute(active=None, profiles=profiles),
        },
    )
    return FakeRig(FakeNode(HOST, made))


@dataclass(slots=True)
class Teller:
    """Tells a node operations of one lease, each with an id of its own."""

    rig: Rig
    lease: str = LEASE
    generation: int = 7
    numbers: count[int] = field(default_factory=count)

    def operation(
        self, step: Step | Undo, *, id_: str | None = None, found: Found | None = None
    ) -> Operation:
        """One operation; as a step of the plan it knows what it `found`."""
        return Operation(
            id=id_ or f"{self.lease}.{self.generation}.{next(self.numbers)}",
            lease=self.lease,
            fence=FenceNumber(epoch="e1", generation=self.generation),
            covers=("pair", "mac"),
            step=step,
            deadline_s=900.0,
            found=found,
            holder="ann",
            reason="bench",
            expires_at=None,
        )

    async def do(self, step: Step | Undo, *, found: Found | None = None) -> None:
        """Perform it, and see that it holds."""
        operation = self.operation(step, found=found)
        await self.rig.wait(self.rig.node.perform(operation))
        assert await self.rig.wait(self.rig.node.verify(operation)) is None

    async def see(self, step: Step | Undo) -> Found:
        """What it would find."""
        return await self.rig.wait(self.rig.node.observe(self.operation(step)))

    async def ask(self, step: Step) -> None:
        """Its preflight."""
        await self.rig.wait(self.rig.node.preflight(self.operation(step)))
