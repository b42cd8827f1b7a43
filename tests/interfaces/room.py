"""A daemon's control API in memory: real services on fake engines, and a client that speaks HTTP to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

import httpx2

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.curation import Crossing, LinkSeen
from hostler.domain.errors import Refusal
from hostler.domain.fleet import (
    Fleet,
    Key,
    frozen,
)
from hostler.domain.hold import HoldRecord, HoldState, HoldView
from hostler.domain.memory import Pools, Reading
from hostler.domain.values import requester
from hostler.interfaces.api.app import ControlApp, create_app
from hostler.services.browser_guard import guard_for
from hostler.services.control import Control
from hostler.services.engines import Engines
from hostler.services.event_queue import EventQueue
from hostler.services.feed import Feed
from hostler.services.gate import Gate
from hostler.services.holds import Holds
from hostler.services.keys import Keyring, Scope, digest_of, keyring
from hostler.services.lanes import InFlight, Lane, Lanes
from hostler.services.measure import Measure
from hostler.services.present import Present
from hostler.services.requests import Requests
from hostler.services.revivals import Revivals
from hostler.services.routes import Routes, load
from hostler.services.starting import Starting
from hostler.services.status import DaemonFacts, Status
from hostler.services.stopping import Stopping
from hostler.services.suspensions import Suspensions
from tests.fakes.clock import ManualClock
from tests.fakes.driver import FakeDriver
from tests.fakes.far_nodes import NoNode, NoNodes, NoSync
from tests.fakes.ids import CountingIds
from tests.fakes.listeners import FakeListeners, watch_of
from tests.fakes.reloading import reload_in
from tests.fakes.schedule import FakeCare, FakeHistory, FakeJobs, FakeSchedule
from tests.fakes.state_files import MemoryStateFiles
from tests.fakes.windows import FakeModes, FakeWindows
from tests.interfaces.room_fleet import GIB, HOST, fleet, lane

LOCAL = "hk_local"
URL = "http://127.0.0.1:7070"


@dataclass(slots=True)
class Machine:
    """Memory, ports, files and programs: all there, all free, unless a test says otherwise."""

    available: int = 100 * GIB
    broken: str | None = None
    holders: dict[int, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    def read(self) -> Pools:
        if self.broken is not None:
            raise OSError(5, self.broken)
        return {"host": Reading(total=124 * GIB, available=self.available)}

    def holder(self, address: str, port: int) -> str | None:
        return self.holders.get(port)

    def path(self, name: str) -> str:
        return name

    def size(self, name: str) -> int | None:
        return GIB

    def exists(self, program: str, env: object, cwd: str) -> bool:
        return program not in self.absent

    def report(self, program: str, env: object, cwd: str) -> str | None:
        return None

    async def ask(self, program: str, env: object, cwd: str) -> None:
        """Programs: no build is asked for."""

    async def probe(self, crossings: Sequence[Crossing]) -> Sequence[LinkSeen]:
        return [LinkSeen(up=True, reached=True) for _ in crossings]

    def close(self, url: str) -> None:
        """Connections: there are none."""

    def take(self) -> Sequence[str]:
        """Forced changes of the hold: there are none."""
        return ()


@dataclass(slots=True)
class HoldInMemory:
    """The need `HoldReader`: what a test wrote."""

    view: HoldView

    def read(self) -> HoldView:
        return self.view


@dataclass(slots=True, kw_only=True)
class Room:
    """Everything a test may turn."""

    control: Control
    app: ControlApp
    driver: FakeDriver
    machine: Machine
    clock: ManualClock
    hold: HoldInMemory
    queue: EventQueue
    store: MemoryStore
    lanes: Lanes
    cuts: list[Refusal] = field(default_factory=list)

    def held(self, owner: str = "bench", *, minutes: float = 42, allow: tuple[str, ...] = ()) -> None:
        """Somebody holds the host from now on."""
        expires = self.clock.now() + timedelta(minutes=minutes)
        record = HoldRecord(
            owner=owner,
            reason="window",
            started_at=self.clock.now(),
            expires_at=expires,
            raw={"owner": owner},
        )
        self.hold.view = HoldView(
            state=HoldState.HELD,
            path="/run/hold.json",
            record=record,
            until=expires,
            identity=f"{owner}@now",
            allow=frozenset({*allow, "embed"}),
        )

    def lane(self, engine: str) -> Lane:
        return self.lanes.get(engine)

    def request(self, engine: str | None = None, route: str = "chat") -> InFlight:
        """An inference request under way, in `engine` when one is named."""
        who = requester(ip="10.99.0.7", ua="bot/1", client="bot", key="bots")
        entry = self.control.requests.open(
            who, route=route, path="/v1/chat/completions", cut=self.cuts.append
        )
        if engine is not None:
            self.lane(engine).enter(entry)
        return entry

    def client(self, key: str | None = LOCAL, **headers: str) -> httpx2.AsyncClient:
        """A client of the API: the local key unless another, or none, is wanted."""
        sent = {} if key is None else {"authorization": f"Bearer {key}"}
        transport = httpx2.ASGITransport(app=self.app)
        return httpx2.AsyncClient(transport=transport, base_url=URL, headers={**sent, **headers})

    def other_keys(self, ring: Keyring) -> None:
        """Serve with another keyring from here on."""
        self.control = replace(self.control, keyring=ring)
        self.app = create_app(self.control)


@asynccontextmanager
async def room(*, names: frozenset[str] = frozenset()) -> AsyncIterator[Room]:
    """A room whose event log is written until the end."""
    it = build(names)
    writing = asyncio.create_task(it.queue.run())
    try:
        yield it
    finally:
        it.queue.release()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        for lane in it.lanes.by_id.values():
            if lane.starting is not None:
                lane.starting.cancel()
                await asyncio.gather(lane.starting, return_exceptions=True)


def build(names: frozenset[str]) -> Room:
    """The services as the bootstrap joins them, on fakes."""
    clock, ids, files, driver, machine = (
        ManualClock(),
        CountingIds(),
        MemoryStateFiles(),
        FakeDriver(),
        Machine(),
    )
    store = MemoryStore(ids)
    queue = EventQueue(store=store, clock=clock, ids=ids)
    it = fleet()
    hold = HoldInMemory(HoldView(state=HoldState.FREE, path="/run/hold.json"))
    lanes = Lanes(
        config=Present(fleet=it),
        clock=clock,
        events=queue,
        by_id=frozen({engine.id: lane(engine) for engine in it.local_engines()}),
    )
    holds = Holds(host=HOST, reader=hold, changes=machine, clock=clock, events=queue)
    engines = orchestra(lanes, holds, driver, machine, files)
    requests = Requests(clock=clock, ids=ids)
    routes = Routes(files=files, clock=clock, events=queue, current=load(it, files))
    status = Status(
        facts=facts(clock),
        lanes=lanes,
        gate=engines.gate,
        starting=engines.starting,
        requests=requests,
        routes=routes,
        holds=holds,
        memory=machine,
        clock=clock,
        queue=queue,
    )
    control = controls(it, engines, routes, requests, holds, status, queue, names)
    return Room(
        control=control,
        app=create_app(control),
        driver=driver,
        machine=machine,
        clock=clock,
        hold=hold,
        queue=queue,
        store=store,
        lanes=lanes,
    )


def controls(
    it: Fleet,
    engines: Engines,
    routes: Routes,
    requests: Requests,
    holds: Holds,
    status: Status,
    queue: EventQueue,
    names: frozenset[str],
) -> Control:
    """What the API is made of; the schedule's parts are fakes."""
    ring_ = keyring(configured=(), kept=(), local=LOCAL, clock=queue.clock)
    browsers = guard_for(it, names)
    return Control(
        config=engines.lanes.config,
        engines=engines,
        routes=routes,
        requests=requests,
        holds=holds,
        feed=Feed(queue=queue, draw=status.picture, clock=queue.clock),
        keyring=ring_,
        browsers=browsers,
        status=status,
        clock=queue.clock,
        metrics=lambda: b"hostler_up 1\n",
        schedule=FakeSchedule(),
        windows=FakeWindows(),
        modes=FakeModes(),
        jobs=FakeJobs(),
        history=FakeHistory(),
        care=FakeCare(),
        node=NoNode(),
        nodes=NoNodes(),
        far={},
        sync=NoSync(),
        reload=reload_in(engines, routes, ring_, launch=lambda it: lane(it).launch, browsers=browsers),
        ports=watch_of(engines.lanes, FakeListeners()),
    )


def orchestra(
    lanes: Lanes, holds: Holds, driver: FakeDriver, machine: Machine, files: MemoryStateFiles
) -> Engines:
    """The services that start and stop engines."""
    clock, queue = lanes.clock, lanes.events
    drivers = frozen({"process": driver, "external": driver})
    gate = Gate(
        lanes=lanes,
        holds=holds,
        memory=machine,
        ports=machine,
        models=machine,
        programs=machine,
        links=machine,
        clock=clock,
        events=queue,
    )
    measure = Measure(lanes=lanes, memory=machine, drivers=drivers, files=files, clock=clock, events=queue)
    stopping = Stopping(
        lanes=lanes, drivers=drivers, memory=machine, connections=machine, clock=clock, events=queue
    )
    starting = Starting(
        lanes=lanes,
        gate=gate,
        stopping=stopping,
        measure=measure,
        drivers=drivers,
        models=machine,
        clock=clock,
        events=queue,
    )
    return Engines(
        lanes=lanes,
        gate=gate,
        starting=starting,
        stopping=stopping,
        suspensions=Suspensions(files=files, clock=clock, events=queue),
        revivals=Revivals(files=files, drivers=drivers, clock=clock, events=queue),
        measure=measure,
        drivers=drivers,
        clock=clock,
    )


def facts(clock: ManualClock) -> DaemonFacts:
    return DaemonFacts(
        pid=4711,
        version="0.1.0",
        started=clock.now(),
        listen=("127.0.0.1:7070",),
        state_dir="/var/lib/hostler",
        config_file="/etc/hostler/hostler.yaml",
        keys_open=True,
    )


def ring(clock: ManualClock, *scopes: Scope) -> Keyring:
    """A keyring with the local key and one key per scope, named as it."""
    keys = [
        Key(name=scope.value, digest=digest_of(f"hk_{scope.value}"), scopes=frozenset({scope.value}))
        for scope in scopes
    ]
    return keyring(configured=keys, kept=(), local=LOCAL, clock=clock)
