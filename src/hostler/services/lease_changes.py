"""One change of a lease inside a transaction: decided, its events recorded, the row written (LEASE-7).

Decides nothing: `decide` does. The one place where a decision is stored, for the schedule, the keeper and
the runner alike.
"""

from __future__ import annotations

from dataclasses import replace

from hostler.domain.errors import LeaseNotFound
from hostler.domain.lease import Decision, Lease, LeaseEvent, LeaseId
from hostler.domain.lease_machine import decide
from hostler.domain.moment import Moment
from hostler.services.schedule_needs import Tx


def known(tx: Tx, id_: str) -> Lease:
    """The lease of that id. Refuses `lease_not_found`."""
    lease = tx.lease(LeaseId(id_))
    if lease is None:
        raise LeaseNotFound(lease=id_)
    return lease


def change(tx: Tx, lease: Lease, event: LeaseEvent, now: Moment) -> Decision:
    """`decide`, with its events and the new row in this transaction. Raises Taken, IllegalTransition."""
    return recorded(tx, decide(lease, event, now))


def recorded(tx: Tx, made: Decision) -> Decision:
    """A decision with its events and the row in this transaction."""
    seq = made.lease.seq
    for told in made.events:
        seq = tx.record(told)
    return replace(made, lease=tx.put(replace(made.lease, seq=seq)))
