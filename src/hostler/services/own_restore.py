"""A node cut off from its head: it keeps what leases hold, and puts it back at their hard end (NODE-4).

Decides when it is cut off, and what it does then by its own clock and by its own receipts: nothing before the
hard end, everything at it, as the head would. A lease without an end is kept. The receipt of what was put
back stays until the head has asked for it; the head does not put back a second time (F15, F16).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.errors import AlreadyRestored, Refusal
from hostler.domain.events import Event
from hostler.domain.fence import under_s
from hostler.domain.fleet import frozen
from hostler.domain.hold import parse_instant
from hostler.domain.holding import Holding
from hostler.domain.journal import owed, whole
from hostler.domain.lease import Lease, LeaseId, State
from hostler.domain.moment import Moment, left, passed, shown
from hostler.domain.plan import text
from hostler.domain.step import FenceNumber, Operation
from hostler.domain.values import Priority, format_duration, rfc3339
from hostler.services.lanes import heard
from hostler.services.needs import Clock, Events
from hostler.services.node import LocalNode
from hostler.services.node_needs import Records
from hostler.services.operations import Operations
from hostler.services.present import Present
from hostler.services.schedule_needs import PutBack, Remembered, ScheduleStore, Tx
from hostler.services.undoing import Undoing, Unrestored
from hostler.wire.nodes import KeptView

CUT_OFF_S: Final = 20.0
"""A head asks every 5 s: after four missed times it is away."""
LOOK_S: Final = 1.0
AGAIN_S: Final = 300.0
"""How long after a restore that failed it is tried again: nobody else can."""


@dataclass(eq=False, slots=True, kw_only=True)
class Mind:
    """What is known of the head. Elapsed seconds; `told` are restores that the head has asked about.

    `fenced_s` is time under a fence that the head has not taken off the leases' ends yet (LEASE-28).
    """

    began: float
    heard: float | None = None
    cut_off: bool = False
    fenced_s: float = 0.0
    told: set[str] = field(default_factory=set)
    tried: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRestore:
    """Watches over the head's silence, on a host that is not the head.

    `records` keeps what was put back, by lease. `scratch` gives an empty store for one restore: its journal
    is made of this node's receipts. `warn` takes what people should know, `bug` logs an exception of ours.
    """

    node: LocalNode
    config: Present
    records: Records
    scratch: Callable[[], ScheduleStore]
    clock: Clock
    events: Events
    warn: Callable[[tuple[str, ...]], None]
    bug: Callable[[BaseException], str]
    mind: Mind

    # ------------------------------------------------------------ the head

    def hear(self) -> None:
        """The head asked for something."""
        self.mind.heard = self.clock.elapsed()

    @property
    def silent_s(self) -> float | None:
        """Seconds since the head asked for anything; None when it never did."""
        return None if self.mind.heard is None else self.clock.elapsed() - self.mind.heard

    @property
    def is_cut_off(self) -> bool:
        """Whether the head has been silent for so long that it counts as away."""
        since = self.mind.began if self.mind.heard is None else self.mind.heard
        return not self.heads_here and self.clock.elapsed() - since >= CUT_OFF_S

    @property
    def heads_here(self) -> bool:
        """Whether this host owns the schedule: then nobody is away."""
        fleet = self.config.fleet
        return fleet.here in fleet.head

    # ------------------------------------------------------------ the loop

    async def run(self) -> None:
        """Look every second until cancelled."""
        try:
            while True:
                await self.tick()
                await self.clock.sleep(LOOK_S)
        finally:
            tasks = list(self.mind.running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def tick(self) -> None:
        """One look: say what is kept and until when, begin what is due."""
        if not self.is_cut_off:
            if self.mind.cut_off:
                self._changed("head_back", "The head asks again.", None)
                self.mind.cut_off = False
                self.mind.plans.clear()
                self.mind.fenced_s = 0.0
            self.warn(self._failures())
            return
        if not self.mind.cut_off:
            self.mind.cut_off = True
            self._changed("head_lost", f"{self._heads()} has been silent for {CUT_OFF_S:.0f} s.", None)
        now = self.clock.moment()
        fence = self.node.files.guard.fence(now)
        if fence is not None:
            self.mind.fenced_s = under_s(fence, now)
        kept = self.held()
        for lease, holding in kept.items():
            if lease not in self.mind.plans:
                self.mind.plans[lease] = await self._then(lease, holding)
            # A window's cap is not paused (LEASE-28): its deadman would restore under a fence as well.
            free = fence is None or holding.mode
            if free and passed(self._end(holding), now) and self._may(lease):
                await self._begin(lease, holding)
        self.warn(self._told(kept, now))

    def held(self) -> Mapping[str, Holding]:
        """The leases that hold something here."""
        return {it.lease: it for it in self.node.files.guard.posts.held.values()}

    def views(self) -> tuple[KeptView, ...]:
        """Each lease here, and what is done about it when the head stays away (NODE-4)."""
        now, posts = self.clock.moment(), self.node.files.guard.posts.held
        return tuple(
            KeptView(
                lease=lease,
                resource=it.resource,
                holder=it.holder,
                things=tuple(thing for thing, of in posts.items() if of.lease == lease),
                hard_in_s=None if (end := self._known(it, now)) is None else left(end, now),
                then=self._sentence(it, now),
            )
            for lease, it in self.held().items()
        )

    def _told(self, kept: Mapping[str, Holding], now: Moment) -> tuple[str, ...]:
        since = self.mind.began if self.mind.heard is None else self.mind.heard
        silence = format_duration(self.clock.elapsed() - since)
        lines = [f"cut off from {self._heads()} for {silence}; the schedule is not to be had"]
        for lease, holding in kept.items():
            plan = self.mind.plans.get(lease, "")
            what = f"lease {lease} ({holding.resource}, {holding.holder})"
            lines.append(f"{what} {self._sentence(holding, now)}{f': {plan}' if plan else ''}")
        return (*lines, *self._failures())

    def _end(self, holding: Holding) -> Moment | None:
        """Its hard end; time under a fence counts toward nothing but a window's cap (LEASE-28)."""
        if holding.hard is None or holding.mode:
            return holding.hard
        return holding.hard.plus(self.mind.fenced_s)

    def _known(self, holding: Holding, now: Moment) -> Moment | None:
        """When it is put back here whatever the head does: at its hard end, else by its deadman (WIN-1).

        The schedule tells no end of a window that is stuck, for it waits for a person; its deadman does not.
        """
        end = self._end(holding)
        if end is not None or not holding.mode:
            return end
        left_s = self.node.deadman.left_s(holding.lease)
        return None if left_s is None else now.plus(left_s)

    def _sentence(self, holding: Holding, now: Moment) -> str:
        if self.heads_here:
            return "is put back when it ends: its schedule is here"
        end = self._known(holding, now)
        if end is None:
            return "is kept until the head is back: it has no hard end that is known here"
        when = rfc3339(shown(end, now))
        return f"is put back here at {when} when the head stays away"

    def _failures(self) -> tuple[str, ...]:
        return tuple(self.mind.failed.values())

    def _heads(self) -> str:
        return " or ".join(self.config.fleet.head)

    async def _then(self, lease: str, holding: Holding) -> str:
        found = await self._remembered(lease, holding)
        undos = [text(undo) for _, undo in owed(found.entries) if undo is not None] if found else []
        return ", ".join(undos)

    # ------------------------------------------------------------ putting back

    def _may(self, lease: str) -> bool:
        tried = self.mind.tried.get(lease)
        waits = tried is not None and self.clock.elapsed() - tried < AGAIN_S
        return lease not in self.mind.running and not waits

    async def _begin(self, lease: str, holding: Holding) -> None:
        self.mind.tried[lease] = self.clock.elapsed()
        task = asyncio.create_task(self.restore(lease, holding))
        task.add_done_callback(heard)
        self.mind.running[lease] = task
        task.add_done_callback(lambda _: self.mind.running.pop(lease, None))

    async def restore(self, lease: str, holding: Holding) -> None:
        """Put back what this host's receipts say is owed, and keep that it was (NODE-4)."""
        try:
            found = await self._remembered(lease, holding)
            drift = () if found is None else await self._undone(found)
            await self._keep(lease, holding, found, drift)
        except Unrestored as stuck:
            why = f"{stuck.failing.step}: wanted {stuck.failing.wanted}, seen {stuck.failing.seen}"
            self._failed(lease, holding, why)
        except Refusal as refusal:
            self._failed(lease, holding, str(refusal))
        except Exception as error:  # noqa: BLE001 - one restore's bug must not end the watch over the others
            self._failed(lease, holding, f"error {self.bug(error)}")

    async def _remembered(self, lease: str, holding: Holding) -> Remembered | None:
        memory = await self.node.receipts.remembered({lease: holding})
        return next(iter(memory.leases), None)

    async def _undone(self, found: Remembered) -> Sequence[str]:
        """Everything put back as the head would; what was left. Raises Unrestored."""
        store, now = self.scratch(), self.clock.moment()
        lease = await store.write(lambda tx: _journal(tx, found, now))
        # A run of its own: an operation of an earlier try, or of the head's, is another one.
        run = -int(now.at.timestamp())
        ask = Operations(nodes={self.node.host: self.node}, bug=self.bug, lease=lease, now=now, run=run)
        undoing = Undoing(store=store, clock=self.clock, ask=ask, lease=lease, entries=found.entries)
        await undoing.end_processes([self.node.host])
        await undoing.run()
        return undoing.drift

    async def _keep(
        self, lease: str, holding: Holding, found: Remembered | None, drift: Sequence[str]
    ) -> None:
        fence = None if found is None else found.fence
        row = {
            "lease": lease,
            "resource": holding.resource,
            "epoch": "" if fence is None else fence.epoch,
            "generation": 0 if fence is None else fence.generation,
            "at": rfc3339(self.clock.now()),
            "drift": list(drift),
        }
        await asyncio.to_thread(self.records.save, lease, row)
        held = self.node.files.guard.posts.held
        await self.node.files.adopt({thing: it for thing, it in held.items() if it.lease != lease})
        self.mind.failed.pop(lease, None)
        self._changed("lease_restored_here", f"The lease {lease} was put back; the head is away.", holding)

    def _failed(self, lease: str, holding: Holding, why: str) -> None:
        again = format_duration(AGAIN_S)
        self.mind.failed[lease] = f"lease {lease} was not put back here: {why}; tried again in {again}"
        self._changed("lease_kept_here", f"The lease {lease} was not put back: {why}", holding)

    # ------------------------------------------------------------ what the head asks

    async def joined(self, operation: Operation) -> None:
        """Let a restore of that lease which runs end first; refuse `already_restored` when it did (F16).

        Once the head knows of it (`restores`) it is free to look and act again.
        """
        task = self.mind.running.get(operation.lease)
        if task is not None:
            await asyncio.shield(task)
        row = None if operation.lease in self.mind.told else await self._row(operation.lease)
        if row is not None and _fence(row) == operation.fence:
            raise AlreadyRestored(
                lease=operation.lease, host=self.node.host, state=f"it has done so at {row.get('at')}"
            )

    async def restores(self) -> tuple[PutBack, ...]:
        """What was put back here while the head was away. It knows of these from here on."""
        found = []
        for name in await asyncio.to_thread(self.records.names):
            row = await self._row(name)
            at = None if row is None else parse_instant(row.get("at"))
            if row is None or at is None:
                continue
            drift = row.get("drift")
            told = tuple(map(str, drift)) if isinstance(drift, list) else ()
            ago_s = (self.clock.now() - at).total_seconds()
            found.append(PutBack(lease=name, fence=_fence(row), ago_s=ago_s, drift=told))
            self.mind.told.add(name)
        return tuple(found)

    async def _row(self, lease: str) -> Mapping[str, object] | None:
        """One that cannot be read is none: whoever puts back looks first."""
        try:
            return await asyncio.to_thread(self.records.load, lease)
        except ValueError:
            return None

    def _changed(self, kind: str, message: str, holding: Holding | None) -> None:
        subject = {"host": self.node.host}
        if holding is not None:
            subject |= {"lease": holding.lease, "resource": holding.resource}
        at = self.clock.now()
        self.events.emit(
            Event(
                type=kind,
                at=at,
                subject=frozen(subject),
                message=message,
                priority=Priority.HIGH if kind != "head_back" else None,
                once=f"{kind} {subject.get('lease', self.node.host)} {rfc3339(at)}",
            )
        )


def _fence(row: Mapping[str, object]) -> FenceNumber:
    epoch, generation = row.get("epoch"), row.get("generation")
    return FenceNumber(
        epoch=epoch if isinstance(epoch, str) else "",
        generation=generation if isinstance(generation, int) else 0,
    )


def _journal(tx: Tx, found: Remembered, now: Moment) -> Lease:
    """The lease with its journal, as this node's receipts have it."""
    lease = tx.put(
        Lease(
            id=LeaseId(found.lease),
            resource=found.resource,
            covers=found.covers,
            holder=found.holder,
            key=found.key,
            secret="",
            request_id=f"restored {found.lease}",
            digest="",
            state=State.RELEASING,
            created=now,
            ttl_s=None,
            fence=found.fence,
            plan=tuple(entry.step for entry in found.entries),
        )
    )
    for entry in whole(found.entries):
        tx.begin(entry)
        tx.mark(lease.id, entry.n, entry.state, entry.note)
    return lease
