"""The supervisor as a process of its own, and its log."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler import supervisor
from hostler.adapters.drivers import run_record
from hostler.adapters.host import process_table
from hostler.domain.engine import ExitReport
from tests.adapters.driver_conformance import gone
from tests.fakes.fake_engine import eventually


@pytest.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    """The directory of an engine; a supervisor that is left in it is ended by its identity."""
    yield tmp_path
    record = run_record.load(tmp_path, "process")
    if record is not None:
        run = record.run
        process_table.send(run.supervisor_pid, run.supervisor_ticks, signal.SIGKILL)


async def run(directory: Path, *argv: str, script: str = supervisor.__file__) -> dict[str, object]:
    """Start a supervisor for `argv`; what it told."""
    spec = {"engine": "x", "argv": argv, "argv_sha256": "", "env": dict(os.environ), "cwd": "/", "port": 1}
    spec |= {"directory": str(directory), "log_size": 1000, "log_files": 3}
    path = directory / "spec.json"
    path.write_text(json.dumps(spec))
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", script, str(path), stdout=asyncio.subprocess.PIPE
    )
    told, _ = await child.communicate()
    found: dict[str, object] = json.loads(told)
    return found


def exit_of(directory: Path) -> dict[str, object] | None:
    """The exit part of run.json, None while it runs."""
    found: dict[str, object] | None = json.loads((directory / "run.json").read_text())["exit"]
    return found


async def ended(directory: Path) -> dict[str, object]:
    """The exit part of run.json, once it is there."""
    await eventually(lambda: exit_of(directory) is not None, "the exit is on record")
    found = exit_of(directory)
    assert found is not None
    return found


async def test_the_file_alone_is_enough(directory: Path) -> None:
    """ENG-2: the supervisor needs its one file and the standard library, nothing of ours."""
    alone = directory / "alone.py"
    shutil.copy(supervisor.__file__, alone)
    await run(directory, "true", script=str(alone))
    assert (await ended(directory))["status"] == 0


async def test_it_tells_whom_it_recorded(directory: Path) -> None:
    """ENG-2: what the start command tells is what run.json says, and both processes are as recorded."""
    told = await run(directory, "sleep", "600")
    assert told == json.loads((directory / "run.json").read_text())
    found = run_record.parse(told, "process").run
    assert process_table.alive(found.pid, found.start_ticks)
    assert process_table.alive(found.supervisor_pid, found.supervisor_ticks)
    assert found.boot_id == process_table.boot_id()


async def test_sessions_and_groups(directory: Path) -> None:
    """ENG-2: the supervisor leads a session of its own, and the engine a group of its own in it."""
    found = run_record.parse(await run(directory, "sleep", "600"), "process").run
    table = process_table.everyone()
    mine = table[os.getpid()]
    assert table[found.supervisor_pid].session == found.supervisor_pid != mine.session
    assert (table[found.pid].session, table[found.pid].group) == (found.supervisor_pid, found.pid)


@pytest.mark.parametrize(("script", "status", "number"), [("exit 7", 7, None), ("kill -6 $$", None, 6)])
async def test_the_exit_is_on_record(
    directory: Path, script: str, status: int | None, number: int | None
) -> None:
    """ENG-2: run.json holds the exit status or signal, and the last lines of output."""
    await run(directory, "sh", "-c", f"echo last words; {script}")
    found = await ended(directory)
    assert (found["status"], found["signal"], found["lines"]) == (status, number, ["last words"])


async def test_sigterm_is_passed_to_the_whole_group(directory: Path) -> None:
    """ENG-2: SIGTERM to the supervisor reaches every process of the engine's group."""
    script = "trap 'echo child' TERM; sleep 600 & wait; wait"
    told = await run(directory, "sh", "-c", f"({script}) & trap 'echo parent' TERM; echo up; wait; wait")
    log = directory / "engine.log"
    await eventually(lambda: log.exists() and "up" in log.read_text(), "the engine is up")
    os.kill(int(str(told["supervisor_pid"])), signal.SIGTERM)
    found = await ended(directory)
    assert isinstance(found["lines"], list)
    assert sorted(found["lines"]) == ["child", "parent", "up"]


async def test_a_deaf_child_that_was_left_is_killed(directory: Path) -> None:
    """ENG-6: a process that the engine left and that ignores SIGTERM gets SIGKILL before the end."""
    left = directory / "left"
    script = f"setsid sh -c 'trap \"\" TERM; echo $$ > {left}; sleep 600; sleep 600' & sleep 600"
    told = await run(directory, "sh", "-c", script)
    await eventually(lambda: left.exists() and left.read_text() != "", "the child is there")
    os.kill(int(str(told["pid"])), signal.SIGKILL)
    await ended(directory)
    assert gone(int(left.read_text()))


async def test_closed_output_is_no_end(directory: Path) -> None:
    """ENG-2: an engine that closes its output goes on, and its exit is recorded all the same."""
    told = await run(directory, "sh", "-c", "exec >/dev/null 2>&1; sleep 600")
    os.kill(int(str(told["pid"])), signal.SIGTERM)
    assert (await ended(directory))["signal"] == 15


async def test_python_leaves_no_ignored_signal_behind(directory: Path) -> None:
    """ENG-2: the engine gets default signals, not those that the supervisor's Python ignores."""
    told = await run(directory, "sleep", "600")
    fields = dict(
        line.split(":\t") for line in (await _status(int(str(told["pid"])))).splitlines() if ":\t" in line
    )
    # 32 and 33 are the C library's own: no program can set them, and one may be inherited as ignored.
    reserved = 1 << 31 | 1 << 32
    assert int(fields["SigIgn"], 16) & ~reserved == 0
    assert int(fields["SigBlk"], 16) & ~reserved == 0


async def _status(pid: int) -> str:
    return await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)


async def test_nonsense_is_told(directory: Path) -> None:
    """CONF-2: argv that no kernel takes is told as an error, and nothing runs."""
    told = await run(directory, "a\0b")
    assert "embedded null" in str(told["error"])


# ---------------------------------------------------------------- the log


def pieces_of(folder: Path) -> list[str]:
    """The files of a log, oldest first."""
    paths = sorted(folder.glob("engine.log*"), key=lambda path: path.name, reverse=True)
    return [path.read_text() for path in paths]


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_a_log_is_cut_at_line_ends(tmp_path: Path, at_once: int) -> None:
    """ENG-12: a full file is closed at a line end and moved on, however the output comes in."""
    text = "".join(f"line {number} of ten\n" for number in range(10))
    log = supervisor.Log(tmp_path, 40, 10)
    for at in range(0, len(text), at_once):
        log.write(text[at : at + at_once].encode())
    files = pieces_of(tmp_path)
    assert "".join(files) == text
    assert [len(file) for file in files] == [42, 42, 42, 14]


def test_the_oldest_file_goes(tmp_path: Path) -> None:
    """ENG-12: no more than the allowed number of files is kept, and the newest lines are in them."""
    log = supervisor.Log(tmp_path, 20, 3)
    log.write("".join(f"line {number} of ten\n" for number in range(9)).encode())
    assert "".join(pieces_of(tmp_path)).splitlines() == [f"line {number} of ten" for number in range(4, 9)]


def test_output_without_line_ends_is_bounded(tmp_path: Path) -> None:
    """ENG-12: output that never ends a line makes no file larger than twice the size."""
    log = supervisor.Log(tmp_path, 100, 2)
    for number in range(50):
        log.write(b"x" * (30 + number * 20))
    assert max(len(file) for file in pieces_of(tmp_path)) == 200


def test_one_file_is_enough(tmp_path: Path) -> None:
    """ENG-12: with one file allowed the log begins anew, and no second file appears."""
    log = supervisor.Log(tmp_path, 10, 1)
    log.write(b"first\nsecond\nthird\n")
    assert pieces_of(tmp_path) == ["third\n"]


def test_an_old_file_goes_on(tmp_path: Path) -> None:
    """ENG-12: a new run appends to the log of the one before, and its size counts."""
    (tmp_path / "engine.log").write_text("of the run before\n")
    log = supervisor.Log(tmp_path, 10, 3)
    log.write(b"a\nb\n")
    assert pieces_of(tmp_path) == ["of the run before\na\n", "b\n"]


def test_a_log_that_cannot_be_moved_on_is_written_all_the_same(tmp_path: Path) -> None:
    """ENG-12: where files cannot be renamed the newest one grows on, and the error is kept."""
    (tmp_path / "engine.log.1").mkdir()
    (tmp_path / "engine.log.1" / "in the way").touch()
    log = supervisor.Log(tmp_path, 10, 2)
    for _ in range(20):
        log.write(b"five\n")
    assert (tmp_path / "engine.log").stat().st_size == 100
    assert (log.dropped, "engine.log" in log.error) == (0, True)


def test_the_ring_keeps_the_last_lines(tmp_path: Path) -> None:
    """ENG-3: the last 200 lines are kept, an unfinished one too, each of bounded length."""
    log = supervisor.Log(tmp_path, 1 << 20, 2)
    log.write(b"".join(b"%d\n" % number for number in range(500)))
    log.write(b"y" * 5000 + b"\nhal")
    log.write(b"f")
    lines = log.lines()
    assert lines[0] == "301"
    assert (len(lines[-2]), lines[-1]) == (supervisor.RING_LINE_BYTES, "half")


def test_what_cannot_be_written_is_counted(tmp_path: Path) -> None:
    """ENG-12: output that cannot be written is dropped and counted, and the ring still has it."""
    log = supervisor.Log(tmp_path / "missing", 100, 2)
    log.write(b"hello\n")
    assert (log.dropped, log.lines()) == (6, ["hello"])
    assert "No such file" in log.error


# ---------------------------------------------------------------- the record


def test_an_oom_kill_is_a_hint_only_beside_sigkill() -> None:
    """ENG-3: a SIGKILL while the kernel killed for lack of memory says so; any other end does not."""
    said = [_ended(9, 2), _ended(9, 0), _ended(15, 2)]
    assert [report.hint for report in said if report] == [
        "out of memory: the kernel killed 2 while it ran",
        "",
        "",
    ]


def _ended(number: int, kills: int) -> ExitReport | None:
    value = {"v": 1, "engine": "x", "pid": 1, "start_ticks": 1, "supervisor_pid": 1, "supervisor_ticks": 1}
    value |= {"boot_id": "b", "port": 1, "argv_sha256": "", "output": "pipe:[5]"}
    told = {"status": None, "signal": number, "oom_kills": kills}
    moment = "2026-01-01T00:00:00.000Z"
    return run_record.parse({**value, "started_at": moment, "exit": told}, "process").ended
