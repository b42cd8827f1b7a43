"""Three paired nodes in memory: the real exchange over a wire that loses, repeats and delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hostler.domain.errors import NodeUnreachable
from hostler.domain.fleet import Engine, Fleet, Host, Node, Peer, Secret, Upstream, frozen
from hostler.domain.registry import Registry, Row
from hostler.domain.values import EngineId, HostName
from hostler.services import row_book
from hostler.services.lanes import Lane, Lanes
from hostler.services.peering import Peering
from hostler.services.present import Present
from hostler.services.publishing import Publishing
from hostler.services.reaching import Reaching
from hostler.services.routes import Routes, load
from hostler.services.row_book import RowBook
from hostler.services.sync import Sync
from hostler.wire.sync import ExchangeAnswer, ExchangeCall, ProbeAnswer, ProbeCall
from tests.fakes.clock import ManualClock
from tests.fakes.events import EventList
from tests.interfaces.room_fleet import lane

NAMES = ("crow", "raven", "annex")
ADDRESSES: Mapping[str, str] = frozen({"crow": "10.99.0.1", "raven": "10.99.0.2", "annex": "10.99.0.3"})
Fault = Literal["none", "lost", "unanswered", "twice", "late"]


def nested(levels: int) -> object:
    """A list in a list, so many deep."""
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


@dataclass(slots=True)
class CountedFiles:
    """The need `StateFiles` in memory: it counts what is written."""

    kept: dict[str, Mapping[str, object]] = field(default_factory=dict)
    saves: int = 0
    full: bool = False
    broken: bool = False

    def load(self, name: str) -> Mapping[str, object] | None:
        if self.broken:
            raise ValueError(f"{name}.json is broken")
        return self.kept.get(name)

    def save(self, name: str, value: Mapping[str, object]) -> None:
        if self.full:
            raise OSError(28, "No space left on device", name)
        self.saves += 1
        self.kept[name] = value

    def set_aside(self, name: str) -> None:
        found = self.kept.pop(name, None)
        if found is not None:
            self.kept[f"{name}.unreadable"] = found

    def directory(self, name: str) -> str:
        return name


@dataclass(slots=True)
class Sockets:
    """The needs `Reacher` and `Interfaces` of one node: what it reaches not, and its own addresses."""

    own: frozenset[str]
    dead: set[str] = field(default_factory=set)
    looked: list[str] = field(default_factory=list)

    async def look(self, url: str) -> str:
        self.looked.append(url)
        return "Connection refused" if url in self.dead else ""

    def addresses(self) -> frozenset[str]:
        return self.own


@dataclass(slots=True, kw_only=True)
class Wire:
    """What lies between nodes. `fault` is the next call's; `carried` are all calls that arrived."""

    nodes: dict[str, PairedNode] = field(default_factory=dict)
    fault: Fault = "none"
    carried: list[tuple[str, str, ExchangeCall, ExchangeAnswer]] = field(default_factory=list)
    late: list[tuple[str, str, ExchangeCall]] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)

    async def exchange(self, here: str, there: str, call: ExchangeCall) -> ExchangeAnswer:
        """One call with the fault that is due."""
        fault, self.fault = self.fault, "none"
        if fault == "late":
            self.late.append((here, there, call))
        if fault in ("lost", "late") or {here, there} & self.cut:
            raise NodeUnreachable(host=there, why="no connection within 3 s")
        if fault == "twice":
            await self.arrive(here, there, call)
        answer = await self.arrive(here, there, call)
        if fault == "unanswered":
            raise NodeUnreachable(host=there, why="no answer within 10 s")
        return answer

    async def arrive(self, here: str, there: str, call: ExchangeCall) -> ExchangeAnswer:
        """It arrives."""
        answer = await self.nodes[there].sync.exchange(call, here)
        self.carried.append((here, there, call, answer))
        return answer

    async def deliver(self) -> None:
        """What was under way for long arrives, the latest first; nobody waits for the answers."""
        while self.late:
            await self.arrive(*self.late.pop())

    @property
    def rows_sent(self) -> int:
        """How many calls and answers carried rows."""
        return sum((call.told is not None) + (got.told is not None) for _, _, call, got in self.carried)


@dataclass(frozen=True, slots=True, kw_only=True)
class WiredPeer:
    """The need `FarPeer` over the wire."""

    wire: Wire
    here: str
    there: str

    async def exchange(self, call: ExchangeCall) -> ExchangeAnswer:
        return await self.wire.exchange(self.here, self.there, call)

    async def probe(self, call: ProbeCall) -> ProbeAnswer:
        if {self.here, self.there} & self.wire.cut:
            raise NodeUnreachable(host=self.there, why="no connection within 3 s")
        return await self.wire.nodes[self.there].sync.probe(call, self.here)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True, kw_only=True)
class PairedNode:
    """One node: its parts are made anew at a restart, `files` stay."""

    name: str
    wire: Wire
    clock: ManualClock
    fleet: Fleet
    lanes: Lanes
    files: CountedFiles = field(default_factory=CountedFiles)
    events: EventList = field(default_factory=EventList)
    sockets: Sockets = field(default_factory=lambda: Sockets(frozenset()))
    warned: list[tuple[str, ...]] = field(default_factory=list)
    bugs: list[BaseException] = field(default_factory=list)
    sync: Sync = field(init=False)
    reaching: Reaching = field(init=False)

    def restart(self) -> None:
        """The daemon begins with what is on the disk."""
        config = self.lanes.config
        config.fleet = self.fleet
        routes = Routes(
            files=self.files, clock=self.clock, events=self.events, current=load(self.fleet, CountedFiles())
        )
        book = RowBook(
            config=config,
            files=self.files,
            interfaces=self.sockets,
            kept=row_book.load(self.name, self.files),
            share=routes.share,
        )
        routes.begin(book.resolved())
        peering = Peering(book=book, far=self.far, clock=self.clock, events=self.events, bug=self.bug)
        publishing = Publishing(
            book=book,
            lanes=self.lanes,
            far=self.far,
            reacher=self.sockets,
            clock=self.clock,
            events=self.events,
        )
        self.reaching = Reaching(book=book, reacher=self.sockets, clock=self.clock, bug=self.bug)
        self.sync = Sync(
            book=book,
            peering=peering,
            publishing=publishing,
            routes=routes,
            clock=self.clock,
            warn=self.warned.append,
            bug=self.bug,
        )

    def far(self, there: str) -> WiredPeer:
        """The other end of a wire."""
        return WiredPeer(wire=self.wire, here=self.name, there=there)

    def bug(self, error: BaseException) -> str:
        """An exception of ours."""
        self.bugs.append(error)
        return "err_1"

    @property
    def registry(self) -> Registry:
        """Its rows."""
        return self.sync.book.registry

    async def says(self, row: Row, *, owns: bool = False) -> None:
        """It writes a row, as a publishing does."""
        await self.sync.book.change(lambda known: known.write(row, owns=owns))

    async def speak(self, there: str) -> None:
        """It speaks to a peer."""
        await self.sync.peering.speak(there)


@dataclass(slots=True, kw_only=True)
class Trio:
    """Three nodes, every two paired, on one wire and one clock."""

    wire: Wire
    clock: ManualClock

    def __getitem__(self, name: str) -> PairedNode:
        return self.wire.nodes[name]

    async def agree(self) -> None:
        """Everybody speaks to everybody, until nobody has anything to say; at most ten times."""
        for _ in range(10):
            for here in NAMES:
                for there in NAMES:
                    if here != there:
                        await self[here].speak(there)
            if not any(self[here].sync.peering.waiting(it) for here in NAMES for it in NAMES if it != here):
                return
        raise AssertionError("they never agree")


def a_fleet(name: str, engines: Sequence[Engine] = (), upstreams: Sequence[Upstream] = ()) -> Fleet:
    """A host of its own that is paired with the others."""
    peers = [
        Peer(name=HostName(it), url=f"http://{ADDRESSES[it]}:7070", key=Secret("k"))
        for it in NAMES
        if it != name
    ]
    own = engines or (
        Engine(id=EngineId(f"{name}-work"), host=HostName(name), model=f"{name}-model", port=8101),
    )
    return Fleet(
        here=HostName(name),
        head=(HostName(name),),
        node=Node(),
        hosts=frozen({HostName(name): Host(name=HostName(name))}),
        engines=frozen({it.id: it for it in own}),
        upstreams=frozen({it.name: it for it in upstreams}),
        peers=frozen({it.name: it for it in peers}),
    )


def lane_at(engine: Engine, url: str) -> Lane:
    """A lane whose engine answers at `url`; nothing of it runs."""
    found = lane(engine)
    found.launch = type(found.launch)(
        **{name: getattr(found.launch, name) for name in found.launch.__slots__} | {"url": url}
    )
    return found


def trio(**fleets: Fleet) -> Trio:
    """Three nodes that have said nothing yet; `fleets` are configs other than the usual ones."""
    wire, clock = Wire(), ManualClock()
    for name in NAMES:
        fleet, events = fleets.get(name) or a_fleet(name), EventList()
        lanes = Lanes(
            config=Present(fleet=fleet),
            clock=clock,
            events=events,
            by_id=frozen(
                {
                    it.id: lane_at(it, it.url or f"http://{ADDRESSES[name]}:{it.port}")
                    for it in fleet.local_engines()
                }
            ),
        )
        node = PairedNode(
            name=name,
            wire=wire,
            clock=clock,
            fleet=fleet,
            lanes=lanes,
            events=events,
            sockets=Sockets(frozenset({ADDRESSES[name]})),
        )
        wire.nodes[name] = node
        node.restart()
    return Trio(wire=wire, clock=clock)
