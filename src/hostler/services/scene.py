"""The schedule at one instant, with what is asked of all its leases: who holds, who waits, in which order.

Decides nothing. Each answer is worked out at its first question, from one pass over the leases: telling many
of them costs their number, not its square.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hostler.domain.fence import Fence
from hostler.domain.fleet import Fleet
from hostler.domain.lease import Lease, LeaseId, State
from hostler.domain.moment import Moment
from hostler.domain.queue import Place, order, places


@dataclass(frozen=True, kw_only=True)
class Scene:
    """All live leases by number, the fence, the time. Without slots: it keeps what it worked out.

    `wrong` tells what of an active lease is not as it should be now.
    """

    fleet: Fleet
    live: Sequence[Lease]
    fence: Fence | None
    now: Moment
    wrong: Callable[[Lease], tuple[str, ...]] = lambda _: ()

    @cached_property
    def waiting(self) -> Sequence[Lease]:
        """Those that queue, in their order."""
        return order([it for it in self.live if it.state is State.QUEUED], self.now)

    @cached_property
    def lines(self) -> Mapping[str, Sequence[Lease]]:
        """Who waits for each resource, in their order."""
        return _by_cover(self.waiting)

    @cached_property
    def bookings(self) -> Mapping[str, Sequence[Lease]]:
        """The bookings of each resource, by number."""
        return _by_cover(it for it in self.live if it.state is State.SCHEDULED)

    @cached_property
    def _holders(self) -> Mapping[str, Lease]:
        return {cover: it for it in self.live if it.state.holds for cover in it.covers}

    def holder(self, resource: str) -> Lease | None:
        """Who has a claim on `resource`."""
        return self._holders.get(resource)

    def in_the_way(self, lease: Lease) -> Lease | None:
        """Who holds any of what `lease` covers; of several the one that came first."""
        found = (self._holders.get(cover) for cover in lease.covers)
        others = (it for it in found if it is not None and it.id != lease.id)
        return min(others, key=lambda it: it.number, default=None)

    @cached_property
    def _places(self) -> dict[tuple[str, ...], Mapping[LeaseId, Place]]:
        return {}

    def place(self, lease: Lease) -> Place | None:
        """Where it stands among those that wait for anything that it covers; None when it does not wait.

        Worked out once for all leases that cover the same.
        """
        if lease.state is not State.QUEUED:
            return None
        if lease.covers not in self._places:
            self._places[lease.covers] = places(self.waiting, lease.covers)
        return self._places[lease.covers].get(lease.id)


def _by_cover(leases: Iterable[Lease]) -> Mapping[str, Sequence[Lease]]:
    found: dict[str, list[Lease]] = {}
    for lease in leases:
        for cover in lease.covers:
            found.setdefault(cover, []).append(lease)
    return found
