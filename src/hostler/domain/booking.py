"""Bookings: slots of the wall clock that a resource is promised for (LEASE-26).

Decides what a start means in the fleet's time zone, whether slots overlap, and how far a grant may run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from hostler.domain.errors import InvalidRequest
from hostler.domain.hold_record import parse_instant
from hostler.domain.lease import Lease, Slot, State
from hostler.domain.moment import Moment, shown
from hostler.domain.values import rfc3339, shorten

CLAIM_S: Final = 900.0
"""A slot that nobody claimed so long after its start is free again."""

AHEAD_S: Final = 366 * 86_400.0
"""A booking begins within a year."""

FOREVER: Final = datetime.max.replace(tzinfo=UTC)
"""The end of what has none."""

_START: Final = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<minute>[0-9]{2}:[0-9]{2})"
    r"(?P<seconds>:[0-9]{2}(?:\.[0-9]{1,6})?)?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)


def parse_start(text: str, zone: tzinfo) -> datetime:
    """The instant in UTC of `2026-12-01T20:00Z`, or of a time without a zone, which is read in `zone`.

    Refuses `invalid_request`: another form, or a time that a change of the clocks skips or repeats, naming
    both readings (TIME-1).
    """
    match = _START.fullmatch(text.strip())
    seconds = "" if match is None else match["seconds"] or ":00"
    named = None if match is None else f"{match['date']}T{match['minute']}{seconds}"
    if named is None or match is None:
        raise _no_start(text)
    if match["zone"]:
        instant = parse_instant(named + match["zone"])
        if instant is None:
            raise _no_start(text)
        return instant
    try:
        return _unambiguous(datetime.fromisoformat(named), zone)
    except (ValueError, OverflowError) as error:
        raise _no_start(text) from error


def slot_of(start: datetime, seconds: float, now: Moment) -> Slot:
    """The slot of that length. Refuses `invalid_request` for a start that has passed, or is far.

    `seconds` as `lease_due.check_ttl` gives them.
    """
    last = now.plus(AHEAD_S).at
    if not now.at <= start <= last:
        raise InvalidRequest(
            what=f"A booking cannot begin at {rfc3339(start)}.",
            expected=f"Give a time from {rfc3339(now.at)} to {rfc3339(last)}.",
            where="start",
        )
    return Slot(start=start, end=start + timedelta(seconds=seconds))


def taken(lease: Lease, now: Moment) -> Slot | None:
    """The time that `lease` is known to need its resources: its slot, or from now until it expires.

    Without an end it is the rest of the calendar. None: it only waits, or when it ends is not known
    (releasing, stuck): a booking cannot be refused for that.
    """
    if lease.slot is not None and lease.state in (State.SCHEDULED, State.OFFERED):
        return lease.slot
    if lease.state not in (State.ACTIVATING, State.ACTIVE):
        return None
    if lease.state is State.ACTIVE:
        end = FOREVER if lease.expires is None else shown(lease.expires, now)
    else:
        end = FOREVER if lease.ttl_s is None else now.plus(lease.ttl_s).at
    return Slot(start=now.at, end=max(now.at, end))


def clash(slot: Slot, others: Iterable[Slot]) -> Slot | None:
    """The earliest of `others` that overlaps `slot`; one that ends when the other starts does not."""
    overlapping = (other for other in others if other.start < slot.end and slot.start < other.end)
    return min(overlapping, key=lambda other: other.start, default=None)


def free_parts(slot: Slot, others: Iterable[Slot]) -> tuple[Slot, ...]:
    """The parts of `slot` that none of `others` takes, in order."""
    free: list[Slot] = []
    start = slot.start
    for other in sorted(others, key=lambda other: other.start):
        if start < min(other.start, slot.end):
            free.append(Slot(start=start, end=min(other.start, slot.end)))
        start = max(start, other.end)
    if start < slot.end:
        free.append(Slot(start=start, end=slot.end))
    return tuple(free)


def parts_text(parts: Sequence[Slot]) -> str:
    """`2026-12-01T20:00:00.000Z to 2026-12-01T21:00:00.000Z`, joined by `, `; `nothing` for none."""
    return ", ".join(f"{rfc3339(part.start)} to {rfc3339(part.end)}" for part in parts) or "nothing"


def limit(now: Moment, bookings: Iterable[Slot]) -> Moment | None:
    """When the next of `bookings` begins: a grant or a renewal of another may run until then (F30).

    One that has begun and is not over is a limit of now. None: nothing is booked.
    """
    starts = [slot.start for slot in bookings if slot.end > now.at]
    if not starts:
        return None
    return now.plus(max(0.0, (min(starts) - now.at).total_seconds()))


def _unambiguous(named: datetime, zone: tzinfo) -> datetime:
    """The only reading of a local time. InvalidRequest, naming both, where the clocks change."""
    first, second = (named.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first != second:
        one, other = (at.strftime("%Y-%m-%dT%H:%M:%SZ") for at in sorted((first, second)))
        raise InvalidRequest(
            what=f"The clocks change at {named:%H:%M} on {named:%Y-%m-%d}: it is {one} or {other}.",
            expected="Give one of these two as the start.",
            where="start",
        )
    return first


def _no_start(text: str) -> InvalidRequest:
    return InvalidRequest(
        what=f"{shorten(text)!r} is no start of a booking.",
        expected="Give 2026-12-01T20:00Z, or 2026-12-01 20:00 in the fleet's time zone.",
        where="start",
    )
