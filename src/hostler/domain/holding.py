"""What a lease holds on a host: the thing, whose it is, and what anybody else is told (LEASE-15).

Decides whom a leased thing refuses and in which words. Which lease holds what is the schedule's decision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hostler.domain.errors import MIN_RETRY_S, Leased, WindowClosing
from hostler.domain.moment import Moment
from hostler.domain.values import Requester, rfc3339, shorten

ENGINE: Final = "engine"
ROUTE: Final = "route"
HOLD: Final = "hold"
"""The kinds of things that a lease holds; of a hold the name is its host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The lease that has a thing. `key` is the name of its holder's key; `until` None: without an end.

    `until` is aware, in UTC, by the clock of the host that keeps it: machines exchange durations (LEASE-21).
    `hard` is the end that no renewal moves: a node that is cut off puts back by itself then; None: it keeps
    what it has (NODE-4). `boot` is the run of the machine in which its node was first told of it (F20).
    Of a window `mode` is its mode, and `stop_accepting` when the things that it started take no new requests.
    """

    lease: str
    resource: str
    holder: str
    key: str = "-"
    until: datetime | None = None
    hard: Moment | None = None
    boot: str = ""
    mode: str = ""
    stop_accepting: datetime | None = None

    def is_of(self, by: Requester) -> bool:
        """Whether `by` names this lease, and came with the key that took it."""
        return bool(by.lease) and by.lease == self.lease and by.key == self.key


def closing(engine: str, holding: Holding | None, now: datetime) -> WindowClosing | None:
    """The refusal of a new request to an engine whose window closes, None where none does (WIN-2)."""
    if holding is None or holding.stop_accepting is None or now < holding.stop_accepting:
        return None
    left = None if holding.until is None else math.ceil((holding.until - now).total_seconds())
    return WindowClosing(
        engine=engine,
        stop_accepting_at=rfc3339(holding.stop_accepting),
        until="its end" if holding.until is None else rfc3339(holding.until),
        lease=holding.lease,
        retry_after=MIN_RETRY_S if left is None else max(MIN_RETRY_S, left),
    )


def place(kind: str, name: str) -> str:
    """How a held thing is named: `engine fast-4b`, `route chat`, `hold crow`."""
    return f"{kind} {name}"


def refusal(kind: str, name: str, holding: Holding, now: datetime) -> Leased:
    """What everybody but its holder is told of a leased thing; `Retry-After` where its end is known."""
    until = rfc3339(holding.until) if holding.until is not None else ""
    when = f"until {until}" if until else "without an end"
    left = None if holding.until is None else math.ceil((holding.until - now).total_seconds())
    return Leased(
        thing=name if kind == ENGINE else f"The {kind} {name}",
        why=f"{shorten(holding.holder)} has {holding.resource} {when}",
        lease=holding.lease,
        resource=holding.resource,
        holder=holding.holder,
        until=until,
        retry_after=None if left is None else max(MIN_RETRY_S, left),
    )
