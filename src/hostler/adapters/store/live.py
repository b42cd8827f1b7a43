"""What the thread of a store knows of its file between transactions: leases that are not over, the fence.

Decides when that is still what the file has: only on the connection that read it, while no other connection
has written, and never after anything was undone. So that asking for it costs what changed, not what there is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hostler.domain.fence import Fence
from hostler.domain.lease import Lease, LeaseId


@dataclass(eq=False, slots=True)
class Live:
    """By number; `waiting` are those of them that have a place. Numbers only rise, so each is in order.

    `holders`: by what they have a claim on. A claim row is there while its lease holds, and for what that
    covers (`SqliteTx.put` writes both), so that these are the claim rows.
    """

    by_number: dict[int, Lease] = field(default_factory=dict)
    waiting: dict[int, Lease] = field(default_factory=dict)
    by_id: dict[LeaseId, Lease] = field(default_factory=dict)
    holders: dict[str, Lease] = field(default_factory=dict)
    _all: tuple[Lease, ...] | None = None

    def all(self) -> Sequence[Lease]:
        """Every one."""
        if self._all is None:
            self._all = tuple(self.by_number.values())
        return self._all

    def claims(self, id_: LeaseId) -> frozenset[str]:
        """What that lease has a claim on."""
        known = self.by_id.get(id_)
        return frozenset(known.covers) if known is not None and known.state.holds else frozenset()

    def put(self, lease: Lease) -> None:
        """It is written so."""
        for cover in self.claims(lease.id):
            del self.holders[cover]
        if lease.state.ended:
            self.by_id.pop(lease.id, None)
        else:
            self.by_id[lease.id] = lease
        for cover in self.claims(lease.id):
            self.holders[cover] = lease
        _follow(self.by_number, lease, there=not lease.state.ended)
        _follow(self.waiting, lease, there=lease.state.waits)
        self._all = None


@dataclass(eq=False, slots=True)
class Known:
    """What was read, with the connection and SQLite's `data_version` of then. `live` None: not read.

    `look` comes first in every transaction: within one nobody else's writing is seen.
    """

    live: Live | None = None
    _fence: tuple[Fence | None] | None = None
    _of: tuple[sqlite3.Connection, int] | None = None

    def look(self, connection: sqlite3.Connection) -> None:
        """A transaction is open on `connection`: forget what is not of the file as it is in there."""
        # It changes when another connection commits; this one's own commits leave it.
        now = (connection, connection.execute("PRAGMA data_version").fetchone()[0])
        if self._of != now:
            self.forget()
            self._of = now

    def leases(self, read: Callable[[], Sequence[Lease]]) -> Live:
        """Those that are not over; `read` gives them by number."""
        if self.live is None:
            found = Live()
            for lease in read():
                found.put(lease)
            self.live = found
        return self.live

    def fence(self, read: Callable[[], Fence | None]) -> Fence | None:
        """The fence that is up; `read` gives it."""
        if self._fence is None:
            self._fence = (read(),)
        return self._fence[0]

    def put(self, lease: Lease) -> None:
        """A lease was put in the open transaction."""
        if self.live is not None:
            self.live.put(lease)

    def put_fence(self, fence: Fence | None) -> None:
        """The fence was put up, or taken down, in the open transaction."""
        self._fence = (fence,)

    def forget(self) -> None:
        """Something that was put was undone, or somebody else wrote."""
        self.live, self._fence = None, None


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
