"""What a node's steps reach of the world: records, commands, webhooks, engines' work, process groups."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostler.adapters.commands import SystemCommands
from hostler.adapters.host import process_table
from hostler.adapters.host.lease_groups import SystemProcesses
from hostler.adapters.proving_http import HttpCompletions
from hostler.adapters.receipts import DirectoryRecords
from hostler.adapters.webhooks import HttpWebhooks
from hostler.domain.engine import Launch
from hostler.domain.errors import InvalidRequest
from hostler.domain.fleet import Secret
from hostler.domain.values import EngineId
from hostler.services.node_needs import Member
from tests.adapters.driver_conformance import process_rig, start_ready
from tests.fakes.fake_engine import eventually, free_port

# ---------------------------------------------------------------- records


@pytest.fixture
def records(tmp_path: Path) -> DirectoryRecords:
    return DirectoryRecords(root=tmp_path / "state", directory="receipts")


def test_records_are_files_of_ours(records: DirectoryRecords, tmp_path: Path) -> None:
    """CONF-5: a record is one JSON file, 0600 in a directory 0700, and found again by its name."""
    assert records.load("lease_1.7.u3.12") is None
    records.save("lease_1.7.u3.12", {"ended": None})
    path = tmp_path / "state/receipts/lease_1.7.u3.12.json"
    assert json.loads(path.read_text()) == {"ended": None}
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert records.load("lease_1.7.u3.12") == {"ended": None}
    assert list(records.names()) == ["lease_1.7.u3.12"]
    records.remove("lease_1.7.u3.12")
    records.remove("lease_1.7.u3.12")
    assert list(records.names()) == []


def test_a_damaged_record_is_kept_aside(records: DirectoryRecords, tmp_path: Path) -> None:
    """REL-1: a record that cannot be read raises ValueError, and is kept aside when it is written anew."""
    records.save("fences", {})
    (tmp_path / "state/receipts/fences.json").write_text("{torn")
    with pytest.raises(ValueError, match="broken"):
        records.load("fences")
    records.save("fences", {"pair": 1})
    assert records.load("fences") == {"pair": 1}
    assert list(records.names()) == ["fences"]
    aside = list((tmp_path / "state/receipts").glob("fences.json.unreadable-*"))
    assert [path.read_text() for path in aside] == ["{torn"]


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "A", "x" * 80])
def test_names_lead_nowhere_else(records: DirectoryRecords, name: str) -> None:
    """SEC-2: an id from outside that could name another file is refused."""
    with pytest.raises(InvalidRequest):
        records.save(name, {})


def test_old_records_and_too_many_go(records: DirectoryRecords, tmp_path: Path) -> None:
    """NODE-1: records of before a time go, and the oldest beyond a number; what is spared stays."""
    now = datetime.now(UTC)
    for age in range(6):
        records.save(f"r{age}", {})
        at = (now - timedelta(days=age)).timestamp()
        os.utime(tmp_path / f"state/receipts/r{age}.json", (at, at))
    records.save("fences", {})
    os.utime(tmp_path / "state/receipts/fences.json", (0, 0))
    spare = frozenset({"fences"})
    assert records.prune(before=now - timedelta(days=3, hours=1), most=10, spare=spare) == 2
    assert list(records.names()) == ["r0", "r1", "r2", "r3", "fences"]
    assert records.prune(before=now - timedelta(days=30), most=2, spare=spare) == 2
    assert list(records.names()) == ["r0", "r1", "fences"]


def test_no_directory_is_no_records(records: DirectoryRecords) -> None:
    """CONF-5: before the first record there is nothing to list or prune."""
    assert list(records.names()) == []
    assert records.prune(before=datetime.now(UTC), most=0, spare=frozenset()) == 0


# ---------------------------------------------------------------- commands


@pytest.fixture
def commands() -> SystemCommands:
    return SystemCommands(environment={**os.environ, "HOSTLER_SECRET": "s3cret"})


async def test_a_command_runs_in_a_clean_environment(commands: SystemCommands) -> None:
    """ENG-2: a command sees PATH, HOME and the like, nothing else of the daemon's, and no input."""
    ran = await commands.run(["env"], timeout_s=30)
    names = {line.partition("=")[0] for line in ran.last.splitlines()}
    assert ran.status == 0
    assert names <= {"PATH", "HOME", "LANG", "TZ", "XDG_RUNTIME_DIR"}
    assert (await commands.run(["cat"], timeout_s=30)).status == 0


async def test_an_argument_is_never_a_shells(commands: SystemCommands) -> None:
    """LEASE-2: arguments reach the program as they are: no shell reads them."""
    ran = await commands.run(["echo", "$HOME", "; false", "`id`"], timeout_s=30)
    assert (ran.status, ran.last) == (0, "$HOME ; false `id`\n")


async def test_exit_code_and_last_words(commands: SystemCommands) -> None:
    """LEASE-2: of a command that fails the exit code and the end of its output are told, errors too."""
    script = "import sys; print('x' * 100000); print('it went wrong', file=sys.stderr); sys.exit(7)"
    ran = await commands.run([sys.executable, "-u", "-c", script], timeout_s=30)
    assert ran.status == 7
    assert ran.last.endswith("it went wrong\n")
    assert len(ran.last) <= 4096


async def test_a_command_past_its_time_goes_with_its_group(commands: SystemCommands, tmp_path: Path) -> None:
    """LEASE-2: a command past its time is killed with all of its group, and its status is unknown."""
    note = tmp_path / "pid"
    ran = await commands.run(["sh", "-c", f"sleep 600 & echo $! > {note}; wait"], timeout_s=1)
    assert ran.status is None
    child = int(note.read_text())
    await eventually(lambda: (it := process_table.read(child)) is None or it.gone, "the child is gone")


async def test_who_leaves_takes_the_command_along(commands: SystemCommands, tmp_path: Path) -> None:
    """NODE-3: a step that is called off at its deadline leaves no command behind."""
    note = tmp_path / "pid"
    task = asyncio.ensure_future(commands.run(["sh", "-c", f"echo $$ > {note}; sleep 600"], timeout_s=600))
    await eventually(lambda: note.exists() and note.read_text().endswith("\n"), "it runs")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    process = process_table.read(int(note.read_text()))
    assert process is None or process.gone


async def test_what_a_command_leaves_running_is_not_waited_for(
    commands: SystemCommands, tmp_path: Path
) -> None:
    """LEASE-2: a command that ended is over, though what it started keeps its output open."""
    note = tmp_path / "pid"
    ran = await commands.run(["sh", "-c", f"sleep 600 & echo $! > {note}"], timeout_s=30)
    child = process_table.read(int(note.read_text()))
    assert ran.status == 0
    assert child is not None
    assert process_table.send(child.pid, child.start_ticks, signal.SIGKILL)


async def test_a_program_that_is_not_there(commands: SystemCommands) -> None:
    """LEASE-10: whether there is a program is known before it is run; one that is not there cannot be."""
    assert commands.exists("sh")
    assert commands.exists(sys.executable)
    assert not commands.exists("no-such-program")
    with pytest.raises(FileNotFoundError):
        await commands.run(["no-such-program"], timeout_s=1)


# ---------------------------------------------------------------- webhooks

Serve = Callable[[bytes], Awaitable[str]]


@pytest.fixture
async def heard() -> list[bytes]:
    """What was sent to the server of `serve`."""
    return []


@pytest.fixture
async def serve(heard: list[bytes]) -> AsyncIterator[Serve]:
    """Serves one answer to every connection; gives its URL. An empty answer is silence."""
    servers: list[asyncio.Server] = []

    async def begin(answer: bytes) -> str:
        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(
                (
                    int(line.partition(b":")[2])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                0,
            )
            heard.append(head + await reader.readexactly(size))
            if answer:
                writer.write(answer)
            else:
                await reader.read()
            writer.close()

        server = await asyncio.start_server(one, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield begin
    for server in servers:
        server.close()


def answered(status: str, body: bytes = b"", **headers: str) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{fields}content-length: {len(body)}\r\n\r\n".encode() + body


async def test_a_webhook_is_posted_without_a_key(
    serve: Serve, heard: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEASE-2: a webhook gets JSON and no key of ours; a proxy of the environment does not see it."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    url = await serve(answered("204 No Content"))
    assert await HttpWebhooks().call(f"{url}/hook", {"lease": "lease_1"}, timeout_s=5) is None
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hook HTTP/1.1")
    assert b"authorization" not in head.lower()
    assert json.loads(body) == {"lease": "lease_1"}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (answered("302 Found", location="http://127.0.0.1:1/"), "it answered 302"),
        (answered("500 Internal Server Error"), "it answered 500"),
        (b"nonsense\r\n\r\n", "it could not be called: RemoteProtocolError"),
        (b"", "no answer within 0.3 s"),
    ],
)
async def test_a_webhook_that_is_not_taken(
    serve: Serve, heard: list[bytes], answer: bytes, told: str
) -> None:
    """LEASE-2: a redirect is not followed; whatever is no 2xx is told without the URL: it may be secret."""
    url = await serve(answer)
    assert await HttpWebhooks().call(f"{url}/s3cret", {}, timeout_s=0.3) == told
    assert len(heard) == 1


async def test_a_webhook_that_nobody_serves() -> None:
    """LEASE-2: a webhook that cannot be reached, or is no URL, is told in one sentence."""
    url = f"http://127.0.0.1:{free_port()}/s3cret"
    assert await HttpWebhooks().call(url, {}, timeout_s=5) == "it could not be called: ConnectError"
    assert "could not be called" in (await HttpWebhooks().call("nonsense", {}, timeout_s=5) or "")


# ---------------------------------------------------------------- real work


def launch_at(url: str) -> Launch:
    return Launch(
        engine=EngineId("fast"),
        driver="process",
        argv=(),
        cwd="/",
        address="127.0.0.1",
        port=1,
        url=url,
        model="fast-4b",
        directory="/",
    )


async def test_a_real_engine_completes_one_token(tmp_path: Path) -> None:
    """LEASE-13: an engine that serves gives one token to a proof that goes to itself."""
    async with process_rig(tmp_path, real=False) as rig:
        launch = rig.launch()
        await start_ready(rig.driver, launch)
        assert await HttpCompletions().chat(launch, None) is None


async def test_what_a_proof_sends(serve: Serve, heard: list[bytes]) -> None:
    """LEASE-13: a proof asks for one token of the engine's own model, with the engine's key."""
    launch = launch_at(await serve(answered("200 OK", b'{"choices": [{}]}')))
    assert await HttpCompletions().chat(launch, Secret("k-1")) is None
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions ")
    assert b"authorization: bearer k-1" in head.lower()
    assert {**json.loads(body), "messages": 0} == {
        "model": "fast-4b",
        "messages": 0,
        "max_tokens": 1,
        "stream": False,
    }
    embedding = launch_at(await serve(answered("200 OK", b'{"data": [{"embedding": [0.5]}]}')))
    assert await HttpCompletions().embed(embedding, None) is None
    assert heard[1].startswith(b"POST /v1/embeddings ")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (answered("500 Oops", b"out of memory"), "POST /v1/chat/completions: 500 out of memory"),
        (answered("200 OK", b'{"choices": []}'), "POST /v1/chat/completions: 200 without choices"),
        (answered("200 OK", b"<html>"), "POST /v1/chat/completions: 200 without choices"),
        (answered("302 Found", location="/"), "POST /v1/chat/completions: 302 "),
        (b"", "POST /v1/chat/completions: no answer within 0.3 s"),
    ],
)
async def test_what_is_no_proof(serve: Serve, answer: bytes, told: str) -> None:
    """LEASE-13: an error, an empty answer, a redirect and silence prove nothing, and are told."""
    assert await HttpCompletions(answer_s=0.3).chat(launch_at(await serve(answer)), None) == told


# ---------------------------------------------------------------- process groups


@pytest.fixture
def group() -> Iterator[tuple[subprocess.Popen[bytes], Member]]:
    """A leader of a group with a child, both asleep."""
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo $!; wait"], process_group=0, stdout=subprocess.PIPE
    )
    assert leader.stdout is not None
    child = process_table.read(int(leader.stdout.readline()))
    assert child is not None
    yield leader, Member(pid=child.pid, start_ticks=child.start_ticks, comm=child.comm)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()
    leader.stdout.close()


def ticks(pid: int) -> int:
    found = process_table.read(pid)
    assert found is not None
    return found.start_ticks


async def test_a_group_and_what_descends_from_it(group: tuple[subprocess.Popen[bytes], Member]) -> None:
    """JOB-5: a leader's family is its group and its descendants; it leads only as that very process."""
    leader, child = group
    table, begun = SystemProcesses(), ticks(leader.pid)
    assert table.leads(leader.pid, begun)
    assert not table.leads(leader.pid, begun + 1)
    assert not table.leads(child.pid, child.start_ticks)
    assert {it.pid for it in table.family(leader.pid, begun)} == {leader.pid, child.pid}
    assert table.family(leader.pid, begun + 1) == []
    assert child in table.family(leader.pid, begun)
    assert table.orphans(leader.pid, begun - 1) == []


async def test_one_of_them_is_ended_and_no_other(group: tuple[subprocess.Popen[bytes], Member]) -> None:
    """JOB-5: a signal reaches the process of that pid and start time, and none that has its pid by now."""
    leader, child = group
    table, begun = SystemProcesses(), ticks(leader.pid)
    table.end(Member(pid=child.pid, start_ticks=child.start_ticks + 1), hard=True)
    assert table.alive(child)
    table.end(Member(pid=leader.pid, start_ticks=begun), hard=True)
    leader.wait()
    assert table.family(leader.pid, begun) == []
    assert [it.pid for it in table.orphans(leader.pid, begun)] == [child.pid]
    assert table.orphans(leader.pid, begun - 1) != []
    table.end(child, hard=False)
    await eventually(lambda: not table.alive(child), "the child is gone")
    assert table.orphans(leader.pid, begun) == []


def test_this_process_is_no_lease_s() -> None:
    """JOB-5: a daemon is never among the processes of a lease, whoever registers it."""
    table, group = SystemProcesses(), os.getpgrp()
    assert not table.leads(group, ticks(group) if process_table.read(group) else 0)
    assert os.getpid() not in {it.pid for it in table.family(os.getppid(), ticks(os.getppid()))}


async def test_who_leaves_in_the_middle_of_a_spawn(
    commands: SystemCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NODE-3: a step that is called off while its command is being started ends it, and then leaves."""
    made: list[asyncio.subprocess.Process] = []
    spawned, go = asyncio.Event(), asyncio.Event()
    real = asyncio.create_subprocess_exec

    async def slowly(*argv: str, **options: object) -> asyncio.subprocess.Process:
        made.append(await real(*argv, **options))  # type: ignore[arg-type]  # what it is called with is handed on
        spawned.set()
        await go.wait()
        return made[0]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    task = asyncio.ensure_future(commands.run(["sleep", "600"], timeout_s=600))
    await spawned.wait()
    task.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made[0].returncode == -signal.SIGKILL
