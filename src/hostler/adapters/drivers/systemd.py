"""Engines that are systemd units (ENG-2): the manager starts and ends them, we ask it by `systemctl`.

Decides how such an engine is started, found again, looked at and ended. The manager is the record: what
runs is known by its InvocationID, so there is no run.json, and a unit that it started itself (one that is
enabled, at boot) is adopted like one that we started. What it ends is judged by the unit's control group:
no process left in it, not only a state.

`systemctl stop` also calls off `Restart=`, which a signal alone would not. So only what brings a unit up
after a reboot, its being enabled, is a revival here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hostler.adapters.commands import SystemCommands
from hostler.adapters.drivers import members, ports, units
from hostler.adapters.drivers.journal import Journal
from hostler.adapters.drivers.looking import Family, Looks, strangers
from hostler.adapters.drivers.run_record import clean_environment
from hostler.adapters.drivers.units import Unit
from hostler.adapters.host import process_table
from hostler.adapters.systemctl import Systemctl, Unanswered
from hostler.domain.engine import ExitReport, Launch, Probe, Restore, Run, StopReport
from hostler.domain.errors import EngineFailed, NotLaunchable
from hostler.domain.values import EngineId

KIND: Final = "systemd"
BEGIN_S: Final = 10.0
"""How long the manager may take to begin a unit: what it waits for (After=) counts too."""
PID_S: Final = 2.0
"""How long a start waits for the main process; one with a long ExecStartPre= gets it later."""
AGAIN_S: Final = 5.0
"""The most that a second SIGTERM may take before SIGKILL; less where the first had less."""
EXIT_LOOK_S: Final = 1.0
"""How often a unit without a main process is looked at: it has no end that one could wait for."""
LOOK_S: Final = 1.0
"""What the manager may take of one probe, where the process table cannot tell whether the unit lives."""
ANSWER_S: Final = 1.5
"""And what the engine may take of it over HTTP: 3 s are promised, the process table takes the rest."""
ENABLED: Final = ("enabled", "enabled-runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a stop found of a run: its unit as it was then. Its control group stays its own when it fails."""

    unit: Unit
    run: Run

    @property
    def ours(self) -> bool:
        """Whether what is there is that run, what it left, or what Restart= made of it."""
        return self.unit.invocation in (self.run.identity, "") or self.unit.restarts > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdDriver:
    """The Driver of `driver: systemd`. `environment` is ours, of which five names are passed on.

    `cgroups` is where control groups are mounted. `_groups` remembers each unit's, for what is asked
    between two questions to the manager.
    """

    environment: Mapping[str, str]
    cgroups: Path = units.CGROUPS
    looks: Looks = field(default_factory=lambda: Looks(timeout_s=ANSWER_S))
    journal: Journal | None = None
    _groups: dict[EngineId, str] = field(default_factory=dict, init=False)

    # ------------------------------------------------------------ the start

    async def start(self, launch: Launch) -> Run:
        """Begin it; returns once it has an invocation. Refusals: engine_failed, not_launchable.

        A start that is cancelled half way still happens, and is ended again before the cancellation goes
        on: no unit runs that nobody asked for.
        """
        task = asyncio.ensure_future(self._start(launch))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with contextlib.suppress(EngineFailed, NotLaunchable):
                await self.stop(launch, await task, timeout_s=0, now=True)
            raise

    async def _start(self, launch: Launch) -> Run:
        try:
            before = await self._unit(launch)
            self._startable(launch, before)
            manager, name = self._manager(launch), _name(launch)
            with contextlib.suppress(Unanswered):  # A unit that was not up yet has nothing to be reset.
                # Its own count of starts would stand in the way: the back-off is ours (ENG-3).
                await manager.ask("reset-failed", "--", name)
            await manager.ask("start", "--no-block", "--", name)
            after = await self._begun(launch, before.invocation)
            if after.lives:
                return self._run(launch, after)
            await manager.ask("stop", "--no-block", "--", name)
        except Unanswered as no:
            raise NotLaunchable(engine=launch.engine, why=no.why, fix=no.fix) from no
        raise EngineFailed(engine=launch.engine, why=f"its unit {name} {after.ended()} at once")

    def _startable(self, launch: Launch, unit: Unit) -> None:
        name, call = _name(launch), f"systemctl --{launch.scope}"
        if unit.load == "not-found":
            why = f"the {launch.scope} manager has no unit {name}"
            fix = f"Write it and `{call} daemon-reload`, or correct unit and scope in the config."
            raise NotLaunchable(engine=launch.engine, why=why, fix=fix)
        if unit.load == "masked":
            fix = f"`{call} unmask {name}` lets it be started."
            raise NotLaunchable(engine=launch.engine, why=f"its unit {name} is masked", fix=fix)
        if unit.load != "loaded":
            fix = f"`{call} status {name}` says which line."
            why = f"its unit {name} cannot be read ({unit.load})"
            raise NotLaunchable(engine=launch.engine, why=why, fix=fix)
        if unit.lives:
            raise EngineFailed(engine=launch.engine, why=f"its unit {name} runs already")

    async def _begun(self, launch: Launch, before: str) -> Unit:
        """The unit once it has a new invocation, and a main process or time enough for one.

        Raises EngineFailed, the start called off, when nothing begins.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            unit, waited = await self._unit(launch), loop.time() - begun
            new = unit.invocation not in ("", before)
            if new and (unit.main_pid or not unit.lives or waited >= PID_S):
                return unit
            over = not unit.job and unit.down
            if not new and (over or waited >= BEGIN_S):
                await self._manager(launch).ask("stop", "--no-block", "--", _name(launch))
                what = "ended as soon as it began" if over else f"was not begun within {BEGIN_S:g} s"
                why = f"its unit {_name(launch)} {what} ({unit.result or unit.sub})"
                raise EngineFailed(engine=launch.engine, why=why)
            await asyncio.sleep(members.POLL_S)

    def _run(self, launch: Launch, unit: Unit) -> Run:
        process = process_table.read(unit.main_pid) if unit.main_pid else None
        self._groups[launch.engine] = unit.group
        return Run(
            engine=launch.engine,
            driver=KIND,
            pid=process.pid if process is not None else 0,
            start_ticks=process.start_ticks if process is not None else 0,
            supervisor_pid=0,
            supervisor_ticks=0,
            boot_id=process_table.boot_id(),
            port=launch.port,
            started_at=unit.started_at(process),
            identity=unit.invocation,
        )

    async def adopt(self, launch: Launch) -> Run | None:
        """What runs of that unit now, whoever started it; None when nothing does, or nobody can be asked."""
        try:
            unit = await self._unit(launch)
        except Unanswered:
            return None
        return self._run(launch, unit) if unit.lives and unit.invocation else None

    # ------------------------------------------------------------ looking

    async def probe(self, launch: Launch, run: Run | None) -> Probe:
        """One look: no inference, no waking. Never raises; takes at most 3 s."""
        ended = "" if run is None else await self._ended(launch, run)
        alive = run is not None and ended is None
        pids = await asyncio.to_thread(self._pids, run) if run is not None and alive else ()
        family = Family(alive=alive, pids=tuple(pids))
        return await self.looks.look(launch, lambda: family, lambda: ended or "")

    async def _ended(self, launch: Launch, run: Run) -> str | None:
        """None while it lives, else how it ended: `; it exited with status 3`.

        By its main process, else (it has none, or another by now) by what the manager says.
        """
        if run.pid and process_table.alive(run.pid, run.start_ticks):
            return None
        try:
            unit = await self._unit(launch, timeout_s=LOOK_S)
        except Unanswered as no:
            return f"; {no.why}"
        if unit.invocation != run.identity:
            return "; it has ended"
        return None if unit.lives else f"; it {unit.ended()}"

    async def wait_exit(self, launch: Launch, run: Run) -> ExitReport:
        """Return when that run has ended, whoever ended it."""
        pid, ticks = run.pid, run.start_ticks
        while True:
            if pid:
                await members.end_of(pid, ticks)
            try:
                unit = await self._unit(launch)
            except Unanswered as no:
                if pid:
                    return ExitReport(status=None, signal=None, hint=no.why)
                await asyncio.sleep(EXIT_LOOK_S)
                continue
            if unit.invocation != run.identity:
                again = "its manager started it again" if unit.lives else "its unit kept no more of it"
                return ExitReport(status=None, signal=None, hint=again)
            if not unit.lives or (pid and not unit.main_pid and unit.exit_code):
                return unit.ended()
            other = process_table.read(unit.main_pid) if unit.main_pid not in (0, pid) else None
            if other is not None:
                pid, ticks = other.pid, other.start_ticks
            else:
                await asyncio.sleep(members.POLL_S if pid else EXIT_LOOK_S)

    def tail(self, launch: Launch, lines: int) -> list[str]:
        """The last lines of its journal, oldest first, as the engine wrote them."""
        return self._journal().tail(launch.scope, _name(launch), lines)

    def follow(self, launch: Launch) -> AsyncIterator[str]:
        """Lines of its journal as they come."""
        return self._journal().follow(launch.scope, _name(launch))

    def rss(self, run: Run) -> int | None:
        """Bytes that the run's processes hold in memory now, None where it cannot be told (MEM-5)."""
        pids = self._pids(run)
        return process_table.held_bytes(pids) if pids else None

    # ------------------------------------------------------------ the end

    async def stop(self, launch: Launch, run: Run, *, timeout_s: float, now: bool = False) -> StopReport:
        """SIGTERM, wait, SIGTERM again, SIGKILL, then look (ENG-6). `now` skips the waits.

        What its manager started again after that run (Restart=) is ended with it; what a person started
        anew is another run, and left alone.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        sent: tuple[str, ...] = ()
        try:
            found = _Found(unit=await self._unit(launch), run=run)
            pids = await asyncio.to_thread(self._members, found)
            before = await asyncio.to_thread(ports.in_the_way, launch.address, run.port)
            foreign = await asyncio.to_thread(strangers, pids, before)
            if found.ours and (pids or not found.unit.down):
                sent = await self._end(launch, found, timeout_s=timeout_s, now=now)
            left = await self._left(launch, found)
        except Unanswered as no:
            raise EngineFailed(engine=launch.engine, why=f"it cannot be stopped: {no.why}") from no
        self.looks.forget(launch.engine)
        after = await asyncio.to_thread(ports.in_the_way, launch.address, run.port)
        return StopReport(
            gone=left is not None and not left,
            port_free=set(after) <= set(foreign),  # Who had it against us before is no trace of ours.
            signals=sent,
            seconds=loop.time() - begun,
            left=tuple(sorted(left or ())),
        )

    async def _end(self, launch: Launch, found: _Found, *, timeout_s: float, now: bool) -> tuple[str, ...]:
        """The signals in their order. `systemctl stop` sends the first, and calls off Restart=."""
        manager, name = self._manager(launch), _name(launch)
        sent: list[str] = []
        if not now:
            await manager.ask("stop", "--no-block", "--", name)
            sent.append(signal.SIGTERM.name)
            if await self._gone(launch, found, timeout_s):
                return tuple(sent)
            sent.append(signal.SIGTERM.name)
            await self._signal(launch, signal.SIGTERM)
            if await self._gone(launch, found, min(timeout_s, AGAIN_S)):
                return tuple(sent)
        sent.append(signal.SIGKILL.name)
        await self._signal(launch, signal.SIGKILL)
        if now:
            await manager.ask("stop", "--no-block", "--", name)
            await self._signal(launch, signal.SIGKILL)
        await self._gone(launch, found, members.KILL_WAIT_S)
        return tuple(sent)

    async def _signal(self, launch: Launch, number: signal.Signals) -> None:
        """To every process of the unit, by its manager. What is left is seen afterwards, not assumed."""
        with contextlib.suppress(Unanswered):  # It refuses where no process is left: that is what we want.
            await self._manager(launch).ask("kill", f"--signal={number.name}", "--", _name(launch))

    async def _gone(self, launch: Launch, found: _Found, within_s: float) -> bool:
        """Whether nothing of it is left, in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while (left := await self._left(launch, found)) is None or left:
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(max(0.0, min(members.POLL_S, deadline - loop.time())))
        return True

    async def _left(self, launch: Launch, found: _Found) -> frozenset[int] | None:
        """The pids that are still there; None when there are none and its manager is not done with it."""
        if not found.ours:
            return frozenset()
        pids = await asyncio.to_thread(self._members, found)
        if pids:
            return pids
        return frozenset() if (await self._unit(launch)).down else None

    # ------------------------------------------------------------ what else starts it

    def restore(self, launch: Launch) -> Restore:
        """The start in words that need no driver."""
        manager, name = self._manager(launch), _name(launch)
        return Restore(
            argv=manager.argv("start", "--", name),
            env=clean_environment(self.environment, {}),
            cwd="/",
            probe_url=launch.url + (launch.health if launch.health.startswith("/") else ""),
            model=launch.model,
            stop_argv=manager.argv("stop", "--", name),
        )

    async def revival(self, launch: Launch) -> str | None:
        """`enabled`, or `enabled-runtime` (until the next boot only); None: nothing starts it at boot."""
        try:
            state = (await self._unit(launch)).file_state
        except Unanswered as no:
            raise EngineFailed(engine=launch.engine, why=no.why) from no
        return state if state in ENABLED else None

    async def set_revival(self, launch: Launch, revival: str | None) -> None:
        """`systemctl disable` for None, `enable` for what `revival` told. Again changes nothing."""
        name, manager = _name(launch), self._manager(launch)
        try:
            unit = await self._unit(launch)
            if revival is not None:
                runtime = ("--runtime",) if revival == "enabled-runtime" else ()
                await manager.ask("enable", *runtime, "--", name)
            elif unit.file_state in ENABLED:
                runtime = ("--runtime",) if unit.file_state == "enabled-runtime" else ()
                behind = await asyncio.to_thread(os.path.realpath, unit.file)
                await manager.ask("disable", *runtime, "--", name)
                if (await self._unit(launch)).load == "not-found":
                    # A unit that is only linked loses its link too, and could not be enabled again.
                    await manager.ask("link", *runtime, "--", behind)
        except Unanswered as no:
            raise EngineFailed(engine=launch.engine, why=no.why) from no

    # ------------------------------------------------------------ the manager

    def _manager(self, launch: Launch) -> Systemctl:
        return Systemctl(scope=launch.scope, commands=SystemCommands(environment=self.environment))

    async def _unit(self, launch: Launch, *, timeout_s: float | None = None) -> Unit:
        """The unit now. Raises Unanswered."""
        manager = self._manager(launch)
        return units.parse(await manager.properties(_name(launch), units.PROPERTIES, timeout_s=timeout_s))

    def _members(self, found: _Found) -> frozenset[int]:
        if not found.ours:
            return frozenset()
        main = process_table.read(found.unit.main_pid) if found.unit.main_pid else None
        return units.members(found.unit.group, main, self.cgroups)

    def _pids(self, run: Run) -> frozenset[int]:
        main = process_table.read(run.pid) if run.pid else None
        if main is not None and main.start_ticks != run.start_ticks:
            main = None
        return units.members(self._groups.get(run.engine, ""), main, self.cgroups)

    def _journal(self) -> Journal:
        return self.journal or Journal(environment=self.environment)


def _name(launch: Launch) -> str:
    """The unit's name. The config gives every systemd engine one."""
    if launch.unit is None:
        raise ValueError(f"{launch.engine} has no unit")
    return launch.unit
