"""What the control API asks of the schedule: leases and the fence, jobs, history.

Decides the calls and nothing else. `services.schedule` and `services.jobs` implement them; whatever a call
may refuse is a refusal of `domain.errors`. `who` is the caller with its rights, `by` the same as events
name it. A call with `wait_s` answers when what it waits for has come, when so long has passed, or when the
daemon is to end, whichever is first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from hostler.domain.values import Requester
from hostler.services.keys import Principal
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
from hostler.wire.windows import (
    AbortBody,
    CloseBody,
    ModePlan,
    ModesNow,
    OpenBody,
    WindowReport,
    WindowsQuery,
)


class ScheduleApi(Protocol):
    """Leases, resources and the fence."""

    async def reserve(self, body: ReserveBody, request_id: str, who: Principal, by: Requester) -> OneLease:
        """The lease of that request: a new one, or the one that it made before (LEASE-9)."""
        ...

    async def renew(self, id_: str, body: RenewBody, who: Principal, by: Requester) -> OneLease:
        """Keep a place, take up an offer, or extend an active lease (LEASE-17, LEASE-24)."""
        ...

    async def release(self, id_: str, body: ReleaseBody, who: Principal, by: Requester) -> OneLease:
        """Give it back, or free a stuck one (LEASE-13, LEASE-14)."""
        ...

    async def cancel(self, id_: str, body: CancelBody, who: Principal, by: Requester) -> OneLease:
        """Call it off, whatever its state (LEASE-16)."""
        ...

    async def claim(self, id_: str, body: ClaimBody, who: Principal, by: Requester) -> OneLease:
        """Take up an offer (LEASE-24)."""
        ...

    async def register(self, id_: str, body: ProcessBody, who: Principal, by: Requester) -> OneLease:
        """Register the process group that works under it (JOB-5)."""
        ...

    async def lease(self, id_: str) -> OneLease:
        """One lease, with its steps. Refuses `lease_not_found`."""
        ...

    async def leases(self, query: LeasesQuery) -> LeaseList:
        """A page of leases."""
        ...

    async def resources(self) -> ResourceList:
        """Everything that can be leased, and who has it."""
        ...

    async def why(self, resource: str) -> WhyResource:
        """Why it is or is not to be had now (LEASE-23). Refuses `resource_not_found`."""
        ...

    async def fence(self, body: FenceBody, who: Principal, by: Requester) -> FenceNow:
        """Put a fence up, or take it down (LEASE-28)."""
        ...

    async def fence_now(self) -> FenceNow:
        """The fence as it is."""
        ...


class WindowsApi(Protocol):
    """Windows (WIN-10)."""

    async def open(self, body: OpenBody, request_id: str, who: Principal, by: Requester) -> OneLease:
        """The window of that request: a new one, or the one that it opened before (LEASE-9)."""
        ...

    async def close(self, id_: str, body: CloseBody, who: Principal, by: Requester) -> OneLease:
        """Put everything back, verified (WIN-4)."""
        ...

    async def abort(self, id_: str, body: AbortBody, who: Principal, by: Requester) -> OneLease:
        """End it at once (WIN-10)."""
        ...

    async def windows(self, query: WindowsQuery) -> LeaseList:
        """The windows that there are."""
        ...

    async def status(self, id_: str) -> OneLease:
        """One window, with its steps. Refuses `lease_not_found`."""
        ...

    async def report(self, id_: str) -> WindowReport:
        """How it ended, and what came back (WIN-4). Refuses `lease_not_found`."""
        ...


class ModesApi(Protocol):
    """Modes (MODE-2)."""

    async def modes(self) -> ModesNow:
        """Every mode with how the fleet differs from it now."""
        ...

    async def plan(self, name: str, cap_s: float | None = None) -> ModePlan:
        """What a window of that cap, or the mode's own, would do; changes nothing. Refuses `not_found`."""
        ...


class JobsApi(Protocol):
    """Jobs (JOB-1)."""

    async def start(self, body: JobBody, request_id: str, who: Principal, by: Requester) -> OneJob:
        """The job of that request: a new one, or the one that it made before (JOB-1)."""
        ...

    async def update(self, id_: str, body: UpdateBody, who: Principal, by: Requester) -> OneJob:
        """Apply one update, all of it or nothing (R67)."""
        ...

    async def finish(self, id_: str, body: FinishBody, who: Principal, by: Requester) -> OneJob:
        """End it, for ever (JOB-2)."""
        ...

    async def job(self, id_: str) -> OneJob:
        """One job, with its measured values. Refuses `job_not_found`."""
        ...

    async def jobs(self, query: JobsQuery) -> JobList:
        """A page of jobs."""
        ...


class HistoryApi(Protocol):
    """What the history file has (HIST-2)."""

    async def read(
        self, *, lease: str | None, job: str | None, since_s: float | None, limit: int
    ) -> Sequence[Mapping[str, object]]:
        """The newest `limit` events as the feed tells them, oldest first.

        Only those of a lease, of a job, of the last `since_s` seconds where that is given.
        """
        ...


class CareApi(Protocol):
    """The schedule's store (REL-4)."""

    async def backup(self, body: BackupBody) -> Cared:
        """Copy it to a new file."""
        ...

    async def recover(self) -> Cared:
        """Begin a new epoch, with what the nodes remember as stuck."""
        ...
