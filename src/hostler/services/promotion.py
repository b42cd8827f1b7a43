"""Promotion: who gets a resource when it is free, and what keeps the first in line waiting (LEASE-24).

Decides by the queue's order and by what the nodes say before the first change (LEASE-10). Two phases: nodes
are asked without a transaction, and the transaction looks again at what may have changed meanwhile. Grants
run in one write transaction; who is too late finds a claim row (LEASE-7).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hostler.domain.booking import limit
from hostler.domain.errors import Kind, NotFound, Refusal
from hostler.domain.holding import refusal as leased
from hostler.domain.lease import (
    Activated,
    Decision,
    Dropped,
    Granted,
    Lease,
    LeaseId,
    Offered,
    Slot,
    State,
    Waited,
)
from hostler.domain.lease_due import activated, offer_until
from hostler.domain.moment import Moment
from hostler.domain.plan import activation
from hostler.domain.queue import next_up, order
from hostler.domain.resource import Resource
from hostler.domain.step import Step
from hostler.services.holdings import holdings, things
from hostler.services.lease_changes import change
from hostler.services.needs import Clock
from hostler.services.operations import preflight
from hostler.services.present import Present
from hostler.services.schedule_needs import Node, ScheduleStore, Taken, Tx

LASTING = (Kind.NOT_FOUND, Kind.CONFIG, Kind.INVALID, Kind.CLASS)
"""Refusals that no waiting helps (LEASE-24)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the nodes said of a plan: the first refusal, and whether it is one that lasts."""

    plan: tuple[Step, ...]
    refusal: Refusal | None = None

    @property
    def lasting(self) -> bool:
        """Whether waiting does not help."""
        return self.refusal is not None and self.refusal.kind in LASTING


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """Gives resources that are free to those who wait. `blocked` says why nothing is granted now."""

    config: Present
    store: ScheduleStore
    nodes: Mapping[str, Node]
    clock: Clock
    blocked: Callable[[], Refusal | None] = lambda: None

    async def look(self, resource: Resource, lease: str = "") -> Look:
        """Ask every node whether its steps could be done now; nothing is changed (LEASE-10)."""
        plan = activation(self.config.fleet, resource)
        if (refusal := self.blocked()) is not None:
            return Look(plan=plan, refusal=refusal)
        return await self.look_at(plan, resource, lease)

    async def look_at(self, plan: tuple[Step, ...], resource: Resource, lease: str = "") -> Look:
        """As `look`, at a plan that is another than the resource's: a window's (MODE-1)."""
        if not plan:
            return Look(plan=plan)  # There is no step that a node could be asked about.
        now = self.clock.moment()
        try:
            await preflight(self.nodes, asking(resource, lease, plan, now), now)
        except Refusal as refusal:
            return Look(plan=plan, refusal=refusal)
        return Look(plan=plan)

    async def promote(self) -> Sequence[Lease]:
        """Offer, or let fail, whoever is next on resources that are free; those that moved."""
        now = self.clock.moment()
        nexts = await self.store.read(lambda tx: candidates(tx, now))
        moved = []
        for lease in nexts:
            resource = self.config.fleet.resources.get(lease.resource)
            look = await self.look(resource, lease.id) if resource is not None else _unknown(lease)
            try:
                made = await self.store.write(partial(self._turn, id_=lease.id, look=look))
            except Taken:
                continue
            if made is not None:
                moved.append(made.lease)
        return moved

    def beside(self, tx: Tx, id_: LeaseId, look: Look) -> Look:
        """The look, refused too while another lease has what the plan would change (LEASE-5, LEASE-15).

        Its claim is on another resource then: the config moved the thing since it was granted.
        """
        now = self.clock.moment()
        if look.refusal is not None or not look.plan:
            return look
        held = holdings([it for it in tx.live() if it.id != id_], (), now)
        for host, thing in things(look.plan):
            holding = held.get(host, {}).get(thing)
            if holding is not None:
                kind, _, name = thing.partition(" ")
                return replace(look, refusal=leased(kind, name, holding, now.at))
        return look

    def _turn(self, tx: Tx, id_: LeaseId, look: Look) -> Decision | None:
        """The turn of a lease, looked at again inside the transaction; None when it is not its turn now."""
        now = self.clock.moment()
        lease = next((it for it in candidates(tx, now) if it.id == id_), None)
        if lease is None:
            return None
        look = self.beside(tx, id_, look)
        if look.refusal is not None and look.lasting:
            return change(tx, lease, Dropped(ending=State.FAILED, why=str(look.refusal)), now)
        if look.refusal is not None:
            why = str(look.refusal)
            return change(tx, lease, Waited(why=why), now) if lease.cause != why else None
        resource = self.config.fleet.resources[lease.resource]
        return change(tx, lease, Offered(until=offer_until(lease, resource, now)), now)

    def grant(self, tx: Tx, lease: Lease, look: Look, actor: str) -> Decision:
        """Give it what it asked for, now: the next generation, the plan, and the claim rows (LEASE-7).

        Without steps it is active at once. Raises Taken.
        """
        now = self.clock.moment()
        event = Granted(fence=tx.next_generation(), plan=look.plan, actor=actor)
        made = change(tx, lease, event, now)
        if look.plan:
            return made
        return self.activate(tx, made.lease)

    def activate(self, tx: Tx, lease: Lease) -> Decision:
        """Every step was seen to hold: its time counts from now, bounded by `max` and by bookings."""
        now = self.clock.moment()
        resource = self.config.fleet.resources.get(lease.resource)
        booking = next_booking(lease, tx.waiting(), now)
        if lease.mode:
            event = Activated(hard=lease.hard, limited_by=lease.limited_by)
        elif resource is None:
            # It went from the config while it was granted: only a booking bounds it still (LEASE-5).
            event = Activated(hard=booking, limited_by="booking" if booking is not None else "")
        else:
            event = activated(lease, resource, now, booking)
        return change(tx, lease, event, now)


def candidates(tx: Tx, now: Moment) -> Sequence[Lease]:
    """Who is next on what is free: due bookings before the queue. Nobody while a fence is up (LEASE-28)."""
    if tx.fence() is not None:
        return ()
    waiting = order(tx.waiting(), now)
    wanted = {cover for it in waiting for cover in it.covers}
    return next_up(waiting, {cover for cover in wanted if tx.holder(cover) is not None})


def next_booking(lease: Lease, waiting: Sequence[Lease], now: Moment) -> Moment | None:
    """When somebody else's booking of what `lease` covers begins; of a booked lease also its own end.

    `waiting` are all that have a place.
    """
    slots = [
        it.slot
        for it in waiting
        if it.id != lease.id
        and it.state is State.SCHEDULED
        and it.slot is not None
        and set(it.covers) & set(lease.covers)
    ]
    if lease.slot is not None:
        slots.append(Slot(start=lease.slot.end, end=lease.slot.end))
    return limit(now, slots)


def asking(resource: Resource, lease: str, plan: tuple[Step, ...], now: Moment) -> Lease:
    """A lease that was never granted, to ask with: it has no fence number to compare."""
    return Lease(
        id=LeaseId(lease),
        resource=resource.name,
        covers=resource.covers,
        holder="",
        key="",
        secret="",
        request_id="",
        digest="",
        created=now,
        ttl_s=resource.ttl_s,
        plan=plan,
    )


def _unknown(lease: Lease) -> Look:
    gone = NotFound(what="resource", name=lease.resource, nearest="It is in the config no more.")
    return Look(plan=(), refusal=gone)
