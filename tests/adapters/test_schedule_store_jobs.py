"""What every schedule store does with journals, jobs and the fence. Each test runs on each of them."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.domain.job import JobId
from hostler.domain.job import State as JobState
from hostler.domain.journal import EntryState
from hostler.domain.lease import LeaseId, State
from hostler.domain.values import rfc3339
from hostler.services.schedule_needs import Tx
from tests.adapters.schedule_calls import add, begin, ids, mark, put_job
from tests.adapters.schedule_rows import (
    FENCE,
    entry,
    full_job,
    job,
    lease,
    moment,
    points,
)
from tests.adapters.stores import STORES, Both
from tests.fakes.ids import CountingIds


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Both]:
    made = STORES[request.param](tmp_path, CountingIds())
    yield made
    await made.close()


# ---------------------------------------------------------------- journal


async def test_the_journal_keeps_every_step(store: Both) -> None:
    """LEASE-10: entries come back in order with their steps and what they found, and what became of each."""
    of = await store.write(lambda tx: tx.put(lease(1, State.ACTIVATING)))
    wanted = [entry(of, n) for n in range(1, 12)]
    for each in wanted:
        await store.write(begin(each))
    assert await store.read(lambda tx: tx.journal(of.id)) == tuple(wanted)
    for n, state in enumerate(EntryState, start=1):
        await store.write(mark(of, n, state, f"note {n} ü"))
        wanted[n - 1] = replace(wanted[n - 1], state=state, note=f"note {n} ü")
    assert await store.read(lambda tx: tx.journal(of.id)) == tuple(wanted)
    assert await store.read(lambda tx: tx.journal(LeaseId("ls_none"))) == ()


async def test_an_entry_is_begun_once(store: Both) -> None:
    """LEASE-10: an entry given twice, or marked before it is there, is a bug that is told."""
    of = lease(1)
    await store.write(lambda tx: tx.begin(entry(of, 1)))
    for n in (0, 1):
        with pytest.raises(ValueError, match=f"takes no new entry {n}"):
            await store.write(begin(entry(of, n)))
    for n in (0, 2):
        with pytest.raises(ValueError, match="has no entry"):
            await store.write(mark(of, n, EntryState.DONE))
    assert await store.read(lambda tx: tx.journal(of.id)) == (entry(of, 1),)


async def test_hosts_begin_their_entries_in_any_order(store: Both) -> None:
    """LEASE-10, MODE-2: an entry may be begun before one of another host that comes first in the plan."""
    of = lease(1)
    for n in (1, 4, 2):
        await store.write(begin(entry(of, n)))
    await store.write(mark(of, 4, EntryState.DONE))
    found = await store.read(lambda tx: tx.journal(of.id))
    assert [(it.n, it.state) for it in found] == [
        (1, EntryState.BEGUN),
        (2, EntryState.BEGUN),
        (4, EntryState.DONE),
    ]


# ---------------------------------------------------------------- jobs


async def test_a_job_keeps_every_field(store: Both) -> None:
    """JOB-1: a job reads back whole, with its metrics and receipts."""
    for wanted in (full_job(), job(8)):
        await store.write(put_job(wanted, 5.5))
    for wanted in (full_job(), job(8)):
        found = await store.read(
            lambda tx: {each.id: each for each in (*tx.open_jobs(), *tx.ended_jobs(before="", limit=9))}
        )
        assert found[wanted.id] == wanted
    assert await store.read(lambda tx: (tx.job(job(8).id), tx.job_of_request("job-request-8"))) == (
        job(8),
        job(8),
    )
    assert await store.read(lambda tx: tx.job(JobId("jb_none"))) is None
    assert await store.read(lambda tx: tx.job_of_request("")) is None


async def test_a_request_makes_one_job(store: Both) -> None:
    """JOB-1: a second job of one request is an error, a second write of the same job is none."""
    await store.write(lambda tx: tx.put_job(job(1), watch=None))
    await store.write(lambda tx: tx.put_job(job(1, note="again"), watch=None))
    with pytest.raises(ValueError, match="request"):
        await store.write(lambda tx: tx.put_job(job(2, request_id="job-request-1"), watch=None))
    assert ids(await store.read(lambda tx: tx.open_jobs())) == [1]


async def test_jobs_are_found_by_state_and_lease(store: Both) -> None:
    """JOB-1: open jobs and those of a lease come oldest first, ended ones newest first and in pages."""

    def work(tx: Tx) -> None:
        for n in (4, 2, 6, 1, 5, 3):
            state = JobState.FINISHED if n % 2 else JobState.STALLED
            tx.put_job(job(n, state, lease="ls_a" if n < 4 else None), watch=None)

    await store.write(work)
    assert ids(await store.read(lambda tx: tx.open_jobs())) == [2, 4, 6]
    assert ids(await store.read(lambda tx: tx.jobs_of(LeaseId("ls_a")))) == [1, 2, 3]
    assert ids(await store.read(lambda tx: tx.ended_jobs(before="", limit=2))) == [5, 3]
    assert ids(await store.read(lambda tx: tx.ended_jobs(before=job(3).id, limit=2))) == [1]


async def test_quiet_jobs_are_found_by_their_watch_time(store: Both) -> None:
    """JOB-3, R63: due jobs come earliest first up to the limit; one without a time, or over, never."""

    def work(tx: Tx) -> None:
        for n, watch in ((1, 30.0), (2, 10.0), (3, None), (4, 20.0), (5, 20.0)):
            tx.put_job(job(n), watch=watch)
        tx.put_job(job(6, JobState.LOST), watch=1.0)

    await store.write(work)
    assert ids(await store.read(lambda tx: tx.jobs_quiet(20.0, 9))) == [2, 4, 5]
    assert ids(await store.read(lambda tx: tx.jobs_quiet(99.0, 2))) == [2, 4]
    assert ids(await store.read(lambda tx: tx.jobs_quiet(9.9, 9))) == []
    await store.write(lambda tx: tx.put_job(job(2), watch=40.0))
    assert ids(await store.read(lambda tx: tx.jobs_quiet(99.0, 9))) == [4, 5, 1, 2]


async def test_points_keep_the_newest(store: Both) -> None:
    """JOB-4: of each measured name the newest 2,000 are kept, and come oldest first."""
    id_ = job(1).id
    for start in range(0, 2500, 500):
        await store.write(add(id_, points("loss", 500, start)))
    await store.write(lambda tx: tx.add_points(id_, [*points("acc", 2), *points("loss", 1, 2500)]))
    await store.write(lambda tx: tx.add_points(JobId("jb_other"), points("loss", 1)))
    kept = await store.read(lambda tx: tx.points(id_, 10_000))
    assert kept == (*points("acc", 2), *points("loss", 2000, 501))
    assert await store.read(lambda tx: tx.points(id_, 3)) == (*points("acc", 2), *points("loss", 3, 2498))
    assert await store.read(lambda tx: tx.points(JobId("jb_none"), 3)) == ()


async def test_a_measured_value_is_a_number(store: Both) -> None:
    """R67, R68: NaN and infinities are refused, and nothing of their transaction is kept."""
    for value in (float("nan"), float("inf")):
        bad = replace(points("loss", 1)[0], value=value)
        with pytest.raises(ValueError, match="no place in JSON"):
            await store.write(add(job(1).id, [*points("loss", 2), bad]))
        with pytest.raises(ValueError, match="no place in JSON"):
            await store.write(put_job(job(1, metrics={"loss": value})))
    assert await store.read(lambda tx: tx.points(job(1).id, 9)) == ()


# ---------------------------------------------------------------- fence, upkeep


async def test_the_fence_is_kept(store: Both) -> None:
    """LEASE-28: the fence is up with all that is known of it until it is taken down."""
    assert await store.read(lambda tx: tx.fence()) is None
    await store.write(lambda tx: tx.put_fence(FENCE))
    later = replace(FENCE, reason="longer", until=moment(3600))
    assert await store.read(lambda tx: tx.fence()) == FENCE
    await store.write(lambda tx: tx.put_fence(later))
    assert await store.read(lambda tx: tx.fence()) == later
    await store.write(lambda tx: tx.put_fence(None))
    assert await store.read(lambda tx: tx.fence()) is None


async def test_what_ended_long_ago_is_dropped_in_steps(store: Both) -> None:
    """HIST-3: ended leases and jobs go with all that is theirs, oldest first, few at a time; others stay."""

    def work(tx: Tx) -> None:
        for n in range(1, 5):
            held = tx.put(lease(n, State.RELEASED if n < 4 else State.ACTIVE))
            tx.begin(entry(held, 1))
            tx.put_job(job(n, JobState.FINISHED if n < 4 else JobState.RUNNING), watch=None)
            tx.add_points(job(n).id, points("loss", 2))

    await store.write(work)
    edge = rfc3339(moment(103).at)
    assert await store.write(lambda tx: tx.prune_ended(edge, 3)) == 3
    assert ids(await store.read(lambda tx: tx.ended(after=0, limit=9))) == [3]
    assert ids(await store.read(lambda tx: tx.ended_jobs(before="", limit=9))) == [3, 2]
    assert await store.write(lambda tx: tx.prune_ended(edge, 3)) == 1
    assert await store.write(lambda tx: tx.prune_ended(edge, 3)) == 0
    left = await store.read(
        lambda tx: [(len(tx.journal(lease(n).id)), len(tx.points(job(n).id, 9))) for n in range(1, 5)]
    )
    assert left == [(0, 0), (0, 0), (1, 2), (1, 2)]
    assert await store.read(lambda tx: tx.lease_of_request("request-1")) is None
    assert (
        ids(await store.read(lambda tx: tx.live())) == ids(await store.read(lambda tx: tx.open_jobs())) == [4]
    )
