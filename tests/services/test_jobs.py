import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.errors import (
    Ended,
    IdempotencyConflict,
    InvalidRequest,
    JobNotFound,
    NotYours,
    QueueFull,
    Refusal,
    ResourceNotFound,
)
from hostler.services.cleaning import Cleaner
from hostler.wire.jobs import JobsQuery, ProgressBody, ReceiptBody
from hostler.wire.redaction import Redactor, forms
from tests.fakes.ids import CountingIds
from tests.fakes.jobs import OPERATOR, OTHER, JobHouse, job_house, log, types

UNKNOWN = f"job_{'9' * 26}"
STRANGE = (
    "../../x",
    "..%2f..%2fx",
    "....//x",
    "%252e%252e",
    "/etc/passwd",
    "C:\\x",
    "job_\0",
    "x" * 300,
    "job-1/../job-2",
    f"job_{'9' * 25}",
    f"job_{'9' * 27}",
    f"job_{'9' * 26}\n",
    f"JOB_{'9' * 26}",
    "",
)


@pytest.fixture
async def house() -> JobHouse:
    it = job_house()
    await it.jobs.resumed()
    return it


# ---------------------------------------------------------------- reporting


async def test_a_job_from_start_to_end(house: JobHouse) -> None:
    """R61, JOB-1: start, note, progress, metrics, receipt, heartbeat and finish show in job and events."""
    began = await house.start(holder="bench", every_s=60)
    assert (began.state, began.title, began.holder, began.every_s) == ("running", "sweep", "bench", 60)
    await house.update(began.id, note="warming")
    await house.update(began.id, progress=ProgressBody(n=3, total=10, label="runs"))
    await house.update(began.id, metrics={"tok_s": 41.5, "loss": 0.5})
    await house.update(began.id, receipts=(ReceiptBody(kind="file", name="out.json", sha256="a" * 64),))
    await house.update(began.id)
    over = await house.finish(began.id, note="done")
    assert (over.state, over.note, over.metrics) == ("finished", "done", {"tok_s": 41.5, "loss": 0.5})
    assert over.progress is not None
    assert (over.progress.n, over.progress.total, over.progress.label) == (3, 10, "runs")
    assert [it.name for it in over.receipts] == ["out.json"]
    assert await types(house) == ["job_started", *["job_updated"] * 4, "job_ended"]
    assert over == await house.job(began.id)


async def test_events_carry_what_changed(house: JobHouse) -> None:
    """FEED-3, LEASE-7: a job's event has its subject and the changed values; the job keeps its number."""
    lease = await house.leased()
    began = await house.start(lease=lease.id, holder="bench")
    after = await house.update(began.id, note="half", metrics={"loss": 0.5}, n=1, source="child")
    first, second = await log(house)
    assert dict(first.subject) == {"job": began.id, "lease": "ls_1", "resource": "pair"}
    assert (first.facts["title"], first.facts["every_s"], first.after) == ("sweep", 300.0, "running")
    assert (second.facts["note"], second.facts["source"]) == ("half", "child")
    assert (second.facts["metrics"], second.facts["applied"]) == ({"loss": 0.5}, 1)
    assert second.message == "sweep: half; loss=0.5"
    assert (began.seq, after.seq) == (1, 2)


async def test_a_heartbeat_is_no_event(house: JobHouse) -> None:
    """JOB-2, R62: a heartbeat moves when the job was heard of, and writes no event."""
    began = await house.start()
    await house.clock.advance(60)
    after = await house.update(began.id)
    assert (after.heard_at > began.heard_at, after.quiet_s, after.seq) == (True, 0, began.seq)
    assert await types(house) == ["job_started"]


async def test_an_update_applies_whole_or_not_at_all(house: JobHouse) -> None:
    """R67: a good note with a bad metric leaves nothing: no note, no event, no beat."""
    began = await house.start()
    await house.clock.advance(60)
    with pytest.raises(InvalidRequest):
        await house.update(began.id, note="good", metrics={"m": float("nan")})
    with pytest.raises(InvalidRequest):
        await house.update(began.id, note="good", receipts=(ReceiptBody(kind="f", name="x"),) * 65)
    now = await house.job(began.id)
    assert (now.note, now.heard_at, now.seq) == ("", began.heard_at, began.seq)
    assert await types(house) == ["job_started"]


async def test_measured_values_are_kept_by_name(house: JobHouse) -> None:
    """JOB-1, HIST-2: each measured value is kept with its second since the job's start, and told by id."""
    began = await house.start()
    for value in (0.9, 0.5):
        await house.clock.advance(30)
        await house.update(began.id, metrics={"loss": value})
    points = (await house.jobs.job(began.id)).points
    assert [(it.name, it.elapsed_s, it.value) for it in points] == [("loss", 30.0, 0.9), ("loss", 60.0, 0.5)]


async def test_the_same_request_is_the_same_job(house: JobHouse) -> None:
    """JOB-1, LEASE-9: a repeated start gives the job that it made; with another body it is refused."""
    began = await house.start("r1")
    assert (await house.start("r1")).id == began.id
    with pytest.raises(IdempotencyConflict):
        await house.start("r1", title="another")
    await house.finish(began.id)
    again = await house.start("r1")
    assert (again.id, again.state) == (began.id, "finished")
    assert await types(house) == ["job_started", "job_ended"]


async def test_a_replayed_update_is_applied_once(house: JobHouse) -> None:
    """JOB-6: an update with a number that was applied already is answered, and changes nothing."""
    began = await house.start()
    first = await house.update(began.id, n=1, note="one")
    await house.update(began.id, n=2, note="two")
    await house.clock.advance(60)
    again = await house.update(began.id, n=1, note="one")
    assert (again.note, again.applied, again.heard_at) == ("two", 2, first.heard_at)
    over = await house.finish(began.id, n=3)
    assert (await house.finish(began.id, n=3)) == over
    assert (await house.update(began.id, n=2)).state == "finished"
    assert await types(house) == ["job_started", "job_updated", "job_updated", "job_ended"]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_updates_at_the_same_time_are_all_kept(kind: str, tmp_path: Path) -> None:
    """R72, JOB-7: of 200 updates at once to one job each is an event of its own, and none is lost."""
    ids = CountingIds()
    store = MemoryStore(ids) if kind == "memory" else SqliteStore(tmp_path / "schedule.db", ids)
    house = job_house(store)
    began = await house.start()
    notes = [f"note {number}" for number in range(200)]
    await asyncio.gather(*(house.update(began.id, note=note, metrics={note: 1.0}) for note in notes))
    rows = [row.event for row in await store.since(None, 500)]
    told = [event.facts["note"] for event in rows if event.type == "job_updated"]
    assert sorted(map(str, told)) == sorted(notes)
    assert set((await house.job(began.id)).metrics) == set(notes)
    await store.close()


# ---------------------------------------------------------------- who may


async def test_only_the_holder_reports(house: JobHouse) -> None:
    """R71, LEASE-9: an update or an end with another secret is refused, whoever's key it came with."""
    began = await house.start()
    with pytest.raises(NotYours, match="bots's"):
        await house.update(began.id, secret=OTHER, note="mine now")
    with pytest.raises(NotYours):
        await house.finish(began.id, secret=OTHER)
    with pytest.raises(NotYours):
        await house.finish(began.id, who=OPERATOR, secret=OTHER, because="I am the operator")
    assert await types(house) == ["job_started"]
    assert (await house.job(began.id)).note == ""


async def test_an_operator_ends_a_job_with_a_reason(house: JobHouse) -> None:
    """JOB-2, LEASE-9: an operator may end another's job with a reason, which the events tell."""
    began = await house.start()
    with pytest.raises(NotYours):
        await house.finish(began.id, "cancelled", secret=None, because="it hangs")
    with pytest.raises(InvalidRequest) as refused:
        await house.finish(began.id, "cancelled", OPERATOR, secret=None, because=" ")
    assert refused.value.where == "because"
    over = await house.finish(began.id, "cancelled", OPERATOR, secret=None, because="it hangs")
    assert (over.state, over.why) == ("cancelled", "it hangs")
    last = (await log(house))[-1]
    assert last.actor.startswith("operator 10.99.0.7")
    assert "it hangs" in last.message


async def test_a_job_is_lost_with_proof_only(house: JobHouse) -> None:
    """JOB-2: `lost` needs a proof, which becomes the reason of the end."""
    began = await house.start()
    with pytest.raises(InvalidRequest) as refused:
        await house.finish(began.id, "lost")
    assert refused.value.where == "proof"
    over = await house.finish(began.id, "lost", proof="pid 4711 is gone")
    assert (over.state, over.why) == ("lost", "pid 4711 is gone")


@pytest.mark.parametrize("result", ["finished", "failed", "cancelled", "lost"])
async def test_an_end_is_final(house: JobHouse, result: str) -> None:
    """R66, JOB-2: a job that is over refuses every later update and end, and its end stays what it was."""
    began = await house.start()
    over = await house.finish(began.id, result, proof="gone", n=1)
    for late in (house.update(began.id), house.update(began.id, note="late", n=9), house.finish(began.id)):
        with pytest.raises(Ended, match=result):
            await late
    await house.clock.advance(3 * 86400)
    await house.watch()
    assert replace(await house.job(began.id), quiet_s=0) == over
    assert await types(house) == ["job_started", "job_ended"]


@pytest.mark.parametrize("id_", [*STRANGE, UNKNOWN, "ls_00000000000000000000000001"])
async def test_an_id_that_is_none_of_ours_is_not_found(id_: str) -> None:
    """R71: an id that we never gave out is not found; one that cannot be ours reaches no store."""
    house = job_house()
    assert isinstance(house.store, MemoryStore)
    if id_ != UNKNOWN:
        house.store.broken = "it must not be asked"
    for call in (house.job(id_), house.update(id_), house.finish(id_)):
        with pytest.raises(JobNotFound) as refused:
            await call
        assert len(refused.value.job) <= 80
        assert refused.value.job.isprintable()


# ---------------------------------------------------------------- texts and bounds


async def test_texts_lose_secrets_and_controls() -> None:
    """JOB-7, SEC-1: every text of a job, in any encoding of a known secret, is kept and told without it."""
    key = "hk_the/known+secret"
    house = job_house(redact=Redactor((key,)))
    nasty = "a\x1b[31m\u202e"
    began = await house.start(title=f"{key}{nasty}", holder=key)
    for form in forms(key):
        await house.update(
            began.id,
            note=f"first {form}\nsecond\x07{nasty}",
            progress=ProgressBody(value=0.5, label=form),
            metrics={form: 1.0},
        )
        receipt = ReceiptBody(
            kind="file", name=form[:200], path=f"/tmp/{form}", url=f"https://example.net/{form}"
        )
        if (await house.job(began.id)).receipts == ():
            await house.update(began.id, receipts=(receipt,))
        told = repr(await house.job(began.id)) + repr(await log(house))
        assert form not in told
    job = await house.job(began.id)
    assert job.title == "****a\\x1b[31m\\u202e"
    assert job.note == "first ****\nsecond\\x07a\\x1b[31m\\u202e"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://ann:pw@example.net/a@b?x=1", "https://****@example.net/a@b?x=1"),
        ("s3://key@bucket/f", "s3://****@bucket/f"),
        ("https://a@b:c@example.net", "https://****@example.net"),
        ("https://example.net/~ann@home", "https://example.net/~ann@home"),
        ("mailto:ann@example.net", "mailto:ann@example.net"),
    ],
)
async def test_a_receipts_url_is_kept_without_credentials(url: str, kept: str) -> None:
    """JOB-7, SEC-1: a user and a password in a receipt's URL are not kept."""
    house = job_house()
    began = await house.start()
    await house.update(began.id, receipts=(ReceiptBody(kind="file", name="f", url=url),))
    assert [it.url for it in (await house.job(began.id)).receipts] == [kept]


async def test_the_end_of_a_job_is_cleaned_as_well() -> None:
    """JOB-7, SEC-1: the note, the reason and the proof of an end are kept without secrets and controls."""
    house = job_house(redact=Redactor(("hk_secret",)))
    began = await house.start()
    over = await house.finish(began.id, "lost", note="hk_secret\x00", proof="hk_secret\x1b")
    assert (over.note, over.why) == ("****\\x00", "****\\x1b")


async def test_the_bounds_name_themselves(house: JobHouse) -> None:
    """JOB-7, R68: a title, an interval, a note and an unknown resource are refused by name."""
    for more, where in (({"title": "  "}, "title"), ({"every_s": 3601}, "every_s")):
        with pytest.raises(InvalidRequest) as refused:
            await house.start(**more)
        assert refused.value.where == where
    with pytest.raises(ResourceNotFound):
        await house.start(resource="pear")
    began = await house.start()
    with pytest.raises(InvalidRequest, match="16385 bytes"):
        await house.update(began.id, note="x" * 16385)
    with pytest.raises(InvalidRequest, match="kind and a name"):
        await house.update(began.id, receipts=(ReceiptBody(kind="", name="x"),))
    assert await types(house) == ["job_started"]


async def test_open_jobs_are_bounded(house: JobHouse) -> None:
    """R58: one job more than may be open is refused; a repeated start is not, and an end makes room."""
    house.jobs.most = 2
    first, _ = await house.start("r1"), await house.start("r2")
    with pytest.raises(QueueFull, match="2 wait for their end"):
        await house.start("r3")
    assert (await house.start("r1")).id == first.id
    with pytest.raises(IdempotencyConflict):
        await house.start("r2", title="another")
    await house.finish(first.id)
    started = await asyncio.gather(*(house.start(f"s{n}") for n in range(3)), return_exceptions=True)
    assert [isinstance(it, QueueFull) for it in started] == [False, True, True]
    assert len((await house.jobs.jobs(JobsQuery())).jobs) == 2


@pytest.mark.parametrize("begun", [True, False])
async def test_open_jobs_are_counted_after_a_restart(house: JobHouse, begun: bool) -> None:
    """R58: a daemon that finds open jobs counts them, and starts that come at once count each other."""
    await house.start("r1")
    again = job_house(house.store)
    again.jobs.most = 2
    again.jobs.ids = house.jobs.ids
    if begun:
        await again.jobs.resumed()
    tried = await asyncio.gather(*(again.start(f"s{n}") for n in range(3)), return_exceptions=True)
    assert sum(isinstance(it, QueueFull) for it in tried) == 2


async def test_a_store_that_fails_loses_no_count(house: JobHouse) -> None:
    """R58: a start that the store did not take leaves room for another."""
    assert isinstance(house.store, MemoryStore)
    house.jobs.most = 1
    house.store.full = "the disk is full"
    with pytest.raises(Refusal, match="full"):
        await house.start("r1")
    house.store.full = None
    await house.start("r2")


async def test_the_event_of_a_note_has_the_note_that_is_kept() -> None:
    """FEED-3, JOB-7: a note of several lines is the same in the job and in its event."""
    house = job_house(MemoryStore(CountingIds(), clean=Cleaner().event))
    began = await house.start()
    kept = await house.update(began.id, note="first\nsecond\x1b")
    assert kept.note == "first\nsecond\\x1b"
    told = (await log(house))[-1]
    assert told.facts["note"] == kept.note
    assert "\n" not in told.message
