"""The schedule's loop, on the head: what becomes due without being asked (LEASE-19, LEASE-24, LEASE-28).

Decides when to look. What is due is `domain.lease_due`'s decision, whose turn it is `services.promotion`'s.
It was blind while it did not run, was suspended, or could not read the store; then it gives one grace period
before anything ends or stalls (LEASE-21).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final, Protocol

from hostler.domain.errors import ScheduleUnavailable, StoreFull
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import frozen
from hostler.domain.lease import Decision, Lease, LeaseId, State, UndoBegun
from hostler.domain.lease_due import anchored, due, next_due
from hostler.domain.moment import Moment
from hostler.domain.values import rfc3339
from hostler.services.deadman_reports import DeadmanReports
from hostler.services.fences import Fences
from hostler.services.going_back import GoingBack
from hostler.services.holdings import Holders
from hostler.services.lease_requests import LeaseRequests
from hostler.services.needs import Clock, Events
from hostler.services.present import Present
from hostler.services.promotion import Promotion
from hostler.services.recovery import of_another_boot, recast, recover
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.services.schedule_views import changed
from hostler.services.waiting import Waiters
from hostler.services.workshop import Workshop

TICK_S: Final = 1.0
GRACE_S: Final = 120.0
"""One grace period after the watcher was blind (LEASE-21)."""
BLIND_S: Final = 15.0
"""A tick that comes so much later than its second says that the machine or this process was suspended."""
JUMP_S: Final = 5.0
"""A wall clock that moved so much more or less than the elapsed one has jumped."""
RETRY_S: Final = 5.0
"""How often who waits for a passing condition is looked at again."""
UNUSABLE: Final = (ScheduleUnavailable, StoreFull)
"""The store cannot be read, or takes nothing: it is tried again, and the watcher was blind meanwhile."""
ENDS: Final = frozenset({"lease_ended", "lease_abandoned"})
WORKED: Final = frozenset({State.ACTIVATING, State.RELEASING})


@dataclass(eq=False, slots=True, kw_only=True)
class Mind:
    """What the keeper remembers between two ticks. Elapsed seconds.

    `quiet`: leases that hold, as they were seen last, and until when nothing can be due of them.
    """

    last: Moment | None = None
    grace_until: float = 0.0
    changed: bool = True
    next_at: float = 0.0
    over: set[str] = field(default_factory=set)
    failing: str | None = None
    begun: bool = False
    quiet: dict[LeaseId, tuple[Lease, float]] = field(default_factory=dict)


class JobWatch(Protocol):
    """Whoever keeps the jobs."""

    async def resumed(self) -> None:
        """The daemon begins: time that nobody listened is no quiet time (JOB-3)."""
        ...

    def lease_ended(self, tx: Tx, lease: Lease, now: Moment) -> None:
        """Tell the open jobs of a lease that it is over (JOB-4)."""
        ...

    async def watch(self, now: Moment, *, fenced: bool, grace_until: float) -> None:
        """Judge those that are due (JOB-2); nobody under a fence, nobody before `grace_until` (JOB-3)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeper:
    """`bug` logs an exception of ours and returns its id; `warn` takes what people should know."""

    config: Present
    store: ScheduleStore
    holders: Holders
    back: GoingBack
    promotion: Promotion
    requests: LeaseRequests
    fences: Fences
    workshop: Workshop
    waiters: Waiters
    clock: Clock
    events: Events
    jobs: JobWatch
    reports: DeadmanReports
    bug: Callable[[BaseException], str]
    warn: Callable[[tuple[str, ...]], None]
    mind: Mind = field(default_factory=Mind)

    async def begin(self) -> None:
        """Before anything is served: what was in flight is stuck, and nodes know what is held (LEASE-14).

        A store that cannot be used leaves what the nodes kept: nothing counts as free (R85).
        """
        now = self.clock.moment()
        self.mind.last, self.mind.grace_until = now, now.elapsed + GRACE_S
        try:
            await self._begin(now)
            if not await self.store.read(lambda tx: tx.live() or tx.open_jobs()):
                # Nothing was missed, so nobody is given time for it.
                self.mind.grace_until = now.elapsed
        except UNUSABLE as refusal:
            self.mind.failing = str(refusal)
            self.bug(refusal)
        except Exception as error:  # noqa: BLE001 - a bug must not keep the daemon from serving (REL-1)
            self.bug(error)

    async def _begin(self, now: Moment) -> None:
        """What an earlier daemon left is taken up; done as soon as the store can be used."""
        await self.back.look()
        await recover(self.store, self.clock, spare=self.workshop.running)
        await recast(self.store, self.clock, self.config.fleet.resources)
        await self._reboots(now)
        self.mind.over |= await self.store.read(_untold)
        await self.jobs.resumed()
        await self.fences.anchor()
        await self.fences.mirror()
        await self.holders.sync()
        self.mind.begun = True

    async def run(self) -> None:
        """Tick until cancelled."""
        try:
            while True:
                await self.tick()
                await self.clock.sleep(TICK_S)
        finally:
            await self.workshop.end()

    async def prune(self, limit: int) -> int:
        """Drop up to `limit` leases and jobs that ended longer ago than they are kept (HIST-3)."""
        before = rfc3339(self.clock.now() - timedelta(seconds=self.config.fleet.ended_kept_s))
        return await self.store.write(lambda tx: tx.prune_ended(before, limit))

    def hear(self, rows: Sequence[Recorded]) -> None:
        """What was committed: something may be due sooner, or free."""
        for row in rows:
            if row.event.type.startswith(("lease_", "fence_")):
                self.mind.changed = True
            if row.event.type in ENDS:
                self.mind.over.add(row.event.subject.get("lease", ""))
        self.waiters.hear(rows)

    async def tick(self) -> None:
        """One look at all that may be due. A store that fails is tried again at the next tick."""
        now = self.clock.moment()
        self._time(now)
        try:
            if not self.mind.begun:
                await self._begin(now)
            if await self.fences.tick():
                self._blind(now)
            fenced = await self.store.read(lambda tx: tx.fence()) is not None
            await self._leases(now, fenced=fenced)
            await self.reports.look(now)
            await self._over()
            await self.jobs.watch(now, fenced=fenced, grace_until=self.mind.grace_until)
        except UNUSABLE as refusal:
            if self.mind.failing is None:
                self.bug(refusal)
            self.mind.failing, self.mind.changed = str(refusal), True
        except Exception as error:  # noqa: BLE001 - one bug must not end the loop
            self.bug(error)
        else:
            if self.mind.failing is not None:
                self.mind.failing = None
                self._blind(now)

    # ------------------------------------------------------------ time

    def _time(self, now: Moment) -> None:
        last, self.mind.last = self.mind.last, now
        if last is None or last.boot != now.boot:
            return
        elapsed = now.elapsed - last.elapsed
        if elapsed > TICK_S + BLIND_S:
            self._blind(now)
        jump = (now.at - last.at).total_seconds() - elapsed
        if abs(jump) > JUMP_S:
            self.events.emit(
                Event(
                    type="clock_jumped",
                    at=now.at,
                    subject=frozen({"host": self.config.fleet.here}),
                    message=f"The wall clock jumped by {jump:+.0f} s; leases go by elapsed time.",
                    facts=frozen({"seconds": round(jump, 3)}),
                )
            )

    def _blind(self, now: Moment) -> None:
        self.mind.grace_until, self.mind.changed = now.elapsed + GRACE_S, True

    # ------------------------------------------------------------ leases

    async def _leases(self, now: Moment, *, fenced: bool) -> None:
        if not self.mind.changed and now.elapsed < self.mind.next_at:
            return
        self.mind.changed = False
        for lease in await self.store.read(lambda tx: tx.live()):
            if not self._is_quiet(lease, now):
                await self._lease(lease, now, fenced=fenced)
        if not fenced:
            await self.promotion.promote()
        live = await self.store.read(lambda tx: tx.live())
        told = await self.holders.sync()
        quiet, self.mind.quiet = self.mind.quiet, {}
        fleet = self.config.fleet
        self.warn(tuple(why for it in live if it.state.holds and (why := changed(it, fleet)) is not None))
        soonest = min((self._next(lease, now, quiet) for lease in live), default=math.inf)
        if not told or any(it.state.waits for it in live):
            soonest = min(soonest, RETRY_S)
        self.mind.next_at = now.elapsed + max(TICK_S, soonest)

    def _is_quiet(self, lease: Lease, now: Moment) -> bool:
        seen, until = self.mind.quiet.get(lease.id, (None, 0.0))
        return seen is lease and now.elapsed < until

    def _next(self, lease: Lease, now: Moment, quiet: Mapping[LeaseId, tuple[Lease, float]]) -> float:
        """When to look at it again. Of a thousand leases few have changed since: the others are known."""
        seen, until = quiet.get(lease.id, (None, 0.0))
        if seen is not lease or now.elapsed >= until:
            resource = self.config.fleet.resources.get(lease.resource)
            until = now.elapsed + next_due(lease, resource, now, grace_until=self.mind.grace_until)
        if lease.state is State.ACTIVE:
            self.mind.quiet[lease.id] = lease, until
        return max(0.0, until - now.elapsed)

    async def _lease(self, lease: Lease, now: Moment, *, fenced: bool) -> None:
        if lease.state in WORKED and lease.id not in self.workshop.running:
            # The call that should have begun it went away in between.
            self.workshop.begin(lease.id, lease.state)
        while self._due(lease, now, fenced=fenced):
            made = await self.store.write(partial(self._move, id_=lease.id, fenced=fenced))
            if made is None:
                return
            if made.lease.state in WORKED:
                self.workshop.begin(made.lease.id, made.lease.state)
            lease = made.lease

    def _due(self, lease: Lease, now: Moment, *, fenced: bool) -> bool:
        resource = self.config.fleet.resources.get(lease.resource)
        return due(lease, resource, now, fenced=fenced, grace_until=self.mind.grace_until) is not None

    def _move(self, tx: Tx, id_: LeaseId, *, fenced: bool) -> Decision | None:
        """Looked at again inside the transaction: a renewal that came first wins (F05)."""
        now, lease = self.clock.moment(), tx.lease(id_)
        if lease is None:
            return None
        resource = self.config.fleet.resources.get(lease.resource)
        fenced = fenced or tx.fence() is not None
        event = due(lease, resource, now, fenced=fenced, grace_until=self.mind.grace_until)
        return None if event is None else self.requests.happen(tx, lease, event, now)

    async def _over(self) -> None:
        """The jobs of leases that are over are told."""
        for id_ in sorted(self.mind.over):
            await self.store.write(partial(self._lost, id_=id_))
            self.mind.over.discard(id_)

    def _lost(self, tx: Tx, id_: str) -> None:
        lease = tx.lease(LeaseId(id_))
        if lease is not None and lease.state.ended:
            self.jobs.lease_ended(tx, lease, self.clock.moment())

    async def _reboots(self, now: Moment) -> None:
        """Leases of a machine that was restarted: its holds and engines went, so they are put back (F20).

        The times of all count by this run's elapsed time from here on (LEASE-21).
        """
        for lease in await self.store.read(lambda tx: tx.live()):
            if anchored(lease, now) == lease:
                continue
            made = await self.store.write(partial(self._rebooted, id_=lease.id))
            if made is not None and made.lease.state in WORKED:
                self.workshop.begin(made.lease.id, made.lease.state)

    def _rebooted(self, tx: Tx, id_: LeaseId) -> Decision | None:
        now, lease = self.clock.moment(), tx.lease(id_)
        if lease is None or lease.state.ended:
            return None
        made = Decision(lease=lease)
        if of_another_boot(lease, now) and lease.plan:
            made = self.requests.happen(tx, lease, UndoBegun(ending=State.RELEASED, why="reboot"), now)
        return replace(made, lease=tx.put(anchored(made.lease, now)))


def _untold(tx: Tx) -> set[str]:
    """Leases that ended just before the daemon did: their open jobs were not told (JOB-4)."""
    tied = {LeaseId(job.lease) for job in tx.open_jobs() if job.lease is not None and not job.lease_lost}
    return {id_ for id_ in tied if (lease := tx.lease(id_)) is not None and lease.state.ended}
