"""What is the container driver's own: making, recreating, ending, and a container engine that is away."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from demo import real_engine
from hostler.adapters.drivers import container_record
from hostler.domain.engine import Launch, Readiness, as_started
from hostler.domain.errors import EngineFailed, NotLaunchable
from hostler.domain.fleet import Container
from tests.adapters.container_rigs import ContainerRig, container_rig
from tests.adapters.driver_conformance import environment_of, gone, probe_until, start_ready
from tests.fakes.docker import Docker
from tests.fakes.fake_engine import eventually

MIB = 1 << 20


@pytest.fixture
async def rig(tmp_path: Path, docker: Docker) -> AsyncIterator[ContainerRig]:
    """Containers by name, with the fake engine in them."""
    async with container_rig(tmp_path, docker, "container") as found:
        yield found


def keyed(launch: Launch, **keys: object) -> Launch:
    """The launch with other keys of its container."""
    assert launch.container is not None
    return replace(launch, container=replace(launch.container, **keys))  # type: ignore[arg-type]  # a test names the keys that matter to it


def inspected(rig: ContainerRig, launch: Launch, what: str) -> str:
    """One field of the container, as the docker command tells it."""
    return rig.docker.cli("inspect", "--format", "{{" + what + "}}", rig.named(launch.engine))


def _block(directory: Path) -> None:
    """A file where the engine's directory should be."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.write_text("no directory")


# ---------------------------------------------------------------- making


async def test_without_an_image_the_container_must_exist(rig: ContainerRig) -> None:
    """ENG-2: a container engine without an image is not launchable while its container does not exist."""
    launch = keyed(rig.launch(), image=None)
    with pytest.raises(NotLaunchable, match="there is no container") as refused:
        await rig.driver.start(launch)
    assert f"docker create --name {rig.named('fast')}" in refused.value.fix


async def test_a_container_that_exists_is_started_as_it_is(rig: ContainerRig) -> None:
    """ENG-2: without an image the container is started by its name, whoever made it, and never remade."""
    made = rig.launch()
    run = await start_ready(rig.driver, made)
    await rig.driver.stop(made, run, timeout_s=5)
    id_ = inspected(rig, made, ".Id")
    plain = replace(keyed(made, image=None, mounts=()), argv=())
    again = await start_ready(rig.driver, plain)
    assert container_record.id_of(again) == id_


@pytest.mark.parametrize("now", [Container(name="another", image="toy:1"), None])
async def test_what_runs_is_found_under_the_name_it_was_started_with(
    rig: ContainerRig, now: Container | None
) -> None:
    """ENG-7: a container that has another name or port in the config by now is found as it was started."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    moved = replace(launch, container=now, port=1, url="http://127.0.0.1:1")
    found = await rig.driver.adopt(moved)
    assert found == run
    assert found is not None
    assert as_started(moved, found) == launch
    assert await rig.driver.adopt(replace(launch, port=1)) == run
    await rig.driver.stop(launch, run, timeout_s=5)
    assert await rig.driver.adopt(moved) is None


async def test_an_image_that_is_not_there_is_not_downloaded(rig: ContainerRig) -> None:
    """GATE-1: a container whose image this host lacks is not launchable, and nothing is pulled for it."""
    with pytest.raises(NotLaunchable, match="no image nowhere/none:1"):
        await rig.driver.start(keyed(rig.launch(), image="nowhere/none:1"))


async def test_a_mount_that_is_not_there_is_not_made(rig: ContainerRig) -> None:
    """ENG-2: a mount whose source is missing is not launchable, in the engine's words; no folder is made."""
    missing = rig.root / "missing"
    with pytest.raises(NotLaunchable, match="missing"):
        await rig.driver.start(keyed(rig.launch(), mounts=(f"{missing}:/models:ro",)))
    assert not missing.exists()


async def test_what_is_made_has_its_labels_and_no_restart_policy(rig: ContainerRig) -> None:
    """ENG-2: a container that is made bears its engine's id, the digest of its definition, and no policy."""
    launch = keyed(rig.launch(), memory_limit=512 * MIB)
    await start_ready(rig.driver, launch)
    assert inspected(rig, launch, 'index .Config.Labels "hostler.engine"') == "fast"
    assert len(inspected(rig, launch, 'index .Config.Labels "hostler.definition"')) == 64
    assert inspected(rig, launch, ".HostConfig.RestartPolicy.Name") == "no"
    assert inspected(rig, launch, ".HostConfig.Memory") == str(512 * MIB)
    assert inspected(rig, launch, ".HostConfig.NetworkMode") == "host"
    assert await rig.driver.revival(launch) is None


async def test_a_container_gets_the_engines_environment_alone(rig: ContainerRig) -> None:
    """ENG-2: a container's environment is its image's and the engine's own, and nothing of the daemon's."""
    launch = replace(rig.launch(), env={"GGML_NO_BACKTRACE": "1"})
    run = await start_ready(rig.driver, launch)
    inside = environment_of(run.pid)
    assert inside["GGML_NO_BACKTRACE"] == "1"
    assert set(inside) <= {"GGML_NO_BACKTRACE", "PATH", "HOME", "HOSTNAME", "container"}


async def test_a_changed_definition_is_made_anew_while_it_is_stopped(rig: ContainerRig) -> None:
    """ENG-2: a container whose definition changed is left alone while it runs, and remade at its next."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    changed = replace(launch, env={"GGML_NO_BACKTRACE": "1"})
    with pytest.raises(EngineFailed, match="runs already"):
        await rig.driver.start(changed)
    assert await rig.driver.adopt(changed) == run
    await rig.driver.stop(changed, run, timeout_s=5)
    again = await start_ready(rig.driver, changed)
    assert container_record.id_of(again) != container_record.id_of(run)
    await rig.driver.stop(changed, again, timeout_s=5)
    same = await rig.driver.start(changed)
    assert container_record.id_of(same) == container_record.id_of(again)


async def test_a_container_of_somebody_else_is_not_touched(rig: ContainerRig) -> None:
    """ENG-2: a container that bears the name and was not made for the engine is neither used nor removed."""
    launch = rig.launch()
    name = rig.named("fast")
    id_ = rig.docker.cli("create", "--name", name, "--network", "host", rig.docker.image, "sleep", "600")
    with pytest.raises(NotLaunchable, match="was not made for this engine"):
        await rig.driver.start(launch)
    rig.docker.cli("start", name)
    assert await rig.driver.adopt(launch) is None
    assert inspected(rig, launch, ".Id") == id_
    assert inspected(rig, launch, ".State.Running") == "true"


async def test_a_start_that_is_called_off_leaves_nothing(rig: ContainerRig) -> None:
    """ENG-3: a start that is cancelled half way ends what it has started before the cancellation goes on."""
    launch = rig.launch()
    starting = asyncio.ensure_future(rig.driver.start(launch))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert inspected(rig, launch, ".State.Running") == "false"


# ---------------------------------------------------------------- ends


async def test_a_deaf_engine_is_killed_in_the_end(rig: ContainerRig) -> None:
    """ENG-6: a container that ignores SIGTERM gets it twice, then SIGKILL, and is seen to be gone."""
    launch = rig.fake("deaf")
    run = await start_ready(rig.driver, launch)
    report = await rig.driver.stop(launch, run, timeout_s=0.3)
    assert (report.gone, report.port_free) == (True, True)
    assert report.signals == ("SIGTERM", "SIGTERM", "SIGKILL")
    assert gone(run.pid)


async def test_an_exit_is_told_with_its_status(rig: ContainerRig) -> None:
    """ENG-2: a container that ends by itself is told with its exit status, and its log is still there."""
    launch = replace(rig.launch(), argv=("sh", "-c", "echo out; echo err >&2; exit 3"), env={})
    run = await rig.driver.start(launch)
    report = await rig.driver.wait_exit(launch, run)
    assert (report.status, report.signal) == (3, None)
    assert sorted(rig.driver.tail(launch, 10)) == ["err", "out"]
    probe = await rig.driver.probe(launch, run)
    assert (probe.alive, probe.port_owner) == (False, "nobody")
    assert probe.detail.endswith("; it exited with status 3")


@pytest.mark.real
async def test_too_big_a_context_for_its_limit_is_out_of_memory(tmp_path: Path, docker: Docker) -> None:
    """MEM-5, ENG-2: an engine that outgrows its container's limit is killed, and that is told as such."""
    program = real_engine.find()
    assert program is not None
    big = ("-c", "1048576", "--override-kv", "llama.context_length=int:2097152", "-fit", "off")
    async with container_rig(tmp_path, docker, "container", real=True) as rig:
        launch = keyed(rig.of(program, "big", *big), memory_limit=96 * MIB)
        run = await rig.driver.start(launch)
        report = await rig.driver.wait_exit(launch, run)
    assert report.signal == signal.SIGKILL
    assert "out of memory within its limit of 96.0 MiB" in report.hint


async def test_what_its_policy_started_again_is_stopped(rig: ContainerRig) -> None:
    """ENG-2, ENG-6: a container that its policy brought up again is another run, and goes down too."""
    launch = rig.launch()
    run = await start_ready(rig.driver, launch)
    await rig.driver.set_revival(launch, "restart: always")
    rig.crash(run)
    report = await rig.driver.wait_exit(launch, run)
    assert report.signal == signal.SIGKILL or report.hint == "its container was started anew"

    async def up_again() -> bool:
        found = await rig.driver.adopt(launch)
        return found is not None and found != run

    await eventually(up_again, "its policy started it again")
    assert (await rig.driver.probe(launch, run)).alive is False
    stopped = await rig.driver.stop(launch, run, timeout_s=0.5)
    assert (stopped.gone, stopped.port_free) == (True, True)
    assert await rig.driver.adopt(launch) is None


async def test_a_container_that_fails_again_and_again_goes_down(rig: ContainerRig) -> None:
    """ENG-6: a container that its policy starts anew each time that it fails can be stopped, and started."""
    launch = keyed(rig.launch(), image=None)
    name, policy = rig.named("fast"), ("--restart", "always")
    rig.docker.cli("create", "--name", name, *policy, rig.docker.image, "sh", "-c", "exit 3")
    run = await rig.driver.start(launch)

    async def waits() -> bool:
        """It has failed so often that it is left alone for a second and more: 0.1 s, doubled each time."""
        found = await rig.driver.api.ask("GET", f"/containers/{name}/json")
        assert isinstance(found, dict)
        return found["RestartCount"] >= 4 and found["State"]["Restarting"] is True

    await eventually(waits, "it waits for its next start", patience_s=60)
    assert (await rig.driver.probe(launch, run)).alive is False
    again = await rig.driver.start(launch)
    assert again != run
    stopped = await rig.driver.stop(launch, again, timeout_s=0.5)
    assert (stopped.gone, stopped.left) == (True, ())
    assert inspected(rig, launch, ".State.Status") == "exited"


# ---------------------------------------------------------------- policies


@pytest.mark.parametrize("revival", ["restart: always", "restart: unless-stopped", "restart: on-failure:3"])
async def test_a_restart_policy_is_told_set_to_no_and_put_back(rig: ContainerRig, revival: str) -> None:
    """ENG-2: a container's restart policy is told in words that put it back, and is no in between."""
    launch = rig.launch()
    policy = revival.removeprefix("restart: ")
    name = rig.named("fast")
    rig.docker.cli("create", "--name", name, "--restart", policy, rig.docker.image, "sleep", "600")
    assert await rig.driver.revival(launch) == revival
    await rig.driver.set_revival(launch, None)
    await rig.driver.set_revival(launch, None)
    assert await rig.driver.revival(launch) is None
    await rig.driver.set_revival(launch, revival)
    assert await rig.driver.revival(launch) == revival


async def test_a_policy_that_cannot_be_put_back_is_told(rig: ContainerRig) -> None:
    """ENG-2: a policy is refused where it is no policy, and where its container is gone; no is nothing."""
    launch = rig.launch()
    assert await rig.driver.revival(launch) is None
    await rig.driver.set_revival(launch, None)
    with pytest.raises(EngineFailed, match="no container any more"):
        await rig.driver.set_revival(launch, "restart: always")
    with pytest.raises(EngineFailed, match="no container has the restart policy enabled"):
        await rig.driver.set_revival(launch, "enabled")


# ---------------------------------------------------------------- logs


async def test_its_log_is_followed_across_starts(rig: ContainerRig) -> None:
    """ENG-12: a follower gets the lines of a run from now on, and all of the next one's, unchanged."""
    counts = "i=0; while :; do printf 'line \\033[1m%s\\n' $i; i=$((i+1)); sleep 0.05; done"
    launch = replace(rig.launch(), argv=("sh", "-c", counts), env={})
    run = await rig.driver.start(launch)
    lines = rig.driver.follow(launch)
    assert isinstance(lines, AsyncGenerator)
    async with asyncio.timeout(20), aclosing(lines):
        assert (await anext(lines)).startswith("line \x1b[1m")
        await rig.driver.stop(launch, run, timeout_s=0, now=True)
        before = int(rig.driver.tail(launch, 1)[0].rpartition("m")[2])
        await rig.driver.start(launch)
        while await anext(lines) != "line \x1b[1m0":
            pass
        for number in range(1, before + 3):
            assert await anext(lines) == f"line \x1b[1m{number}"
    assert rig.driver.tail(launch, 1)[0].startswith("line \x1b[1m")
    assert rig.driver.tail(launch, 0) == []


async def test_an_engine_that_never_was_has_no_log(rig: ContainerRig) -> None:
    """ENG-12: a container that does not exist has an empty log."""
    assert rig.driver.tail(rig.launch(), 10) == []


async def test_a_start_that_cannot_be_written_down_is_undone(rig: ContainerRig) -> None:
    """ENG-2: a start whose identity cannot be made durable is ended again and told."""
    launch = rig.launch()
    _block(Path(launch.directory))
    with pytest.raises(EngineFailed, match="its start was not written down"):
        await rig.driver.start(launch)
    assert inspected(rig, launch, ".State.Running") == "false"


async def test_an_engine_whose_port_a_stranger_took_meanwhile(rig: ContainerRig) -> None:
    """ENG-4: a stranger on the port of a container that runs is named, and the container is alive."""
    launch = replace(rig.launch(), argv=("sleep", "600"), env={})
    run = await rig.driver.start(launch)
    rig.stranger(launch.port)
    probe = await probe_until(rig.driver, launch, run, Readiness.STRANGER)
    assert (probe.alive, probe.stranger) == (True, f"pid {os.getpid()} (python)")
