"""A log that a test can read."""

from __future__ import annotations

from hostler.domain.events import TYPES, Event


class EventList:
    """The need `Events`: keeps what was emitted, in order. An unknown type fails the test at once."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def emit(self, event: Event) -> None:
        assert event.type in TYPES, f"no such event: {event.type}"
        self.all.append(event)

    @property
    def types(self) -> list[str]:
        """The types emitted so far."""
        return [event.type for event in self.all]

    def of(self, type_: str) -> list[Event]:
        """Those of one type."""
        return [event for event in self.all if event.type == type_]

    def last(self, type_: str) -> Event:
        """The latest of one type; there must be one."""
        found = self.of(type_)
        assert found, f"no {type_} among {self.types}"
        return found[-1]
