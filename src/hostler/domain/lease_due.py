"""What time does to a lease: expiry, warnings, reminders, places and offers that lapse; TTL arithmetic.

Decides which event is due, and how long until one may be. The keeper asks; `lease_machine` does it.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Final

from hostler.domain.booking import CLAIM_S
from hostler.domain.errors import TtlRefused
from hostler.domain.fleet import frozen
from hostler.domain.lease import (
    Activated,
    CancelAsked,
    ClosingBegun,
    Dropped,
    Lease,
    LeaseEvent,
    Reminded,
    Renewed,
    State,
    UndoBegun,
    Warned,
)
from hostler.domain.moment import Moment, left, passed, sooner
from hostler.domain.resource import Resource
from hostler.domain.values import exact_duration, format_duration

LEAST_S: Final = 1.0
"""The shortest time that a lease is given for; a shorter one is over before it is known."""
REMIND_S: Final = 24 * 3600.0
"""A lease without an end is reminded of once a day (LEASE-18)."""


_ENDS: Final = frozen({"booking": "a booking begins", "slot": "its slot ends"})
CAP: Final = "cap"
"""The cause of a window that ends at its cap (MODE-3)."""


def due(
    lease: Lease, resource: Resource | None, now: Moment, *, fenced: bool, grace_until: float = 0.0
) -> LeaseEvent | None:
    """The one event that is due now, the most urgent first; ask again after it. None: nothing is.

    `resource` None: it is no longer configured; then nobody is warned. `grace_until` is the elapsed second
    until which nothing ends, because the watcher was blind (LEASE-21); a hard end ends all the same. Under a
    fence nothing is due but what a window's cap ends (LEASE-28, WIN-2).
    """
    if lease.mode and (event := _due_window(lease, now)) is not None:
        return event
    if fenced:
        return None
    grace = now.elapsed < grace_until
    if lease.state is State.ACTIVE:
        return _due_active(lease, resource, now, grace=grace)
    waits_until, why = _lapse(lease, now)
    if grace or not passed(waits_until, now):
        return None
    return Dropped(ending=State.LAPSED, why=why)


def _due_window(lease: Lease, now: Moment) -> LeaseEvent | None:
    """What a window's own deadlines end: at the cap the undo begins, also of one that still activates."""
    capped = passed(lease.hard, now)
    if lease.state is State.ACTIVATING and capped and not lease.cancelled:
        return CancelAsked(why=CAP)
    if lease.state is not State.ACTIVE:
        return None
    if capped:
        return UndoBegun(ending=State.EXPIRED, why=CAP)
    return ClosingBegun() if passed(lease.soft, now) and not lease.closing else None


def _due_active(lease: Lease, resource: Resource | None, now: Moment, *, grace: bool) -> LeaseEvent | None:
    if passed(lease.hard, now):
        by = _bound(lease) or "hard end"
        return UndoBegun(ending=State.EXPIRED, why=f"its time was up ({_ENDS.get(by, by)})")
    if passed(lease.expires, now) and not grace:
        return UndoBegun(ending=State.EXPIRED, why="its time was up")
    if lease.expires is None:
        return Reminded() if passed(_reminder(lease), now) else None
    for offset in _warnings(lease, resource):
        if left(lease.expires, now) <= offset:
            return Warned(offset=offset)
    return None


def _lapse(lease: Lease, now: Moment) -> tuple[Moment | None, str]:
    """Until when what it waits with stands, and what is said when that has passed."""
    if lease.state is State.OFFERED:
        return lease.offer, "its offer was not taken"
    if lease.state is State.QUEUED:
        return lease.place, "its place was not renewed"
    if lease.state is State.SCHEDULED and lease.slot is not None:
        # The start of a booking is a time of the wall clock, whatever the machine's own time says.
        seconds = (lease.slot.start - now.at).total_seconds() + CLAIM_S
        return now.plus(seconds), "its slot was not claimed"
    return None, ""


def _reminder(lease: Lease) -> Moment | None:
    since = lease.reminded or lease.activated
    return None if since is None else since.plus(REMIND_S)


def _warnings(lease: Lease, resource: Resource | None) -> list[float]:
    """The offsets that were not told yet, the longest first; none that is longer than the lease itself."""
    if resource is None or lease.expires is None or lease.activated is None:
        return []
    whole = left(lease.expires, lease.activated)
    return sorted(
        (offset for offset in resource.warn if offset < whole and offset not in lease.warned), reverse=True
    )


def next_due(lease: Lease, resource: Resource | None, now: Moment, *, grace_until: float = 0.0) -> float:
    """Seconds until something may be due, a booking's start included; 0: now, infinity: never.

    What the grace puts off is due when that is over.
    """

    def forgiven(deadline: Moment | None) -> Moment | None:
        return None if deadline is None else _later(deadline, now.plus(grace_until - now.elapsed), now)

    deadlines: list[Moment | None]
    if lease.state is State.ACTIVE:
        deadlines = [lease.hard, forgiven(lease.expires), None if lease.closing else lease.soft]
        if lease.expires is None:
            deadlines.append(_reminder(lease))
        else:
            deadlines += [lease.expires.plus(-offset) for offset in _warnings(lease, resource)]
    elif lease.state is State.ACTIVATING and lease.mode:
        deadlines = [None if lease.cancelled else lease.hard]
    elif lease.state is State.SCHEDULED and lease.slot is not None and lease.slot.start > now.at:
        return (lease.slot.start - now.at).total_seconds()
    else:
        deadlines = [forgiven(_lapse(lease, now)[0])]
    first = sooner(now, *deadlines)
    return inf if first is None else max(0.0, left(first, now))


def offer_until(lease: Lease, resource: Resource, now: Moment) -> Moment:
    """Until when an offer made now stands (LEASE-24, LEASE-26).

    A booking has `booking.CLAIM_S`, a detached place the resource's claim time; a client that waits accepts
    by itself, and has its place time to come back, at most the claim time.
    """
    if lease.slot is not None:
        return now.plus(CLAIM_S)
    if lease.detached_s is not None:
        return now.plus(resource.claim_s)
    return now.plus(min(resource.place_s, resource.claim_s))


def check_ttl(resource: Resource, ttl_s: float | None, *, indefinite: bool = False) -> float | None:
    """The TTL of a new lease in seconds, the resource's default for None; None: without an end.

    Refuses `ttl_refused`: under `LEAST_S`, above the resource's `max`, without an end where that is not
    allowed, or both (LEASE-17, LEASE-18, R47).
    """
    bounds = f"Give a time from {LEAST_S:g} s to {exact_duration(resource.max_s)}."
    if indefinite:
        if not resource.indefinite:
            raise TtlRefused(what=f"{resource.name} is not given without an end.", expected=bounds)
        if ttl_s is not None:
            raise TtlRefused(what="A lease without an end has no time to live.", expected="Give one of both.")
        return None
    wanted = resource.ttl_s if ttl_s is None else ttl_s
    if not LEAST_S <= wanted <= resource.max_s:
        raise TtlRefused(what=f"{resource.name} is not given for {exact_duration(wanted)}.", expected=bounds)
    return wanted


def activated(lease: Lease, resource: Resource, now: Moment, booking: Moment | None) -> Activated:
    """The event of an activation now: `hard` is `max` from now or the next booking, whichever is sooner.

    A lease without an end has no hard end but a booking.
    """
    top = None if lease.ttl_s is None else now.plus(resource.max_s)
    hard = sooner(now, top, booking)
    if hard is None:
        return Activated(hard=None)
    return Activated(hard=hard, limited_by="max" if hard == top else "booking")


def renewal(
    lease: Lease, resource: Resource | None, ttl_s: float | None, now: Moment, booking: Moment | None
) -> Renewed:
    """The renewal of an active lease: expires = max(old, now + ttl), never past hard (LEASE-17, R44, R46).

    `ttl_s` None: the lease's own, else the resource's default. The hard end is found anew, so that a booking
    that was called off limits no more; of a resource that is no longer configured it stays. `limited_by` says
    what `hard` is: whether that bounds `expires`, `limited` tells. A lease without an end stays so.
    Refuses `ttl_refused` for a TTL not above 0, and for one past a window's cap (WIN-2).
    """
    default = inf if resource is None else resource.ttl_s
    wanted = next(each for each in (ttl_s, lease.ttl_s, default) if each is not None)
    if not wanted > 0:
        raise TtlRefused(
            what=f"A lease is not renewed for {exact_duration(wanted)}.", expected="Give a time above 0."
        )
    if lease.expires is None or lease.hard is None or lease.activated is None:
        return Renewed()
    if lease.mode:
        return _within_cap(lease, ttl_s, now)
    top, by = lease.hard, lease.limited_by
    if resource is not None and by == "booking":
        top, by = lease.activated.plus(resource.max_s), "max"
    hard = top if booking is None or left(top, now) <= left(booking, now) else booking
    end = hard if wanted >= left(hard, now) else now.plus(wanted)
    return Renewed(
        expires=_later(lease.expires, end, now),
        hard=_later(lease.expires, hard, now),
        limited_by=by if hard is top else "booking",
    )


def _within_cap(lease: Lease, ttl_s: float | None, now: Moment) -> Renewed:
    """The renewal of a window changes nothing: it has its time up to the cap already."""
    if lease.hard is not None and ttl_s is not None and ttl_s > left(lease.hard, now):
        raise at_cap(lease, lease.hard, now)
    return Renewed()


def at_cap(lease: Lease, cap: Moment, now: Moment) -> TtlRefused:
    """What whoever would renew a window is told (WIN-2)."""
    return TtlRefused(
        what=f"The window of {lease.mode} ends at its cap, in {format_duration(left(cap, now))}.",
        expected="Close it, and open another with the cap that you need.",
    )


def anchored(lease: Lease, now: Moment) -> Lease:
    """The lease with every time of it as this run of the machine counts it (LEASE-21).

    After a restart the wall clock says how far each is. From then on elapsed time does, so that a wall clock
    that jumps later ends nothing early or late, and nobody passes those who came before.
    """

    def here(time: Moment | None) -> Moment | None:
        return None if time is None else _here(time, now)

    return replace(
        lease,
        created=_here(lease.created, now),
        place=here(lease.place),
        offer=here(lease.offer),
        activated=here(lease.activated),
        expires=here(lease.expires),
        hard=here(lease.hard),
        soft=here(lease.soft),
        reminded=here(lease.reminded),
    )


def _here(time: Moment, now: Moment) -> Moment:
    return time if time.boot == now.boot else now.plus(left(time, now))


def _later(old: Moment, new: Moment, now: Moment) -> Moment:
    return new if left(new, now) > left(old, now) else old


def limited(lease: Lease, now: Moment) -> str:
    """What bounds `expires` now: `max`, `booking`, `slot` or `cap` at the hard end, else an empty text."""
    if lease.expires is None or lease.hard is None or left(lease.expires, now) < left(lease.hard, now):
        return ""
    return _bound(lease)


def _bound(lease: Lease) -> str:
    """What its hard end is. Slots do not overlap: before its own ends no other booking begins (LEASE-26)."""
    return "slot" if lease.limited_by == "booking" and lease.slot is not None else lease.limited_by
