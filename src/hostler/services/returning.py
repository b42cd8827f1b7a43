"""A node that is back: the head takes up what it did meanwhile, and tells it what is held (NODE-4, F15, F20).

Decides what a node's receipt of its own restore means for the lease: it counts as its release (LEASE-14), and
nothing is put back a second time. A lease that was there before the machine restarted is put back too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostler.domain.journal import EntryState
from hostler.domain.lease import Decision, LeaseId, State, UndoBegun
from hostler.services import step_log
from hostler.services.fences import Fences
from hostler.services.going_back import GoingBack
from hostler.services.holdings import Holders
from hostler.services.lease_changes import change
from hostler.services.lease_requests import LeaseRequests
from hostler.services.needs import Clock
from hostler.services.schedule_needs import Node, PutBack, ScheduleStore, Tx
from hostler.services.workshop import Workshop

WORKED = (State.RELEASING,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Returning:
    """Takes up one node that is back."""

    store: ScheduleStore
    nodes: Mapping[str, Node]
    back: GoingBack
    holders: Holders
    fences: Fences
    requests: LeaseRequests
    workshop: Workshop
    clock: Clock

    async def take_up(self, host: str) -> None:
        """What it remembers, then what it must know. Refuses `node_unreachable`, `schedule_unavailable`."""
        node = self.nodes[host]
        memory = await node.memory()
        await self.back.compare(host, memory)
        for restored in memory.restored:
            self._go_on(await self._adopted(host, restored))
        for lease in memory.rebooted:
            self._go_on(await self._rebooted(host, lease))
        self.holders.told.pop(host, None)
        self.fences.untold.add(host)
        await self.fences.mirror()
        await self.holders.sync()

    async def _adopted(self, host: str, restored: PutBack) -> Decision | None:
        return await self.store.write(lambda tx: self._adopt(tx, host, restored))

    async def _rebooted(self, host: str, lease: str) -> Decision | None:
        return await self.store.write(lambda tx: self._reboot(tx, host, lease))

    def _adopt(self, tx: Tx, host: str, restored: PutBack) -> Decision | None:
        """Its steps there are back; what is owed elsewhere is looked at, and the lease is over (F15)."""
        lease, now = tx.lease(LeaseId(restored.lease)), self.clock.moment()
        if lease is None or lease.fence != restored.fence or lease.state.ended or not lease.state.holds:
            return None
        note = f"{host} put it back by itself{': ' + '; '.join(restored.drift) if restored.drift else ''}"
        for entry in tx.journal(lease.id):
            if entry.step.host == host and entry.state.owed:
                if entry.state is EntryState.BEGUN:
                    step_log.done(tx, lease, entry, now, note)
                step_log.undone(tx, lease, entry, now, None, note)
        if lease.state not in (State.ACTIVE, State.STUCK):
            return None
        event = UndoBegun(ending=State.EXPIRED, why=note, actor=f"node:{host}")
        return self.requests.happen(tx, lease, event, now)

    def _reboot(self, tx: Tx, host: str, id_: str) -> Decision | None:
        """Its hold and its engines went with the restart: it is put back, and is over (F20)."""
        lease, now = tx.lease(LeaseId(id_)), self.clock.moment()
        if lease is None or lease.state is not State.ACTIVE:
            return None
        event = UndoBegun(ending=State.RELEASED, why="reboot", actor=f"node:{host}")
        return change(tx, lease, event, now)

    def _go_on(self, made: Decision | None) -> None:
        if made is not None and made.lease.state in WORKED:
            self.workshop.begin(made.lease.id, made.lease.state)
