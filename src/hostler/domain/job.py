"""The life of a job: a unit of work whose holder reports how it goes (JOB-2).

Decides its states, and what silence makes of them. What an update may have in it is
`hostler.domain.job_update`'s; whoever reports, and where it is kept, is for others. Reads no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NewType

from hostler.domain.errors import Ended, IllegalTransition, InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.moment import Moment, left
from hostler.domain.values import exact_duration

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
    number that was applied (JOB-6). `metrics` has the last value of each. `excused_s` of the time since
    `heard` is no quiet time: the head was down, or a fence was up (JOB-3). `revived`: the last update found
    it stalled or abandoned.
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
    excused_s: float = 0.0
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


# ---------------------------------------------------------------- what happens to a job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """Something that happened to a job at a moment."""

    at: Moment


class Heard(JobEvent):
    """An update of any kind came from its holder."""


class WentQuiet(JobEvent):
    """None came for three intervals."""


class WentStalled(JobEvent):
    """None came for ten intervals, and for ten minutes."""


class WentAbandoned(JobEvent):
    """None came for 24 h."""


class LeaseEnded(JobEvent):
    """Its lease was over first (JOB-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(JobEvent):
    """It is over; `why` in a few words, empty where its holder gave none."""

    why: str = ""


class Finished(Ending):
    """Its holder, or an operator, says that it went well."""


class Failed(Ending):
    """Its holder, or an operator, says that it did not."""


class Cancelled(Ending):
    """Its holder, or an operator, called it off."""


class Lost(Ending):
    """Its process or its box is proven to be gone; `why` is the proof."""


EVENTS: Final[tuple[type[JobEvent], ...]] = (
    Heard,
    WentQuiet,
    WentStalled,
    WentAbandoned,
    LeaseEnded,
    Finished,
    Failed,
    Cancelled,
    Lost,
)

INITIAL: Final = State.RUNNING

_OVER: Final[Mapping[type[JobEvent], State]] = frozen(
    {
        Finished: State.FINISHED,
        Failed: State.FAILED,
        Cancelled: State.CANCELLED,
        Lost: State.LOST,
    }
)

TRANSITIONS: Final[Mapping[State, Mapping[type[JobEvent], State]]] = frozen(
    {
        State.RUNNING: {
            Heard: State.RUNNING,
            WentQuiet: State.QUIET,
            WentStalled: State.STALLED,
            WentAbandoned: State.ABANDONED,
            LeaseEnded: State.RUNNING,
            **_OVER,
        },
        State.QUIET: {
            Heard: State.RUNNING,
            WentStalled: State.STALLED,
            WentAbandoned: State.ABANDONED,
            LeaseEnded: State.QUIET,
            **_OVER,
        },
        State.STALLED: {
            Heard: State.RUNNING,
            WentAbandoned: State.ABANDONED,
            LeaseEnded: State.STALLED,
            **_OVER,
        },
        State.ABANDONED: {Heard: State.RUNNING, LeaseEnded: State.ABANDONED, **_OVER},
        State.FINISHED: {},
        State.FAILED: {},
        State.CANCELLED: {},
        State.LOST: {},
    }
)
"""Only `Heard` leads back, and nothing leads out of an end."""


def apply(job: Job, event: JobEvent) -> Job:
    """The job after `event`. The only function that changes a job's state.

    Refuses `ended` for a job that is over. Raises IllegalTransition for a pair that `TRANSITIONS` has not.
    """
    if job.state.ended:
        raise Ended(what="job", name=job.id, why=f"{job.state}: {job.why}" if job.why else job.state.value)
    state = TRANSITIONS[job.state].get(type(event))
    if state is None:
        raise IllegalTransition(noun="job", state=job.state, event=type(event).__name__)
    if isinstance(event, Heard):
        revived = job.state in (State.STALLED, State.ABANDONED)
        return replace(job, state=state, heard=event.at, excused_s=0.0, revived=revived)
    if isinstance(event, Ending):
        return replace(job, state=state, ended=event.at, why=event.why)
    if isinstance(event, LeaseEnded):
        return replace(job, lease_lost=True)
    return replace(job, state=state)


# ---------------------------------------------------------------- silence

QUIET_INTERVALS: Final = 3
STALLED_INTERVALS: Final = 10
LEAST_STALLED_S: Final = 600.0
ABANDONED_S: Final = 24 * 3600.0
LEAST_EVERY_S: Final = 1.0
LONGEST_EVERY_S: Final = 3600.0
"""At most an hour: ten of them are well within the 24 h of an abandoned one."""

_VERDICTS: Final = (State.RUNNING, State.QUIET, State.STALLED, State.ABANDONED)
"""Rising silence. Time leads up only."""
_SILENT: Final[Mapping[State, type[JobEvent]]] = frozen(
    {State.QUIET: WentQuiet, State.STALLED: WentStalled, State.ABANDONED: WentAbandoned}
)


def check_every(every_s: float) -> None:
    """Refuses `invalid_request` for an interval between updates that is out of bounds (JOB-2)."""
    if not LEAST_EVERY_S <= every_s <= LONGEST_EVERY_S:
        raise InvalidRequest(
            what=f"An update every {exact_duration(every_s)} is not possible.",
            expected=f"from {exact_duration(LEAST_EVERY_S)} to {exact_duration(LONGEST_EVERY_S)}",
            where="every_s",
        )


def quiet_s(job: Job, now: Moment) -> float:
    """Seconds of quiet time: since the last update, less what is excused (JOB-3). Never negative."""
    return max(0.0, -left(job.heard, now) - job.excused_s)


def excused(job: Job, seconds: float, now: Moment) -> Job:
    """The job with `seconds` more that are no quiet time; never more than there were since its update."""
    since = max(0.0, -left(job.heard, now))
    return replace(job, excused_s=min(since, job.excused_s + max(0.0, seconds)))


def verdict(job: Job, now: Moment, grace: float = 0.0) -> State:
    """The state of the job as silence makes it by `now`: on a read as on a tick (JOB-2).

    `grace` is the elapsed second before which nothing is judged, as the watcher was blind (JOB-3).
    """
    if job.state.ended or now.elapsed < grace:
        return job.state
    silent = quiet_s(job, now)
    known = _VERDICTS.index(job.state)
    due = max(place for place, state in enumerate(_VERDICTS) if silent >= _after_s(job, state))
    return _VERDICTS[max(known, due)]


def silenced(job: Job, state: State, now: Moment) -> Job:
    """The job with the verdict `state`, which is not its present one."""
    return apply(job, _SILENT[state](at=now))


def watch_at(job: Job, now: Moment) -> float | None:
    """The elapsed second at which the next verdict is due, if no update comes; None when none ever is."""
    if job.state.ended or job.state is State.ABANDONED:
        return None
    coming = _VERDICTS[_VERDICTS.index(job.state) + 1]
    return now.elapsed + max(0.0, _after_s(job, coming) - quiet_s(job, now))


def extends(job: Job) -> bool:
    """Whether the update that made `job` what it is extends its lease (LEASE-20).

    Not the one that revives a stalled job: that one only says that somebody is there again.
    """
    return not job.state.ended and not job.revived and not job.lease_lost and job.lease is not None


def _after_s(job: Job, state: State) -> float:
    """Seconds of quiet time that make `state`."""
    return {
        State.RUNNING: 0.0,
        State.QUIET: QUIET_INTERVALS * job.every_s,
        State.STALLED: max(STALLED_INTERVALS * job.every_s, LEAST_STALLED_S),
        State.ABANDONED: ABANDONED_S,
    }[state]
