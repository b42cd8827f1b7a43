"""What a store's thread remembers between transactions: values by the texts of their rows, and what is known.

Decides the bound. A row's text is the whole value, so that a text never stands for another value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from hostler.adapters.store.live import Known
from hostler.domain.job import Job
from hostler.domain.lease import Lease
from hostler.wire.records import job_from_text, lease_from_text

T = TypeVar("T")
REMEMBERED: Final = 12_000
"""Values kept in memory of each kind: more than may be live at once, at about 3 KiB each."""


@dataclass(eq=False, slots=True)
class Remembered(Generic[T]):
    """Values by their texts: a row's text is the whole value, so what was read once is not read again."""

    make: Callable[[str], T]
    by_text: dict[str, T] = field(default_factory=dict)

    def __call__(self, text: str) -> T:
        found = self.by_text.get(text)
        return self.keep(text, self.make(text)) if found is None else found

    def keep(self, text: str, value: T) -> T:
        """The value that `make` gives of that text."""
        if len(self.by_text) >= REMEMBERED:
            self.by_text.clear()
        self.by_text[text] = value
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the store's thread remembers between transactions."""

    lease: Remembered[Lease] = field(default_factory=lambda: Remembered(lease_from_text))
    job: Remembered[Job] = field(default_factory=lambda: Remembered(job_from_text))
    known: Known = field(default_factory=Known)
