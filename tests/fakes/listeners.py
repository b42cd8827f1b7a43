"""Listeners and rows as a test says them."""

from dataclasses import dataclass, field

from hostler.domain.errors import Refusal
from hostler.domain.ports import Row
from hostler.services.lanes import Lanes
from hostler.services.ports_live import Listening, PortWatch


@dataclass(slots=True)
class FakeListeners:
    """The need `Listeners`, and the registry beside it."""

    found: list[Listening] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    broken: OSError | None = None
    refusal: Refusal | None = None

    def listening(self) -> tuple[Listening, ...]:
        if self.broken is not None:
            raise self.broken
        return tuple(self.found)

    def registry(self) -> list[Row]:
        """The rows now."""
        if self.refusal is not None:
            raise self.refusal
        return self.rows


def watch_of(lanes: Lanes, listeners: FakeListeners) -> PortWatch:
    """The real watch on them."""
    return PortWatch(listeners=listeners, lanes=lanes, rows=listeners.registry, listen=("127.0.0.1:7070",))
