"""The journal: what a lease set out to do, what each step found, and what is still owed (LEASE-10).

Decides what remains to be undone, and in which order. Stores nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from hostler.domain.plan import text
from hostler.domain.step import Found, Step, Undo
from hostler.domain.undo import inverse

UNKNOWN: Final = "not known by this node"
"""The note of an entry that stands for what another host did, or nobody."""


class EntryState(StrEnum):
    """How far one step came. An entry that was begun counts as done: undo looks first."""

    BEGUN = "begun"
    """Written before the effect; a crash leaves it here."""
    DONE = "done"
    """Seen to hold."""
    SKIPPED = "skipped"
    """It was so already: nothing was done, and nothing is undone."""
    UNDONE = "undone"
    """Put back, and seen to be."""
    DRIFTED = "drifted"
    """Somebody changed it meanwhile: left as it is, and told."""
    LEFT = "left"
    """Not undone, because what it depends on drifted or was abandoned."""

    @property
    def owed(self) -> bool:
        """Whether an undo still has to look at it."""
        return self in (EntryState.BEGUN, EntryState.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded execution of a step of a lease. `n` counts from 1 in the order of the plan.

    `note` says what was seen: `done (observed)`, what drifted and to what.
    """

    lease: str
    n: int
    step: Step
    found: Found
    state: EntryState = EntryState.BEGUN
    note: str = ""


def owed(entries: Iterable[Entry]) -> tuple[tuple[Entry, Undo | None], ...]:
    """What an undo still has to look at, last first, each with what puts it back; None: nothing does (R26).

    What was skipped, is put back, or was left already is not among it (R33).
    """
    last_first = sorted(entries, key=lambda it: it.n, reverse=True)
    return tuple((it, inverse(it.step, it.found)) for it in last_first if it.state.owed)


def unverified(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Each undo that was not done, as one phrase: what an operator who abandons a lease leaves (LEASE-14)."""
    return tuple(text(undo) for _, undo in owed(entries) if undo is not None)


def whole(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The same with an entry for each number: what lacks was another host's, or so already, and owes nothing.

    A node has receipts of what it did itself; a journal counts from 1 without gaps.
    """
    known = {it.n: it for it in entries}
    found: list[Entry] = []
    for n in range(max(known, default=0), 0, -1):
        later = known.get(n) or replace(found[-1], n=n, state=EntryState.SKIPPED, note=UNKNOWN)
        found.append(later)
    return tuple(reversed(found))
