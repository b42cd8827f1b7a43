"""One node's tasks, in order: adopt, serve, watch, and the end (ENG-7, REL-5).

Decides what begins and ends when. What each task does is its service's; how they are joined is
`bootstrap`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal, Protocol

from hostler.domain.errors import Draining, Refusal, ScheduleUnavailable
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.values import Requester
from hostler.services.engines import Engines
from hostler.services.event_queue import EventQueue
from hostler.services.feed import Feed
from hostler.services.history import History
from hostler.services.keeper import Keeper
from hostler.services.lanes import InFlight
from hostler.services.needs import Clock, Events, Store
from hostler.services.reload import Reload
from hostler.services.requests import Requests
from hostler.services.status import Vitals
from hostler.services.watch import Watch

CUT_S: Final = 2.0
"""How long streams that the end cuts have for their error frame."""
FLUSH_S: Final = 5.0
ADOPT_S: Final = 5.0
"""How long residency waits for the first looks at what an earlier daemon left."""
DOOR_S: Final = 1.0
"""How long the first requests wait for these looks: a look that hangs keeps nobody from the other engines."""
LAG_EVERY_S: Final = 1.0
EMPTY_LOOK_S: Final = 0.02
KEPT_S: Final = 90 * 86_400.0
"""Events are kept for 90 days (HIST-3)."""
PRUNE_EVERY_S: Final = 3600.0
PRUNED: Final = 1000
PRUNED_ENDED: Final = 100
"""Leases and jobs in one step: each has its steps, receipts and points with it."""


class Server(Protocol):
    """The listening side."""

    should_exit: bool

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `should_exit`."""
        ...


class Lock(Protocol):
    """The one daemon's claim on this box (CONF-5)."""

    def release(self) -> None:
        """Give it up: another daemon may orchestrate."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """Everything that one node runs. `announce` writes daemon.json, `retract` takes it away.

    `ready` tells who started the daemon that it serves.
    `restore` puts back what a window left when neither its daemon nor its deadman is there any more (WIN-11).
    `beside` are loops about other nodes, by name; `hang_up` ends the connections to them.
    """

    engines: Engines
    watch: Watch
    reload: Reload
    keeper: Keeper | None = None
    history: History | None = None
    queue: EventQueue
    events: Events
    feed: Feed
    requests: Requests
    store: Store
    server: Server
    sockets: Sequence[socket.socket]
    lock: Lock | None
    clock: Clock
    vitals: Vitals
    announce: Callable[[], None]
    ready: Callable[[], None]
    retract: Callable[[], None]
    restore: Callable[[], Coroutine[object, object, None]] | None = None
    close: Callable[[], None]
    beside: Mapping[str, Callable[[], Coroutine[object, object, None]]] = field(default_factory=dict)
    hang_up: Callable[[], Coroutine[object, object, None]] | None = None
    bug: Callable[[BaseException], str]
    version: str
    listen: tuple[str, ...]
    on_exit: Literal["keep", "stop"] = "keep"
    shutdown_s: float = 30.0
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, at_once: Callable[[int], None]) -> int:
        """Serve until a signal; a second one calls `at_once`. The exit code."""
        self._signals(at_once)
        background = [
            asyncio.create_task(self._named("events", self.queue.run())),
            asyncio.create_task(self._named("loop lag", self._lag())),
            asyncio.create_task(self._named("pruning", self._prune())),
        ]
        here, at = self.engines.lanes.config.fleet.here, ", ".join(self.listen)
        self._tell("daemon_started", f"hostler {self.version} serves {here} at {at}")
        if self.restore is not None:
            await self._named("restoring windows", self.restore())
        if self.keeper is not None:
            # Before anything can be started: what leases hold, and what a crash left of them (LEASE-14).
            await self.keeper.begin()
        adopting = [
            asyncio.create_task(self._named(f"adopting {lane.engine.id}", self.engines.adopt(lane)))
            for lane in self.engines.lanes.by_id.values()
        ]
        if adopting:
            # Who comes now waits at the door: a request must not take an engine that runs for a stopped one.
            await asyncio.wait(adopting, timeout=DOOR_S)
        serving = asyncio.create_task(self.server.serve(sockets=list(self.sockets)))
        await asyncio.to_thread(
            self._guarded, "where commands find this daemon was not written", self.announce
        )
        self._guarded("systemd was not told that this daemon serves", self.ready)
        watching = asyncio.create_task(self._watch(adopting))
        if self.history is not None:
            background.append(asyncio.create_task(self._named("history", self.history.run())))
        loops = [watching, asyncio.create_task(self._named("following the config", self.reload.follow()))]
        loops += [asyncio.create_task(self._named(name, run())) for name, run in self.beside.items()]
        if self.keeper is not None:
            loops.append(asyncio.create_task(self._named("keeper", self.keeper.run())))
        stopping = asyncio.create_task(self.stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await self._end(serving, loops, adopting)
        for task in (*background, stopping):
            task.cancel()
        await asyncio.gather(*background, stopping, return_exceptions=True)
        if self.hang_up is not None:
            await self.hang_up()
        await self.store.close()
        self.close()
        return 0

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        """Do what serves commands only: a full or read-only disk must not end inference (REL-1)."""
        try:
            work()
        except OSError as error:
            self.vitals.warnings = (*self.vitals.warnings, f"{what}: {error.strerror}")
            self.bug(error)

    async def _watch(self, adopting: Sequence[asyncio.Task[None]]) -> None:
        """The loop, once it is known what an earlier daemon left: nothing is started before that.

        An engine that is still loading is adopted in its own time; the others do not wait for it.
        """
        if adopting:
            await asyncio.wait(adopting, timeout=ADOPT_S)
        await self.watch.run()

    async def _end(
        self,
        serving: asyncio.Task[None],
        loops: Sequence[asyncio.Task[None]],
        adopting: Sequence[asyncio.Task[None]],
    ) -> None:
        """Start nothing more, listen no more, finish what runs up to `shutdown_s`, then cut (REL-5).

        The loops end before the lock is given up: a successor's keeper finds nobody at work (LEASE-14).
        """
        for task in (*loops, *adopting):
            task.cancel()
        await asyncio.gather(*loops, *adopting, return_exceptions=True)
        self.server.should_exit = True
        self.feed.stop()
        if self.keeper is not None:
            self.keeper.waiters.release()
        if self.on_exit == "keep" and self.lock is not None:
            self.lock.release()
        self._guarded("daemon.json was not removed", self.retract)
        self._cut(lambda entry: entry.phase == "loading")
        self.engines.starting.end()
        await self._requests_end(self.shutdown_s)
        self._cut(lambda _: True)
        await self._requests_end(CUT_S)
        if self.on_exit == "stop":
            await self._stop_engines()
        self._tell("daemon_stopped", f"shut down in order{self._left()}")
        await self.queue.flush(FLUSH_S)
        done, _ = await asyncio.wait({serving}, timeout=CUT_S)
        if not done:
            serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        if self.on_exit == "stop" and self.lock is not None:
            self.lock.release()

    def _cut(self, which: Callable[[InFlight], bool]) -> None:
        """End requests with the reason. Who waits for a start waits in vain: the next daemon adopts it."""
        for entry in self.requests.all():
            if which(entry):
                engine = entry.engine or entry.route
                entry.cut(Draining(engine=engine, why="the daemon shuts down", retry_after=1))

    async def _requests_end(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.requests.table:
                    await self.clock.sleep(EMPTY_LOOK_S)

    def _left(self) -> str:
        """What goes on running without a daemon, by name: commands that stop it need one."""
        running = [
            f"{lane.engine.id} (pid {lane.run.pid})"
            for lane in self.engines.lanes.by_id.values()
            if lane.run is not None and not lane.engine.members
        ]
        return f"; still running: {', '.join(running)}" if running else ""

    async def _stop_engines(self) -> None:
        by = Requester(client="shutdown")
        lanes = [lane for lane in self.engines.lanes.by_id.values() if lane.run is not None]

        async def one(engine: str) -> None:
            try:
                await self.engines.stop(engine, by, timeout_s=0.0)
            except Refusal as refusal:
                self._tell("daemon_stopped", f"{engine} was left as it is: {refusal}")

        await asyncio.gather(*(one(lane.engine.id) for lane in lanes))

    async def _lag(self) -> None:
        """How late the loop wakes who asked for a time (REL-7)."""
        while True:
            before = self.clock.elapsed()
            await self.clock.sleep(LAG_EVERY_S)
            self.vitals.loop_lag_s = max(0.0, self.clock.elapsed() - before - LAG_EVERY_S)

    async def _prune(self) -> None:
        """Drop events older than they are kept, a few at a time; a store that fails is tried in an hour."""
        while True:
            before = self.clock.now() - timedelta(seconds=KEPT_S)
            try:
                while await self.store.prune(before, PRUNED) == PRUNED:
                    pass
                if self.keeper is not None:
                    while await self.keeper.prune(PRUNED_ENDED) == PRUNED_ENDED:
                        pass
            except ScheduleUnavailable as refusal:
                self.bug(refusal)
            await self.clock.sleep(PRUNE_EVERY_S)

    async def _named(self, name: str, work: Coroutine[object, object, None]) -> None:
        """A task whose bug is logged: it ends alone, and inference goes on (REL-1)."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - as the docstring says
            self.vitals.warnings = (*self.vitals.warnings, f"{name} ended: error {self.bug(error)}")

    def _signals(self, at_once: Callable[[int], None]) -> None:
        loop = asyncio.get_running_loop()

        def heard(number: int) -> None:
            if self.stop.is_set():
                at_once(128 + number)
            self.stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, heard, number)
        loop.add_signal_handler(signal.SIGHUP, self.reload.ask)

    def _tell(self, kind: str, text: str) -> None:
        here = self.engines.lanes.config.fleet.here
        self.events.emit(Event(type=kind, at=self.clock.now(), subject=frozen({"host": here}), message=text))
