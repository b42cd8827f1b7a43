"""The state machine of leases and jobs on the real services (REL-3): what may happen.

Decides what happens: calls of holders and operators, time, faults, crashes, persons. How it is played and
what must hold then is `tests.services.machine_play`'s.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hostler.domain.errors import IdempotencyConflict, NotYours, Refusal, ScheduleUnavailable, StaleGeneration
from hostler.domain.job import JobId
from hostler.domain.lease import Lease, LeaseId, State
from hostler.domain.moment import left
from hostler.domain.values import rfc3339
from hostler.wire.jobs import FinishBody, JobBody, OneJob, UpdateBody
from hostler.wire.schedule import (
    CancelBody,
    ClaimBody,
    FenceBody,
    OneLease,
    ReleaseBody,
    RenewBody,
    ReserveBody,
)
from tests.fakes import machine_world as town
from tests.fakes.schedule_world import AGENT, BY, OPERATOR, hash_of
from tests.services.machine_play import Asked, Hear, Play

HOLDERS = ("anna", "bert")
RESOURCES = ("crow-box", "pair", "raven-box", "disk")
CONFIGS = tuple(town.configs())
ROUTES = (("crow", "chat"), ("crow", "shared"), ("raven", "voice"))
ENGINES = (("crow", "big"), ("crow", "small"), ("crow", "coder"), ("raven", "tts"))
WHICH = st.integers(0, 5)
_T = TypeVar("_T")


@dataclass(slots=True)
class Tally:
    """How much was played."""

    runs: int = 0
    steps: int = 0


class ScheduleMachine(RuleBasedStateMachine):
    """One schedule, its callers, its two hosts, and everything that may happen to them."""

    play: Play
    tally = Tally()

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.begun = 0, False
        self.tally.runs += 1

    @initialize(
        kind=st.sampled_from(("sqlite", "sqlite", "memory")),
        config=st.sampled_from(CONFIGS),
        resources=st.lists(st.sampled_from(RESOURCES), max_size=4),
    )
    def start(self, kind: str, config: str, resources: list[str]) -> None:
        """The first daemon begins."""
        self.play = Play(kind, config)
        self.begun = True
        self.reserve(resources, "queue", None)
        self.play.look()

    # ------------------------------------------------------------ holders

    @rule(
        resources=st.lists(st.sampled_from(RESOURCES), min_size=1, max_size=3),
        way=st.sampled_from(("queue", "queue", "now", "detached", "booked", "priority")),
        ttl=st.sampled_from((None, 60.0, 60.0, 1800.0)),
    )
    def reserve(self, resources: list[str], way: str, ttl: float | None) -> None:
        """One holder after the other asks for a resource."""
        for place, resource in enumerate(resources):
            self._ask(resource, HOLDERS[place % len(HOLDERS)], way, ttl)

    def _ask(self, resource: str, holder: str, way: str, ttl: float | None) -> None:
        body = ReserveBody(resource=resource, holder=holder, secret_hash=hash_of(holder), ttl_s=ttl)
        if way == "booked":
            body = replace(body, start=rfc3339(self.play.clock.now() + timedelta(seconds=300)))
        elif way == "detached":
            body = replace(body, detached_s=7200.0)
        elif way == "priority":
            body = replace(body, priority=3)
        self.numbers += 1
        asked = Asked(replace(body, now=way == "now"), f"request-{self.numbers}")
        self.play.mind.asked.append(asked)
        self._reserve(asked)

    @precondition(lambda self: self.play.mind.asked)
    @rule(which=WHICH, how=st.sampled_from(("repeat", "repeat", "conflict", "other", "stale")))
    def odd(self, which: int, how: str) -> None:
        """A call that is no plain one: repeated, changed, somebody else's, or of an old number."""
        known = [it for it in self.play.mind.asked if it.lease]
        if how == "repeat":
            self.repeat(which)
        elif how == "conflict" and known:
            self.conflict(self._of(known, which))
        elif how in ("other", "stale") and self.play.rows.live:
            self.intrude(which, how)

    def repeat(self, which: int) -> None:
        """F02: an answer was lost, and the same request is sent again."""
        self._reserve(self._of(self.play.mind.asked, which))

    def conflict(self, asked: Asked) -> None:
        """F02: the same request id with another body is refused."""
        body = replace(asked.body, reason="another")

        def hear(answer: object, refusal: Refusal | None) -> None:
            assert isinstance(refusal, IdempotencyConflict | ScheduleUnavailable), f"F02: {answer or refusal}"

        self.play.call(self.play.head.schedule.reserve(body, asked.request, OPERATOR, BY), hear)

    def _reserve(self, asked: Asked) -> None:
        def hear(answer: object, refusal: Refusal | None) -> None:
            if isinstance(refusal, ScheduleUnavailable):
                return
            if refusal is not None:
                assert asked.lease is None, f"F02: {asked.lease} was acknowledged, now {refusal}"
                return
            assert isinstance(answer, OneLease)
            assert asked.lease in (None, answer.lease.id), f"F02: {asked.lease} is {answer.lease.id} now"
            assert answer.lease.holder == asked.body.holder
            asked.lease = LeaseId(answer.lease.id)

        who = OPERATOR if asked.body.priority else AGENT
        self.play.call(self.play.head.schedule.reserve(asked.body, asked.request, who, BY), hear)

    @precondition(lambda self: self.play.rows.live)
    @rule(which=WHICH, ttl=st.sampled_from((None, 30.0, 9999.0)), wait=st.sampled_from((0.0, 0.0, 60.0)))
    def renew(self, which: int, ttl: float | None, wait: float) -> None:
        """Its holder keeps a place, takes an offer up, or extends a lease; maybe it waits for an answer."""
        lease = self._live(which)
        body = RenewBody(secret=lease.holder, ttl_s=ttl, wait_s=wait)
        self.play.call(self.play.head.schedule.renew(lease.id, body, AGENT, BY), self._renewed(lease))

    def _renewed(self, lease: Lease) -> Hear:
        at, expires = self.play.clock.moment(), lease.expires

        def hear(answer: object, refusal: Refusal | None) -> None:
            if not isinstance(answer, OneLease) or expires is None or answer.lease.state != State.ACTIVE:
                return
            row = self.play.seen().live[lease.id]
            assert row.expires is not None
            later = left(row.expires, at) - left(expires, at)
            assert later >= -1e-6, f"R46: a renewal took {-later} s from {lease.id}"

        return hear

    @precondition(lambda self: self.play.rows.live)
    @rule(which=WHICH)
    def go_on(self, which: int) -> None:
        """Its holder does what comes next: keeps a place, takes up an offer, gives back what it had."""
        lease = self._live(which)
        if lease.state in (State.ACTIVE, State.STUCK):
            self._release(lease)
        elif lease.state is State.QUEUED:
            self.renew(which, ttl=None, wait=60.0)
        elif lease.state is State.OFFERED:
            body = ClaimBody(secret=lease.holder)
            self.play.call(self.play.head.schedule.claim(lease.id, body, AGENT, BY))
        self.play.pass_(1.0, 1.0)

    @precondition(lambda self: self.play.rows.live)
    @rule(which=WHICH, cancel=st.booleans(), operator=st.booleans())
    def release(self, which: int, cancel: bool, operator: bool) -> None:
        """Its holder, or an operator, gives a lease back, or calls it off."""
        self._release(self._live(which), cancel=cancel, operator=operator)

    def _release(self, lease: Lease, *, cancel: bool = False, operator: bool = False) -> None:
        self.play.log.asked.add(lease.id)
        secret, who, because = (None, OPERATOR, "tidy") if operator else (lease.holder, AGENT, "")
        generation = lease.fence.generation if lease.fence is not None else None
        schedule = self.play.head.schedule
        if cancel:
            body = CancelBody(secret=secret, because=because, generation=generation)
            self.play.call(schedule.cancel(lease.id, body, who, BY))
        else:
            release = ReleaseBody(secret=secret, because=because, generation=generation)
            self.play.call(schedule.release(lease.id, release, who, BY))

    def intrude(self, which: int, how: str) -> None:
        """R37, F04: somebody else, or a holder with an old number, is refused, and nothing changes."""
        lease = self._live(which)
        body = ReleaseBody(secret="somebody's")
        if how == "stale" and lease.fence is not None:
            body = ReleaseBody(secret=lease.holder, generation=lease.fence.generation - 1)

        def hear(answer: object, refusal: Refusal | None) -> None:
            assert isinstance(refusal, NotYours | StaleGeneration | ScheduleUnavailable), (
                f"R37: {answer or refusal}"
            )

        self.play.call(self.play.head.schedule.release(lease.id, body, AGENT, BY), hear)

    @precondition(lambda self: any(it.state is State.STUCK for it in self.play.rows.live.values()))
    @rule(which=WHICH)
    def abandon(self, which: int) -> None:
        """An operator frees a stuck lease; whatever it left is a person's to put right."""
        lease = self._of([it for it in self.play.rows.live.values() if it.state is State.STUCK], which)
        self.play.log.asked.add(lease.id)
        self.play.mind.left.update(town.things(lease.plan))
        generation = lease.fence.generation if lease.fence is not None else None
        body = ReleaseBody(abandon=True, because="it burns", generation=generation)
        self.play.call(self.play.head.schedule.release(lease.id, body, OPERATOR, BY))

    # ------------------------------------------------------------ jobs

    @rule(
        what=st.sampled_from(("begin", "beat", "finish")),
        which=WHICH,
        holder=st.sampled_from(HOLDERS),
        release=st.booleans(),
    )
    def work(self, what: str, which: int, holder: str, release: bool) -> None:
        """A job begins, is reported on, or is over."""
        if what == "begin" or not self.play.mind.jobs:
            self.job(which, holder, release)
        elif what == "beat":
            self.beat(which)
        else:
            self.finish(which, release)

    def job(self, which: int, holder: str, release: bool) -> None:
        """Somebody starts a job, under a lease where there is one."""
        own = [it for it in self.play.rows.live.values() if it.holder == holder]
        lease = self._of(own, which).id if own else None
        self.numbers += 1
        body = JobBody(
            title="bench", secret_hash=hash_of(holder), holder=holder, lease=lease, release=release
        )

        def hear(answer: object, refusal: Refusal | None) -> None:
            if isinstance(answer, OneJob):
                self.play.mind.jobs[JobId(answer.job.id)] = holder

        self.play.call(self.play.head.parts.jobs.start(body, f"request-{self.numbers}", AGENT, BY), hear)

    def beat(self, which: int) -> None:
        """A job's holder reports."""
        id_ = self._of(list(self.play.mind.jobs), which)
        body = UpdateBody(secret=self.play.mind.jobs[id_], note="going on")
        self.play.call(self.play.head.parts.jobs.update(id_, body, AGENT, BY))

    def finish(self, which: int, release: bool) -> None:
        """A job is over; maybe its lease is given back with it."""
        id_ = self._of(list(self.play.mind.jobs), which)
        body = FinishBody(secret=self.play.mind.jobs[id_], result="finished", release=release)
        self.play.call(self.play.head.parts.jobs.finish(id_, body, AGENT, BY))

    # ------------------------------------------------------------ operators, time

    @rule(for_s=st.sampled_from((0.0, 60.0, 1800.0)), minutes=st.sampled_from((0, 0, 5, 20)))
    def fence(self, for_s: float, minutes: int) -> None:
        """An operator puts the deployment fence up, or takes it down; then minutes pass."""
        body = FenceBody(up=for_s > 0, reason="deploy", for_s=for_s or 60.0)

        def hear(answer: object, refusal: Refusal | None) -> None:
            fenced = self.play.log.fenced or self.play.rows.fence is not None
            good = refusal is None or fenced or isinstance(refusal, ScheduleUnavailable)
            assert good, f"LEASE-28: {refusal}"

        self.play.call(self.play.head.schedule.fence(body, OPERATOR, BY), hear)
        if minutes:
            self.play.pass_(minutes * 60.0, 14.0)

    @rule(
        how=st.sampled_from(("seconds", "seconds", "minutes", "minutes", "blind", "jump")),
        n=st.integers(1, 12),
    )
    def time(self, how: str, n: int) -> None:
        """Time passes: looked at closely, or not at all; or somebody sets the wall clock (F17)."""
        match how:
            case "seconds":
                self.play.pass_(float(n), 1.0)
            case "minutes":
                self.play.pass_(n * 60.0, 14.0)
            case "blind":
                self.play.run(self.play.clock.advance(float(n**4)))
                self.play.pass_(2.0, 1.0)
            case _:
                self.play.clock.jump((n - 6) * 1800.0)

    # ------------------------------------------------------------ crashes

    @rule(calls=st.integers(0, 40))
    def crash_soon(self, calls: int) -> None:
        """The daemon will be killed at a call of its store or a node, or between the halves of an effect."""
        self.play.fuse.left = calls

    @rule(config=st.sampled_from(CONFIGS), calls=st.sampled_from((-1, -1, 1, 3, 6, 9)))
    def restart(self, config: str, calls: int) -> None:
        """The daemon is killed and another begins, maybe with another config, maybe killed as it begins."""
        self.play.config = config
        self.play.revive(calls)

    @rule(minutes=st.integers(0, 30))
    def reboot(self, minutes: int) -> None:
        """F20: the head's machine is restarted."""
        self.play.reboot(minutes * 60.0)

    # ------------------------------------------------------------ faults

    @rule(
        what=st.sampled_from(("hang", "go on", "lose", "cut off", "sicken", "store", "heal", "heal")),
        n=st.integers(0, 12),
    )
    def fault(self, what: str, n: int) -> None:
        """A call hangs, an answer is lost, a node is cut off, an engine would not start; or all heals."""
        match what:
            case "hang":
                self.play.trouble.hang_in = n
            case "lose":
                self.play.trouble.lose_in = n % 4
            case "cut off":
                self.play.trouble.away ^= {("crow", "raven")[n % 2]}
            case "sicken":
                host, name = ENGINES[n % len(ENGINES)]
                self.play.worlds[host].engines[name].healthy = False
            case "store":
                self.play.trouble.refusals = n
            case "heal":
                self.play.heal()
            case _:
                self.play.trouble.go_on()
                self.play.settle()

    # ------------------------------------------------------------ persons

    @rule(
        what=st.sampled_from(("route", "route", "suspend", "hold")),
        n=st.integers(0, 3),
        profile=st.sampled_from(("local", "away", "least")),
    )
    def person(self, what: str, n: int, profile: str) -> None:
        """Somebody changes a host by hand, maybe behind the back of a lease."""
        if what == "route":
            self.play.moves(*ROUTES[n % len(ROUTES)], profile)
        elif what == "suspend":
            self.play.suspends(*ENGINES[n])
        else:
            self.play.holds(("crow", "raven")[n % 2])

    # ------------------------------------------------------------ what must hold

    @invariant()
    def holds(self) -> None:
        """Everything that must hold after every step."""
        self.tally.steps += 1
        self.play.look()

    def teardown(self) -> None:
        """When all is healed and all is given back, everything is as it stood (R39)."""
        try:
            if self.begun and sys.exc_info()[0] is None:
                self.ends_well()
        finally:
            self.close()

    def close(self) -> None:
        """Kill it, and clear away."""
        if self.begun:
            self.play.close()

    def ends_well(self) -> None:
        """All is healed, every lease is given back, and nothing is left of them."""
        self.play.heal()
        for _ in range(12):
            self.play.look()
            if self.play.rows.fence is not None:
                self.fence(for_s=0.0, minutes=0)
            if not self.play.rows.live:
                return
            for lease in list(self.play.rows.live.values()):
                self._release(lease)
            self.play.pass_(3.0, 1.0)
        raise AssertionError(f"all is healed, and not over are {self.play.rows.live}")

    def _live(self, which: int) -> Lease:
        return self._of(list(self.play.rows.live.values()), which)

    def _of(self, found: list[_T], which: int) -> _T:
        return found[which % len(found)]


def machine(tally: Tally) -> type[ScheduleMachine]:
    """The machine whose runs and steps are counted there."""
    return type("CountedMachine", (ScheduleMachine,), {"tally": tally})
