"""A store that went back: nodes know fence numbers that it never gave out (LEASE-8, F25).

Decides that the schedule goes on in a new epoch then, and that what the nodes did for leases which the store
does not know is imported as stuck: held until a release puts it back. Nothing is granted before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hostler.domain.errors import NodeOutdated, NodeUnreachable
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.journal import Entry, whole
from hostler.domain.lease import Abandoned, Interrupted, Lease, LeaseId, State, UndoBegun
from hostler.domain.lease_machine import opened
from hostler.domain.plan import text
from hostler.domain.step import (
    ArmDeadman,
    DrainEngine,
    FoundRoute,
    HoldHost,
    PointRoute,
    StartEngine,
    StopEngine,
    SuspendEngine,
    VerifyRestore,
)
from hostler.domain.values import Priority, shorten
from hostler.services.lease_changes import change, known, recorded
from hostler.services.needs import Clock, Ids
from hostler.services.schedule_needs import Node, NodeMemory, Remembered, ScheduleStore, Tx

_OF_A_WINDOW = (ArmDeadman, VerifyRestore)
"""Steps that windows alone have; each says of which mode."""
WHY = "the schedule went back, and this is what its node remembers"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoingBack:
    """Looks before the first grant whether the nodes are ahead of the store.

    `here` are the hosts whose node is this daemon's own. `missing` have not reported since it went back.
    """

    store: ScheduleStore
    nodes: Mapping[str, Node]
    clock: Clock
    ids: Ids
    here: frozenset[str] = frozenset()
    missing: set[str] = field(default_factory=set)

    async def epochs(self) -> Sequence[str]:
        """The epochs that the nodes know which are there: a new one sorts after them."""
        memories = await self._memories(self.nodes)
        return [it.highest.epoch for it in memories.values() if it.highest is not None]

    async def look(self) -> Sequence[Lease]:
        """Compare with the nodes that are there; the leases that were imported as stuck.

        One that is away is compared when it is back (`compare`), and nothing is granted on it before. Where
        the store went back nothing at all is, until each has reported (LEASE-8). Refuses
        `schedule_unavailable`.
        """
        memories = await self._memories(self.nodes)
        before = await self.store.read(lambda tx: tx.meta().epoch)
        stuck = await self.store.write(lambda tx: self._look(tx, tuple(memories.values())))
        if await self.store.read(lambda tx: tx.meta().epoch) != before:
            self.missing.update(self.nodes.keys() - memories.keys())
        return stuck

    async def compare(self, host: str, memory: NodeMemory) -> Sequence[Lease]:
        """The same for one node that is back. What was imported as stuck. Refuses `schedule_unavailable`."""
        before = await self.store.read(lambda tx: tx.meta().epoch)
        stuck = await self.store.write(lambda tx: self._look(tx, (memory,)))
        if await self.store.read(lambda tx: tx.meta().epoch) != before:
            self.missing.update(it for it in self.nodes if it not in self.here)
        self.missing.discard(host)
        return stuck

    def waive(self) -> None:
        """Whoever has not reported need not: an operator began the schedule anew (LEASE-8)."""
        self.missing.clear()

    def blocks(self) -> NodeUnreachable | None:
        """Why nothing is granted now; None: something may be."""
        if not self.missing:
            return None
        why = "the schedule went back, and this node has not told what it knows (`hostler schedule recover`)"
        return NodeUnreachable(host=", ".join(sorted(self.missing)), why=why)

    async def _memories(self, nodes: Mapping[str, Node]) -> Mapping[str, NodeMemory]:
        """What each of them knows; one that does not answer is left out."""
        found = {}
        for host, node in nodes.items():
            with suppress(NodeUnreachable, NodeOutdated):
                found[host] = await node.memory()
        return found

    def _look(self, tx: Tx, memories: Sequence[NodeMemory]) -> Sequence[Lease]:
        meta = tx.meta()
        told = [it.highest for it in memories if it.highest is not None]
        ahead = [it for it in told if it.order > (meta.epoch, meta.generation)]
        if ahead:
            highest = max(ahead, key=lambda it: it.order)
            epoch = later(self.ids.new, max(meta.epoch, highest.epoch))
            tx.begin_epoch(epoch, max(it.generation for it in ahead))
            tx.record(
                Event(
                    type="schedule_recovered",
                    at=self.clock.now(),
                    message="The store went back: nodes know later grants than it does. It has a new epoch.",
                    facts=frozen({"epoch": epoch, "before": meta.epoch}),
                    priority=Priority.URGENT,
                )
            )
        remembered = merged(memories)
        for it in remembered:
            self._tell_left(tx, it)
        return [
            self._imported(tx, it) if self._lost(tx, it) else self._added(tx, it)
            for it in remembered
            if self._lost(tx, it) or self._lacks(tx, it)
        ]

    def _tell_left(self, tx: Tx, it: Remembered) -> None:
        """A lease that is over here, and not there: told, and left as the node has it (LEASE-14, NODE-5).

        The store does not say what was to run there since: nothing is started or put back by itself.
        """
        lease = tx.lease(LeaseId(it.lease))
        if lease is None or not lease.state.ended:
            return
        for host in dict.fromkeys(entry.step.host for entry in it.entries if entry.state.owed):
            entries = [entry for entry in it.entries if entry.step.host == host and entry.state.owed]
            did = ", ".join(text(entry.step) for entry in entries)
            ways = "; ".join(dict.fromkeys(way for entry in entries if (way := by_hand(entry))))
            back = f"; to put it back there: {ways}" if ways else ""
            tx.record(
                Event(
                    type="lease_left_there",
                    at=self.clock.now(),
                    subject=frozen({"lease": lease.id, "host": host}),
                    message=f"{host} has what lease {lease.id} of {shorten(lease.holder)} did there, which is"
                    f" {lease.state} here: {did}. It stays as it is{back}.",
                    facts=frozen({"steps": [text(entry.step) for entry in entries]}),
                    priority=Priority.HIGH,
                    once=f"lease_left_there {lease.id} {host}",
                )
            )

    def _lacks(self, tx: Tx, it: Remembered) -> bool:
        """Whether it was imported from another node, and this one did more for it."""
        lease = tx.lease(LeaseId(it.lease))
        if lease is None or lease.state is not State.STUCK or lease.cause != WHY or lease.fence != it.fence:
            return False
        return bool(self._more(tx, it))

    def _more(self, tx: Tx, it: Remembered) -> list[Entry]:
        """What this node did that the journal does not have. Its own number there is another one."""
        steps = [entry.step for entry in tx.journal(LeaseId(it.lease))]
        return [entry for entry in it.entries if entry.step not in steps]

    def _added(self, tx: Tx, it: Remembered) -> Lease:
        """The lease with what a node that came later did for it."""
        lease, more = known(tx, it.lease), self._more(tx, it)
        for n, entry in enumerate(more, start=len(lease.plan) + 1):
            tx.begin(replace(entry, n=n))
            tx.mark(lease.id, n, entry.state, entry.note)
        return tx.put(replace(lease, plan=(*lease.plan, *(entry.step for entry in more))))

    def _lost(self, tx: Tx, it: Remembered) -> bool:
        """Whether the store does not know the lease as one that holds: it never did, or not yet."""
        lease = tx.lease(LeaseId(it.lease))
        return lease is None or lease.state.waits

    def _imported(self, tx: Tx, it: Remembered) -> Lease:
        """The lease as the node remembers it, stuck; whoever has its resources in the old store is over."""
        now = self.clock.moment()
        for cover in it.covers:
            other = tx.holder(cover)
            if other is not None:
                self._outlived(tx, other)
        before, entries = tx.lease(LeaseId(it.lease)), whole(it.entries)
        lease = Lease(
            id=LeaseId(it.lease),
            resource=it.resource,
            covers=it.covers,
            holder=it.holder,
            key=it.key,
            secret=before.secret if before is not None else "",
            request_id=before.request_id if before is not None else f"imported {it.lease}",
            digest=before.digest if before is not None else "",
            number=before.number if before is not None else 0,
            state=State.ACTIVE,
            created=now,
            ttl_s=None,
            fence=it.fence,
            plan=tuple(entry.step for entry in entries),
            mode=next((it.step.mode for it in entries if isinstance(it.step, _OF_A_WINDOW)), ""),
        )
        put = recorded(tx, opened(tx.put(lease), now)).lease
        if not tx.journal(put.id):
            for entry in entries:
                tx.begin(entry)
                tx.mark(put.id, entry.n, entry.state, entry.note)
        # What it was given is put back: it had its turn, and did not fail.
        put = change(tx, put, UndoBegun(ending=State.RELEASED, why=WHY), now).lease
        return change(tx, put, Interrupted(why=WHY), now).lease

    def _outlived(self, tx: Tx, other: Lease) -> None:
        """A lease of the old store whose resources were granted again since: it ended, the store forgot."""
        now = self.clock.moment()
        if other.state in (State.ACTIVE, State.STUCK):
            other = change(tx, other, UndoBegun(ending=State.RELEASED, why=WHY), now).lease
        if other.state in (State.ACTIVATING, State.RELEASING):
            other = change(tx, other, Interrupted(why=WHY), now).lease
        change(tx, other, Abandoned(because=WHY, unverified=()), now)


def is_remembered(lease: Lease) -> bool:
    """Whether it is here as its nodes remember it, and nobody has released it since (LEASE-8)."""
    return lease.state is State.STUCK and lease.failing is None and lease.cause == WHY


def by_hand(entry: Entry) -> str:
    """The command that puts back by hand what a step did; empty where no command does."""
    match entry.step, entry.found:
        case HoldHost(), _:
            return "`hostler box release --force`"
        case ((SuspendEngine(engine=name) | DrainEngine(engine=name)), _):
            return f"`hostler resume {name}`"
        case StopEngine(engine=name), _:
            return f"`hostler start {name}`"
        case StartEngine(engine=name), _:
            return f"`hostler stop {name}`"
        case PointRoute(route=name), FoundRoute(profile=profile):
            return f"`hostler routes set {name} {profile or 'PROFILE'}`"
        case _:
            return ""


def later(new: Callable[[str], str], highest: str) -> str:
    """A fresh epoch that sorts after `highest`, whatever the clock says."""
    fresh = new("ep")
    return fresh if fresh > highest else f"{highest}_{fresh.partition('_')[2]}"


def merged(memories: Sequence[NodeMemory]) -> Sequence[Remembered]:
    """Each lease once, with what every node did for it (LEASE-3); of two grants of it the later one."""
    found: dict[str, Remembered] = {}
    for it in (lease for memory in memories for lease in memory.leases):
        other = found.get(it.lease)
        if other is None or other.fence.order < it.fence.order:
            found[it.lease] = it
        elif other.fence == it.fence:
            entries = {entry.n: entry for entry in (*other.entries, *it.entries)}
            found[it.lease] = replace(other, entries=tuple(entries[n] for n in sorted(entries)))
    return tuple(found.values())
