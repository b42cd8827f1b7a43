from dataclasses import replace

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import (
    CursorReset,
)
from hostler.wire.jobs import JobsQuery
from tests.fakes.jobs import BY, SECRET, WHO, JobHouse, body, job_house, log


@pytest.fixture
def house() -> JobHouse:
    return job_house()


async def test_pages_of_open_jobs(house: JobHouse) -> None:
    """API-2: open jobs come oldest first, page by page, each once, also when one ends between two pages."""
    ids = [(await house.start(f"r{number}")).id for number in range(5)]
    first = await house.jobs.jobs(JobsQuery(limit=2))
    assert ([it.id for it in first.jobs], first.next) == (ids[:2], ids[1])
    await house.finish(ids[1])
    second = await house.jobs.jobs(JobsQuery(limit=2, cursor=first.next))
    third = await house.jobs.jobs(JobsQuery(limit=2, cursor=second.next))
    assert ([it.id for it in second.jobs], [it.id for it in third.jobs]) == (ids[2:4], ids[4:])
    assert third.next is None


async def test_pages_with_ended_jobs(house: JobHouse) -> None:
    """API-2: with the ended ones the newest page comes first, and the pages lead back to the oldest."""
    lease = await house.leased()
    ids = [(await house.start(f"r{number}", lease=lease.id)).id for number in range(5)]
    for ended in (ids[0], ids[3]):
        await house.finish(ended)
    for query in (JobsQuery(ended=True, limit=2), JobsQuery(ended=True, limit=2, lease=lease.id)):
        pages, cursor = [], None
        while True:
            got = await house.jobs.jobs(replace(query, cursor=cursor))
            pages.append([it.id for it in got.jobs])
            cursor = got.next
            if cursor is None:
                break
        assert pages == [ids[3:], ids[1:3], ids[:1]]


async def test_the_jobs_of_a_lease(house: JobHouse) -> None:
    """API-2, R69: the jobs of one lease are listed without those of others and without the ended ones."""
    lease = await house.leased()
    first, second = [await house.start(f"r{number}", lease=lease.id) for number in range(2)]
    await house.start("r9")
    await house.finish(first.id)
    assert [it.id for it in (await house.jobs.jobs(JobsQuery(lease=lease.id))).jobs] == [second.id]
    with pytest.raises(CursorReset):
        await house.jobs.jobs(JobsQuery(cursor="../x"))


async def test_reading_writes_nothing(house: JobHouse) -> None:
    """API-2: looking at jobs changes none of them and writes nothing, also where a verdict is due."""
    assert isinstance(house.store, MemoryStore)
    began = await house.start()
    await house.clock.advance(90000)
    house.store.full = "nothing may be written"
    assert (await house.job(began.id)).state == "abandoned"
    assert len((await house.jobs.jobs(JobsQuery(ended=True))).jobs) == 1


async def test_a_start_is_told_by_who_asked(house: JobHouse) -> None:
    """JOB-1: a job without a holder's name is its key's, and the start's event says from where it came."""
    began = (await house.jobs.start(body(), "r1", WHO, BY)).job
    assert began.holder == "bots"
    assert (await log(house))[0].actor == BY.tag()
    assert SECRET not in repr(await house.kept(began.id))
