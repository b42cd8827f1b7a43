"""The machine of leases: which event moves a lease from which state to which (LEASE-6).

Decides every state, and what else an event changes. What the log says of it is `lease_news`'s; whether an
event is due, and what may be granted to whom, is asked elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatch
from typing import Final

from hostler.domain.errors import IllegalTransition
from hostler.domain.lease import (
    Abandoned,
    Activated,
    CancelAsked,
    ClosingBegun,
    Decision,
    Dropped,
    Effect,
    Granted,
    Interrupted,
    Lease,
    LeaseEvent,
    Offered,
    Reminded,
    Renewed,
    Restored,
    RestoreFailed,
    Shifted,
    State,
    Struck,
    TurnedBack,
    UndoBegun,
    Waited,
    Warned,
)
from hostler.domain.lease_news import news, opening
from hostler.domain.moment import Moment, sooner

EVENTS: Final[tuple[type[LeaseEvent], ...]] = (
    Waited,
    Offered,
    Granted,
    Activated,
    Renewed,
    Warned,
    Reminded,
    Shifted,
    ClosingBegun,
    Struck,
    CancelAsked,
    UndoBegun,
    Restored,
    RestoreFailed,
    Interrupted,
    Abandoned,
    Dropped,
    TurnedBack,
)

INITIAL: Final = (State.SCHEDULED, State.QUEUED)
"""A lease begins as a booking or in the queue, even when it gets its resource at once."""

UNDONE: Final = (State.RELEASED, State.EXPIRED, State.FAILED, State.CANCELLED)
"""How a lease that held its resources may end."""

DROPPED: Final = (State.CANCELLED, State.LAPSED, State.FAILED)
"""How a claim that was never granted may end."""

TRANSITIONS: Final[Mapping[State, Mapping[type[LeaseEvent], tuple[State, ...]]]] = {
    State.SCHEDULED: {
        Waited: (State.SCHEDULED,),
        Offered: (State.OFFERED,),
        Shifted: (State.SCHEDULED,),
        Dropped: DROPPED,
    },
    State.QUEUED: {
        Waited: (State.QUEUED,),
        Renewed: (State.QUEUED,),
        Offered: (State.OFFERED,),
        Granted: (State.ACTIVATING,),
        Shifted: (State.QUEUED,),
        Dropped: DROPPED,
    },
    State.OFFERED: {
        Renewed: (State.OFFERED,),
        Granted: (State.ACTIVATING,),
        TurnedBack: INITIAL,
        Shifted: (State.OFFERED,),
        Dropped: DROPPED,
    },
    State.ACTIVATING: {
        Activated: (State.ACTIVE,),
        CancelAsked: (State.ACTIVATING,),
        UndoBegun: (State.RELEASING,),
        Interrupted: (State.STUCK,),
        Shifted: (State.ACTIVATING,),
    },
    State.ACTIVE: {
        Renewed: (State.ACTIVE,),
        Warned: (State.ACTIVE,),
        Reminded: (State.ACTIVE,),
        ClosingBegun: (State.ACTIVE,),
        Struck: (State.ACTIVE,),
        UndoBegun: (State.RELEASING,),
        Shifted: (State.ACTIVE,),
    },
    State.RELEASING: {
        Restored: UNDONE,
        RestoreFailed: (State.STUCK,),
        Interrupted: (State.STUCK,),
        Shifted: (State.RELEASING,),
    },
    State.STUCK: {
        UndoBegun: (State.RELEASING,),
        Abandoned: UNDONE,
        Shifted: (State.STUCK,),
    },
    State.RELEASED: {},
    State.EXPIRED: {},
    State.FAILED: {},
    State.CANCELLED: {},
    State.LAPSED: {},
}

_FREED: Final = frozenset({Effect.PROMOTE, Effect.WAKE})
_TOLD: Final = frozenset({Effect.WAKE})

EFFECTS: Final[Mapping[type[LeaseEvent], frozenset[Effect]]] = {
    Offered: _TOLD,
    Granted: frozenset({Effect.ACTIVATE, Effect.WAKE}),
    Activated: _TOLD,
    UndoBegun: frozenset({Effect.RESTORE, Effect.WAKE}),
    Restored: _FREED,
    RestoreFailed: _TOLD,
    Interrupted: _TOLD,
    Abandoned: _FREED,
    Dropped: _FREED,
    TurnedBack: _TOLD,
}
"""What is to be done after an event. A dropped place frees those that waited behind it (F27)."""


def opened(lease: Lease, now: Moment, *, actor: str = "schedule") -> Decision:
    """The first event of a lease that was just put: `lease_booked` or `lease_queued`, with all its facts.

    Nobody may know yet that its resource is free: the effect is PROMOTE.
    """
    return Decision(lease=lease, events=(opening(lease, now, actor),), effects=frozenset({Effect.PROMOTE}))


def decide(lease: Lease, event: LeaseEvent, now: Moment) -> Decision:
    """What becomes of `lease` by `event`. The only function that changes a lease's state.

    An event that changes nothing (a repeated cancel, a renewal that gives no more time) is told to nobody and
    has no effects. `seq` is the store's: whoever records the events sets it. Raises IllegalTransition for
    a pair that `TRANSITIONS` does not have, for an ending that it does not name, and for the activation of a
    lease whose cancel was asked for (LEASE-16).
    """
    after, state = _changed(event, lease, now), _target(lease, event)
    if state.ended:
        after = replace(after, state=state, ended=now, place=None, offer=None)
    elif state is not lease.state:
        after = replace(after, state=state)
    if after == lease:
        return Decision(lease=lease)
    return Decision(
        lease=after, events=news(lease, after, event, now), effects=EFFECTS.get(type(event), frozenset())
    )


def _target(lease: Lease, event: LeaseEvent) -> State:
    """The state that `event` leads to: of several in the table the one that it, or the lease, names."""
    targets = TRANSITIONS[lease.state].get(type(event), ())
    match event:
        case Dropped():
            wanted = event.ending
        case Restored() | Abandoned():
            wanted = lease.ending or State.RELEASED
        case TurnedBack():
            wanted = State.QUEUED if lease.slot is None else State.SCHEDULED
        case _:
            wanted = targets[0] if targets else lease.state
    refused = (isinstance(event, UndoBegun) and event.ending not in UNDONE) or (
        isinstance(event, Activated) and lease.cancelled
    )
    if refused or wanted not in targets:
        raise IllegalTransition(noun="lease", state=lease.state, event=type(event).__name__)
    return wanted


# ---------------------------------------------------------------- what an event changes beside the state


@singledispatch
def _changed(event: LeaseEvent, lease: Lease, _now: Moment) -> Lease:
    raise IllegalTransition(noun="lease", state=lease.state, event=type(event).__name__)


@_changed.register
def _(event: Waited, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, cause=event.why, covers=event.covers or lease.covers)


@_changed.register
def _(event: Offered, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, offer=event.until, cause="")


@_changed.register
def _(event: TurnedBack, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, offer=None, cause=event.why)


@_changed.register
def _(event: Granted, lease: Lease, now: Moment) -> Lease:
    granted = replace(lease, fence=event.fence, plan=event.plan, place=None, offer=None, cause="")
    if not lease.mode or lease.ttl_s is None:
        return granted
    # A cap is absolute: it counts from here, as the deadmen's does that are armed first (WIN-2).
    hard = now.plus(lease.ttl_s)
    return replace(granted, hard=hard, limited_by="cap", soft=hard.plus(-lease.drain_before_s))


@_changed.register
def _(event: Activated, lease: Lease, now: Moment) -> Lease:
    end = None if lease.ttl_s is None else now.plus(lease.ttl_s)
    return replace(
        lease,
        activated=now,
        expires=sooner(now, end, event.hard),
        hard=event.hard,
        limited_by=event.limited_by,
        warned=(),
        cause="",
    )


@_changed.register
def _(event: Renewed, lease: Lease, _now: Moment) -> Lease:
    expires = event.expires or lease.expires
    return replace(
        lease,
        place=event.place or lease.place,
        expires=expires,
        hard=event.hard or lease.hard,
        limited_by=event.limited_by if event.hard else lease.limited_by,
        warned=lease.warned if expires == lease.expires else (),
    )


@_changed.register
def _(event: Warned, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, warned=tuple(sorted({*lease.warned, event.offset}, reverse=True)))


@_changed.register
def _(_event: Reminded, lease: Lease, now: Moment) -> Lease:
    return replace(lease, reminded=now)


@_changed.register
def _(event: Shifted, lease: Lease, now: Moment) -> Lease:
    def later(deadline: Moment | None) -> Moment | None:
        return None if deadline is None else deadline.plus(event.seconds)

    # A booking's start is a time of the wall clock, a cap is absolute: a fence moves neither.
    hard = lease.hard if lease.limited_by in ("booking", "cap") else later(lease.hard)
    expires = None if lease.expires is None else sooner(now, later(lease.expires), hard)
    return replace(
        lease,
        place=later(lease.place),
        offer=later(lease.offer),
        activated=later(lease.activated),
        expires=expires,
        hard=hard,
        warned=lease.warned if expires == lease.expires else (),
    )


@_changed.register
def _(_event: ClosingBegun, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, closing=True)


@_changed.register
def _(event: Struck, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, strikes=(*lease.strikes, event.note))


@_changed.register
def _(event: CancelAsked, lease: Lease, _now: Moment) -> Lease:
    return lease if lease.cancelled else replace(lease, cancelled=True, cause=event.why or "cancelled")


@_changed.register
def _(event: UndoBegun, lease: Lease, _now: Moment) -> Lease:
    ending = lease.ending or event.ending
    # Why it was stuck is over with the release; why it failed or was called off is what its holder is told.
    before = "" if ending is State.RELEASED else lease.cause
    return replace(lease, ending=ending, cause=event.why or before, failing=None)


@_changed.register
def _(event: Restored, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, drift=_with(lease.drift, event.drift))


@_changed.register
def _(event: RestoreFailed, lease: Lease, _now: Moment) -> Lease:
    drift = _with(lease.drift, event.drift)
    return replace(lease, failing=event.failing, drift=drift, cause=lease.cause or "restore")


@_changed.register
def _(event: Interrupted, lease: Lease, _now: Moment) -> Lease:
    # An activation that a restart cut off has failed, or was called off: put back, it ends as that.
    ending = lease.ending or (State.CANCELLED if lease.cancelled else State.FAILED)
    return replace(lease, ending=ending, cause=event.why)


@_changed.register
def _(event: Abandoned, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, cause=f"abandoned: {event.because}", failing=None)


@_changed.register
def _(event: Dropped, lease: Lease, _now: Moment) -> Lease:
    return replace(lease, cause=event.why)


def _with(known: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*known, *more)))
