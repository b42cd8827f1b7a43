"""When a running engine has failed: three looks, or no progress (ENG-8).

Decides on what the probes and the work saw. Never asks an engine anything, and never wakes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hostler.domain.engine import Readiness

PROBE_EVERY_S: Final = 10.0
FAILURES: Final = 3
STALL_S: Final = 600.0
"""Work under way without any progress for this long is a stall."""

_AT_ONCE: Final = frozenset({Readiness.DEAD, Readiness.STRANGER, Readiness.WRONG_MODEL})
"""What no second look will mend: nobody may be sent there (ENG-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What the looks so far say: failures in a row, and whether that makes the engine failed."""

    failures: int
    failed: bool = False


def observe(failures: int, seen: Readiness, *, progressed: bool) -> Pulse:
    """The pulse after one more look at a ready engine; three bad ones in a row make it failed (ENG-8).

    `progressed`: its work moved on since the last look. An engine that is too busy to answer a probe while
    it streams is well.
    """
    if seen in _AT_ONCE:
        return Pulse(failures=failures + 1, failed=True)
    if seen is Readiness.READY or progressed:
        return Pulse(failures=0)
    return Pulse(failures=failures + 1, failed=failures + 1 >= FAILURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The last progress of an engine's work: `mark` as it was then, and when (elapsed seconds)."""

    mark: float
    since: float

    def stalled(self, now: float, limit_s: float = STALL_S) -> bool:
        """Whether the work has not moved for `limit_s`."""
        return now - self.since >= limit_s


def progress(last: Progress | None, *, in_flight: int, mark: float, now: float) -> Progress | None:
    """The progress after one look; None while there is no work, which cannot stall (ENG-8).

    `mark` is any number that changes when the work moves: bytes passed on, the engine's own token counts.
    A long answer that keeps streaming changes it; time alone does not.
    """
    if in_flight == 0:
        return None
    if last is None or mark != last.mark:
        return Progress(mark=mark, since=now)
    return last
