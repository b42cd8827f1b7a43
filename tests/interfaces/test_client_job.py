import asyncio
import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hostler.client.facade import Hostler
from hostler.client.reporting import Job, outcome
from hostler.client.spool import Spool, spool
from hostler.domain.errors import DaemonUnreachable, Ended, InvalidRequest, LimitReached, NoKey, Refusal
from hostler.domain.lease import State
from hostler.wire.jobs import FinishBody, ProgressBody, ReceiptBody, UpdateBody
from tests.fakes.head import Head
from tests.fakes.head_jobs import JobRow
from tests.interfaces.holders import ahostler, hostler


def only(head: Head) -> JobRow:
    (row,) = head.jobs.rows.values()
    return row


def notes(row: JobRow) -> list[str | None]:
    return [it.note for it in row.applied if isinstance(it, UpdateBody)]


def test_a_job_is_told_and_finished(head: Head, holder: Hostler) -> None:
    """JOB-1, R61, CLIENT-1: notes, progress, metrics and receipts arrive in order, and then the end."""
    with holder.job("q8 sweep", every="1m") as job:
        job.note("loading")
        job.progress(3, 10, label="runs")
        job.progress(0.5)
        job.metric("tok_s", 41)
        job.metrics(loss=0.25, lr=1e-4)
        job.receipt("file", "report", path="/tmp/report.md", sha256="0" * 64)
        job.heartbeat()
    row = only(head)
    assert (row.view.title, row.view.every_s, row.view.state) == ("q8 sweep", 60, "finished")
    assert [it.n for it in row.applied] == list(range(1, 9))
    first, counted, share, *_, beat, ended = row.applied
    assert isinstance(counted, UpdateBody)
    assert isinstance(share, UpdateBody)
    assert (first.note, counted.progress) == ("loading", ProgressBody(n=3, total=10, label="runs"))
    assert share.progress == ProgressBody(value=0.5)
    assert row.view.metrics == {"tok_s": 41, "loss": 0.25, "lr": 1e-4}
    assert isinstance(beat, UpdateBody)
    assert (beat.note, beat.progress, beat.metrics, beat.receipts) == (None, None, {}, ())
    assert isinstance(ended, FinishBody)
    assert list(holder.jobs.files.list()) == []
    assert list((holder.jobs.state / "client" / "spool").iterdir()) == []


async def test_a_job_is_told_and_finished_in_a_task(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: the asynchronous client tells the same, from another thread too."""
    async with ahostler(head, tmp_path) as client, client.job("q8 sweep") as job:
        job.note("loading")
        await asyncio.to_thread(job.note, "loaded")
        await asyncio.to_thread(head.until, lambda: len(only(head).applied) == 2, "both arrive")
    assert (notes(only(head)), only(head).view.state) == (["loading", "loaded"], "finished")


def test_a_job_has_the_secret_of_its_lease(head: Head, holder: Hostler) -> None:
    """LEASE-20: a job of one's own lease has the lease's secret, so that its beats extend it."""
    with holder.lease("pair") as lease, holder.job("q8 sweep", lease=lease):
        row = only(head)
        assert row.view.lease == lease.id
        assert row.secret == head.leases.rows[lease.id].secret
    with holder.job("other", lease="ls_7", resource="box"):
        (_, other) = head.jobs.rows.values()
        assert (other.view.lease, other.view.resource) == ("ls_7", "box")
        assert other.secret != row.secret


def test_what_is_told_while_the_head_is_away_comes_later_once(head: Head, holder: Hostler) -> None:
    """JOB-6: updates that the head could not take wait in a private file and arrive in order, each once."""
    with holder.job("q8 sweep") as job:
        job.note("first")
        head.until(lambda: len(only(head).applied) == 1, "the first arrives")
        head.down()
        for number in range(20):
            job.note(f"note {number}")
        path = spool(holder.jobs.state, job.saved.request_id).path
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert job.saved.secret not in path.read_text()
        head.up()
        head.until(lambda: len(only(head).applied) == 21, "all arrive", timeout_s=30)
    assert notes(only(head)) == ["first", *(f"note {number}" for number in range(20))]
    assert [it.n for it in only(head).applied] == list(range(1, 23))


@pytest.mark.parametrize("failure", ["lost", "reset", "500", "503"])
def test_an_update_whose_answer_is_lost_counts_once(head: Head, holder: Hostler, failure: str) -> None:
    """JOB-6: an update that was applied, its answer lost, is sent again and counts once."""
    with holder.job("q8 sweep") as job:
        head.fail_next(failure)
        job.note("one")
        job.note("two")
    assert notes(only(head)) == ["one", "two"]
    assert only(head).view.state == "finished"


def test_the_end_waits_for_the_head(head: Head, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JOB-6, R61: a job that ends while the head is away is ended later, by whatever this user does next."""
    with hostler(head, tmp_path) as client:
        saved = client.jobs.prepare("q8 sweep")
        client.run(client.jobs.start(saved))
        head.down()
        assert client.run(client.jobs.update(saved, note="last words")) is None
        assert client.run(client.jobs.finish(saved, "finished", patience_s=0.0)) is None
        assert client.run(client.jobs.replay()) == 1
        head.up()
    with hostler(head, tmp_path) as client:
        assert client.run(client.jobs.replay()) == 0
        assert client.jobs.files.list() == []
    assert (notes(only(head)), only(head).view.state) == (["last words"], "finished")


def test_the_next_job_brings_the_last_one_to_its_end(head: Head, holder: Hostler) -> None:
    """JOB-6: what an earlier process could not send is sent by the next job of this user."""
    saved = holder.jobs.prepare("first")
    holder.run(holder.jobs.start(saved))
    head.down()
    assert holder.run(holder.jobs.finish(saved, "finished", patience_s=0.0)) is None
    head.up()
    with holder.job("second"):
        head.until(lambda: next(iter(head.jobs.rows.values())).view.state == "finished", "the first ends")


def test_what_the_head_never_takes_stops_nothing(head: Head, holder: Hostler) -> None:
    """JOB-2, JOB-6: what a job that was ended refuses is raised, and does not come again."""
    saved = holder.jobs.prepare("q8 sweep")
    one = holder.run(holder.jobs.start(saved))
    head.end_job(one.job.id)
    with pytest.raises(Ended):
        holder.run(holder.jobs.update(saved, note="still here"))
    assert (holder.jobs.spool(saved).waiting(), holder.jobs.files.list()) == ([], [])


def test_a_refusal_reaches_whoever_tells(head: Head, holder: Hostler) -> None:
    """CLIENT-1: what the head refused in the background is raised by the next thing that is told."""
    saved = holder.jobs.prepare("q8 sweep")
    job = Job(jobs=holder.jobs, saved=saved, one=holder.run(holder.jobs.start(saved)))
    head.end_job(job.id)
    job.note("one")

    def idle(seconds: float) -> None:
        del seconds
        job.closing = True

    holder.run(job.upkeep(), pause=idle)
    with pytest.raises(Ended):
        job.note("two")


def test_updates_wait_while_the_key_is_wrong(head: Head, holder: Hostler) -> None:
    """JOB-6, R98: a key that is refused loses no update: they wait for the right one."""
    saved = holder.jobs.prepare("q8 sweep")
    holder.run(holder.jobs.start(saved))
    head.refuses = NoKey()
    with pytest.raises(NoKey):
        holder.run(holder.jobs.update(saved, note="one"))
    head.refuses = None
    holder.run(holder.jobs.update(saved, note="two"))
    assert notes(only(head)) == ["one", "two"]


def test_a_job_beats(head: Head, holder: Hostler) -> None:
    """JOB-2, R62: a job whose process lives beats by itself; with `beat=False` only what is told counts."""
    with holder.job("q8 sweep", every=0.05):
        head.until(lambda: len(only(head).applied) >= 3, "it beats")
    with holder.job("silent", every=0.05, beat=False) as job:
        with holder.job("other", every=0.05) as other:
            head.until(lambda: len(head.jobs.rows[other.id].applied) >= 3, "the other beats")
        assert head.jobs.rows[job.id].applied == []


class Broken(Exception):
    """An error of the work."""


@pytest.mark.parametrize(
    ("error", "result", "note"),
    [
        (None, "finished", None),
        (SystemExit(0), "finished", None),
        (SystemExit(), "finished", None),
        (Broken("out of memory\n\x1b[2J"), "failed", "Broken: out of memory\\x0a\\x1b[2J"),
        (SystemExit(3), "failed", "exit status 3"),
        (SystemExit(143), "cancelled", "ended by a signal (exit status 143)"),
        (KeyboardInterrupt(), "cancelled", "interrupted (KeyboardInterrupt)"),
        (asyncio.CancelledError(), "cancelled", "interrupted (CancelledError)"),
    ],
)
def test_how_the_work_ends_is_how_the_job_ends(
    error: BaseException | None, result: str, note: str | None
) -> None:
    """CLIENT-1: an exception is `failed`, an interrupt `cancelled`, an exit with 0 `finished`."""
    assert outcome(error) == (result, note)


def test_an_exception_fails_the_job(head: Head, holder: Hostler) -> None:
    """CLIENT-1: an exception ends the job as failed, with its text, and is raised as it was."""
    with pytest.raises(Broken), holder.job("q8 sweep"):
        raise Broken("out of memory")
    assert (only(head).view.state, only(head).view.note) == ("failed", "Broken: out of memory")


SYNC = """
from hostler import Hostler
with Hostler() as hostler, hostler.lease("pair") as lease, hostler.job("t", lease=lease):
    print("ready", flush=True)
    import time
    time.sleep(60)
"""
ASYNC = """
import asyncio
from hostler import AsyncHostler
async def main():
    async with AsyncHostler() as hostler, hostler.lease("pair") as lease, hostler.job("t", lease=lease):
        print("ready", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


def child(head: Head, folder: Path, program: str) -> subprocess.Popen[str]:
    """A program that uses the client, once it has said that it is ready."""
    environment = {**os.environ, "HOSTLER_HEAD_URL": head.url, "HOSTLER_STATE_DIR": str(folder)}
    made = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    return made


@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
def test_sigterm_cancels(head: Head, tmp_path: Path, program: str) -> None:
    """CLIENT-1, R95: SIGTERM ends the job as cancelled, gives the lease back, and exits with 143."""
    with child(head, tmp_path, program) as made:
        made.send_signal(signal.SIGTERM)
        _, err = made.communicate(timeout=30)
    assert (made.returncode, err) == (143, "")
    assert only(head).view.state == "cancelled"
    assert [it.state for it in head.of(*State)] == [State.RELEASED]


def test_silence_is_never_finished(head: Head, tmp_path: Path) -> None:
    """CLIENT-1: a process that is killed ends no job: it stays as it was, for the head to find quiet."""
    with child(head, tmp_path, SYNC) as made:
        made.kill()
        made.communicate(timeout=30)
    assert only(head).view.state == "running"
    assert len(head.of(State.ACTIVE)) == 1


@pytest.mark.parametrize(
    ("update", "where"),
    [
        ({"note": "x" * 16_385}, "note"),
        ({"metrics": {f"m{n}": 1.0 for n in range(101)}}, "metrics"),
        ({"metrics": {"loss": float("nan")}}, "metrics.loss"),
        ({"metrics": {"loss": float("inf")}}, "metrics.loss"),
        ({"receipts": tuple(ReceiptBody(kind="file", name=str(n)) for n in range(65))}, "receipts"),
        ({"progress": ProgressBody(n=float("nan"), total=3)}, "progress"),
    ],
)
def test_what_is_out_of_bounds_is_refused_here(
    holder: Hostler, update: dict[str, object], where: str
) -> None:
    """JOB-7, R68: an update out of bounds is refused at once, naming the place, and stops none behind it."""
    saved = holder.jobs.prepare("q8 sweep")
    with pytest.raises(InvalidRequest) as refused:
        holder.jobs.put(saved, **update)  # type: ignore[arg-type]  # each case has its own key
    assert refused.value.where == where
    assert holder.jobs.spool(saved).waiting() == []


@pytest.mark.parametrize(("title", "every_s"), [("", 300.0), ("x" * 201, 300.0), ("t", 3601.0), ("t", 0.0)])
def test_a_job_out_of_bounds_is_refused_here(holder: Hostler, title: str, every_s: float) -> None:
    """JOB-2, JOB-7: a title of 1 to 200 characters, word at least once an hour; else nothing is saved."""
    with pytest.raises(InvalidRequest):
        holder.jobs.prepare(title, every_s=every_s)
    assert holder.jobs.files.list() == []


def test_a_job_that_cannot_be_started_is_forgotten(head: Head, holder: Hostler) -> None:
    """JOB-1: a job that the head did not take leaves no file."""
    head.refuses = NoKey()
    with pytest.raises(NoKey), holder.job("q8 sweep"):
        pass
    head.down()
    saved = holder.jobs.prepare("q8 sweep")
    with pytest.raises(DaemonUnreachable):
        holder.run(holder.jobs.start(saved, patience_s=0.0))
    assert holder.jobs.files.list() == []


# ---------------------------------------------------------------- the spool


def many(path: str, count: int) -> None:
    for _ in range(count):
        Spool(path=Path(path)).put("updates", {"note": str(os.getpid())})


def test_a_number_is_given_once_across_processes(tmp_path: Path) -> None:
    """JOB-6, R72: several processes that tell of one job at once give each number once and lose none."""
    path = tmp_path / "spool" / "x.ndjson"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=many, args=(str(path), 50)) for _ in range(3)]
    for process in processes:
        process.start()
    many(str(path), 50)
    for process in processes:
        process.join()
    assert [it.n for it in Spool(path=path).waiting()] == list(range(1, 201))


def test_a_number_is_never_given_again(tmp_path: Path) -> None:
    """JOB-6: numbers go on after everything was sent, also in a new process."""
    path = tmp_path / "x.ndjson"
    first = Spool(path=path)
    assert [first.put("updates", {}), first.put("updates", {"note": "b"})] == [1, 2]
    first.done(1)
    assert [it.n for it in Spool(path=path).waiting()] == [2]
    first.done(2)
    assert Spool(path=path).waiting() == []
    assert Spool(path=path).put("finish", {}) == 3


def test_a_torn_line_spoils_no_other(tmp_path: Path) -> None:
    """JOB-6, R82: a line that a crash tore is passed over, and what is told next stands on its own."""
    it = Spool(path=tmp_path / "x.ndjson")
    it.put("updates", {"note": "one"})
    with it.path.open("ab") as file:
        file.write(b'{"later": ' + b"[" * 20_000 + b'\n{"n":2,"verb":"upd')
    assert it.put("updates", {"note": "two"}) == 2
    assert [line.body for line in it.waiting()] == [{"note": "one"}, {"note": "two"}]
    assert all(json.loads(line) for line in it.path.read_text().splitlines() if line.endswith("}"))


def test_a_spool_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JOB-6, JOB-7: a spool that is full says so, naming its file, instead of filling the disk."""
    monkeypatch.setattr("hostler.client.spool.MAX_BYTES", 100)
    it = Spool(path=tmp_path / "x.ndjson")
    it.put("updates", {"note": "x" * 100})
    with pytest.raises(LimitReached, match=r"x\.ndjson"):
        it.put("updates", {})


@pytest.mark.parametrize("name", ["../x", "jb_1", ""])
def test_a_job_id_is_no_file_name(tmp_path: Path, name: str) -> None:
    """SEC-2, JOB-6: only what looks like a request id of ours becomes a spool's name."""
    with pytest.raises(ValueError, match="no request id"):
        spool(tmp_path, name)


def test_a_refusal_is_a_refusal() -> None:
    """CLIENT-1: what the client raises are the daemon's classes."""
    assert issubclass(LimitReached, Refusal)
