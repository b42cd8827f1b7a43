"""The rows of jobs in a snapshot, as JSON text that is written once for each job and not for each snapshot.

Decides what of a row may be kept: all of it but `quiet_s`, which counts on, for as long as the job is the
very same value. Jobs are never changed in place: another state, note or beat is another value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.job import Job, JobId
from hostler.domain.moment import Moment
from hostler.services.job_views import job_view, quiet
from hostler.wire.values import Written, dump

COUNTS_ON: Final = b'"quiet_s":'
"""The texts before it have no quotation mark that is not escaped, so this is where it stands."""


@dataclass(frozen=True, slots=True)
class Row:
    """A job and its row, but for the number between."""

    job: Job
    before: bytes
    after: bytes


@dataclass(eq=False, slots=True)
class JobRows:
    """`kept`: the rows of the last snapshot. May be asked by several threads: each puts a whole one there."""

    kept: Mapping[JobId, Row] = field(default_factory=dict)

    def told(self, jobs: Sequence[Job], now: Moment) -> Written:
        """The array of these jobs at `now`."""
        known, rows, parts = self.kept, dict[JobId, Row](), list[bytes]()
        for job in jobs:
            row = known.get(job.id)
            if row is None or row.job is not job:
                row = _row(job, now)
            rows[job.id] = row
            parts += (b",", row.before, b"%d" % quiet(job, now), row.after)
        self.kept = rows
        return Written(b"[%b]" % b"".join(parts[1:]))


def _row(job: Job, now: Moment) -> Row:
    text = dump(job_view(job, job.state, now))
    before, mark, rest = text.partition(COUNTS_ON)
    return Row(job, before + mark, rest[rest.index(b",") :])
