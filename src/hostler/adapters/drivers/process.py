"""Engines that are processes of this host (ENG-2): daemon -> supervisor -> engine.

Decides how such an engine is started, found again, looked at and ended. Which process is whose is decided
by `members`, what an answer means by `hostler.domain.engine.judge`, whether to start by the gate.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hostler import supervisor
from hostler.adapters.drivers import http_look, members, ports, rotation, run_record, transient
from hostler.adapters.drivers.http_look import Look
from hostler.adapters.host import process_table
from hostler.adapters.host.listeners import Socket
from hostler.domain.engine import ExitReport, Launch, PortOwner, Probe, Restore, Run, StopReport
from hostler.domain.errors import EngineFailed, NotLaunchable
from hostler.domain.values import EngineId, format_duration, shorten

KIND: Final = "process"
AGAIN_S: Final = 5.0
"""The most that a second SIGTERM may take before SIGKILL; less where the first had less."""
SPEC_FILE: Final = "spec.json"
RESTORE_FILE: Final = "restore.json"
ADOPT_WAIT_S: Final = 2.0
"""How long `adopt` waits for a supervisor that holds the lock but has not written its record yet."""
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC, errno.EISDIR})


@dataclass(slots=True)
class _Seen:
    """When an engine last answered (loop time, seconds) and with what status: for `Probe.detail` only."""

    at: float
    status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDriver:
    """The Driver of `driver: process`. `environment` is ours, of which five names are passed on.

    `python` and `script` are the argv that starts a supervisor; `units` is the systemd manager in
    whose transient scopes it is started, None where there is none. `look_s` bounds one look over HTTP.
    """

    environment: Mapping[str, str]
    units: transient.Manager | None = None
    python: str = sys.executable
    script: str = supervisor.__file__
    look_s: float = http_look.LOOK_S
    _seen: dict[EngineId, _Seen] = field(default_factory=dict, init=False)

    async def start(self, launch: Launch) -> Run:
        """Spawn it; returns once its identity is durable. Refusals: engine_failed, not_launchable.

        A start that is cancelled half way still happens, is recorded, and is ended again before the
        cancellation goes on: no process is left that nobody knows.
        """
        task = asyncio.ensure_future(self._start(launch))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with contextlib.suppress(EngineFailed, NotLaunchable):
                await self.stop(launch, await task, timeout_s=0, now=True)
            raise

    async def _start(self, launch: Launch) -> Run:
        await self._end_leftovers(launch)
        try:
            spec = await asyncio.to_thread(self._write_spec, launch, SPEC_FILE)
            child = await asyncio.create_subprocess_exec(
                *self._argv(launch, spec),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=run_record.clean_environment(self.environment, {}),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise EngineFailed(engine=launch.engine, why=f"its supervisor did not start: {error}") from error
        told, complaint = await child.communicate()
        return self._told(launch, told, complaint)

    def _told(self, launch: Launch, told: bytes, complaint: bytes) -> Run:
        """The run that the command told of. Raises EngineFailed or NotLaunchable with its sentence."""
        try:
            value = json.loads(told)
        except ValueError:
            why = shorten(complaint.decode(errors="replace").strip() or "it told nothing", 200)
            raise EngineFailed(engine=launch.engine, why=f"its supervisor did not start: {why}") from None
        if "error" not in value:
            return run_record.parse(value, KIND).run
        if value["errno"] in _NOT_THERE:
            fix = "Install it, or correct argv and cwd in the config."
            raise NotLaunchable(engine=launch.engine, why=value["error"], fix=fix)
        raise EngineFailed(engine=launch.engine, why=value["error"])

    async def _end_leftovers(self, launch: Launch) -> None:
        """What an earlier run of this engine left, its supervisor dead: it would hold the port and memory."""
        record = run_record.load(Path(launch.directory), KIND)
        if record is None or members.lives(record.run):
            return
        if (await asyncio.to_thread(members.members, record.run, record.output)).engine:
            await members.end(record.run, record.output, timeout_s=0, again_s=0, now=True)

    def _write_spec(self, launch: Launch, name: str) -> Path:
        """The spec's path in the engine's directory, which is made where it is missing. Raises OSError."""
        directory = Path(launch.directory)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        spec = directory / name
        run_record.write_spec(spec, launch, run_record.clean_environment(self.environment, launch.env))
        return spec

    def _argv(self, launch: Launch, spec: Path) -> tuple[str, ...]:
        plain = (self.python, "-I", "-S", self.script, str(spec))
        return transient.wrapped(self.units, f"hostler-engine-{launch.engine}", plain)

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        """One look: no inference, no waking. Never raises; takes at most 3 s."""
        alive, owner, stranger = await asyncio.to_thread(self._whose, launch, run)
        if owner == "stranger":
            told = f"port {launch.port} is held by {stranger}"
            return Probe(alive=alive, port_owner=owner, stranger=stranger, health="unreachable", detail=told)
        if owner == "nobody":
            told = f"nothing listens on {launch.address}:{launch.port}{self._last_words(launch, run)}"
            return Probe(alive=alive, port_owner=owner, health="unreachable", detail=told)
        seen = await http_look.look(launch.url, launch.health, {}, timeout_s=self.look_s)
        return Probe(
            alive=alive,
            port_owner=owner,
            health=seen.health,
            http_status=seen.status,
            model_ids=seen.ids,
            detail=self._with_last_answer(launch, seen),
        )

    def _whose(self, launch: Launch, run: Run | None) -> tuple[bool, PortOwner, str]:
        """Whether the run lives; whose the port is; who the stranger is."""
        alive = run is not None and members.lives(run)
        try:
            blocking = ports.in_the_way(launch.address, launch.port)
        except OSError:
            return alive, "unknown", ""
        strangers = self._strangers(launch, run, blocking)
        if strangers:
            return alive, "stranger", ports.holder_of(strangers[0])
        return alive, "ours" if blocking else "nobody", ""

    def _strangers(self, launch: Launch, run: Run | None, found: Iterable[Socket]) -> list[Socket]:
        """Those of `found` that no process of the run has open (ENG-4)."""
        engine = members.members(run, self._output(launch, run)).engine if run else ()
        ours: set[int] = set()
        for process in engine:
            ours |= process_table.open_inodes(process.pid, "socket") or frozenset()
        return [listener for listener in found if listener.inode not in ours]

    def _last_words(self, launch: Launch, run: Run | None) -> str:
        """How the run ended, when that is on record: `; it exited with status 3`."""
        record = run_record.load(Path(launch.directory), KIND)
        ended = record.ended if record is not None and record.run == run else None
        return f"; it {ended}" if ended else ""

    def _output(self, launch: Launch, run: Run) -> int | None:
        """The inode of the run's output pipe, where the record is of this very run."""
        record = run_record.load(Path(launch.directory), KIND)
        return record.output if record is not None and record.run == run else None

    def _with_last_answer(self, launch: Launch, seen: Look) -> str:
        now = asyncio.get_running_loop().time()
        if seen.health != "unreachable":
            self._seen[launch.engine] = _Seen(now, seen.status)
            return seen.detail
        last = self._seen.get(launch.engine)
        if last is None:
            return f"{seen.detail}; it has not answered yet"
        ago = format_duration(now - last.at)
        return f"{seen.detail}; last answer {last.status or 'a connection'}, {ago} ago"

    async def adopt(self, launch: Launch) -> Run | None:
        """The recorded run if that very process still lives (ENG-7), else None.

        A record that is damaged names nobody, but a supervisor that lives holds its engine's lock: that is
        who runs, and what it runs is its child.
        """
        directory = Path(launch.directory)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ADOPT_WAIT_S
        while True:
            record = run_record.load(directory, KIND)
            if record is not None and record.run.engine == launch.engine and members.lives(record.run):
                return record.run
            if not _locked(directory):
                return None
            if loop.time() >= deadline:
                return await asyncio.to_thread(self._by_lock, launch)
            await asyncio.sleep(members.POLL_S)

    def _by_lock(self, launch: Launch) -> Run | None:
        """The run of the supervisor that holds the engine's lock; None when the kernel names nobody."""
        holder = lock_holder(Path(launch.directory) / run_record.LOCK_FILE)
        supervising = process_table.read(holder) if holder is not None else None
        if supervising is None:
            return None
        children = [it for it in process_table.everyone().values() if it.ppid == supervising.pid]
        running = min(children, key=lambda it: it.start_ticks, default=supervising)
        return Run(
            engine=launch.engine,
            driver=KIND,
            pid=running.pid,
            start_ticks=running.start_ticks,
            supervisor_pid=supervising.pid,
            supervisor_ticks=supervising.start_ticks,
            boot_id=process_table.boot_id(),
            port=launch.port,
            started_at=datetime.now(UTC),
        )

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        """SIGTERM, wait, SIGTERM again, SIGKILL, then look (ENG-6). `now` skips the waits."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        output = self._output(launch, run)
        before = await asyncio.to_thread(ports.in_the_way, launch.address, run.port)
        strangers = await asyncio.to_thread(self._strangers, launch, run, before)
        again_s = min(timeout_s, AGAIN_S)
        ended = await members.end(run, output, timeout_s=timeout_s, again_s=again_s, now=now)
        self._seen.pop(launch.engine, None)
        after = await asyncio.to_thread(ports.in_the_way, launch.address, run.port)
        return StopReport(
            gone=not ended.left,
            port_free=set(after) <= set(strangers),  # Who had it against us before is no trace of ours.
            signals=ended.signals,
            seconds=loop.time() - begun,
            left=ended.left,
        )

    async def wait_exit(self, launch: Launch, run: Run) -> ExitReport:
        """Return when that run has ended, whoever ended it."""
        for pid, ticks in ((run.pid, run.start_ticks), (run.supervisor_pid, run.supervisor_ticks)):
            await _end_of(pid, ticks)
        record = run_record.load(Path(launch.directory), KIND)
        if record is not None and record.run == run and record.ended is not None:
            return record.ended
        return ExitReport(status=None, signal=None, hint="its supervisor died, and the engine with it")

    def tail(self, launch: Launch, lines: int) -> list[str]:
        """The last log lines, oldest first, as the engine wrote them."""
        return rotation.tail(Path(launch.directory), lines, launch.log_files)

    def follow(self, launch: Launch) -> AsyncIterator[str]:
        """Log lines as they come."""
        return rotation.follow(Path(launch.directory), launch.log_files)

    def restore(self, launch: Launch) -> Restore:
        """The start in words that need no driver: the supervisor's argv on a spec that is written now.

        Raises OSError when it cannot be written: then there is no restore to promise.
        """
        return Restore(
            argv=self._argv(launch, self._write_spec(launch, RESTORE_FILE)),
            env=run_record.clean_environment(self.environment, {}),
            cwd="/",
            probe_url=launch.url + (launch.health if launch.health.startswith("/") else ""),
            model=launch.model,
        )

    def rss(self, run: Run) -> int | None:
        """Bytes that the run's processes hold in memory now, None where it cannot be told (MEM-5)."""
        found = members.members(run, None).engine
        return process_table.held_bytes(process.pid for process in found) if found else None

    async def revival(self, launch: Launch) -> str | None:
        """None. Its supervisor runs it once."""
        return None

    async def set_revival(self, launch: Launch, revival: str | None) -> None:
        """Nothing: there is no such setting."""


def _locked(directory: Path) -> bool:
    """Whether a supervisor has this directory: it keeps a lock from before its engine to after it."""
    try:
        fd = os.open(directory / run_record.LOCK_FILE, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)


def lock_holder(path: Path, locks: Path = Path("/proc/locks")) -> int | None:
    """The pid that holds the flock on `path`, by the kernel's table; None when it names nobody we can see."""
    try:
        inode = path.stat().st_ino
        lines = locks.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        # `1: FLOCK ADVISORY WRITE 4711 fe:01:5678 0 EOF`; who waits for a lock has `->` in second place.
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            return int(fields[4]) if int(fields[4]) > 0 else None
    return None


async def _end_of(pid: int, ticks: int) -> None:
    """Return when that very process has ended. It is not our child: a pidfd becomes readable at its end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        if not process_table.alive(pid, ticks):
            return
        loop.add_reader(handle, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
