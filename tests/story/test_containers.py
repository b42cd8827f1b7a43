"""Engines in containers and compose services behind the gateway, on a real Docker engine."""

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from demo.tiny_gguf import write_model
from hostler.domain.engine import Launch
from hostler.domain.values import EngineId
from tests.adapters.container_rigs import ContainerRig, container_rig
from tests.fakes.docker import Docker
from tests.fakes.fake_engine import free_port
from tests.story.house import House, alive, house
from tests.story.lease_house import resources, taken

pytestmark = pytest.mark.real


@pytest.fixture
async def real(tmp_path: Path, docker: Docker) -> AsyncIterator[House]:
    """A house with real engines, whose daemon asks the tests' own Docker engine."""
    async with house(tmp_path, real=True) as it:
        it.around["DOCKER_HOST"] = docker.host
        yield it


@pytest.fixture
async def rig(tmp_path: Path, docker: Docker, real: House) -> AsyncIterator[ContainerRig]:
    """Names, mounts and compose files for its containers, which are removed at the end."""
    async with container_rig(tmp_path, docker, "compose", real=True) as it:
        yield it


def launch(it: House, rig: ContainerRig, name: str) -> Launch:
    """What the engine of that name runs, and where; its model says its name."""
    file, port = it.root / f"{name}.gguf", free_port()
    write_model(file, says=f"I am {name}.")
    argv = it.program.argv(file, name)
    made = Launch(
        engine=EngineId(name),
        driver="compose",
        argv=tuple(word.format(address="127.0.0.1", port=port) for word in argv),
        env=it.program.env,
        cwd="/",
        address="127.0.0.1",
        port=port,
        url=f"http://127.0.0.1:{port}",
        model=name,
        directory=str(it.state / "engines" / name),
    )
    rig.launches.append(made)
    return made


def contain(it: House, rig: ContainerRig, name: str) -> None:
    """An engine whose container is made from the config."""
    made = launch(it, rig, name)
    it.engines[name] = {
        "driver": "container",
        "container": {"name": rig.named(name), "image": rig.docker.image, "mounts": list(rig.mounts())},
        "args": list(made.argv),
        "env": dict(made.env),
        "port": made.port,
        "memory": "64 MiB",
    }


def compose(it: House, rig: ContainerRig, name: str) -> None:
    """An engine that is a service of a compose file."""
    made = launch(it, rig, name)
    keys = rig.service(made)
    it.engines[name] = {
        "driver": "compose",
        "compose": {
            "file": keys.file,
            "project": keys.project,
            "service": keys.service,
            "command": list(keys.command),
        },
        "port": made.port,
        "memory": "64 MiB",
    }


def exists(it: House, rig: ContainerRig, name: str, policy: str) -> None:
    """An engine whose container somebody has made, with a restart policy."""
    made = launch(it, rig, name)
    mounts = [word for mount in rig.mounts() for word in ("--volume", mount)]
    env = [word for key, value in made.env.items() for word in ("--env", f"{key}={value}")]
    options = ("--name", rig.named(name), "--network", "host", "--restart", policy, *mounts, *env)
    rig.docker.cli("create", *options, rig.docker.image, *made.argv)
    it.engines[name] = {
        "driver": "container",
        "container": {"name": rig.named(name)},
        "port": made.port,
        "memory": "64 MiB",
    }


def inspected(rig: ContainerRig, name: str, what: str) -> str:
    """One field of a container, by the docker command."""
    return rig.docker.cli("inspect", "--format", "{{" + what + "}}", rig.named(name))


POLICY = ".HostConfig.RestartPolicy.Name"


async def says(it: House, name: str) -> str:
    """What that engine answers, through the gateway."""
    answer = await it.chat(name)
    assert answer.status_code == 200, answer.text + it.words()
    return str(answer.json()["choices"][0]["message"]["content"])


async def test_containers_outlive_a_killed_daemon(real: House, rig: ContainerRig) -> None:
    """ENG-2, ENG-7: a container and a compose service serve, live through kill -9, and are found again."""
    contain(real, rig, "big")
    compose(real, rig, "coder")
    await real.start()
    assert "I am big." in await says(real, "big")
    assert "I am coder." in await says(real, "coder")
    pids = [await real.pid("big"), await real.pid("coder")]
    await real.end(signal.SIGKILL)
    assert all(map(alive, pids))
    await real.start()
    assert "I am big." in await says(real, "big")
    assert "I am coder." in await says(real, "coder")
    assert [await real.pid("big"), await real.pid("coder")] == pids
    assert len(real.said("engine_starting")) == 2
    assert "server" in (await real.told("logs", "coder")).lower()
    await real.told("stop", "big")
    await real.told("stop", "coder")
    assert not any(map(alive, pids))
    assert inspected(rig, "coder", ".State.Running") == "false"


async def test_a_suspended_container_stays_down_whatever_its_policy(real: House, rig: ContainerRig) -> None:
    """ENG-2, NODE-5: a suspended `restart: always` container stays down, also when Docker starts anew."""
    exists(real, rig, "kept", "always")
    await real.start()
    assert "I am kept." in await says(real, "kept")
    await real.told("suspend", "kept")
    assert inspected(rig, "kept", POLICY) == "no"
    await real.end()
    rig.docker.restart()
    assert inspected(rig, "kept", ".State.Running") == "false"
    await real.start()
    assert (await real.chat("kept")).json()["error"]["code"] == "suspended"
    await real.told("resume", "kept")
    assert inspected(rig, "kept", POLICY) == "always"
    assert "I am kept." in await says(real, "kept")


async def test_a_lease_keeps_a_container_down_and_puts_its_policy_back(
    real: House, rig: ContainerRig
) -> None:
    """ENG-2, LEASE-10: a lease's stop step sets a policy to no; its release puts it back, and the engine."""
    exists(real, rig, "kept", "unless-stopped")
    resources(real, box={"title": "the box", "drain": "20s", "actions": [{"stop": "kept"}]})
    await real.start()
    assert "I am kept." in await says(real, "kept")
    lease = await taken(real)
    assert inspected(rig, "kept", POLICY) == "no"
    assert inspected(rig, "kept", ".State.Running") == "false"
    await real.end(signal.SIGKILL)
    await real.start()
    assert inspected(rig, "kept", POLICY) == "no"
    await real.told("release", lease)
    assert inspected(rig, "kept", POLICY) == "unless-stopped"
    assert "I am kept." in await says(real, "kept")


async def test_a_container_of_an_earlier_config_is_named(real: House, rig: ContainerRig) -> None:
    """ENG-7: a container that Hostler made and that the config has no more is named, and left running."""
    contain(real, rig, "big")
    contain(real, rig, "other")
    await real.start()
    assert "I am big." in await says(real, "big")
    await real.end()
    real.engines.pop("big")
    await real.start()
    status = json.loads(await real.told("status", "--json"))
    told = [line for line in status["daemon"]["warnings"] if "big still runs" in str(line)]
    assert told, status["daemon"]
    assert f"docker stop {rig.named('big')}" in str(told[0])
    assert inspected(rig, "big", ".State.Running") == "true"
