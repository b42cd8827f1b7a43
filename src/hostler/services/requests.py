"""The in-flight table: every inference request under way (GW-9).

Decides what a request's outcome is called. Kept in memory only: a request is not a promise that
outlives the daemon.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from hostler.domain.errors import Ended, NotFound, Refusal
from hostler.domain.values import Requester
from hostler.services.lanes import InFlight
from hostler.services.needs import Clock, Ids


class Outcome(StrEnum):
    """How a request ended. Only OK is a success: a client that left is no 200 (BG-03)."""

    OK = "ok"
    REFUSED = "refused"
    CLIENT_GONE = "client_gone"
    UPSTREAM_DIED = "upstream_died"
    UPSTREAM_ERROR = "upstream_error"
    CUT = "cut"
    SILENT = "silent"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """All requests of this gateway, in order of arrival."""

    clock: Clock
    ids: Ids
    table: dict[str, InFlight] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    stem: list[str] = field(default_factory=list)

    def open(
        self, requester: Requester, *, route: str, path: str, cut: Callable[[Refusal], None]
    ) -> InFlight:
        """A new row. `cut` must end the request soon, with the refusal it is given."""
        entry = InFlight(
            id=self._fresh(),
            requester=requester,
            route=route,
            path=path,
            started=self.clock.elapsed(),
            cut=cut,
        )
        self.table[entry.id] = entry
        return entry

    def _fresh(self) -> str:
        """A new id: an unguessable stem for this daemon's life, and a number; dice for each cost too much."""
        if not self.stem:
            self.stem.append(self.ids.new("rq"))
        return f"{self.stem[0]}{next(self.numbers):x}"

    def close(self, entry: InFlight) -> None:
        """The request has ended, however it did."""
        self.table.pop(entry.id, None)
        # Whoever made the row holds it, and its `cut` holds them: a ring that only the collector would open.
        entry.cut = _over

    def cancel(self, request: str, by: Requester) -> None:
        """End a request by its id with an error frame. Refuses `not_found`."""
        entry = self.table.get(request)
        if entry is None:
            raise NotFound(what="request", name=request, nearest="It may have ended already.")
        entry.cut(Ended(what="request", name=request, why=f"cancelled by {by.tag()}"))

    def all(self) -> Iterable[InFlight]:
        """The rows at this moment."""
        return tuple(self.table.values())


def _over(cause: Refusal) -> None:
    """What ends a request that has ended: nothing."""
