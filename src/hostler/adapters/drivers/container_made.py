"""Containers by name (`driver: container`): one that exists, or one that is made from the config.

Decides what is made, and when it is made anew. A container that is made bears its engine's id and a digest of
its definition; one that does not bear them is somebody's, and is never touched when an image is given.
Nothing is pulled: a start downloads nothing (GATE-1).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from hostler.adapters.drivers import run_record
from hostler.adapters.drivers.container_api import CHANGE_S, ContainerApi, Declined
from hostler.adapters.drivers.container_find import ByName
from hostler.adapters.drivers.container_seen import DEFINITION_LABEL, ENGINE_LABEL, Container
from hostler.domain import fleet
from hostler.domain.engine import Launch, Restore
from hostler.domain.errors import EngineFailed, NotLaunchable

ENV_FILE: Final = "restore.env"
RESTORE_STOP_S: Final = 300
"""What the restore's stop waits before it kills: an unclean exit can pin memory until a reboot (ENG-6)."""
_NOT_THERE: Final = 404
_OUR_FAULT: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedContainers:
    """The Maker of `driver: container`. Of our environment nothing is passed on: the image has its own."""

    api: ContainerApi
    environment: Mapping[str, str]

    def where(self, launch: Launch) -> ByName:
        """By its name."""
        return ByName(name=_keys(launch).name)

    def named(self, launch: Launch) -> bool:
        """With `container`."""
        return launch.container is not None

    def owns(self, launch: Launch, seen: Container) -> bool:
        """Without `image` the name decides; with it the label of our making."""
        return _keys(launch).image is None or seen.labels.get(ENGINE_LABEL) == launch.engine

    async def bring_up(self, launch: Launch, seen: Container | None) -> None:
        """Start the one that exists, or make it; made anew where its definition or its image changed."""
        keys = _keys(launch)
        if keys.image is None:
            if seen is None:
                why = f"there is no container {keys.name}"
                fix = (
                    f"Create it (docker create --name {keys.name} …), or give container.image in the config."
                )
                raise NotLaunchable(engine=launch.engine, why=why, fix=fix)
            await self._start(launch, seen.id)
            return
        if seen is not None and not self.owns(launch, seen):
            why = f"a container {keys.name} exists that was not made for this engine"
            fix = "Give another container.name, remove that container, or leave image out to use it as it is."
            raise NotLaunchable(engine=launch.engine, why=why, fix=fix)
        image = await self._image(launch, keys.image)
        body = definition(launch, keys)
        if seen is not None and (seen.labels.get(DEFINITION_LABEL) != digest(body) or seen.image != image):
            # It was seen not to run, and the engine refuses to remove one that does meanwhile.
            await self.api.ask("DELETE", f"/containers/{seen.id}", within_s=CHANGE_S)
            seen = None
        id_ = seen.id if seen is not None else await self._create(launch, keys, body)
        await self._start(launch, id_)

    async def _image(self, launch: Launch, image: str) -> str:
        """The image's id. Refuses `not_launchable` where this host has it not."""
        try:
            found = await self.api.ask("GET", f"/images/{quote(image, safe='/:@')}/json")
        except Declined as no:
            if no.status != _NOT_THERE:
                raise
            why = f"this host has no image {image}"
            fix = f"docker pull {image}, or build it; nothing is downloaded by a start."
            raise NotLaunchable(engine=launch.engine, why=why, fix=fix) from no
        return str(found["Id"]) if isinstance(found, dict) else ""

    async def _create(self, launch: Launch, keys: fleet.Container, body: Mapping[str, object]) -> str:
        labels = {ENGINE_LABEL: str(launch.engine), DEFINITION_LABEL: digest(body)}
        try:
            made = await self.api.ask(
                "POST",
                "/containers/create",
                {"name": keys.name},
                {**body, "Labels": labels},
                within_s=CHANGE_S,
            )
        except Declined as no:
            raise _refused(launch, no) from no
        if not isinstance(made, dict) or not made.get("Id"):
            raise EngineFailed(
                engine=launch.engine, why="the container engine made a container without an id"
            )
        return str(made["Id"])

    async def _start(self, launch: Launch, id_: str) -> None:
        try:
            await self.api.ask("POST", f"/containers/{id_}/start", within_s=CHANGE_S)
        except Declined as no:
            raise _refused(launch, no) from no

    def restore(self, launch: Launch, seen: Container | None) -> Restore:
        """`docker start` of the one that exists, else `docker run` with the whole definition.

        Raises OSError when the file of its environment cannot be written.
        """
        keys = _keys(launch)
        docker = _program(self.api.socket)
        words: tuple[str, ...] = ("start", keys.name)
        if seen is None and keys.image is not None:
            words = ("run", "--detach", *_words(launch, keys), keys.image, *launch.argv)
        return Restore(
            argv=(*docker, *words),
            env=run_record.clean_environment(self.environment, {}),
            cwd="/",
            probe_url=launch.url + (launch.health if launch.health.startswith("/") else ""),
            model=launch.model,
            stop_argv=(*docker, "stop", "--time", str(RESTORE_STOP_S), keys.name),
        )


def definition(launch: Launch, keys: fleet.Container) -> Mapping[str, object]:
    """What the API's create takes: all that the config says of the container, and no restart policy.

    With a network of its own the engine's port is published at its address.
    """
    host: dict[str, object] = {
        "NetworkMode": keys.network,
        "RestartPolicy": {"Name": "no"},
        "Devices": [
            {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in keys.devices
        ],
        "Mounts": [
            {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}
            for source, target, read_only in map(_mount, keys.mounts)
        ],
        "LogConfig": {
            "Type": "json-file",
            "Config": {"max-size": str(launch.log_size), "max-file": str(launch.log_files)},
        },
    }
    if keys.memory_limit is not None:
        # The limit is of memory and swap together: more swap would only make it slow before it is killed.
        host |= {"Memory": keys.memory_limit, "MemorySwap": keys.memory_limit}
    body: dict[str, object] = {
        "Image": keys.image,
        "Cmd": list(launch.argv) or None,
        "Env": [f"{name}={value}" for name, value in launch.env.items()],
        "HostConfig": host,
    }
    if keys.network != "host":
        inside = f"{launch.port}/tcp"
        body["ExposedPorts"] = {inside: {}}
        host["PortBindings"] = {inside: [{"HostIp": launch.address, "HostPort": str(launch.port)}]}
    return body


def digest(body: Mapping[str, object]) -> str:
    """SHA-256 of a definition: whether the container is what the config says now."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _words(launch: Launch, keys: fleet.Container) -> tuple[str, ...]:
    """The definition as words of `docker run`. The environment goes by a file: it may hold keys (SEC-1)."""
    words = ["--name", keys.name, "--network", keys.network, "--restart", "no", "--pull", "never"]
    words += ["--label", f"{ENGINE_LABEL}={launch.engine}"]
    words += ["--label", f"{DEFINITION_LABEL}={digest(definition(launch, keys))}"]
    words += ["--log-driver", "json-file", "--log-opt", f"max-size={launch.log_size}"]
    words += ["--log-opt", f"max-file={launch.log_files}"]
    for path in keys.devices:
        words += ["--device", path]
    for source, target, read_only in map(_mount, keys.mounts):
        words += [
            "--mount",
            f"type=bind,source={source},target={target}" + (",readonly" if read_only else ""),
        ]
    if keys.memory_limit is not None:
        words += ["--memory", str(keys.memory_limit), "--memory-swap", str(keys.memory_limit)]
    if keys.network != "host":
        words += ["--publish", f"{_bracketed(launch.address)}:{launch.port}:{launch.port}"]
    if launch.env:
        words += ["--env-file", _env_file(launch)]
    return tuple(words)


def _env_file(launch: Launch) -> str:
    """The file of the engine's environment, written now, readable by this user only. Raises OSError."""
    for name, value in launch.env.items():
        if "\n" in value:
            why = f"env.{name} has a line break, which no restore in words can carry"
            raise EngineFailed(engine=launch.engine, why=why)
    directory = Path(launch.directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / ENV_FILE
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in launch.env.items())
    return str(path)


def _mount(text: str) -> tuple[str, str, bool]:
    """`HOST:CONTAINER` or `HOST:CONTAINER:ro`; the config's check has seen to it that it is one."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    return source, target, mode == "ro"


def _program(socket: str) -> tuple[str, ...]:
    """The command that speaks to that socket."""
    if socket.endswith("podman.sock"):
        return "podman", "--remote", "--url", f"unix://{socket}"
    return "docker", "--host", f"unix://{socket}"


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _keys(launch: Launch) -> fleet.Container:
    if launch.container is None:
        raise NotLaunchable(
            engine=launch.engine, why="it has no container", fix="Give it `container` in the config."
        )
    return launch.container


def _refused(launch: Launch, no: Declined) -> EngineFailed | NotLaunchable:
    """A definition that the engine does not take is wrong until somebody corrects it."""
    if no.status in (_OUR_FAULT, _NOT_THERE):
        why = f"the container engine says: {no.said.strip()}"
        return NotLaunchable(engine=launch.engine, why=why, fix="Correct `container` in the config.")
    return EngineFailed(engine=launch.engine, why=f"the container engine says: {no.said.strip()}")
