"""The deployment fence: while it is up nothing expires and nothing is promoted (LEASE-28).

Decides how long it may be up and when it comes down by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from hostler.domain.errors import InvalidRequest
from hostler.domain.moment import Moment, left, passed
from hostler.domain.values import exact_duration, format_duration

LONGEST_S: Final = 2 * 3600.0
"""A fence is up for at most two hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fence that is up: since when, until when, who put it up and why.

    `unreadable` says why the record cannot be read: then it is up (fail closed), without an end.
    """

    since: Moment
    until: Moment
    by: str
    reason: str
    unreadable: str | None = None


def put_up(present: Fence | None, now: Moment, *, for_s: float, by: str, reason: str) -> Fence:
    """The fence that stands from now for `for_s` seconds; one that is up already keeps its beginning.

    Refuses `invalid_request`: without a reason, not above 0, or longer than `LONGEST_S` from its beginning.
    One that could not be read is replaced, and keeps its beginning too.
    """
    if not reason:
        raise InvalidRequest(
            what="A fence needs a reason: all who wait see it.",
            expected="Give one, such as `deploy`.",
            where="reason",
        )
    longest = LONGEST_S
    if present is not None and present.unreadable is None:
        longest -= under_s(present, now)
    if not 0 < for_s <= longest:
        raise InvalidRequest(
            what=f"A fence cannot be up for {exact_duration(for_s)}.",
            expected=f"Give a time above 0, at most {format_duration(LONGEST_S)} since it went up.",
            where="for_s",
        )
    since = now if present is None else present.since
    return Fence(since=since, until=now.plus(for_s), by=by, reason=reason)


def over(fence: Fence, now: Moment) -> bool:
    """Whether it comes down by itself now; one that cannot be read never does."""
    return fence.unreadable is None and passed(fence.until, now)


def anchored(fence: Fence, now: Moment) -> Fence:
    """The fence with its times as this run of the machine counts them: see `lease_due.anchored`."""
    if fence.unreadable is not None or fence.since.boot == now.boot:
        return fence
    since, until = (now.plus(left(time, now)) for time in (fence.since, fence.until))
    return replace(fence, since=since, until=until)


def under_s(fence: Fence, now: Moment, activated: Moment | None = None) -> float:
    """Seconds under the fence that count toward nothing, for the event Shifted; at most until its end.

    For a lease that became active under the fence, those since it did.
    """
    begun = -left(fence.since, now)
    if activated is not None:
        begun = min(begun, -left(activated, now))
    past = 0.0 if fence.unreadable is not None else max(0.0, -left(fence.until, now))
    return max(0.0, begun - past)


def counted(fence: Fence | None, now: Moment) -> Moment:
    """The moment from which deadlines count: under a fence its beginning, for time stands still there.

    A deadline made from it under the fence, and shifted by `under_s` when the fence comes down, is as far off
    then as it was meant to be; seconds left under the fence are `left(deadline, counted(fence, now))`.
    """
    return now if fence is None else now.plus(-under_s(fence, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceUp:
    """The deployment fence that is up (LEASE-28). `until` None: its record cannot be read."""

    reason: str
    by: str
    until: datetime | None
