"""One suite for every Driver (ENG-2): what each of them must do, whatever is behind it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.adapters.deadmen import SystemDeadmen
from hostler.domain.deadman import DeadmanReport
from hostler.domain.engine import Readiness, Restore
from hostler.domain.errors import EngineFailed
from hostler.services.deadman_needs import Orders, Words
from tests.adapters.container_rigs import container_rig
from tests.adapters.driver_conformance import MemoryRig, Rig, probe_until, process_rig, start_ready
from tests.adapters.systemd_rig import systemd_rig
from tests.fakes.docker import Docker
from tests.fakes.fake_engine import eventually

REAL = pytest.param("real", marks=pytest.mark.real)
REAL_UNIT = pytest.param("real-unit", marks=pytest.mark.real)
CONTAINER = pytest.param("container", marks=pytest.mark.real)


@asynccontextmanager
async def _rig(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[Rig]:
    """The implementation that the parameter names. A real llama-server is in the containers by name."""
    match request.param:
        case "memory":
            yield MemoryRig(root=root)
        case "container" | "compose" as kind:
            docker: Docker = request.getfixturevalue("docker")
            async with container_rig(root, docker, kind, real=kind == "container") as made:
                yield made
        case "unit" | "real-unit" as kind:
            manager = request.getfixturevalue("systemd")
            async with systemd_rig(root, manager, real=kind == "real-unit") as units:
                yield units
        case program:
            async with process_rig(root, real=program == "real") as found:
                yield found


@pytest.fixture(params=["memory", "fake", REAL, CONTAINER, "compose", "unit", REAL_UNIT])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Each implementation in turn."""
    async with _rig(request, tmp_path) as found:
        yield found


@pytest.fixture(params=["fake", REAL, CONTAINER, "compose", "unit"])
async def outside(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """Each implementation that starts something outside of this process."""
    async with _rig(request, tmp_path) as found:
        yield found


async def test_a_started_engine_gets_ready_as_itself(rig: Rig) -> None:
    """ENG-4: a started engine is ready once alive, on its own port, healthy and serving its own id."""
    launch = rig.launch()
    run = await rig.driver.start(launch)
    probe = await probe_until(rig.driver, launch, run, Readiness.READY)
    assert (run.engine, run.port) == (launch.engine, launch.port)
    assert (probe.alive, probe.port_owner, probe.health) == (True, "ours", "ok")
    assert launch.model in probe.model_ids


async def test_nothing_started_is_seen_as_nothing(rig: Rig) -> None:
    """ENG-4: an engine that was never started is not alive, and nobody has its port."""
    launch = rig.launch()
    probe = await rig.driver.probe(launch, None)
    assert (probe.alive, probe.port_owner, probe.health) == (False, "nobody", "unreachable")
    assert await rig.driver.adopt(launch) is None


async def test_a_stop_is_seen_to_have_worked(rig: Rig) -> None:
    """ENG-6: after a stop no member is left, the port is free, and the run is not found again."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    report = await rig.driver.stop(launch, run, timeout_s=5)
    assert (report.gone, report.port_free, report.left) == (True, True, ())
    assert report.signals[0] == "SIGTERM"
    assert await rig.driver.adopt(launch) is None
    assert (await rig.driver.probe(launch, run)).alive is False


async def test_a_second_stop_signals_nobody(rig: Rig) -> None:
    """ENG-6: stopping a run that is gone already succeeds and sends no signal."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    await rig.driver.stop(launch, run, timeout_s=5)
    again = await rig.driver.stop(launch, run, timeout_s=5)
    assert (again.gone, again.port_free, again.signals) == (True, True, ())


async def test_stop_now_does_not_ask(rig: Rig) -> None:
    """ENG-6: a stop that may not wait begins with SIGKILL."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    report = await rig.driver.stop(launch, run, timeout_s=60, now=True)
    assert (report.gone, report.signals) == (True, ("SIGKILL",))


async def test_a_running_engine_is_adopted(rig: Rig) -> None:
    """ENG-7: adopting finds the very run that was started."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    assert await rig.driver.adopt(launch) == run


async def test_a_crash_is_noticed_with_its_signal(rig: Rig) -> None:
    """ENG-2: waiting for an exit returns when somebody else kills the engine, and names the signal."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    rig.crash(run)
    report = await rig.driver.wait_exit(launch, run)
    assert (report.status, report.signal) == (None, 9)
    assert await rig.driver.adopt(launch) is None


async def test_waiting_for_an_exit_that_was_returns_at_once(rig: Rig) -> None:
    """ENG-2: waiting for the exit of a run that has ended already returns."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    await rig.driver.stop(launch, run, timeout_s=5)
    assert await rig.driver.wait_exit(launch, run) is not None


async def test_a_frozen_engine_is_unreachable(rig: Rig) -> None:
    """ENG-8: an engine that lives and answers nothing is reported unreachable, not ready."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    rig.freeze(run)
    probe = await probe_until(rig.driver, launch, run, Readiness.UNREACHABLE)
    assert (probe.alive, probe.health) == (True, "unreachable")


async def test_a_stranger_on_the_port_is_named_and_left_alone(rig: Rig) -> None:
    """ENG-4: something else on the engine's port is reported with its pid, never routed to, never killed."""
    launch = rig.launch()
    rig.stranger(launch.port)
    try:
        run = await rig.driver.start(launch)
    except EngineFailed:
        # A real engine gives up at once where its port is taken: on a busy machine before it was seen.
        assert rig.stranger_lives()
        return
    probe = await probe_until(rig.driver, launch, run, Readiness.STRANGER)
    assert probe.port_owner == "stranger"
    assert probe.stranger.startswith("pid ")
    report = await rig.driver.stop(launch, run, timeout_s=5)
    assert report.gone
    assert rig.stranger_lives()


async def test_a_wrong_model_is_not_ready(rig: Rig) -> None:
    """ENG-4: an engine that serves another id than the expected one is told apart from a ready one."""
    launch = rig.wrong_model()
    run = await rig.driver.start(launch)
    probe = await probe_until(rig.driver, launch, run, Readiness.WRONG_MODEL)
    assert launch.model not in probe.model_ids


async def test_loading_is_not_ready(rig: Rig) -> None:
    """ENG-4: an engine whose health says 503 is loading, until it says 200."""
    launch = rig.slow()
    run = await rig.driver.start(launch)
    probe = await probe_until(rig.driver, launch, run, Readiness.LOADING)
    assert probe.alive
    rig.finish_loading(launch)
    await probe_until(rig.driver, launch, run, Readiness.READY)


async def test_one_engine_is_started_once(rig: Rig) -> None:
    """ENG-3: a second start of an engine that runs is refused, and the first one is not touched."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    with pytest.raises(EngineFailed):
        await rig.driver.start(launch)
    assert await rig.driver.adopt(launch) == run


async def test_an_engine_starts_again_after_a_stop(rig: Rig) -> None:
    """ENG-2: a stopped engine can be started again, as another run."""
    launch = rig.launch()
    first = await start_ready(rig.driver, launch)
    await rig.driver.stop(launch, first, timeout_s=5)
    second = await start_ready(rig.driver, launch)
    assert second != first
    assert await rig.driver.adopt(launch) == second


async def test_memory_is_told_while_it_runs(rig: Rig) -> None:
    """MEM-5: what the run holds in memory is told while it runs, and not after."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    assert rig.driver.rss(run) is not None
    await rig.driver.stop(launch, run, timeout_s=5)
    assert rig.driver.rss(run) is None


async def test_the_restore_in_words_brings_back_what_is_adopted(outside: Rig) -> None:
    """ENG-2: the restore's words start the engine without its driver, which then finds it and may stop it."""
    launch = outside.launch()
    run = await start_ready(outside.driver, launch)
    await outside.driver.stop(launch, run, timeout_s=5)
    restore = outside.driver.restore(launch)
    await _said(restore, *restore.argv)
    again = await outside.driver.adopt(launch)
    assert again is not None
    assert again != run
    probe = await probe_until(outside.driver, launch, again, Readiness.READY)
    assert restore.model in probe.model_ids
    assert restore.probe_url == f"{launch.url}/health"
    if restore.stop_argv:
        await _said(restore, *restore.stop_argv)
        assert await outside.driver.adopt(launch) is None
    else:
        assert (await outside.driver.stop(launch, again, timeout_s=5)).gone


async def test_a_deadman_brings_it_back(outside: Rig, tmp_path: Path) -> None:
    """WIN-1, ENG-2: a real deadman ends the mode's engine and restores the standing one, of every driver."""
    standing, heavy = outside.launch("standing"), outside.launch("heavy")
    run = await start_ready(outside.driver, standing)
    words = [
        Words(
            launch=it,
            restore=outside.driver.restore(it),
            stop_timeout_s=5.0,
            budget_s=60.0,
            task="chat",
        )
        for it in (heavy, standing)
    ]
    await outside.driver.stop(standing, run, timeout_s=5)
    await start_ready(outside.driver, heavy)
    deadmen = SystemDeadmen(
        root=tmp_path, host="crow", hold_path=tmp_path / "hold.json", environment=os.environ
    )
    deadmen.write(
        Orders(
            window="lease_1",
            mode="heavy",
            host="crow",
            cap_s=0.1,
            end=tuple(words[:1]),
            start=tuple(words[1:]),
            look_s=0.05,
        )
    )
    await deadmen.start("lease_1")
    try:
        await eventually(lambda: _report(deadmen) is not None, "its report", patience_s=90.0)
        report = _report(deadmen)
        assert report is not None
        assert (report.verified, report.failing, report.back) == (True, (), (standing.engine,))
        again = await outside.driver.adopt(standing)
        assert again is not None
        assert again != run
        assert await outside.driver.adopt(heavy) is None
        assert (await outside.driver.stop(standing, again, timeout_s=5)).gone
    finally:
        assert await deadmen.end("lease_1") is None


def _report(deadmen: SystemDeadmen) -> DeadmanReport | None:
    state = deadmen.state("lease_1")
    return None if state is None else state.report


async def _said(restore: Restore, *argv: str) -> None:
    """Run these words in the restore's own environment, and see them succeed."""
    done = await asyncio.create_subprocess_exec(
        *argv,
        env=dict(restore.env),
        cwd=restore.cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await done.communicate()
    assert done.returncode == 0, said.decode()
