"""This host as a node: what leases do here, one fenced operation at a time (NODE-1, LEASE-8, LEASE-10).

Decides that an old fence number is refused, that a repeat is answered from its receipt, and which service
does which kind of step. In which order steps come, what they found and what is undone is the runner's.
Nothing here looks at the guard: an operation is the lease itself (LEASE-15).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hostler.domain.errors import InvalidRequest, Refusal, StepFailed
from hostler.domain.fence import Fence
from hostler.domain.holding import HOLD, ROUTE, Holding
from hostler.domain.plan import text
from hostler.domain.step import (
    ArmDeadman,
    CallWebhook,
    CheckMemory,
    DisarmDeadman,
    Found,
    FoundHold,
    FoundNothing,
    HoldHost,
    Operation,
    PointRoute,
    RemoveHold,
    RunCommand,
    UndoCommand,
    UndoWebhook,
    VerifyRestore,
)
from hostler.domain.values import format_duration
from hostler.domain.window import HostReport
from hostler.services.guard_files import GuardFiles
from hostler.services.hold_again import HoldAgain
from hostler.services.lanes import heard
from hostler.services.lease_processes import LeaseProcesses
from hostler.services.needs import Clock
from hostler.services.node_commands import NodeCommands
from hostler.services.node_deadman import NodeDeadman
from hostler.services.node_engines import NodeEngines
from hostler.services.node_hold import NodeHold
from hostler.services.node_routes import NodeRoutes
from hostler.services.node_windows import NodeWindows
from hostler.services.receipts import Receipts, same
from hostler.services.schedule_needs import NodeMemory
from hostler.services.window_strikes import WindowStrikes


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalNode:
    """`Node` for the host that this daemon runs on. `running` are the operations under way, by id."""

    host: str
    engines: NodeEngines
    routes: NodeRoutes
    hold: NodeHold
    commands: NodeCommands
    deadman: NodeDeadman
    windows: NodeWindows
    strikes: WindowStrikes
    receipts: Receipts
    processes: LeaseProcesses
    files: GuardFiles
    clock: Clock
    running: dict[str, tuple[Operation, asyncio.Task[None]]] = field(default_factory=dict)

    # ------------------------------------------------------------ the Node

    async def preflight(self, operation: Operation) -> None:
        """See `Node.preflight`."""
        self._here(operation)
        await self.receipts.check(operation, self._holder)
        match operation.step:
            case HoldHost():
                self.hold.preflight(operation)
            case PointRoute() as step:
                self.routes.preflight(step)
            case RunCommand() as step:
                self.commands.preflight(step)
            case ArmDeadman() as step:
                self.deadman.preflight(step)
            case (CheckMemory() | VerifyRestore()) as step:
                self.hold.lasts()
                await self.windows.preflight(step)
            case RemoveHold() | UndoCommand() | CallWebhook() | UndoWebhook() | DisarmDeadman():
                return
            case step:
                await self.engines.preflight(operation, step)

    async def observe(self, operation: Operation) -> Found:
        """See `Node.observe`."""
        self._here(operation)
        await self.receipts.check(operation, self._holder)
        match operation.step:
            case HoldHost() | RemoveHold():
                found: FoundHold = self.hold.observe()
                return found
            case PointRoute() as step:
                return self.routes.observe(step)
            case (RunCommand() | UndoCommand()) as step:
                return await self.commands.observe(step)
            case CallWebhook() | UndoWebhook() | CheckMemory() | VerifyRestore():
                return FoundNothing()
            case (ArmDeadman() | DisarmDeadman()) as step:
                return self.deadman.observe(step)
            case step:
                return await self.engines.observe(operation, step)

    async def perform(self, operation: Operation) -> None:
        """See `Node.perform`. Who asks may leave: what was begun is ended, and a repeat joins it."""
        self._here(operation)
        known = self.running.get(operation.id)
        if known is not None and same(known[0], operation):
            task = known[1]
        else:
            task = asyncio.create_task(self._perform(operation))
            task.add_done_callback(heard)
            self.running[operation.id] = operation, task
            task.add_done_callback(lambda _: self._over(operation.id, task))
        await asyncio.shield(task)

    async def verify(self, operation: Operation) -> str | None:
        """See `Node.verify`."""
        self._here(operation)
        await self.receipts.check(operation, self._holder)
        match operation.step:
            case (HoldHost() | RemoveHold()) as step:
                return self.hold.verify(operation.lease, held=isinstance(step, HoldHost))
            case PointRoute() as step:
                return self.routes.verify(step)
            case (RunCommand() | UndoCommand()) as step:
                return await self.commands.verify(step)
            case CallWebhook() | UndoWebhook():
                return None
            case (ArmDeadman() | DisarmDeadman()) as step:
                return self.deadman.verify(step)
            case CheckMemory() as step:
                return self.windows.seen(step)
            case VerifyRestore() as step:
                return await self.windows.still(operation, step)
            case step:
                return await self.engines.verify(operation, step)

    async def end_processes(self, lease: str) -> Sequence[str]:
        """See `Node.end_processes`."""
        return await self.processes.end(lease)

    async def raise_fence(self, fence: Fence | None) -> None:
        """See `Node.raise_fence`. Refuses `store_full`: it is up all the same, until a restart."""
        await self.files.raise_fence(fence)

    def recall(self) -> tuple[str, ...]:
        """What it knew before this start; a sentence for each file that cannot be read."""
        told = self.files.recall()
        held = self.files.guard.posts.held
        if held:
            self._recall_routes(held)
        return told

    def _recall_routes(self, held: Mapping[str, Holding]) -> None:
        """Once, where it is not known which profiles were active: those that leases pointed to (REL-1)."""
        if not self.routes.routes.current.lost:
            return
        pointed: dict[str, str] = {}
        for thing, holding in held.items():
            kind, _, name = thing.partition(" ")
            profile = self.receipts.pointed(holding.lease).get(name) if kind == ROUTE else None
            if profile is not None:
                pointed[name] = profile
        self.routes.routes.recall(pointed)

    async def adopt(self, held: Mapping[str, Holding]) -> None:
        """See `Node.adopt`. Refuses `store_full`: they are held all the same, until a restart."""
        async with self.routes.routes.lock:
            self._recall_routes(held)
        await self.files.adopt(held)
        await self.deadman.settle(held)
        await self.upkeep()

    # ------------------------------------------------------------ beside it

    async def register(self, lease: str, pid: int, start_ticks: int) -> None:
        """A process group of this host that works under the lease, and ends with it (JOB-5).

        Refuses `invalid_request` for a process that leads no group, or is an engine's.
        """
        lanes = self.engines.engines.lanes.by_id.values()
        if any(it.run is not None and pid in (it.run.pid, it.run.supervisor_pid) for it in lanes):
            raise InvalidRequest(
                what=f"Process {pid} is an engine's.", expected="Register a process of yours.", where="pid"
            )
        await self.processes.register(lease, pid, start_ticks)

    async def upkeep(self) -> None:
        """What this host does for its leases, again and again: their hold is there, with its end (HOLD-11).

        A window that its deadman put back, verified, holds nothing here any more (LEASE-14).
        """
        held = self.files.guard.posts.held
        over = {it.window for it in self.deadman.reports() if it.verified}
        if any(it.lease in over for it in held.values()):
            await self.files.adopt({thing: it for thing, it in held.items() if it.lease not in over})
        holding = self.files.guard.holding(HOLD, self.host)
        if holding is not None:
            again = HoldAgain(
                hold=self.hold,
                receipts=self.receipts,
                deadmen=self.deadman.deadmen,
                config=self.engines.engines.lanes.config,
            )
            await again.look(holding)

    async def memory(self) -> NodeMemory:
        """See `Node.memory`."""
        held, boot = self.files.guard.posts.held, self.clock.moment().boot
        windows = {it.lease for it in held.values() if it.mode}
        told = await self.receipts.remembered(held)
        gone = {it.lease for it in held.values() if it.boot not in ("", boot)}
        return replace(
            told,
            rebooted=tuple(sorted(gone)),
            reports=self.deadman.reports(),
            restoring=await asyncio.to_thread(self.deadman.restoring),
            strikes=await self.strikes.told(windows),
        )

    async def report(self, window: str) -> HostReport:
        """See `Node.report`. One that cannot be read says so."""
        return await asyncio.to_thread(self.windows.report, window)

    # ------------------------------------------------------------ one operation

    async def _perform(self, operation: Operation) -> None:
        await self.receipts.admit(operation, self._holder)
        past = await self.receipts.begin(operation)
        if past is not None and past.ended:
            if past.refusal is not None:
                raise past.refusal
            return
        # A bug, or the daemon's end, leaves it begun. A repeat goes on: every step looks before it acts.
        try:
            async with self.deadman.step(operation):
                await self._bounded(operation)
        except Refusal as refusal:
            await self.receipts.end(operation, refusal, live=self._leases())
            raise
        await self.receipts.end(operation, None, live=self._leases())

    async def _bounded(self, operation: Operation) -> None:
        """Do it and see it hold, within its deadline."""
        work = asyncio.ensure_future(self._work(operation))
        timer = asyncio.ensure_future(self.clock.sleep(operation.deadline_s))
        try:
            await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise StepFailed(
                    step=text(operation.step),
                    why=f"it was not done within {format_duration(operation.deadline_s)}",
                )
            work.result()
        finally:
            timer.cancel()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _work(self, operation: Operation) -> None:
        await self._doing(operation)
        seen = await self.verify(operation)
        if seen is not None:
            raise StepFailed(step=text(operation.step), why=seen)

    async def _doing(self, operation: Operation) -> None:
        match operation.step:
            case HoldHost() as step:
                await self.hold.write(operation, step)
            case RemoveHold():
                await self.hold.remove(operation)
            case PointRoute() as step:
                await self.routes.point(operation, step)
            case (RunCommand() | UndoCommand()) as step:
                await self.commands.run(step)
            case (CallWebhook() | UndoWebhook()) as step:
                await self.commands.call(operation, step)
            case ArmDeadman() as step:
                await self.deadman.arm(step)
            case DisarmDeadman() as step:
                await self.deadman.disarm(step)
            case (CheckMemory() | VerifyRestore()) as step:
                await self.windows.perform(operation, step)
            case step:
                await self.engines.perform(operation, step)

    def _here(self, operation: Operation) -> None:
        if operation.step.host != self.host:
            raise InvalidRequest(
                what=f"This is the node of {self.host}, not of {operation.step.host}.",
                expected="Ask the node of the step's host.",
                where="host",
            )

    def _leases(self) -> frozenset[str]:
        return frozenset(it.lease for it in self.files.guard.posts.held.values())

    def _holder(self, resource: str) -> str:
        held = self.files.guard.posts.held.values()
        return next((it.holder for it in held if it.resource == resource), "")

    def _over(self, id_: str, task: asyncio.Task[None]) -> None:
        known = self.running.get(id_)
        if known is not None and known[1] is task:
            del self.running[id_]
