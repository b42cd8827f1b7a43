"""The store's counters: where the log stands, which numbers were given out (FEED-2, LEASE-8).

Decides nothing. The same for every store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hostler.domain.events import Event

Clean = Callable[[Event], Event]
"""What takes secrets out of an event before it is written (SEC-1)."""


def unchanged(event: Event) -> Event:
    """The event as it is."""
    return event


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """`seq` is the last event's number, `pruned` the highest that was dropped, `generation` the last fence
    number, `leases` the number of the last lease; `began` is the `seq` with which `epoch` began.
    """

    epoch: str
    seq: int = 0
    pruned: int = 0
    generation: int = 0
    leases: int = 0
    began: int = 0


def begun(counters: Counters, epoch: str, generation: int) -> Counters:
    """The counters of a new epoch. ValueError for one that does not sort after the present one."""
    if epoch <= counters.epoch:
        raise ValueError(f"{epoch} does not come after {counters.epoch}")
    return replace(counters, epoch=epoch, began=counters.seq, generation=max(counters.generation, generation))
