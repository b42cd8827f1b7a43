"""What a store's thread remembers between transactions: values with their rows' texts, and what is known.

Decides the bound, and that a value counts for as long as the row has the text that it was read from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from hostler.adapters.store.live import Known
from hostler.domain.job import Job
from hostler.domain.lease import Lease
from hostler.wire.records import job_from_text, lease_from_text

T = TypeVar("T")
REMEMBERED: Final = 12_000
"""Values kept in memory of each kind: more than are often live at once, at about 3 KiB each."""


@dataclass(eq=False, slots=True)
class Remembered(Generic[T]):
    """The last text of each row by its id, with the value that `make` gives of that text.

    A row's text is the whole value: as long as it is the same, it is not read again. Of more than
    `REMEMBERED` those go first that were longest not read or written anew.
    """

    make: Callable[[str], T]
    by_id: OrderedDict[str, tuple[str, T]] = field(default_factory=OrderedDict)

    def __call__(self, id_: str, text: str) -> T:
        known = self.by_id.get(id_)
        return known[1] if known is not None and known[0] == text else self.keep(id_, text, self.make(text))

    def keep(self, id_: str, text: str, value: T) -> T:
        """The value that `make` gives of that text."""
        self.by_id[id_] = (text, value)
        self.by_id.move_to_end(id_)
        if len(self.by_id) > REMEMBERED:
            self.by_id.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the store's thread remembers between transactions."""

    lease: Remembered[Lease] = field(default_factory=lambda: Remembered(lease_from_text))
    job: Remembered[Job] = field(default_factory=lambda: Remembered(job_from_text))
    known: Known = field(default_factory=Known)
