"""The schedule's three services as an API test needs them: calls are kept, answers are what was set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hostler.domain.errors import Refusal, ResourceNotFound
from hostler.domain.fleet import frozen
from hostler.domain.values import Requester, rfc3339
from hostler.services.keys import Principal
from hostler.wire.jobs import FinishBody, JobBody, JobList, JobsQuery, JobView, OneJob, UpdateBody
from hostler.wire.schedule import (
    BackupBody,
    CancelBody,
    Cared,
    ClaimBody,
    FenceBody,
    FenceNow,
    FenceView,
    LeaseList,
    LeasesQuery,
    LeaseView,
    OneLease,
    ProcessBody,
    ReleaseBody,
    RenewBody,
    ReserveBody,
    ResourceList,
    ResourceView,
    WhyResource,
)
from tests.fakes.clock import START

AT = rfc3339(START)

LEASE = LeaseView(
    id="ls_1",
    resource="pair",
    title="both boxes",
    covers=("pair",),
    holder="bench",
    key="local",
    reason="",
    state="active",
    number=1,
    priority=0,
    created_at=AT,
    epoch="ep_1",
    generation=1,
    ttl_s=3600.0,
    indefinite=False,
    place=None,
    place_expires_in_s=None,
    offer_expires_in_s=None,
    earliest_at=None,
    held_by=None,
    held_until=None,
    start_at=None,
    end_at=None,
    activated_at=AT,
    expires_at=AT,
    expires_in_s=3600,
    hard_at=None,
    hard_in_s=None,
    limited_by="",
    why="",
    notice="",
    ended_at=None,
    ending=None,
    drift=(),
    stuck=None,
    steps=(),
    jobs=(),
    seq=1,
)

JOB = JobView(
    id="job_1",
    title="sweep",
    holder="bench",
    lease=None,
    resource=None,
    state="running",
    every_s=300.0,
    created_at=AT,
    heard_at=AT,
    quiet_s=0,
    note="",
    source="holder",
    progress=None,
    metrics=frozen({}),
    receipts=(),
    applied=0,
    lease_lost=False,
    ended_at=None,
    why="",
    seq=1,
)

RESOURCE = ResourceView(
    name="pair",
    title="both boxes",
    hosts=("crow",),
    covers=("pair",),
    ttl_s=3600.0,
    max_s=43200.0,
    indefinite=False,
    actions=(),
    lease=None,
    holder=None,
    until=None,
    state="free",
    waiting=(),
    bookings=(),
)


@dataclass(slots=True)
class Asked:
    """One call: its name, and what it was given in order."""

    call: str
    given: tuple[object, ...]


@dataclass(slots=True)
class FakeSchedule:
    """The service `ScheduleApi`. `refuses` is raised by every call while it is set.

    `unknown` are names that no resource has; any other is one here.
    """

    state: str = "active"
    unknown: frozenset[str] = frozenset()
    refuses: Refusal | None = None
    asked: list[Asked] = field(default_factory=list)

    async def reserve(self, body: ReserveBody, request_id: str, who: Principal, by: Requester) -> OneLease:
        return self._lease("reserve", body, request_id, who, by)

    async def renew(self, id_: str, body: RenewBody, who: Principal, by: Requester) -> OneLease:
        return self._lease("renew", id_, body, who, by)

    async def release(self, id_: str, body: ReleaseBody, who: Principal, by: Requester) -> OneLease:
        return self._lease("release", id_, body, who, by)

    async def cancel(self, id_: str, body: CancelBody, who: Principal, by: Requester) -> OneLease:
        return self._lease("cancel", id_, body, who, by)

    async def claim(self, id_: str, body: ClaimBody, who: Principal, by: Requester) -> OneLease:
        return self._lease("claim", id_, body, who, by)

    async def register(self, id_: str, body: ProcessBody, who: Principal, by: Requester) -> OneLease:
        return self._lease("register", id_, body, who, by)

    async def lease(self, id_: str) -> OneLease:
        return self._lease("lease", id_)

    async def leases(self, query: LeasesQuery) -> LeaseList:
        self._hear("leases", query)
        return LeaseList(at=AT, leases=(replace(LEASE, state=self.state),), next=None)

    async def resources(self) -> ResourceList:
        self._hear("resources")
        return ResourceList(at=AT, resources=(RESOURCE,))

    async def why(self, resource: str) -> WhyResource:
        self._hear("why", resource)
        if resource in self.unknown:
            raise ResourceNotFound(resource=resource)
        return WhyResource(at=AT, resource=RESOURCE, conditions=(), earliest_at=None)

    async def fence(self, body: FenceBody, who: Principal, by: Requester) -> FenceNow:
        self._hear("fence", body, who, by)
        return FenceNow(at=AT, fence=FenceView(up=body.up))

    async def fence_now(self) -> FenceNow:
        self._hear("fence_now")
        return FenceNow(at=AT, fence=FenceView(up=False))

    def _lease(self, call: str, *given: object) -> OneLease:
        self._hear(call, *given)
        return OneLease(at=AT, lease=replace(LEASE, state=self.state))

    def _hear(self, call: str, *given: object) -> None:
        self.asked.append(Asked(call, given))
        if self.refuses is not None:
            raise self.refuses


@dataclass(slots=True)
class FakeJobs:
    """The service `JobsApi`; an API test of what a job does serves the real one on `MemoryStore`."""

    asked: list[Asked] = field(default_factory=list)

    async def start(self, body: JobBody, request_id: str, who: Principal, by: Requester) -> OneJob:
        return self._job("start", body, request_id, who, by)

    async def update(self, id_: str, body: UpdateBody, who: Principal, by: Requester) -> OneJob:
        return self._job("update", id_, body, who, by)

    async def finish(self, id_: str, body: FinishBody, who: Principal, by: Requester) -> OneJob:
        return self._job("finish", id_, body, who, by)

    async def job(self, id_: str) -> OneJob:
        return self._job("job", id_)

    async def jobs(self, query: JobsQuery) -> JobList:
        self.asked.append(Asked("jobs", (query,)))
        return JobList(at=AT, jobs=(JOB,), next=None)

    def _job(self, call: str, *given: object) -> OneJob:
        self.asked.append(Asked(call, given))
        return OneJob(at=AT, job=JOB)


@dataclass(slots=True)
class FakeHistory:
    """The service `HistoryApi`: the rows that a test put there."""

    rows: list[Mapping[str, object]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    async def read(
        self, *, lease: str | None, job: str | None, since_s: float | None, limit: int
    ) -> Sequence[Mapping[str, object]]:
        self.asked.append(Asked("read", (lease, job, since_s, limit)))
        return self.rows[-limit:]


@dataclass(slots=True, kw_only=True)
class FakeCare:
    """The service `CareApi`: what was asked of it."""

    asked: list[Asked] = field(default_factory=list)

    async def backup(self, body: BackupBody) -> Cared:
        self.asked.append(Asked("backup", (body.file,)))
        return Cared(at="2026-09-04T20:05:11.482Z", file=body.file)

    async def recover(self) -> Cared:
        self.asked.append(Asked("recover", ()))
        return Cared(at="2026-09-04T20:05:11.482Z", epoch="ep_2")
