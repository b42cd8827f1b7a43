"""The schedule: who may have what, and when (LEASE-6 to LEASE-28). The use cases of its callers.

Decides who may ask for what; what becomes of a lease is `domain.lease_machine`'s decision, whose turn it is
`services.promotion`'s. Each use case is one write transaction; no transaction is open while a node is asked
or a step is done (LEASE-7).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from hostler.domain.errors import (
    InvalidRequest,
    LeaseLost,
    NotFound,
    Refusal,
    ResourceNotFound,
    ScheduleUnavailable,
    StoreFull,
)
from hostler.domain.lease import (
    Decision,
    Effect,
    Lease,
    LeaseId,
    State,
)
from hostler.domain.moment import left
from hostler.domain.resource import Resource
from hostler.domain.route import nearest
from hostler.domain.values import Requester, format_duration, rfc3339
from hostler.services.fences import Fences
from hostler.services.keys import Principal
from hostler.services.lease_changes import known
from hostler.services.lease_requests import LeaseRequests, operator
from hostler.services.needs import Clock
from hostler.services.present import Present
from hostler.services.promotion import Look, Promotion
from hostler.services.proof import authorise
from hostler.services.reserving import Request, Reserving, Told, digest_of
from hostler.services.scene import Scene
from hostler.services.schedule_needs import ScheduleStore, Tx
from hostler.services.schedule_views import lease_view, resource_view, why_view
from hostler.services.waiting import Waiters
from hostler.services.workshop import Workshop
from hostler.wire.schedule import (
    CancelBody,
    ClaimBody,
    FenceBody,
    FenceNow,
    LeaseList,
    LeasesQuery,
    OneLease,
    ProcessBody,
    ReleaseBody,
    RenewBody,
    ReserveBody,
    ResourceList,
    WhyResource,
)

RESTING = frozenset(State) - {State.QUEUED, State.ACTIVATING, State.RELEASING}
"""States that a caller with `wait_s` need not wait for the end of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The need `ScheduleApi`, on the head. `note_process` tells a host's node what works under a lease.

    `wrong` tells what of an active lease is not as it should be now.
    """

    config: Present
    store: ScheduleStore
    promotion: Promotion
    reserving: Reserving
    requests: LeaseRequests
    fences: Fences
    workshop: Workshop
    waiters: Waiters
    clock: Clock
    note_process: Callable[[str | None, str, int, int], Awaitable[None]]
    wrong: Callable[[Lease], tuple[str, ...]] = lambda _: ()

    # ------------------------------------------------------------ asking for one

    async def reserve(self, body: ReserveBody, request_id: str, who: Principal, by: Requester) -> OneLease:
        """Ask for a resource: the lease, granted when it is free, queued when not (LEASE-23).

        The same `request_id` with the same body is the same lease (LEASE-9). Refuses `resource_not_found`,
        `ttl_refused`, `queue_full`, `slot_taken`, what every step's node refuses for good, and with `now`
        `held`, `fenced`, `box_reserved`.
        """
        try:
            resource = self._resource(body.resource)
        except ResourceNotFound:
            # A repeat is answered all the same: its resource may have left the config since (F02, LEASE-5).
            again = await self.reserving.again(request_id, digest_of(body), self.told)
            if again is None:
                raise
            return await self.answer(*again, body.wait_s)
        look = await self.promotion.look(resource)
        request = Request(body=body, id=request_id, resource=resource, who=who, by=by)
        if body.dry_run:
            return await self._planned(self.reserving.asked(request), look)
        made, told = await self.reserving.take(request, look, self.told)
        self.act(made)
        return await self.answer(made, told, body.wait_s)

    async def _planned(self, lease: Lease, look: Look) -> OneLease:
        """What asking would do: the lease with its plan, and what is in its way. Nothing is asked for."""
        scene = await self.store.read(self.scene)
        view = lease_view(replace(lease, id=LeaseId(""), plan=look.plan), scene)
        why = str(look.refusal) if look.refusal is not None and view.held_by is None else view.why
        return OneLease(at=rfc3339(scene.now.at), lease=replace(view, why=why))

    async def renew(self, id_: str, body: RenewBody, who: Principal, by: Requester) -> OneLease:
        """Keep a place, take up an offer, extend an active lease; see `RenewBody`.

        Refuses `not_yours`, `stale_generation`, `ended`, `lease_lost` (it is being put back), `stuck`.
        """
        made, granted = await self._renewed(id_, body, who, by)
        if body.wait_s > 0 and made.lease.state in (State.QUEUED, State.ACTIVATING):
            # An offer that comes meanwhile is answered, not taken: its client may be asleep by now (F28).
            await self._wait(made.lease.id, body.wait_s, RESTING)
        return await self._one(made.lease.id, granted)

    async def claim(self, id_: str, body: ClaimBody, who: Principal, by: Requester) -> OneLease:
        """Take up an offer (LEASE-24). Refuses as `renew`; an active lease is left as it is."""
        made, told = await self._claimed(id_, body, who, by)
        return await self.answer(made, told, body.wait_s)

    async def _renewed(
        self, id_: str, body: RenewBody, who: Principal, by: Requester
    ) -> tuple[Decision, int | None]:
        lease = await self.store.read(lambda tx: known(tx, id_))
        if lease.state is State.OFFERED and body.claim:
            made, _ = await self._claimed(id_, body, who, by)
            return made, None
        try:
            return await self.store.write(lambda tx: self.requests.renew(tx, id_, body, who, by))
        except StoreFull as full:
            raise self._stands(lease, full) from full

    def _stands(self, lease: Lease, full: StoreFull) -> Refusal:
        """The refusal of a renewal that could not be written: what the holder has still (F22)."""
        if lease.expires is None:
            return full
        rest = format_duration(left(lease.expires, self.clock.moment()))
        return ScheduleUnavailable(why=f"{full.why}; this lease stands as it is for {rest}", file=full.file)

    async def _claimed(self, id_: str, body: RenewBody | ClaimBody, who: Principal, by: Requester) -> Told:
        lease = await self.store.read(lambda tx: known(tx, id_))
        resource = self.config.fleet.resources.get(lease.resource)
        look = Look(plan=())
        if lease.state is State.OFFERED:
            look = await self.promotion.look(resource, id_) if resource else _gone(lease)
        made, told = await self.store.write(
            lambda tx: self.told(tx, self.requests.claim(tx, id_, body, who, by, look))
        )
        self.act(made)
        return made, told

    # ------------------------------------------------------------ giving it back

    async def release(self, id_: str, body: ReleaseBody, who: Principal, by: Requester) -> OneLease:
        """Give it back: put back and verified before it is over (LEASE-13). Again: the same answer (R38).

        A stuck one is observed first, and what is not yet verified is undone (LEASE-14). One that is
        abandoned is over at once; its claims go meanwhile, and that is waited for up to `wait_s`. Refuses
        `not_yours`, `stale_generation`.
        """
        made, told = await self.store.write(
            lambda tx: self.told(tx, self.requests.release(tx, id_, body, who, by))
        )
        if body.abandon:
            # Before anybody else's steps begin; a host that is away keeps nobody from the answer.
            self.workshop.withdraw(made.lease)
        self.act(made)
        if body.abandon:
            await self.waiters.until(lambda: made.lease.id not in self.workshop.leaving, body.wait_s)
        return await self.answer(made, told, body.wait_s)

    async def cancel(self, id_: str, body: CancelBody, who: Principal, by: Requester) -> OneLease:
        """Call it off in whatever state (LEASE-16). Refuses as `release`."""
        return await self.release(
            id_,
            ReleaseBody(
                secret=body.secret,
                epoch=body.epoch,
                generation=body.generation,
                because=body.because,
                wait_s=body.wait_s,
            ),
            who,
            by,
        )

    # ------------------------------------------------------------ looking

    async def lease(self, id_: str) -> OneLease:
        """One lease, with its steps. Refuses `lease_not_found`."""
        return await self._one(LeaseId(id_))

    async def leases(self, query: LeasesQuery) -> LeaseList:
        """Leases, oldest first; ended ones newest first, by pages."""
        return await self.store.read(lambda tx: self._leases(tx, query))

    def _leases(self, tx: Tx, query: LeasesQuery) -> LeaseList:
        scene = self.scene(tx)
        after = _cursor(query.cursor)
        if query.ended:
            found = list(tx.ended(after=after, limit=query.limit + 1))
        else:
            found = [it for it in scene.live if it.number > after]
        more = len(found) > query.limit
        page = found[: query.limit]
        shown = [
            lease_view(it, scene)
            for it in page
            if query.resource in (None, it.resource) and query.holder in (None, it.holder)
        ]
        next_ = str(page[-1].number) if more else None
        return LeaseList(at=rfc3339(scene.now.at), leases=tuple(shown), next=next_)

    async def resources(self) -> ResourceList:
        """Everything that can be leased, and who has it."""
        scene = await self.store.read(self.scene)
        views = tuple(resource_view(it, scene) for it in self.config.fleet.resources.values())
        return ResourceList(at=rfc3339(scene.now.at), resources=views)

    async def why(self, resource: str) -> WhyResource:
        """Each condition of a grant, and whether it is met now (LEASE-23). Refuses `resource_not_found`."""
        found = self._resource(resource)
        scene = await self.store.read(self.scene)
        if any(scene.holder(cover) is not None for cover in found.covers):
            # What its nodes say now is of the lease that has it.
            return why_view(found, scene, None)
        look = await self.promotion.look(found)
        return why_view(found, scene, look.refusal)

    async def register(self, id_: str, body: ProcessBody, who: Principal, by: Requester) -> OneLease:
        """Note which process group works under a lease (JOB-5)."""
        now = self.clock.moment()
        lease = await self.store.read(lambda tx: known(tx, id_))
        authorise(lease, body, who, by, now)
        if lease.state is not State.ACTIVE:
            raise LeaseLost(lease=lease.id, resource=lease.resource, why=f"it is {lease.state}")
        await self.store.write(lambda tx: self._working(tx, lease.id))
        await self.note_process(body.host, lease.id, body.pid, body.start_ticks)
        return await self._one(lease.id)

    def _working(self, tx: Tx, id_: LeaseId) -> None:
        """A process works under the lease: it is ended before anything is put back."""
        lease = known(tx, id_)
        if lease.state is not State.ACTIVE:
            raise LeaseLost(lease=lease.id, resource=lease.resource, why=f"it is {lease.state}")
        tx.put(replace(lease, working=True))

    # ------------------------------------------------------------ the fence

    async def fence(self, body: FenceBody, who: Principal, by: Requester) -> FenceNow:
        """Put the deployment fence up, or take it down (LEASE-28): operators only."""
        operator(who)
        if not body.up:
            await self.fences.down(by.tag())
            return await self.fences.now(self.running())
        await self.fences.up(body, by.tag())
        await self.waiters.until(lambda: not self.running(), body.wait_s)
        return await self.fences.now(self.running())

    async def fence_now(self) -> FenceNow:
        """The fence, and what still runs under it."""
        return await self.fences.now(self.running())

    def running(self) -> tuple[str, ...]:
        """The leases whose steps are being done or undone now."""
        return tuple(self.workshop.running)

    # ------------------------------------------------------------ inside

    def act(self, made: Decision) -> None:
        """Begin what a decision asks for; the keeper finds what was lost here."""
        if made.effects & {Effect.ACTIVATE, Effect.RESTORE}:
            self.workshop.begin(made.lease.id, made.lease.state)
        self.waiters.wake()

    def told(self, tx: Tx, made: Decision) -> Told:
        """A decision with the lease as it is told, from the same transaction."""
        return made, self._view(tx, made.lease.id, None)

    async def answer(self, made: Decision, told: OneLease, wait_s: float) -> OneLease:
        """As its transaction left it, or after a wait as it is then."""
        if wait_s <= 0 or made.lease.state in RESTING:
            return told
        await self._wait(made.lease.id, wait_s, RESTING)
        return await self._one(made.lease.id)

    async def _wait(self, id_: LeaseId, wait_s: float, until: frozenset[State]) -> Lease:
        """The lease once it is in one of these states, or after `wait_s`: before its place lapses."""
        deadline = self.clock.elapsed() + wait_s
        place = (await self.store.read(lambda tx: known(tx, id_))).place
        if place is not None:
            deadline = min(deadline, self.clock.elapsed() + left(place, self.clock.moment()) / 2)
        while True:
            heard = self.waiters.next(id_)
            lease = await self.store.read(lambda tx: known(tx, id_))
            rest = deadline - self.clock.elapsed()
            if lease.state in until or rest <= 0 or self.waiters.released:
                return lease
            await self.waiters.heard(heard, rest)

    async def _one(self, id_: LeaseId, granted_s: int | None = None) -> OneLease:
        return await self.store.read(lambda tx: self._view(tx, id_, granted_s))

    def _view(self, tx: Tx, id_: LeaseId, granted_s: int | None) -> OneLease:
        lease, scene = known(tx, id_), self.scene(tx)
        journal = tx.journal(id_) if lease.plan else ()
        view = lease_view(lease, scene, journal=journal, jobs=[job.id for job in tx.jobs_of(id_)])
        return OneLease(at=rfc3339(scene.now.at), lease=view, granted_s=granted_s)

    def scene(self, tx: Tx) -> Scene:
        """The schedule as that transaction sees it."""
        return Scene(
            fleet=self.config.fleet,
            live=tx.live(),
            fence=tx.fence(),
            now=self.clock.moment(),
            wrong=self.wrong,
        )

    def _resource(self, name: str) -> Resource:
        found = self.config.fleet.resources.get(name)
        if found is None:
            near = nearest(name, self.config.fleet.resources)
            known_ = ", ".join(self.config.fleet.resources) or "none: the config has no reservations"
            raise ResourceNotFound(resource=name, known=f"{near} Known are: {known_}.".strip())
        return found


def _gone(lease: Lease) -> Look:
    gone = NotFound(what="resource", name=lease.resource, nearest="It is in the config no more.")
    return Look(plan=(), refusal=gone)


def _cursor(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidRequest(
            what="The cursor is none of ours.", expected="Begin anew without it.", where="cursor"
        )
    return int(text)
