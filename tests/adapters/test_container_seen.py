"""How answers of the container engine are read, from what one of them said."""

import json
import os
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hostler.adapters.drivers import container_world, ports
from hostler.adapters.drivers.container_api import ContainerApi, Declined, LogFrames, Unanswered, api_of
from hostler.adapters.drivers.container_made import NamedContainers, definition, digest
from hostler.adapters.drivers.container_seen import Container, container, exit_report, instant, policy
from hostler.adapters.host import process_table
from hostler.adapters.host.listeners import Socket
from hostler.domain import fleet
from hostler.domain.engine import ExitReport, Launch
from hostler.domain.errors import EngineFailed
from tests.fakes.fake_engine import fake_launch, free_port

OOM = json.loads((Path(__file__).parent / "formats/container_oom.json").read_text())
"""What Docker 20.10 said of a container that its limit ended, as recorded; paths left out."""


def seen(**fields: object) -> Container:
    """The recorded container, with other fields."""
    return replace(container(OOM), **fields)  # type: ignore[arg-type]  # a test names the keys that matter to it


def test_a_container_that_ran_out_of_memory() -> None:
    """MEM-5: an inspect answer with OOMKilled is read as a kill for want of memory, with the limit."""
    found = container(OOM)
    assert (found.up, found.pid, found.restart.name, found.network) == (False, 0, "no", "host")
    assert found.ended.signal == 9
    assert found.ended.hint.startswith("out of memory within its limit of 96.0 MiB")
    assert found.identity == f"{OOM['Id']} {OOM['State']['StartedAt']}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, ExitReport(status=0, signal=None)),
        (1, ExitReport(status=1, signal=None)),
        (128, ExitReport(status=128, signal=None)),
        (137, ExitReport(status=None, signal=9)),
        (255, ExitReport(status=255, signal=None)),
    ],
)
def test_an_exit_code_is_a_status_or_a_signal(code: int, expected: ExitReport) -> None:
    """ENG-2: an exit code above 128 that is a signal's is told as that signal, every other as a status."""
    assert exit_report(code, oom_killed=False, limit=0) == expected


@pytest.mark.parametrize(
    "text",
    ["2026-09-04T20:05:11.123456789Z", "2026-09-04T22:05:11.123456+02:00", "2026-09-04T20:05:11.123456"],
)
def test_times_of_the_api(text: str) -> None:
    """ENG-6: a start is read in UTC with or without an offset, and with nine digits."""
    assert instant(text) == datetime(2026, 9, 4, 20, 5, 11, 123456, tzinfo=UTC)


@pytest.mark.parametrize("value", [None, [], {}, {"State": {}}, {**OOM, "Id": ""}, {**OOM, "State": "up"}])
def test_what_is_no_container_is_refused(value: object) -> None:
    """ENG-2: an answer that is no inspect answer is an error, not a container that does not run."""
    with pytest.raises((ValueError, TypeError, KeyError)):
        container(value)


@pytest.mark.parametrize("name", ["", "never", "no"])
def test_no_policy_has_several_names(name: str) -> None:
    """ENG-2: no restart policy is told alike, whatever the engine calls it."""
    host = {**OOM["HostConfig"], "RestartPolicy": {"Name": name, "MaximumRetryCount": 0}}
    assert container({**OOM, "HostConfig": host}).restart.name == "no"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("restart: always", "restart: always"),
        ("restart: on-failure:3", "restart: on-failure:3"),
        ("restart: on-failure", "restart: on-failure"),
        ("restart: no", None),
        ("enabled", None),
        ("restart: on-failure:0", None),
    ],
)
def test_policies_in_words(words: str, expected: str | None) -> None:
    """ENG-2: the words of a restart policy are read back as they were told; any others are none."""
    found = policy(words)
    assert (None if found is None else str(found)) == expected


def test_published_ports_are_the_containers(tmp_path: Path) -> None:
    """ENG-4: with a network of its own, a container's published port is its own, at that address only."""
    up = {"running": True, "network": "bridge", "addresses": ("172.17.0.2",)}
    port = free_port()
    there = seen(**up, published=(("127.0.0.1", port),))
    assert container_world.holder(there, (), "127.0.0.1", port).owner == "ours"
    assert container_world.holder(there, (), "127.0.0.2", port).owner == "nobody"
    assert container_world.holder(there, (), "172.17.0.2", port).owner == "ours"
    assert container_world.holder(seen(**up, published=(("", port),)), (), "127.0.0.9", port).owner == "ours"
    shared = seen(running=True, network="container:other")
    assert container_world.holder(shared, (), "127.0.0.1", port).owner == "unknown"
    with socket.create_server(("127.0.0.1", port)):
        found = container_world.holder(seen(**up), (), "127.0.0.1", port)
        assert (found.owner, found.name) == ("stranger", f"pid {os.getpid()} (python)")


def test_a_host_port_is_whose_socket_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """ENG-4: with the host's network the socket decides; where it may not be looked at nobody is blamed."""
    there, me = seen(running=True), process_table.read(os.getpid())
    assert me is not None
    other = replace(me, pid=1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert container_world.holder(there, (me,), "127.0.0.1", port).owner == "ours"
        assert container_world.unasked((me,), "127.0.0.1", port).owner == "ours"
        assert container_world.holder(there, (other,), "127.0.0.1", port).owner == "stranger"
        assert container_world.unasked((other,), "127.0.0.1", port).owner == "unknown"
        assert container_world.holder(there, (), "127.0.0.1", port).owner == "unknown"
        plain = process_table.open_inodes
        monkeypatch.setattr(
            process_table, "open_inodes", lambda pid, *kind: None if pid == 1 else plain(pid, *kind)
        )
        found = container_world.holder(there, (other,), "127.0.0.1", port)
        assert (found.owner, found.name) == ("stranger", f"pid {os.getpid()} (python)")
        monkeypatch.setattr(process_table, "open_inodes", lambda pid, *kind: None)
        assert container_world.holder(there, (other,), "127.0.0.1", port).owner == "unknown"
    monkeypatch.setattr(ports, "in_the_way", _unreadable)
    assert container_world.holder(there, (me,), "127.0.0.1", port).owner == "unknown"
    assert container_world.unasked((me,), "127.0.0.1", port).owner == "unknown"


def _unreadable(address: str, port: int) -> tuple[Socket, ...]:
    raise OSError(13, "Permission denied")


def test_a_pid_of_another_machine_is_nobodys(tmp_path: Path) -> None:
    """ENG-6: a pid whose control group does not bear the container's id is not its process."""
    assert container_world.main_process("0123456789ab", os.getpid()) is None
    assert container_world.processes("0123456789ab", os.getpid()) == ()
    assert container_world.main_process("0123456789ab", 0) is None


# ---------------------------------------------------------------- logs


def frame(text: bytes, stream: int = 1) -> bytes:
    """A frame of the log stream."""
    return bytes((stream, 0, 0, 0)) + len(text).to_bytes(4, "big") + text


def test_log_frames_that_come_in_pieces() -> None:
    """ENG-12: lines are whole however the stream is cut, and control characters stay as they were written."""
    whole = frame(b"on\x1b[1me\ntw") + frame(b"o\r\n", stream=2) + frame(b"left")
    frames, found = LogFrames(plain=False), []
    for at in range(len(whole)):
        found += frames.feed(whole[at : at + 1])
    assert [*found, *frames.rest(), *frames.rest()] == ["on\x1b[1me", "two", "left"]


def test_a_log_with_a_terminal_has_no_frames() -> None:
    """ENG-12: the log of a container with a terminal is read as it is; a line without an end is bounded."""
    frames = LogFrames(plain=True)
    assert frames.feed(b"a\r\nb") == ["a"]
    assert frames.rest() == ["b"]
    assert [len(line) for line in frames.feed(b"x" * ((1 << 20) + 1))] == [(1 << 20) + 1]


# ---------------------------------------------------------------- which engine


def test_which_container_engine_is_asked(tmp_path: Path) -> None:
    """ENG-2: DOCKER_HOST's unix socket, else Docker's usual one, else the user's Podman, is asked."""
    docker, podman = tmp_path / "docker.sock", tmp_path / "podman/podman.sock"
    env = {"XDG_RUNTIME_DIR": str(tmp_path)}
    assert api_of({"DOCKER_HOST": "unix:///x.sock"}, docker_socket=str(docker)).socket == "/x.sock"
    assert api_of(env, docker_socket=str(docker)).socket == str(docker)
    podman.parent.mkdir()
    podman.touch()
    assert api_of(env, docker_socket=str(docker)).socket == str(podman)
    docker.touch()
    assert api_of(env, docker_socket=str(docker)).socket == str(docker)
    assert api_of({}, docker_socket=str(docker)).socket == str(docker)


async def test_a_container_engine_elsewhere_is_not_used() -> None:
    """ENG-2: a DOCKER_HOST that is no socket of this host is refused in words."""
    api = api_of({"DOCKER_HOST": "tcp://10.0.0.1:2375"})
    with pytest.raises(Unanswered, match=r"DOCKER_HOST is tcp://10\.0\.0\.1:2375, and only unix://"):
        await api.ask("GET", "/_ping")
    with pytest.raises(Unanswered, match="only unix://"):
        api.ask_now("/_ping")


def test_a_no_is_told_in_the_engines_words(docker: object) -> None:
    """ENG-2: what the container engine refuses is told with its status and its own words."""
    api = getattr(docker, "api", None)
    assert isinstance(api, ContainerApi)
    with pytest.raises(Declined, match="No such container: nobody") as no:
        api.ask_now("/containers/nobody/json")
    assert no.value.status == 404


# ---------------------------------------------------------------- definitions


def launch_with(root: Path, *, env: dict[str, str] | None = None, **keys: object) -> Launch:
    """A launch whose container has these keys."""
    made = fleet.Container(name="c", image="i", **keys)  # type: ignore[arg-type]  # a test names the keys that matter to it
    return replace(fake_launch(root, port=8003), argv=("-m", "x"), env=env or {}, container=made)


def test_a_network_of_its_own_publishes_the_port(tmp_path: Path) -> None:
    """ENG-4: a container with a network of its own has its port published at its address, in both forms."""
    launch = launch_with(tmp_path, network="llm", devices=("/dev/dri",), mounts=("/m:/models:ro",))
    assert launch.container is not None
    body = definition(launch, launch.container)
    assert body["HostConfig"]["PortBindings"] == {  # type: ignore[index]  # a part of the API's body
        "8003/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8003"}]
    }
    named = NamedContainers(api=ContainerApi(socket="/run/user/1/podman/podman.sock"), environment={})
    words = named.restore(launch, None)
    assert words.argv[:6] == (
        "podman",
        "--remote",
        "--url",
        "unix:///run/user/1/podman/podman.sock",
        "run",
        "--detach",
    )
    for pair in (
        ("--publish", "127.0.0.1:8003:8003"),
        ("--device", "/dev/dri"),
        ("--mount", "type=bind,source=/m,target=/models,readonly"),
        ("--network", "llm"),
        ("--label", f"hostler.definition={digest(body)}"),
    ):
        assert pair in list(zip(words.argv, words.argv[1:], strict=False))
    assert words.argv[-3:] == ("i", "-m", "x")


def test_a_restores_environment_is_in_a_private_file(tmp_path: Path) -> None:
    """SEC-1: the environment of a restore in words is in a file for this user only, never in its argv."""
    launch = launch_with(tmp_path, env={"KEY": "secret"})
    words = NamedContainers(api=ContainerApi(socket="/s"), environment={}).restore(launch, None)
    assert not [word for word in words.argv if "secret" in word]
    file = Path(words.argv[words.argv.index("--env-file") + 1])
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("KEY=secret\n", 0o600)
    with pytest.raises(EngineFailed, match="KEY has a line break"):
        NamedContainers(api=ContainerApi(socket="/s"), environment={}).restore(
            launch_with(tmp_path, env={"KEY": "a\nb"}), None
        )


def test_any_change_of_a_definition_changes_its_digest(tmp_path: Path) -> None:
    """ENG-2: the digest of a definition changes with each of its parts, and with nothing else."""
    plain = launch_with(tmp_path)
    others = [
        launch_with(tmp_path, env={"A": "1"}),
        launch_with(tmp_path, memory_limit=1 << 30),
        launch_with(tmp_path, mounts=("/a:/b",)),
        launch_with(tmp_path, devices=("/dev/kfd",)),
        replace(plain, argv=("-m", "y")),
    ]
    digests = {digest(definition(it, it.container)) for it in (plain, *others) if it.container is not None}
    assert len(digests) == 6
    assert plain.container is not None
    assert digest(definition(plain, plain.container)) == digest(definition(plain, plain.container))
