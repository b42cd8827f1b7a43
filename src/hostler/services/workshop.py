"""The work on leases that is under way: activations, restores and withdrawals, one task for each lease.

Decides nothing of what is done: the runner does. A task that ends with a bug leaves its lease stuck, never
in a state that nobody works on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hostler.domain.errors import NodeUnreachable, Refusal, ScheduleUnavailable, StoreFull
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.lease import Lease, LeaseId, State
from hostler.domain.plan import text
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
from hostler.domain.values import Priority, shorten
from hostler.services.holdings import Holders
from hostler.services.needs import Clock
from hostler.services.operations import Operations
from hostler.services.recovery import interrupt
from hostler.services.runner import Runner
from hostler.services.schedule_needs import ScheduleStore

Claim = DisarmDeadman | EndDrain | RemoveHold | ResumeEngine


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
    leaving: dict[LeaseId, asyncio.Task[None]] = field(default_factory=dict)
    """Abandoned leases whose claims are being taken off their hosts."""

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

    def withdraw(self, lease: Lease) -> None:
        """Begin to take the claims of a lease that was abandoned off its hosts; joins what runs (LEASE-14).

        Its hold, suspensions, drains and deadmen go; routes and what else it changed stay as they are: the
        answer names them. Who asked need not wait: a host that is away takes its time, and no other's.
        """
        if lease.id in self.leaving:
            return
        task = asyncio.create_task(self._withdraw(lease))
        self.leaving[lease.id] = task
        task.add_done_callback(lambda _: self._left(lease.id))

    def _left(self, id_: LeaseId) -> None:
        self.leaving.pop(id_, None)
        self.changed()

    async def _withdraw(self, lease: Lease) -> None:
        claims: dict[str, list[tuple[int, Claim]]] = {}
        for n, step in enumerate(lease.plan, start=1):
            claim = own_claim(step)
            if claim is not None and step.host in self.runner.nodes:
                claims.setdefault(step.host, []).append((n, claim))
        try:
            # What is still told as held would be refused there, or written again.
            await self.holders.sync()
            await asyncio.gather(*(self._leave(lease, host, each) for host, each in claims.items()))
        except Exception as error:  # noqa: BLE001 - nobody waits for this task: whatever it was is logged
            self.bug(error)

    async def _leave(self, lease: Lease, host: str, claims: Sequence[tuple[int, Claim]]) -> None:
        """The claims on one host, in order; what it keeps is told. One that is away is not asked again."""
        ask = Operations(
            nodes=self.runner.nodes, bug=self.bug, lease=lease, now=self.clock.moment(), run=lease.seq
        )
        kept: list[str] = []
        why = ""
        for n, claim in claims:
            if why:
                kept.append(text(claim))
                continue
            try:
                await self.runner.nodes[host].perform(ask.backward(n, claim))
            except NodeUnreachable as lost:
                kept.append(text(claim))
                why = str(lost)
            except Refusal as refusal:
                kept.append(f"{text(claim)} ({shorten(str(refusal))})")
        if kept:
            event = _kept(lease, host, kept, why, self.clock.now())
            await self.store.write(lambda tx: tx.record(event))

    async def end(self) -> None:
        """Stop working: what is under way is left to be found stuck by the next daemon (LEASE-14)."""
        tasks = [*self.tasks.values(), *self.leaving.values()]
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


def _kept(lease: Lease, host: str, kept: Sequence[str], why: str, now: datetime) -> Event:
    """That a host still has claims of a lease which was abandoned, and how a person ends them (LEASE-14)."""
    because = f": {shorten(why).removesuffix('.')}" if why else ""
    return Event(
        type="lease_left_there",
        at=now,
        subject=frozen({"lease": lease.id, "host": host}),
        message=f"Lease {lease.id} of {shorten(lease.holder)} was abandoned, and {host} may still have what"
        f" it did there{because}. Not done: {'; '.join(kept)}. On {host} `hostler status` tells what is left,"
        " and which command ends it.",
        facts=frozen({"steps": list(kept)}),
        priority=Priority.HIGH,
        once=f"lease_left_there {lease.id} {host} abandoned",
    )


def own_claim(step: Step) -> Claim | None:
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
