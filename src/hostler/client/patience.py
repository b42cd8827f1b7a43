"""Asking again while the head is away: what passes, how long between tries, how long at all.

Decides that a refusal is never asked again (401 and 403 least of all: R98), that a head which is down,
restarting or troubled is (R94), and that tries are spread by chance, at most 15 s apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from hostler.client.call import REDIRECTED
from hostler.client.drive import Ask, Pause, Steps
from hostler.client.machine import Machine
from hostler.domain.errors import DaemonUnreachable, Kind, Refusal

FIRST_S: Final = 0.25
LONGEST_S: Final = 15.0
_DOUBLINGS: Final = 10
_PASSING: Final = frozenset({Kind.UNAVAILABLE, Kind.UNREACHABLE, Kind.INTERNAL})


def passes(refusal: Refusal) -> bool:
    """Whether the same call may succeed later without anybody's doing: no answer, a broken one, a 5xx."""
    if isinstance(refusal, DaemonUnreachable):
        return refusal.why != REDIRECTED
    return refusal.kind in _PASSING or refusal.code == "rate_limited"


def between(tries: int, jitter: float, after: int | None = None) -> float:
    """Seconds to the next try after `tries` failed ones: doubling up to 15 s, half of it by chance.

    `after` is the answer's Retry-After, heeded up to the same 15 s.
    """
    longest: float = min(LONGEST_S, FIRST_S * 2 ** min(tries, _DOUBLINGS))
    return min(LONGEST_S, max(longest * (0.5 + jitter / 2), float(after or 0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """An answer, and the elapsed time at which the attempt that brought it began (LEASE-22)."""

    value: object
    began: float


def patiently(ask: Ask, machine: Machine, patience_s: float = 0.0) -> Steps[Got]:
    """The answer, asked for again for up to `patience_s` while the head is away (infinite: for ever).

    Raises the last refusal. A call that changes anything must be safe to repeat.
    """
    deadline, tries = machine.elapsed() + patience_s, 0
    while True:
        began = machine.elapsed()
        try:
            return Got(value=(yield ask), began=began)
        except Refusal as refusal:
            wait = between(tries, machine.jitter(), refusal.retry_after)
            left = deadline - machine.elapsed()
            if not passes(refusal) or left <= 0:
                raise
        yield Pause(seconds=min(wait, left) if math.isfinite(left) else wait)
        tries += 1
