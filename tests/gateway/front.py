"""The gateway whole, in this process: real server, real client, services on fakes, engines of bytes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from hostler.domain.engine import BecameReady, StartBegun
from hostler.domain.fleet import Engine, Fleet, Group, Host, Node, Profile, Route, Upstream, frozen
from hostler.domain.hold import HoldRecord, HoldState, HoldView
from hostler.domain.route import build
from hostler.domain.values import EngineId, RouteName
from hostler.gateway.app import Gateway
from hostler.gateway.asgi import adapted
from hostler.gateway.ask import Means
from hostler.gateway.backoff import Backoff
from hostler.gateway.choose import Chooser
from hostler.gateway.models import Models
from hostler.gateway.places import Places
from hostler.gateway.upstream import Upstream as UpstreamClient
from hostler.services.browser_guard import BrowserGuard
from hostler.services.engines import Engines
from hostler.services.gate import Gate
from hostler.services.holds import Holds
from hostler.services.keys import Keyring, keyring
from hostler.services.lanes import InFlight, Lanes
from hostler.services.measure import Measure
from hostler.services.present import Present
from hostler.services.requests import Outcome, Requests
from hostler.services.revivals import Revivals
from hostler.services.routes import Current, Routes
from hostler.services.starting import Starting
from hostler.services.stopping import Stopping
from hostler.services.suspensions import Suspensions
from tests.fakes.clock import ManualClock
from tests.fakes.driver import FakeDriver
from tests.fakes.events import EventList
from tests.fakes.ids import CountingIds
from tests.fakes.listening import Client, Listening, answering, part, start
from tests.fakes.raw_upstream import RawUpstream
from tests.fakes.state_files import MemoryStateFiles
from tests.gateway.wire import Answer, Target, chat_body, parsed, request
from tests.interfaces.room import Machine
from tests.interfaces.room_fleet import HOST, engine, lane


@dataclass(slots=True)
class Hold:
    """The need `HoldReader`: what a test wrote, and how often it was read."""

    view: HoldView
    reads: int = 0

    def read(self) -> HoldView:
        """As the need has it."""
        self.reads += 1
        return self.view


@dataclass(slots=True, kw_only=True)
class Front:
    """Everything a test may turn. `ends` are outcomes with status and row, `gone` hosts known to be away."""

    fleet: Fleet
    gateway: Gateway
    server: Listening
    clock: ManualClock
    driver: FakeDriver
    machine: Machine
    hold: Hold
    lanes: Lanes
    events: EventList
    backoff: Backoff
    ends: list[tuple[Outcome, int, InFlight]]
    gone: dict[str, str]

    # ------------------------------------------------------------ what is

    def up(self, *engines: str) -> None:
        """These run, ready."""
        for name in engines:
            lane, at = self.lanes.get(name), self.clock.now()
            self.lanes.move(lane, StartBegun(engine=EngineId(name), at=at))
            self.lanes.move(lane, BecameReady(engine=EngineId(name), at=at))

    def held(self, owner: str = "bench", *, minutes: float = 42) -> None:
        """Somebody holds the host."""
        until = self.clock.now() + timedelta(minutes=minutes)
        record = HoldRecord(
            owner=owner, reason="window", started_at=self.clock.now(), expires_at=until, raw={"owner": owner}
        )
        self.hold.view = HoldView(
            state=HoldState.HELD, path="/run/hold.json", record=record, until=until, identity=f"{owner}@now"
        )

    @property
    def rows(self) -> list[InFlight]:
        """The in-flight table."""
        return list(self.gateway.requests.all())

    @property
    def outcomes(self) -> list[str]:
        """How requests ended."""
        return [outcome.value for outcome, _, _ in self.ends]

    # ------------------------------------------------------------ asking

    async def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> Client:
        """A request on a connection of its own, not waited for."""
        client = await self.server.connect()
        client.send(request(method, path, body, **headers))
        return client

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """A request and its whole answer."""
        client = await self.send(method, path, body, connection="close", **headers)
        async with asyncio.timeout(10):
            return parsed(await client.rest(), head_only=method == "HEAD")

    async def chat(self, model: str = "chat", text: str = "hi", **headers: str) -> Answer:
        """One plain chat completion."""
        return await self.ask("POST", "/v1/chat/completions", chat_body(model, text), **headers)

    async def stream(self, model: str = "chat", text: str = "hi", **headers: str) -> Client:
        """One streamed chat completion, not waited for."""
        body = chat_body(model, text, stream=True)
        return await self.send("POST", "/v1/chat/completions", body, connection="close", **headers)


# ---------------------------------------------------------------- building

Profiles = Mapping[str, Profile]


def a_fleet(*routes: Route, engines: Sequence[Engine] = (), **more: object) -> Fleet:
    """A box with fast and large in one group, embed, and two upstreams, and these routes."""
    own = engines or (
        engine("fast", 8101, group="main", need=4),
        engine("large", 8102, group="main", need=12),
        engine("embed", 8103, need=1),
    )
    fleet = Fleet(
        here=HOST,
        head=(HOST,),
        node=Node(),
        hosts=frozen({HOST: Host(name=HOST, groups=frozen({"main": Group(name="main", host=HOST)}))}),
        engines=frozen({it.id: it for it in own}),
        upstreams=frozen(
            {
                "cloud": Upstream(name="cloud", url="http://cloud.example.net/v1"),
                "spare": Upstream(name="spare", url="http://spare.example.net/base"),
            }
        ),
        routes=frozen({it.name: it for it in routes}),
    )
    return replace(fleet, **more)  # type: ignore[arg-type]  # a test's shorthand for some of its fields


def a_route(name: str, profiles: Profiles, **more: object) -> Route:
    """A route whose first profile is active."""
    route = Route(name=RouteName(name), profiles=frozen(dict(profiles)), active=next(iter(profiles), None))
    return replace(route, **more)  # type: ignore[arg-type]  # a test's shorthand for some of its fields


URLS = {
    "fast": "http://127.0.0.1:8101",
    "large": "http://127.0.0.1:8102",
    "embed": "http://127.0.0.1:8103",
    "cloud": "http://cloud.example.net/v1",
    "spare": "http://spare.example.net/base",
    "raven": "http://raven.test:7070",
    "annex": "http://annex.test:8101/v1 foreign",
}


@asynccontextmanager
async def front(
    fleet: Fleet,
    targets: Mapping[str, Target] | None = None,
    *,
    ring: Keyring | None = None,
    places: Places | None = None,
    redact: Callable[[str], str] = str,
) -> AsyncIterator[Front]:
    """A gateway in front of `targets`: engines and upstreams by name; the others cannot be reached."""
    clock = ManualClock()
    upstream = UpstreamClient()
    known = places or Places()
    running = {name: RawUpstream(target.script) for name, target in (targets or {}).items()}
    try:
        for name, raw in running.items():
            await raw.__aenter__()
            known.known[URLS[name]] = raw.address
        made = joined(fleet, clock, upstream, known, ring, redact)
        async with answering(made.gateway) as server:
            made.server = server
            yield made
    finally:
        for each in () if "made" not in locals() else made.lanes.by_id.values():
            for task in (each.starting, each.stopping):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
        upstream.close()
        for raw in running.values():
            await raw.__aexit__(None, None, None)


def joined(
    fleet: Fleet,
    clock: ManualClock,
    upstream: UpstreamClient,
    places: Places,
    ring: Keyring | None,
    redact: Callable[[str], str],
) -> Front:
    """The services as the bootstrap joins them."""
    ids, files, driver, machine, events = (
        CountingIds(0.0),
        MemoryStateFiles(),
        FakeDriver(),
        Machine(),
        EventList(),
    )
    hold = Hold(HoldView(state=HoldState.FREE, path="/run/hold.json"))
    local = fleet.local_engines()
    lanes = Lanes(
        config=Present(fleet=fleet),
        clock=clock,
        events=events,
        by_id=frozen({it.id: lane(it) for it in local}),
    )
    engines = the_engines(lanes, hold, machine, driver, clock, events, files)
    requests, backoff = Requests(clock=clock, ids=ids), Backoff(clock=clock, ids=ids)
    ends, gone = list[tuple[Outcome, int, InFlight]](), dict[str, str]()
    gateway = Gateway(
        routes=Routes(files=files, clock=clock, events=events, current=Current(table=build(fleet, {}))),
        requests=requests,
        keyring=ring or keyring(configured=(), kept=(), local=None, clock=clock),
        guard=BrowserGuard(names=frozenset({"localhost"})),
        chooser=Chooser(
            engines=engines,
            places=places,
            backoff=backoff,
            clock=clock,
            away=gone.get,
        ),
        models=Models(lanes=lanes, created=1),
        means=Means(
            engines=engines, upstream=upstream, backoff=backoff, clock=clock, bug=no_bug, redact=redact
        ),
        control=adapted(control),
        ended=lambda entry, outcome, status: ends.append((outcome, status, entry)),
    )
    return Front(
        fleet=fleet,
        gateway=gateway,
        server=None,  # type: ignore[arg-type]  # `front` sets it before anybody sees this
        clock=clock,
        driver=driver,
        machine=machine,
        hold=hold,
        lanes=lanes,
        events=events,
        backoff=backoff,
        ends=ends,
        gone=gone,
    )


def intents_of(fleet: Fleet) -> Mapping[str, Sequence[re.Pattern[str]]]:
    """Each route's intents, compiled."""
    given = {name: it.escalate.intent for name, it in fleet.routes.items() if it.escalate is not None}
    return {name: tuple(map(re.compile, texts)) for name, texts in given.items()}


def the_engines(
    lanes: Lanes,
    hold: Hold,
    machine: Machine,
    driver: FakeDriver,
    clock: ManualClock,
    events: EventList,
    files: MemoryStateFiles,
) -> Engines:
    """The engines of the host, on fakes."""
    drivers = frozen({"process": driver, "external": driver})
    holds = Holds(host=HOST, reader=hold, changes=machine, clock=clock, events=events)
    gate = Gate(
        lanes=lanes,
        holds=holds,
        memory=machine,
        ports=machine,
        models=machine,
        programs=machine,
        links=machine,
        clock=clock,
        events=events,
    )
    measure = Measure(lanes=lanes, memory=machine, drivers=drivers, files=files, clock=clock, events=events)
    stopping = Stopping(
        lanes=lanes, drivers=drivers, memory=machine, connections=machine, clock=clock, events=events
    )
    starting = Starting(
        lanes=lanes,
        gate=gate,
        stopping=stopping,
        measure=measure,
        drivers=drivers,
        models=machine,
        clock=clock,
        events=events,
    )
    return Engines(
        lanes=lanes,
        gate=gate,
        starting=starting,
        stopping=stopping,
        suspensions=Suspensions(files=files, clock=clock, events=events),
        revivals=Revivals(files=files, drivers=drivers, clock=clock, events=events),
        measure=measure,
        drivers=drivers,
        clock=clock,
    )


async def control(
    scope: dict[str, object], receive: object, send: Callable[[dict[str, object]], Awaitable[None]]
) -> None:
    """What is no inference comes here."""
    await send(start(200, (b"content-length", b"7")))
    await send(part(b"control"))


def no_bug(error: BaseException) -> str:
    """A bug in a test is one."""
    raise AssertionError(f"a bug: {error!r}") from error
