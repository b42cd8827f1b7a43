"""What to believe after a restart: nothing that was in flight (LEASE-14).

Decides that a lease which was being activated or put back when the daemon ended is stuck. Replays nothing.
A lease that was active stays so; whether its host was restarted since is the schedule's to look at.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from hostler.domain.lease import Interrupted, Lease, LeaseId, State, TurnedBack, Waited
from hostler.domain.moment import Moment
from hostler.domain.resource import Resource
from hostler.services.lease_changes import change, known
from hostler.services.needs import Clock
from hostler.services.schedule_needs import ScheduleStore, Tx

CHANGED: Final = "the config of its resource changed"
IN_FLIGHT = (State.ACTIVATING, State.RELEASING)


async def recover(
    store: ScheduleStore, clock: Clock, *, spare: Container[LeaseId] = frozenset()
) -> Sequence[Lease]:
    """Make stuck what was in flight, in one transaction; those leases (R35). Once, before anything runs.

    `spare` are those that this daemon works on already, where its store could not be used as it began.
    """
    now = clock.moment()

    def work(tx: Tx) -> Sequence[Lease]:
        found = [it for it in tx.live() if it.state in IN_FLIGHT and it.id not in spare]
        return [change(tx, it, Interrupted(), now).lease for it in found]

    return await store.write(work)


async def interrupt(store: ScheduleStore, clock: Clock, id_: LeaseId, why: str) -> Lease:
    """Make one lease stuck whose run ended in a fault of ours or of the store; another state is left.

    For a lease in flight that nobody works on any more. Refuses `lease_not_found`.
    """
    now = clock.moment()

    def work(tx: Tx) -> Lease:
        lease = known(tx, id_)
        if lease.state not in IN_FLIGHT:
            return lease
        return change(tx, lease, Interrupted(why=why), now).lease

    return await store.write(work)


async def recast(store: ScheduleStore, clock: Clock, resources: Mapping[str, Resource]) -> None:
    """Let those that wait do so for what their resource covers in this daemon's config (LEASE-5).

    A grant takes the plan of today's config: it must not touch what the lease has no claim on (LEASE-3). One
    that had an offer is first in line again.
    """
    now = clock.moment()

    def work(tx: Tx) -> None:
        for lease in tx.live():
            resource = resources.get(lease.resource)
            if resource is None or resource.covers == lease.covers:
                continue
            waiting = lease
            if lease.state is State.OFFERED:
                waiting = change(tx, lease, TurnedBack(why=CHANGED), now).lease
            if waiting.state.waits:
                change(tx, waiting, Waited(why="", covers=resource.covers), now)

    await store.write(work)


def of_another_boot(lease: Lease, now: Moment) -> bool:
    """Whether an active lease was taken before the machine's last restart: its cause is `reboot` (F20)."""
    return lease.state is State.ACTIVE and lease.activated is not None and lease.activated.boot != now.boot
