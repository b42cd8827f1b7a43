"""The schedule inside one SQLite transaction (the need `Tx`).

Decides which rows follow from a value that is written: claims from a lease's state, indexed columns from its
fields. Claim rows are written at once, so that who is too late is told at once; rows of leases and events
when a work reads from the file, and at its end. Beginning and committing are the store's; all of it runs on
the store's one thread.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from hostler.adapters.store.counters import Clean, Counters, begun, unchanged
from hostler.adapters.store.live import Live
from hostler.adapters.store.remembered import Memory
from hostler.adapters.store.sqlite_file import SQL, Unusable
from hostler.adapters.store.unwritten import Unwritten
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
    job_and_text,
    job_from_text,
    lease_and_text,
    lease_from_text,
    step_from_text,
    step_to_text,
)
from hostler.wire.values import event_and_text, event_from_text

T = TypeVar("T")
POINTS_KEPT: Final = 2000
"""Values kept of each measured name of a job."""
HIGHEST: Final = 2**63 - 1


@dataclass(eq=False, slots=True, kw_only=True)
class SqliteTx:
    """One transaction. `rows` are the events that it recorded so far, `counters` is kept at its end.

    `flush` ends each work of it. `changed` says whether this work put a lease or a fence.
    """

    connection: sqlite3.Connection
    counters: Counters
    writing: bool
    memory: Memory
    clean: Clean = unchanged
    rows: list[Recorded] = field(default_factory=list)
    unwritten: Unwritten = field(default_factory=Unwritten)
    changed: bool = False

    def meta(self) -> Meta:
        kept = self.counters
        return Meta(epoch=kept.epoch, seq=kept.seq, generation=kept.generation, began=kept.began)

    def next_generation(self) -> FenceNumber:
        self._writes()
        self.counters = replace(self.counters, generation=self.counters.generation + 1)
        return FenceNumber(epoch=self.counters.epoch, generation=self.counters.generation)

    def begin_epoch(self, epoch: str, generation: int) -> None:
        self._writes()
        self.counters = begun(self.counters, epoch, generation)

    def record(self, event: Event) -> int:
        return self.append(*event_and_text(self.clean(event)))

    def append(self, event: Event, text: str) -> int:
        """Append an event as it is read from its text, with that text; its seq."""
        self._writes()
        seq = self.counters.seq + 1
        self.unwritten.events.append(
            {"seq": seq, "time": rfc3339(event.at), "type": event.type, "body": text}
        )
        self.counters = replace(self.counters, seq=seq)
        self.rows.append(Recorded(seq=seq, epoch=self.counters.epoch, event=event))
        return seq

    # -------------------------------------------------------- leases

    def lease(self, id_: LeaseId) -> Lease | None:
        put, live = self.unwritten.leases.get(id_), self.memory.known.live
        if put is not None:
            return put.lease
        known = None if live is None else live.by_id.get(id_)
        return known or self._one(self.memory.lease, "lease", id=id_)

    def lease_of_request(self, request_id: str) -> Lease | None:
        return self._one(self.memory.lease, "lease_of_request", request=request_id)

    def live(self) -> Sequence[Lease]:
        return self._live().all()

    def waiting(self) -> Sequence[Lease]:
        return tuple(self._live().waiting.values())

    def _live(self) -> Live:
        return self.memory.known.leases(lambda: self._all(self.memory.lease, "live"))

    def holder(self, resource: str) -> Lease | None:
        return self._live().holders.get(resource)

    def ended(self, *, after: int, limit: int) -> Sequence[Lease]:
        return self._all(self.memory.lease, "ended", after=after or HIGHEST, limit=limit)

    def put(self, lease: Lease) -> Lease:
        self._writes()
        new = lease.number == 0
        numbered = replace(lease, number=self.counters.leases + 1) if new else lease
        kept, text = lease_and_text(numbered)
        self._claim(kept, new=new)
        if new:
            self.counters = replace(self.counters, leases=kept.number)
        self.changed = True
        self.unwritten.put(kept, text, new=new)
        self.memory.known.put(kept)
        return kept

    def _claim(self, lease: Lease, *, new: bool) -> None:
        have = frozenset[str]() if new else self._claims(lease.id)
        wanted = frozenset(lease.covers) if lease.state.holds else frozenset()
        if wanted - have:
            # One statement for all of them: it takes every one, or none.
            try:
                self._change("claim", lease=lease.id, resources=json.dumps(sorted(wanted - have)))
            except sqlite3.IntegrityError as error:
                _check_twice(error)
                raise Taken(f"{', '.join(sorted(wanted - have))}: {error}") from error
        for resource in have - wanted:
            self._change("unclaim", resource=resource, lease=lease.id)

    def _claims(self, id_: LeaseId) -> frozenset[str]:
        live = self.memory.known.live
        if live is not None:
            return live.claims(id_)
        rows = self.connection.execute(SQL["claimed"], {"lease": id_})
        return frozenset(row[0] for row in rows.fetchall())

    def flush(self) -> None:
        """Write the rows that are not written yet. ValueError for a lease or a request that is there already,
        and for a lease with a number that is not there.
        """
        leases, events = self.unwritten.take()
        for row in leases:
            self._write_lease(row.lease, row.text, new=row.new)
        if events:
            self.connection.executemany(SQL["append"], events)

    def _write_lease(self, lease: Lease, text: str, *, new: bool) -> None:
        try:
            done = self._change(
                "new_lease" if new else "keep_lease",
                number=lease.number,
                id=lease.id,
                request=lease.request_id,
                ended=rfc3339((lease.ended or lease.created).at) if lease.state.ended else None,
                body=text,
            )
        except sqlite3.IntegrityError as error:
            _check_twice(error)
            raise ValueError(f"lease {lease.id} or its request is there already: {error}") from error
        if not done:
            raise ValueError(f"there is no lease {lease.id} with number {lease.number}")
        self.memory.lease.keep(lease.id, text, lease)

    def undone(self, counters: Counters, recorded: int) -> None:
        """The work that was under way is undone: nothing that it put is known, nor is it written."""
        self.counters = counters
        del self.rows[recorded:]
        self.unwritten.take()
        if self.changed:
            self.memory.known.forget()

    # -------------------------------------------------------- journal

    def journal(self, id_: LeaseId) -> Sequence[Entry]:
        return tuple(
            Entry(
                lease=id_,
                n=n,
                step=_read(step_from_text, step),
                found=_read(found_from_text, found),
                state=_read(EntryState, state),
                note=note,
            )
            for n, state, note, step, found in self._rows("journal", lease=id_)
        )

    def begin(self, entry: Entry) -> None:
        if entry.n < 1 or self._rows("entry", lease=entry.lease, n=entry.n):
            raise ValueError(f"{entry.lease} takes no new entry {entry.n}")
        self._change(
            "begin",
            lease=entry.lease,
            n=entry.n,
            state=entry.state.value,
            note=entry.note,
            step=step_to_text(entry.step),
            found=found_to_text(entry.found),
        )

    def mark(self, id_: LeaseId, n: int, state: EntryState, note: str = "") -> None:
        if not self._change("mark", lease=id_, n=n, state=state.value, note=note):
            raise ValueError(f"{id_} has no entry {n}")

    # -------------------------------------------------------- jobs

    def job(self, id_: JobId) -> Job | None:
        return self._one(self.memory.job, "job", id=id_)

    def job_of_request(self, request_id: str) -> Job | None:
        return self._one(self.memory.job, "job_of_request", request=request_id)

    def open_jobs(self) -> Sequence[Job]:
        return self._all(self.memory.job, "open_jobs")

    def jobs_of(self, lease: LeaseId) -> Sequence[Job]:
        return self._all(self.memory.job, "jobs_of", lease=lease)

    def jobs_quiet(self, before: float, limit: int) -> Sequence[Job]:
        return self._all(self.memory.job, "jobs_quiet", before=before, limit=limit)

    def ended_jobs(self, *, before: str, limit: int) -> Sequence[Job]:
        if before:
            return self._all(self.memory.job, "ended_jobs", before=before, limit=limit)
        return self._all(self.memory.job, "newest_ended_jobs", limit=limit)

    def put_job(self, job: Job, *, watch: float | None) -> None:
        over, (kept, text) = job.state.ended, job_and_text(job)
        try:
            self._change(
                "put_job",
                id=job.id,
                request=job.request_id,
                lease=job.lease,
                ended=rfc3339((job.ended or job.created).at) if over else None,
                watch=None if over else watch,
                body=text,
            )
        except sqlite3.IntegrityError as error:
            _check_twice(error)
            raise ValueError(f"the request of job {job.id} made another: {error}") from error
        self.memory.job.keep(kept.id, text, kept)

    def add_points(self, id_: JobId, points: Sequence[Point]) -> None:
        last: dict[str, int] = {}
        for point in map(checked_point, points):
            name = point.name
            if name not in last:
                last[name] = self._rows("last_point", job=id_, name=name)[0][0] or 0
            last[name] += 1
            self._change(
                "add_point", job=id_, name=name, n=last[name], elapsed=point.elapsed_s, value=point.value
            )
        for name, n in last.items():
            if n > POINTS_KEPT:
                self._change("drop_points", job=id_, name=name, n=n - POINTS_KEPT)

    def points(self, id_: JobId, limit: int) -> Sequence[Point]:
        found: list[Point] = []
        name = ""
        while (name := self._rows("next_name", job=id_, name=name)[0][0]) is not None:
            newest = self._rows("points", job=id_, name=name, limit=limit)
            found += (Point(name=name, elapsed_s=at, value=value) for at, value in reversed(newest))
        return tuple(found)

    # -------------------------------------------------------- fence

    def fence(self) -> Fence | None:
        return self.memory.known.fence(self._fence)

    def _fence(self) -> Fence | None:
        rows = self._rows("fence")
        return _read(fence_from_text, rows[0][0]) if rows else None

    def put_fence(self, fence: Fence | None) -> None:
        text = None if fence is None else fence_to_text(fence)
        if text is None:
            self._change("drop_fence")
        else:
            self._change("put_fence", body=text)
        self.changed = True
        self.memory.known.put_fence(None if text is None else fence_from_text(text))

    # -------------------------------------------------------- upkeep

    def prune_ended(self, before: str, limit: int) -> int:
        leases = [row[0] for row in self._rows("old_leases", before=before, limit=limit)]
        for id_ in leases:
            self._change("drop_journal", id=id_)
            self._change("drop_lease", id=id_)
        jobs = [row[0] for row in self._rows("old_jobs", before=before, limit=limit - len(leases))]
        for id_ in jobs:
            self._change("drop_points_of", id=id_)
            self._change("drop_job", id=id_)
        return len(leases) + len(jobs)

    def prune(self, before: str, limit: int) -> int:
        """Drop events from the oldest on, up to the first that is not old: the log never has a hole."""
        last, count = 0, 0
        for seq, time in self._rows("oldest", limit=limit):
            if time >= before:
                break
            last, count = seq, count + 1
        if count:
            self._change("drop", seq=last)
            self.counters = replace(self.counters, pruned=last)
        return count

    def save(self) -> None:
        """Write the counters, and what is not written yet: the last thing before the commit."""
        self.flush()
        kept = self.counters
        self._change(
            "keep",
            epoch=kept.epoch,
            seq=kept.seq,
            pruned=kept.pruned,
            generation=kept.generation,
            leases=kept.leases,
            began=kept.began,
        )

    def check_all(self) -> None:
        """Read every value once. Raises Unusable for one that cannot be read."""
        every: tuple[tuple[str, Callable[[str], object]], ...] = (
            ("all_leases", lease_from_text),
            ("all_jobs", job_from_text),
            ("all_events", event_from_text),
            ("all_steps", step_from_text),
            ("all_founds", found_from_text),
        )
        for statement, make in every:
            # A cursor in the middle of its rows would keep the file open after the connection.
            with closing(self.connection.execute(SQL[statement])) as rows:
                for (text,) in rows:
                    _read(make, text)
        self.fence()

    # -------------------------------------------------------- how

    def _writes(self) -> None:
        if not self.writing:
            raise RuntimeError("this view of the store is for reading")

    def _change(self, statement: str, **parameters: object) -> int:
        self._writes()
        return self.connection.execute(SQL[statement], parameters).rowcount

    def _rows(self, statement: str, **parameters: object) -> list[tuple[Any, ...]]:
        """Rows; what their columns hold is the schema's affair."""
        self.flush()
        return self.connection.execute(SQL[statement], parameters).fetchall()

    def _one(self, make: Callable[[str, str], T], statement: str, **parameters: object) -> T | None:
        """The value of one row with an id and a text."""
        self.flush()
        row = self.connection.execute(SQL[statement], parameters).fetchone()
        return None if row is None else _read(make, *row)

    def _all(self, make: Callable[[str, str], T], statement: str, **parameters: object) -> Sequence[T]:
        return tuple(_read(make, *row) for row in self._rows(statement, **parameters))


def counters_of(connection: sqlite3.Connection) -> Counters:
    """The counters as they are kept."""
    epoch, seq, pruned, generation, leases, began = connection.execute(SQL["meta"]).fetchone()
    return Counters(epoch=epoch, seq=seq, pruned=pruned, generation=generation, leases=leases, began=began)


def _check_twice(error: sqlite3.IntegrityError) -> None:
    """Raises the error unless it says that a key is there already."""
    if error.sqlite_errorname not in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"):
        raise error


def _read(make: Callable[..., T], *texts: str) -> T:
    try:
        return make(*texts)
    except ValueError as error:
        raise Unusable(f"a row of it is damaged: {error}") from error
