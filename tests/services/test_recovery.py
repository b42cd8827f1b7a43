"""What a daemon believes of leases when it begins."""

from __future__ import annotations

import pytest

from hostler.domain.errors import LeaseNotFound
from hostler.domain.lease import LeaseId, State, UndoBegun
from hostler.services.recovery import interrupt, of_another_boot, recover
from tests.services.lease_house import ID, House
from tests.services.test_crash_sweep import PLANS

BOX = PLANS["box"]


async def test_what_was_being_activated_is_stuck() -> None:
    """LEASE-14, R35: a restart during an activation leaves it stuck (cause restart), held, told once."""
    house = House(BOX)
    await house.grant()
    assert [lease.id for lease in await recover(house.store, house.clock)] == [ID]
    lease = await house.lease()
    assert (lease.state, lease.cause) == (State.STUCK, "restart")
    assert (await house.store.read(lambda tx: tx.holder("crow-box"))) == lease
    assert await recover(house.store, house.clock) == []
    assert (await house.events()).count("lease_stuck") == 1


async def test_what_was_being_put_back_is_stuck() -> None:
    """LEASE-14, R32, R35: a restart during an undo leaves it stuck, and nothing is told to a node."""
    house = House(BOX)
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED))
    calls = list(house.node.calls)
    await recover(house.store, house.clock)
    await recover(house.store, house.clock)
    assert (await house.lease()).state is State.STUCK
    assert house.node.calls == calls


async def test_what_was_active_stays_active() -> None:
    """R36: a restart changes nothing of an active lease; one of another boot of the machine is told apart."""
    house = House(BOX)
    active = await house.take()
    assert await recover(house.store, house.clock) == []
    assert await house.lease() == active
    assert not of_another_boot(active, house.clock.moment())
    house.clock.reboot()
    assert of_another_boot(active, house.clock.moment())
    await house.release()
    assert not of_another_boot(await house.lease(), house.clock.moment())


async def test_a_run_that_ended_in_a_fault_is_stuck() -> None:
    """LEASE-14: a lease in flight that nobody works on any more is made stuck; any other is left as it is."""
    house = House(BOX)
    await house.grant()
    assert (await interrupt(house.store, house.clock, ID, "error 7")).cause == "error 7"
    stuck = await house.lease()
    assert await interrupt(house.store, house.clock, ID, "again") == stuck
    with pytest.raises(LeaseNotFound):
        await interrupt(house.store, house.clock, LeaseId("ls_9"), "x")
