"""A whole Hostler for one test: the real command line, a real daemon, its own state, hold path and ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from demo import real_engine
from demo.tiny_gguf import write_model
from hostler.adapters.host import process_table
from tests.fakes.deadmen_left import end_deadmen
from tests.fakes.fake_engine import eventually, free_port
from tests.fakes.signals import kill, send

Json = dict[str, object]
GONE_S = 20.0


def chat(model: str, text: str = "hi", **more: object) -> Json:
    """A chat request's body."""
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


@dataclass(kw_only=True)
class House:
    """One daemon's place. `engines` and `routes` are the config's; `program` is what runs as an engine."""

    root: Path
    program: real_engine.EngineProgram = field(default_factory=real_engine.fake)
    engines: dict[str, Json] = field(default_factory=dict)
    routes: dict[str, Json] = field(default_factory=dict)
    host: Json = field(default_factory=dict)
    top: Json = field(default_factory=dict)
    node: Json = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    wrap: tuple[str, ...] = ()
    """What the daemon is started with, such as a time of its own."""
    around: dict[str, str] = field(default_factory=dict)
    """Of the daemon's environment, beside the house's."""
    daemon: asyncio.subprocess.Process | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.root / "daemon.log"
        (self.root / "run").mkdir(mode=0o700, parents=True, exist_ok=True)

    # ------------------------------------------------------------ what there is

    def add(self, name: str, *more: str, endless: bool = False, **keys: object) -> int:
        """An engine; `more` are arguments of its program. Its port."""
        file = self.root / f"{name}.gguf"
        layers = 32 if endless else 1  # A quick machine comes to the end of its context in seconds.
        write_model(
            file, says=f"I am {name}.", embeddings="--embeddings" in more, endless=endless, layers=layers
        )
        port = free_port()
        self.engines[name] = {
            "argv": list(self.program.argv("{file}", "{model}", *more)),
            "files": [str(file)],
            "env": dict(self.program.env),
            "port": port,
            "memory": "64 MiB",
            **keys,
        }
        return port

    def fakes(self, name: str, *fakes: str, **keys: object) -> int:
        """A fake engine with these misbehaviours. Its port."""
        return self.add(name, *(word for one in fakes for word in ("--fake", one)), endless=False, **keys)

    @property
    def url(self) -> str:
        """The gateway's base URL."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        """The config's file."""
        return self.root / "hostler.yaml"

    @property
    def state(self) -> Path:
        """The state directory."""
        return self.root / "state"

    @property
    def hold(self) -> Path:
        """The hold file."""
        return self.root / "hold" / "box.json"

    def environment(self, **more: str) -> Mapping[str, str]:
        """Of the daemon and of each command: nothing of this machine's own Hostler is in it."""
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **keep,
            "HOME": str(self.root),
            "HOSTLER_CONFIG": str(self.config),
            "HOSTLER_STATE_DIR": str(self.state),
            "HOSTLER_BOX_RESERVATION_PATH": str(self.hold),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "PYTHONUNBUFFERED": "1",
            **more,
        }

    def write(self) -> None:
        """Write the config. JSON is YAML."""
        self.hold.parent.mkdir(mode=0o700, exist_ok=True)
        document = {
            "version": 1,
            "node": {"listen": f"127.0.0.1:{self.port}", "shutdown": "2s", **self.node},
            "hosts": {"local": {"memory": {"reserve": "64 MiB"}, **self.host}},
            "engines": self.engines,
            "routes": self.routes,
            **self.top,
        }
        self.config.write_text(json.dumps(document, indent=1))
        self.config.chmod(0o600)

    # ------------------------------------------------------------ the daemon

    async def spawn(self, *argv: str, **env: str) -> asyncio.subprocess.Process:
        """`hostler …`, its output in the log."""
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self.wrap,
                sys.executable,
                "-m",
                "hostler",
                *argv,
                env=self.environment(**self.around, **env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    async def start(self) -> None:
        """Start the daemon and wait until it answers."""
        self.write()
        self.daemon = await self.spawn("serve")
        await eventually(self.listens, f"the daemon listens:\n{self.words()}")

    def listens(self) -> bool:
        """Whether somebody listens where the daemon should, and commands find it; it must not have ended."""
        assert self.daemon is not None
        assert self.daemon.returncode is None, self.words()
        with socket.socket() as probe:
            heard = probe.connect_ex(("127.0.0.1", self.port)) == 0
        return heard and (self.state / "daemon.json").exists()

    def words(self) -> str:
        """The daemon's last words."""
        return "\n".join(self.log.read_text().splitlines()[-20:]) if self.log.exists() else ""

    def said(self, event: str) -> list[Json]:
        """The daemon's log lines of one event."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [line for line in found if line.get("event") == event]

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Signal the daemon and wait for its end. Its exit status."""
        assert self.daemon is not None
        send(self.daemon, number)
        async with asyncio.timeout(GONE_S):
            return await self.daemon.wait()

    async def run(self, *argv: str, **env: str) -> Done:
        """One command."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "hostler",
            *argv,
            env=self.environment(**env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60):
                out, err = await process.communicate()
        except TimeoutError:
            kill(process)
            await process.wait()
            raise AssertionError(f"hostler {' '.join(argv)} does not end") from None
        return Done(code=process.returncode or 0, out=out.decode(), err=err.decode())

    async def told(self, *argv: str) -> str:
        """What one command that succeeds says."""
        done = await self.run(*argv)
        assert done.code == 0, (argv, done.out, done.err, self.words())
        return done.out

    # ------------------------------------------------------------ HTTP

    def client(self, **headers: str) -> httpx2.AsyncClient:
        """A client of the daemon, patient."""
        return httpx2.AsyncClient(base_url=self.url, timeout=60, headers=headers)

    async def ask(self, path: str, body: Json, **headers: str) -> httpx2.Response:
        """One POST."""
        async with self.client(**headers) as client:
            return await client.post(path, json=body)

    async def chat(self, model: str, text: str = "hi", **more: object) -> httpx2.Response:
        """One chat completion."""
        return await self.ask("/v1/chat/completions", chat(model, text, **more))

    async def row(self, engine: str) -> Json:
        """An engine's row of the status."""
        async with self.client() as client:
            rows = (await client.get("/v1/hostler/engines")).json()["engines"]
        return next(row for row in rows if row["id"] == engine)

    async def is_state(self, engine: str, *states: str) -> None:
        """Return once the engine is in one of these states."""

        async def true() -> bool:
            return (await self.row(engine))["state"] in states

        await eventually(true, f"{engine} is {' or '.join(states)}\n{self.words()}")

    async def pid(self, engine: str) -> int:
        """The pid of an engine that runs."""
        pid = (await self.row(engine))["pid"]
        assert isinstance(pid, int)
        return pid

    @property
    def key(self) -> str:
        """The local key."""
        return (self.state / "local.key").read_text().strip()

    async def rows(self) -> Sequence[Json]:
        """The in-flight table."""
        async with self.client(authorization=f"Bearer {self.key}") as client:
            found = (await client.get("/v1/hostler/requests")).json()["requests"]
        assert isinstance(found, list)
        return found

    async def heard(self, engine: str) -> list[Json]:
        """The requests that a fake engine got, but for looks."""
        async with self.client() as client:
            found = (await client.get(f"/upstream/{engine}/fake/requests")).json()
        return [request for request in found if request["method"] == "POST"]

    # ------------------------------------------------------------ the end

    async def tear_down(self) -> None:
        """End the daemon, and each engine by the identity that its supervisor recorded."""
        if self.daemon is not None and self.daemon.returncode is None:
            try:
                await self.end()
            except TimeoutError:
                kill(self.daemon)
                await self.daemon.wait()
        await end_deadmen(self.state, self.hold)
        left: list[tuple[int, int]] = []
        for record in (self.state / "engines").glob("*/run.json"):
            with contextlib.suppress(ValueError):
                found = json.loads(record.read_text())
                left.append((found["supervisor_pid"], found["supervisor_ticks"]))
        for pid, ticks in left:
            process_table.send(pid, ticks, signal.SIGTERM)
        await eventually(lambda: not any(alive(*it) for it in left), f"supervisors are gone: {left}")


def alive(pid: int, ticks: int | None = None) -> bool:
    """Whether that very process lives."""
    found = process_table.read(pid)
    return found is not None and found.state != "Z" and (ticks is None or found.start_ticks == ticks)


@asynccontextmanager
async def house(root: Path, *, real: bool = False) -> AsyncIterator[House]:
    """A house that is torn down at the end. `real`: its engines are the real llama-server."""
    found = real_engine.find() if real else None
    it = House(root=root, program=found or real_engine.fake())
    try:
        yield it
    finally:
        await it.tear_down()


async def frames(lines: AsyncIterator[str]) -> list[str]:
    """The data of what is left of a stream, in order."""
    return [line.removeprefix("data: ") async for line in lines if line.startswith("data: ")]
