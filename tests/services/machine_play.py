"""How the state machine is played: its daemon, its callers' memory, its clock, its persons (REL-3).

Decides when an answer counts, what a kill leaves, and what is looked at after each step. Which step comes is
the machine's decision, what must hold `tests.fakes.machine_checks`'.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, cast

from hostler.domain.errors import Refusal, ScheduleUnavailable
from hostler.domain.job import JobId
from hostler.domain.lease import LeaseId, State
from hostler.domain.step import FoundHold
from hostler.services.holdings import holdings
from hostler.services.schedule_needs import Node
from hostler.wire.schedule import ReserveBody
from tests.fakes import machine_checks as checks
from tests.fakes import machine_world as town
from tests.fakes import mortal
from tests.fakes.clock import ManualClock, settle
from tests.fakes.ids import CountingIds
from tests.fakes.machine_world import Thing
from tests.fakes.mortal import Fuse, Trouble
from tests.fakes.node import FakeNode
from tests.fakes.schedule_world import Head, join

_T = TypeVar("_T")
MEMORY = "/dev/shm"
IN_FLIGHT = (State.ACTIVATING, State.RELEASING)
Hear = Callable[[object, Refusal | None], None]
"""Who hears an answer, or the refusal; a daemon that was killed gave neither."""


def unheard(_answer: object, _refusal: Refusal | None) -> None:
    """Nobody minds."""


@dataclass(slots=True)
class Asked:
    """A reserve: what was sent, and the lease that was acknowledged."""

    body: ReserveBody
    request: str
    lease: LeaseId | None = None


@dataclass(slots=True)
class Call:
    """A call under way, and who hears its answer."""

    task: asyncio.Task[object]
    hear: Hear


@dataclass(slots=True)
class Mind:
    """What the callers know, and what the hosts should be like again.

    `touched` is what a person changed behind a lease, `left` what an operator abandoned; `down` are routes
    that lead to nothing; `broken` says which the daemon made so.
    """

    asked: list[Asked] = field(default_factory=list)
    jobs: dict[JobId, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    standing: dict[Thing, object] = field(default_factory=dict)
    touched: set[Thing] = field(default_factory=set)
    left: set[Thing] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    down: set[Thing] = field(default_factory=set)


class Play:
    """One schedule on its store and two hosts; `head` is the daemon that lives now."""

    head: Head

    def __init__(self, kind: str, config: str) -> None:
        # In memory where there is such a folder: a machine that dies with its disk is not played.
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None)
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _loop, _context: None)  # A killed task is nobody's to hear.
        self.clock, self.ids = ManualClock(), CountingIds()
        self.fakes = {host: FakeNode(host, world) for host, world in town.hosts().items()}
        self.worlds = {host: fake.world for host, fake in self.fakes.items()}
        for fake in self.fakes.values():
            fake.changed = self._changed
        self.fuse, self.trouble = Fuse(), Trouble()
        self.mind, self.log = Mind(standing=town.values(self.worlds)), checks.Log()
        self.tick: asyncio.Task[None] | None = None
        self.config = config
        self.store = mortal.open_store(kind, Path(self.folder.name), self.ids)
        self._daemon()
        self.head.parts.keeper.mind.grace_until = 0.0
        self.rows = self.seen()

    def close(self) -> None:
        """The daemon is killed, and everything of this play removed."""
        self.kill()
        self.loop.close()
        mortal.close(self.store)
        self.folder.cleanup()

    # ------------------------------------------------------------ the daemon

    def _daemon(self, calls: int = -1) -> None:
        """A daemon begins on the store as it is."""
        self.fuse = Fuse(calls)
        before = {id_ for id_, it in self.seen().live.items() if it.state in IN_FLIGHT}
        self.head = join(
            town.configs()[self.config],
            mortal.schedule_store(self.store, self.fuse, self.trouble),
            cast("dict[str, Node]", mortal.nodes(self.fakes, self.fuse, self.trouble)),
            self.clock,
            self.ids,
        )
        begun = self.loop.create_task(self.head.parts.keeper.begin())
        self.settle()
        if not begun.done():
            self.trouble.go_on()
            self.settle()
        error = begun.exception()
        if error is not None and not isinstance(error, mortal.Crash):
            raise error
        if self.head.parts.keeper.mind.begun:
            live = self.seen().live
            replayed = [it for it in before if it in live and live[it].state is not State.STUCK]
            assert not replayed, f"R35: {replayed} were in flight, and are not stuck"

    def revive(self, calls: int = -1) -> None:
        """The daemon is dead; the next one begins, and the one after it when that is killed as it begins."""
        self.kill()
        self.store = mortal.again(self.store, Path(self.folder.name), self.ids)
        self._daemon(calls)
        if self.fuse.dead:
            self.revive()

    def kill(self) -> None:
        """No call of the daemon reaches anything any more, and nobody hears its answers."""
        self.fuse.dead = True
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.run(_ended(tasks))
        self._heard()
        self.tick, self.trouble.gate = None, None

    def reboot(self, seconds: float) -> None:
        """The head's machine is restarted (F20): its hold went, which is nobody's to put back."""
        self.kill()
        town.boot(self.worlds["crow"], self.fakes["crow"].held, self.mind.standing)
        self.clock.reboot(seconds)
        self.mind.down = town.down(self.worlds)
        self.mind.standing["crow", "hold"] = self.worlds["crow"].hold
        self.revive()

    # ------------------------------------------------------------ calls and time

    def run(self, work: Coroutine[object, object, _T]) -> _T:
        """What is no daemon's: looks at the store, the clock."""
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        """Everything that can happen without time has happened."""
        self.run(settle())
        self._heard()

    def call(self, work: Coroutine[object, object, object], hear: Hear = unheard) -> None:
        """Call the daemon; the answer may come in a later step, or never."""
        self.mind.calls.append(Call(self.loop.create_task(work), hear))
        self.settle()

    def _heard(self) -> None:
        over = [it for it in self.mind.calls if it.task.done()]
        self.mind.calls = [it for it in self.mind.calls if not it.task.done()]
        for call in over:
            error = None if call.task.cancelled() else call.task.exception()
            if isinstance(error, Refusal):
                call.hear(None, error)
            elif error is None and not call.task.cancelled():
                call.hear(call.task.result(), None)
            elif error is not None and not isinstance(error, mortal.Crash):
                raise error

    def pass_(self, seconds: float, step: float) -> None:
        """Time passes with the keeper running; then nothing is overdue, if nothing hindered it."""
        while seconds > 0 and not self.fuse.dead:
            self.run(self.clock.advance(min(step, seconds)))
            self._tick()
            seconds -= step
        for _ in range(6):  # So that whoever waits for a passing condition is looked at (RETRY_S).
            if self.tick is not None or self.fuse.dead:
                return
            self.run(self.clock.advance(1.0))
            self._tick()
        if self.tick is None and not self.fuse.dead and not self.head.parts.keeper.mind.changed:
            self._looked()

    def _tick(self) -> None:
        self._heard()
        if self.tick is None:
            self.tick = self.loop.create_task(self.head.parts.keeper.tick())
        self.settle()
        if self.tick.done():
            error = self.tick.exception()
            self.tick = None
            if error is not None and not isinstance(error, mortal.Crash):
                raise error

    # ------------------------------------------------------------ persons and faults

    def moves(self, host: str, name: str, profile: str) -> None:
        """F12: somebody moves a route by hand."""
        if profile in self.worlds[host].routes[name].profiles:
            self.worlds[host].routes[name].active = profile
            self._changed_by_hand((host, f"route {name}"))

    def suspends(self, host: str, name: str) -> None:
        """R29: somebody suspends an engine by hand, or lets it go again."""
        found = self.worlds[host].engines[name]
        if "person:ann" in found.suspended_by:
            self._lets_go(host, name)
            return
        found.suspended_by.add("person:ann")
        found.up = False
        found.draining_by.clear()
        self._changed_by_hand((host, f"engine {name}"))

    def _lets_go(self, host: str, name: str) -> None:
        found = self.worlds[host].engines[name]
        found.suspended_by.discard("person:ann")
        found.up = found.up or (not found.suspended_by and found.healthy and name != "coder")
        self._changed_by_hand((host, f"engine {name}"))

    def holds(self, host: str) -> None:
        """Somebody takes the hold of a host, or gives it back."""
        world = self.worlds[host]
        if world.hold.owner is None:
            world.hold = FoundHold(identity="ann-1", owner="ann")
        elif world.hold.owner == "ann":
            world.hold = FoundHold()
        else:
            return
        self._changed_by_hand((host, "hold"))

    def _changed_by_hand(self, thing: Thing) -> None:
        """It is how the host stands from now on, or was changed behind the back of a lease."""
        leases = checks.touched_by(self.seen())
        self.mind.down = town.down(self.worlds)
        if thing not in leases:
            self.mind.standing[thing] = town.values(self.worlds)[thing]
            return
        self.mind.touched.add(thing)
        if thing[1].startswith("engine"):
            # A route that depends on it may be left where it is (LEASE-11).
            plan = leases[thing].plan
            self.mind.touched.update(it for it in town.things(plan) if it[1].startswith("route"))

    def heal(self) -> None:
        """No fault is left, and no person's suspension or hold."""
        self.fuse.left = self.trouble.lose_in = -1
        self.trouble.refusals = 0
        self.trouble.away.clear()
        self.trouble.go_on()
        for host, world in self.worlds.items():
            if world.hold.owner == "ann":
                self.holds(host)
            for name, engine in world.engines.items():
                engine.healthy = True
                if "person:ann" in engine.suspended_by:
                    self._lets_go(host, name)
        self.settle()

    # ------------------------------------------------------------ what must hold

    def look(self) -> None:
        """Everything that must hold after every step."""
        self.settle()
        if self.fuse.dead:
            self.revive()
        before, now = self.rows, self.clock.moment()
        self.rows = found = self.seen()
        self.log.take(self.run(self.store.since(self.log.cursor, 100_000)))
        checks.one_holder(found)
        checks.never_changed(before, found)
        checks.in_time(before, found, self.log, now)
        if self.head.parts.keeper.mind.begun:  # Else its store could not be read yet since a reboot.
            checks.steps_hold(found, self.worlds, self.mind.touched | self.mind.left)
        assert self.mind.broken == [], f"LEASE-4: {self.mind.broken}"
        # What a node refuses of an abandoned lease's claims is logged.
        logged = Refusal if self.mind.left else ScheduleUnavailable
        bugs = [it for it in self.head.bugs if not isinstance(it, logged)]
        assert bugs == [], f"bugs: {bugs!r}"
        self._back(found)
        for id_, lease in {**found.live, **found.ended}.items():
            assert self.log.lines[id_].state == lease.state, f"FEED-3: {id_} is {lease.state}"
        self.log.asked.clear()

    def seen(self) -> checks.Rows:
        """What the store has, whoever lives."""
        leases = {it.lease for it in self.mind.asked if it.lease is not None}
        jobs, now = set(self.mind.jobs), self.clock.moment()
        return self.run(self.store.read(lambda tx: checks.rows(tx, leases, jobs, now)))

    def _back(self, found: checks.Rows) -> None:
        """R39: what no lease touches is as it stood before."""
        mine = checks.touched_by(found)
        for thing, value in town.values(self.worlds).items():
            if thing in mine:
                continue
            if thing in self.mind.touched | self.mind.left:
                self.mind.standing[thing] = value
                self.mind.touched.discard(thing)
            before = self.mind.standing[thing]
            assert value == before, f"R39: {thing} is {value}, was {before}"

    def _looked(self) -> None:
        """What must hold when the keeper has looked: nothing is due, and everybody was told."""
        now, found = self.clock.moment(), self.seen()
        for lease in found.live.values():
            if lease.state in IN_FLIGHT:
                assert lease.id in self.head.schedule.running(), f"LEASE-14: nobody works on {lease.id}"
        grace = self.head.parts.keeper.mind.grace_until
        checks.nothing_overdue(found, self.head.fleet.resources, now, grace)
        told = holdings(found.live.values(), self.fakes, now)
        for host, fake in self.fakes.items():
            if host not in self.trouble.away:
                known = {thing: it.lease for thing, it in fake.held.items()}
                held = {thing: it.lease for thing, it in told[host].items()}
                assert known == held, f"LEASE-15: {host} knows {known}, held is {held}"
                up = fake.fence is not None
                assert up == (found.fence is not None), f"LEASE-28: at {host} the fence is up: {up}"

    def _changed(self, phrase: str) -> None:
        """LEASE-4: no effect of the daemon's takes a route's last target away while it leads there."""
        now = town.down(self.worlds)
        poor = town.poor(self.worlds, self.mind.standing)
        for thing in now - self.mind.down - self.mind.touched - self.mind.left - poor:
            self.mind.broken.append(f"after {phrase}: {thing}")
        self.mind.down = now


async def _ended(tasks: set[asyncio.Task[object]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
