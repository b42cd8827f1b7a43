"""Runs a plan forward and, from the journal alone, backward (LEASE-10 to LEASE-14).

Decides the order of persisting and acting: a step is durable before its effect, and marked when it was seen
to hold. Which steps there are is the plan's, what puts them back is `domain.undo`'s, which state follows is
`decide`'s. Nothing is replayed by itself: a run that was interrupted is stuck until a release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hostler.domain.errors import IllegalTransition, StepFailed
from hostler.domain.journal import Entry
from hostler.domain.lease import Decision, Lease, LeaseId, Restored, RestoreFailed, State, UndoBegun
from hostler.domain.plan import text, turns
from hostler.domain.step import Found, Step
from hostler.domain.undo import holds_true, unsound
from hostler.services import step_log
from hostler.services.lease_changes import change, known
from hostler.services.needs import Clock
from hostler.services.operations import Operations, preflight
from hostler.services.schedule_needs import Node, ScheduleStore, Tx
from hostler.services.side_by_side import side_by_side
from hostler.services.undoing import Undoing, Unrestored


@dataclass(eq=False, slots=True)
class Halt:
    """Why an activation goes no further: nothing is begun any more, on any host. `failed`: steps, and why."""

    failed: list[tuple[int, str]] = field(default_factory=list)
    called_off: bool = False

    @property
    def over(self) -> bool:
        return self.called_off or bool(self.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Does and undoes the steps of leases. One run at a time for each lease: its caller sees to that.

    `activated` decides in the transaction that ends an activation how long the lease may be (LEASE-17):
    `Promotion.activate`. `bug` logs an exception of ours and returns its id.
    """

    store: ScheduleStore
    nodes: Mapping[str, Node]
    clock: Clock
    activated: Callable[[Tx, Lease], Decision]
    bug: Callable[[BaseException], str]

    async def preflight(self, lease: Lease) -> None:
        """Ask every node whether the steps of `lease.plan` could be done now; changes nothing (LEASE-10).

        Raises the first refusal that a step would meet.
        """
        await preflight(self.nodes, lease, self.clock.moment())

    async def activate(self, id_: LeaseId) -> Lease:
        """Do the steps of a lease that was just granted; it is active, or was undone, or is stuck.

        A step that fails ends it as `failed`, a cancel between two steps as `cancelled`, both after the undo
        of what was done, else `stuck` (LEASE-12, LEASE-16). Refuses what the store refuses; the lease is
        then left in flight, for `recovery.interrupt`. Raises IllegalTransition for a lease that is not
        activating, or whose steps were begun before: nothing is replayed.
        """
        lease, journal = await self.store.read(lambda tx: (known(tx, id_), tx.journal(id_)))
        if lease.state is not State.ACTIVATING or journal:
            raise IllegalTransition(noun="lease", state=lease.state, event="activate")
        ask, halt = self._operations(lease), Halt()
        for turn in turns(enumerate(lease.plan, start=1), lambda it: it[1]):
            await side_by_side([self._lane(ask, lane, halt) for lane in turn])
            if halt.failed:
                return await self._give_up(id_, halt.failed)
            if halt.called_off:
                break
        lease = await self.store.write(lambda tx: self._conclude(tx, id_))
        return lease if lease.state is State.ACTIVE else await self.restore(id_)

    async def _lane(self, ask: Operations, lane: Sequence[tuple[int, Step]], halt: Halt) -> None:
        """What one host does in a turn, until it, or another host, can go no further."""
        for n, step in lane:
            if halt.over:
                return
            try:
                halt.called_off = not await self._step(ask, n, step) or halt.called_off
            except StepFailed as failure:
                halt.failed.append((n, str(failure).removesuffix(".")))

    async def _step(self, ask: Operations, n: int, step: Step) -> bool:
        """One step, unless the lease was called off meanwhile: whether to go on."""
        found = await ask.observe(n, step)
        if (why := unsound(step, found)) is not None:
            raise StepFailed(step=text(step), why=why)
        entry = Entry(lease=ask.lease.id, n=n, step=step, found=found)
        already = holds_true(step, found, lease=ask.lease.id)
        if not await self.store.write(lambda tx: self._begin(tx, entry, found, skip=already)):
            return False
        if not already:
            note = await ask.do(ask.forward(n, step, found))
            await self.store.write(lambda tx: step_log.done(tx, ask.lease, entry, self.clock.moment(), note))
        return True

    def _begin(self, tx: Tx, entry: Entry, found: Found, *, skip: bool) -> bool:
        lease = known(tx, entry.lease)
        if lease.state is not State.ACTIVATING:
            raise IllegalTransition(noun="lease", state=lease.state, event="begin a step")
        if lease.cancelled:
            return False
        if skip:
            step_log.skip(tx, lease, entry.n, entry.step, found)
        else:
            step_log.begin(tx, lease, entry, self.clock.moment())
        return True

    def _conclude(self, tx: Tx, id_: LeaseId) -> Lease:
        """Active, unless it was called off while the last step was under way."""
        lease = known(tx, id_)
        if not lease.cancelled:
            return self.activated(tx, lease).lease
        undo = UndoBegun(ending=State.CANCELLED, why=lease.cause)
        return change(tx, lease, undo, self.clock.moment()).lease

    async def _give_up(self, id_: LeaseId, failed: Sequence[tuple[int, str]]) -> Lease:
        """Undo what was done; it ends as `failed`, or as `cancelled` when it was called off anyway."""

        def work(tx: Tx) -> None:
            lease, now = known(tx, id_), self.clock.moment()
            for n, why in failed:
                step_log.failed(tx, lease, n, now, why)
            ending = State.CANCELLED if lease.cancelled else State.FAILED
            change(tx, lease, UndoBegun(ending=ending, why=failed[0][1]), now)

        await self.store.write(work)
        return await self.restore(id_)

    async def restore(self, id_: LeaseId) -> Lease:
        """Undo what the journal says is owed, last first, of a lease that is releasing; it ends, or is stuck.

        One that has ended is given back as it is (R38). Refuses as `activate`.
        """
        lease, journal = await self.store.read(lambda tx: (known(tx, id_), tx.journal(id_)))
        if lease.state.ended:
            return lease
        if lease.state is not State.RELEASING:
            raise IllegalTransition(noun="lease", state=lease.state, event="restore")
        undoing = Undoing(
            store=self.store, clock=self.clock, ask=self._operations(lease), lease=lease, entries=journal
        )
        try:
            if lease.working or lease.ending is State.EXPIRED:
                await undoing.end_processes(self._hosts(lease))
            await undoing.run()
        except Unrestored as stuck:
            event = RestoreFailed(failing=stuck.failing, drift=undoing.drift)
            return await self.store.write(lambda tx: self._stuck(tx, id_, event))
        return await self.store.write(lambda tx: self._restored(tx, id_, undoing))

    def _stuck(self, tx: Tx, id_: LeaseId, event: RestoreFailed) -> Lease:
        lease, now, failing = known(tx, id_), self.clock.moment(), event.failing
        why = f"{failing.step}: wanted {failing.wanted}, seen {failing.seen}"
        step_log.failed(tx, lease, failing.n, now, why)
        return change(tx, lease, event, now).lease

    def _restored(self, tx: Tx, id_: LeaseId, undoing: Undoing) -> Lease:
        """What was left is marked so, and `released` is the last write (LEASE-13)."""
        undoing.settle(tx)
        lease = known(tx, id_)
        return change(tx, lease, Restored(drift=undoing.drift), self.clock.moment()).lease

    def _operations(self, lease: Lease) -> Operations:
        return Operations(nodes=self.nodes, bug=self.bug, lease=lease, now=self.clock.moment(), run=lease.seq)

    def _hosts(self, lease: Lease) -> tuple[str, ...]:
        """Where its processes may be: the hosts of its steps; of a mere lock every host."""
        return tuple(dict.fromkeys(step.host for step in lease.plan)) or tuple(self.nodes)
