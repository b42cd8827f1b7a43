"""A host as its head has it: the real node behind the real node API, in memory; a test may cut it off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, cast

import httpx2

from hostler.adapters.nodes.lines import Lines
from hostler.adapters.nodes.remote import RemoteNode
from hostler.adapters.store.memory import MemoryStore
from hostler.domain.fleet import Fleet, Host, Node, Secret, frozen
from hostler.domain.resource import Action, Resource
from hostler.domain.values import HostName
from hostler.interfaces.api.app import ControlApp, create_app
from hostler.services.definitions import Definitions
from hostler.services.keys import keyring
from hostler.services.node_door import NodeDoor
from hostler.services.own_restore import Mind, OwnRestore
from hostler.services.present import Present
from tests.fakes.driver import FakeDriver
from tests.fakes.ids import CountingIds
from tests.fakes.node_parts import MemoryRecords, Parts
from tests.fakes.world import CROW
from tests.interfaces.room import build

RAVEN = HostName("raven")
KEY = "hk_of_crow_0123456789"
FILE = "/etc/hostler/hostler.yaml"
URL = "http://crow.test:7070"


@dataclass(slots=True)
class Cable:
    """What carries the calls. `cut`: nothing arrives. `lose` answers are lost after their effect.

    `seen` are the requests, with the headers that they had.
    """

    inner: httpx2.AsyncBaseTransport
    cut: bool = False
    lose: int = 0
    seen: list[httpx2.Request] = field(default_factory=list)
    answer: Callable[[httpx2.Request], httpx2.Response] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        if self.cut:
            raise httpx2.ConnectError("No route to host")
        if self.answer is not None:
            return self.answer(request)
        got = await self.inner.handle_async_request(request)
        if self.lose > 0 and request.url.path.endswith("/ops"):
            self.lose -= 1
            raise httpx2.ReadError("the connection was reset")
        return got

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


@dataclass(slots=True, kw_only=True)
class FarHost:
    """The host `crow`, whose head is `raven`: its own side, and the head's."""

    parts: Parts
    own: OwnRestore
    door: NodeDoor
    app: ControlApp
    cable: Cable
    remote: RemoteNode
    restores: MemoryRecords
    warned: list[tuple[str, ...]]
    bugs: list[BaseException]
    far_config: Present
    head_config: Present
    driver: FakeDriver

    def as_crow(self, **keys: object) -> None:
        """The head's config says this of the host from here on."""
        fleet = self.head_config.fleet
        crow = replace(fleet.hosts[CROW], **keys)  # type: ignore[arg-type]  # keys of a host, as a test gives them
        self.head_config.fleet = replace(fleet, hosts=frozen({**fleet.hosts, CROW: crow}))

    async def settled(self) -> None:
        """What restores was begun has ended."""
        tasks = list(self.own.mind.running.values())
        work = asyncio.gather(*tasks)
        for _ in range(2000):
            if work.done():
                break
            await self.parts.world.clock.advance(1)
        await work


def resources(*actions: Action) -> dict[str, Resource]:
    """A resource with these actions."""
    return {"box": Resource(name="box", hosts=(CROW,), covers=("box",), actions=actions)}


def configs(own: Fleet, actions: Sequence[Action]) -> tuple[Present, Present]:
    """The config as the host sees it, and as its head does."""
    crow = Host(name=CROW, url=URL, key=Secret(KEY), allow_plain_http=True)
    far = replace(
        own,
        head=(RAVEN,),
        hosts=frozen({CROW: own.hosts[CROW], RAVEN: Host(name=RAVEN, url="http://raven.test:7070")}),
        resources=frozen(resources(*actions)),
    )
    head = Fleet(
        here=RAVEN,
        head=(RAVEN,),
        node=Node(),
        hosts=frozen({RAVEN: Host(name=RAVEN), CROW: crow}),
        engines=far.engines,
        resources=far.resources,
    )
    return Present(fleet=far), Present(fleet=head)


def far_host(parts: Parts, *actions: Action, api: int = 1, head_api: int = 1) -> FarHost:
    """This node behind its API, its config and its head's with these actions."""
    it = parts.world
    far_config, head_config = configs(it.fleet, actions)
    warned: list[tuple[str, ...]] = []
    bugs: list[BaseException] = []

    def bug(error: BaseException) -> str:
        bugs.append(error)
        return f"bug-{len(bugs)}"

    restores = MemoryRecords()
    own = OwnRestore(
        node=parts.node,
        config=far_config,
        records=restores,
        scratch=lambda: MemoryStore(CountingIds()),
        clock=it.clock,
        events=it.events,
        warn=warned.append,
        bug=bug,
        mind=Mind(began=it.clock.elapsed()),
    )
    door = NodeDoor(
        node=parts.node,
        own=own,
        definitions=Definitions(config=far_config, receipts=parts.node.receipts, file=FILE),
        clock=it.clock,
        version="0.1.0",
        api=api,
    )
    room = build(frozenset({"crow.test"}))
    ring = keyring(configured=(), kept=(), local="hk_local", clock=it.clock, node=KEY)
    app = create_app(replace(room.control, node=door, keyring=ring))
    cable = Cable(httpx2.ASGITransport(app=app))
    remote = RemoteNode(
        host=CROW,
        config=head_config,
        file="/home/head/hostler.yaml",
        clock=it.clock,
        api=head_api,
        lines=Lines(transport=cast("httpx2.AsyncBaseTransport", cable)),
    )
    return FarHost(
        parts=parts,
        own=own,
        door=door,
        app=app,
        cable=cable,
        remote=remote,
        restores=restores,
        warned=warned,
        bugs=bugs,
        far_config=far_config,
        head_config=head_config,
        driver=room.driver,
    )
