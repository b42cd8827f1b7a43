"""A request for a resource becomes a lease: booked, queued, or granted in the same transaction (LEASE-23).

Decides what is asked for: bounds, times, slots, the request's identity. Whose turn it is is the queue's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cached_property
from typing import Final

from hostler.domain.booking import clash, free_parts, parse_start, parts_text, slot_of, taken
from hostler.domain.errors import (
    Fenced,
    HoldTaken,
    IdempotencyConflict,
    InvalidRequest,
    QueueFull,
    SlotTaken,
)
from hostler.domain.fence import counted
from hostler.domain.lease import Decision, Lease, LeaseId, Slot, State
from hostler.domain.lease_due import check_ttl
from hostler.domain.lease_machine import opened
from hostler.domain.moment import Moment, left, shown
from hostler.domain.resource import Resource
from hostler.domain.values import Requester, format_duration, rfc3339, shorten
from hostler.domain.window import Terms
from hostler.domain.window_plan import named
from hostler.services.keys import Principal
from hostler.services.lease_changes import recorded
from hostler.services.lease_requests import operator
from hostler.services.needs import Clock, Ids
from hostler.services.present import Present
from hostler.services.promotion import Look, Promotion, candidates, next_booking
from hostler.services.scene import Scene
from hostler.services.schedule_needs import ScheduleStore, Taken, Tx
from hostler.services.schedule_views import until_of
from hostler.wire.schedule import OneLease, ReserveBody
from hostler.wire.values import dump

MOST_LEASES: Final = 10_000
"""Leases that are not over (R58): at 4 KiB each 40 MiB."""
LONGEST_PLACE_S: Final = 7 * 86_400.0
"""How long a detached place is kept at most."""
FURTHEST_S: Final = 366 * 86_400.0
"""How far ahead a slot may be booked."""

Told = tuple[Decision, OneLease]
Tell = Callable[[Tx, Decision], Told]
"""A decision with the lease as it is told, from the same transaction."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request for a lease, and who makes it. `window`: it opens a window with these terms (MODE-3).

    Without slots: it keeps its digest.
    """

    body: ReserveBody
    id: str
    resource: Resource
    who: Principal
    by: Requester
    window: Terms | None = None

    @cached_property
    def digest(self) -> str:
        """What makes two requests the same one."""
        return digest_of(self.body, "" if self.window is None else self.window.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserving:
    """`zone`: what times without one are in (TIME-1). `clean` takes secrets and controls out of texts."""

    config: Present
    store: ScheduleStore
    promotion: Promotion
    clock: Clock
    ids: Ids
    zone: tzinfo
    clean: Callable[[str], str]

    async def take(self, request: Request, look: Look, told: Tell) -> Told:
        """The lease of that request, new or known, and as it is told. Refuses as `Schedule.reserve`."""
        if look.refusal is not None and look.lasting:
            # A repeat of what was granted is answered all the same: its reply was lost (F02).
            again = await self.again(request.id, request.digest, told)
            if again is not None:
                return again
            raise look.refusal

        def work(tx: Tx) -> Told:
            return told(tx, self._take(tx, request, look))

        while True:
            try:
                return await self.store.write(work)
            except Taken:
                # Another head was faster: look again at what there is now.
                continue

    async def again(self, request_id: str, digest: str, told: Tell) -> Told | None:
        """The lease that this request made before, as it is told; None for a new request (F02)."""
        return await self.store.read(lambda tx: self._again(tx, request_id, digest, told))

    async def to_be_had(self, request: Request) -> None:
        """Refuse `fenced` and `held` as `take` will: of whoever has it no other fault is told (WIN-8)."""
        await self.store.read(lambda tx: self._free(tx, request, tx.live(), self.clock.moment()))

    def _free(self, tx: Tx, request: Request, live: Sequence[Lease], now: Moment) -> None:
        fence, covers = tx.fence(), set(request.resource.covers)
        if fence is not None:
            raise Fenced(until=rfc3339(shown(fence.until, now)), reason=fence.reason, by=fence.by)
        if any(it.state.holds and set(it.covers) & covers for it in live):
            raise self._held(request, live, now)

    def _take(self, tx: Tx, request: Request, look: Look) -> Decision:
        known = self._known(tx, request.id, request.digest)
        if known is not None:
            return known
        body, resource, by = request.body, request.resource, request.by
        now, live, fence = self.clock.moment(), tx.live(), tx.fence()
        lease = self.asked(request, counted(fence, now))
        if len(live) >= MOST_LEASES:
            raise QueueFull(what="the schedule", waiting=len(live))
        if lease.slot is not None:
            return self._booked(tx, lease, lease.slot, live, by.tag())
        if body.now:
            # Whoever has it is what its caller wants to know, not what a node says of that lease's own hold.
            self._free(tx, request, live, now)
        made = self._opened(tx, lease, by.tag())
        look = self.promotion.beside(tx, made.lease.id, self._own(tx, made.lease, look, now))
        if body.now and look.refusal is not None:
            raise look.refusal
        if look.refusal is None and any(it.id == made.lease.id for it in candidates(tx, now)):
            return self.promotion.grant(tx, made.lease, look, by.tag())
        if body.now:
            raise self._held(request, live, now)
        ahead = [it for it in live if it.state is State.QUEUED and it.resource == resource.name]
        if len(ahead) >= resource.queue_max:
            raise QueueFull(what=resource.name, waiting=len(ahead))
        return made

    def _own(self, tx: Tx, lease: Lease, look: Look, now: Moment) -> Look:
        """The look with the deadmen of a window told whose they are; of a lease as it is.

        A cap is absolute: refuses `slot_taken` where somebody has booked the window's time (LEASE-26).
        """
        if not lease.mode:
            return look
        booking = next_booking(lease, tx.waiting(), now)
        if booking is not None and lease.ttl_s is not None and left(booking, now) < lease.ttl_s:
            raise SlotTaken(
                resource=lease.resource,
                start=rfc3339(shown(booking, now)),
                end="the end of that booking",
                free=f"until then: give a shorter --cap than {format_duration(left(booking, now))}",
            )
        return replace(look, plan=named(look.plan, lease.id))

    def _again(self, tx: Tx, request_id: str, digest: str, told: Tell) -> Told | None:
        known = self._known(tx, request_id, digest)
        return None if known is None else told(tx, known)

    def _known(self, tx: Tx, request_id: str, digest: str) -> Decision | None:
        """The lease that this request made before. Refuses `idempotency_conflict` for another body (F02)."""
        lease = tx.lease_of_request(request_id)
        if lease is None:
            return None
        if lease.digest != digest:
            raise IdempotencyConflict(key=shorten(request_id))
        return Decision(lease=lease)

    def asked(self, request: Request, at: Moment | None = None) -> Lease:
        """The lease that is asked for, not yet written. Refuses `ttl_refused`, `wrong_scope`, bad times."""
        body, resource, who, by = request.body, request.resource, request.who, request.by
        now = at or self.clock.moment()
        if body.priority:
            operator(who)
        if body.detached_s is not None and not 0 < body.detached_s <= LONGEST_PLACE_S:
            raise InvalidRequest(
                what=f"A place is kept for up to {LONGEST_PLACE_S / 86_400:.0f} days.",
                expected="Give a duration such as 12h.",
                where="detached_s",
            )
        ttl_s = check_ttl(resource, body.ttl_s, indefinite=body.indefinite)
        return Lease(
            id=LeaseId(self.ids.new("ls")),
            resource=resource.name,
            covers=resource.covers,
            holder=self.clean(body.holder) or by.client,
            key=who.name,
            reason=self.clean(body.reason),
            secret=body.secret_hash,
            request_id=request.id,
            digest=request.digest,
            state=State.QUEUED if body.start is None else State.SCHEDULED,
            created=now,
            priority=body.priority,
            ttl_s=ttl_s,
            detached_s=body.detached_s,
            place=now.plus(body.detached_s or resource.place_s) if body.start is None else None,
            slot=None if body.start is None else self._slot(body.start, ttl_s, now),
            mode="" if request.window is None else request.window.mode,
            drain_before_s=0.0 if request.window is None else request.window.drain_before_s,
        )

    def _slot(self, start: str, ttl_s: float | None, now: Moment) -> Slot:
        at = parse_start(start, self.zone)
        if ttl_s is None:
            raise InvalidRequest(what="A booking needs an end.", expected="Give --for.", where="ttl_s")
        if (at - now.at).total_seconds() > FURTHEST_S:
            raise InvalidRequest(
                what=f"{rfc3339(at)} is too far ahead.",
                expected="A slot begins within a year.",
                where="start",
            )
        return slot_of(at, ttl_s, now)

    def _booked(self, tx: Tx, lease: Lease, slot: Slot, live: Sequence[Lease], actor: str) -> Decision:
        """A slot that overlaps nothing (LEASE-26): no other booking, and no lease that may run so long."""
        now = self.clock.moment()
        others = [it for it in live if set(it.covers) & set(lease.covers)]
        slots = [found for it in others if (found := taken(it, now)) is not None]
        overlap = clash(slot, slots)
        if overlap is not None:
            raise SlotTaken(
                resource=lease.resource,
                start=rfc3339(overlap.start),
                end=rfc3339(overlap.end),
                free=parts_text(free_parts(slot, slots)),
            )
        return self._opened(tx, lease, actor)

    def _opened(self, tx: Tx, lease: Lease, actor: str) -> Decision:
        put = tx.put(lease)
        return recorded(tx, opened(put, self.clock.moment(), actor=actor))

    def _held(self, request: Request, live: Sequence[Lease], now: Moment) -> HoldTaken:
        resource = request.resource
        scene = Scene(fleet=self.config.fleet, live=live, fence=None, now=now)
        holder = next((it for it in map(scene.holder, resource.covers) if it is not None), None)
        waiting = [it for it in scene.waiting if set(it.covers) & set(resource.covers)]
        first = holder or (waiting[0] if waiting else None)
        return HoldTaken(
            what=resource.name,
            owner=first.holder if first is not None else "nobody",
            until=until_of(holder, now) if holder is not None else "unknown",
            way=_way(request, holder),
            lease=first.id if first is not None else "",
            waiting=len(waiting),
        )


def _way(request: Request, holder: Lease | None) -> str:
    """What whoever is refused can do: a window has no queue, and is ended by its own command."""
    if holder is not None and holder.mode:
        stands = "open" if holder.state in (State.ACTIVATING, State.ACTIVE) else "not put back yet"
        shows = "`hostler window status` shows it, `window close` ends it."
        return f"A window in {holder.mode} is {stands}: {shows}"
    if request.window is not None:
        return "A window waits for nobody: `hostler schedule` shows who has it and who waits."
    place = f"hostler reserve {request.resource.name} --queue 12h"
    return f"Wait for it with --wait, or keep a place: `{place}`."


def digest_of(body: ReserveBody, mode: str = "") -> str:
    """What makes two requests the same one; how long a call waits does not. `mode`: of a window."""
    plain = {name: getattr(body, name) for name in ReserveBody.__dataclass_fields__ if name != "wait_s"}
    if mode:
        plain["mode"] = mode
    return hashlib.sha256(dump(plain)).hexdigest()
