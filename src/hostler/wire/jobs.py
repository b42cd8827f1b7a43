"""What the calls of jobs take and give (API-1, JOB-1). The rules of `hostler.wire.schedule` hold here too.

Decides which keys there are. What an update does to a job is `hostler.domain.job_update`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from msgspec import Meta

from hostler.domain import job, job_update
from hostler.domain.fleet import frozen
from hostler.wire.schedule import Count, Hash, Reason, Seconds, Text

MAX_NOTE: Final = job_update.MAX_NOTE
"""Bytes of a note."""
MAX_METRICS: Final = job_update.MAX_METRICS
"""Metrics in one update."""
MAX_RECEIPTS: Final = job_update.MAX_RECEIPTS
"""Receipts of one job."""
MAX_LABEL: Final = job_update.MAX_LABEL
LONGEST_EVERY_S: Final = job.LONGEST_EVERY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBody:
    """Start a job; the Idempotency-Key header is the request's id (JOB-1).

    `lease` ties it to one, `resource` to whatever lease its holder has on it. `release`: ending it releases
    the lease (JOB-4); `secret_hash` the same as the lease's lets its beats extend that (LEASE-20).
    """

    title: Text
    secret_hash: Hash
    holder: Text = ""
    lease: Text | None = None
    resource: Text | None = None
    every_s: Seconds = 300.0
    release: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressBody:
    """`value` from 0 to 1, or `n` of `total`."""

    value: float | None = None
    n: float | None = None
    total: float | None = None
    label: Text = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptBody:
    """Something made, with where it is and how it can be told to be the same."""

    kind: Text
    name: Text
    path: Annotated[str, Meta(max_length=1000)] | None = None
    url: Annotated[str, Meta(max_length=1000)] | None = None
    sha256: Hash | None = None
    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**32 - 1)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBody:
    """One update: all of it applies, or nothing (R67). None of any kind is a heartbeat (JOB-2).

    `n` is the client's own sequence number, from 1: a number that was applied already is answered and not
    applied again (JOB-6). `source` `child` marks what a child wrote (JOB-5). `epoch` and `generation` say
    under which grant of the job's lease it was made: one that is over is refused (LEASE-8).
    """

    secret: Text
    n: Annotated[int, Meta(ge=1, le=2**53 - 1)] | None = None
    note: str | None = None
    progress: ProgressBody | None = None
    metrics: Mapping[str, float] = field(default_factory=lambda: frozen({}))
    receipts: tuple[ReceiptBody, ...] = ()
    source: Literal["holder", "child"] = "holder"
    epoch: Text | None = None
    generation: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishBody:
    """End a job. `result` `lost` needs `proof` (its process or box is gone). No `secret`: as an operator."""

    result: Literal["finished", "failed", "cancelled", "lost"]
    secret: Text | None = None
    n: Annotated[int, Meta(ge=1, le=2**53 - 1)] | None = None
    note: str | None = None
    release: bool = False
    because: Reason = ""
    proof: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsQuery:
    """Which jobs: of a lease, the ended ones too; pages by `cursor`."""

    lease: str | None = None
    ended: bool = False
    limit: Annotated[int, Meta(ge=1, le=1000)] = 500
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """How far a job is."""

    value: float
    n: float | None
    total: float | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptView:
    """Something that a job made."""

    kind: str
    name: str
    path: str | None
    url: str | None
    sha256: str | None
    exit_code: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as it is told: how it goes, without asking whoever runs it (R69).

    `heard_at` moves with heartbeats, which are no events; `quiet_s` is how long ago that was.
    """

    id: str
    title: str
    holder: str
    lease: str | None
    resource: str | None
    state: str
    every_s: float
    created_at: str
    heard_at: str
    quiet_s: int
    note: str
    source: str
    progress: ProgressView | None
    metrics: Mapping[str, float]
    receipts: tuple[ReceiptView, ...]
    applied: int
    lease_lost: bool
    ended_at: str | None
    why: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointView:
    """One measured value."""

    name: str
    elapsed_s: float
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OneJob:
    """One job at one instant; `points` only where it was asked for by id."""

    at: str
    job: JobView
    points: tuple[PointView, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """Jobs, oldest first."""

    at: str
    jobs: tuple[JobView, ...]
    next: str | None
