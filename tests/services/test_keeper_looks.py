"""Which leases the keeper looks at again, and when: what it knows to be quiet must be quiet."""

from dataclasses import replace

from hostler.domain.lease import LeaseId, State, UndoBegun
from hostler.services.lease_changes import change, known
from hostler.services.schedule_needs import Tx
from tests.fakes.schedule_world import head, resource


async def test_a_lease_whose_release_nobody_works_on_is_found() -> None:
    """LEASE-13, F23: a release that was written and whose call went away is worked on at the next look."""
    async with head() as it:
        lease = await it.reserve()
        await it.ticks(2)

        def begun(tx: Tx) -> None:
            change(tx, known(tx, lease.id), UndoBegun(ending=State.RELEASED), it.clock.moment())

        await it.store.write(begun)
        await it.ticks(2)
        assert (await it.look(lease)).state == "released"


async def test_an_end_that_came_nearer_is_seen() -> None:
    """LEASE-19: a lease that has another end than when it was looked at last ends at that one."""
    async with head(resource(indefinite=True)) as it:
        lease = await it.reserve(indefinite=True)
        await it.ticks(2)

        def shortened(tx: Tx) -> None:
            row = tx.lease(LeaseId(lease.id))
            assert row is not None
            tx.put(replace(row, hard=it.clock.moment().plus(30)))

        await it.store.write(shortened)
        it.parts.keeper.mind.changed = True
        await it.ticks(29)
        assert (await it.look(lease)).state == "active"
        await it.ticks(2)
        assert (await it.look(lease)).state == "expired"
