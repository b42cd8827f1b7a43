"""What became of each step: the journal's entry and the log's event, in one transaction (LEASE-10, FEED-3).

Decides what the log says of a step. Which step is done when is the runner's.
"""

from __future__ import annotations

from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.journal import Entry, EntryState
from hostler.domain.lease import Lease
from hostler.domain.moment import Moment
from hostler.domain.plan import text
from hostler.domain.step import Found, Step, Undo
from hostler.services.schedule_needs import Tx

SO_ALREADY = "it was so already"


def begin(tx: Tx, lease: Lease, entry: Entry, now: Moment) -> None:
    """Write the step with what it found, before its effect."""
    tx.begin(entry)
    tx.record(_told("step_begun", lease, entry, now, text(entry.step)))


def skip(tx: Tx, lease: Lease, n: int, step: Step, found: Found) -> None:
    """Write that nothing is done, and so that nothing will be undone (F13)."""
    tx.begin(Entry(lease=lease.id, n=n, step=step, found=found))
    tx.mark(lease.id, n, EntryState.SKIPPED, SO_ALREADY)


def done(tx: Tx, lease: Lease, entry: Entry, now: Moment, note: str) -> None:
    """Write that the step was seen to hold."""
    tx.mark(lease.id, entry.n, EntryState.DONE, note)
    tx.record(_told("step_done", lease, entry, now, _noted(text(entry.step), note)))


def undone(tx: Tx, lease: Lease, entry: Entry, now: Moment, undo: Undo | None, note: str) -> None:
    """Write that the step is put back, and was seen to be; or that there is nothing to put back."""
    tx.mark(lease.id, entry.n, EntryState.UNDONE, note)
    tx.record(_told("step_undone", lease, entry, now, _noted(text(undo or entry.step), note)))


def failed(tx: Tx, lease: Lease, n: int, now: Moment, why: str) -> None:
    """Tell that a step, or its undo, was not seen to hold; its entry stays owed."""
    tx.record(
        Event(
            type="step_failed",
            at=now.at,
            actor="schedule",
            subject=frozen({"lease": str(lease.id), "resource": lease.resource}),
            message=why,
            facts=frozen({"n": n}),
        )
    )


def _told(kind: str, lease: Lease, entry: Entry, now: Moment, message: str) -> Event:
    return Event(
        type=kind,
        at=now.at,
        actor="schedule",
        subject=frozen({"lease": str(lease.id), "resource": lease.resource}),
        message=message,
        facts=frozen({"n": entry.n, "kind": entry.step.kind, "host": entry.step.host}),
    )


def _noted(words: str, note: str) -> str:
    return f"{words}: {note}" if note else words
