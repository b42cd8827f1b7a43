"""Suspensions: engines that stay stopped until their owners let them start again (NODE-5).

Decides who keeps an engine from starting. Kept in `engines/<id>/suspended.json`, so that it survives
restarts. A record that cannot be read counts as suspended by `unknown`: fail closed.
"""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.services.lanes import Lane
from hostler.services.needs import Clock, Events, StateFiles

UNREADABLE = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspensions:
    """The owners of each engine's suspension: `person:NAME` now, lease ids later."""

    files: StateFiles
    clock: Clock
    events: Events

    def recall(self, lane: Lane) -> None:
        """Read who suspended it."""
        try:
            found = self.files.load(_name(lane))
        except ValueError:
            lane.suspended_by = (UNREADABLE,)
            return
        owners = found.get("owners") if found is not None else []
        good = isinstance(owners, list) and all(isinstance(owner, str) for owner in owners)
        lane.suspended_by = tuple(owners) if good and isinstance(owners, list) else (UNREADABLE,)

    def add(self, lane: Lane, owner: str) -> None:
        """Suspend for `owner`; again for the same one changes nothing. Durable when it returns."""
        if owner in lane.suspended_by:
            return
        self._keep(lane, (*lane.suspended_by, owner))
        self._tell("engine_suspended", lane, owner)

    def remove(self, lane: Lane, owner: str | None = None) -> None:
        """Take away `owner`'s suspension; None takes away every person's."""
        left = tuple(
            it
            for it in lane.suspended_by
            if not (it == owner or (owner is None and (it.startswith("person:") or it == UNREADABLE)))
        )
        if left == lane.suspended_by:
            return
        self._keep(lane, left)
        self._tell("engine_resumed", lane, owner or "person")

    def _keep(self, lane: Lane, owners: tuple[str, ...]) -> None:
        self.files.save(_name(lane), {"owners": list(owners)})
        lane.suspended_by = owners
        lane.notify()

    def _tell(self, kind: str, lane: Lane, owner: str) -> None:
        self.events.emit(
            Event(
                type=kind,
                at=self.clock.now(),
                actor=owner,
                subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
            )
        )


def _name(lane: Lane) -> str:
    return f"engines/{lane.engine.id}/suspended"
