"""What `hostler init` asks for: what there is on this box that could serve models, seen without a change.

Decides the shape of what was seen. `hostler.adapters.sight` looks; what config comes of it is decided in
`hostler.interfaces.first_config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hostler.domain.fleet import frozen


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """A server of models that runs: its program, where it listens, and the ids that it reports.

    `why` says why it has no ids, empty where it has some. `files` are model files in its command line.
    """

    program: str
    pid: int | None
    port: int
    models: tuple[str, ...] = ()
    why: str = ""
    files: tuple[str, ...] = ()
    container: str = ""

    @property
    def url(self) -> str:
        """Where it is reached from this box."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A GGUF file, or a directory of safetensors; bytes of all its parts. `projector` is its mmproj."""

    path: str
    size: int
    kind: str = "gguf"
    projector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container that runs, with its ports on this host."""

    name: str
    image: str
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What was seen. `pools` are bytes by memory pool, `programs` paths by name, `listening` ports in use.

    `docker` is empty where no engine of containers answers; `unusable` are sentences about what looks like
    a model and cannot be served.
    """

    pools: Mapping[str, int] = field(default_factory=lambda: frozen({}))
    programs: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    answering: tuple[Answering, ...] = ()
    models: tuple[ModelFile, ...] = ()
    containers: tuple[Container, ...] = ()
    docker: str = ""
    listening: frozenset[int] = frozenset()
    unusable: tuple[str, ...] = ()
    looked: tuple[str, ...] = ()


class SightParts(Protocol):
    """This box, to be looked at."""

    def look(self) -> Sight:
        """Everything, in a few seconds at most. Changes nothing, starts nothing, loads no model."""
        ...

    def place(self, *, force: bool) -> str:
        """The path of the config that `serve` looks for first, its directory made.

        Refuses: file_exists, where there is a config already, in any of the places.
        """
        ...
