"""What every Driver must do (ENG-2), and the rigs that it is asked of: in memory, fake engine, real engine.

A rig gives a driver, launches for it, and the world around it: a crash, a freeze, a stranger on a port.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from demo import real_engine, tiny_gguf
from hostler.adapters.drivers.looking import Looks
from hostler.adapters.drivers.process import ProcessDriver
from hostler.adapters.host import process_table
from hostler.domain.engine import Launch, Probe, Readiness, Run, judge
from hostler.services.needs import Driver
from tests.fakes.driver import FakeDriver
from tests.fakes.fake_engine import eventually, fake_launch, program_launch

SAYS = "I am fast."
QUICK_LOOK_S = 0.5
"""So that a test of silence does not take as long as the real bound."""


class Rig(Protocol):
    """One implementation with its world."""

    @property
    def driver(self) -> Driver: ...

    def launch(self, name: str = "fast", *, port: int | None = None) -> Launch:
        """An engine that gets ready by itself."""
        ...

    def wrong_model(self) -> Launch:
        """An engine that gets ready and serves another id than the expected one."""
        ...

    def slow(self) -> Launch:
        """An engine that loads until `finish_loading`, or at least for a while."""
        ...

    def finish_loading(self, launch: Launch) -> None: ...

    def crash(self, run: Run) -> None:
        """The engine is killed by somebody else."""
        ...

    def freeze(self, run: Run) -> None:
        """The engine lives and answers nothing."""
        ...

    def stranger(self, port: int) -> None:
        """Something else listens on `port`."""
        ...

    def stranger_lives(self) -> bool: ...


@dataclass(slots=True)
class MemoryRig:
    """The in-memory driver that the tests of services use."""

    root: Path
    driver: FakeDriver = field(default_factory=FakeDriver)
    port: int = 0

    def launch(self, name: str = "fast", *, port: int | None = None) -> Launch:
        return fake_launch(self.root, name=name, port=port or 8100)

    def wrong_model(self) -> Launch:
        launch = self.launch("wrong")
        self.driver.ids[launch.engine] = "other"
        return launch

    def slow(self) -> Launch:
        launch = self.launch("slow")
        self.driver.loading.add(launch.engine)
        return launch

    def finish_loading(self, launch: Launch) -> None:
        self.driver.finish_loading(launch.engine)

    def crash(self, run: Run) -> None:
        self.driver.crash(run.engine, status=None, number=9)

    def freeze(self, run: Run) -> None:
        self.driver.freeze(run.engine)

    def stranger(self, port: int) -> None:
        self.port = port
        self.driver.put_stranger(port, f"pid {os.getpid()} (python)")

    def stranger_lives(self) -> bool:
        return self.port in self.driver.strangers


@dataclass(slots=True)
class ProcessRig:
    """The process driver, with the fake engine or the real one."""

    root: Path
    program: real_engine.EngineProgram
    model: Path
    driver: ProcessDriver = field(
        default_factory=lambda: ProcessDriver(environment=os.environ, looks=Looks(timeout_s=QUICK_LOOK_S))
    )
    launches: list[Launch] = field(default_factory=list)
    listener: socket.socket | None = None

    @property
    def real(self) -> bool:
        return self.program.name != real_engine.fake().name

    def launch(self, name: str = "fast", *, port: int | None = None) -> Launch:
        return self.keep(program_launch(self.program, root=self.root, name=name, model=self.model, port=port))

    def keep(self, launch: Launch) -> Launch:
        """Whatever runs in that launch's directory at the end is stopped."""
        self.launches.append(launch)
        return launch

    def wrong_model(self) -> Launch:
        return replace(self.launch("wrong"), model="other")

    def slow(self) -> Launch:
        if self.real:
            model = self.root / "slow.gguf"
            tiny_gguf.write_model(model, says=SAYS, layers=8, feed_forward=4096)
            return self.keep(program_launch(self.program, root=self.root, name="slow", model=model))
        return self.keep(fake_launch(self.root, f"load-until={self.root / 'loaded'}", name="slow"))

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

    def fake(self, *fakes: str) -> Launch:
        """A launch of the fake engine with these misbehaviours."""
        return self.keep(fake_launch(self.root, *fakes))

    def command(self, *argv: str) -> Launch:
        """A launch of any command."""
        return self.keep(replace(fake_launch(self.root), argv=argv))

    async def close(self) -> None:
        """Stop what runs, by its recorded identity, and let go of the port."""
        for launch in self.launches:
            run = await self.driver.adopt(launch)
            if run is not None:
                await self.driver.stop(launch, run, timeout_s=0, now=True)
        if self.listener is not None:
            self.listener.close()


@asynccontextmanager
async def process_rig(root: Path, *, real: bool) -> AsyncIterator[ProcessRig]:
    """A process driver with one of the two engines; at the end nothing of it runs."""
    program = real_engine.find() if real else real_engine.fake()
    assert program is not None, "the marker `real` skips where there is none"
    model = root / "tiny.gguf"
    tiny_gguf.write_model(model, says=SAYS)
    rig = ProcessRig(root=root, program=program, model=model)
    try:
        yield rig
    finally:
        await rig.close()


def record(launch: Launch) -> dict[str, object]:
    """The run.json of an engine."""
    found: dict[str, object] = json.loads((Path(launch.directory) / "run.json").read_text())
    return found


def write_record(launch: Launch, text: str) -> None:
    """Another run.json for an engine."""
    directory = Path(launch.directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "run.json").write_text(text)


def gone(pid: int) -> bool:
    """Whether nothing runs under `pid`."""
    process = process_table.read(pid)
    return process is None or process.gone


def environment_of(pid: int) -> dict[str, str]:
    """What a process was given when it was executed."""
    raw = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(one.split("=", 1) for one in raw if one)


def log_files(launch: Launch) -> dict[str, int]:
    """Size of each file of an engine's log, by name."""
    return {path.name: path.stat().st_size for path in Path(launch.directory).glob("engine.log*")}


async def probe_until(driver: Driver, launch: Launch, run: Run | None, wanted: Readiness) -> Probe:
    """Probe until the verdict is `wanted`; the probe that gave it."""
    seen: list[Probe] = []

    async def there() -> bool:
        seen.append(await driver.probe(launch, run))
        return judge(seen[-1], health=launch.health, model=launch.model) is wanted

    await eventually(there, f"{launch.engine} is {wanted}")
    return seen[-1]


async def start_ready(driver: Driver, launch: Launch) -> Run:
    """Start an engine and wait until it is ready (ENG-4)."""
    run = await driver.start(launch)
    await probe_until(driver, launch, run, Readiness.READY)
    return run
