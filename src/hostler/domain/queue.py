"""Who is next for a resource (LEASE-23).

Decides the order of those that wait, and which of them could have what they wait for now. Reads no clock,
and does not know why somebody cannot have it yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import inf
from typing import Final

from hostler.domain.lease import Lease, LeaseId
from hostler.domain.moment import Moment, left

LEVEL_S: Final = 1800.0
"""Whoever has waited so long counts one level of priority more: nobody waits for ever (F29)."""


def order(waiting: Iterable[Lease], now: Moment) -> list[Lease]:
    """Those that stand in line, the first one first; bookings whose start has not come do not stand in it.

    Bookings that have begun come first, by their start; then by priority, one level more for each
    `LEVEL_S` waited, then by number. So whoever came `LEVEL_S` times the difference of two priorities before
    another is before it.
    """
    line = [lease for lease in waiting if lease.slot is None or lease.slot.start <= now.at]
    waited = _waited(line, now)

    def rank(lease: Lease) -> tuple[float, float, int]:
        if lease.slot is not None:
            return -inf, lease.slot.start.timestamp(), lease.number
        return -(lease.priority + waited[lease.number] // LEVEL_S), 0.0, lease.number

    return sorted(line, key=rank)


def _waited(line: Iterable[Lease], now: Moment) -> dict[int, float]:
    """Seconds waited, by number: whoever came earlier has waited as long as anybody later, at least.

    Across a restart of the machine only the wall clock tells how long that was, and it may have jumped.
    """
    found, most = dict[int, float](), 0.0
    for lease in sorted(line, key=lambda it: it.number, reverse=True):
        most = max(most, -left(lease.created, now))
        found[lease.number] = most
    return found


def next_up(ordered: Sequence[Lease], taken: AbstractSet[str]) -> list[Lease]:
    """Those of `ordered` that could have all that they cover now, while `taken` are the resources held.

    One that has to wait keeps what it covers for itself: a later one that covers any of it waits (F27).
    """
    free: list[Lease] = []
    spoken_for = set(taken)
    for lease in ordered:
        if spoken_for.isdisjoint(lease.covers):
            free.append(lease)
        spoken_for.update(lease.covers)
    return free


@dataclass(frozen=True, slots=True)
class Place:
    """A place in line: `n` from 1, and the seconds that those before it asked for (None: no end)."""

    n: int
    before_s: float | None


def places(ordered: Iterable[Lease], covers: Iterable[str]) -> Mapping[LeaseId, Place]:
    """The places of those of `ordered` that cover anything of `covers`, in one pass."""
    asked, found, before = frozenset(covers), dict[LeaseId, Place](), 0.0
    for lease in ordered:
        if not asked.isdisjoint(lease.covers):
            found[lease.id] = Place(len(found) + 1, None if before == inf else before)
            before += inf if lease.ttl_s is None else lease.ttl_s
    return found
