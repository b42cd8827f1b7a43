"""The systemd driver with real units of a real user manager, for the drivers' suite and its own tests."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from demo import real_engine, tiny_gguf
from hostler.adapters.drivers.looking import Looks
from hostler.adapters.drivers.systemd import SystemdDriver
from hostler.adapters.service_file import command, word
from hostler.domain.engine import Launch, Run
from tests.adapters.driver_conformance import QUICK_LOOK_S, SAYS
from tests.fakes.fake_engine import fake_launch, program_launch
from tests.fakes.user_manager import UserManager


@dataclass(slots=True)
class SystemdRig:
    """Units named after the test's folder: tests of one worker share its manager."""

    root: Path
    manager: UserManager
    program: real_engine.EngineProgram
    model: Path
    driver: SystemdDriver = field(init=False)
    launches: list[Launch] = field(default_factory=list)
    listener: socket.socket | None = None

    def __post_init__(self) -> None:
        self.driver = SystemdDriver(
            environment=self.manager.environment,
            cgroups=self.manager.cgroups,
            looks=Looks(timeout_s=QUICK_LOOK_S),
            journal=self.manager.journal,
        )

    @property
    def real(self) -> bool:
        return self.program.name != real_engine.fake().name

    def launch(self, name: str = "fast", *, port: int | None = None, **keys: str) -> Launch:
        launch = program_launch(self.program, root=self.root, name=name, model=self.model, port=port)
        return self.unit(launch, **keys)

    def unit(self, launch: Launch, *, argv: str | None = None, more: str = "", **keys: str) -> Launch:
        """That launch as a unit of the manager; `keys` are added to its [Service], `more` behind it."""
        name = f"{self.root.name}-{launch.engine}.service".replace("[", "-").replace("]", "-")
        lines = [f"ExecStart={argv or command(launch.argv)}"]
        lines += [f"Environment={word(f'{key}={value}')}" for key, value in launch.env.items()]
        lines += [f"{key}={value}" for key, value in keys.items()]
        self.manager.write(name, "\n".join(["[Service]", *lines, more, ""]))
        made = replace(launch, driver="systemd", argv=(), unit=name, scope="user")
        self.launches.append(made)
        return made

    def fake(self, *fakes: str, **keys: str) -> Launch:
        """A unit of the fake engine with these misbehaviours."""
        return self.unit(fake_launch(self.root, *fakes), **keys)

    def wrong_model(self) -> Launch:
        return replace(self.launch("wrong"), model="other")

    def slow(self) -> Launch:
        if self.real:
            model = self.root / "slow.gguf"
            tiny_gguf.write_model(model, says=SAYS, layers=8, feed_forward=4096)
            return self.unit(program_launch(self.program, root=self.root, name="slow", model=model))
        return self.unit(fake_launch(self.root, f"load-until={self.root / 'loaded'}", name="slow"))

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

    def name(self, launch: Launch) -> str:
        """Its unit."""
        assert launch.unit is not None
        return launch.unit

    def told(self, launch: Launch, name: str) -> str:
        """A property of its unit, as the manager tells it."""
        return self.manager.systemctl("show", f"--property={name}", "--value", self.name(launch)).strip()

    async def close(self) -> None:
        """Stop what runs, and forget the units."""
        for launch in self.launches:
            run = await self.driver.adopt(launch)
            if run is not None:
                await self.driver.stop(launch, run, timeout_s=0, now=True)
            (self.manager.units / self.name(launch)).unlink(missing_ok=True)
        if self.listener is not None:
            self.listener.close()


@asynccontextmanager
async def systemd_rig(root: Path, manager: UserManager, *, real: bool) -> AsyncIterator[SystemdRig]:
    """A systemd driver with one of the two engines; at the end no unit of it runs."""
    program = real_engine.find() if real else real_engine.fake()
    assert program is not None, "the marker `real` skips where there is none"
    model = root / "tiny.gguf"
    tiny_gguf.write_model(model, says=SAYS)
    rig = SystemdRig(root=root, manager=manager, program=program, model=model)
    try:
        yield rig
    finally:
        await rig.close()
