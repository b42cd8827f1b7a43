"""Kill the runner before and after every call, forward and in the undo, twice; one release puts all back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.lease import Lease, State, UndoBegun
from hostler.domain.step import (
    ArmDeadman,
    CallWebhook,
    DrainEngine,
    HoldHost,
    PointRoute,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
)
from hostler.services.recovery import recover
from hostler.services.schedule_needs import Node, ScheduleStore
from tests.fakes.ids import CountingIds
from tests.services.lease_house import ID, BothStores, House

HOLD = HoldHost(host="crow")
CHAT_AWAY = PointRoute(host="crow", route="chat", profile="away")
VOICE_AWAY = PointRoute(host="crow", route="voice", profile="away")
CHAT_CODER = PointRoute(host="crow", route="chat", profile="coder")
FANS = RunCommand(host="crow", argv=("fans", "full"), undo=("fans", "auto"), check=("fans", "is-full"))
NOTE = RunCommand(host="crow", argv=("note",), undo=("note",))
ONCE = RunCommand(host="crow", argv=("once",))
BOARD = CallWebhook(host="crow", url="https://board.example.net", undo="https://board.example.net/free")


def put_away(engine: str, *, suspend: bool = True) -> tuple[Step, Step]:
    """The two steps that take an engine off."""
    stop = SuspendEngine if suspend else StopEngine
    return DrainEngine(host="crow", engine=engine, drain_s=60.0), stop(host="crow", engine=engine)


PLANS: dict[str, tuple[Step, ...]] = {
    "routes": (CHAT_AWAY, VOICE_AWAY),
    "suspend": (CHAT_AWAY, *put_away("big")),
    "as_found": (VOICE_AWAY, *put_away("resting"), *put_away("cold")),
    "outside": (HOLD, FANS, NOTE, BOARD),
    "two_steps": (
        HOLD,
        CHAT_AWAY,
        *put_away("big", suspend=False),
        StartEngine(host="crow", engine="coder"),
        CHAT_CODER,
    ),
    "window": (
        ArmDeadman(host="crow", window=ID, mode="heavy", cap_s=3600.0, bring_back=("big",), end=("coder",)),
        HOLD,
        CHAT_AWAY,
        *put_away("big"),
        StartEngine(host="crow", engine="coder"),
        CHAT_CODER,
    ),
    "two_hosts": (
        HOLD,
        HoldHost(host="raven"),
        CHAT_AWAY,
        DrainEngine(host="crow", engine="big", drain_s=60.0),
        DrainEngine(host="raven", engine="big", drain_s=60.0),
        SuspendEngine(host="crow", engine="small"),
        SuspendEngine(host="crow", engine="big"),
        SuspendEngine(host="raven", engine="big"),
        StartEngine(host="raven", engine="coder"),
    ),
    "box": (HOLD, CHAT_AWAY, VOICE_AWAY, *put_away("big"), *put_away("resting"), FANS, BOARD),
}


class Crash(BaseException):
    """The daemon is killed here."""


@dataclass
class Fuse:
    """Counts the places where the daemon may be killed, and kills it at one of them. `left` < 0: never."""

    left: int = -1
    burnt: int = 0

    def burn(self) -> None:
        self.burnt += 1
        if self.left == 0:
            raise Crash
        self.left -= 1


class Fused:
    """A store or a node that is killed before or after its nth call."""

    def __init__(self, inner: object, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        call = cast("Callable[..., Awaitable[object]]", getattr(self._inner, name))

        async def fused(*args: object) -> object:
            self._fuse.burn()
            await asyncio.sleep(0)
            result = await call(*args)
            self._fuse.burn()
            return result

        return fused


class Doomed:
    """One lease that is taken and given back by daemons that are killed. `runs` counts the daemons."""

    def __init__(self, plan: Sequence[Step], store: BothStores) -> None:
        self.house = House(plan, store=store)
        self.runs = 0
        self.invariant_broken: list[str] = []
        self.house.node.changed = self._look

    def _look(self, phrase: str) -> None:
        """LEASE-4: a route that points at engines points at one that is up, at every instant."""
        world = self.house.node.world
        for name, route in world.routes.items():
            engines, upstreams = route.profiles[route.active or ""]
            if engines and not upstreams and not any(world.engines[it].up for it in engines):
                self.invariant_broken.append(f"after {phrase}: {name} is on {route.active}")

    def _done(self) -> int:
        return sum(len(it.log) for it in (self.house.node, *self.house.others.values()))

    async def daemon(self, at: int, work: Callable[[House, Fuse], Awaitable[Lease]]) -> int:
        """One life of a daemon that is killed at place `at`, then the next; how many places it met."""
        self.runs += 1
        fuse = Fuse(at)
        nodes = (self.house.node, *self.house.others.values())
        for node in nodes:
            node.between = fuse.burn
        try:
            await work(self.house, fuse)
        except Crash:
            await self._recover()
        finally:
            for node in nodes:
                node.between = lambda: None
        return fuse.burnt

    async def _recover(self) -> None:
        """What was in flight is stuck, nothing else is, and nothing is replayed (R35)."""
        held, done = await self.house.lease(), self._done()
        stuck = await recover(self.house.store, self.house.clock)
        in_flight = held.state in (State.ACTIVATING, State.RELEASING)
        assert [it.id for it in stuck] == ([ID] if in_flight else [])
        assert (await self.house.lease()).state is (State.STUCK if in_flight else held.state)
        assert self._done() == done

    async def end(self) -> None:
        """One later release, by a daemon that lives, puts everything back (R39)."""
        self.runs += 1
        if not (await self.house.lease()).state.ended:
            assert (await self.house.release()).state in (State.RELEASED, State.FAILED)
        assert self.house.node.world == self.house.before
        elsewhere = {host: it.world for host, it in self.house.others.items()}
        assert elsewhere == self.house.before_elsewhere
        assert self.invariant_broken == []
        assert not any(entry.state.owed for entry in await self.house.journal())


def _reached(house: House, fuse: Fuse) -> tuple[ScheduleStore, dict[str, Node]]:
    nodes = {host: cast("Node", Fused(it, fuse)) for host, it in house.nodes.items()}
    return cast("ScheduleStore", Fused(house.store, fuse)), nodes


async def forward(house: House, fuse: Fuse) -> Lease:
    """The daemon activates the lease."""
    await house.grant()
    return await house.runner_of(*_reached(house, fuse)).activate(ID)


async def backward(house: House, fuse: Fuse) -> Lease:
    """The daemon puts back what was done, if the lease is not over yet."""
    if (await house.lease()).state.ended:
        return await house.lease()
    await house.say(UndoBegun(ending=State.RELEASED))
    return await house.runner_of(*_reached(house, fuse)).restore(ID)


async def killed(plan: Sequence[Step], make: Callable[[], BothStores], *at: int) -> tuple[int, bool]:
    """Daemons killed at these places, the first while it activates, the others in the undo; -1 is not killed.

    How many daemons ran, and whether the last one met its place at all.
    """
    doomed = Doomed(plan, make())
    met = 0
    for place, work in zip(at, (forward, backward, backward), strict=False):
        met = await doomed.daemon(place, work)
    await doomed.end()
    await doomed.house.store.close()
    return doomed.runs, met > at[-1]


async def sweep(plan: Sequence[Step], make: Callable[[], BothStores], step: int) -> int:
    """Kill at every pair of places, or at every `step`th: in the activation and its undo, and in two undos.

    How many daemons ran.
    """
    runs = 0
    for before in ((), (-1,)):
        for first in itertools.count(0, step):
            count, met = await killed(plan, make, *before, first)
            runs += count
            if not met:
                break
            for second in itertools.count(0, step):
                count, met = await killed(plan, make, *before, first, second)
                runs += count
                if not met:
                    break
    return runs


def tell(capsys: pytest.CaptureFixture[str], what: str, runs: int) -> None:
    """The number of runs is printed, whatever pytest captures."""
    with capsys.disabled():
        print(f"\ncrash sweep, {what}: {runs} daemons")  # noqa: T201 - asked for


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
async def test_any_two_crashes_then_a_release_puts_everything_back(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """LEASE-10, LEASE-14, R17, R35, R39, F06, F07, F08: killed before and after every store and node call and
    between the halves of an effect, forward and in the undo, twice, a lease is stuck each time, nothing is
    replayed, and one later release puts everything back.
    """
    runs = await sweep(PLANS[name], lambda: MemoryStore(CountingIds()), 1)
    tell(capsys, f"{name} on the memory store, every place", runs)
    assert runs > 500


async def test_crashes_at_some_places_of_every_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """LEASE-10, LEASE-14, R35, R39: the same at every fifth place, for `make check`."""
    runs = 0
    for plan in PLANS.values():
        runs += await sweep(plan, lambda: MemoryStore(CountingIds()), 5)
    tell(capsys, "all plans on the memory store, every fifth place", runs)
    assert runs > 1000


def sqlite_stores(folder: Path) -> Callable[[], BothStores]:
    """Makes a store in a new file each time."""
    numbers = itertools.count()
    return lambda: SqliteStore(folder / f"{next(numbers)}.db", CountingIds(), busy_s=30)


@pytest.mark.parametrize("name", ["suspend", "box"])
async def test_crashes_on_the_real_store(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LEASE-10, LEASE-14, R17, R35: the same on the SQLite store, at some places."""
    runs = await sweep(PLANS[name], sqlite_stores(tmp_path), 9)
    tell(capsys, f"{name} on the SQLite store, every ninth place", runs)
    assert runs > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
async def test_more_crashes_on_the_real_store(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LEASE-10, LEASE-14, R17, R35, R39: the same on the SQLite store, at every third place."""
    runs = await sweep(PLANS[name], sqlite_stores(tmp_path), 3)
    tell(capsys, f"{name} on the SQLite store, every third place", runs)
    assert runs > 50
