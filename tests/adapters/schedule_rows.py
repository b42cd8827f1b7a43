"""Leases, jobs and entries with every field set, for tests of what keeps them."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from hostler.domain import step
from hostler.domain.fence import Fence
from hostler.domain.fleet import frozen
from hostler.domain.job import Job, JobId, Point, Progress, Receipt
from hostler.domain.job import State as JobState
from hostler.domain.journal import Entry, EntryState
from hostler.domain.lease import Failing, Lease, LeaseId, Slot, State
from hostler.domain.moment import Moment
from hostler.domain.step import FenceNumber, Found, Step

START = datetime(2026, 9, 4, 20, 5, 11, 482_917, tzinfo=UTC)
LIVE = [state for state in State if not state.ended]
OVER = [state for state in State if state.ended]


def moment(seconds: float = 0.0) -> Moment:
    """A moment with microseconds."""
    return Moment(at=START + timedelta(seconds=seconds), boot="boot-1", elapsed=1000.25 + seconds)


def lease(n: int = 1, state: State = State.QUEUED, **changes: Any) -> Lease:  # noqa: ANN401 - any field of it
    """A lease of resource `pair`, told from others by `n`."""
    made = Lease(
        id=LeaseId(f"ls_{n:026d}"),
        resource="pair",
        covers=("pair",),
        holder=f"agent-{n}",
        key="agents",
        secret="5" * 64,
        request_id=f"request-{n}",
        digest="d" * 64,
        state=state,
        created=moment(n),
        ttl_s=3600.0,
        ended=moment(100 + n) if state.ended else None,
    )
    return replace(made, **changes)


def full_lease() -> Lease:
    """A lease with no field at its default."""
    made = lease(
        7,
        State.STUCK,
        covers=("pair", "crow", "raven"),
        reason="schön, “quoted”, line\nend",
        number=0,
        priority=3,
        detached_s=60.5,
        fence=FenceNumber(epoch="ep_1", generation=12),
        slot=Slot(start=START, end=START + timedelta(hours=2)),
        place=moment(1),
        offer=moment(2),
        activated=moment(3),
        expires=moment(4.125),
        hard=moment(5),
        limited_by="booking",
        warned=(900.0, 300.5),
        reminded=moment(6),
        ending=State.EXPIRED,
        cause="restart",
        drift=("route chat is on cloud, not lease-away", "ü"),
        failing=Failing(n=3, step="resume fast-4b", wanted="ready", seen="failed"),
        cancelled=True,
        working=True,
        ended=moment(8),
        plan=tuple(every(step.Step)),
        seq=44,
        mode="heavy-glm",
        drain_before_s=600.0,
        soft=moment(9),
        closing=True,
        strikes=("bots-35b came up, asked for by bot/1",),
    )
    unset = [field.name for field in fields(made) if not getattr(made, field.name)]
    assert unset == ["number"], "a new field of Lease: set it above, so that the store is seen to keep it"
    return made


def every(union: object) -> list[Any]:
    """One of each kind, its fields filled by their types."""
    return [
        kind(**{f.name: _filled(f.name, str(f.type)) for f in fields(kind) if f.name != "kind"})
        for kind in get_args(union)
    ]


def _filled(name: str, kind: str) -> object:
    by_type = {"bool": True, "int": 7, "float": 1.5, "tuple[str, ...]": ("a", "ö"), "str": f"{name} ü"}
    return by_type.get(kind.partition(" |")[0], True)


def entry(of: Lease, n: int, state: EntryState = EntryState.BEGUN, note: str = "") -> Entry:
    """The `n`th entry; each has another step and found."""
    steps: list[Step] = every(Step)
    founds: list[Found] = every(Found)
    return Entry(
        lease=of.id, n=n, step=steps[n % len(steps)], found=founds[n % len(founds)], state=state, note=note
    )


def job(n: int = 1, state: JobState = JobState.RUNNING, **changes: Any) -> Job:  # noqa: ANN401 - any field of it
    """A job, told from others by `n`."""
    made = Job(
        id=JobId(f"jb_{n:026d}"),
        title=f"job {n}",
        holder="agent",
        key="agents",
        secret="5" * 64,
        request_id=f"job-request-{n}",
        digest="d" * 64,
        state=state,
        created=moment(n),
        heard=moment(n + 0.5),
        ended=moment(100 + n) if state.ended else None,
    )
    return replace(made, **changes)


def full_job() -> Job:
    """A job with no field at its default."""
    made = job(
        7,
        JobState.FAILED,
        lease=f"ls_{1:026d}",
        resource="pair",
        every_s=30.5,
        release=True,
        excused_s=2.5,
        revived=True,
        note="half way\nü",
        source="child",
        progress=Progress(value=0.5, n=1.0, total=2.0, label="epochs"),
        metrics=frozen({"loss": 0.25, "größe": 1e300}),
        receipts=(
            Receipt(
                kind="file", name="out", path="/x", url="https://example.net/", sha256="a" * 64, exit_code=1
            ),
        ),
        applied=9,
        lease_lost=True,
        why="exit 1",
        seq=45,
    )
    unset = [field.name for field in fields(made) if not getattr(made, field.name)]
    assert unset == [], "a new field of Job: set it above, so that the store is seen to keep it"
    return made


def points(name: str, count: int, start: int = 0) -> list[Point]:
    """Values that can be told apart."""
    return [Point(name=name, elapsed_s=float(n), value=n + 0.5) for n in range(start, start + count)]


FENCE = Fence(since=moment(1), until=moment(1800), by="operator", reason="new kernel")
