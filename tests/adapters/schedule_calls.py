"""Work for a store's transactions, as values: a loop may make many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hostler.domain.job import Job, JobId, Point
from hostler.domain.journal import Entry, EntryState
from hostler.domain.lease import Lease
from hostler.services.schedule_needs import Tx


def ids(rows: Sequence[Lease] | Sequence[Job]) -> list[int]:
    """The numbers that test rows were made with."""
    return [int(row.id.partition("_")[2]) for row in rows]


def put(of: Lease) -> Callable[[Tx], Lease]:
    return lambda tx: tx.put(of)


def put_job(of: Job, watch: float | None = None) -> Callable[[Tx], None]:
    return lambda tx: tx.put_job(of, watch=watch)


def holder(resource: str) -> Callable[[Tx], Lease | None]:
    return lambda tx: tx.holder(resource)


def of_request(request: str) -> Callable[[Tx], Lease | None]:
    return lambda tx: tx.lease_of_request(request)


def begin(each: Entry) -> Callable[[Tx], None]:
    return lambda tx: tx.begin(each)


def mark(of: Lease, n: int, state: EntryState, note: str = "") -> Callable[[Tx], None]:
    return lambda tx: tx.mark(of.id, n, state, note)


def add(id_: JobId, values: Sequence[Point]) -> Callable[[Tx], None]:
    return lambda tx: tx.add_points(id_, values)


def ended(after: int) -> Callable[[Tx], Sequence[Lease]]:
    return lambda tx: tx.ended(after=after, limit=2)
