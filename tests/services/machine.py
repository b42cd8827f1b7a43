"""The state machine of leases and jobs on the real services (REL-3): what may happen, and what must hold then.

Decides what happens: calls of holders and operators, time, faults, crashes, persons. What must hold is
`tests.fakes.machine_checks`' decision.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hostler.domain.errors import IdempotencyConflict, NotYours, Refusal, StaleGeneration
from hostler.domain.job import JobId
from hostler.domain.lease import Lease, LeaseId, State
from hostler.domain.step import FoundHold
from hostler.domain.values import rfc3339
from hostler.services.holdings import holdings
from hostler.services.schedule_needs import Node
from hostler.wire.jobs import FinishBody, JobBody, OneJob, UpdateBody
from hostler.wire.schedule import (
    CancelBody,
    ClaimBody,
    FenceBody,
    FenceNow,
    OneLease,
    ReleaseBody,
    RenewBody,
    ReserveBody,
)
from tests.fakes import machine_checks as checks
from tests.fakes import machine_world as town
from tests.fakes.clock import ManualClock, settle
from tests.fakes.ids import CountingIds
from tests.fakes.machine_world import Fuse, Thing, Trouble
from tests.fakes.node import FakeNode
from tests.fakes.schedule_world import AGENT, BY, OPERATOR, Head, hash_of, join

HOLDERS = ("anna", "bert")
CONFIGS = tuple(town.configs())
ROUTES = (("crow", "chat"), ("crow", "shared"), ("raven", "voice"))
ENGINES = (("crow", "big"), ("crow", "small"), ("crow", "coder"), ("raven", "tts"))
WHICH = st.integers(0, 5)


@dataclass(slots=True)
class Tally:
    """How much was played."""

    runs: int = 0
    steps: int = 0


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
    hear: Callable[[object, Refusal | None], None]


@dataclass(slots=True)
class Memory:
    """What the callers know, and what the world should be like again."""

    asked: list[Asked] = field(default_factory=list)
    jobs: dict[JobId, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    standing: dict[Thing, object] = field(default_factory=dict)
    touched: set[Thing] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)
    down: set[Thing] = field(default_factory=set)


class ScheduleMachine(RuleBasedStateMachine):
    """One schedule, its callers, its two hosts, and everything that may happen to them."""

    def __init__(self, tally: Tally | None = None) -> None:
        super().__init__()
        self.tally = tally or Tally()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _loop, _context: None)  # A killed task is nobody's to hear.
        self.clock, self.ids = ManualClock(), CountingIds()
        self.fakes = {host: FakeNode(host, world) for host, world in town.hosts().items()}
        self.worlds = {host: fake.world for host, fake in self.fakes.items()}
        self.fuse, self.trouble = Fuse(), Trouble()
        self.mind, self.log = Memory(), checks.Log()
        self.mind.standing = town.values(self.worlds)
        self.tick: asyncio.Task[None] | None = None
        self.begun = False
        self.numbers = 0
        self.tally.runs += 1
        for fake in self.fakes.values():
            fake.changed = self._changed

    @initialize(kind=st.sampled_from(("sqlite", "sqlite", "memory")))
    def start(self, kind: str) -> None:
        """The first daemon begins."""
        self.store = town.open_store(kind, Path(self.folder.name), self.ids)
        self.config = "first"
        self._daemon()
        self.head.parts.keeper.mind.grace_until = 0.0
        self.begun = True
        self.rows = self._rows()

    # ------------------------------------------------------------ holders

    @rule(
        resource=st.sampled_from(("crow-box", "pair", "raven-box", "disk")),
        holder=st.sampled_from(HOLDERS),
        way=st.sampled_from(("queue", "queue", "now", "detached", "booked", "priority")),
        ttl=st.sampled_from((None, 60.0, 1800.0)),
    )
    def reserve(self, resource: str, holder: str, way: str, ttl: float | None) -> None:
        """Somebody asks for a resource."""
        body = ReserveBody(resource=resource, holder=holder, secret_hash=hash_of(holder), ttl_s=ttl)
        if way == "booked":
            body = replace(body, start=rfc3339(self.clock.now() + timedelta(seconds=300)))
        elif way == "detached":
            body = replace(body, detached_s=7200.0)
        elif way == "priority":
            body = replace(body, priority=3)
        self.numbers += 1
        asked = Asked(replace(body, now=way == "now"), f"request-{self.numbers}")
        self.mind.asked.append(asked)
        self._reserve(asked)

    @precondition(lambda self: self.mind.asked)
    @rule(which=WHICH)
    def repeat(self, which: int) -> None:
        """F02: an answer was lost, and the same request is sent again."""
        self._reserve(self._of(self.mind.asked, which))

    @precondition(lambda self: any(it.lease for it in self.mind.asked))
    @rule(which=WHICH)
    def conflict(self, which: int) -> None:
        """F02: the same request id with another body is refused."""
        asked = self._of([it for it in self.mind.asked if it.lease], which)
        body = replace(asked.body, reason="another")

        def hear(answer: object, refusal: Refusal | None) -> None:
            assert isinstance(refusal, IdempotencyConflict), f"F02: {answer or refusal}"

        self._call(self.head.schedule.reserve(body, asked.request, OPERATOR, BY), hear)

    def _reserve(self, asked: Asked) -> None:
        def hear(answer: object, refusal: Refusal | None) -> None:
            if refusal is not None:
                assert asked.lease is None, f"F02: {asked.lease} was acknowledged, now {refusal}"
                return
            assert isinstance(answer, OneLease)
            assert asked.lease in (None, answer.lease.id), f"F02: {asked.lease} is {answer.lease.id} now"
            assert answer.lease.holder == asked.body.holder
            asked.lease = LeaseId(answer.lease.id)

        who = OPERATOR if asked.body.priority else AGENT
        self._call(self.head.schedule.reserve(asked.body, asked.request, who, BY), hear)

    @precondition(lambda self: self.rows.live)
    @rule(which=WHICH, ttl=st.sampled_from((None, 30.0, 9999.0)), wait=st.sampled_from((0.0, 0.0, 60.0)))
    def renew(self, which: int, ttl: float | None, wait: float) -> None:
        """Its holder keeps a place, takes an offer up, or extends a lease; maybe it waits for an answer."""
        lease = self._live(which)
        body = RenewBody(secret=lease.holder, ttl_s=ttl, wait_s=wait)
        self._call(self.head.schedule.renew(lease.id, body, AGENT, BY), self._renewed(lease))

    def _renewed(self, lease: Lease) -> Callable[[object, Refusal | None], None]:
        at, expires = self.clock.moment(), lease.expires

        def hear(answer: object, refusal: Refusal | None) -> None:
            if not isinstance(answer, OneLease) or expires is None or answer.lease.state != State.ACTIVE:
                return
            row = self._rows().live[lease.id]
            assert row.expires is not None
            later = checks.left(row.expires, at) - checks.left(expires, at)
            assert later >= -1e-6, f"R46: a renewal took {-later} s from {lease.id}"

        return hear

    @precondition(lambda self: self.rows.live)
    @rule(which=WHICH)
    def claim(self, which: int) -> None:
        """Its holder takes up an offer."""
        lease = self._live(which)
        self._call(self.head.schedule.claim(lease.id, ClaimBody(secret=lease.holder), AGENT, BY))

    @precondition(lambda self: self.rows.live)
    @rule(which=WHICH, cancel=st.booleans(), operator=st.booleans())
    def release(self, which: int, cancel: bool, operator: bool) -> None:
        """Its holder, or an operator, gives a lease back, or calls it off."""
        self._release(self._live(which), cancel=cancel, operator=operator)

    def _release(self, lease: Lease, *, cancel: bool = False, operator: bool = False) -> None:
        self.log.asked.add(lease.id)
        secret, who, because = (None, OPERATOR, "tidy") if operator else (lease.holder, AGENT, "")
        generation = lease.fence.generation if lease.fence is not None else None
        schedule = self.head.schedule
        if cancel:
            body = CancelBody(secret=secret, because=because, generation=generation)
            self._call(schedule.cancel(lease.id, body, who, BY))
        else:
            release = ReleaseBody(secret=secret, because=because, generation=generation)
            self._call(schedule.release(lease.id, release, who, BY))

    @precondition(lambda self: self.rows.live)
    @rule(which=WHICH, how=st.sampled_from(("other", "stale")))
    def intrude(self, which: int, how: str) -> None:
        """R37, F04: somebody else, or a holder with an old number, is refused, and nothing changes."""
        lease = self._live(which)
        body = ReleaseBody(secret="somebody's")
        if how == "stale" and lease.fence is not None:
            body = ReleaseBody(secret=lease.holder, generation=lease.fence.generation - 1)

        def hear(answer: object, refusal: Refusal | None) -> None:
            assert isinstance(refusal, NotYours | StaleGeneration), f"R37: {answer or refusal}"

        self._call(self.head.schedule.release(lease.id, body, AGENT, BY), hear)

    @precondition(lambda self: any(it.state is State.STUCK for it in self.rows.live.values()))
    @rule(which=WHICH)
    def abandon(self, which: int) -> None:
        """An operator frees a stuck lease; whatever it left is a person's to put right."""
        lease = self._of([it for it in self.rows.live.values() if it.state is State.STUCK], which)
        self.log.asked.add(lease.id)
        self.mind.touched.update(town.things(lease.plan))
        generation = lease.fence.generation if lease.fence is not None else None
        body = ReleaseBody(abandon=True, because="it burns", generation=generation)
        self._call(self.head.schedule.release(lease.id, body, OPERATOR, BY))

    # ------------------------------------------------------------ jobs

    @rule(which=WHICH, holder=st.sampled_from(HOLDERS), release=st.booleans())
    def job(self, which: int, holder: str, release: bool) -> None:
        """Somebody starts a job, under a lease where there is one."""
        own = [it for it in self.rows.live.values() if it.holder == holder]
        lease = self._of(own, which).id if own else None
        self.numbers += 1
        body = JobBody(
            title="bench", secret_hash=hash_of(holder), holder=holder, lease=lease, release=release
        )

        def hear(answer: object, refusal: Refusal | None) -> None:
            if isinstance(answer, OneJob):
                self.mind.jobs[JobId(answer.job.id)] = holder

        self._call(self.head.parts.jobs.start(body, f"request-{self.numbers}", AGENT, BY), hear)

    @precondition(lambda self: self.mind.jobs)
    @rule(which=WHICH)
    def beat(self, which: int) -> None:
        """A job's holder reports."""
        id_ = self._of(list(self.mind.jobs), which)
        body = UpdateBody(secret=self.mind.jobs[id_], note="going on")
        self._call(self.head.parts.jobs.update(id_, body, AGENT, BY))

    @precondition(lambda self: self.mind.jobs)
    @rule(which=WHICH, release=st.booleans())
    def finish(self, which: int, release: bool) -> None:
        """A job is over; maybe its lease is given back with it."""
        id_ = self._of(list(self.mind.jobs), which)
        body = FinishBody(secret=self.mind.jobs[id_], result="finished", release=release)
        self._call(self.head.parts.jobs.finish(id_, body, AGENT, BY))

    # ------------------------------------------------------------ operators, time

    @rule(up=st.booleans(), for_s=st.sampled_from((60.0, 1800.0)))
    def fence(self, up: bool, for_s: float) -> None:
        """An operator puts the deployment fence up, or takes it down."""
        body = FenceBody(up=up, reason="deploy", for_s=for_s)

        def hear(answer: object, refusal: Refusal | None) -> None:
            assert refusal is None or self.log.fenced or self.rows.fence, f"LEASE-28: {refusal}"
            assert refusal is not None or isinstance(answer, FenceNow)

        self._call(self.head.schedule.fence(body, OPERATOR, BY), hear)

    @rule(seconds=st.integers(1, 12))
    def seconds(self, seconds: int) -> None:
        """Seconds pass, and the keeper looks at each."""
        self._pass(seconds, 1.0)

    @rule(minutes=st.integers(1, 12))
    def minutes(self, minutes: int) -> None:
        """Minutes pass, and the keeper looks often enough not to be blind."""
        self._pass(minutes * 60.0, 14.0)

    @rule(minutes=st.sampled_from((1, 10, 40, 1500)))
    def blind(self, minutes: int) -> None:
        """The machine is suspended, or the process: the keeper finds a gap."""
        self._run(self.clock.advance(minutes * 60.0))
        self._pass(2.0, 1.0)

    @rule(seconds=st.sampled_from((-10_800.0, -60.0, 60.0, 10_800.0)))
    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock (F17)."""
        self.clock.jump(seconds)

    # ------------------------------------------------------------ crashes

    @rule(calls=st.integers(0, 30))
    def crash_soon(self, calls: int) -> None:
        """The daemon will be killed at a call of its store or of a node, or between the halves of an effect."""
        self.fuse.left = calls

    @rule(config=st.sampled_from(CONFIGS), calls=st.sampled_from((-1, -1, 1, 3, 6, 9)))
    def restart(self, config: str, calls: int) -> None:
        """The daemon is killed and another begins, maybe with another config, maybe killed as it begins."""
        self.config = config
        self._revive(calls)

    @rule(minutes=st.integers(0, 30))
    def reboot(self, minutes: int) -> None:
        """F20: the head's machine is restarted."""
        self.fuse.dead = True
        self._end_tasks()
        town.boot(self.worlds["crow"], self.fakes["crow"].held)
        self.clock.reboot(minutes * 60.0)
        self.mind.down = town.down(self.worlds)
        mine = {thing for thing in checks.touched_by(self._rows()) if thing[0] == "crow"}
        self.mind.touched |= {it for it in mine if not it[1].startswith("route")}
        self.mind.standing["crow", "hold"] = self.worlds["crow"].hold
        for (host, thing), value in town.values(self.worlds).items():
            if host == "crow" and thing.startswith("engine") and (host, thing) not in mine:
                self.mind.standing[host, thing] = value
        self._revive()

    # ------------------------------------------------------------ faults

    @rule(calls=st.integers(0, 12))
    def hang(self, calls: int) -> None:
        """A call to a node will take long."""
        self.trouble.hang_in = calls

    @precondition(lambda self: self.trouble.gate is not None)
    @rule()
    def go_on(self) -> None:
        """What hangs goes on."""
        self.trouble.go_on()
        self._settle()

    @rule(calls=st.integers(0, 4))
    def lose(self, calls: int) -> None:
        """The answer of an effect will be lost (NODE-3)."""
        self.trouble.lose_in = calls

    @rule(host=st.sampled_from(("crow", "raven")))
    def cut_off(self, host: str) -> None:
        """A node cannot be reached, or can again."""
        self.trouble.away ^= {host}

    @rule(engine=st.sampled_from(ENGINES))
    def sicken(self, engine: tuple[str, str]) -> None:
        """An engine would not start, or would again."""
        host, name = engine
        found = self.worlds[host].engines[name]
        found.healthy = not found.healthy

    # ------------------------------------------------------------ persons

    @rule(route=st.sampled_from(ROUTES), profile=st.sampled_from(("local", "away", "least")))
    def person_routes(self, route: tuple[str, str], profile: str) -> None:
        """F12: somebody moves a route by hand."""
        host, name = route
        if profile in self.worlds[host].routes[name].profiles:
            self.worlds[host].routes[name].active = profile
            self._person((host, f"route {name}"))

    @rule(engine=st.sampled_from(ENGINES))
    def person_suspends(self, engine: tuple[str, str]) -> None:
        """R29: somebody suspends an engine by hand, or lets it go again."""
        host, name = engine
        found = self.worlds[host].engines[name]
        if "person:ann" in found.suspended_by:
            self._lets_go(host, name)
        else:
            found.suspended_by.add("person:ann")
            found.up = False
            found.draining_by.clear()
            self._person((host, f"engine {name}"))

    def _lets_go(self, host: str, name: str) -> None:
        found = self.worlds[host].engines[name]
        found.suspended_by.discard("person:ann")
        found.up = found.up or (not found.suspended_by and found.healthy and name != "coder")
        self._person((host, f"engine {name}"))

    @rule(host=st.sampled_from(("crow", "raven")))
    def person_holds(self, host: str) -> None:
        """Somebody takes the hold of a host, or gives it back."""
        world = self.worlds[host]
        if world.hold.owner is None:
            world.hold = FoundHold(identity="ann-1", owner="ann")
        elif world.hold.owner == "ann":
            world.hold = FoundHold()
        else:
            return
        self._person((host, "hold"))

    def _person(self, thing: Thing) -> None:
        """A change by hand: it is the world's standing one, or behind the back of a lease."""
        leases = checks.touched_by(self._rows())
        self.mind.down = town.down(self.worlds)
        if thing not in leases:
            self.mind.standing[thing] = town.values(self.worlds)[thing]
            return
        self.mind.touched.add(thing)
        if thing[1].startswith("engine"):
            # A route that depends on it may be left where it is (LEASE-11).
            plan = leases[thing].plan
            self.mind.touched.update(it for it in town.things(plan) if it[1].startswith("route"))

    # ------------------------------------------------------------ what must hold

    @invariant()
    def holds(self) -> None:
        """Everything that must hold after every step."""
        if not self.begun:
            return
        self.tally.steps += 1
        self._settle()
        if self.fuse.dead:
            self._revive()
        before, now = self.rows, self.clock.moment()
        self.rows = found = self._rows()
        self.log.take(self._run(self.store.since(self.log.cursor, 100_000)))
        checks.one_holder(found)
        checks.never_changed(before, found)
        checks.in_time(before, found, self.log, now)
        checks.steps_hold(found, self.worlds, self.mind.touched)
        assert self.mind.broken == [], f"LEASE-4: {self.mind.broken}"
        assert self.head.bugs == [], f"bugs: {self.head.bugs!r}"
        self._back(found)
        self._logged(found)
        self.log.asked.clear()

    def _worked_on(self, found: checks.Rows) -> None:
        """LEASE-14: a lease in flight is one that somebody works on; one that nobody does is stuck."""
        for lease in found.live.values():
            if lease.state in (State.ACTIVATING, State.RELEASING):
                assert lease.id in self.head.schedule.running(), f"nobody works on {lease.id}"

    def _back(self, found: checks.Rows) -> None:
        """R39: what no lease touches is as it stood before."""
        mine, seen = checks.touched_by(found), town.values(self.worlds)
        for thing, value in seen.items():
            if thing in mine:
                continue
            if thing in self.mind.touched:
                self.mind.standing[thing] = value
                self.mind.touched.discard(thing)
            assert value == self.mind.standing[thing], (
                f"R39: {thing} is {value}, was {self.mind.standing[thing]}"
            )

    def _logged(self, found: checks.Rows) -> None:
        """FEED-3: the log leads to what the store has."""
        for id_, lease in {**found.live, **found.ended}.items():
            assert self.log.lines[id_].state == lease.state, f"FEED-3: {id_} is {lease.state}"

    def teardown(self) -> None:
        """When all is healed and all is given back, everything is as it stood (R39)."""
        try:
            if self.begun and sys.exc_info()[0] is None:
                self._end_well()
        finally:
            self._end_tasks()
            self.loop.close()
            if self.begun:
                town.close(self.store)
            self.folder.cleanup()

    def _end_well(self) -> None:
        self._heal()
        for _ in range(12):
            self.holds()
            if not self.rows.live:
                return
            for lease in list(self.rows.live.values()):
                self._release(lease)
            self._pass(3.0, 1.0)
        stuck = [(it.id, it.state, it.cause, it.failing) for it in self.rows.live.values()]
        raise AssertionError(f"all is healed, and not over are {stuck}")

    def _heal(self) -> None:
        self.fuse.left = self.trouble.lose_in = -1
        self.trouble.away.clear()
        self.trouble.go_on()
        for host, world in self.worlds.items():
            for engine in world.engines.values():
                engine.healthy = True
            if world.hold.owner == "ann":
                self.person_holds(host)
            for name, engine in world.engines.items():
                if "person:ann" in engine.suspended_by:
                    self._lets_go(host, name)
        self._settle()
        self.holds()
        if self.rows.fence is not None:
            self.fence(up=False, for_s=60.0)

    # ------------------------------------------------------------ how it is played

    def _daemon(self, calls: int = -1) -> None:
        """A daemon begins on the store as it is."""
        self.fuse = Fuse(calls)
        self.head: Head = join(
            town.configs()[self.config],
            town.schedule_store(self.store, self.fuse),
            cast("dict[str, Node]", town.nodes(self.fakes, self.fuse, self.trouble)),
            self.clock,
            self.ids,
        )
        begun = self.loop.create_task(self.head.parts.keeper.begin())
        self._settle()
        if not begun.done():
            self.trouble.go_on()
            self._settle()
        error = begun.exception()
        if error is not None and not isinstance(error, town.Crash):
            raise error

    def _revive(self, calls: int = -1) -> None:
        """The daemon is dead; the next one begins, and the one after it when that is killed as it begins."""
        self._end_tasks()
        self.store = town.again(self.store, Path(self.folder.name), self.ids)
        self._daemon(calls)
        if self.fuse.dead:
            self._revive()

    def _end_tasks(self) -> None:
        """Kill: no call of it reaches anything any more, and nobody hears its answers."""
        self.fuse.dead = True
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self._run(_ended(tasks))
        self._hear()
        self.tick, self.trouble.gate = None, None

    def _run(self, work: Coroutine[object, object, town._T]) -> town._T:
        return self.loop.run_until_complete(work)

    def _settle(self) -> None:
        self._run(settle())
        self._hear()

    def _call(
        self,
        work: Coroutine[object, object, object],
        hear: Callable[[object, Refusal | None], None] = lambda _answer, _refusal: None,
    ) -> None:
        self.mind.calls.append(Call(self.loop.create_task(work), hear))
        self._settle()

    def _hear(self) -> None:
        """Answers that came: a refusal is one, and what a killed daemon says is none."""
        over = [it for it in self.mind.calls if it.task.done()]
        self.mind.calls = [it for it in self.mind.calls if not it.task.done()]
        for call in over:
            error = None if call.task.cancelled() else call.task.exception()
            if isinstance(error, Refusal):
                call.hear(None, error)
            elif error is None and not call.task.cancelled():
                call.hear(call.task.result(), None)
            elif error is not None and not isinstance(error, town.Crash):
                raise error

    def _pass(self, seconds: float, step: float) -> None:
        """Time passes with the keeper running; then nothing is overdue, if nothing hindered it."""
        while seconds > 0 and not self.fuse.dead:
            self._run(self.clock.advance(min(step, seconds)))
            self._hear()
            self._tick()
            seconds -= step
        keeper = self.head.parts.keeper
        if self.tick is None and not self.fuse.dead:
            for _ in range(6):  # So that whoever waits for a passing condition is looked at (RETRY_S).
                self._run(self.clock.advance(1.0))
                self._tick()
            if self.tick is not None or self.fuse.dead:
                return
            now, found = self.clock.moment(), self._rows()
            self._worked_on(found)
            checks.nothing_overdue(found, self.head.fleet.resources, now, keeper.mind.grace_until)
            told = holdings(found.live.values(), self.fakes, now)
            for host, fake in self.fakes.items():
                if host not in self.trouble.away:
                    known = {thing: it.lease for thing, it in fake.held.items()}
                    held = {thing: it.lease for thing, it in told[host].items()}
                    assert known == held, f"LEASE-15: {host} knows {known}, held is {held}"

    def _tick(self) -> None:
        if self.tick is None:
            self.tick = self.loop.create_task(self.head.parts.keeper.tick())
        self._settle()
        if self.tick.done():
            error = self.tick.exception()
            self.tick = None
            if error is not None and not isinstance(error, town.Crash):
                raise error

    def _rows(self) -> checks.Rows:
        leases = {it.lease for it in self.mind.asked if it.lease is not None}
        jobs, now = set(self.mind.jobs), self.clock.moment()
        return self._run(self.store.read(lambda tx: checks.rows(tx, leases, jobs, now)))

    def _changed(self, phrase: str) -> None:
        """LEASE-4: no effect of the daemon's takes a route's last target away while it leads there."""
        now = town.down(self.worlds)
        for thing in now - self.mind.down - self.mind.touched - self._poor():
            self.mind.broken.append(f"after {phrase}: {thing}")
        self.mind.down = now

    def _poor(self) -> set[Thing]:
        """Routes that lead where they led to nothing before any lease, by a person's doing."""
        standing, found = self.mind.standing, set[Thing]()
        engines = {thing[1].partition(" ")[2]: it for thing, it in standing.items() if "engine" in thing[1]}
        for host, world in self.worlds.items():
            for name, route in world.routes.items():
                targets = route.profiles[route.active or ""][0]
                up = [engines[it] for it in targets if cast("tuple[bool]", engines[it])[0]]
                if targets and not up and standing[host, f"route {name}"] == route.active:
                    found.add((host, f"route {name}"))
        return found

    def _live(self, which: int) -> Lease:
        return self._of(list(self.rows.live.values()), which)

    def _of(self, found: list[town._T], which: int) -> town._T:
        return found[which % len(found)]


async def _ended(tasks: set[asyncio.Task[object]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
