"""One host of the test bed: its daemon, its commands, and a door through which a test speaks to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx2

from hostler.adapters.host import process_table
from tests.fakes.deadmen_left import end_deadmen
from tests.fakes.fake_engine import PATIENCE_S, eventually
from tests.fakes.signals import kill, send
from tests.story.house import Done, Json, chat
from tests.testbed.cable import Cable
from tests.testbed.hub import Hub

PORT: Final = 7070
KEY: Final = "hk_testbed_operator_0123456789"
RELAY: Final = Path(__file__).with_name("relay.py")
GONE_S: Final = 20.0


@dataclass(kw_only=True)
class Box:
    """One host: its daemon, its state, its door.

    `around` is added to the daemon's environment. `trusts`: the certificate that its daemon shows; none: it
    speaks plain HTTP.
    """

    name: str
    root: Path
    cable: Cable | Hub
    around: dict[str, str] = field(default_factory=dict)
    wrap: tuple[str, ...] = ()
    trusts: str | None = None
    daemon: asyncio.subprocess.Process | None = None
    relay: asyncio.subprocess.Process | None = None

    def __post_init__(self) -> None:
        for name in ("run", "hold"):
            (self.root / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def config(self) -> Path:
        """Its copy of the config."""
        return self.root / "hostler.yaml"

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self.root / "state"

    @property
    def hold(self) -> Path:
        """Its hold file; a reboot empties the directory that it is in."""
        return self.root / "hold" / "box.json"

    @property
    def log(self) -> Path:
        """Its daemon's log."""
        return self.root / "daemon.log"

    @property
    def door(self) -> str:
        """The socket that leads to its daemon."""
        return str(self.root / "door")

    def environment(self, **more: str) -> Mapping[str, str]:
        """Of the daemon and of each command on this host."""
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **keep,
            "HOME": str(self.root),
            "HOSTLER_HOST": self.name,
            "HOSTLER_CONFIG": str(self.config),
            "HOSTLER_STATE_DIR": str(self.state),
            "HOSTLER_BOX_RESERVATION_PATH": str(self.hold),
            "XDG_RUNTIME_DIR": str(self.root / "run"),
            "PYTHONUNBUFFERED": "1",
            **more,
        }

    async def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        with self.log.open("ab") as log:
            self.daemon = await asyncio.create_subprocess_exec(
                *self.cable.inside(self.name),
                *self.wrap,
                *(sys.executable, "-m", "hostler", "serve"),
                env=self.environment(**self.around),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if self.relay is None:
            self.relay = await asyncio.create_subprocess_exec(
                *self.cable.inside(self.name),
                *(sys.executable, str(RELAY), self.door, str(PORT)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            assert self.relay.stdout is not None
            await self.relay.stdout.readline()
        await eventually(self.answers, f"{self.name} answers:\n{self.words()}", patience_s=60.0)

    async def answers(self) -> bool:
        """Whether the daemon answers; it must not have ended."""
        assert self.daemon is not None
        assert self.daemon.returncode is None, self.words()
        try:
            async with self.client() as client:
                return (await client.get("/health")).status_code == 200
        except httpx2.HTTPError:
            return False

    def words(self) -> str:
        """The daemon's last words."""
        return "\n".join(self.log.read_text().splitlines()[-20:]) if self.log.exists() else ""

    async def end(self, number: int = signal.SIGTERM) -> None:
        """Signal the daemon and wait for its end."""
        assert self.daemon is not None
        send(self.daemon, number)
        async with asyncio.timeout(GONE_S):
            await self.daemon.wait()

    # ------------------------------------------------------------ asking

    def client(self, key: str = KEY) -> httpx2.AsyncClient:
        """A client of this host's daemon, through the door."""
        trust = ssl.create_default_context(cadata=self.trusts)
        trust.check_hostname = False
        return httpx2.AsyncClient(
            transport=httpx2.AsyncHTTPTransport(uds=self.door, verify=trust),
            base_url=f"{'http' if self.trusts is None else 'https'}://127.0.0.1:{PORT}",
            timeout=60,
            headers={"authorization": f"Bearer {key}", "connection": "close"},
        )

    async def get(self, path: str, **query: str) -> Json:
        """What is at `path`."""
        async with self.client() as client:
            got = await client.get(path, params=query)
        assert got.status_code == 200, got.text
        found = got.json()
        assert isinstance(found, dict)
        return found

    async def chat(self, model: str, text: str = "hi") -> httpx2.Response:
        """One chat completion at this host's gateway."""
        async with self.client() as client:
            return await client.post("/v1/chat/completions", json=chat(model, text))

    async def said(self, model: str) -> str:
        """What a model answers through this host's gateway."""
        got = await self.chat(model)
        assert got.status_code == 200, got.text
        return str(got.json()["choices"][0]["message"]["content"])

    async def row(self, engine: str) -> Json:
        """An engine's row of the status."""
        rows = (await self.get("/v1/hostler/engines"))["engines"]
        assert isinstance(rows, list)
        return next(row for row in rows if row["id"] == engine)

    async def is_state(self, engine: str, *states: str, patience_s: float = PATIENCE_S) -> None:
        """Return once the engine is in one of these states."""

        async def true() -> bool:
            return (await self.row(engine))["state"] in states

        await eventually(true, f"{engine} is {states}\n{self.words()}", patience_s=patience_s)

    async def profile(self, route: str) -> str:
        """The active profile of a route of this host's gateway."""
        rows = (await self.get("/v1/hostler/routes"))["routes"]
        assert isinstance(rows, list)
        return str(next(row["active"] for row in rows if row["name"] == route))

    async def node(self, host: str) -> Json:
        """A row of the list of nodes."""
        rows = (await self.get("/v1/hostler/nodes"))["nodes"]
        assert isinstance(rows, list)
        return next(row for row in rows if row["host"] == host)

    async def sees(self, host: str, *, up: bool, patience_s: float = PATIENCE_S) -> None:
        """Return once this head says that of the host's node."""

        async def true() -> bool:
            return (await self.node(host))["up"] is up

        await eventually(true, f"{host} is {'up' if up else 'away'}\n{self.words()}", patience_s=patience_s)

    async def warnings(self) -> str:
        """What the status tells people."""
        daemon = (await self.get("/v1/hostler/status"))["daemon"]
        assert isinstance(daemon, dict)
        return "\n".join(daemon["warnings"])

    async def events(self, *kinds: str) -> Sequence[Json]:
        """The events of these types in this host's own log, in order."""
        found: list[Json] = []
        now = str((await self.get("/gateway/schedule"))["cursor"])
        cursor, more = f"{now.rpartition(':')[0]}:0", True
        while more:
            page = await self.get("/gateway/schedule", since=cursor, type=",".join(kinds))
            rows = page["events"]
            assert isinstance(rows, list)
            found += rows
            cursor, more = str(page["cursor"]), bool(page["more"])
        return found

    async def run(self, *argv: str, **env: str) -> Done:
        """One command on this host."""
        process = await asyncio.create_subprocess_exec(
            *self.cable.inside(self.name),
            *(sys.executable, "-m", "hostler", *argv),
            env=self.environment(**env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(90):
                out, err = await process.communicate()
        except TimeoutError:
            kill(process)
            await process.wait()
            raise AssertionError(f"hostler {' '.join(argv)} does not end") from None
        return Done(code=process.returncode or 0, out=out.decode(), err=err.decode())

    async def told(self, *argv: str, **env: str) -> str:
        """What a command that succeeds says."""
        done = await self.run(*argv, **env)
        assert done.code == 0, (argv, done.out, done.err, self.words())
        return done.out

    # ------------------------------------------------------------ the end

    def supervisors(self) -> list[tuple[int, int]]:
        """The identities of the supervisors that the engines' records name."""
        found = []
        for record in (self.state / "engines").glob("*/run.json"):
            with contextlib.suppress(ValueError, KeyError):
                row = json.loads(record.read_text())
                found.append((row["supervisor_pid"], row["supervisor_ticks"]))
        return found

    async def engines_end(self) -> None:
        """End each engine by the identity that its supervisor recorded."""
        left = self.supervisors()
        for pid, ticks in left:
            process_table.send(pid, ticks, signal.SIGTERM)
        await eventually(lambda: not any(process_table.alive(*it) for it in left), f"{left} are gone")

    async def tear_down(self) -> None:
        """End the daemon, the engines and the door."""
        for process in (self.daemon, self.relay):
            if process is not None and process.returncode is None:
                send(process, signal.SIGTERM)
                try:
                    async with asyncio.timeout(GONE_S):
                        await process.wait()
                except TimeoutError:
                    kill(process)
                    await process.wait()
        await end_deadmen(self.state, self.hold)
        await self.engines_end()
