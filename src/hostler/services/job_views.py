"""Jobs as they are told: how each goes, without asking whoever runs it (R69).

Decides nothing but the form: the state is worked out by `hostler.domain.job.verdict`.
"""

from __future__ import annotations

from dataclasses import asdict

from hostler.domain.job import Job, Point, State
from hostler.domain.moment import Moment, left
from hostler.domain.values import rfc3339
from hostler.wire.jobs import JobView, PointView, ProgressView, ReceiptView


def job_view(job: Job, state: State, now: Moment) -> JobView:
    """The job at `now`, `state` being what silence has made of it by then."""
    return JobView(
        id=job.id,
        title=job.title,
        holder=job.holder,
        lease=job.lease,
        resource=job.resource,
        state=state,
        every_s=job.every_s,
        created_at=rfc3339(job.created.at),
        heard_at=rfc3339(job.heard.at),
        quiet_s=quiet(job, now),
        note=job.note,
        source=job.source,
        progress=None if job.progress is None else ProgressView(**asdict(job.progress)),
        metrics=job.metrics,
        receipts=tuple(ReceiptView(**asdict(receipt)) for receipt in job.receipts),
        applied=job.applied,
        lease_lost=job.lease_lost,
        ended_at=None if job.ended is None else rfc3339(job.ended.at),
        why=job.why,
        seq=job.seq,
    )


def quiet(job: Job, now: Moment) -> int:
    """Whole seconds since its holder was heard of."""
    return max(0, int(-left(job.heard, now)))


def point_view(point: Point) -> PointView:
    """One measured value."""
    return PointView(name=point.name, elapsed_s=round(point.elapsed_s, 3), value=point.value)
