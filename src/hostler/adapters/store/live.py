"""The leases that are not over, as the thread of a store has them between transactions.

Decides when they are still what the file has: only on the connection that read them, while no other
connection has written, and never after anything was undone. So that asking for them costs what changed, not
what there is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hostler.domain.lease import Lease


@dataclass(eq=False, slots=True)
class Live:
    """By number; `waiting` are those of them that have a place. Numbers only rise, so each is in order."""

    by_number: dict[int, Lease]
    waiting: dict[int, Lease] = field(default_factory=dict)
    _all: tuple[Lease, ...] | None = None

    def all(self) -> Sequence[Lease]:
        """Every one."""
        if self._all is None:
            self._all = tuple(self.by_number.values())
        return self._all

    def put(self, lease: Lease) -> None:
        """It is written so."""
        _follow(self.by_number, lease, there=not lease.state.ended)
        _follow(self.waiting, lease, there=lease.state.waits)
        self._all = None


@dataclass(eq=False, slots=True)
class KeptLive:
    """What was read, with the connection and SQLite's `data_version` of then; None: to be read anew."""

    _of: tuple[sqlite3.Connection, int] | None = None
    _live: Live | None = None

    def get(self, connection: sqlite3.Connection, read: Callable[[], Sequence[Lease]]) -> Live:
        """As they are in the transaction that is open on `connection`; `read` gives them by number."""
        # It changes when another connection commits; this one's own commits leave it.
        version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        if self._live is None or self._of != (connection, version):
            found = read()
            self._of = (connection, version)
            self._live = Live(
                {lease.number: lease for lease in found},
                {lease.number: lease for lease in found if lease.state.waits},
            )
        return self._live

    def put(self, lease: Lease) -> None:
        """A lease was written in the open transaction."""
        if self._live is not None:
            self._live.put(lease)

    def forget(self) -> None:
        """Something that was written was undone."""
        self._live = None


def _follow(kept: dict[int, Lease], lease: Lease, *, there: bool) -> None:
    if not there:
        kept.pop(lease.number, None)
        return
    moved = lease.number not in kept and bool(kept) and lease.number < next(reversed(kept))
    kept[lease.number] = lease
    if moved:  # An offer that is taken back stands where it stood.
        ordered = sorted(kept.items())
        kept.clear()
        kept.update(ordered)
