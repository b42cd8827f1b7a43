import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.daemon import AGAIN_S, PRUNE_EVERY_S, Daemon
from hostler.domain.errors import ScheduleUnavailable, StoreFull
from hostler.domain.moment import Moment
from hostler.services.event_queue import EventQueue
from hostler.services.feed import Feed
from hostler.services.keeper import Keeper
from hostler.services.keys import keyring
from hostler.services.routes import Routes, load
from tests.fakes.ids import CountingIds
from tests.fakes.reloading import reload_in
from tests.fakes.schedule_world import head
from tests.fakes.world import World, engine, lane_of, world
from tests.services.test_observe_health import status


class Server:
    """A listening side that serves nobody and ends when it is told to."""

    def __init__(self) -> None:
        self.serving = asyncio.Event()
        self.told = asyncio.Event()

    @property
    def should_exit(self) -> bool:
        return self.told.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        assert value
        self.told.set()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self.serving.set()
        await self.told.wait()


class Refusing(MemoryStore):
    """A store whose first pruning is refused."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__(CountingIds())
        self.refusal = refusal
        self.pruned = 0

    async def prune(self, before: datetime, limit: int) -> int:
        self.pruned += 1
        if self.pruned == 1:
            raise self.refusal
        return await super().prune(before, limit)


class Lock:
    """The one daemon's claim, and whether it was given up."""

    released = False

    def release(self) -> None:
        self.released = True


def nobody() -> None:
    """Nobody asked to be told."""


def daemon(
    it: World, announce: Callable[[], None], retract: Callable[[], None], ready: Callable[[], None] = nobody
) -> Daemon:
    def bug(error: BaseException) -> str:
        it.bugs.append(error)
        return "err_1"

    store = MemoryStore(CountingIds())
    queue = EventQueue(store=store, clock=it.clock, ids=CountingIds())
    return Daemon(
        engines=it.engines,
        watch=it.watch,
        reload=reload_in(
            it.engines,
            Routes(files=it.files, clock=it.clock, events=it.events, current=load(it.fleet, it.files)),
            keyring(configured=(), kept=(), local=None, clock=it.clock),
            launch=lambda made: lane_of(made, 0.0, 8100).launch,
            bug=bug,
        ),
        queue=queue,
        events=it.events,
        feed=Feed(queue=queue, draw=status(it).picture, clock=it.clock),
        requests=it.requests,
        store=store,
        server=Server(),
        sockets=(),
        lock=Lock(),
        clock=it.clock,
        vitals=it.watch.vitals,
        announce=announce,
        ready=ready,
        retract=retract,
        close=lambda: None,
        bug=bug,
        version="0",
        listen=("127.0.0.1:7070",),
    )


async def ended(it: World, made: Daemon) -> int:
    """The exit code of a daemon that is told to end once it serves and residents had their turn."""
    running = asyncio.create_task(made.run(lambda _: None))
    server = made.server
    assert isinstance(server, Server)
    await server.serving.wait()
    await it.clock.advance(5)
    made.stop.set()
    while not running.done():
        await it.clock.advance(1)
    return await running


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
async def test_a_disk_that_takes_nothing_ends_no_daemon(code: int) -> None:
    """REL-1: where daemon.json can be neither written nor removed, engines start and the end is whole."""
    failure = OSError(code, "the disk takes nothing")

    def fails() -> None:
        raise failure

    async with world(engine("fast", resident=True)) as it:
        made = daemon(it, fails, fails)
        assert await ended(it, made) == 0
        assert it.driver.started == ["fast"]
        assert made.vitals.warnings == (
            "where commands find this daemon was not written: the disk takes nothing",
            "daemon.json was not removed: the disk takes nothing",
        )
        assert it.bugs == [failure, failure]
        assert isinstance(made.lock, Lock)
        assert made.lock.released


async def test_daemon_json_is_tried_until_it_is_written() -> None:
    """REL-1: once the disk takes something again commands find the daemon, and nobody is warned any more."""
    tries: list[int] = []

    def announce() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "no space left")

    async with world() as it:
        made = daemon(it, announce, nobody)
        running = asyncio.create_task(made.run(lambda _: None))
        assert isinstance(made.server, Server)
        await made.server.serving.wait()
        for _ in range(20):
            # What is written in a thread comes back between two steps of the clock.
            await asyncio.gather(*(asyncio.to_thread(nobody) for _ in range(8)))
            await it.clock.advance(AGAIN_S)
        assert len(tries) == 3
        assert made.vitals.warnings == ()
        made.stop.set()
        while not running.done():
            await it.clock.advance(1)
        assert await running == 0


@pytest.mark.parametrize(
    "refusal",
    [StoreFull(file="s.db", why="full"), ScheduleUnavailable(why="away", file="s.db"), RuntimeError("a bug")],
)
async def test_pruning_goes_on_after_whatever_refused_it(refusal: Exception) -> None:
    """REL-1, HIST-3: a full store, one that is away and a bug are logged, and pruning is tried again."""
    async with world() as it:
        store = Refusing(refusal)
        made = replace(daemon(it, nobody, nobody), store=store)
        running = asyncio.create_task(made.run(lambda _: None))
        assert isinstance(made.server, Server)
        await made.server.serving.wait()
        await it.clock.advance(PRUNE_EVERY_S)
        assert store.pruned >= 2
        assert it.bugs == [refusal]
        made.stop.set()
        while not running.done():
            await it.clock.advance(1)
        assert await running == 0


async def test_a_loop_that_a_bug_ended_begins_again_and_says_so() -> None:
    """REL-1: of a loop beside the others a bug is logged and told in the warnings, and the loop goes on."""
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)
        if len(runs) == 1:
            raise RuntimeError("a bug")
        await asyncio.Event().wait()

    async with world() as it:
        made = replace(daemon(it, nobody, nobody), beside={"asking the nodes": run})
        running = asyncio.create_task(made.run(lambda _: None))
        assert isinstance(made.server, Server)
        await made.server.serving.wait()
        await it.clock.advance(AGAIN_S)
        await it.clock.advance(AGAIN_S)
        assert len(runs) == 2
        assert made.vitals.warnings == ("asking the nodes was begun again after error err_1",)
        made.stop.set()
        while not running.done():
            await it.clock.advance(1)
        assert await running == 0


async def test_the_end_names_what_goes_on_running() -> None:
    """REL-5: with engines that are kept, the last event says which go on running without a daemon."""
    async with world(engine("fast", resident=True)) as it:
        assert await ended(it, daemon(it, lambda: None, lambda: None)) == 0
        run = it.lane("fast").run
        assert run is not None
        last = [event for event in it.events.all if event.type == "daemon_stopped"]
        assert [event.message for event in last] == [
            f"shut down in order; still running: fast (pid {run.pid})"
        ]
        assert it.driver.stopped == []


class WatchedLock:
    """A claim that notes how far the keeper was when it was given up: how often it looked since."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.seen: Moment | None = None

    def release(self) -> None:
        self.seen = self.keeper.mind.last


async def test_no_keeper_works_on_beside_a_successors() -> None:
    """REL-5, LEASE-14: when the lock is given up the keeper has ended, though a stream is still open."""
    async with world(engine("fast")) as it, head() as other:
        await it.up("fast")
        keeper = replace(other.parts.keeper, clock=it.clock)
        lock = WatchedLock(keeper)
        made = replace(daemon(it, lambda: None, lambda: None), keeper=keeper, lock=lock)
        running = asyncio.create_task(made.run(lambda _: None))
        assert isinstance(made.server, Server)
        await made.server.serving.wait()
        await it.clock.advance(5)
        entry = it.enter("fast")
        made.stop.set()
        await it.clock.advance(10)
        assert lock.seen is not None
        assert keeper.mind.last == lock.seen
        it.leave(entry)
        while not running.done():
            await it.clock.advance(1)
        assert await running == 0


async def test_who_started_it_is_told_that_it_serves() -> None:
    """INTERFACE-1: whoever started the daemon is told that it serves after commands can find it, once."""
    told: list[str] = []
    async with world() as it:
        made = daemon(it, lambda: told.append("found"), nobody, lambda: told.append("serves"))
        assert await ended(it, made) == 0
    assert told == ["found", "serves"]


async def test_nobody_to_be_told_ends_no_daemon() -> None:
    """REL-1: where systemd cannot be told that the daemon serves it serves on, and warns."""

    def fails() -> None:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")

    async with world() as it:
        made = daemon(it, nobody, nobody, fails)
        assert await ended(it, made) == 0
        assert made.vitals.warnings == ("systemd was not told that this daemon serves: nobody listens",)
