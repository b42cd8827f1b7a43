"""Moments and deadlines: time as the deciding machine measured it (LEASE-21).

Decides how long it is until a deadline. While the machine has not been restarted since the deadline was
set, its elapsed clock counts, suspend included, so that a wall clock that jumps ends nothing early or late;
across a restart only the wall clock is left. Reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One reading of a machine's clocks, or a deadline made from one.

    `at` is the wall clock, aware and in UTC; `boot` names the run of the machine; `elapsed` is its
    CLOCK_BOOTTIME in seconds.
    """

    at: datetime
    boot: str
    elapsed: float

    def plus(self, seconds: float) -> Moment:
        """The moment `seconds` later; earlier when negative."""
        at = self.at + timedelta(seconds=seconds)
        return Moment(at=at, boot=self.boot, elapsed=self.elapsed + seconds)


def left(deadline: Moment, now: Moment) -> float:
    """Seconds until `deadline`, negative once it has passed."""
    if deadline.boot == now.boot:
        return deadline.elapsed - now.elapsed
    return (deadline.at - now.at).total_seconds()


def passed(deadline: Moment | None, now: Moment) -> bool:
    """Whether there is a deadline and it has passed; at the deadline itself it has."""
    return deadline is not None and left(deadline, now) <= 0


def shown(deadline: Moment, now: Moment) -> datetime:
    """The deadline as a wall time of now, for people and records: where `now` says it will be."""
    return now.at + timedelta(seconds=left(deadline, now))


def sooner(now: Moment, *deadlines: Moment | None) -> Moment | None:
    """The deadline that passes first, as seen from `now`; None when none is given."""
    given = [deadline for deadline in deadlines if deadline is not None]
    return min(given, key=lambda deadline: left(deadline, now), default=None)
