"""What must hold after every step of the state machine: of the log, of the rows, of the hosts.

Decides what is wrong. Each check raises AssertionError with the facts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hostler.domain.events import Event, Recorded
from hostler.domain.fence import Fence
from hostler.domain.job import Job, JobId
from hostler.domain.lease import Lease, LeaseId, State
from hostler.domain.lease_due import due
from hostler.domain.moment import Moment, left
from hostler.domain.resource import Resource
from hostler.domain.step import DrainEngine, FoundEngine, PointRoute, StartEngine, StopEngine, SuspendEngine
from hostler.services.holdings import TOUCHING
from hostler.services.holdings import things as held
from hostler.services.promotion import candidates
from hostler.services.schedule_needs import Tx
from tests.fakes.machine_world import Thing, things
from tests.fakes.node import World

NAMES = ("crow-box", "raven-box", "pair", "disk")
PROMOTED = frozenset({"lease_offered", "lease_granted"})
TIMED = frozenset({*PROMOTED, "lease_expiring", "lease_reminder"})
"""What does not happen under a fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The schedule as the store has it: `holders` by resource, `ended` of all that were asked for."""

    live: Mapping[LeaseId, Lease]
    ended: Mapping[LeaseId, Lease]
    holders: Mapping[str, Lease | None]
    jobs: Mapping[JobId, Job]
    fence: Fence | None
    next: Collection[LeaseId]
    """Who is next on what is free."""


def rows(tx: Tx, leases: Collection[LeaseId], jobs: Collection[JobId], now: Moment) -> Rows:
    """All of it at one instant."""
    live = {it.id: it for it in tx.live()}
    found = {id_: tx.lease(id_) for id_ in leases}
    known = {id_: tx.job(id_) for id_ in jobs}
    assert None not in found.values(), f"LEASE-9: acknowledged and not found: {found}"
    assert None not in known.values(), f"JOB-1: acknowledged and not found: {known}"
    return Rows(
        live=live,
        ended={id_: it for id_, it in found.items() if it is not None and it.state.ended},
        holders={name: tx.holder(name) for name in NAMES},
        jobs={id_: it for id_, it in known.items() if it is not None},
        fence=tx.fence(),
        next=[it.id for it in candidates(tx, now)],
    )


@dataclass(slots=True)
class Line:
    """What the log said of one lease."""

    state: str
    number: int
    priority: int
    covers: frozenset[str]
    booked: bool
    generation: int | None = None


@dataclass(slots=True)
class Log:
    """The event log, read once from its beginning. `asked`: leases that somebody gives back in this step."""

    seq: int = 0
    cursor: str | None = None
    fenced: bool = False
    generation: int = 0
    lines: dict[str, Line] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    expired: dict[str, datetime] = field(default_factory=dict)

    def take(self, found: Sequence[Recorded]) -> None:
        """The next events (FEED-2): without a gap, each from where the one before it led."""
        for row in found:
            assert row.seq == self.seq + 1, f"FEED-2: event {row.seq} after {self.seq}"
            self.seq, self.cursor = row.seq, row.cursor
            self._take(row.event)

    def _take(self, event: Event) -> None:
        if event.type in ("fence_up", "fence_down"):
            self.fenced = event.type == "fence_up"
        if not event.type.startswith("lease_"):
            return
        id_ = event.subject["lease"]
        if event.type in ("lease_queued", "lease_booked"):
            assert id_ not in self.lines, f"{id_} began twice"
            self.lines[id_] = _line(event)
            return
        line = self.lines[id_]
        assert event.before == line.state, (
            f"FEED-3: {event.type} of {id_} from {event.before}, not {line.state}"
        )
        self._timed(event)
        self._stuck(event, id_)
        if event.type in PROMOTED and line.state in (State.QUEUED, State.SCHEDULED):
            self._fair(id_, line)
        if event.type == "lease_granted":
            generation = event.facts["generation"]
            assert isinstance(generation, int)
            assert generation > self.generation, f"LEASE-8: generation {generation} after {self.generation}"
            self.generation = line.generation = generation
        if event.type == "lease_releasing" and event.facts.get("ending") == State.EXPIRED:
            self.expired[id_] = event.at
        covers = event.facts.get("covers")
        if isinstance(covers, list | tuple):
            line.covers = frozenset(str(it) for it in covers)
        line.state = event.after or line.state

    def _timed(self, event: Event) -> None:
        lapsed = event.type == "lease_ended" and event.after == State.LAPSED
        expired = event.type == "lease_releasing" and event.facts.get("ending") == State.EXPIRED
        assert not (self.fenced and (event.type in TIMED or lapsed or expired)), (
            f"LEASE-28: {event.type} of {event.subject} under a fence"
        )

    def _stuck(self, event: Event, id_: str) -> None:
        leaves = event.before == State.STUCK and event.after != State.STUCK
        assert not leaves or id_ in self.asked, f"LEASE-14: {id_} left stuck by itself: {event.message}"

    def _fair(self, id_: str, mine: Line) -> None:
        """R41: nobody who came earlier waits for any of it; a booking that has begun comes first."""
        earlier = [
            other
            for other, line in self.lines.items()
            if line.state == State.QUEUED
            and line.number < mine.number
            and line.priority == mine.priority
            and line.covers & mine.covers
        ]
        assert mine.booked or not earlier, f"R41: {id_} before {earlier}"


def _line(event: Event) -> Line:
    facts = event.facts
    covers, number, priority = facts["covers"], facts["number"], facts["priority"]
    assert isinstance(covers, list | tuple)
    assert isinstance(number, int)
    assert isinstance(priority, int)
    return Line(
        state=event.after or "",
        number=number,
        priority=priority,
        covers=frozenset(str(it) for it in covers),
        booked=event.type == "lease_booked",
    )


# ---------------------------------------------------------------- rows


def one_holder(found: Rows) -> None:
    """LEASE-7: the claim rows are those of the leases that hold, and what they touch is one lease's."""
    holders: dict[str, LeaseId] = {}
    touching: dict[Thing, LeaseId] = {}
    for lease in found.live.values():
        for cover in lease.covers if lease.state.holds else ():
            assert holders.setdefault(cover, lease.id) == lease.id, f"LEASE-7: two leases hold {cover}"
        for thing in set(held(lease.plan)) if lease.state in TOUCHING else ():
            assert touching.setdefault(thing, lease.id) == lease.id, f"LEASE-3: two leases touch {thing}"
    claimed = {name: it.id for name, it in found.holders.items() if it is not None}
    assert claimed == holders, f"LEASE-7: claim rows {claimed}, states {holders}"


def never_changed(before: Rows, found: Rows) -> None:
    """JOB-2, LEASE-6: what is over stays as it is."""
    for id_, lease in before.ended.items():
        assert found.ended.get(id_) == lease, f"LEASE-6: {id_} changed after its end"
    for key, job in before.jobs.items():
        assert not job.state.ended or found.jobs[key] == job, f"JOB-2: {key} changed after its end"


def in_time(before: Rows, found: Rows, log: Log, now: Moment) -> None:
    """LEASE-21: nothing expired before its time."""
    for id_, at in log.expired.items():
        was = before.live.get(LeaseId(id_))
        if was is not None and was.expires is not None and was.state is State.ACTIVE:
            # Within a step both clocks go alike.
            early = left(was.expires, now.plus(-(now.at - at).total_seconds()))
            assert early <= 1e-6, f"LEASE-21: {id_} ended {early} s early"
    log.expired.clear()
    for lease in found.live.values():
        if lease.state is State.ACTIVE and lease.expires is not None:
            assert lease.hard is not None, f"LEASE-17: {lease.id} has no hard end"
            assert left(lease.expires, now) <= left(lease.hard, now) + 1e-6, (
                f"LEASE-17: {lease.id} past its end"
            )


def nothing_overdue(found: Rows, resources: Mapping[str, Resource], now: Moment, grace: float) -> None:
    """LEASE-19, LEASE-24: when the keeper has looked, nothing is left that was due."""
    for lease in found.live.values():
        resource = resources.get(lease.resource)
        event = due(lease, resource, now, fenced=found.fence is not None, grace_until=grace)
        assert event is None, f"overdue: {lease.id} {lease.state} {event}"
    for id_ in found.next:
        assert found.live[id_].cause, f"LEASE-24: {id_} is next, is not offered it and is told no reason"
    for job in found.jobs.values():
        over = job.lease is not None and LeaseId(job.lease) in found.ended
        assert job.state.ended or job.lease_lost or not over, (
            f"JOB-4: {job.id} does not know of its lease's end"
        )


# ---------------------------------------------------------------- hosts


def steps_hold(found: Rows, worlds: Mapping[str, World], changed: Collection[Thing]) -> None:
    """LEASE-13: all that an active lease did is so, but what a person changed since."""
    for lease in found.live.values():
        if lease.state is not State.ACTIVE:
            continue
        routes = {(it.host, it.route): it for it in lease.plan if isinstance(it, PointRoute)}
        for step in lease.plan:
            (thing,) = things([step])
            if thing in changed or isinstance(step, DrainEngine):
                continue
            world = worlds[step.host]
            match step:
                case PointRoute(host=host, route=name):
                    good = world.routes[name].active == routes[host, name].profile
                case SuspendEngine(engine=name):
                    good = bool(world.engines[name].suspended_by) and not world.engines[name].up
                case StopEngine(engine=name):
                    good = not world.engines[name].up
                case StartEngine(engine=name):
                    good = world.engines[name].up
                case _:
                    good = _beside(lease, thing, world)
            assert good, f"LEASE-13: {lease.id} is active, and {thing} is {_seen(world, thing)}"


def _beside(lease: Lease, thing: Thing, world: World) -> bool:
    kind, _, name = thing[1].partition(" ")
    if kind == "hold":
        return world.hold.lease == lease.id
    return name in (world.commands if kind == "command" else world.webhooks)


def _seen(world: World, thing: Thing) -> object:
    kind, _, name = thing[1].partition(" ")
    if kind == "engine":
        engine = world.engines[name]
        return FoundEngine(up=engine.up, suspended_by=tuple(engine.suspended_by))
    return world.routes[name].active if kind == "route" else world


def touched_by(found: Rows) -> dict[Thing, Lease]:
    """What leases may have changed and must put back."""
    return {
        thing: lease
        for lease in found.live.values()
        if lease.state in TOUCHING
        for thing in things(lease.plan)
    }
