"""What a beat of a job gives the lease that it runs under (LEASE-20).

Decides whose beats count: those of the holder's own open job, and none for a window, which has its cap. The
time is a renewal's by the resource's default, never past the hard end; also of a lease that was asked for
with a shorter time of its own, which `LeaseView.beat_s` tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.fence import counted
from hostler.domain.job import Job
from hostler.domain.lease import LeaseId, State
from hostler.domain.lease_due import renewal
from hostler.domain.lease_news import OF_JOB
from hostler.domain.moment import Moment, left
from hostler.services.lease_changes import change
from hostler.services.present import Present
from hostler.services.promotion import next_booking
from hostler.services.schedule_needs import Tx

WORTH: Final = 0.1
"""A beat that would give less than this part of the default is not worth an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats:
    """Extends leases inside the transaction of a job's update."""

    config: Present

    def extend(self, tx: Tx, job: Job, now: Moment) -> None:
        """Extend the lease of `job` by this beat, when it is its holder's own and active."""
        lease = None if job.lease is None else tx.lease(LeaseId(job.lease))
        if lease is None or lease.state is not State.ACTIVE or lease.expires is None:
            return
        resource = self.config.fleet.resources.get(lease.resource)
        if resource is None or lease.mode or job.state.ended or job.secret != lease.secret:
            return
        counts = counted(tx.fence(), now)
        event = renewal(lease, resource, resource.ttl_s, counts, next_booking(lease, tx.waiting(), now))
        if event.expires is None or left(event.expires, lease.expires) < WORTH * resource.ttl_s:
            return
        change(tx, lease, replace(event, actor=f"{OF_JOB}{job.id}"), now)
