"""What a host has beside its engines, in memory: time that loads take, memory, ports, files and the hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from hostler.domain.curation import Crossing, LinkSeen
from hostler.domain.engine import Launch, Probe, Run, StopReport
from hostler.domain.hold import HoldRecord, HoldState, HoldView
from hostler.domain.memory import Pools, Reading
from hostler.domain.values import EngineId
from tests.fakes.clock import ManualClock
from tests.fakes.driver import FakeDriver

GIB = 1 << 30


@dataclass(slots=True)
class TimedDriver(FakeDriver):
    """A FakeDriver whose loads and stops take the time that a test says.

    `journal` gets what was done, in order, with who ran then: `most` is the most that ever ran at once.
    `slow_probe` makes each look take that long. `crumbs` are told to the port table.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    load_s: dict[EngineId, float] = field(default_factory=dict)
    stop_s: dict[EngineId, float] = field(default_factory=dict)
    slow_probe: float = 0.0
    journal: list[str] = field(default_factory=list)
    most: int = 0
    broken_stop: Exception | None = None

    async def start(self, launch: Launch) -> Run:
        load = self.load_s.get(launch.engine, 0.0)
        if load > 0:
            self.loading.add(launch.engine)
        run = await FakeDriver.start(self, launch)
        self.journal.append(f"start {launch.engine}")
        self.most = max(self.most, len(self.running))
        if load > 0:
            asyncio.get_running_loop().create_task(self._loads(launch.engine, run, load))
        return run

    async def _loads(self, engine: EngineId, run: Run, seconds: float) -> None:
        await self.clock.sleep(seconds)
        found = self.running.get(engine)
        if found is not None and found.run == run:
            found.health = "ok"

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        if self.slow_probe > 0:
            await self.clock.sleep(self.slow_probe)
        return await FakeDriver.probe(self, launch, run)

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        self.journal.append(f"signal {launch.engine}{' now' if now else ''}")
        if self.broken_stop is not None:
            raise self.broken_stop
        seconds = 0.0 if now else self.stop_s.get(launch.engine, 0.0)
        found = self.running.get(launch.engine)
        if seconds > 0 and found is not None:
            waits = [
                asyncio.ensure_future(self.clock.sleep(seconds)),
                asyncio.ensure_future(found.ended.wait()),
            ]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in waits:
                each.cancel()
        report = await FakeDriver.stop(self, launch, run, timeout_s=timeout_s, now=now)
        self.journal.append(f"gone {launch.engine}" if report.gone else f"stays {launch.engine}")
        return report


@dataclass(slots=True)
class FakeMachine:
    """Memory, ports, model files, programs and connections of a host. `reads` counts who was asked."""

    driver: FakeDriver
    total: int = 124 * GIB
    sizes: dict[EngineId, int] = field(default_factory=dict)
    pinned: int = 0
    others: int = 0
    broken: bool = False
    holders: dict[int, str] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    files: dict[str, int] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    counters: dict[EngineId, float] = field(default_factory=dict)
    asked: list[EngineId] = field(default_factory=list)
    forced: list[str] = field(default_factory=list)
    reads: dict[str, int] = field(default_factory=dict)
    builds: dict[str, str] = field(default_factory=dict)
    asked_builds: list[str] = field(default_factory=list)
    links: dict[str, LinkSeen] = field(default_factory=dict)

    def read(self) -> Pools:
        """The need `MemoryReader`."""
        self._count("memory")
        if self.broken:
            raise OSError(5, "Input/output error")
        held = sum(self.sizes.get(engine, 0) for engine in self.driver.running)
        free = self.total - held - self.pinned - self.others
        return {"host": Reading(total=self.total, available=max(0, free))}

    def holder(self, address: str, port: int) -> str | None:
        """The need `PortTable`: strangers, and what of ours runs."""
        self._count("ports")
        ours = (it for it in self.driver.running.values() if it.launch.port == port)
        mine = next((f"pid {it.run.pid} ({it.run.engine})" for it in ours), None)
        return self.driver.strangers.get(port) or mine

    def path(self, name: str) -> str:
        return f"/models/{name}"

    def size(self, name: str) -> int | None:
        """The need `Models`."""
        self._count("disk")
        return None if name in self.missing else self.files.get(name, GIB)

    def exists(self, program: str, env: Mapping[str, str], cwd: str) -> bool:
        """The need `Programs`."""
        self._count("disk")
        return program not in self.missing

    def report(self, program: str, env: Mapping[str, str], cwd: str) -> str | None:
        return self.builds.get(program) if program in self.asked_builds else None

    async def ask(self, program: str, env: Mapping[str, str], cwd: str) -> None:
        self.asked_builds.append(program)

    async def probe(self, crossings: Sequence[Crossing]) -> Sequence[LinkSeen]:
        """The need `Links`: all are up, fast and reached, unless a test says otherwise."""
        self._count("links")
        good = LinkSeen(up=True, speed=40 * 10**9, reached=True)
        return [self.links.get(crossing.to, good) for crossing in crossings]

    def close(self, url: str) -> None:
        """The need `Connections`."""
        self.closed.append(url)
        if isinstance(self.driver, TimedDriver):
            self.driver.journal.append(f"close {url}")

    def take(self) -> Sequence[str]:
        """The need `ForcedChanges`."""
        found, self.forced = self.forced, []
        return found

    async def activity(self, launch: Launch) -> float | None:
        self.asked.append(launch.engine)
        return self.counters.get(launch.engine)

    def _count(self, what: str) -> None:
        self.reads[what] = self.reads.get(what, 0) + 1


@dataclass(slots=True)
class FakeActivity:
    """The need `Activity`: the machine's `counters`."""

    machine: FakeMachine

    async def read(self, launch: Launch) -> float | None:
        return await self.machine.activity(launch)


@dataclass(slots=True)
class FakeHold:
    """The need `HoldReader`: what a test wrote, judged at the clock's time. `reads` counts."""

    clock: ManualClock
    record: HoldRecord | None = None
    defect: str | None = None
    essentials: frozenset[str] = frozenset()
    overlong: bool = False
    reads: int = 0

    def read(self) -> HoldView:
        self.reads += 1
        if self.defect is not None:
            state, identity = HoldState.UNREADABLE, f"unreadable: {self.defect}"
            return HoldView(
                state=state,
                path="/run/hold.json",
                defect=self.defect,
                identity=identity,
                allow=self.essentials,
            )
        if self.record is None:
            return HoldView(state=HoldState.FREE, path="/run/hold.json", allow=self.essentials)
        lapsed = self.clock.now() >= self.record.expires_at
        return HoldView(
            state=HoldState.LAPSED if lapsed else HoldState.HELD,
            path="/run/hold.json",
            record=self.record,
            until=self.record.expires_at,
            identity=f"{self.record.owner}@{self.record.started_at}",
            allow=self.essentials.union(self.record.allow),
            overlong=self.overlong,
        )

    def write(self, owner: str = "bench", *, seconds: float = 3600.0, allow: Iterable[str] = ()) -> None:
        """Somebody holds the host from now on."""
        now = self.clock.now()
        self.defect = None
        self.record = HoldRecord(
            owner=owner,
            reason="window",
            started_at=now,
            expires_at=now + timedelta(seconds=seconds),
            allow=tuple(allow),
            raw={"owner": owner},
        )

    def remove(self) -> None:
        """The hold's file is gone."""
        self.record = self.defect = None
