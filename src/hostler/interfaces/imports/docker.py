"""`docker run --name X …` as a container engine, where every flag of it can be said in our config.

Decides which flags those are. Where one cannot, the engine stays what it is: a process, the docker client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.values import parse_size
from hostler.interfaces.imports.command import Command, argument
from hostler.interfaces.imports.macros import PORT

_PROGRAMS: Final = ("docker", "podman")
DETACHED: Final = ("-d", "--detach")
_ALONE: Final = frozenset({*DETACHED, "--rm", "--init", "-i", "-t", "-it", "-ti", "--interactive", "--tty"})
"""Flags without a value that change nothing here: the driver makes, watches and removes the container."""
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_IMAGE: Final = re.compile(r"[A-Za-z0-9]\S*")
_SIZES: Final = {"b": "B", "k": "KiB", "m": "MiB", "g": "GiB"}
_SHORT: Final = {"-v": "--volume", "-e": "--env", "-m": "--memory", "--net": "--network"}


class Inexpressible(Exception):
    """A flag that our config has no word for: `str()` is the reason."""


@dataclass(slots=True)
class Container:
    """What a `docker run` says, in the words of our config."""

    name: str = ""
    network: str = ""
    image: str = ""
    mounts: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    memory: int | None = None
    args: tuple[str, ...] = ()

    def keys(self) -> Mapping[str, object]:
        """The value of `container:`."""
        keys: dict[str, object] = {"name": self.name, "image": self.image, "network": self.network}
        if self.devices:
            keys["devices"] = self.devices
        if self.mounts:
            keys["mounts"] = self.mounts
        if self.memory is not None:
            keys["memory_limit"] = f"{self.memory} B"
        return keys


def is_docker(command: Command) -> bool:
    """Whether it runs a container."""
    return command.program in _PROGRAMS and command.words[1:2] == ("run",)


def container_of(command: Command) -> Container:
    """The container of a `docker run`. Raises Inexpressible, naming the flag."""
    words = list(command.words[2:])
    found = Container()
    while words and words[0].startswith("-"):
        _flag(words, found)
    if not words:
        raise Inexpressible("it names no image")
    if not _IMAGE.fullmatch(words[0]):
        raise Inexpressible(f"{words[0]} is no name of an image")
    found.image, found.args = words[0], tuple(argument(word) for word in words[1:])
    if not _LABEL.fullmatch(found.name):
        raise Inexpressible("without --name nobody could find it again")
    if found.network != "host":
        raise Inexpressible("only --network host is known: a published port is not")
    return found


def _flag(words: list[str], found: Container) -> None:
    flag, equals, value = words.pop(0).partition("=")
    if flag in _ALONE:
        return
    name = _SHORT.get(flag, flag)
    if name not in ("--name", "--network", "--volume", "--env", "--memory", "--device"):
        raise Inexpressible(f"{flag} has no word in our config")
    if not equals:
        if not words:
            raise Inexpressible(f"{flag} has no value")
        value = words.pop(0)
    if PORT in value:
        raise Inexpressible(f"{flag} has ${{PORT}} in it")
    _value(name, value, found)


def _value(name: str, value: str, found: Container) -> None:
    match name:
        case "--name":
            found.name = value
        case "--network":
            found.network = value
        case "--volume":
            parts = value.split(":")
            if len(parts) not in (2, 3) or not all(part.startswith("/") for part in parts[:2]):
                raise Inexpressible(f"the mount {value} is not from one absolute path to another")
            found.mounts.append(value)
        case "--device":
            if not re.fullmatch(r"/[^:]*", value):
                raise Inexpressible(f"the device {value} is renamed in the container")
            found.devices.append(value)
        case "--memory":
            found.memory = _size(value)
        case _:
            key, equals, text = value.partition("=")
            if not equals or not _VARIABLE.fullmatch(key):
                raise Inexpressible(f"--env {value} takes its value from the environment")
            found.env[key] = text


def _size(text: str) -> int:
    unit = _SIZES.get(text[-1:].lower(), "")
    try:
        return parse_size(f"{text[:-1]} {unit}" if unit else f"{text} B")
    except ValueError as error:
        raise Inexpressible(f"--memory {text} is no size") from error
