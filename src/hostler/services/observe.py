"""What is counted and logged of each request's end (GW-5, BG-03: a client that left is no success).

Decides which ends are worth an event: all but the good ones and the refusals, which have theirs already.
"""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.services.lanes import InFlight
from hostler.services.needs import Clock, Events, Meters
from hostler.services.picture import Picture
from hostler.services.requests import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Hears of every request's end."""

    meters: Meters
    clock: Clock
    events: Events

    def ended(self, entry: InFlight, outcome: Outcome, status: int) -> None:
        """A request is over. Never blocks."""
        now = self.clock.elapsed()
        self.meters.request(
            route=entry.route,
            engine=entry.engine or "-",
            outcome=outcome.value,
            seconds=now - entry.started,
            first_byte_s=None if entry.first_byte is None else entry.first_byte - entry.started,
        )
        if entry.degraded is not None:
            self.meters.degraded(route=entry.route, code=entry.degraded)
        if outcome is Outcome.OK or outcome is Outcome.REFUSED:
            return
        self.events.emit(
            Event(
                type="request_ended",
                at=self.clock.now(),
                actor=entry.requester.tag(),
                subject=frozen({"request": entry.id, "route": entry.route}),
                after=outcome.value,
                message=f"{entry.route} by {entry.engine or '-'}: {outcome.value}",
                facts=frozen(
                    {"status": status, "bytes": entry.bytes_out, "seconds": round(now - entry.started, 3)}
                ),
            )
        )

    def render(self, picture: Picture) -> bytes:
        """The metrics as text (METRIC-1), with the gauges read off `picture`."""
        return self.meters.render(picture)
