"""The schedule's rows of the endpoint table: leases, resources, the fence, jobs, history (API-1).

Decides which calls there are, the scope that each needs (R92), and the refusals that it may give. Rows of
longer paths come first: an id is all that stands at its place, whatever is in it, and none is a path.
"""

from __future__ import annotations

from typing import Final

from hostler.domain.errors import (
    ActivationFailed,
    BoxReserved,
    CursorReset,
    Ended,
    Fenced,
    HoldTaken,
    JobNotFound,
    LeaseLost,
    LeaseNotFound,
    NotHead,
    QueueFull,
    Refusal,
    ResourceNotFound,
    ScheduleUnavailable,
    SlotTaken,
    StaleGeneration,
    StoreFull,
    Stuck,
    TtlRefused,
)
from hostler.interfaces.api import jobs, leases
from hostler.interfaces.api.endpoint import Endpoint
from hostler.interfaces.api.shapes import History, HistoryQuery
from hostler.services.keys import Scope
from hostler.wire.jobs import FinishBody, JobBody, JobList, JobsQuery, OneJob, UpdateBody
from hostler.wire.schedule import (
    BackupBody,
    CancelBody,
    Cared,
    ClaimBody,
    FenceBody,
    FenceNow,
    LeaseList,
    LeasesQuery,
    OneLease,
    ProcessBody,
    ReleaseBody,
    RenewBody,
    ReserveBody,
    ResourceList,
    WhyResource,
)

Codes = tuple[type[Refusal], ...]

READS: Final[Codes] = (NotHead, ScheduleUnavailable)
"""What every look at the schedule may be refused with."""
WRITES: Final[Codes] = (*READS, StoreFull)
HELD: Final[Codes] = (LeaseNotFound, StaleGeneration, Ended, LeaseLost, Stuck, *WRITES)
"""What a change of one lease may be refused with."""

LEASES: Final = "/v1/hostler/leases"
LEASE: Final = f"{LEASES}/{{lease:path}}"
JOBS: Final = "/v1/hostler/jobs"
JOB: Final = f"{JOBS}/{{job:path}}"
FENCE: Final = "/v1/hostler/fence"
STORE: Final = "/v1/hostler/schedule"

LEASING: Final = (
    Endpoint(
        method="POST",
        path=LEASES,
        scope=Scope.SCHEDULE_WRITE,
        summary="Ask for a resource: granted when it is free, queued when it is not, or refused with `now`.",
        handler=leases.reserve,
        body=ReserveBody,
        answer=OneLease,
        own_repeats=True,
        refusals=(
            ResourceNotFound,
            TtlRefused,
            QueueFull,
            SlotTaken,
            HoldTaken,
            Fenced,
            BoxReserved,
            ActivationFailed,
            *WRITES,
        ),
    ),
    Endpoint(
        method="GET",
        path=LEASES,
        scope=Scope.SCHEDULE_READ,
        summary="Leases, places and bookings, oldest first; with `ended` those that are over as well.",
        handler=leases.leases,
        query=LeasesQuery,
        answer=LeaseList,
        refusals=(CursorReset, *READS),
    ),
    Endpoint(
        method="POST",
        path=f"{LEASE}/renew",
        scope=Scope.SCHEDULE_WRITE,
        summary="Keep a place, take up an offer, or extend an active lease.",
        handler=leases.renew,
        body=RenewBody,
        answer=OneLease,
        refusals=(TtlRefused, *HELD),
    ),
    Endpoint(
        method="POST",
        path=f"{LEASE}/release",
        scope=Scope.SCHEDULE_WRITE,
        summary="Give a lease back: what it did is undone and verified. An operator may free a stuck one.",
        handler=leases.release,
        body=ReleaseBody,
        answer=OneLease,
        refusals=HELD,
    ),
    Endpoint(
        method="POST",
        path=f"{LEASE}/cancel",
        scope=Scope.SCHEDULE_WRITE,
        summary="Call a lease off, whatever its state: an activation finishes its step and is undone.",
        handler=leases.cancel,
        body=CancelBody,
        answer=OneLease,
        refusals=HELD,
    ),
    Endpoint(
        method="POST",
        path=f"{LEASE}/claim",
        scope=Scope.SCHEDULE_WRITE,
        summary="Take up an offer.",
        handler=leases.claim,
        body=ClaimBody,
        answer=OneLease,
        refusals=HELD,
    ),
    Endpoint(
        method="POST",
        path=f"{LEASE}/processes",
        scope=Scope.SCHEDULE_WRITE,
        summary="Register the process group that works under a lease, so that its node can end it.",
        handler=leases.register,
        body=ProcessBody,
        answer=OneLease,
        refusals=HELD,
    ),
    Endpoint(
        method="GET",
        path=LEASE,
        scope=Scope.SCHEDULE_READ,
        summary="One lease, with its steps.",
        handler=leases.lease,
        answer=OneLease,
        refusals=(LeaseNotFound, *READS),
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/resources",
        scope=Scope.SCHEDULE_READ,
        summary="Everything that can be leased, who has it, and who waits.",
        handler=leases.resources,
        answer=ResourceList,
        refusals=READS,
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/resources/{resource:path}/why",
        scope=Scope.SCHEDULE_READ,
        summary="Every condition of a grant with whether it is met; changes nothing.",
        handler=leases.why,
        answer=WhyResource,
        refusals=(ResourceNotFound, *READS),
    ),
    Endpoint(
        method="GET",
        path=FENCE,
        scope=Scope.SCHEDULE_READ,
        summary="The deployment fence, and what still runs under it.",
        handler=leases.fence_now,
        answer=FenceNow,
        refusals=READS,
    ),
    Endpoint(
        method="POST",
        path=FENCE,
        scope=Scope.OPERATOR,
        summary="Put the deployment fence up for at most two hours, or take it down.",
        handler=leases.fence,
        body=FenceBody,
        answer=FenceNow,
        refusals=WRITES,
    ),
)

WORKING: Final = (
    Endpoint(
        method="POST",
        path=JOBS,
        scope=Scope.SCHEDULE_WRITE,
        summary="Start a job: its holder reports how it goes.",
        handler=jobs.start,
        body=JobBody,
        answer=OneJob,
        own_repeats=True,
        refusals=(ResourceNotFound, LeaseNotFound, Ended, QueueFull, *WRITES),
    ),
    Endpoint(
        method="GET",
        path=JOBS,
        scope=Scope.SCHEDULE_READ,
        summary="Open jobs, oldest first; with `ended` those that are over as well, the last page first.",
        handler=jobs.jobs,
        query=JobsQuery,
        answer=JobList,
        refusals=(CursorReset, *READS),
    ),
    Endpoint(
        method="POST",
        path=f"{JOB}/updates",
        scope=Scope.SCHEDULE_WRITE,
        summary="Report a note, progress, metrics, receipts, or nothing but that somebody is there.",
        handler=jobs.update,
        body=UpdateBody,
        answer=OneJob,
        refusals=(JobNotFound, StaleGeneration, Ended, *WRITES),
    ),
    Endpoint(
        method="POST",
        path=f"{JOB}/finish",
        scope=Scope.SCHEDULE_WRITE,
        summary="End a job, for ever; its lease goes with it where that was said.",
        handler=jobs.finish,
        body=FinishBody,
        answer=OneJob,
        refusals=(JobNotFound, Ended, *WRITES),
    ),
    Endpoint(
        method="GET",
        path=JOB,
        scope=Scope.SCHEDULE_READ,
        summary="One job, with its last measured values.",
        handler=jobs.job,
        answer=OneJob,
        refusals=(JobNotFound, *READS),
    ),
    Endpoint(
        method="GET",
        path="/v1/hostler/history",
        scope=Scope.SCHEDULE_READ,
        summary="What happened, oldest first, through the rotation of the history file.",
        handler=jobs.history,
        query=HistoryQuery,
        answer=History,
        refusals=READS,
    ),
)

CARING: Final = (
    Endpoint(
        method="POST",
        path=f"{STORE}/backup",
        scope=Scope.ADMIN,
        summary="Copy the schedule's store to a new file on the daemon's machine, whole, while it runs.",
        handler=leases.backup,
        body=BackupBody,
        answer=Cared,
        refusals=(StoreFull, *READS),
    ),
    Endpoint(
        method="POST",
        path=f"{STORE}/recover",
        scope=Scope.ADMIN,
        summary="Begin a new epoch; an unreadable store is kept aside, what nodes remember is stuck.",
        handler=leases.recover,
        answer=Cared,
        refusals=(StoreFull, *READS),
    ),
)

SCHEDULING: Final = (*LEASING, *WORKING, *CARING)
