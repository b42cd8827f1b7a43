"""What a window does to this host beyond leases: it looks at memory and verifies the restore (WIN-3, WIN-4).

Decides when the memory that evictions gave back suffices, and when a restore counts as verified. What is
stopped and started is `node_engines`'; which commands verify is the mode's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hostler.domain.engine import State
from hostler.domain.errors import (
    MemoryNever,
    MemoryNow,
    MemoryResidue,
    NotFound,
    PortConflict,
    StepFailed,
    StoreFull,
)
from hostler.domain.events import Event
from hostler.domain.fleet import HOST_POOL, DriverKind, frozen
from hostler.domain.gate import personal
from hostler.domain.memory import Pools, available_of, pool_of, total_of, unexplained
from hostler.domain.mode import Mode, ToolCommand
from hostler.domain.plan import text
from hostler.domain.step import CheckMemory, Operation, VerifyRestore
from hostler.domain.values import EngineId, HostName, format_duration, format_size, gib, shorten
from hostler.domain.window import Back, HostReport, unusual
from hostler.domain.window_plan import budget_s, members, script_host
from hostler.services.engines import Engines
from hostler.services.lanes import Lane
from hostler.services.needs import Clock, Events, MemoryReader, PortTable, StateFiles
from hostler.services.node_commands import script_environment
from hostler.services.node_needs import Commands
from hostler.services.proving import Proving
from hostler.services.window_files import Before, back_of, before_of
from hostler.wire.values import to_json

LOOK_S: Final = 0.25
LONGEST_S: Final = 1e6
"""What a start took, at most: a longer one in a report is damage, and is not told."""
WITHIN_S: Final = 5.0
"""How long readings may take to settle: each stop has waited for its own memory already (MEM-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWindows:
    """The memory and verification steps of one host. Notes are in `windows/<lease>/` of the state."""

    engines: Engines
    proving: Proving
    commands: Commands
    memory: MemoryReader
    ports: PortTable
    files: StateFiles
    clock: Clock
    events: Events
    hold_path: str = ""

    # ------------------------------------------------------------ before the first change

    async def preflight(self, step: CheckMemory | VerifyRestore) -> None:
        """Whether the window could be opened, as far as can be told before anything is changed (WIN-8).

        Refuses `not_found` for a mode or a program that is not there, `port_conflict` and `memory_residue`
        for somebody unknown, `step_failed` when the mode's script does not say where it stands (MODE-4).
        """
        if isinstance(step, CheckMemory):
            self._possible(step)
            self._residue(step)
            return
        mode = self._mode(step)
        mine = mode.tool if script_host(self.engines.lanes.config.fleet, mode) == step.host else None
        tool = () if mine is None else (mine.open, mine.close, mine.status)
        for argv in (*(it.argv for it in mode.verify if it.host == step.host), *(it.argv for it in tool)):
            if not self.commands.exists(argv[0]):
                raise NotFound(what="command", name=shorten(argv[0], 256))
        for lane in self.engines.lanes.by_id.values():
            self._known(lane)
        if mine is not None:
            await self._answers(step, mine.status)

    def _known(self, lane: Lane) -> None:
        """Whoever listens where an engine of ours would, and is none of ours, cannot be evicted (WIN-8)."""
        if lane.launch.driver == DriverKind.EXTERNAL or lane.state.up or lane.run is not None:
            return
        who = self.ports.holder(lane.launch.address, lane.launch.port)
        ours = (it.launch.port == lane.launch.port for it in self.engines.lanes.by_id.values() if it.run)
        if who is not None and not any(ours):
            raise PortConflict(engine=lane.engine.id, port=lane.launch.port, holder=who)

    async def _answers(self, step: VerifyRestore, status: ToolCommand) -> None:
        try:
            environment = script_environment(self.hold_path)
            ran = await self.commands.run(status.argv, timeout_s=status.timeout_s, env=environment)
        except OSError as error:
            raise StepFailed(step=text(step), why=f"{shorten(status.argv[0])}: {error}") from error
        if ran.status is None:
            why = f"the script's status did not answer within {format_duration(status.timeout_s)}"
            raise StepFailed(step=text(step), why=why)

    async def perform(self, operation: Operation, step: CheckMemory | VerifyRestore) -> None:
        """Look, note what serves before the window, or verify what is back after it. Refuses as these do."""
        if isinstance(step, CheckMemory):
            await self.look(step)
        elif operation.found is not None:
            await self.note(operation, step)
        else:
            await self.verify(operation, step)

    # ------------------------------------------------------------ memory

    async def look(self, step: CheckMemory) -> None:
        """Wait until the evictions have given their memory back. Refuses `memory_residue`, `memory_now`."""
        ends = self.clock.elapsed() + WITHIN_S
        while True:
            try:
                self._residue(step)
                self._available(step)
            except (MemoryResidue, MemoryNow):
                if self.clock.elapsed() >= ends:
                    raise
                await self.clock.sleep(LOOK_S)
            else:
                return

    def seen(self, step: CheckMemory) -> str | None:
        """None when memory is as it should be now, else the sentence that says what is wrong."""
        try:
            self._residue(step)
        except MemoryResidue as refusal:
            return str(refusal).removesuffix(".")
        return None

    def _possible(self, step: CheckMemory) -> None:
        """Refuses `memory_never` for a gate above all that the host has: no eviction gives so much."""
        reading = self._pools().get(HOST_POOL)
        if step.available is None or reading is None:
            return
        total = total_of(pool_of(self.engines.lanes.config.fleet.host, HOST_POOL), reading)
        if step.available > total:
            sum_ = f"it asks for {gib(step.available)} GiB available; the host has {gib(total)}"
            raise MemoryNever(engine="The mode", host=step.host, arithmetic=sum_)

    def _residue(self, step: CheckMemory) -> None:
        """Refuses `memory_residue` for what GPU memory holds beyond our engines, or a stop left (WIN-3)."""
        lanes = self.engines.lanes.by_id.values()
        holders = {it.engine.id: it.taken for it in lanes if it.run is not None or it.state.up}
        beyond, pool = unexplained(self._pools(), holders)
        if beyond > step.max_residue:
            raise MemoryResidue(
                engine=f"nobody's process in {pool}",
                host=step.host,
                residue=format_size(beyond),
            )
        for lane in lanes:
            if lane.residue is not None and lane.run is None:
                raise MemoryResidue(engine=lane.engine.id, host=step.host, residue=lane.residue)

    def _available(self, step: CheckMemory) -> None:
        if step.available is None:
            return
        reading = self._pools().get(HOST_POOL)
        host = self.engines.lanes.config.fleet.host
        seen = 0 if reading is None else available_of(pool_of(host, HOST_POOL), reading)
        if seen < step.available:
            raise MemoryNow(
                engine="The mode",
                host=step.host,
                arithmetic=f"it asks for {gib(step.available)} GiB available; {gib(seen)} are",
                retry_after=None,
            )

    def _pools(self) -> Pools:
        try:
            return self.memory.read()
        except OSError:
            return {}

    # ------------------------------------------------------------ the restore

    async def note(self, operation: Operation, step: VerifyRestore) -> None:
        """Write down which standing engines serve now, and what they took: that is to be so again (WIN-4).

        With it what is to be verified: the config may say something else by then (F26).
        """
        mode = self._mode(step)
        lanes = self._standing(mode)
        before = Before(
            up={it.engine.id: dict(it.taken) for it in lanes if it.ready},
            standing=tuple(it.engine.id for it in lanes),
            checks=tuple((it.argv, it.timeout_s) for it in mode.verify if it.host == step.host),
            tool=mode.tool is not None,
        )
        await self._save(f"windows/{operation.lease}/before", before.row())

    async def verify(self, operation: Operation, step: VerifyRestore) -> None:
        """See that what was up is up as itself, and that every command ends with exit 0 (WIN-4).

        Refuses `step_failed` with the first that does not. The report is written down in either case.
        """
        before = await self._before(operation, step)
        rows = [await self._back(before, lane) for lane in self._lanes(before)]
        wrong = [f"{row.engine}: {row.why}" for row in rows if row.engine in before.up and row.why]
        wrong += [why for argv, timeout_s in before.checks if (why := await self._ran(argv, timeout_s))]
        await self._report(operation, step, rows, wrong)
        if wrong:
            raise StepFailed(step=text(step), why="; ".join(wrong))

    async def still(self, operation: Operation, step: VerifyRestore) -> str | None:
        """None when the engines that came back serve still; the commands were run already."""
        if operation.found is not None:
            return None
        before = await self._before(operation, step)
        down = [
            it.engine.id
            for it in self._lanes(before)
            if it.engine.id in before.up and (it.owed or it.state is State.FAILED)
        ]
        return f"{', '.join(down)} went down again" if down else None

    async def _back(self, before: Before, lane: Lane) -> Back:
        """One engine as it is now. One that a person suspended meanwhile is left so: that is their wish."""
        engine = lane.engine
        if any(map(personal, lane.suspended_by)):
            return self._row(lane, verified=False, why="")
        if before.tool and engine.id in before.up:
            deadline = self.clock.elapsed() + budget_s(engine)
            await self.engines.lanes.until(lane, deadline, lambda it: it.ready)
        seen = await self.proving.look(lane)
        why = seen or unusual(before.up.get(engine.id, {}), lane.taken) or ""
        if why and engine.id not in before.up:
            why = f"{why}, and it was not up when the window opened"
        return self._row(lane, verified=not why, why=why)

    def _row(self, lane: Lane, *, verified: bool, why: str) -> Back:
        return Back(
            engine=lane.engine.id,
            host=lane.engine.host,
            up=lane.ready,
            verified=verified,
            why=why,
            memory=frozen(dict(lane.taken)),
            seconds=lane.load_s,
        )

    async def _ran(self, argv: tuple[str, ...], timeout_s: float) -> str | None:
        """Why a verify command did not succeed; None when it did."""
        name = shorten(argv[0])
        try:
            ran = await self.commands.run(argv, timeout_s=timeout_s)
        except OSError as error:
            return f"{name} cannot be run: {error.strerror or error}"
        if ran.status == 0:
            return None
        how = (
            f"did not end within {format_duration(timeout_s)}"
            if ran.status is None
            else f"ended with {ran.status}"
        )
        return f"{name} {how}: {shorten(ran.last.strip(), 300)}".removesuffix(": ")

    def _standing(self, mode: Mode) -> tuple[Lane, ...]:
        """The engines of this host that the window takes down and brings back."""
        fleet = self.engines.lanes.config.fleet
        here = HostName(fleet.here)
        usual = next((it for it in fleet.modes.values() if it.standing), None)
        back = () if usual is None else members(fleet, usual, here)
        stays = members(fleet, mode, here)
        found = (self.engines.lanes.by_id.get(EngineId(it)) for it in back if it not in stays)
        return tuple(it for it in found if it is not None)

    def _lanes(self, before: Before) -> tuple[Lane, ...]:
        """Those of them that the config still has."""
        found = (self.engines.lanes.by_id.get(EngineId(name)) for name in before.standing)
        return tuple(it for it in found if it is not None)

    def _mode(self, step: VerifyRestore) -> Mode:
        mode = self.engines.lanes.config.fleet.modes.get(step.mode)
        if mode is None:
            raise NotFound(what="mode", name=step.mode, nearest="It is in the config no more.")
        return mode

    # ------------------------------------------------------------ what is kept

    def report(self, window: str) -> HostReport:
        """What this host wrote down of its restore (WIN-4): its daemon, who looks last, else its deadman.

        Refuses `not_found` for a window that was never opened here.
        """
        try:
            known = [self.files.load(f"windows/{window}/{name}") for name in ("verified", "report", "before")]
            if known == [None, None, None]:
                raise NotFound(what="window", name=shorten(window))
            found = known[0] or known[1] or {}
        except ValueError as error:
            return HostReport(wrong=(f"the report cannot be read: {error}",))
        rows, wrong = found.get("engines"), found.get("wrong", found.get("failing"))
        here = str(self.engines.lanes.config.fleet.here)
        return HostReport(
            engines=tuple(back_of(row, here) for row in rows if isinstance(row, Mapping) and "up" in row)
            if isinstance(rows, list)
            else (),
            wrong=tuple(map(str, wrong)) if isinstance(wrong, list) else (),
        )

    async def _before(self, operation: Operation, step: VerifyRestore) -> Before:
        """How it was when the window opened; where that cannot be read every standing engine is to be up."""
        try:
            found = await asyncio.to_thread(self.files.load, f"windows/{operation.lease}/before")
        except ValueError:
            found = None
        before = before_of(found)
        if before is not None:
            return before
        mode = self._mode(step)
        names = tuple(it.engine.id for it in self._standing(mode))
        return Before(
            up={name: {} for name in names},
            standing=names,
            checks=tuple((it.argv, it.timeout_s) for it in mode.verify if it.host == step.host),
            tool=mode.tool is not None,
        )

    async def _report(
        self, operation: Operation, step: VerifyRestore, rows: list[Back], wrong: list[str]
    ) -> None:
        told = [to_json(row) for row in rows]
        facts = {"host": step.host, "mode": step.mode, "engines": told, "wrong": wrong}
        await self._save(f"windows/{operation.lease}/verified", facts)
        self.events.emit(
            Event(
                type="window_restored",
                at=self.clock.now(),
                actor=f"lease:{operation.lease}",
                subject=frozen({"host": step.host, "lease": operation.lease}),
                message="; ".join(wrong) or f"{step.host} is back in the standing mode, and verified",
                facts=frozen({**facts, "verified": not wrong}),
            )
        )

    async def _save(self, name: str, value: Mapping[str, object]) -> None:
        try:
            await asyncio.to_thread(self.files.save, name, value)
        except OSError as error:
            raise StoreFull(file=f"{name}.json", why=error.strerror or str(error)) from error
