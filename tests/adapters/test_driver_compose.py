"""What is the compose driver's own: what the command is told, and what its "no" means."""

import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.drivers import compose, container_record
from hostler.adapters.drivers.compose import ComposeServices
from hostler.adapters.drivers.container import ContainerDriver
from hostler.adapters.drivers.container_api import ContainerApi
from hostler.adapters.drivers.container_find import ByService
from hostler.domain.engine import Launch
from hostler.domain.errors import EngineFailed, NotLaunchable
from hostler.domain.fleet import Compose
from tests.adapters.container_rigs import ContainerRig, container_rig
from tests.adapters.driver_conformance import gone
from tests.fakes.docker import Docker
from tests.fakes.fake_engine import fake_launch


@pytest.fixture
async def rig(tmp_path: Path, docker: Docker) -> AsyncIterator[ContainerRig]:
    """Compose services, with the fake engine in them."""
    async with container_rig(tmp_path, docker, "compose") as found:
        yield found


def keyed(launch: Launch, **keys: object) -> Launch:
    """The launch with other keys of its compose service."""
    assert launch.compose is not None
    return replace(launch, compose=replace(launch.compose, **keys))  # type: ignore[arg-type]  # a test names the keys that matter to it


async def test_a_file_that_is_missing_is_told(rig: ContainerRig) -> None:
    """ENG-2: a compose file that is not there makes its engine not launchable, and nothing is run."""
    launch = keyed(rig.launch(), file=str(rig.root / "none.yml"), command=("false",))
    with pytest.raises(NotLaunchable, match=r"there is no file .*none\.yml"):
        await rig.driver.start(launch)


async def test_a_service_that_is_unknown_is_told_in_the_commands_words(rig: ContainerRig) -> None:
    """ENG-2: a service that the compose file lacks is not launchable, with what the command said."""
    with pytest.raises(NotLaunchable, match=r"docker-compose says: .*vllm") as refused:
        await rig.driver.start(keyed(rig.launch(), service="vllm"))
    assert "compose.service" in refused.value.fix


async def test_a_command_that_is_not_installed_is_told(rig: ContainerRig) -> None:
    """ENG-2: a compose command that this host lacks makes its engine not launchable, with the setting."""
    with pytest.raises(NotLaunchable, match="no-such-compose") as refused:
        await rig.driver.start(keyed(rig.launch(), command=("no-such-compose",)))
    assert "compose.command" in refused.value.fix


async def test_a_service_that_cannot_start_has_failed(rig: ContainerRig) -> None:
    """ENG-3: a service that compose knows and cannot start has failed, with what the command said."""
    launch = rig.launch()
    made = rig.service(replace(launch, argv=("/no/such/program",)))
    with pytest.raises(EngineFailed, match=r"docker-compose says: .*no such file"):
        await rig.driver.start(replace(launch, compose=made))


async def test_a_command_that_hangs_is_ended_with_its_children(
    rig: ContainerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENG-2: a compose command that does not end in time is ended, and what it started with it."""
    monkeypatch.setattr(compose, "UP_S", 0.5)
    pids = rig.root / "pids"
    script = rig.root / "compose.sh"
    script.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {pids}\nwait\n")
    script.chmod(0o700)
    with pytest.raises(EngineFailed, match="did not end within"):
        await rig.driver.start(keyed(rig.launch(), command=(str(script),)))
    assert gone(int(pids.read_text()))


async def test_a_service_that_its_policy_keeps_up_is_told(rig: ContainerRig) -> None:
    """ENG-2: the restart policy of a compose file is told, set to no, survives an `up`, and is put back."""
    launch = rig.launch()
    plain = replace(launch, argv=("sleep", "600"), env={})
    launch = replace(launch, compose=rig.service(plain, restart="unless-stopped"))
    run = await rig.driver.start(launch)
    assert await rig.driver.revival(launch) == "restart: unless-stopped"
    await rig.driver.set_revival(launch, None)
    await rig.driver.stop(launch, run, timeout_s=0, now=True)
    again = await rig.driver.start(launch)
    assert container_record.id_of(again) == container_record.id_of(run)
    assert await rig.driver.revival(launch) is None
    await rig.driver.set_revival(launch, "restart: unless-stopped")
    assert await rig.driver.revival(launch) == "restart: unless-stopped"


async def test_compose_gets_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENG-2: the compose command gets five names of our environment and the container engine's address."""
    monkeypatch.setenv("HOSTLER_SECRET", "x")
    api = ContainerApi(socket="/run/engine.sock")
    driver = ContainerDriver(api=api, maker=ComposeServices(api=api, environment=os.environ))
    told = driver.maker.restore(replace(fake_launch(tmp_path), compose=_KEYS), None)
    assert told.env["DOCKER_HOST"] == "unix:///run/engine.sock"
    assert set(told.env) <= {"PATH", "HOME", "LANG", "TZ", "XDG_RUNTIME_DIR", "DOCKER_HOST"}
    assert told.argv == (
        "docker",
        "compose",
        "-f",
        "/b/c.yml",
        "-p",
        "coder",
        "up",
        "-d",
        "--no-deps",
        "llama",
    )
    assert told.stop_argv[:7] == ("docker", "compose", "-f", "/b/c.yml", "-p", "coder", "stop")


_KEYS = Compose(file="/b/c.yml", project="coder", service="llama")


def row(
    id_: str, *, project: str = "coder", number: str = "1", state: str = "exited", oneoff: str = ""
) -> object:
    """A row of the container list, as compose labels it."""
    labels = {
        "com.docker.compose.project": project,
        "com.docker.compose.container-number": number,
        "com.docker.compose.oneoff": oneoff or "False",
    }
    return {"Id": id_, "State": state, "Labels": labels}


@pytest.mark.parametrize(
    ("rows", "picked"),
    [
        ([], None),
        ([row("a", project="other")], None),
        ([row("a", oneoff="True")], None),
        ([row("b", number="2"), row("a", number="1")], "a"),
        ([row("a"), row("b", number="2", state="running")], "b"),
        ([row("a", number="x"), {"Id": "c"}, "nonsense"], "a"),
        ({"message": "no list"}, None),
    ],
)
def test_which_container_a_service_is(rows: object, picked: str | None) -> None:
    """ENG-2: a service's container is its first that runs, else its first; one-off ones are none of it."""
    assert ByService(project="Coder", service="llama").pick(rows) == picked
    assert json.loads(ByService(project="coder", service="llama").query["filters"]) == {
        "label": ["com.docker.compose.service=llama"]
    }
