"""The schedule inside one transaction of a store in memory (the need `Tx`).

Decides the same as the SQLite one, with dictionaries in the place of tables. Every value goes through its
text form, so that what has none fails here as it fails there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hostler.adapters.store.counters import Clean, Counters, begun, unchanged
from hostler.adapters.store.sqlite_tx import POINTS_KEPT
from hostler.domain.events import Event, Recorded
from hostler.domain.fence import Fence
from hostler.domain.job import Job, JobId, Point
from hostler.domain.journal import Entry, EntryState
from hostler.domain.lease import Lease, LeaseId
from hostler.domain.step import FenceNumber
from hostler.domain.values import rfc3339
from hostler.services.schedule_needs import Meta, Taken
from hostler.wire.records import (
    checked_point,
    fence_from_text,
    fence_to_text,
    found_from_text,
    found_to_text,
    job_from_text,
    job_to_text,
    lease_from_text,
    lease_to_text,
    step_from_text,
    step_to_text,
)
from hostler.wire.values import event_from_text, event_to_text

_T = TypeVar("_T", Lease, Job)


@dataclass(eq=False, slots=True, kw_only=True)
class Tables:
    """Everything that the store holds but the events; values are never changed in place: a copy is shallow.

    `requests` and `job_requests` have the id of what a request made.
    """

    counters: Counters
    leases: dict[str, Lease] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    job_requests: dict[str, str] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    journal: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    jobs: dict[str, tuple[Job, float | None]] = field(default_factory=dict)
    points: dict[tuple[str, str], tuple[Point, ...]] = field(default_factory=dict)
    fence: Fence | None = None

    def copy(self) -> Tables:
        """A copy that may be changed without this one's knowing."""
        return Tables(
            counters=self.counters,
            leases=self.leases.copy(),
            requests=self.requests.copy(),
            job_requests=self.job_requests.copy(),
            claims=self.claims.copy(),
            journal=self.journal.copy(),
            jobs=self.jobs.copy(),
            points=self.points.copy(),
            fence=self.fence,
        )


@dataclass(eq=False, slots=True, kw_only=True)
class MemoryTx:
    """One transaction on `tables`, which are its own, and on `events`, which stay as they are.

    `rows` are the events to append at its end, `dropped` says how many of the oldest are to go then.
    """

    tables: Tables
    events: Sequence[Recorded]
    writing: bool
    clean: Clean = unchanged
    rows: list[Recorded] = field(default_factory=list)
    dropped: int = 0

    def meta(self) -> Meta:
        kept = self.tables.counters
        return Meta(epoch=kept.epoch, seq=kept.seq, generation=kept.generation, began=kept.began)

    def next_generation(self) -> FenceNumber:
        kept = self._count(generation=self.tables.counters.generation + 1)
        return FenceNumber(epoch=kept.epoch, generation=kept.generation)

    def begin_epoch(self, epoch: str, generation: int) -> None:
        self._writes()
        self.tables.counters = begun(self.tables.counters, epoch, generation)

    def record(self, event: Event) -> int:
        return self.append(event_from_text(event_to_text(self.clean(event))))

    def append(self, event: Event) -> int:
        """Append an event that went through its text form; its seq."""
        kept = self._count(seq=self.tables.counters.seq + 1)
        row = Recorded(seq=kept.seq, epoch=kept.epoch, event=event)
        self.rows.append(row)
        return kept.seq

    # -------------------------------------------------------- leases

    def lease(self, id_: LeaseId) -> Lease | None:
        return self.tables.leases.get(id_)

    def lease_of_request(self, request_id: str) -> Lease | None:
        id_ = self.tables.requests.get(request_id)
        return None if id_ is None else self.tables.leases[id_]

    def live(self) -> Sequence[Lease]:
        return tuple(each for each in self._leases() if not each.state.ended)

    def waiting(self) -> Sequence[Lease]:
        return tuple(each for each in self._leases() if each.state.waits)

    def holder(self, resource: str) -> Lease | None:
        id_ = self.tables.claims.get(resource)
        return None if id_ is None else self.tables.leases[id_]

    def ended(self, *, after: int, limit: int) -> Sequence[Lease]:
        over = (each for each in self._leases() if each.state.ended and (not after or each.number < after))
        return tuple(sorted(over, key=lambda each: -each.number)[:limit])

    def put(self, lease: Lease) -> Lease:
        self._writes()
        new, tables = lease.number == 0, self.tables
        kept = replace(lease, number=tables.counters.leases + 1) if new else lease
        kept = lease_from_text(lease_to_text(kept))
        wanted = set(kept.covers) if kept.state.holds else set()
        taken = sorted(each for each in wanted if tables.claims.get(each, kept.id) != kept.id)
        if taken:
            raise Taken(f"{', '.join(taken)}: claimed by another")
        there, same = tables.leases.get(kept.id), self.lease_of_request(kept.request_id)
        if (there is not None) == new or (there is not None and there.number != kept.number):
            raise ValueError(f"lease {kept.id} with number {kept.number} is there already, or is not there")
        if same is not None and same.id != kept.id:
            raise ValueError(f"the request of lease {kept.id} made another")
        for resource in [each for each, holder in tables.claims.items() if holder == kept.id]:
            del tables.claims[resource]
        tables.claims.update(dict.fromkeys(wanted, kept.id))
        tables.leases[kept.id] = kept
        if kept.request_id:
            tables.requests[kept.request_id] = kept.id
        self._count(leases=max(tables.counters.leases, kept.number))
        return kept

    # -------------------------------------------------------- journal

    def journal(self, id_: LeaseId) -> Sequence[Entry]:
        return self.tables.journal.get(id_, ())

    def begin(self, entry: Entry) -> None:
        self._writes()
        had = self.tables.journal.get(entry.lease, ())
        if entry.n < 1 or any(it.n == entry.n for it in had):
            raise ValueError(f"{entry.lease} takes no new entry {entry.n}")
        kept = replace(
            entry,
            step=step_from_text(step_to_text(entry.step)),
            found=found_from_text(found_to_text(entry.found)),
        )
        self.tables.journal[entry.lease] = tuple(sorted((*had, kept), key=lambda it: it.n))

    def mark(self, id_: LeaseId, n: int, state: EntryState, note: str = "") -> None:
        self._writes()
        had = self.tables.journal.get(id_, ())
        if all(it.n != n for it in had):
            raise ValueError(f"{id_} has no entry {n}")
        self.tables.journal[id_] = tuple(
            replace(it, state=state, note=note) if it.n == n else it for it in had
        )

    # -------------------------------------------------------- jobs

    def job(self, id_: JobId) -> Job | None:
        found = self.tables.jobs.get(id_)
        return None if found is None else found[0]

    def job_of_request(self, request_id: str) -> Job | None:
        id_ = self.tables.job_requests.get(request_id)
        return None if id_ is None else self.tables.jobs[id_][0]

    def open_jobs(self) -> Sequence[Job]:
        return _by_id(each for each in self._jobs() if not each.state.ended)

    def jobs_of(self, lease: LeaseId) -> Sequence[Job]:
        return _by_id(each for each in self._jobs() if each.lease == lease)

    def jobs_quiet(self, before: float, limit: int) -> Sequence[Job]:
        due = (
            (watch, job.id, job)
            for job, watch in self.tables.jobs.values()
            if watch is not None and watch <= before
        )
        return tuple(job for _, _, job in sorted(due, key=lambda each: each[:2])[:limit])

    def ended_jobs(self, *, before: str, limit: int) -> Sequence[Job]:
        over = _by_id(each for each in self._jobs() if each.state.ended and (not before or each.id < before))
        return tuple(reversed(over))[:limit]

    def put_job(self, job: Job, *, watch: float | None) -> None:
        self._writes()
        same = self.job_of_request(job.request_id)
        if same is not None and same.id != job.id:
            raise ValueError(f"the request of job {job.id} made another")
        kept = job_from_text(job_to_text(job))
        self.tables.jobs[job.id] = (kept, None if kept.state.ended else watch)
        if kept.request_id:
            self.tables.job_requests[kept.request_id] = kept.id

    def add_points(self, id_: JobId, points: Sequence[Point]) -> None:
        self._writes()
        for point in map(checked_point, points):
            had = self.tables.points.get((id_, point.name), ())
            self.tables.points[id_, point.name] = (*had, point)[-POINTS_KEPT:]

    def points(self, id_: JobId, limit: int) -> Sequence[Point]:
        of = sorted((name, each) for (job, name), each in self.tables.points.items() if job == id_)
        return tuple(point for _, each in of for point in each[len(each) - min(limit, len(each)) :])

    # -------------------------------------------------------- fence

    def fence(self) -> Fence | None:
        return self.tables.fence

    def put_fence(self, fence: Fence | None) -> None:
        self._writes()
        self.tables.fence = None if fence is None else fence_from_text(fence_to_text(fence))

    # -------------------------------------------------------- upkeep

    def prune_ended(self, before: str, limit: int) -> int:
        self._writes()
        tables, leases = self.tables, _old(self._leases(), before, limit)
        for lease in leases:
            del tables.leases[lease.id]
            tables.requests.pop(lease.request_id, None)
            tables.journal.pop(lease.id, None)
        jobs = _old(self._jobs(), before, limit - len(leases))
        for job in jobs:
            del tables.jobs[job.id]
            tables.job_requests.pop(job.request_id, None)
        gone = {job.id for job in jobs}
        for place in [each for each in tables.points if each[0] in gone]:
            del tables.points[place]
        return len(leases) + len(jobs)

    def prune(self, before: str, limit: int) -> int:
        """Drop events from the oldest on, up to the first that is not old: the log never has a hole."""
        old = 0
        while old < min(limit, len(self.events)) and rfc3339(self.events[old].event.at) < before:
            old += 1
        self.dropped += old
        self._count(pruned=self.tables.counters.pruned + old)
        return old

    # -------------------------------------------------------- how

    def _writes(self) -> None:
        if not self.writing:
            raise RuntimeError("this view of the store is for reading")

    def _count(self, **numbers: int) -> Counters:
        self._writes()
        self.tables.counters = replace(self.tables.counters, **numbers)  # type: ignore[arg-type] # no epoch
        return self.tables.counters

    def _leases(self) -> Iterable[Lease]:
        return self.tables.leases.values()

    def _jobs(self) -> Iterable[Job]:
        return (job for job, _ in self.tables.jobs.values())


def _by_id(jobs: Iterable[Job]) -> Sequence[Job]:
    return tuple(sorted(jobs, key=lambda each: each.id))


def _old(each_of: Iterable[_T], before: str, limit: int) -> Sequence[_T]:
    """Those that ended before, earliest first."""
    old = [each for each in each_of if each.state.ended and _ended(each) < before]
    return sorted(old, key=_ended)[:limit]


def _ended(of: Lease | Job) -> str:
    return rfc3339((of.ended or of.created).at)
