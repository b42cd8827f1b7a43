"""A picture and its later events give the later picture, whatever happened in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.domain.errors import Refusal
from hostler.wire.jobs import FinishBody, JobBody, ProgressBody, UpdateBody
from hostler.wire.schedule import FenceBody
from hostler.wire.values import recorded_to_json, to_json
from tests.fakes.clock import settle
from tests.fakes.schedule_world import AGENT, BY, OPERATOR, Head, hash_of, head, resource

LEASE = (
    "state",
    "holder",
    "key",
    "reason",
    "priority",
    "ttl_s",
    "epoch",
    "generation",
    "activated_at",
    "expires_at",
    "hard_at",
    "limited_by",
    "start_at",
    "end_at",
    "ending",
    "drift",
    "stuck",
    "number",
)
JOB = ("state", "title", "holder", "lease", "note", "source", "progress", "metrics", "receipts", "lease_lost")
NAMES = ("anna", "bert", "carl")
Rows = dict[str, dict[str, object]]


class Reader:
    """Someone who read one snapshot, and from then on only events."""

    def __init__(self, shot: Mapping[str, object], cursor: str) -> None:
        self.leases, self.jobs, self.cursor = rows(shot, "leases"), rows(shot, "jobs"), cursor

    def take(self, event: Mapping[str, object]) -> None:
        """Write an event over what is known, unless the snapshot had it already."""
        subject, facts = event["subject"], event["facts"]
        assert isinstance(subject, Mapping)
        assert isinstance(facts, Mapping)
        kind = str(event["type"]).partition("_")[0]
        if kind not in ("lease", "job"):
            return
        known = self.leases if kind == "lease" else self.jobs
        row = known.setdefault(str(subject[kind]), {"seq": 0})
        seq, had = event["seq"], row["seq"]
        assert isinstance(seq, int)
        assert isinstance(had, int)
        if seq <= had:
            return
        for name, value in facts.items():
            if name == "metrics":
                row[name] = {**as_map(row.get(name)), **as_map(value)}
            elif name == "receipts":
                row[name] = [*as_list(row.get(name)), *as_list(value)]
            else:
                row[name] = value
        if event["to"] is not None:
            row["state"] = event["to"]
        row["seq"] = seq


def as_map(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else []


def rows(shot: Mapping[str, object], name: str) -> Rows:
    told = to_json(shot[name])
    assert isinstance(told, list)
    return {row["id"]: dict(row) for row in told}


def same(ours: object, theirs: object) -> bool:
    """Equal; times to the millisecond, since a deadline is shown from a clock that has moved on."""
    if isinstance(ours, str) and isinstance(theirs, str) and ours.endswith("Z") and theirs.endswith("Z"):
        apart = datetime.fromisoformat(ours) - datetime.fromisoformat(theirs)
        return abs(apart.total_seconds()) < 0.003
    return (ours or None) == (theirs or None)


def told(row: Mapping[str, object], names: tuple[str, ...]) -> dict[str, object]:
    return {name: row.get(name) for name in names}


async def act(it: Head, op: tuple[str, int, int]) -> None:
    """One thing that somebody does; what is refused has changed nothing."""
    what, which, size = op
    live = await it.store.read(lambda tx: tx.live())
    jobs = await it.store.read(lambda tx: tx.open_jobs())
    lease = live[which % len(live)] if live else None
    job = jobs[which % len(jobs)] if jobs else None
    name = NAMES[which % len(NAMES)]
    view = None if lease is None else (await it.schedule.lease(lease.id)).lease
    match what:
        case "reserve":
            await it.reserve(
                ("one", "two", "both")[size % 3], holder=name, detached_s=3600.0, ttl_s=60.0 * (1 + size)
            )
        case "book":
            await it.reserve("one", holder=name, start=f"2026-09-05T{size % 24:02d}:00Z", ttl_s=1800.0)
        case "renew" if view is not None:
            await it.renew(view, ttl_s=60.0 * (1 + size))
        case "release" if view is not None:
            await it.release(view)
        case "pass":
            await it.ticks(30.0 * (1 + size), step=15)
        case "job" if lease is not None:
            body = JobBody(title=f"job {size}", secret_hash=hash_of(name), holder=name, lease=lease.id)
            it.requests += 1
            await it.parts.jobs.start(body, f"request-{it.requests}", AGENT, BY)
        case "update" if job is not None:
            update = UpdateBody(
                secret=job.holder,
                note=f"note {size}" if size % 2 else None,
                progress=ProgressBody(n=size, total=20) if size % 3 else None,
                metrics={f"m{size % 2}": float(size)} if size % 5 else {},
            )
            await it.parts.jobs.update(job.id, update, AGENT, BY)
        case "finish" if job is not None:
            await it.parts.jobs.finish(job.id, FinishBody(result="failed", secret=job.holder), AGENT, BY)
        case "fence":
            await it.schedule.fence(FenceBody(up=size % 2 == 0, reason="deploy"), OPERATOR, BY)
        case _:
            return
    await settle()


OPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("reserve", "reserve", "book", "renew", "release", "pass", "job", "update", "finish", "fence")
        ),
        st.integers(0, 5),
        st.integers(0, 15),
    ),
    min_size=2,
    max_size=25,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(before=OPS, after=OPS)
def test_a_picture_and_later_events_give_the_later_picture(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    """FEED-3, FEED-1, R80: a reader of one snapshot and of all later events knows what a later one says."""
    asyncio.run(_property(before, after))


async def _property(before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]) -> None:
    both = resource("both", covers=("both", "one", "two"))
    async with head(resource("one"), resource("two"), both) as it:
        for op in before:
            await _tried(it, op)
        cursor = await it.store.cursor()  # type: ignore[attr-defined]  # the memory store is an event log too
        await _tried(it, ("reserve", 1, 1))
        reader = Reader(await it.parts.snapshot.draw(), cursor)
        for op in after:
            await _tried(it, op)
        for row in await it.store.since(cursor, 100_000):  # type: ignore[attr-defined]  # as above
            reader.take(recorded_to_json(row))
        late = await it.parts.snapshot.draw()
        _compare(rows(late, "leases"), reader.leases, LEASE)
        _compare(rows(late, "jobs"), reader.jobs, JOB)
        over = {"released", "expired", "failed", "cancelled", "lapsed"}
        assert {id_ for id_, row in reader.leases.items() if row["state"] not in over} == set(
            rows(late, "leases")
        )


def _compare(shot: Rows, read: Rows, names: tuple[str, ...]) -> None:
    for id_, row in shot.items():
        ours, theirs = told(row, names), told(read[id_], names)
        assert {name for name in names if not same(ours[name], theirs[name])} == set(), (ours, theirs)


async def _tried(it: Head, op: tuple[str, int, int]) -> None:
    try:
        await act(it, op)
    except Refusal:
        return
