"""How the process driver starts engines, finds them again, and keeps their output (ENG-2, ENG-7, ENG-12)."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hostler.adapters.drivers.process import ProcessDriver, lock_holder
from hostler.adapters.host import process_table
from hostler.domain.engine import Readiness, Run
from hostler.domain.errors import EngineFailed, NotLaunchable
from tests.adapters.driver_conformance import (
    ProcessRig,
    environment_of,
    gone,
    log_files,
    probe_until,
    process_rig,
    start_ready,
    write_record,
)
from tests.fakes.fake_engine import eventually, fake_launch


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


# ---------------------------------------------------------------- the start


async def test_the_environment_is_clean(fake: ProcessRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENG-2: an engine sees PATH HOME LANG TZ XDG_RUNTIME_DIR and its own env, and nothing else of ours."""
    ours = {"PATH": os.environ["PATH"], "HOME": "/h", "LANG": "C", "TZ": "UTC", "XDG_RUNTIME_DIR": "/r"}
    monkeypatch.setenv("HOSTLER_TEST_KEY", "must not be seen")
    driver = ProcessDriver(environment=ours | {"AWS_SECRET_ACCESS_KEY": "x", "HOSTLER_URL": "y"})
    launch = replace(fake.command("sleep", "600"), env={"GGML_NO_BACKTRACE": "1", "TZ": "Europe/Berlin"})
    run = await driver.start(launch)
    assert environment_of(run.pid) == ours | {"GGML_NO_BACKTRACE": "1", "TZ": "Europe/Berlin"}


async def test_the_spec_is_private(fake: ProcessRig) -> None:
    """SEC-1: the file that holds the engine's environment is readable by its user only."""
    launch = fake.command("sleep", "600")
    await fake.driver.start(launch)
    fake.driver.restore(launch)
    for name in ("spec.json", "restore.json", "run.json", "engine.log"):
        path = Path(launch.directory) / name
        assert not path.exists() or path.stat().st_mode & 0o077 == 0, name


@pytest.mark.parametrize(("argv", "cwd"), [("no-such-engine", "/"), ("sleep", "/no/such/folder")])
async def test_what_is_not_there_is_not_launchable(fake: ProcessRig, argv: str, cwd: str) -> None:
    """GATE-1: a program or folder that is missing is `not_launchable`, by its name, and nothing runs."""
    launch = replace(fake.command(argv, "600"), cwd=cwd)
    with pytest.raises(NotLaunchable, match=r"no-such-engine|/no/such/folder"):
        await fake.driver.start(launch)
    assert await fake.driver.adopt(launch) is None


async def test_a_broken_supervisor_says_why(fake: ProcessRig) -> None:
    """ENG-3: a supervisor that cannot start is `engine_failed` with its own words."""
    driver = ProcessDriver(environment={}, script=str(fake.root / "missing.py"))
    with pytest.raises(EngineFailed, match=r"missing\.py"):
        await driver.start(fake.launch())


async def test_a_cancelled_start_leaves_nothing(fake: ProcessRig) -> None:
    """ENG-3: a start that is cancelled half way leaves no process that nobody knows."""
    pids = fake.root / "pids"
    launch = fake.fake(f"pids={pids}")
    task = asyncio.ensure_future(fake.driver.start(launch))
    spec = Path(launch.directory) / "spec.json"
    await eventually(spec.exists, "the start has begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await fake.driver.adopt(launch) is None
    written = pids.read_text().split() if pids.exists() else []
    assert all(gone(int(pid)) for pid in written)


async def test_an_early_exit_is_told_with_its_status(fake: ProcessRig) -> None:
    """ENG-3: an engine that ends while loading is known with its status and last lines."""
    now = fake.root / "now"
    launch = fake.fake(f"crash-when={now}")
    run = await fake.driver.start(launch)
    await probe_until(fake.driver, launch, run, Readiness.LOADING)
    now.touch()
    report = await fake.driver.wait_exit(launch, run)
    assert (report.status, report.signal) == (3, None)
    assert fake.driver.tail(launch, 1) == ["error: failed to load model"]
    probe = await fake.driver.probe(launch, run)
    assert probe.alive is False
    assert probe.detail.endswith("it exited with status 3")


async def test_a_missing_health_route_is_told_apart(fake: ProcessRig) -> None:
    """ENG-4: a health path that answers 404 is no failure: the model list decides."""
    launch = fake.fake("no-health")
    run = await fake.driver.start(launch)
    probe = await probe_until(fake.driver, launch, run, Readiness.READY)
    assert (probe.health, probe.http_status, probe.model_ids) == ("no_route", 404, ("fast",))


async def test_silence_is_told_with_the_last_answer(
    fake: ProcessRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENG-8: the probe of a silent engine names the URL, how long it waited, and the last answer."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    fake.freeze(run)
    probe = await fake.driver.probe(launch, run)
    assert probe.detail.startswith(f"GET {launch.url}/health: no answer within 0.5 s; last answer 200, ")


# ---------------------------------------------------------------- coming back


async def test_the_restore_in_words_starts_and_is_adopted(rig: ProcessRig) -> None:
    """ENG-2: the restore's argv alone starts the engine, its URL answers, and the driver re-adopts it."""
    launch = rig.launch()
    first = await start_ready(rig.driver, launch)
    restore = rig.driver.restore(launch)
    await rig.driver.stop(launch, first, timeout_s=5)
    child = await asyncio.create_subprocess_exec(
        *restore.argv, env=dict(restore.env), cwd=restore.cwd, stdout=asyncio.subprocess.DEVNULL
    )
    assert await child.wait() == 0
    run = await rig.driver.adopt(launch)
    assert run is not None
    probe = await probe_until(rig.driver, launch, run, Readiness.READY)
    assert restore.probe_url == f"{launch.url}/health"
    assert restore.model in probe.model_ids


async def test_a_restore_beside_a_running_engine_starts_no_second(fake: ProcessRig) -> None:
    """ENG-3: running the restore's argv while the engine runs changes nothing."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    restore = fake.driver.restore(launch)
    child = await asyncio.create_subprocess_exec(
        *restore.argv, env=dict(restore.env), cwd=restore.cwd, stdout=asyncio.subprocess.PIPE
    )
    told, _ = await child.communicate()
    assert child.returncode == 1
    assert "another supervisor runs this engine already" in told.decode()
    assert await fake.driver.adopt(launch) == run


async def test_adoption_waits_for_a_supervisor_that_has_not_written_yet(fake: ProcessRig) -> None:
    """ENG-7: a daemon that comes back while a supervisor is still starting waits for its record."""
    launch = fake.launch()
    run = await fake.driver.start(launch)
    path = Path(launch.directory) / "run.json"
    aside = path.rename(path.with_name("aside.json"))
    adopting = asyncio.ensure_future(fake.driver.adopt(launch))
    await asyncio.sleep(0)
    aside.rename(path)
    assert await adopting == run


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v": 99}', '{"v": 1, "pid": "x"}'])
async def test_a_broken_record_names_nobody(fake: ProcessRig, text: str) -> None:
    """ENG-6: a run.json that cannot be understood is no identity: nobody is adopted."""
    launch = fake.launch()
    write_record(launch, text)
    assert await fake.driver.adopt(launch) is None


async def test_a_lost_record_does_not_hide_the_engine(fake: ProcessRig) -> None:
    """ENG-6: a run that the daemon remembers is stopped by its identity when run.json is lost."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    (Path(launch.directory) / "run.json").unlink()
    assert (await fake.driver.probe(launch, run)).port_owner == "ours"
    assert (await fake.driver.stop(launch, run, timeout_s=5)).gone


@pytest.mark.parametrize("content", [b"", b"\0", b'{"v": 1, "pid"', b'{"v": 99}', b"[" * 100_000, None])
async def test_a_damaged_record_does_not_lose_the_engine(fake: ProcessRig, content: bytes | None) -> None:
    """ENG-7: with run.json damaged or gone the run is found by the lock that its supervisor holds."""
    launch = fake.launch()
    run = await start_ready(fake.driver, launch)
    record = Path(launch.directory) / "run.json"
    record.unlink()
    if content is not None:
        record.write_bytes(content)
    found = await ProcessDriver(environment=os.environ).adopt(launch)
    assert found is not None
    assert (found.pid, found.supervisor_pid, found.port) == (run.pid, run.supervisor_pid, run.port)
    assert (await fake.driver.stop(launch, found, timeout_s=5)).gone


def test_a_lock_that_somebody_waits_for_names_its_holder(tmp_path: Path) -> None:
    """ENG-6: the kernel names the holder of a lock: not who waits for it, nor another file's."""
    lock, table = tmp_path / "run.lock", tmp_path / "locks"
    lock.touch()
    inode = lock.stat().st_ino
    lines = [
        f"1: FLOCK  ADVISORY  WRITE 10 00:1f:{inode + 1} 0 EOF",
        f"2: POSIX  ADVISORY  WRITE 11 00:1f:{inode} 0 EOF",
        f"3: -> FLOCK  ADVISORY  WRITE 12 00:1f:{inode} 0 EOF",
        f"4: FLOCK  ADVISORY  WRITE 13 00:1f:{inode} 0 EOF",
    ]
    table.write_text("\n".join(lines))
    assert lock_holder(lock, table) == 13
    table.write_text("\n".join(lines[:3]))
    assert lock_holder(lock, table) is None
    assert lock_holder(tmp_path / "none", table) is None


# ---------------------------------------------------------------- the log


async def test_logs_are_rotated_and_read_across_files(fake: ProcessRig) -> None:
    """ENG-12: output goes to at most `log_files` files of about `log_size`; the tail reads across them."""
    launch = replace(fake.fake("chatter=100"), log_size=1000, log_files=3)
    await start_ready(fake.driver, launch)
    await eventually(lambda: "the model is loaded" in fake.driver.tail(launch, 1), "all is written")
    sizes = log_files(launch)
    assert set(sizes) == {"engine.log", "engine.log.1", "engine.log.2"}
    numbers = [int(line[5:11]) for line in fake.driver.tail(launch, 40) if line.startswith("line ")]
    assert numbers == list(range(numbers[0], 100))
    assert len(numbers) > sizes["engine.log"] // 45


async def test_follow_gives_lines_as_they_come(fake: ProcessRig) -> None:
    """ENG-12: following a log gives the lines from then on, across a rotation."""
    script = "import sys\nfor line in open(sys.argv[1]): print(line, end='', flush=True)"
    feed = fake.root / "feed"
    os.mkfifo(feed)
    launch = replace(fake.command(sys.executable, "-c", script, str(feed)), log_size=10, log_files=4)
    await fake.driver.start(launch)
    fd = await asyncio.to_thread(os.open, feed, os.O_WRONLY)
    os.write(fd, b"before\n")
    await eventually(lambda: fake.driver.tail(launch, 1) == ["before"], "the first line is there")
    lines = fake.driver.follow(launch)
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    seen = []
    for number in range(3):
        os.write(fd, f"a longer line {number}\n".encode())
        async with asyncio.timeout(20):
            seen.append(await waiting)
        waiting = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
    waiting.cancel()
    os.close(fd)
    assert seen == ["a longer line 0", "a longer line 1", "a longer line 2"]


async def test_memory_counts_the_whole_tree(fake: ProcessRig) -> None:
    """MEM-5: the memory of a run is that of all its processes, without its supervisor."""
    launch = fake.fake("hog=50")
    run = await start_ready(fake.driver, launch)
    size = fake.driver.rss(run)
    assert size is not None
    assert size > 50 << 20


def test_a_run_that_is_nobody_has_no_memory() -> None:
    """MEM-5: a run whose processes are gone has no size, rather than zero."""
    driver = ProcessDriver(environment={})
    table = process_table.read(os.getpid())
    assert table is not None
    assert driver.rss(_run_of(table.pid, table.start_ticks + 1)) is None


def _run_of(pid: int, ticks: int) -> Run:
    launch = fake_launch(Path("/nowhere"))
    return Run(
        engine=launch.engine,
        driver="process",
        pid=pid,
        start_ticks=ticks,
        supervisor_pid=pid,
        supervisor_ticks=ticks,
        boot_id=process_table.boot_id(),
        port=launch.port,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
