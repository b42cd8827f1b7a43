"""What the log says of a lease: the events of one decision (FEED-3).

Decides types, sentences and notices. The facts that they carry are `lease_facts`': they are absolute, so that
a reader who writes them over what it had keeps the same picture as a fresh snapshot gives. Decides no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.lease import (
    Abandoned,
    Activated,
    CancelAsked,
    ClosingBegun,
    Dropped,
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
from hostler.domain.lease_facts import at, changes, picture
from hostler.domain.moment import Moment, left
from hostler.domain.values import Priority, format_duration, rfc3339, shorten

TYPE_OF: Final[Mapping[type[LeaseEvent], str]] = {
    Waited: "lease_waiting",
    Offered: "lease_offered",
    TurnedBack: "lease_waiting",
    Granted: "lease_granted",
    Activated: "lease_active",
    Renewed: "lease_renewed",
    Warned: "lease_expiring",
    Reminded: "lease_reminder",
    Shifted: "lease_shifted",
    ClosingBegun: "window_closing",
    Struck: "window_strike",
    CancelAsked: "lease_cancelling",
    UndoBegun: "lease_releasing",
    Restored: "lease_ended",
    RestoreFailed: "lease_stuck",
    Interrupted: "lease_stuck",
    Abandoned: "lease_ended",
    Dropped: "lease_ended",
}

ABORTED: Final = "aborted"
"""How the cause of a window begins that was aborted (WIN-6)."""

LONGEST: Final = 400
"""Characters of a message."""


def opening(lease: Lease, now: Moment, actor: str) -> Event:
    """The event of a new lease: all that is known of it."""
    slot = lease.slot
    if slot is None:
        text = f"{_who(lease)} waits for {lease.resource}."
    else:
        text = f"{_who(lease)} has booked {lease.resource} from {rfc3339(slot.start)} to {rfc3339(slot.end)}."
    return Event(
        type="lease_queued" if slot is None else "lease_booked",
        at=now.at,
        actor=actor,
        subject=_subject(lease),
        after=lease.state,
        message=shorten(text, LONGEST),
        facts=frozen(dict(picture(lease, now))),
    )


def news(before: Lease, after: Lease, event: LeaseEvent, now: Moment) -> tuple[Event, ...]:
    """The events of one decision, to be recorded with it: the last one has the facts that changed.

    What drifted, and what an operator abandoned, is told by an event of its own before that.
    """
    priority, once = _notice(after, event, now)
    main = Event(
        type=TYPE_OF[type(event)],
        at=now.at,
        actor=event.actor,
        subject=_subject(after),
        before=before.state,
        after=after.state,
        message=shorten(_message(after, event, now), LONGEST),
        facts=frozen(changes(before, after, now) | _own_facts(event)),
        priority=priority,
        once=once,
    )
    return (*_aside(before, after, event, now), main)


def _aside(before: Lease, after: Lease, event: LeaseEvent, now: Moment) -> tuple[Event, ...]:
    """What is told beside the change itself."""
    drifted = [text for text in after.drift if text not in before.drift]
    if drifted:
        kind, text = "lease_drifted", f"{after.resource}: {'; '.join(drifted)}; it was left as it is."
        facts: dict[str, object] = {"drift": list(after.drift)}
    elif isinstance(event, Abandoned):
        kind, text = "lease_abandoned", f"{after.resource} was freed without its undo: {event.because}."
        facts = {"because": event.because, "unverified": list(event.unverified)}
    else:
        return ()
    return (
        Event(
            type=kind,
            at=now.at,
            actor=event.actor,
            subject=_subject(after),
            before=before.state,
            after=before.state,
            message=shorten(text, LONGEST),
            facts=frozen(facts),
            priority=Priority.NORMAL,
            once=f"{kind} {after.id} {len(after.drift)}",
        ),
    )


def _own_facts(event: LeaseEvent) -> dict[str, object]:
    """What an event says that is no part of the lease: never the name of a part of it."""
    match event:
        case Shifted():
            return {"shifted_s": event.seconds}
        case Warned():
            return {"offset_s": event.offset}
        case _:
            return {}


def _notice(after: Lease, event: LeaseEvent, now: Moment) -> tuple[Priority | None, str | None]:
    """Whom an event concerns even when nobody looks: its priority, and what makes it one notice."""
    match event:
        case Offered():
            return Priority.HIGH, f"offered {after.id} {at(after.offer, now)}"
        case Warned():
            return Priority.HIGH, f"expiring {after.id} {event.offset:g} {at(after.expires, now)}"
        case ClosingBegun() | Struck():
            return Priority.HIGH, f"{TYPE_OF[type(event)]} {after.id} {len(after.strikes)}"
        case Reminded():
            return Priority.NORMAL, f"reminder {after.id} {rfc3339(now.at)}"
        case RestoreFailed() | Interrupted():
            where = after.cause if after.failing is None else after.failing.n
            return Priority.URGENT, f"stuck {after.id} {where}"
        case UndoBegun() if after.mode and after.cause.startswith(ABORTED):
            return Priority.URGENT, f"aborted {after.id}"
        case _ if after.state in (State.EXPIRED, State.FAILED):
            return Priority.HIGH, f"ended {after.id}"
        case _:
            return None, None


OF_JOB: Final = "job "
"""Begins the actor of a renewal that a beat of a job was (LEASE-20)."""


def _message(lease: Lease, event: LeaseEvent, now: Moment) -> str:  # noqa: PLR0911 - as above
    who, what = _who(lease), lease.resource
    match event:
        case Shifted():
            return f"{format_duration(event.seconds)} under the fence do not count for {who} on {what}."
        case Waited(covers=covers) if covers is not None:
            return f"{who} waits for {what}, which is {', '.join(covers)} in the config now."
        case Warned():
            return f"The lease of {who} on {what} expires in {_time_left(lease, now)}."
        case Renewed() if lease.state is not State.ACTIVE:
            return f"The place of {who} for {what} is kept for {_time_left(lease, now)}."
        case Renewed(actor=actor) if actor.startswith(OF_JOB):
            return f"{who} has {what} for {_time_left(lease, now)} by a sign of life of {actor}."
        case Activated() | Renewed():
            return f"{who} has {what} for {_time_left(lease, now)}."
        case ClosingBegun() | Struck():
            return _of_window(lease, event, now)
        case Reminded():
            had = 0.0 if lease.activated is None else -left(lease.activated, now)
            return f"{who} has had {what} for {format_duration(had)}, without an end."
        case RestoreFailed():
            fail = event.failing
            return f"{what} is stuck at {fail.step}: wanted {fail.wanted}, seen {fail.seen}."
        case _:
            return _sentence(_PHRASES[TYPE_OF[type(event)]].format(who=who, what=what), lease)


_PHRASES: Final[Mapping[str, str]] = {
    "lease_waiting": "{who} is first in line for {what}",
    "lease_offered": "{what} is kept for {who}",
    "lease_granted": "{who} gets {what}; its steps begin",
    "lease_cancelling": "{who} does not get {what}",
    "lease_releasing": "{what} is being put back",
    "lease_stuck": "{what} is stuck",
    "lease_ended": "The lease of {who} on {what} is over",
}


def _sentence(text: str, lease: Lease) -> str:
    how = f", {lease.state}" if lease.state.ended else ""
    why = f": {lease.cause}" if lease.cause else ""
    return f"{text}{how}{why}."


def _time_left(lease: Lease, now: Moment) -> str:
    deadline = lease.expires or lease.place
    return "as long as it takes" if deadline is None else format_duration(left(deadline, now))


def _of_window(lease: Lease, event: ClosingBegun | Struck, now: Moment) -> str:
    window = f"the window of {_who(lease)} in {lease.mode}"
    if isinstance(event, Struck):
        return f"Strike {len(lease.strikes)} against {window}: {event.note}."
    cap = "some time" if lease.hard is None else format_duration(left(lease.hard, now))
    return f"No new requests for {window}; its cap is in {cap}."


def _who(lease: Lease) -> str:
    return shorten(lease.holder or lease.key)


def _subject(lease: Lease) -> Mapping[str, str]:
    return frozen({"lease": str(lease.id), "resource": lease.resource})
