"""The work on leases that is under way: activations and restores, one task for each lease.

Decides nothing of what is done: the runner does. A task that ends with a bug leaves its lease stuck, never
in a state that nobody works on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hostler.domain.errors import Refusal, ScheduleUnavailable, StoreFull
from hostler.domain.lease import Lease, LeaseId, State
from hostler.domain.step import (
    ArmDeadman,
    DisarmDeadman,
    DrainEngine,
    EndDrain,
    HoldHost,
    RemoveHold,
    ResumeEngine,
    Step,
    SuspendEngine,
)
from hostler.services.holdings import Holders
from hostler.services.needs import Clock
from hostler.services.operations import Operations
from hostler.services.recovery import interrupt
from hostler.services.runner import Runner
from hostler.services.schedule_needs import ScheduleStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """`changed` wakes who waits for a lease; `bug` logs an exception of ours and returns its id."""

    runner: Runner
    holders: Holders
    store: ScheduleStore
    clock: Clock
    changed: Callable[[], None]
    bug: Callable[[BaseException], str]
    tasks: dict[LeaseId, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def running(self) -> Mapping[LeaseId, asyncio.Task[None]]:
        """What runs now, by lease."""
        return {id_: task for id_, task in self.tasks.items() if not task.done()}

    def begin(self, id_: LeaseId, state: State) -> None:
        """Do the steps of an ACTIVATING lease, undo those of a RELEASING one; joins what runs."""
        if id_ in self.running:
            return
        task = asyncio.create_task(self._work(id_, state))
        self.tasks[id_] = task
        task.add_done_callback(lambda _: self._ended(id_, task))

    def _ended(self, id_: LeaseId, task: asyncio.Task[None]) -> None:
        if self.tasks.get(id_) is task:
            del self.tasks[id_]
        self.changed()

    async def withdraw(self, lease: Lease) -> None:
        """Take a lease's own claims off its hosts, which was abandoned: hold, suspensions, drains, deadmen.

        Routes and what else it changed stay as they are: the answer names them (LEASE-14). What a node
        refuses is logged; a person's `resume` and `box release --force` do the same.
        """
        ask = Operations(
            nodes=self.runner.nodes, bug=self.bug, lease=lease, now=self.clock.moment(), run=lease.seq
        )
        await self.holders.sync()
        for n, step in enumerate(lease.plan, start=1):
            claim = own_claim(step)
            if claim is None or step.host not in self.runner.nodes:
                continue
            try:
                await self.runner.nodes[step.host].perform(ask.backward(n, claim))
            except Refusal as refusal:
                self.bug(refusal)

    async def end(self) -> None:
        """Stop working: what is under way is left to be found stuck by the next daemon (LEASE-14)."""
        tasks = list(self.tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, id_: LeaseId, state: State) -> None:
        try:
            # Before the first step: from here on nobody else touches what it will change (LEASE-15).
            await self.holders.sync()
            if state is State.ACTIVATING:
                await self.runner.activate(id_)
            else:
                await self.runner.restore(id_)
            await self.holders.sync()
        except (ScheduleUnavailable, StoreFull) as refusal:
            await self._interrupted(id_, str(refusal).removesuffix("."))
        except Exception as error:  # noqa: BLE001 - whatever it was, the lease must not look as if worked on
            await self._interrupted(id_, f"error {self.bug(error)}")

    async def _interrupted(self, id_: LeaseId, why: str) -> None:
        try:
            await interrupt(self.store, self.clock, id_, why)
        except Refusal as refusal:
            # A store that takes nothing: the keeper begins it again, and finds what was done (REL-1).
            self.bug(refusal)


def own_claim(step: Step) -> DisarmDeadman | EndDrain | RemoveHold | ResumeEngine | None:
    """What takes the lease's own claim on a thing away, and nothing else."""
    match step:
        case HoldHost(host=host):
            return RemoveHold(host=host)
        case SuspendEngine(host=host, engine=engine):
            return ResumeEngine(host=host, engine=engine, start=False)
        case DrainEngine(host=host, engine=engine):
            return EndDrain(host=host, engine=engine)
        case ArmDeadman(host=host, window=window):
            return DisarmDeadman(host=host, window=window)
        case _:
            return None
