"""What only the systemd driver does (ENG-2): with real units of a real user manager, and recorded words."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostler.adapters.commands import SystemCommands
from hostler.adapters.drivers.journal import Journal
from hostler.adapters.drivers.systemd import SystemdDriver
from hostler.adapters.host import process_table
from hostler.domain.engine import Readiness
from hostler.domain.errors import EngineFailed, NotLaunchable
from tests.adapters.driver_conformance import gone, probe_until, start_ready
from tests.adapters.systemd_rig import SystemdRig, systemd_rig
from tests.fakes.fake_engine import PATIENCE_S, eventually, fake_launch
from tests.fakes.user_manager import UserManager


@pytest.fixture
async def rig(systemd: UserManager, tmp_path: Path) -> AsyncIterator[SystemdRig]:
    """Units of the fake engine."""
    async with systemd_rig(tmp_path, systemd, real=False) as found:
        yield found


def pid_in(path: Path) -> int:
    """The pid that a fake engine wrote there."""
    return int(path.read_text())


# ---------------------------------------------------------------- the start


async def test_a_run_is_known_by_its_invocation(rig: SystemdRig) -> None:
    """ENG-6: a run's identity is its unit's invocation, with its main process and the time of its start."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    assert run.identity == rig.told(launch, "InvocationID")
    assert run.pid == int(rig.told(launch, "MainPID"))
    assert process_table.alive(run.pid, run.start_ticks)
    assert abs(datetime.now(UTC) - run.started_at) < timedelta(minutes=1)


async def test_a_unit_that_is_not_there_cannot_be_launched(rig: SystemdRig) -> None:
    """ENG-2: a unit that its manager does not have is `not_launchable`, with what makes one."""
    launch = replace(rig.launch(), unit="no-such.service")
    with pytest.raises(NotLaunchable, match=r"user manager has no unit no-such\.service") as refused:
        await rig.driver.start(launch)
    assert "daemon-reload" in refused.value.fix


async def test_a_masked_unit_cannot_be_launched(rig: SystemdRig) -> None:
    """ENG-2: a masked unit is `not_launchable`, with the command that unmasks it."""
    launch = rig.launch()
    (rig.manager.units / rig.name(launch)).unlink()
    rig.manager.systemctl("mask", rig.name(launch))
    with pytest.raises(NotLaunchable, match="is masked") as refused:
        await rig.driver.start(launch)
    assert refused.value.fix.startswith(f"`systemctl --user unmask {launch.unit}`")


async def test_a_broken_unit_cannot_be_launched(rig: SystemdRig) -> None:
    """ENG-2: a unit that systemd cannot read is `not_launchable`, with the command that shows why."""
    launch = rig.unit(fake_launch(rig.root), argv="not/absolute")
    with pytest.raises(NotLaunchable, match="cannot be read") as refused:
        await rig.driver.start(launch)
    assert "status" in refused.value.fix


async def test_a_manager_that_is_not_there_is_told_with_what_helps(tmp_path: Path) -> None:
    """ENG-2: an unreachable user manager is `not_launchable`, naming lingering and XDG_RUNTIME_DIR."""
    env = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(tmp_path)}
    driver = SystemdDriver(environment=env)
    launch = replace(fake_launch(tmp_path), unit="a.service", scope="user")
    with pytest.raises(NotLaunchable, match=r"the user manager says: Failed to connect") as refused:
        await driver.start(launch)
    assert "`loginctl enable-linger`" in refused.value.fix
    assert f"XDG_RUNTIME_DIR=/run/user/{os.geteuid()}" in refused.value.fix
    assert await driver.adopt(launch) is None
    with pytest.raises(EngineFailed, match="Failed to connect"):
        await driver.revival(launch)


async def test_a_host_without_systemd_has_no_units(tmp_path: Path) -> None:
    """ENG-2: where there is no systemctl a unit is `not_launchable`, and says so."""
    driver = SystemdDriver(environment={"PATH": str(tmp_path)})
    with pytest.raises(NotLaunchable, match="systemctl cannot be run: No such file"):
        await driver.start(replace(fake_launch(tmp_path), unit="a.service"))


async def test_a_program_that_is_not_there_is_told(rig: SystemdRig) -> None:
    """ENG-3: a unit whose program cannot be run ends in systemd's own words for it, at its start or soon."""
    launch = rig.unit(fake_launch(rig.root), argv="/no/such/engine", Type="exec")
    try:
        told = str(await rig.driver.wait_exit(launch, await rig.driver.start(launch)))
    except EngineFailed as refused:
        told = str(refused)
    assert "exited with status 203 (the program of ExecStart= cannot be run" in told


async def test_a_unit_that_does_nothing_is_told(rig: SystemdRig) -> None:
    """ENG-3: a unit that ends in order at once is `engine_failed`, or its end is told where it was seen."""
    launch = rig.unit(fake_launch(rig.root), argv="/bin/true", Type="oneshot")
    try:
        async with asyncio.timeout(PATIENCE_S):
            told = str(await rig.driver.wait_exit(launch, await rig.driver.start(launch)))
    except EngineFailed as refused:
        told = str(refused)
    assert re.search(r"at once|ended as soon as it began|status=0|status=None|how is not known", told)


async def test_a_failed_start_is_not_tried_again_by_systemd(rig: SystemdRig) -> None:
    """ENG-3: a unit with Restart=always that fails at once is called off: its next try is ours to begin."""
    launch = rig.fake(ExecStartPre="/bin/false", Restart="always", RestartSec="5")
    with pytest.raises(EngineFailed, match="at once"):
        await rig.driver.start(launch)
    await eventually(lambda: rig.told(launch, "ActiveState") in ("inactive", "failed"), "it is called off")


async def test_many_starts_are_no_failure(rig: SystemdRig) -> None:
    """ENG-3: systemd's own limit of starts stands in nobody's way: the back-off is ours."""
    launch = rig.launch()
    for _ in range(7):
        run = await rig.driver.start(launch)
        await rig.driver.stop(launch, run, timeout_s=0, now=True)
    await start_ready(rig.driver, launch)


async def test_a_start_does_not_wait_for_the_model(rig: SystemdRig) -> None:
    """ENG-3: a Type=notify unit that has not told yet that it is ready is started, and seen as loading."""
    launch = rig.fake(f"load-until={rig.root / 'loaded'}", Type="notify")
    run = await rig.driver.start(launch)
    probe = await probe_until(rig.driver, launch, run, Readiness.LOADING)
    assert (probe.alive, rig.told(launch, "ActiveState")) == (True, "activating")
    assert await rig.driver.adopt(launch) == run


async def test_a_cancelled_start_leaves_nothing(rig: SystemdRig) -> None:
    """ENG-3: a start that is cancelled half way leaves no unit running that nobody knows."""
    launch = rig.launch()
    task = asyncio.ensure_future(rig.driver.start(launch))
    await eventually(lambda: rig.told(launch, "ActiveState") == "active", "the start has begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.told(launch, "ActiveState") in ("inactive", "failed")


# ---------------------------------------------------------------- who started it


async def test_a_unit_that_systemd_started_is_adopted(rig: SystemdRig) -> None:
    """ENG-7: a unit that was started by somebody else, at boot say, is adopted and can be stopped."""
    launch = rig.launch()
    rig.manager.systemctl("start", rig.name(launch))
    run = await rig.driver.adopt(launch)
    assert run is not None
    await probe_until(rig.driver, launch, run, Readiness.READY)
    assert (await rig.driver.stop(launch, run, timeout_s=5)).gone
    assert gone(run.pid)


async def test_its_restore_needs_no_driver(rig: SystemdRig) -> None:
    """ENG-2: the restore's own words start the unit, the driver adopts what they started, others end it."""
    launch = rig.launch()
    words = rig.driver.restore(launch)
    assert (words.probe_url, words.model) == (f"{launch.url}/health", "fast")
    commands = SystemCommands(environment=words.env)
    assert (await commands.run(words.argv, timeout_s=10)).status == 0
    run = await rig.driver.adopt(launch)
    assert run is not None
    await probe_until(rig.driver, launch, run, Readiness.READY)
    assert (await commands.run(words.stop_argv, timeout_s=10)).status == 0
    assert await rig.driver.adopt(launch) is None


async def test_another_daemon_finds_the_same_run(rig: SystemdRig) -> None:
    """ENG-7: a new daemon, which remembers nothing, adopts the run and knows its port for its own."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    other = replace(rig.driver)
    assert await other.adopt(launch) == run
    assert (await other.probe(launch, run)).port_owner == "ours"
    assert other.rss(run) is not None


def test_the_machines_units_are_asked_of_its_manager(tmp_path: Path) -> None:
    """ENG-2: a unit of scope system is asked for by `systemctl --system`, never with a question."""
    driver = SystemdDriver(environment={})
    restore = driver.restore(replace(fake_launch(tmp_path), unit="a.service", scope="system"))
    assert restore.argv == (
        "systemctl",
        "--system",
        "--no-ask-password",
        "--no-pager",
        "start",
        "--",
        "a.service",
    )


# ---------------------------------------------------------------- its ends


async def test_an_early_exit_is_told_with_its_status(rig: SystemdRig) -> None:
    """ENG-3: a unit that ends while loading is known with its status and last lines."""
    now = rig.root / "now"
    launch = rig.fake(f"crash-when={now}")
    run = await rig.driver.start(launch)
    await probe_until(rig.driver, launch, run, Readiness.LOADING)
    now.touch()
    report = await rig.driver.wait_exit(launch, run)
    assert (report.status, report.signal) == (3, None)
    await eventually(
        lambda: "error: failed to load model" in rig.driver.tail(launch, 10), "the journal has its last words"
    )
    probe = await rig.driver.probe(launch, run)
    assert (probe.alive, probe.detail.endswith("; it exited with status 3")) == (False, True)


async def test_a_stop_is_not_undone_by_systemd(rig: SystemdRig) -> None:
    """ENG-6: a unit with Restart=always that was stopped, however hard, is not started again by systemd."""
    launch = rig.fake("deaf", Restart="always", RestartSec="0")
    run = await start_ready(rig.driver, launch)
    report = await rig.driver.stop(launch, run, timeout_s=0.2)
    assert (report.gone, report.port_free) == (True, True)
    assert report.signals == ("SIGTERM", "SIGTERM", "SIGKILL")
    second = await start_ready(rig.driver, launch)
    assert (await rig.driver.stop(launch, second, timeout_s=9, now=True)).gone
    assert rig.told(launch, "ActiveState") in ("inactive", "failed")
    assert rig.told(launch, "Job") == ""


async def test_a_crash_that_systemd_mends_is_seen_and_ended(rig: SystemdRig) -> None:
    """ENG-2, ENG-8: the crash of a Restart=always unit is an end; a stop ends what systemd made of it."""
    launch = rig.fake(Restart="always", RestartSec="0")
    run = await start_ready(rig.driver, launch)
    rig.crash(run)
    assert str(await rig.driver.wait_exit(launch, run))
    await eventually(lambda: rig.told(launch, "NRestarts") == "1", "systemd has started it again")
    assert (await rig.driver.probe(launch, run)).alive is False
    report = await rig.driver.stop(launch, run, timeout_s=5)
    assert (report.gone, report.port_free) == (True, True)
    assert rig.told(launch, "ActiveState") in ("inactive", "failed")


async def test_what_a_person_started_anew_is_left_alone(rig: SystemdRig) -> None:
    """ENG-6: a stop of a run that is over does not touch the unit's next run, which a person began."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    rig.manager.systemctl("restart", rig.name(launch))
    report = await rig.driver.stop(launch, run, timeout_s=5)
    assert (report.gone, report.signals) == (True, ())
    assert rig.told(launch, "ActiveState") == "active"


@pytest.mark.parametrize("mode", ["control-group", "process"])
async def test_nobody_of_a_unit_is_left(rig: SystemdRig, mode: str) -> None:
    """ENG-6: a child in a session of its own ends with its unit, also where systemd would leave it."""
    brood = rig.root / "brood"
    launch = rig.fake(f"brood={brood}", KillMode=mode)
    run = await start_ready(rig.driver, launch)
    child = pid_in(brood)
    assert not gone(child)
    report = await rig.driver.stop(launch, run, timeout_s=3)
    assert (report.gone, report.left) == (True, ())
    assert gone(child)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
async def test_what_a_crash_left_is_ended(rig: SystemdRig, ending: signal.Signals) -> None:
    """ENG-6: what outlives a unit's main process, in order or not, is ended by the stop that follows."""
    brood = rig.root / "brood"
    launch = rig.fake(f"brood={brood}", KillMode="process")
    run = await start_ready(rig.driver, launch)
    child = pid_in(brood)
    os.kill(run.pid, ending)
    await rig.driver.wait_exit(launch, run)
    assert not gone(child)
    report = await rig.driver.stop(launch, run, timeout_s=3)
    assert (report.gone, report.left) == (True, ())
    assert gone(child)


async def test_a_unit_without_a_main_process(rig: SystemdRig) -> None:
    """ENG-2: a unit whose main process systemd cannot tell is known by its invocation and control group."""
    inner = rig.launch("inner")
    text = (rig.manager.units / rig.name(inner)).read_text()
    start = next(line.partition("=")[2] for line in text.splitlines() if line.startswith("ExecStart="))
    script = rig.root / "daemonize.sh"
    script.write_text(f"#!/bin/sh\n{start} &\n{start.replace(str(inner.port), '0')} >/dev/null &\n")
    script.chmod(0o755)
    launch = rig.unit(inner, argv=str(script), Type="forking", GuessMainPID="no")
    run = await start_ready(rig.driver, launch)
    assert (run.pid, run.identity) == (0, rig.told(launch, "InvocationID"))
    assert await rig.driver.adopt(launch) == run
    waiting = asyncio.ensure_future(rig.driver.wait_exit(launch, run))
    report = await rig.driver.stop(launch, run, timeout_s=5)
    assert (report.gone, report.port_free) == (True, True)
    await waiting


# ---------------------------------------------------------------- its journal


async def test_its_log_is_the_journal(rig: SystemdRig) -> None:
    """ENG-12: the last lines come from the unit's journal, oldest first, and no more than were asked for."""
    launch = rig.fake("chatter=5")
    run = await start_ready(rig.driver, launch)
    await eventually(lambda: len(rig.driver.tail(launch, 100)) >= 5, "its lines are in the journal")
    last = rig.driver.tail(launch, 100)
    assert rig.driver.tail(launch, 2) == last[-2:]
    await rig.driver.stop(launch, run, timeout_s=5)


async def test_lines_are_followed(rig: SystemdRig) -> None:
    """ENG-12: lines come as the unit writes them, and nobody goes on reading when nobody listens."""
    launch = rig.launch("follow")
    stream = rig.driver.follow(launch)
    first = asyncio.ensure_future(anext(stream))
    reader = f"--user-unit={launch.unit}"
    await eventually(lambda: any(reader in line for line in command_lines()), "journalctl reads")
    await rig.driver.start(launch)
    assert isinstance(await first, str)
    assert isinstance(stream, AsyncGenerator)
    await stream.aclose()
    assert not any(reader in line for line in command_lines())


def command_lines() -> list[str]:
    """Of every process of this machine."""
    found = []
    for pid in process_table.everyone():
        try:
            found.append(
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue
    return found


async def test_a_journal_that_does_not_answer_is_told(rig: SystemdRig) -> None:
    """ENG-12: where the journal cannot be read the log says so, and gives what `systemctl status` shows."""
    launch = rig.launch()
    await rig.driver.start(launch)
    mute = Journal(environment=rig.manager.environment, program=("sh", "-c", "echo denied >&2; exit 1", "-"))
    lines = replace(rig.driver, journal=mute).tail(launch, 5)
    assert lines[0] == "(the journal does not answer: denied; systemctl status shows:)"
    assert any("Active: active" in line for line in lines)
    followed = [line async for line in mute.follow("user", rig.name(launch))]
    assert followed[-1] == "(the journal does not answer: it ended with status 1; nothing follows:)"


# ---------------------------------------------------------------- what else starts it


async def test_what_starts_at_boot_is_told_and_put_off(rig: SystemdRig) -> None:
    """ENG-2: an enabled unit is told, disabled on demand, and put back as it was; again changes nothing."""
    launch = rig.unit(fake_launch(rig.root), more="[Install]\nWantedBy=default.target")
    assert await rig.driver.revival(launch) is None
    for state in ("enabled", "enabled-runtime"):
        await rig.driver.set_revival(launch, state)
        assert (await rig.driver.revival(launch), rig.told(launch, "UnitFileState")) == (state, state)
        for _ in range(2):
            await rig.driver.set_revival(launch, None)
            assert await rig.driver.revival(launch) is None
    await rig.driver.set_revival(launch, "enabled")
    await rig.driver.set_revival(launch, "enabled")
    assert rig.told(launch, "UnitFileState") == "enabled"
    await rig.driver.set_revival(launch, None)


async def test_a_linked_unit_stays_known(rig: SystemdRig) -> None:
    """ENG-2: a unit that is linked from elsewhere and put off is still there to be put back."""
    launch = rig.unit(fake_launch(rig.root, name="linked"), more="[Install]\nWantedBy=default.target")
    elsewhere = rig.root / rig.name(launch)
    (rig.manager.units / rig.name(launch)).rename(elsewhere)
    rig.manager.systemctl("enable", str(elsewhere))
    assert await rig.driver.revival(launch) == "enabled"
    await rig.driver.set_revival(launch, None)
    assert rig.told(launch, "LoadState") == "loaded"
    await rig.driver.set_revival(launch, "enabled")
    assert await rig.driver.revival(launch) == "enabled"
    rig.manager.systemctl("disable", rig.name(launch))


async def test_a_unit_that_cannot_be_put_off_is_told(rig: SystemdRig) -> None:
    """ENG-2: what the manager will not enable is `engine_failed` in its words."""
    launch = replace(rig.launch(), unit="no-such.service")
    with pytest.raises(EngineFailed, match=r"no-such\.service"):
        await rig.driver.set_revival(launch, "enabled")
