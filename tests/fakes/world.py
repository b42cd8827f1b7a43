"""One host in memory: the real services on fakes, joined as the bootstrap joins them.

A test says which engines there are, moves the clock, and looks. Memory is one pool: a started engine takes
what `sizes` says of it, a stopped one gives it back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from hostler.adapters.drivers.distributed import DistributedDriver
from hostler.domain.engine import EngineState, Launch, State
from hostler.domain.errors import Refusal
from hostler.domain.fleet import DriverKind, Engine, Fleet, Group, Host, Node, frozen
from hostler.domain.gate import Ask
from hostler.domain.values import Cause, EngineId, HostName, Requester, requester
from hostler.services.distributed import Distributed
from hostler.services.engines import Engines
from hostler.services.gate import Gate
from hostler.services.guard import Guard
from hostler.services.holds import Holds
from hostler.services.lanes import InFlight, Lane, Lanes, coupled
from hostler.services.measure import Measure
from hostler.services.needs import Driver
from hostler.services.present import Present
from hostler.services.requests import Requests
from hostler.services.revivals import Revivals
from hostler.services.starting import Starting
from hostler.services.status import Vitals
from hostler.services.stopping import Stopping
from hostler.services.suspensions import Suspensions
from hostler.services.watch import Watch
from hostler.services.window_strikes import WindowStrikes
from tests.fakes.clock import ManualClock, inline_threads, settle
from tests.fakes.events import EventList
from tests.fakes.host import GIB, FakeActivity, FakeHold, FakeMachine, TimedDriver
from tests.fakes.ids import CountingIds
from tests.fakes.state_files import MemoryStateFiles

CROW = HostName("crow")
BOT = requester(ip="10.99.0.7", ua="bot/1", client="bot", key="bots")
LONG = 100_000.0


@dataclass(slots=True, kw_only=True)
class World:
    """Everything that a test may turn."""

    fleet: Fleet
    clock: ManualClock
    ids: CountingIds
    driver: TimedDriver
    machine: FakeMachine
    hold: FakeHold
    files: MemoryStateFiles
    events: EventList
    lanes: Lanes
    holds: Holds
    gate: Gate
    measure: Measure
    stopping: Stopping
    starting: Starting
    engines: Engines
    requests: Requests
    watch: Watch
    parts: Distributed
    bugs: list[BaseException] = field(default_factory=list)
    cuts: list[tuple[str, Refusal]] = field(default_factory=list)
    cut_ends: bool = True

    def lane(self, engine: str) -> Lane:
        return self.lanes.get(engine)

    def state(self, engine: str) -> State:
        return self.lane(engine).state

    def ask(self, engine: str, cause: Cause = Cause.REQUEST, by: Requester = BOT) -> Ask:
        return Ask(engine=EngineId(engine), cause=cause, requester=by, route="chat")

    def wanted(
        self, engine: str, cause: Cause = Cause.REQUEST, *, wait_s: float = LONG
    ) -> asyncio.Task[None]:
        """A caller that waits for `engine`. The test awaits the task, or lets it be."""
        work = self.starting.ensure_ready(self.lane(engine), self.ask(engine, cause), wait_s=wait_s)
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda it: it.cancelled() or it.exception())
        return task

    async def up(self, *engines: str) -> None:
        """Start these and wait, a minute for each at most."""
        for engine in engines:
            task = self.wanted(engine)
            await self.clock.advance(60)
            await task

    def enter(self, engine: str) -> InFlight:
        """A request in `engine`, as the gateway makes one. A cut ends it soon, unless `cut_ends` is off."""
        lane = self.lane(engine)

        def cut(cause: Refusal) -> None:
            self.cuts.append((engine, cause))
            self.driver.journal.append(f"cut {engine}")
            if self.cut_ends:
                asyncio.get_running_loop().call_soon(self.leave, entry)

        entry = self.requests.open(BOT, route="chat", path="/v1/chat/completions", cut=cut)
        lane.enter(entry)
        entry.phase = "streaming"
        return entry

    def leave(self, entry: InFlight) -> None:
        """The last byte of `entry` went out."""
        if entry.engine is not None:
            self.lane(entry.engine).leave(entry, self.clock.elapsed())
        self.requests.close(entry)

    async def serve(self, engine: str, seconds: float, *, wait_s: float = LONG) -> float:
        """One request from its arrival to its end, as the gateway does it; how long it waited."""
        begun = self.clock.elapsed()
        lane = self.lane(engine)
        while not lane.ready:
            await self.starting.ensure_ready(lane, self.ask(engine), wait_s=wait_s)
        entry = self.enter(engine)
        waited = self.clock.elapsed() - begun
        await self.clock.sleep(seconds)
        self.leave(entry)
        return waited

    async def ticks(self, seconds: float) -> None:
        """Let time pass with the watch running: one tick at each second."""
        left = seconds
        while left > 0:
            self.watch.tick()
            await self.clock.advance(min(1.0, left))
            left -= 1.0

    def again(self) -> World:
        """A second daemon on the same host: other services, the same driver, machine, files and time."""
        return join(self.fleet, self.clock, self.driver, self.machine, self.hold, self.files)


def engine(
    name: str,
    *,
    group: str | None = None,
    need: float | None = 10,
    **more: object,
) -> Engine:
    """An engine of the host `crow`. `need` is in GiB, None for unknown."""
    needs = frozen({"host": round(need * GIB)} if need is not None else {})
    made = Engine(id=EngineId(name), host=CROW, argv=("serve",), group=group, need=needs)
    return replace(made, **more)  # type: ignore[arg-type]  # a test names the fields that matter to it


def group(
    name: str = "big",
    *,
    min_resident_s: float = 0.0,
    yield_after_s: float = 0.0,
    idle_revert: str | None = None,
    evicts: tuple[str, ...] = (),
) -> Group:
    """A group of the host `crow`, without patience unless a test wants some."""
    return Group(
        name=name,
        host=CROW,
        evicts=evicts,
        idle_revert=EngineId(idle_revert) if idle_revert is not None else None,
        min_resident_s=min_resident_s,
        yield_after_s=yield_after_s,
    )


def fleet(
    engines: Iterable[Engine],
    groups: Iterable[Group] = (),
    *,
    orchestration: bool = True,
    on_floor: tuple[str, ...] = (),
) -> Fleet:
    """A fleet of the one host `crow`."""
    host = Host(
        name=CROW,
        orchestration=orchestration,
        groups=frozen({it.name: it for it in groups}),
        on_floor=tuple(EngineId(it) for it in on_floor),
    )
    return Fleet(
        here=CROW,
        head=(CROW,),
        node=Node(),
        hosts=frozen({CROW: host}),
        engines=frozen({it.id: it for it in engines}),
    )


@asynccontextmanager
async def world(
    *engines: Engine,
    groups: Iterable[Group] = (),
    orchestration: bool = True,
    on_floor: tuple[str, ...] = (),
) -> AsyncIterator[World]:
    """A host with these engines. At the end nothing of it runs on."""
    inline_threads()
    before = asyncio.all_tasks()
    clock = ManualClock()
    driver = TimedDriver(clock=clock)
    made = fleet(engines, groups, orchestration=orchestration, on_floor=on_floor)
    machine = FakeMachine(driver=driver)
    for it in engines:
        machine.sizes[it.id] = it.need.get("host", 0)
        driver.sizes[it.id] = it.need.get("host", 0)
    essentials = frozenset(str(it.id) for it in engines if it.essential)
    hold = FakeHold(clock, essentials=essentials)
    try:
        yield join(made, clock, driver, machine, hold, MemoryStateFiles())
    finally:
        left = [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await settle()


def lane_of(it: Engine, now: float, port: int) -> Lane:
    """Its lane. Ports are given in order."""
    launch = Launch(
        engine=it.id,
        driver=it.driver.value,
        argv=it.argv if it.driver is not DriverKind.EXTERNAL else (),
        cwd="/",
        address="127.0.0.1",
        port=it.port or port,
        url=f"http://127.0.0.1:{it.port or port}",
        model=it.model or it.id,
        directory=f"/state/engines/{it.id}",
    )
    return Lane(engine=it, launch=launch, status=EngineState(engine=it.id), used=now, down_since=now)


def lanes_of(made: Fleet, clock: ManualClock, events: EventList) -> Lanes:
    """The engines of this host."""
    found = {it.id: lane_of(it, clock.elapsed(), 8100 + n) for n, it in enumerate(made.local_engines())}
    return Lanes(config=Present(fleet=made), clock=clock, events=events, by_id=coupled(frozen(found)))


def drivers_of(driver: TimedDriver, parts: Distributed) -> Mapping[str, Driver]:
    """One fake for both kinds, and what acts on the members of distributed engines."""
    fakes: Mapping[str, Driver] = {"process": driver, "external": driver}
    return frozen({**fakes, "distributed": DistributedDriver(parts=parts, drivers=fakes)})


def engines_of(
    lanes: Lanes,
    gate: Gate,
    driver: TimedDriver,
    machine: FakeMachine,
    files: MemoryStateFiles,
    events: EventList,
    parts: Distributed,
) -> Engines:
    """What starts and stops the engines of these lanes."""
    clock, drivers = lanes.clock, drivers_of(driver, parts)
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
        over=parts.over,
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


def watch_of(
    engines: Engines,
    holds: Holds,
    machine: FakeMachine,
    files: MemoryStateFiles,
    events: EventList,
    bugs: list[BaseException],
) -> Watch:
    """The loop of a daemon, whose bugs are listed."""

    def bug(error: BaseException) -> str:
        bugs.append(error)
        return f"bug_{len(bugs)}"

    return Watch(
        engines=engines,
        holds=holds,
        drivers=engines.drivers,
        activity=FakeActivity(machine),
        memory=machine,
        files=files,
        clock=engines.clock,
        events=events,
        vitals=Vitals(),
        bug=bug,
        ports=machine,
        markers=files,
        strike=WindowStrikes(host="crow", files=files, clock=engines.clock).strike,
    )


def join(
    made: Fleet,
    clock: ManualClock,
    driver: TimedDriver,
    machine: FakeMachine,
    hold: FakeHold,
    files: MemoryStateFiles,
    *,
    disabled: str | None = None,
) -> World:
    """The services of one daemon, as the bootstrap joins them."""
    events, ids = EventList(), CountingIds()
    lanes = lanes_of(made, clock, events)
    guard = Guard()
    parts = Distributed(
        lanes=lanes, files=files, ids=ids, clock=clock, events=events, guard=guard, over=asyncio.Event()
    )
    holds = Holds(host=CROW, reader=hold, changes=machine, clock=clock, events=events)
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
        disabled=disabled,
        members=parts,
        guard=guard,
    )
    engines = engines_of(lanes, gate, driver, machine, files, events, parts)
    bugs: list[BaseException] = []
    watch = watch_of(engines, holds, machine, files, events, bugs)
    return World(
        fleet=made,
        clock=clock,
        ids=ids,
        driver=driver,
        machine=machine,
        hold=hold,
        files=files,
        events=events,
        lanes=lanes,
        holds=holds,
        gate=gate,
        measure=engines.measure,
        stopping=engines.stopping,
        starting=engines.starting,
        engines=engines,
        requests=Requests(clock=clock, ids=ids),
        watch=watch,
        parts=parts,
        bugs=bugs,
    )
