from dataclasses import replace

import pytest

from hostler.domain.errors import (
    Ended,
    LeaseNotFound,
    NotYours,
)
from hostler.domain.lease import State as LeaseState
from tests.fakes.jobs import OTHER, JobHouse, job_house, types


@pytest.fixture
def house() -> JobHouse:
    return job_house()


async def test_a_job_of_a_lease(house: JobHouse) -> None:
    """JOB-1: a job is tied to a lease by its id, and to the one that its holder has on a resource."""
    lease = await house.leased()
    by_id = await house.start("r1", lease=lease.id)
    assert (by_id.lease, by_id.resource) == (lease.id, "pair")
    by_name = await house.start("r2", resource="pair")
    assert by_name.lease == lease.id
    another = await house.start("r3", resource="pair", secret=OTHER)
    assert another.lease is None
    with pytest.raises(LeaseNotFound):
        await house.start("r4", lease="ls_none")
    over = replace(lease, state=LeaseState.RELEASED, ended=house.clock.moment())
    await house.store.write(lambda tx: tx.put(over))
    with pytest.raises(Ended):
        await house.start("r5", lease=lease.id)


async def test_a_lease_that_comes_later_is_found(house: JobHouse) -> None:
    """JOB-1: a job of a resource is tied to its holder's lease by the first update after that was granted."""
    began = await house.start(resource="pair")
    assert began.lease is None
    await house.leased()
    assert (await house.update(began.id)).lease == "ls_1"
    assert len(house.extended) == 1


async def test_a_beat_extends_the_lease(house: JobHouse) -> None:
    """LEASE-20: each beat of the holder's own open job extends the lease; its end does not."""
    lease = await house.leased()
    began = await house.start(lease=lease.id)
    await house.update(began.id)
    await house.update(began.id, note="on")
    await house.finish(began.id)
    assert [job.lease for job in house.extended] == [lease.id, lease.id]


async def test_a_beat_of_another_extends_nothing(house: JobHouse) -> None:
    """LEASE-20, R53: the job of another party, tied to the lease by its id, does not extend it."""
    lease = await house.leased(secret=OTHER)
    began = await house.start(lease=lease.id)
    await house.update(began.id)
    assert house.extended == []


async def test_the_reviving_beat_extends_nothing(house: JobHouse) -> None:
    """JOB-2, LEASE-20: the update that revives a stalled job does not extend its lease, the next one does."""
    lease = await house.leased()
    began = await house.start(lease=lease.id)
    await house.clock.advance(3001)
    await house.update(began.id)
    assert house.extended == []
    await house.update(began.id)
    assert len(house.extended) == 1


async def test_ending_a_job_leaves_its_lease(house: JobHouse) -> None:
    """JOB-4: the end of a job releases its lease only where the job was started so, or the end says so."""
    lease = await house.leased()
    plain = await house.start("r1", lease=lease.id)
    await house.finish(plain.id)
    assert house.released == []
    asked = await house.start("r2", lease=lease.id)
    await house.finish(asked.id, release=True)
    bound = await house.start("r3", lease=lease.id, release=True)
    await house.finish(bound.id, "failed")
    assert house.released == [(lease.id, "holder bots")] * 2


async def test_a_job_releases_no_lease_of_another(house: JobHouse) -> None:
    """JOB-4, LEASE-9: a job of another secret than its lease's does not release it."""
    lease = await house.leased(secret=OTHER)
    with pytest.raises(NotYours):
        await house.start("r1", lease=lease.id, release=True)
    began = await house.start("r2", lease=lease.id)
    with pytest.raises(NotYours):
        await house.finish(began.id, release=True)
    assert house.released == []
    assert (await house.job(began.id)).state == "running"


async def test_a_lost_lease_is_marked(house: JobHouse) -> None:
    """JOB-4: when its lease ends first, an open job goes on, marked by one event; then it extends nothing."""
    lease = await house.leased()
    began = await house.start("r1", lease=lease.id, release=True)
    over = await house.start("r2", lease=lease.id)
    await house.finish(over.id)
    for _ in range(2):
        await house.store.write(lambda tx: house.jobs.lease_ended(tx, lease, house.clock.moment()))
    after = await house.update(began.id, note="still here")
    assert (after.state, after.lease_lost) == ("running", True)
    assert (await types(house)).count("job_lease_lost") == 1
    assert house.extended == []
    await house.finish(began.id)
    assert house.released == []
