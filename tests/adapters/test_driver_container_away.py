"""What the container driver does while the container engine is away, or hangs: nothing is guessed."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hostler.adapters.drivers import container_record
from hostler.adapters.drivers.container import LOOK_S, ContainerDriver
from hostler.adapters.drivers.container_api import ContainerApi
from hostler.adapters.drivers.container_made import NamedContainers
from hostler.domain.engine import Launch, Run
from hostler.domain.errors import EngineFailed
from hostler.domain.fleet import Container
from tests.adapters.container_rigs import ContainerRig, container_rig
from tests.adapters.driver_conformance import start_ready
from tests.fakes.docker import Docker
from tests.fakes.fake_engine import fake_launch


@pytest.fixture
async def rig(tmp_path: Path, docker: Docker) -> AsyncIterator[ContainerRig]:
    """Containers by name, with the fake engine in them."""
    async with container_rig(tmp_path, docker, "container") as found:
        yield found


def behind(socket: str) -> ContainerDriver:
    """A driver that asks another container engine than the tests' own."""
    api = ContainerApi(socket=socket)
    return ContainerDriver(api=api, maker=NamedContainers(api=api, environment=os.environ))


@asynccontextmanager
async def _nobody(root: Path) -> AsyncIterator[tuple[ContainerDriver, Launch]]:
    """A driver whose container engine is not there, and a launch for it."""
    plain = fake_launch(root)
    launch = replace(plain, driver="container", container=Container(name="nobody", image="toy:1"))
    yield behind(str(root / "nobody.sock")), launch


def _recorded(launch: Launch) -> Run:
    """A run of that launch in some container."""
    return Run(
        engine=launch.engine,
        driver="container",
        pid=os.getpid(),
        start_ticks=1,
        supervisor_pid=0,
        supervisor_ticks=0,
        boot_id="b",
        port=launch.port,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        identity="0123 2026-01-01T00:00:00Z",
    )


async def test_an_engine_lives_on_while_its_container_engine_is_away(rig: ContainerRig) -> None:
    """ENG-7: while the container engine is away, what is seen to run is found, and not called ended."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    late = behind(str(rig.root / "nobody.sock"))
    assert await late.adopt(launch) == run
    probe = await late.probe(launch, run)
    assert (probe.alive, probe.port_owner, probe.health) == (True, "ours", "ok")
    waiting = asyncio.ensure_future(late.wait_exit(launch, run))
    with pytest.raises(EngineFailed, match="cannot be asked"):
        await late.stop(launch, run, timeout_s=0)
    assert not waiting.done()
    rig.crash(run)
    async with asyncio.timeout(20):
        assert "its container engine is away" in (await waiting).hint
    with pytest.raises(EngineFailed, match="cannot be asked"):
        await late.adopt(launch)


@pytest.mark.parametrize("ask", ["start", "revival", "tail", "restore", "set_revival"])
async def test_a_container_engine_that_is_away_is_named(tmp_path: Path, ask: str) -> None:
    """ENG-2: each call to a container engine that is away refuses `engine_failed`, and names its socket."""
    async with _nobody(tmp_path) as (driver, launch):
        with pytest.raises(EngineFailed, match=r"cannot be asked: .*nobody\.sock does not answer"):
            await _asked(driver, launch, ask)


async def _asked(driver: ContainerDriver, launch: Launch, ask: str) -> None:
    match ask:
        case "start":
            await driver.start(launch)
        case "revival":
            await driver.revival(launch)
        case "set_revival":
            await driver.set_revival(launch, None)
        case "tail":
            driver.tail(launch, 5)
        case _:
            driver.restore(launch)


async def test_a_container_engine_that_hangs_delays_a_look_within_its_bound(tmp_path: Path) -> None:
    """ENG-8: a look takes no longer than its bound when the container engine never answers."""
    path = tmp_path / "hung.sock"
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_unix_server(lambda _, writer: held.append(writer), path)
    async with _nobody(tmp_path) as (_, launch):
        driver = behind(str(path))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        probe = await driver.probe(launch, None)
        assert loop.time() - begun < LOOK_S + 0.2
        assert (probe.alive, probe.port_owner) == (False, "unknown")
        assert "hung.sock within" in probe.detail
        with pytest.raises(EngineFailed, match="no answer from"):
            await driver.start(launch)
    for writer in held:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_a_run_whose_process_is_not_seen_is_never_called_dead(tmp_path: Path) -> None:
    """ENG-6: where neither the container engine nor this host can tell, a run counts as alive."""
    async with _nobody(tmp_path) as (driver, launch):
        unseen = replace(_recorded(launch), pid=0, start_ticks=0)
        probe = await driver.probe(launch, unseen)
        assert (probe.alive, probe.health) == (True, "unreachable")
        assert driver.rss(unseen) is None


async def test_a_record_that_is_damaged_names_nobody(tmp_path: Path) -> None:
    """ENG-7: a record of another engine, or one that is no record, is not taken for a run."""
    async with _nobody(tmp_path) as (_, launch):
        run = _recorded(launch)
        container_record.save(launch, run)
        assert container_record.load(launch) == run
        assert container_record.load(replace(launch, engine=type(launch.engine)("other"))) is None
        (Path(launch.directory) / container_record.FILE).write_text("[1")
        assert container_record.load(launch) is None
