"""What is taken out of an event before it is kept: secrets, and halves of characters (SEC-1).

Decides it for every writer: the queue of events, and transactions of the schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.values import escape_controls, shorten

MAX_MESSAGE: Final = 500


def unchanged(text: str) -> str:
    """The text as it is: where there is nothing to take out."""
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """`redact` takes secrets out of a text."""

    redact: Callable[[str], str] = unchanged

    def event(self, event: Event) -> Event:
        """The event without secrets, its message on one line of bounded length."""
        return replace(
            event,
            actor=self._text(event.actor),
            subject=frozen({key: self._text(item) for key, item in event.subject.items()}),
            before=None if event.before is None else self._text(event.before),
            after=None if event.after is None else self._text(event.after),
            once=None if event.once is None else self._text(event.once),
            message=shorten(self.redact(event.message), MAX_MESSAGE),
            facts=frozen({key: self._value(item) for key, item in event.facts.items()}),
        )

    def _text(self, text: str) -> str:
        """Without secrets, and without halves of characters, which no file takes; lines stay lines."""
        clean = self.redact(text)
        return clean if clean.isprintable() else "\n".join(map(escape_controls, clean.split("\n")))

    def _value(self, value: object) -> object:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {key: self._value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        return value
