"""The process driver where it differs from others: supervisors, sessions, signals, files (ENG-2, 6, 7)."""

import asyncio
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from demo import tiny_gguf
from hostler.adapters.host import process_table
from hostler.domain.engine import Launch, Readiness, as_started
from tests.adapters.driver_conformance import (
    ProcessRig,
    gone,
    probe_until,
    process_rig,
    record,
    start_ready,
    write_record,
)
from tests.fakes.fake_engine import eventually, program_launch

DAEMON = """
import asyncio, os, pickle, sys
from hostler.adapters.drivers.process import ProcessDriver

async def main():
    launch = pickle.load(sys.stdin.buffer)
    run = await ProcessDriver(environment=os.environ).start(launch)
    print(run.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.real)])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ProcessRig]:
    """The process driver with each of the two engines."""
    async with process_rig(tmp_path, real=request.param == "real") as found:
        yield found


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[ProcessRig]:
    """The process driver with the fake engine, for what a real one cannot be told to do."""
    async with process_rig(tmp_path, real=False) as found:
        yield found


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that nobody may touch, leader of its own session."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


# ---------------------------------------------------------------- who outlives whom


async def test_an_engine_outlives_its_killed_daemon(rig: ProcessRig) -> None:
    """ENG-7: kill -9 of the daemon's whole process group leaves the engine serving, and it is re-adopted."""
    launch = rig.launch()
    daemon = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        DAEMON,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert daemon.stdin is not None
    assert daemon.stdout is not None
    daemon.stdin.write(pickle.dumps(replace(launch, env=dict(launch.env))))
    daemon.stdin.close()
    pid = int(await daemon.stdout.readline())
    os.killpg(daemon.pid, signal.SIGKILL)
    await daemon.wait()
    run = await rig.driver.adopt(launch)
    assert run is not None
    assert run.pid == pid
    await probe_until(rig.driver, launch, run, Readiness.READY)


async def test_what_runs_is_found_as_it_was_started(fake: ProcessRig) -> None:
    """ENG-7: the record of a run says how it was started, whatever the config says at the next start."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    moved = replace(launch, driver="container", port=1, url="http://127.0.0.1:1", health="tcp", model="x")
    found = await fake.driver.adopt(moved)
    assert found == run
    assert found is not None
    assert as_started(moved, found) == launch


@pytest.mark.parametrize("served", [None, {"port": 70_000}, ["x"], {"address": 1}])
async def test_a_record_without_its_launch_names_its_run(fake: ProcessRig, served: object) -> None:
    """ENG-7: a record of an earlier version, or one whose launch is damaged, still names what runs."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    write_record(launch, json.dumps({**record(launch), "served": served}))
    assert await fake.driver.adopt(launch) == replace(run, served=None)


@pytest.mark.parametrize(
    "damage",
    [{"pid": 10**400}, {"pid": "7"}, {"start_ticks": -1}, {"supervisor_pid": 1.5}, {"port": 10**400}],
)
async def test_an_absurd_record_does_not_lose_the_engine(fake: ProcessRig, damage: dict[str, object]) -> None:
    """REL-1, ENG-7: a run.json with a number that no system gives names nobody; the lock says who runs."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    write_record(launch, json.dumps({**record(launch), **damage}))
    found = await fake.driver.adopt(launch)
    assert found is not None
    assert (found.pid, found.supervisor_pid, found.port) == (run.pid, run.supervisor_pid, run.port)


async def test_an_engine_dies_with_its_supervisor(rig: ProcessRig) -> None:
    """ENG-2: kill -9 of the supervisor ends the engine, and its port is free again."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    os.kill(run.supervisor_pid, signal.SIGKILL)
    report = await rig.driver.wait_exit(launch, run)
    assert "supervisor" in report.hint
    await eventually(lambda: gone(run.pid), "the engine is gone")
    assert (await rig.driver.probe(launch, run)).port_owner == "nobody"
    assert await rig.driver.adopt(launch) is None


async def test_what_a_dead_supervisor_left_is_ended_by_stop(fake: ProcessRig) -> None:
    """ENG-6: a child in a session of its own is found by the output pipe after its supervisor died."""
    brood = fake.root / "brood"
    launch = fake.fake(f"brood={brood}")
    run = await start_ready(fake.driver, launch)
    os.kill(run.supervisor_pid, signal.SIGKILL)
    await fake.driver.wait_exit(launch, run)
    assert not gone(int(brood.read_text()))
    report = await fake.driver.stop(launch, run, timeout_s=5)
    assert report.gone
    assert gone(int(brood.read_text()))


async def test_a_start_ends_what_an_earlier_run_left(fake: ProcessRig) -> None:
    """ENG-6: a start first ends what an earlier run of that engine left behind, by its identity."""
    brood = fake.root / "brood"
    launch = fake.fake(f"brood={brood}")
    run = await start_ready(fake.driver, launch)
    os.kill(run.supervisor_pid, signal.SIGKILL)
    await fake.driver.wait_exit(launch, run)
    left = int(brood.read_text())
    assert not gone(left)
    await fake.driver.start(launch)
    assert gone(left)


async def test_what_an_engine_left_ends_with_it(fake: ProcessRig) -> None:
    """ENG-6: when the engine ends by itself, its supervisor ends what it left in whatever session."""
    brood = fake.root / "brood"
    launch = fake.fake(f"brood={brood}")
    run = await start_ready(fake.driver, launch)
    os.kill(run.pid, signal.SIGKILL)
    await fake.driver.wait_exit(launch, run)
    assert gone(int(brood.read_text()))


async def test_a_stop_ends_members_of_other_sessions(fake: ProcessRig) -> None:
    """ENG-6: a stop is over when every descendant is gone, also one that left group and session."""
    brood = fake.root / "brood"
    launch = fake.fake(f"brood={brood}")
    run = await start_ready(fake.driver, launch)
    report = await fake.driver.stop(launch, run, timeout_s=5)
    assert report.gone
    assert gone(int(brood.read_text()))


# ---------------------------------------------------------------- who is never signalled


async def test_a_reused_pid_is_never_signalled(fake: ProcessRig, bystander: subprocess.Popen[bytes]) -> None:
    """ENG-6: a recorded pid that another process has by now is not adopted, and not signalled by a stop."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    await fake.driver.stop(launch, run, timeout_s=5)
    stale = record(launch) | {"pid": bystander.pid, "supervisor_pid": bystander.pid, "exit": None}
    write_record(launch, json.dumps(stale))
    reused = replace(run, pid=bystander.pid, supervisor_pid=bystander.pid)
    assert await fake.driver.adopt(launch) is None
    report = await fake.driver.stop(launch, reused, timeout_s=0)
    assert (report.gone, report.signals) == (True, ())
    assert bystander.poll() is None


async def test_a_record_of_another_boot_names_nobody(
    fake: ProcessRig, bystander: subprocess.Popen[bytes]
) -> None:
    """ENG-6: pid and start time of another boot mean nothing, even where both fit a process of this one."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    await fake.driver.stop(launch, run, timeout_s=5)
    ticks = process_table.everyone()[bystander.pid].start_ticks
    of_before = {"pid": bystander.pid, "start_ticks": ticks, "boot_id": "another", "exit": None}
    of_before |= {"supervisor_pid": bystander.pid, "supervisor_ticks": ticks}
    write_record(launch, json.dumps(record(launch) | of_before))
    assert await fake.driver.adopt(launch) is None
    old = replace(run, pid=bystander.pid, start_ticks=ticks, boot_id="another")
    await fake.driver.stop(launch, old, timeout_s=0)
    assert bystander.poll() is None


def test_a_signal_needs_the_start_time(bystander: subprocess.Popen[bytes]) -> None:
    """ENG-6: a signal is sent only where pid and start time are both the recorded ones."""
    ticks = process_table.everyone()[bystander.pid].start_ticks
    assert process_table.send(bystander.pid, ticks + 1, signal.SIGKILL) is False
    assert bystander.poll() is None
    assert process_table.send(bystander.pid, ticks, signal.SIGKILL) is True
    assert bystander.wait() == -signal.SIGKILL


# ---------------------------------------------------------------- how a stop goes


async def test_a_deaf_engine_is_killed_in_the_end(fake: ProcessRig) -> None:
    """ENG-6: an engine that ignores SIGTERM gets it twice, then SIGKILL, in that order."""
    launch = fake.fake("deaf")
    run = await start_ready(fake.driver, launch)
    report = await fake.driver.stop(launch, run, timeout_s=0.2)
    assert (report.gone, report.port_free) == (True, True)
    assert report.signals == ("SIGTERM", "SIGTERM", "SIGKILL")
    assert str(await fake.driver.wait_exit(launch, run)) == "was killed by signal 9"


async def test_a_second_sigterm_ends_one_that_clings(fake: ProcessRig) -> None:
    """ENG-6: an engine that waits for an open stream ends at the second SIGTERM, without SIGKILL."""
    launch = fake.fake("clings", f"hold={fake.root / 'never'}")
    run = await start_ready(fake.driver, launch)
    async with asyncio.timeout(30):
        reader, writer = await _open_stream(launch)
        report = await fake.driver.stop(launch, run, timeout_s=0.2)
        assert report.signals == ("SIGTERM", "SIGTERM")
        assert await reader.read() is not None
        writer.close()


@pytest.mark.real
async def test_a_stop_during_a_stream_ends_in_its_deadline(tmp_path: Path) -> None:
    """ENG-6: a real engine whose answer is being read is gone, its port too, when the stop returns."""
    async with process_rig(tmp_path, real=True) as rig:
        model = tmp_path / "endless.gguf"
        tiny_gguf.write_model(model, says="on and ", endless=True, layers=4, feed_forward=1024)
        launch = rig.keep(program_launch(rig.program, root=tmp_path, model=model))
        run = await start_ready(rig.driver, launch)
        async with asyncio.timeout(30):
            reader, writer = await _open_stream(launch)
            report = await rig.driver.stop(launch, run, timeout_s=1)
            while await reader.read(65536):
                pass
        writer.close()
        assert (report.gone, report.port_free, report.left) == (True, True, ())


async def _open_stream(launch: Launch) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A chat whose answer has begun."""
    reader, writer = await asyncio.open_connection("127.0.0.1", launch.port)
    body = b'{"stream": true, "messages": [{"role": "user", "content": "go"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await reader.readuntil(b"data: ")
    return reader, writer


async def test_a_stopped_engine_can_still_end(rig: ProcessRig) -> None:
    """ENG-6: an engine that was SIGSTOPped is woken to end on SIGTERM, without SIGKILL."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    rig.freeze(run)
    report = await rig.driver.stop(launch, run, timeout_s=10)
    assert (report.gone, report.signals) == (True, ("SIGTERM",))


async def test_a_stopped_supervisor_holds_nothing_up(
    fake: ProcessRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENG-6: a supervisor that does not end after its engine is killed too, by its own identity."""
    monkeypatch.setattr("hostler.adapters.drivers.members.LAST_WORDS_S", 0.1)
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    os.kill(run.supervisor_pid, signal.SIGSTOP)
    report = await fake.driver.stop(launch, run, timeout_s=5)
    assert report.gone
    assert gone(run.supervisor_pid)


async def test_who_had_the_port_before_is_no_trace_of_ours(fake: ProcessRig) -> None:
    """ENG-6: a stranger that had the port before the stop does not make the stop unverified."""
    launch = fake.command("sleep", "600")
    fake.stranger(launch.port)
    run = await fake.driver.start(launch)
    assert (await fake.driver.probe(launch, run)).port_owner == "stranger"
    report = await fake.driver.stop(launch, run, timeout_s=5)
    assert (report.gone, report.port_free) == (True, True)
