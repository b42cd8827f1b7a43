"""What an update of a job may have in it, and what it makes of the job: all of it, or nothing (R67).

Decides bounds (JOB-7) and how values are joined. Texts come cleaned: what is a secret in them is not known
here. Who may update a job is for others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.job import Heard, Job, Point, Progress, Receipt, apply
from hostler.domain.moment import Moment, left

MAX_TITLE: Final = 200
MAX_NOTE: Final = 16 << 10
"""Bytes of a note, as it was sent."""
MAX_METRICS: Final = 100
"""Metrics in one update."""
MAX_METRIC_NAMES: Final = 256
"""Different metrics of one job: of each up to 2,000 values are kept."""
MAX_RECEIPTS: Final = 64
"""Receipts of one job."""
MAX_LABEL: Final = 200

Source = Literal["holder", "child"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update; nothing in it: a heartbeat. `n` is the client's own sequence number (JOB-6)."""

    n: int | None = None
    note: str | None = None
    progress: Progress | None = None
    metrics: Mapping[str, float] = field(default_factory=lambda: frozen({}))
    receipts: tuple[Receipt, ...] = ()
    source: Source = "holder"

    @property
    def kinds(self) -> tuple[str, ...]:
        """What it has beside the heartbeat that every update is."""
        given = {
            "note": self.note is not None,
            "progress": self.progress is not None,
            "metrics": bool(self.metrics),
            "receipts": bool(self.receipts),
        }
        return tuple(kind for kind, there in given.items() if there)


def progress_of(value: float | None, n: float | None, total: float | None, label: str = "") -> Progress:
    """How far: a share from 0 to 1, or `n` of `total`. Refuses `invalid_request` for anything else."""
    given = [it for it in (value, n, total) if it is not None]
    if not all(map(math.isfinite, given)):
        raise _progress("a number that is finite")
    if value is not None and (n is not None or total is not None):
        raise _progress("either `value`, or `n` of `total`, not both")
    if value is not None:
        if not 0 <= value <= 1:
            raise _progress("a `value` from 0 to 1")
        return Progress(value=value, label=label)
    if n is None or total is None:
        raise _progress("a `value` from 0 to 1, or both `n` and `total`")
    if total <= 0 or not 0 <= n <= total:
        raise _progress("a `total` above 0, and `n` from 0 to `total`")
    return Progress(value=n / total, n=n, total=total, label=label)


def check_note(note: str | None) -> None:
    """Refuses `invalid_request` for a note over its bound, which it names."""
    size = len((note or "").encode("utf-8", "surrogatepass"))
    if size > MAX_NOTE:
        raise InvalidRequest(
            what=f"The note has {size} bytes.", expected=f"at most {MAX_NOTE} bytes", where="note"
        )


def check_metrics(metrics: Mapping[str, float]) -> None:
    """Refuses `invalid_request` for too many in one update, for names and numbers that cannot be kept."""
    if len(metrics) > MAX_METRICS:
        raise InvalidRequest(
            what=f"The update has {len(metrics)} metrics.",
            expected=f"at most {MAX_METRICS} in one update",
            where="metrics",
        )
    for name, value in metrics.items():
        if not 1 <= len(name) <= MAX_LABEL:
            raise InvalidRequest(
                what=f"A metric's name has {len(name)} characters.",
                expected=f"from 1 to {MAX_LABEL}",
                where="metrics",
            )
        if not math.isfinite(value):
            raise InvalidRequest(
                what=f"The metric {name!r} is no finite number.",
                expected="a number that JSON has: no NaN, no infinity",
                where="metrics",
            )


def updated(job: Job, update: Update, now: Moment) -> tuple[Job, tuple[str, ...]]:
    """The job with everything that is in `update`, and which kinds that were; none: a heartbeat only.

    Refuses `ended`, and `invalid_request` for more receipts or metrics than a job may have. Nothing of a
    refused update is kept: the job that was given is as it was.
    """
    metrics = {**job.metrics, **update.metrics}
    receipts = (*job.receipts, *update.receipts)
    heard = apply(job, Heard(at=now))
    _check_total(len(receipts), MAX_RECEIPTS, "receipts")
    _check_total(len(metrics), MAX_METRIC_NAMES, "metrics")
    told = update.note is not None
    after = replace(
        heard,
        note=update.note if update.note is not None else job.note,
        source=update.source if told else job.source,
        progress=update.progress or job.progress,
        metrics=frozen(metrics),
        receipts=receipts,
        applied=max(job.applied, update.n or 0),
    )
    return after, update.kinds


def applied(job: Job, n: int | None) -> bool:
    """Whether the update of that sequence number was applied already (JOB-6): it is answered, and no more."""
    return n is not None and n <= job.applied


def points_of(job: Job, update: Update, now: Moment) -> tuple[Point, ...]:
    """The measured values of an update, each at its second since the job began."""
    elapsed = max(0.0, -left(job.created, now))
    return tuple(Point(name=name, elapsed_s=elapsed, value=value) for name, value in update.metrics.items())


def _progress(expected: str) -> InvalidRequest:
    return InvalidRequest(what="The progress does not fit.", expected=expected, where="progress")


def _check_total(count: int, most: int, what: str) -> None:
    if count > most:
        raise InvalidRequest(
            what=f"The job would have {count} {what}.", expected=f"at most {most} of one job", where=what
        )
