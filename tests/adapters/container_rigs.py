"""The drivers `container` and `compose` on a real Docker engine, for the suite and their own tests.

Engines in them are the real llama-server, or the fake one where a test needs its misbehaviours: both are this
machine's, mounted read only, with the libraries that they need.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from demo import real_engine, tiny_gguf
from hostler.adapters.drivers.compose import ComposeServices
from hostler.adapters.drivers.container import ContainerDriver
from hostler.adapters.drivers.container_made import NamedContainers
from hostler.domain.engine import Launch, Run
from hostler.domain.fleet import Compose, Container
from tests.adapters.driver_conformance import QUICK_LOOK_S, SAYS
from tests.fakes.docker import COMPOSE, Docker, shared_paths
from tests.fakes.fake_engine import program_launch

Kind = Literal["container", "compose"]


@dataclass(slots=True, kw_only=True)
class ContainerRig:
    """One of the two drivers. `program` is what its containers run."""

    root: Path
    docker: Docker
    kind: Kind
    program: real_engine.EngineProgram
    driver: ContainerDriver
    launches: list[Launch] = field(default_factory=list)
    listener: socket.socket | None = None

    def launch(self, name: str = "fast", *, port: int | None = None) -> Launch:
        return self.of(self.program, name, port=port)

    def of(
        self, program: real_engine.EngineProgram, name: str, *more: str, port: int | None = None
    ) -> Launch:
        """A launch of that program in a container of its own."""
        model = self.root / "tiny.gguf"
        tiny_gguf.write_model(model, says=SAYS)
        plain = program_launch(program, *more, root=self.root, name=name, model=model, port=port)
        launch = replace(plain, driver=self.kind, cwd="/")
        if self.kind == "container":
            keys = Container(name=self.named(name), image=self.docker.image, mounts=self.mounts())
            launch = replace(launch, container=keys)
        else:
            launch = replace(launch, compose=self.service(launch), argv=(), env={})
        self.launches.append(launch)
        return launch

    def named(self, name: str) -> str:
        """A container's name that no other test has."""
        return f"{self.root.parent.name}-{self.root.name}-{name}".replace("_", "-").lower()[-60:].strip("-.")

    def mounts(self) -> tuple[str, ...]:
        """Everything that the engines need, read only; a test's own directory as it is."""
        return (*(f"{path}:{path}:ro" for path in shared_paths()), f"{self.root}:{self.root}")

    def service(self, launch: Launch, **keys: object) -> Compose:
        """A compose file with that launch as its one service."""
        service: Mapping[str, object] = {
            "image": self.docker.image,
            "network_mode": "host",
            "container_name": self.named(launch.engine),
            "command": list(launch.argv),
            "environment": dict(launch.env),
            "volumes": list(self.mounts()),
            **keys,
        }
        file = self.root / f"{launch.engine}.compose.yml"
        file.write_text(json.dumps({"version": "3", "services": {"llama": service}}))
        project = self.named(launch.engine).replace(".", "")
        return Compose(file=str(file), project=project, service="llama", command=COMPOSE)

    def fake(self, *fakes: str, name: str = "fast") -> Launch:
        """The fake engine with these misbehaviours."""
        return self.of(real_engine.fake(), name, *(word for one in fakes for word in ("--fake", one)))

    def wrong_model(self) -> Launch:
        return replace(self.launch("wrong"), model="other")

    def slow(self) -> Launch:
        return self.fake(f"load-until={self.root / 'loaded'}", name="slow")

    def finish_loading(self, launch: Launch) -> None:
        (self.root / "loaded").touch()

    def crash(self, run: Run) -> None:
        os.kill(run.pid, signal.SIGKILL)

    def freeze(self, run: Run) -> None:
        os.kill(run.pid, signal.SIGSTOP)

    def stranger(self, port: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", port))

    def stranger_lives(self) -> bool:
        assert self.listener is not None
        with socket.create_connection(self.listener.getsockname(), timeout=5):
            return True

    def close(self) -> None:
        """Remove every container of it, and let go of the port."""
        self.docker.remove(*(self.named(launch.engine) for launch in self.launches))
        if self.listener is not None:
            self.listener.close()


@asynccontextmanager
async def container_rig(
    root: Path, docker: Docker, kind: Kind, *, real: bool = False
) -> AsyncIterator[ContainerRig]:
    """One of the drivers on the real Docker engine; at the end no container of it is left."""
    program = real_engine.find() if real else real_engine.fake()
    assert program is not None, "the marker `real` skips where there is none"
    maker = NamedContainers if kind == "container" else ComposeServices
    driver = ContainerDriver(
        api=docker.api, maker=maker(api=docker.api, environment=os.environ), look_s=QUICK_LOOK_S
    )
    rig = ContainerRig(root=root, docker=docker, kind=kind, program=program, driver=driver)
    try:
        yield rig
    finally:
        rig.close()
