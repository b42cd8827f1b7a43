"""When the deadman acts, as the process that it is: daemons killed and stopped, moved clocks, full disks."""

import asyncio
import os
import pickle
import resource
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import hostler
from hostler.adapters.host import process_table
from hostler.deadman import kernel, written
from hostler.services.deadman_needs import Orders
from tests.fakes.fake_engine import eventually
from tests.fakes.window import Window, daemon, window
from tests.story.clocks import LIBRARIES, PACKAGE

ARMS = """
import asyncio, os, pickle, sys
from pathlib import Path
from hostler.adapters.deadmen import SystemDeadmen

async def main():
    root, hold, orders = pickle.load(sys.stdin.buffer)
    deadmen = SystemDeadmen(root=root, host="crow", hold_path=hold, environment=os.environ)
    deadmen.write(orders)
    await deadmen.start(orders.window)
    print("armed", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
"""A daemon as far as a deadman sees one: it arms, it lives, its phase is `opening`."""


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Window]:
    """A window with the fake engine."""
    async with window(tmp_path) as found:
        yield found


async def arming(it: Window, orders: Orders, package: Path) -> asyncio.subprocess.Process:
    """A daemon in a session of its own, run from that copy of the package, that has armed the window."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        ARMS,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(package), *sys.path])},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(pickle.dumps((it.root, it.hold, orders)))
    process.stdin.close()
    assert await process.stdout.readline() == b"armed\n"
    return process


def cmdline(pid: int) -> list[str]:
    """What a process was executed with."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def faketime() -> Path:
    """The library that moves a process's clock."""
    found = next(Path("/").glob(LIBRARIES), None)
    if found is None:
        pytest.skip(PACKAGE)
    return found


def begun_s(it: Window) -> float:
    """The boot second at which its restore began."""
    return it.rows()[0]["boot_s"]


async def test_it_outlives_the_daemon_and_the_package(it: Window, tmp_path: Path) -> None:
    """WIN-1: kill -9 of the daemon's process group leaves it alive, and so does the package's removal."""
    package = tmp_path / "old"
    shutil.copytree(Path(hostler.__file__).parent, package / "hostler")
    armed_by = await arming(it, it.orders(grace_s=0.5), package)
    assert it.state.alive
    os.killpg(armed_by.pid, signal.SIGKILL)
    await armed_by.wait()
    shutil.rmtree(package)
    report = await it.restored()
    assert (report["verified"], report["cause"]) == (True, "daemon_died"), it.words_of_it()


async def test_nothing_of_it_is_the_packages(it: Window) -> None:
    """WIN-1: what it runs and what it will run are its own copies, by the base interpreter."""
    pid, _ = await it.arm(it.orders())
    argv = cmdline(pid)
    found = written.load(it.place)
    words = [*argv, *(word for engine in (*found.end, *found.start) for word in engine.argv)]
    ours = (str(Path(hostler.__file__).parent), sys.prefix)
    assert [word for word in words if word.startswith(ours) and not word.startswith(str(it.root))] == []


async def test_a_stopped_daemon_is_not_dead(it: Window) -> None:
    """WIN-1: a daemon that is SIGSTOPped in the middle of closing is restored at the cap, not before."""
    it.daemon.stop()
    await it.arm(it.orders(cap_s=1.0, grace_s=0.1), "closing")
    assert (await it.restored())["cause"] == "cap"


async def test_a_daemon_that_dies_while_open_ends_nothing(it: Window) -> None:
    """WIN-1: with the window open the death of the daemon changes nothing before the cap."""
    await it.arm(it.orders(cap_s=1.0, grace_s=0.1), "open")
    it.daemon.kill()
    assert (await it.restored())["cause"] == "cap"


@pytest.mark.parametrize("phase", ["opening", "closing"])
async def test_a_daemon_that_dies_midway_is_put_back_after_its_grace(it: Window, phase: str) -> None:
    """WIN-1: died in the middle of opening or closing, it is restored after the grace, not at once."""
    await it.arm(it.orders(grace_s=0.5), "opening" if phase == "opening" else "closing")
    died = kernel.boot_s()
    it.daemon.kill()
    assert (await it.restored())["cause"] == "daemon_died"
    assert begun_s(it) >= died + 0.5


async def test_whether_it_is_back_or_not(it: Window) -> None:
    """WIN-1: a new daemon that writes its phase does not call off the restore after a death midway."""
    await it.arm(it.orders(grace_s=1.0), "opening")
    it.daemon.kill()
    await it.said("the daemon died while opening")
    with daemon() as another:
        another.note(it.place, "opening")
        assert (await it.restored())["cause"] == "daemon_died"


@pytest.mark.parametrize("content", [None, "", "{}", '{"phase": "resting"}', "[" * 9000])
async def test_without_a_phase_only_the_cap_counts(it: Window, content: str | None) -> None:
    """WIN-1: a phase that is missing or torn is no death; the cap comes all the same."""
    await it.arm(it.orders(cap_s=0.6, grace_s=0.05))
    phase = it.place / written.PHASE
    phase.unlink() if content is None else phase.write_text(content)
    assert (await it.restored())["cause"] == "cap"


async def test_signals_are_passed_over(it: Window) -> None:
    """WIN-1: SIGTERM and SIGHUP are told and do not end it; its cap counts on."""
    pid, ticks = await it.arm(it.orders(cap_s=1.0))
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
    assert process_table.alive(pid, ticks)
    assert (await it.restored())["verified"] is True
    assert "signal 15 is passed over" in it.words_of_it()


@pytest.mark.parametrize("hours", [3, -3])
async def test_the_wall_clock_moves_nothing(it: Window, hours: int) -> None:
    """WIN-1, F18: a wall clock that jumps 3 h ahead or behind neither brings the cap nor keeps it off."""
    clock = it.root / "clock"
    clock.write_text("+0s\n")
    it.wrap_python(
        f"LD_PRELOAD={faketime()} FAKETIME_TIMESTAMP_FILE={clock}"
        " FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1"
    )
    await it.arm(it.orders(cap_s=4.0))
    beside = clock.with_suffix(".new")
    beside.write_text(f"{hours * 3600:+d}s\n")
    beside.replace(clock)
    report = await it.restored()
    assert report["verified"] is True, it.words_of_it()
    assert abs(it.hours_off()) == 3
    cap_s = written.load(it.place).cap_s
    assert cap_s <= begun_s(it) < cap_s + 2


async def test_a_full_disk_stops_nothing(it: Window) -> None:
    """WIN-1: with no room for a byte it ends the mode's engine at the cap, and writes it down later."""
    heavy = await it.run(it.heavy)
    await it.run(it.small)
    pid, _ = await it.arm(it.orders(cap_s=1.0))
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    await eventually(lambda: not process_table.alive(heavy.pid, heavy.start_ticks), "heavy has ended")
    assert not (it.place / written.REPORT).exists()
    assert it.did() == []
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
    assert (await it.restored())["verified"] is True
    assert it.did() == ["begun", "ended heavy", "was_up small", "verified small", "not_held", "over"]
