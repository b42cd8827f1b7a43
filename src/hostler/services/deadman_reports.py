"""What deadmen restored, taken into the schedule: the lease ends, and nothing is restored twice (WIN-7, F15).

Decides that the receipt of one host is the release of the whole window (LEASE-14), and that it is stuck when
every host has tried and one could not be verified; and that a window whose run a restart of the head cut off
is released by the head once its deadmen had their time, for no person is there. What is left (other hosts,
routes, suspensions, the deadmen themselves) is undone by the journal as always: an engine that serves again
is seen to be back. What a receipt says is `hostler.domain.deadman`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hostler.domain.deadman import BY, CAUSE, DeadmanReport, armed_hosts, ending, failing, settles
from hostler.domain.errors import NodeOutdated, NodeUnreachable
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.journal import EntryState
from hostler.domain.lease import Lease, LeaseId, RestoreFailed, State, UndoBegun
from hostler.domain.moment import Moment
from hostler.domain.values import Priority
from hostler.services.going_back import is_remembered
from hostler.services.lease_changes import change
from hostler.services.schedule_needs import Node, NodeMemory, ScheduleStore, Tx
from hostler.services.window_guard import Strike
from hostler.services.workshop import Workshop

LOOK_S: Final = 2.0
DEADMEN_S: Final = 90.0
"""A deadman waits 60 s for a daemon that died midway; where none has begun by then, none will."""
UNFINISHED: Final = "the head put back what was cut off"
AT_REST: Final = frozenset({State.ACTIVE, State.STUCK})
"""Nobody works on such a lease: one that is worked on is refused `already_restored`, and is stuck then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadmanReports:
    """Asks the nodes of windows. `looked` has when that was, in elapsed seconds; `taken` what was taken in.

    `cut_off` has since when a window is seen to be cut off. `blocked` says which node has not reported since
    the schedule went back. A receipt is taken in once: what fails after it is a person's to look at
    (LEASE-14). `strike` counts what a node's guard saw (WIN-6).
    """

    store: ScheduleStore
    nodes: Mapping[str, Node]
    workshop: Workshop
    strike: Strike
    blocked: Callable[[], NodeUnreachable | None] = lambda: None
    looked: list[float] = field(default_factory=list)
    taken: set[DeadmanReport] = field(default_factory=set)
    cut_off: dict[str, float] = field(default_factory=dict)

    async def look(self, now: Moment) -> None:
        """One look, every 2 s, if a window is there. Refuses `schedule_unavailable`, `store_full`."""
        if self.looked and now.elapsed - self.looked[-1] < LOOK_S:
            return
        self.looked[:] = [now.elapsed]
        live = await self.store.read(lambda tx: tx.live())
        windows = [it for it in live if it.state in AT_REST and armed_hosts(it.plan)]
        if self.blocked() is not None:
            # What a node that has not reported did for it would be taken for nothing (LEASE-8).
            windows = [it for it in windows if not is_remembered(it)]
        told = await self._memories({host for it in windows for host in armed_hosts(it.plan)})
        for lease in windows:
            await self._strikes(lease, told)
            if not await self._receipts(lease, told, now):
                await self._unfinished(lease, now)

    async def _memories(self, hosts: set[str]) -> Sequence[NodeMemory]:
        found: list[NodeMemory] = []
        for host in sorted(hosts & self.nodes.keys()):
            try:
                found.append(await self.nodes[host].memory())
            except (NodeUnreachable, NodeOutdated):
                continue  # Its receipt is there when it is back (F15).
        return found

    async def _strikes(self, lease: Lease, told: Sequence[NodeMemory]) -> None:
        for it in (strike for memory in told for strike in memory.strikes):
            if it.window == lease.id and it.note not in lease.strikes:
                await self.strike(it.window, it.note)

    async def _receipts(self, lease: Lease, told: Sequence[NodeMemory], now: Moment) -> bool:
        """What a deadman of one host put back is the release of the whole window (LEASE-14): whether it was.

        While another one is at it that is waited for: what two hosts do by themselves nobody has to do again.
        """
        found = [it for memory in told for it in memory.reports if it.window == lease.id]
        busy = any(lease.id in memory.restoring for memory in told)
        if busy or not found or self.taken.issuperset(found):
            return busy
        self.taken.update(found)
        if await self.store.write(partial(_taken, id_=lease.id, reports=found, now=now)):
            self.workshop.begin(lease.id, State.RELEASING)
        return True

    async def _unfinished(self, lease: Lease, now: Moment) -> None:
        """Release a window whose opening or closing was cut off, by a restart of the head mostly (WIN-11).

        Each deadman looks at its own host's daemon: where only the head died, or the deadmen were disarmed
        already, none of them begins. What could not be put back is a person's to look at (LEASE-14).
        """
        if not _is_cut_off(lease):
            self.cut_off.pop(lease.id, None)
            return
        since = self.cut_off.setdefault(lease.id, now.elapsed)
        if now.elapsed - since < DEADMEN_S:
            return
        del self.cut_off[lease.id]
        if await self.store.write(partial(_released, id_=lease.id, now=now)):
            self.workshop.begin(lease.id, State.RELEASING)


def _taken(tx: Tx, id_: LeaseId, reports: Sequence[DeadmanReport], now: Moment) -> bool:
    """The receipts in the journal, and the lease on its way to its end; whether its undo is to begin."""
    lease = tx.lease(id_)
    if lease is None or lease.state not in AT_REST:
        return False
    bad = failing(reports)
    if bad is not None and {it.host for it in reports} >= set(armed_hosts(lease.plan)):
        if lease.failing != bad:
            _tell(tx, lease, reports, now)
            lease = change(tx, lease, UndoBegun(ending=ending(reports), why=CAUSE), now).lease
            change(tx, lease, RestoreFailed(failing=bad), now)
        return False
    _tell(tx, lease, reports, now)
    for entry in tx.journal(id_):
        if entry.state.owed and any(settles(it, entry.step) for it in reports):
            tx.mark(id_, entry.n, EntryState.UNDONE, BY)
    change(tx, lease, UndoBegun(ending=ending(reports), why=CAUSE), now)
    return True


def _is_cut_off(lease: Lease) -> bool:
    """Whether it is stuck and nothing failed: its run just ended. One that was open had none (WIN-1)."""
    return lease.state is State.STUCK and lease.failing is None and not is_remembered(lease)


def _released(tx: Tx, id_: LeaseId, now: Moment) -> bool:
    """The window on its way to its end, unless somebody released it meanwhile; whether its undo begins.

    Under a fence no timer reverts anything (LEASE-28).
    """
    lease = tx.lease(id_)
    if lease is None or not _is_cut_off(lease) or tx.fence() is not None:
        return False
    change(tx, lease, UndoBegun(ending=State.RELEASED, why=f"{UNFINISHED}: {lease.cause}"), now)
    return True


def _tell(tx: Tx, lease: Lease, reports: Sequence[DeadmanReport], now: Moment) -> None:
    for report in reports:
        done = "deadman_restored" if report.verified else "deadman_failed"
        tx.record(
            Event(
                type=done,
                at=now.at,
                actor=CAUSE,
                subject=frozen({"lease": str(lease.id), "resource": lease.resource, "host": report.host}),
                message="; ".join(report.failing)
                or f"{report.host} is as it was, every engine seen to serve",
                facts=frozen(
                    {
                        "cause": report.cause,
                        "begun_at": report.begun_at,
                        "ended_at": report.ended_at,
                        "done": list(report.done),
                    }
                ),
                priority=Priority.HIGH if report.verified else Priority.URGENT,
                once=f"{done} {lease.id} {report.host} {report.ended_at}",
            )
        )
