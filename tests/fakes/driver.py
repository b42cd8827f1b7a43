"""A Driver without processes: engines live in memory, and a test says what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from hostler.domain.engine import (
    ExitReport,
    Health,
    Launch,
    PortOwner,
    Probe,
    Restore,
    Run,
    StopReport,
    served_of,
)
from hostler.domain.errors import EngineFailed, Refusal
from hostler.domain.values import EngineId

BOOT = "fake-boot"
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
KILLED = ExitReport(status=None, signal=9)
TERMINATED = ExitReport(status=None, signal=15)


@dataclass(slots=True)
class FakeEngine:
    """One engine that runs. `exit` is set when it has ended."""

    launch: Launch
    run: Run
    health: Health
    model_ids: tuple[str, ...]
    rss: int = 0
    exit: ExitReport | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class FakeDriver:
    """All engines of one kind.

    `started`, `stopped` and `probed` list what was asked, in order. Engines in `loading` load until
    `finish_loading`, those in `deaf` survive every stop, those in `ids` serve that id. `refusals` are raised
    by the next start of that engine, once. `gate` unset makes every start wait for it.
    """

    kind: str = "process"
    started: list[EngineId] = field(default_factory=list)
    stopped: list[EngineId] = field(default_factory=list)
    probed: list[EngineId] = field(default_factory=list)
    loading: set[EngineId] = field(default_factory=set)
    deaf: set[EngineId] = field(default_factory=set)
    ids: dict[EngineId, str] = field(default_factory=dict)
    sizes: dict[EngineId, int] = field(default_factory=dict)
    refusals: dict[EngineId, Refusal] = field(default_factory=dict)
    strangers: dict[int, str] = field(default_factory=dict)
    logs: dict[EngineId, list[str]] = field(default_factory=dict)
    running: dict[EngineId, FakeEngine] = field(default_factory=dict)
    ended: dict[int, ExitReport] = field(default_factory=dict)
    gate: asyncio.Event | None = None
    pids: int = 1000
    revivals: dict[EngineId, str] = field(default_factory=dict)

    # ---------------------------------------------------------------- what a test says

    def finish_loading(self, engine: EngineId) -> None:
        """Its model is loaded."""
        self.loading.discard(engine)
        if engine in self.running:
            self.running[engine].health = "ok"

    def crash(self, engine: EngineId, *, status: int | None = 1, number: int | None = None) -> None:
        """It ends by itself."""
        self._end(engine, ExitReport(status=status, signal=number))

    def freeze(self, engine: EngineId) -> None:
        """It lives and holds its port, but answers nothing any more."""
        self.running[engine].health = "unreachable"

    def thaw(self, engine: EngineId) -> None:
        """It answers again."""
        self.running[engine].health = "ok"

    def put_stranger(self, port: int, name: str = "pid 99 (nginx)") -> None:
        """Something that is not ours listens on `port`."""
        self.strangers[port] = name

    def up(self) -> set[EngineId]:
        """Who runs."""
        return set(self.running)

    # ---------------------------------------------------------------- the Driver

    async def start(self, launch: Launch) -> Run:
        """Spawn it in memory."""
        if self.gate is not None:
            await self.gate.wait()
        self.started.append(launch.engine)
        refusal = self.refusals.pop(launch.engine, None)
        if refusal is not None:
            raise refusal
        if launch.engine in self.running:
            raise EngineFailed(engine=launch.engine, why="another supervisor runs this engine already")
        self.pids += 2
        run = Run(
            engine=launch.engine,
            driver=self.kind,
            pid=self.pids,
            start_ticks=self.pids * 10,
            supervisor_pid=self.pids - 1,
            supervisor_ticks=self.pids * 10,
            boot_id=BOOT,
            port=launch.port,
            started_at=STARTED,
            served=served_of(launch),
        )
        self.running[launch.engine] = FakeEngine(
            launch=launch,
            run=run,
            health="loading" if launch.engine in self.loading else "ok",
            model_ids=(self.ids.get(launch.engine, launch.model),),
            rss=self.sizes.get(launch.engine, 0),
        )
        return run

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        """What that engine's fields say."""
        await asyncio.sleep(0)
        self.probed.append(launch.engine)
        found = self._of(run)
        if launch.port in self.strangers:
            name = self.strangers[launch.port]
            told = f"port {launch.port} is held by {name}"
            return self._saw("stranger", alive=found is not None, stranger=name, detail=told)
        if found is None:
            return self._saw("nobody", alive=False, detail=f"nothing listens on port {launch.port}")
        if launch.port != found.launch.port:
            return self._saw("nobody", alive=True, detail=f"nothing listens on port {launch.port}")
        ids = found.model_ids if found.health == "ok" else ()
        status = {"ok": 200, "loading": 503}.get(found.health)
        return Probe(
            alive=True,
            port_owner="ours",
            health=found.health,
            http_status=status,
            model_ids=ids,
            detail=f"GET {launch.url}{launch.health}: {status or 'no answer'}",
        )

    def _saw(self, owner: PortOwner, *, alive: bool, detail: str, stranger: str = "") -> Probe:
        return Probe(alive=alive, port_owner=owner, stranger=stranger, health="unreachable", detail=detail)

    async def adopt(self, launch: Launch) -> Run | None:
        """The run in memory: a second daemon in a test gets this same driver."""
        found = self.running.get(launch.engine)
        return found.run if found else None

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        """Ends it, unless it is deaf. A run that is not there any more is gone already."""
        await asyncio.sleep(0)
        self.stopped.append(launch.engine)
        if self._of(run) is None:
            return StopReport(gone=True, port_free=True)
        if launch.engine in self.deaf:
            signals = ("SIGKILL",) if now else ("SIGTERM", "SIGTERM", "SIGKILL")
            return StopReport(
                gone=False, port_free=False, signals=signals, seconds=timeout_s, left=(run.pid,)
            )
        self._end(launch.engine, KILLED if now else TERMINATED)
        return StopReport(gone=True, port_free=True, signals=("SIGKILL",) if now else ("SIGTERM",))

    async def wait_exit(self, launch: Launch, run: Run) -> ExitReport:
        """Return when that run has ended."""
        found = self._of(run)
        if found is None:
            return self.ended[run.pid]
        await found.ended.wait()
        return found.exit or KILLED

    def tail(self, launch: Launch, lines: int) -> list[str]:
        """The last of `logs`."""
        return self.logs.get(launch.engine, [])[-lines:] if lines > 0 else []

    async def follow(self, launch: Launch) -> AsyncIterator[str]:
        """All of `logs`, and no more."""
        for line in self.logs.get(launch.engine, []):
            yield line

    def restore(self, launch: Launch) -> Restore:
        """A command that nobody runs."""
        return Restore(argv=("true",), env={}, cwd="/", probe_url=launch.url, model=launch.model)

    def rss(self, run: Run) -> int | None:
        """What `sizes` says."""
        found = self._of(run)
        return found.rss if found else None

    async def revival(self, launch: Launch) -> str | None:
        """What `revivals` says."""
        return self.revivals.get(launch.engine)

    async def set_revival(self, launch: Launch, revival: str | None) -> None:
        """Kept in `revivals`."""
        if revival is None:
            self.revivals.pop(launch.engine, None)
        else:
            self.revivals[launch.engine] = revival

    def _of(self, run: Run | None) -> FakeEngine | None:
        found = self.running.get(run.engine) if run else None
        return found if found and found.run == run else None

    def _end(self, engine: EngineId, report: ExitReport) -> None:
        found = self.running.pop(engine)
        found.exit = self.ended[found.run.pid] = report
        found.ended.set()
