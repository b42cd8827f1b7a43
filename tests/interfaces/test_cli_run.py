import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hostler.client.saved import saved_leases
from hostler.domain.lease import State
from hostler.wire.jobs import UpdateBody
from tests.fakes.fake_engine import eventually
from tests.fakes.head import KEY, Head, Heard
from tests.fakes.head_jobs import JobRow
from tests.fakes.signals import send
from tests.interfaces.going import (
    LONGEST_S,
    Process,
    Start,
    alive,
    below,
    ended,
    environ_of,
    going,
    kill,
    shown,
    stat_of,
    state,
    words_of,
)
from tests.interfaces.terminal import Shell, shell

SHORT = ("--for", "13s")
"""Trusted for 3 s after each renewal, renewed every second."""


@pytest.fixture
def user(head: Head, tmp_path: Path) -> Shell:
    head.key = KEY
    return shell(
        tmp_path,
        HOSTLER_HEAD_URL=head.url,
        HOSTLER_HEAD_API_KEY=KEY,
        HOSTLER_URL=head.url,
        HOSTLER_API_KEY=KEY,
        USER="ada",
    )


@pytest.fixture
async def start(user: Shell) -> AsyncIterator[Start]:
    """Begins `hostler run pair … -- sh -c SCRIPT`."""
    async with going(user) as begin:

        async def it(script: str, *options: str) -> Process:
            return await begin("run", "pair", *options, "--", "sh", "-c", script)

        yield it


def job(head: Head) -> JobRow:
    """The only job."""
    (row,) = head.jobs.rows.values()
    return row


def said(row: JobRow) -> list[UpdateBody]:
    return [it for it in row.applied if isinstance(it, UpdateBody)]


@pytest.mark.parametrize(
    ("script", "code", "result"),
    [("exit 0", 0, "finished"), ("exit 3", 3, "failed"), ("kill -9 $$", 137, "failed")],
)
async def test_the_commands_code_is_ours(
    head: Head, start: Start, tmp_path: Path, script: str, code: int, result: str
) -> None:
    """JOB-5, R93: run exits with its command's code, ends the job with a receipt, releases, keeps no file."""
    got = await ended(await start(f"echo out; echo last words >&2; {script}", "--title", "sweep"))
    assert (got.code, got.out) == (code, "out\n")
    assert "last words" in got.err
    assert [it.holder for it in head.of(State.RELEASED)] == ["ada"]
    row = job(head)
    assert (row.view.title, row.view.state, row.view.lease) == (
        "sweep",
        result,
        head.of(State.RELEASED)[0].id,
    )
    (last,) = said(row)[-1:]
    assert last.note == "last words"
    assert [(it.kind, it.name, it.exit_code) for it in last.receipts] == [("exit", "sh", code)]
    assert head.asked("POST", "/jobs")[0].body["release"] is True
    assert [it for it in (tmp_path / "client").rglob("*") if it.is_file()] == []


@pytest.mark.parametrize(("asked", "told"), [("20m", True), ("2h", False)])
async def test_what_beats_make_of_less_time_is_said(head: Head, start: Start, asked: str, told: bool) -> None:
    """LEASE-20, JOB-5: a lease that its job will extend beyond --for is said to be so, before the command."""
    head.leases.beat_s = 7200.0
    got = await ended(await start("echo begun >&2", "--for", asked))
    lines = [line for line in got.err.splitlines() if "sign of life" in line]
    longer = (
        "hostler: each sign of life of its job has it for 2 h from then on, the default of pair,"
        " not for 20 min; it is given back when the command ends"
    )
    assert lines == ([longer] if told else [])
    assert not told or got.err.index(longer) < got.err.index("begun")


async def test_the_childs_words_become_updates(head: Head, start: Start) -> None:
    """JOB-5: lines for the job become updates marked as the child's, and are passed through all the same."""
    lines = (
        "hostler: progress 3/10 sizes",
        "hostler: metric tok_s=41 loss=0.5",
        "hostler: note warm",
        "other",
    )
    got = await ended(await start("; ".join(f"echo '{line}' >&2" for line in lines)))
    assert got.code == 0
    assert [line for line in lines if line not in got.err.splitlines()] == []
    childs = [it for it in said(job(head)) if it.source == "child"]
    assert [it.note for it in childs if it.note] == ["warm"]
    view = job(head).view
    assert view.progress is not None
    assert (view.progress.n, view.progress.total, view.progress.label) == (3, 10, "sizes")
    assert view.metrics == {"tok_s": 41.0, "loss": 0.5}


async def test_the_child_sees_its_lease_and_never_the_secret(
    head: Head, start: Start, user: Shell, tmp_path: Path
) -> None:
    """JOB-5: the child has the variables and may report; the secret is in no argument and no value."""
    go, script = tmp_path / "go", "env; stat -c %a $HOSTLER_LEASE_SECRET_FILE; echo ready >&2"
    run = await start(f"{script}; until [ -e {go} ]; do sleep 0.05; done")
    await shown(run, "ready")
    secrets = [it.secret for it in saved_leases(tmp_path).list()]
    assert len(secrets) == 1
    processes = (run.pid, *below(run.pid))
    assert len(processes) >= 3
    assert [pid for pid in processes if secrets[0].encode() in words_of(pid) + environ_of(pid)] == []
    (lease,) = head.of(State.ACTIVE)
    env = {"HOSTLER_LEASE": lease.id, "HOSTLER_JOB": job(head).view.id}
    told = await user.run("job", "note", "from within", **env)
    assert told.code == 0, told.err
    go.touch()
    got = await ended(run)
    found = dict(line.split("=", 1) for line in got.out.splitlines() if "=" in line)
    assert (found["HOSTLER_LEASE"], found["HOSTLER_GENERATION"]) == (lease.id, str(lease.generation))
    assert found["HOSTLER_JOB"] == job(head).view.id
    assert found["HOSTLER_TRUSTED_UNTIL"].endswith("Z")
    assert got.out.splitlines()[-1] == "600"
    assert "from within" in [it.note for it in said(job(head))]


async def test_the_childs_group_is_registered(head: Head, start: Start, tmp_path: Path) -> None:
    """JOB-5: the command runs in a process group of its own, which is registered by pid and start time."""
    go = tmp_path / "go"
    run = await start(f"echo $$ $(ps -o pgid= -p $$) >&2; until [ -e {go} ]; do sleep 0.05; done")
    await asyncio.to_thread(head.until, lambda: bool(head.asked("POST", "/processes")), "a registration")
    sent = head.asked("POST", "/processes")[0].body
    stat = stat_of(sent["pid"])
    assert sent["start_ticks"] == int(stat[19])
    assert int(stat[2]) == sent["pid"] != os.getpgid(run.pid)
    go.touch()
    assert (await ended(run)).code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_signals_are_passed_on(head: Head, start: Start, number: signal.Signals) -> None:
    """JOB-5: a signal goes to the command's group; its code is passed through, its job called off."""
    run = await start("trap 'exit 7' INT TERM HUP; echo ready >&2; while :; do sleep 0.05; done")
    await shown(run, "ready")
    send(run, number)
    assert (await ended(run)).code == 7
    assert job(head).view.state == "cancelled"
    assert len(head.of(State.RELEASED)) == 1


async def test_a_stopped_run_goes_on(head: Head, start: Start, tmp_path: Path) -> None:
    """JOB-5: SIGTSTP stops the command and run itself, the lease is kept; SIGCONT lets both go on."""
    go = tmp_path / "go"
    os.mkfifo(go)
    line = os.open(go, os.O_RDWR)
    # It starts no process: a shell that is stopped while it starts one (vfork) is not seen to be.
    run = await start(f"echo ready >&2; read word < {go}; exit 5", *SHORT)
    await shown(run, "ready")
    send(run, signal.SIGTSTP)
    await eventually(lambda: state(run.pid) == "T", "run is stopped", patience_s=LONGEST_S)
    before = len(head.asked("POST", "/renew"))
    await asyncio.to_thread(head.until, lambda: len(head.asked("POST", "/renew")) >= before + 2, "renewals")
    os.write(line, b"on\n")
    send(run, signal.SIGCONT)
    assert (await ended(run)).code == 5
    os.close(line)


async def test_a_lost_lease_ends_the_command(head: Head, start: Start) -> None:
    """JOB-5, R93, F03: when the head ends the lease the command gets SIGTERM and run exits 76."""
    run = await start(
        "trap 'echo told >&2; exit 7' TERM; echo ready >&2; while :; do sleep 0.05; done", *SHORT
    )
    await shown(run, "ready")
    (lease,) = head.of(State.ACTIVE)
    head.end(lease.id, State.EXPIRED, "its time was up")
    got = await ended(run)
    assert got.code == 76
    assert "told" in got.err
    assert "the lease is lost" in got.err
    assert job(head).view.state == "failed"


async def test_a_head_that_is_gone_loses_the_lease_in_time(head: Head, start: Start) -> None:
    """LEASE-22: run ends the command by itself when the lease can be trusted no longer, and exits 76."""
    run = await start("echo ready >&2; while :; do sleep 0.05; done", *SHORT)
    await shown(run, "ready")
    await asyncio.to_thread(head.down)
    got = await ended(run)
    assert got.code == 76
    assert "it was not renewed in time" in got.err


async def test_a_lease_that_a_booking_ends_says_so(head: Head, start: Start) -> None:
    """LEASE-17, LEASE-26: what no renewal moves is the cause that is told, not that none came; exit 76."""
    run = await start("echo ready >&2; while :; do sleep 0.05; done", *SHORT)
    await shown(run, "ready")
    (lease,) = head.of(State.ACTIVE)
    head.leases.turn(lease.id, limited_by="booking")
    before = len(head.asked("POST", "/renew"))
    await asyncio.to_thread(
        head.until, lambda: len(head.asked("POST", "/renew")) > before + 1, "it is told of the booking"
    )
    await asyncio.to_thread(head.down)
    got = await ended(run)
    assert got.code == 76
    assert "its time is up: a booking begins" in got.err
    assert "not renewed" not in got.err


async def test_a_lost_lease_may_only_warn(head: Head, start: Start, tmp_path: Path) -> None:
    """JOB-5: with --on-lost warn the command goes on, and its own code is passed through."""
    go = tmp_path / "go"
    script = f"echo ready >&2; until [ -e {go} ]; do sleep 0.05; done; exit 4"
    run = await start(script, *SHORT, "--on-lost", "warn")
    await shown(run, "ready")
    (lease,) = head.of(State.ACTIVE)
    head.end(lease.id, State.EXPIRED, "its time was up")
    await shown(run, "the command goes on")
    go.touch()
    assert (await ended(run)).code == 4


@dataclass(eq=False)
class Looked(list[Heard]):
    """The requests that a head heard, with what `look` saw when a release came."""

    look: Callable[[], bool]
    seen: list[bool] = field(default_factory=list)

    def append(self, it: Heard) -> None:
        if it.path.endswith("/release"):
            self.seen.append(self.look())
        super().append(it)


async def test_what_the_command_leaves_behind_is_ended(head: Head, start: Start, tmp_path: Path) -> None:
    """JOB-5, LEASE-13: a forked process that stays is ended before the lease is released."""
    pid = tmp_path / "pid"
    head.heard = Looked(look=lambda: alive(int(pid.read_text())))
    got = await ended(await start(f"sleep 1000 & echo $! > {pid}; exit 0"))
    assert got.code == 0
    assert head.heard.seen == [False]


async def test_a_busy_run_starves_no_beat(head: Head, start: Start) -> None:
    """JOB-5: lease and job are kept by a process of its own: while run itself is stopped, both go on."""
    run = await start("echo ready >&2; while :; do sleep 0.05; done", *SHORT)
    await shown(run, "ready")
    send(run, signal.SIGSTOP)
    renewals, beats = len(head.asked("POST", "/renew")), len(head.asked("POST", "/updates"))
    await asyncio.to_thread(head.until, lambda: len(head.asked("POST", "/renew")) > renewals + 1, "renewals")
    await asyncio.to_thread(head.until, lambda: len(head.asked("POST", "/updates")) > beats + 1, "beats")
    send(run, signal.SIGCONT)
    send(run, signal.SIGTERM)
    assert (await ended(run)).code == 143


async def test_a_beating_process_that_died_is_started_again(head: Head, start: Start, tmp_path: Path) -> None:
    """JOB-5: a beating process that was killed is started again in time, and the command goes on."""
    go = tmp_path / "go"
    run = await start(f"echo ready >&2; until [ -e {go} ]; do sleep 0.05; done; exit 6", *SHORT)
    await shown(run, "ready")
    beat = next(it for it in below(run.pid) if b"run.beat" in words_of(it))
    renewals = len(head.asked("POST", "/renew"))
    os.kill(beat, signal.SIGKILL)
    await asyncio.to_thread(head.until, lambda: len(head.asked("POST", "/renew")) > renewals + 1, "renewals")
    go.touch()
    assert (await ended(run)).code == 6


async def test_nothing_beats_for_a_run_that_is_gone(start: Start) -> None:
    """JOB-5: when run is killed its beating process ends, so that the lease of nobody expires."""
    run = await start("echo ready >&2; exec sleep 1000")
    await shown(run, "ready")
    children = below(run.pid)
    beat = next(it for it in children if b"run.beat" in words_of(it))
    send(run, signal.SIGKILL)
    await eventually(lambda: not alive(beat), "its beats end", patience_s=LONGEST_S)
    for pid in children:
        kill(pid)


async def test_a_held_resource_runs_nothing(head: Head, start: Start, tmp_path: Path) -> None:
    """LEASE-25, R93: run of a held resource exits 75 and starts nothing; Ctrl-C in its --wait is 130."""
    head.leases.taken("pair", "bob")
    ran = tmp_path / "ran"
    assert (await ended(await start(f"touch {ran}"))).code == 75
    run = await start(f"touch {ran}", "--wait")
    await asyncio.to_thread(head.until, lambda: bool(head.asked("POST", "/renew")), "a renewal of the place")
    send(run, signal.SIGINT)
    assert (await ended(run)).code == 130
    assert not ran.exists()
    assert head.of(State.QUEUED) == []
    assert head.jobs.rows == {}


async def test_a_command_that_is_not_there_takes_nothing(head: Head, user: Shell) -> None:
    """INTERFACE-4: a command that there is not exits 66 before anything is asked of the head."""
    got = await user.run("run", "pair", "--", "no-such-command-of-ours")
    assert got.code == 66
    assert head.heard == []


async def test_options_after_the_dashes_are_the_commands(head: Head, user: Shell) -> None:
    """INTERFACE-4: what stands behind -- is the command's, --help and --json too."""
    got = await user.run("run", "pair", "--", "echo", "--help", "--json", "-V")
    assert (got.code, got.out) == (0, "--help --json -V\n")
    assert len(head.of(State.RELEASED)) == 1
