import asyncio
import json

import pytest

from hostler.wire.jobs import FinishBody, UpdateBody
from tests.fakes.head import Head
from tests.fakes.head_jobs import JobRow
from tests.interfaces.terminal import Shell
from tests.interfaces.test_cli import told


def row(head: Head, id_: str) -> JobRow:
    return head.jobs.rows[id_]


def updates(head: Head, id_: str) -> list[UpdateBody]:
    return [it for it in row(head, id_).applied if isinstance(it, UpdateBody)]


async def begun(user: Shell, *words: str) -> str:
    """A job's id."""
    ended = await user.inside("job", "start", *words)
    assert ended.code == 0, ended.err
    return ended.out.strip()


async def test_each_kind_of_report_comes_through(head: Head, user: Shell) -> None:
    """R61, JOB-1: start, note, progress, metric, receipt, heartbeat and finish do what they say."""
    id_ = await begun(user, "q8 sweep", "--every", "10m")
    assert (row(head, id_).view.title, row(head, id_).view.holder, row(head, id_).view.every_s) == (
        "q8 sweep",
        "ada",
        600.0,
    )
    for words in (
        ("note", "warm"),
        ("progress", "3/10", "sizes", "done"),
        ("metric", "tok_s=41", "loss=0.5"),
        (
            "receipt",
            "result",
            "table.csv",
            "--path",
            "out/table.csv",
            "--sha256",
            "a" * 64,
            "--exit-code",
            "0",
        ),
        ("heartbeat",),
    ):
        ended = await user.inside("job", *words)
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"{id_}  running")
    note, progress, metric, receipt, beat = updates(head, id_)
    assert note.note == "warm"
    assert progress.progress is not None
    assert (progress.progress.n, progress.progress.total, progress.progress.label) == (3, 10, "sizes done")
    assert dict(metric.metrics) == {"tok_s": 41.0, "loss": 0.5}
    assert [(it.kind, it.name, it.path, it.exit_code) for it in receipt.receipts] == [
        ("result", "table.csv", "out/table.csv", 0)
    ]
    assert (beat.note, beat.progress, dict(beat.metrics), beat.receipts) == (None, None, {}, ())
    shown = (await user.inside("job", "show")).out
    assert "30 %  3/10 sizes done" in shown
    ended = await user.inside("job", "finish", "--failed", "--note", "out of memory")
    assert (ended.code, ended.out) == (0, f"{id_} is failed.\n")
    last = row(head, id_).applied[-1]
    assert isinstance(last, FinishBody)
    assert (last.result, last.note) == ("failed", "out of memory")


async def test_a_job_under_a_lease_has_its_secret(head: Head, user: Shell) -> None:
    """LEASE-20, JOB-1: a job started under this user's lease proves itself with that lease's secret."""
    assert (await user.run("reserve", "pair")).code == 0
    for words in (("--lease", "pair"), ("--resource", "pair")):
        id_ = await begun(user, "sweep", *words)
        (lease,) = head.leases.rows.values()
        assert row(head, id_).secret == lease.secret
    assert row(head, await begun(user, "other")).secret != lease.secret


async def test_one_of_several_jobs_is_named(head: Head, user: Shell) -> None:
    """JOB-1: with several jobs open a report names one: by --job or by $HOSTLER_JOB; else it is refused."""
    one, other = await begun(user, "one"), await begun(user, "other")
    code, lines = told(await user.inside("job", "note", "which?"))
    assert code == 65
    assert one in lines[0]
    assert other in lines[0]
    assert (await user.inside("job", "note", "first", "--job", one)).code == 0
    assert (await user.run("job", "note", "second", HOSTLER_JOB=other)).code == 0
    assert [it.note for it in updates(head, one)] == ["first"]
    assert [it.note for it in updates(head, other)] == ["second"]


async def test_a_report_waits_for_a_head_that_is_away(head: Head, user: Shell) -> None:
    """JOB-6: what is reported while the head is away is kept, and comes first with the next report, once."""
    id_ = await begun(user, "sweep")
    await asyncio.to_thread(head.down)
    for text in ("one", "two"):
        ended = await user.inside("job", "note", text)
        assert (ended.code, ended.out) == (0, "")
        assert ended.err == "note: the head is away; it is kept and sent with the next report.\n"
    await asyncio.to_thread(head.up)
    assert (await user.inside("job", "note", "three")).code == 0
    assert [it.note for it in updates(head, id_)] == ["one", "two", "three"]


async def test_an_ended_job_takes_nothing_more(head: Head, user: Shell) -> None:
    """R66, JOB-2: a report on a job that is over is refused with 76."""
    id_ = await begun(user, "sweep")
    head.end_job(id_)
    code, lines = told(await user.inside("job", "note", "late"))
    assert code == 76
    assert lines[0].startswith(f"error: The job {id_} is over")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("finish",), 2),
        (("finish", "--ok", "--failed"), 2),
        (("start", "x", "--lease", "a", "--resource", "b"), 2),
        (("start", "x" * 201), 65),
        (("start", "x", "--every", "2h"), 65),
        (("note", "x" * 16_385), 65),
        (("progress", "lots"), 65),
        (("progress",), 65),
        (("metric", "tok_s=nan"), 65),
        (("metric", *(f"m{n}=1" for n in range(101))), 65),
        (("note", "x", "--job", "jb_nothing"), 66),
    ],
)
async def test_what_is_out_of_bounds_is_told(
    head: Head, user: Shell, words: tuple[str, ...], code: int
) -> None:
    """JOB-7, R68: a report out of bounds is refused with its bound, and changes nothing."""
    id_ = await begun(user, "sweep")
    found, lines = told(await user.inside("job", *words))
    assert found == code
    assert [line.split(":")[0] for line in lines] in (["error", "hint"], ["error"])
    assert updates(head, id_) == []


async def test_json_of_a_job_is_one_document(head: Head, user: Shell) -> None:
    """R88, INTERFACE-2: with --json each command on a job answers with one document of the wire."""
    found = json.loads((await user.inside("job", "start", "sweep", "--json")).out)
    assert found["job"]["state"] == "running"
    for words in (("note", "x"), ("progress", "50%"), ("heartbeat",), ("show",), ("finish", "--ok")):
        ended = await user.inside("job", *words, "--json")
        assert (ended.code, ended.err, ended.out.count("\n")) == (0, "", 1)
        json.loads(ended.out)
