import pytest

from hostler.domain.fence import Fence
from hostler.domain.values import Priority
from hostler.services.schedule_needs import Tx
from hostler.wire.jobs import JobsQuery, ProgressBody
from tests.fakes.jobs import JobHouse, job_house, log, types


@pytest.fixture
async def house() -> JobHouse:
    it = job_house()
    await it.jobs.resumed()
    return it


async def test_silence_step_by_step(house: JobHouse) -> None:
    """R63, R65: a silent job goes quiet, stalled, abandoned, with one event each; stalled is a notice."""
    began = await house.start()
    for seconds in (899, 1, 2099, 1, 86400 - 3000 - 1, 1, 86400):
        await house.clock.advance(seconds)
        for _ in range(2):
            await house.watch()
    told = (await log(house))[1:]
    assert [(it.type, it.before, it.after) for it in told] == [
        ("job_quiet", "running", "quiet"),
        ("job_stalled", "quiet", "stalled"),
        ("job_abandoned", "stalled", "abandoned"),
    ]
    assert [(it.priority, it.once) for it in told] == [
        (None, None),
        (Priority.HIGH, f"job_stalled {began.id}"),
        (None, None),
    ]
    assert told[0].message == "sweep has been quiet for 15 min."


async def test_a_note_now_and_then_keeps_a_job_running(house: JobHouse) -> None:
    """R62: a job with nothing but a note every 10 minutes is never quiet, and never stalled."""
    began = await house.start()
    for number in range(20):
        await house.clock.advance(600)
        await house.watch()
        await house.update(began.id, note=f"{number}")
    assert set(await types(house)) == {"job_started", "job_updated"}


async def test_an_update_revives(house: JobHouse) -> None:
    """R64: an update of a silent job makes it run again with an event, also where nobody had judged it."""
    began = await house.start()
    for seconds, verdict in ((900, "job_quiet"), (3000, "job_stalled"), (86400, "job_abandoned")):
        await house.clock.advance(seconds)
        assert (await house.update(began.id)).state == "running"
        assert (await types(house))[-2:] == [verdict, "job_recovered"]
    await house.clock.advance(900)
    await house.watch()
    await house.update(began.id, note="here")
    assert (await types(house))[-3:] == ["job_quiet", "job_recovered", "job_updated"]


async def test_the_state_is_worked_out_on_read(house: JobHouse) -> None:
    """JOB-2, R69: who looks at a silent job sees that it is stalled, with its last words, before any tick."""
    began = await house.start()
    await house.update(began.id, note="loading", progress=ProgressBody(value=0.5))
    await house.clock.advance(3000)
    seen = await house.job(began.id)
    assert (seen.state, seen.note, seen.quiet_s) == ("stalled", "loading", 3000)
    listed = (await house.jobs.jobs(JobsQuery())).jobs
    assert [it.state for it in listed] == ["stalled"]
    assert (await house.kept(began.id)).state == "running"
    assert "job_stalled" not in await types(house)


async def test_many_are_judged_in_one_tick(house: JobHouse) -> None:
    """R63: however many jobs fell silent, one tick judges all of them, once each."""
    for number in range(450):
        await house.start(f"r{number}")
    await house.clock.advance(3000)
    await house.watch()
    await house.watch()
    assert (await types(house)).count("job_stalled") == 450


async def test_downtime_is_no_quiet_time(house: JobHouse) -> None:
    """R70, JOB-3: after 30 minutes without a daemon no job stalls, and each has the time left that it had."""
    early = await house.start("r1")
    await house.clock.advance(600)
    late = await house.start("r2")
    await house.clock.advance(1800)
    again = job_house(house.store)
    again.clock = again.jobs.clock = house.clock
    await again.jobs.resumed()
    assert {it.state for it in (await again.jobs.jobs(JobsQuery())).jobs} == {"running"}
    await house.clock.advance(299)
    await again.watch()
    assert (await again.job(early.id)).state == "running"
    await house.clock.advance(1)
    await again.watch()
    assert (await again.job(early.id)).state == "quiet"
    assert (await again.job(late.id)).state == "running"
    await house.clock.advance(600)
    await again.watch()
    assert (await again.job(late.id)).state == "quiet"


async def test_one_interval_of_grace_after_a_start(house: JobHouse) -> None:
    """JOB-3: a job that was about to stall is not judged for one interval after a start of the daemon."""
    began = await house.start(every_s=600)
    await house.clock.advance(1799)
    alive = house.clock.moment()
    await house.clock.advance(1800)
    await house.jobs.resumed(alive)
    await house.clock.advance(599)
    await house.watch()
    assert (await house.job(began.id)).state == "running"
    await house.clock.advance(1)
    await house.watch()
    assert (await types(house))[-1] == "job_quiet"


async def test_quiet_time_goes_on_over_a_reboot(house: JobHouse) -> None:
    """R70, LEASE-21: after a reboot the wall clock says how long a job was quiet, less the downtime."""
    began = await house.start()
    await house.clock.advance(800)
    alive = house.clock.moment()
    house.clock.reboot(7200)
    await house.jobs.resumed(alive)
    await house.clock.advance(299)
    await house.watch()
    assert (await house.job(began.id)).state == "running"
    await house.clock.advance(1)
    await house.watch()
    assert (await house.job(began.id)).state == "quiet"


async def test_a_fence_stops_the_clock(house: JobHouse) -> None:
    """JOB-3, LEASE-28: under a fence no job is judged, and that time is taken off when it comes down."""
    began = await house.start()
    await house.clock.advance(500)
    since = house.clock.moment()
    fence = Fence(since=since, until=since.plus(7200), by="ops", reason="deploy")
    await house.store.write(lambda tx: tx.put_fence(fence))
    await house.clock.advance(3600)
    await house.watch(fenced=True)
    await house.watch()
    assert (await house.job(began.id)).state == "running"

    def down(tx: Tx) -> None:
        tx.put_fence(None)
        house.jobs.excuse(tx, since, house.clock.moment())

    await house.store.write(down)
    await house.clock.advance(399)
    await house.watch()
    assert (await house.job(began.id)).state == "running"
    await house.clock.advance(1)
    await house.watch()
    assert (await house.job(began.id)).state == "quiet"


async def test_a_blind_watcher_judges_nothing(house: JobHouse) -> None:
    """JOB-3, LEASE-21: until the end of a watcher's grace no job is judged, on a read neither."""
    began = await house.start()
    await house.clock.advance(3000)
    until = house.clock.elapsed() + 120
    await house.watch(grace_until=until)
    assert (await house.job(began.id)).state == "running"
    await house.clock.advance(120)
    await house.watch(grace_until=until)
    assert (await types(house))[-1] == "job_stalled"


async def test_a_store_that_was_away_at_the_start(house: JobHouse) -> None:
    """R70, JOB-3: when the store could not be used at the start, the first tick that can begins anew."""
    began = await house.start()
    again = job_house(house.store)
    again.clock = again.jobs.clock = house.clock
    await house.clock.advance(7200)
    await again.watch()
    assert (await again.job(began.id)).state == "running"
    await house.clock.advance(900)
    await again.watch()
    assert (await again.job(began.id)).state == "quiet"
