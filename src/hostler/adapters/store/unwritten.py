"""Rows of one work that its transaction has not written yet: leases by their last state, events in order.

A lease changes several times within one work, and only the last row of it is ever read by anybody else: it is
written once. Decides which row stands for which puts; when they are written is the transaction's affair:
before it reads leases from the file, and at the end of the work.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hostler.domain.lease import Lease, LeaseId


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease, the text that is kept of it, and whether it has no row yet."""

    lease: Lease
    text: str
    new: bool


@dataclass(eq=False, slots=True)
class Unwritten:
    """`events` are the parameters of their statement."""

    leases: dict[LeaseId, LeaseRow] = field(default_factory=dict)
    events: list[dict[str, object]] = field(default_factory=list)

    def put(self, lease: Lease, text: str, *, new: bool) -> None:
        """The lease is to be written so, whatever it was put as before."""
        before = self.leases.get(lease.id)
        self.leases[lease.id] = LeaseRow(lease, text, new=new or (before is not None and before.new))

    def take(self) -> tuple[list[LeaseRow], list[dict[str, object]]]:
        """All of it, to be written now."""
        found = list(self.leases.values()), self.events
        self.leases, self.events = {}, []
        return found
