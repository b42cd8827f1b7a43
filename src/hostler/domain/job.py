"""The life of a job: a unit of work whose holder reports how it goes (JOB-2).

Decides its states and what an update does to them. Whoever reports, and where it is kept, is for others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from hostler.domain.fleet import frozen
from hostler.domain.moment import Moment

JobId = NewType("JobId", str)


class State(StrEnum):
    """Where a job is: who moves it on, and what a crash leaves."""

    RUNNING = "running"
    """Updates come. A crash of the daemon changes nothing: downtime is not quiet time (JOB-3)."""
    QUIET = "quiet"
    """No update for three intervals. The next one revives it."""
    STALLED = "stalled"
    """No update for ten intervals and ten minutes. The next one revives it."""
    ABANDONED = "abandoned"
    """No update for 24 h. The next one revives it."""
    FINISHED = "finished"
    """Over: its holder says that it went well."""
    FAILED = "failed"
    """Over: its holder says that it did not."""
    CANCELLED = "cancelled"
    """Over: called off by its holder or an operator."""
    LOST = "lost"
    """Over: its process or its box is proven to be gone."""

    @property
    def ended(self) -> bool:
        """Whether it is over, for ever."""
        return self in (State.FINISHED, State.FAILED, State.CANCELLED, State.LOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far: `value` from 0 to 1; `n` of `total` with a `label` when counted."""

    value: float
    n: float | None = None
    total: float | None = None
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof of something made: `path` or `url`, its SHA-256, the exit code of what made it."""

    kind: str
    name: str
    path: str | None = None
    url: str | None = None
    sha256: str | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job. `heard` is when its last update came, `lease_lost` whether its lease ended before it.

    `lease` is the lease that it runs under; its beats extend that one when `holder`'s secret is the same
    (LEASE-20). `release`: ending it releases the lease (JOB-4). `applied` is the highest client sequence
    number that was applied (JOB-6). `metrics` has the last value of each.
    """

    id: JobId
    title: str
    holder: str
    key: str
    secret: str
    request_id: str
    digest: str
    lease: str | None = None
    resource: str | None = None
    every_s: float = 300.0
    release: bool = False
    state: State = State.RUNNING
    created: Moment
    heard: Moment
    revived: bool = False
    note: str = ""
    source: str = "holder"
    progress: Progress | None = None
    metrics: Mapping[str, float] = field(default_factory=lambda: frozen({}))
    receipts: tuple[Receipt, ...] = ()
    applied: int = 0
    lease_lost: bool = False
    ended: Moment | None = None
    why: str = ""
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured value of a job: `elapsed_s` since its start."""

    name: str
    elapsed_s: float
    value: float
