"""What becomes of jobs that nobody hears of, inside the schedule's transactions (JOB-2, JOB-3).

Decides when nobody judges: under a fence, while the watcher was blind, and for one interval of each job
after a start of the daemon. What a silence means is `hostler.domain.job`'s decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain import job_events
from hostler.domain.job import Job, State, excused, quiet_s, silenced, verdict, watch_at
from hostler.domain.moment import Moment, left
from hostler.services.schedule_needs import Tx

JUDGED: Final = 200
"""Verdicts in one transaction: others wait for the store meanwhile."""


@dataclass(eq=False, slots=True, kw_only=True)
class Silence:
    """`since` is when this daemon began to listen, `grace` the elapsed second before which nobody judges."""

    since: Moment | None = None
    grace: float = 0.0

    def state(self, job: Job, now: Moment, *, fenced: bool) -> State:
        """The job's state by now: worked out on a read as on a tick."""
        return job.state if fenced else verdict(job, now, self._judged_from(job))

    def put(self, tx: Tx, job: Job, now: Moment, seq: int) -> Job:
        """Write the job; the keeper looks at it again when its next verdict is due and may be given."""
        after = replace(job, seq=seq)
        due = watch_at(after, now)
        tx.put_job(after, watch=None if due is None else max(due, self._judged_from(after)))
        return after

    def judged(self, tx: Tx, job: Job, now: Moment, *, fenced: bool) -> Job:
        """The job with the verdict that is due by now, written with its one event (R63)."""
        state = self.state(job, now, fenced=fenced)
        if state is job.state:
            return job
        after = silenced(job, state, now)
        return self.put(tx, after, now, tx.record(job_events.silenced(job, after, quiet_s(job, now), now)))

    def judge(self, tx: Tx, now: Moment) -> bool:
        """Verdicts for a part of the jobs that are due; whether there may be more."""
        if tx.fence() is not None:
            return False
        due = tx.jobs_quiet(now.elapsed, JUDGED)
        for job in due:
            if self.judged(tx, job, now, fenced=False) is job:
                self.put(tx, job, now, job.seq)
        return len(due) == JUDGED

    def begin(self, tx: Tx, alive: Moment | None, now: Moment) -> int:
        """Listen from now on: the time since `alive` is nobody's quiet time. How many jobs are open.

        Without `alive` it counts from the last update that any job had: the daemon lived then.
        """
        self.since, jobs = now, tx.open_jobs()
        known = [alive] if alive is not None else [job.heard for job in jobs]
        last = min(known, key=lambda it: -left(it, now), default=now)
        # Under a fence no time counts anyway: all of it is taken off when the fence comes down.
        self._excuse(tx, jobs, now if tx.fence() is not None else last, now)
        return len(jobs)

    def excuse(self, tx: Tx, since: Moment, now: Moment) -> None:
        """The time since `since` was no open job's quiet time."""
        self._excuse(tx, tx.open_jobs(), since, now)

    def _excuse(self, tx: Tx, jobs: Sequence[Job], since: Moment, now: Moment) -> None:
        for job in jobs:
            missed = min(-left(since, now), -left(job.heard, now))
            self.put(tx, excused(job, missed, now), now, job.seq)

    def _judged_from(self, job: Job) -> float:
        """The elapsed second before which nobody judges this job."""
        return max(self.grace, 0.0 if self.since is None else self.since.elapsed + job.every_s)
