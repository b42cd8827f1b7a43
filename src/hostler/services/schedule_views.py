"""Leases and resources as they are told: one place where rows become what people and programs see.

Decides the words of `why` and `notice`, and what is counted from now on. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from hostler.domain import plan
from hostler.domain.errors import BoxReserved, Refusal
from hostler.domain.fence import Fence, counted
from hostler.domain.fleet import Fleet, frozen
from hostler.domain.journal import Entry, unverified
from hostler.domain.lease import Lease, Slot, State
from hostler.domain.lease_due import limited
from hostler.domain.moment import Moment, left, shown
from hostler.domain.queue import Place
from hostler.domain.resource import Resource
from hostler.domain.step import HoldHost
from hostler.domain.values import format_duration, rfc3339, shorten
from hostler.services.scene import Scene
from hostler.wire.schedule import (
    Condition,
    FenceView,
    LeaseView,
    ResourceView,
    StepView,
    StuckView,
    WhyResource,
    WindowPart,
)

ABANDONED: Final = "abandoned: "
"""How the cause of a lease begins that an operator freed (LEASE-14)."""
ENDINGS = {
    State.RELEASED: "it was released",
    State.EXPIRED: "its time was up",
    State.FAILED: "its activation failed, and everything was put back",
    State.CANCELLED: "it was called off",
    State.LAPSED: "nobody took it up",
}


def lease_view(
    lease: Lease,
    scene: Scene,
    *,
    journal: Sequence[Entry] = (),
    jobs: Sequence[str] = (),
) -> LeaseView:
    """One lease."""
    now, counts = scene.now, counted(scene.fence, scene.now)
    resource = scene.fleet.resources.get(lease.resource)
    stands = scene.place(lease)
    waits = stands is not None
    blocker = scene.in_the_way(lease) if lease.state.waits else None
    return LeaseView(
        id=lease.id,
        resource=lease.resource,
        title=resource.title if resource is not None else "",
        covers=lease.covers,
        holder=lease.holder,
        key=lease.key,
        reason=lease.reason,
        state=lease.state,
        number=lease.number,
        priority=lease.priority,
        created_at=rfc3339(lease.created.at),
        epoch=lease.fence.epoch if lease.fence else None,
        generation=lease.fence.generation if lease.fence else None,
        ttl_s=lease.ttl_s,
        indefinite=lease.ttl_s is None,
        place=stands.n if stands is not None else None,
        place_expires_in_s=_left(lease.place, counts) if waits else None,
        offer_expires_in_s=_left(lease.offer, counts) if lease.state is State.OFFERED else None,
        earliest_at=_earliest(lease, scene, stands),
        held_by=blocker.holder if blocker is not None else None,
        held_until=None if blocker is None else _ends_at(blocker, now),
        start_at=rfc3339(lease.slot.start) if lease.slot else None,
        end_at=rfc3339(lease.slot.end) if lease.slot else None,
        activated_at=rfc3339(lease.activated.at) if lease.activated else None,
        expires_at=_at(lease.expires, now),
        expires_in_s=_left(lease.expires, counts),
        hard_at=_at(lease.hard, now),
        hard_in_s=_left(lease.hard, counts),
        limited_by=limited(lease, counts),
        why=_over(lease, journal) if lease.state.ended else why_of(lease, scene, blocker, stands),
        notice=notice_of(lease, scene),
        ended_at=rfc3339(lease.ended.at) if lease.ended else None,
        ending=lease.ending,
        drift=lease.drift,
        stuck=_stuck(lease),
        steps=steps_of(lease, journal),
        jobs=tuple(jobs),
        seq=lease.seq,
        kind="window" if lease.mode else "lease",
        window=window_part(lease, now) if lease.mode else None,
        wrong=scene.wrong(lease),
        beat_s=resource.ttl_s
        if resource is not None and lease.expires is not None and not lease.mode
        else None,
    )


def _stuck(lease: Lease) -> StuckView | None:
    at = lease.failing
    return None if at is None else StuckView(n=at.n, step=at.step, wanted=at.wanted, seen=at.seen)


def window_part(lease: Lease, now: Moment) -> WindowPart:
    """What a window has besides."""
    holds = [it for it in lease.plan if isinstance(it, HoldHost)]
    return WindowPart(
        mode=lease.mode,
        hosts=tuple(it.host for it in holds),
        cap_at=_at(lease.hard, now),
        stop_accepting_at=_at(lease.soft, now),
        closing=lease.closing,
        strikes=lease.strikes,
        hold_until=frozen(
            {it.host: rfc3339(shown(lease.hard.plus(it.after_s), now)) for it in holds if lease.hard}
        ),
    )


def _at(deadline: Moment | None, now: Moment) -> str | None:
    return None if deadline is None else rfc3339(shown(deadline, now))


def _left(deadline: Moment | None, now: Moment) -> int | None:
    return None if deadline is None else max(0, round(left(deadline, now)))


def until_of(lease: Lease, now: Moment) -> str:
    """Until when a lease may hold what it has, as RFC 3339; `unknown` where nothing says."""
    return _ends_at(lease, now) or "unknown"


def _ends_at(lease: Lease, now: Moment) -> str | None:
    """The same, None where nothing says; of a booking that is not active yet its slot's end."""
    end = _end(lease, now)
    return None if end is None else rfc3339(end)


def _end(lease: Lease, now: Moment) -> datetime | None:
    end = lease.expires or lease.hard
    if end is not None:
        return shown(end, now)
    return lease.slot.end if lease.slot is not None else None


def steps_of(lease: Lease, journal: Sequence[Entry]) -> tuple[StepView, ...]:
    """The plan, each step with how far it is."""
    known = {entry.n: entry for entry in journal}
    return tuple(
        StepView(
            n=n,
            host=step.host,
            text=plan.text(step),
            state=known[n].state if n in known else "planned",
            note=known[n].note if n in known else "",
        )
        for n, step in enumerate(lease.plan, start=1)
    )


def why_of(lease: Lease, scene: Scene, blocker: Lease | None, stands: Place | None) -> str:
    """One sentence: what it waits for, what it does, why it is over (LEASE-23)."""
    match lease.state:
        case State.QUEUED:
            return _why_queued(lease, scene, blocker, stands)
        case State.SCHEDULED:
            return f"it is booked from {rfc3339(lease.slot.start)} on" if lease.slot else "it is booked"
        case State.OFFERED:
            return "it is its turn: claim it before the offer lapses"
        case State.ACTIVATING:
            return "its steps are being done" if not lease.cancelled else "it is being called off"
        case State.ACTIVE:
            return "; ".join(("it is held", *scene.wrong(lease)))
        case State.RELEASING:
            return "what it did is being put back" + (f": {lease.cause}" if lease.cause else "")
        case State.STUCK:
            bad = lease.failing
            cut_off = f"what was done for it was cut off, and is not all put back: {lease.cause}"
            return f"it could not be put back: {bad.step}: {bad.seen}" if bad is not None else cut_off
        case _:
            return _over(lease, ())


def _over(lease: Lease, journal: Sequence[Entry]) -> str:
    """Why it is over; of one that was abandoned what nobody put back (LEASE-14)."""
    if lease.cause.startswith(ABANDONED):
        left = "; ".join(unverified(journal))
        named = f"; not seen to be undone: {left}" if left else ""
        return f"it was {lease.cause}; what it had changed and not put back was left as it is{named}"
    return ENDINGS[lease.state] + (f": {lease.cause}" if lease.cause else "")


def _why_queued(lease: Lease, scene: Scene, blocker: Lease | None, stands: Place | None) -> str:
    place = stands.n if stands is not None else None
    if blocker is not None and blocker.state is State.STUCK:
        return f"place {place}: the lease of {shorten(blocker.holder)} on {blocker.resource} is stuck"
    if blocker is not None:
        until = until_of(blocker, scene.now)
        state = "" if blocker.state is State.ACTIVE else f" ({blocker.state})"
        return f"place {place}: {shorten(blocker.holder)} has {blocker.resource} until {until}{state}"
    if scene.fence is not None:
        return f"place {place}: fenced: {shorten(scene.fence.reason)}"
    if lease.cause:
        return f"place {place}: {lease.cause}"
    beside = (it for cover in lease.covers for it in scene.lines.get(cover, ()))
    first = next((it for it in beside if it.id != lease.id), None)
    if first is None or place == 1:
        return f"place {place}"
    return f"place {place}: {shorten(first.holder)} is before it and waits for {first.resource}"


def notice_of(lease: Lease, scene: Scene) -> str:
    """What its holder should know now (LEASE-19, HOLD-11); empty when nothing."""
    return "; ".join(filter(None, (*scene.wrong(lease), _notice(lease, scene.now))))


def _notice(lease: Lease, now: Moment) -> str:
    if lease.state is State.OFFERED:
        return "your turn"
    if lease.state is State.STUCK:
        return "stuck"
    if lease.state is not State.ACTIVE:
        return ""
    if lease.closing:
        return f"takes no new requests; closes in {format_duration(left(lease.hard or now, now))}"
    if lease.expires is not None and lease.warned:
        return f"expires in {format_duration(left(lease.expires, now))}"
    return ""


def changed(lease: Lease, fleet: Fleet) -> str | None:
    """How the config differs from what a live lease holds; None when it does not (LEASE-5)."""
    if lease.mode:
        gone = f"the mode {lease.mode} is in the config no more; lease {lease.id} is still its window"
        return None if lease.mode in fleet.modes else gone
    resource = fleet.resources.get(lease.resource)
    if resource is None:
        return f"{lease.resource} is in the config no more; lease {lease.id} still holds it"
    steps = plan.activation(fleet, resource) if resource.actions else ()
    same = resource.covers == lease.covers and steps == lease.plan
    if same or lease.state is State.OFFERED:
        return None
    return f"{lease.resource} was changed in the config; it counts from its next lease on, not for {lease.id}"


def _earliest(lease: Lease, scene: Scene, stands: Place | None) -> str | None:
    """When it may start at the earliest, as far as anybody knows now."""
    if lease.slot is not None and lease.state is State.SCHEDULED:
        return rfc3339(lease.slot.start)
    if stands is None or stands.before_s is None:
        return None
    at: datetime = scene.now.at
    blocker = scene.in_the_way(lease)
    if blocker is not None:
        end = _end(blocker, scene.now)
        if end is None:
            return None
        at = max(at, end)
    return rfc3339(at + timedelta(seconds=stands.before_s))


def resource_view(resource: Resource, scene: Scene) -> ResourceView:
    """Something that can be leased, with who has it and who waits."""
    holder = scene.holder(resource.name)
    return ResourceView(
        name=resource.name,
        title=resource.title,
        hosts=tuple(resource.hosts),
        covers=resource.covers,
        ttl_s=resource.ttl_s,
        max_s=resource.max_s,
        indefinite=resource.indefinite,
        actions=tuple(action_text(resource, scene.fleet)),
        lease=holder.id if holder is not None else None,
        holder=holder.holder if holder is not None else None,
        until=None if holder is None else _ends_at(holder, scene.now),
        state=holder.state if holder is not None else "free",
        waiting=tuple(it.id for it in scene.lines.get(resource.name, ())),
        bookings=tuple(it.id for it in scene.bookings.get(resource.name, ())),
        changed=changed(holder, scene.fleet) if holder is not None else None,
    )


def action_text(resource: Resource, fleet: Fleet) -> list[str]:
    """What leasing it does, in the order in which it is done."""
    return [plan.text(step) for step in plan.activation(fleet, resource)]


def why_view(resource: Resource, scene: Scene, refusal: Refusal | None) -> WhyResource:
    """Each condition of a grant with whether it is met (LEASE-23). `refusal`: what a node says."""
    holder = next((it for it in map(scene.holder, resource.covers) if it is not None), None)
    ahead = [it for it in scene.waiting if set(it.covers) & set(resource.covers)]
    rows = [
        Condition(
            name="free",
            met=holder is None,
            text="nobody has it"
            if holder is None
            else f"{shorten(holder.holder)} has it until {until_of(holder, scene.now)}"
            f" ({'; '.join((holder.state, *scene.wrong(holder)))})",
        ),
        Condition(
            name="queue",
            met=not ahead,
            text="nobody waits" if not ahead else f"{len(ahead)} wait, first {shorten(ahead[0].holder)}",
        ),
        Condition(
            name="fence",
            met=scene.fence is None,
            text="no fence is up" if scene.fence is None else f"fenced: {shorten(scene.fence.reason)}",
        ),
    ]
    booked = _next_booked(resource, scene)
    if booked is not None:
        slot, by = booked
        text = f"{shorten(by)} has booked it from {rfc3339(slot.start)} on"
        rows.append(Condition(name="bookings", met=slot.start > scene.now.at, text=text))
    if refusal is not None:
        rows.append(Condition(name=refusal.code, met=False, text=str(refusal).removesuffix(".")))
    elif holder is None:
        rows.append(Condition(name="steps", met=True, text="every step could be done now"))
    return WhyResource(
        at=rfc3339(scene.now.at),
        resource=resource_view(resource, scene),
        conditions=tuple(rows),
        earliest_at=_soonest(scene, holder, refusal, waits=bool(ahead)),
        booked_at=None if booked is None else rfc3339(booked[0].start),
    )


def _next_booked(resource: Resource, scene: Scene) -> tuple[Slot, str] | None:
    """The next slot of anything that `resource` covers, and whose: a lease on it ends there (LEASE-26)."""
    booked = [it for cover in resource.covers for it in scene.bookings.get(cover, ())]
    slots = [(it.slot, it.holder) for it in booked if it.slot is not None and it.slot.end > scene.now.at]
    return min(slots, key=lambda it: it[0].start, default=None)


def _soonest(scene: Scene, holder: Lease | None, refusal: Refusal | None, *, waits: bool) -> str | None:
    """When all that stands in the way has an end, the latest of these; None where one has none known."""
    ends: list[str | None] = []
    if holder is not None:
        ends.append(_ends_at(holder, scene.now))
    if scene.fence is not None:
        ends.append(_at(scene.fence.until, scene.now))
    if refusal is not None:
        ends.append(refusal.expires_at if isinstance(refusal, BoxReserved) else None)
    if waits and holder is None:
        ends.append(None)
    known = [end for end in ends if end is not None]
    return None if len(known) < len(ends) else max(known, default=rfc3339(scene.now.at))


def fence_view(fence: Fence | None, running: Sequence[str], now: Moment) -> FenceView:
    """The fence as it is told."""
    if fence is None:
        return FenceView(up=False, running=tuple(running))
    return FenceView(
        up=True,
        by=fence.by,
        reason=fence.reason,
        since=rfc3339(fence.since.at),
        until=_at(fence.until, now),
        until_in_s=_left(fence.until, now),
        unreadable=fence.unreadable,
        running=tuple(running),
    )
