"""A node that is back: what its own restore, or its reboot, means for the head's lease."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest

from hostler.domain.journal import EntryState
from hostler.domain.lease import LeaseId, State
from hostler.domain.step import DrainEngine, HoldHost, PointRoute, SuspendEngine
from hostler.services.fences import Fences
from hostler.services.going_back import GoingBack
from hostler.services.holdings import Holders
from hostler.services.lease_requests import LeaseRequests
from hostler.services.present import Present
from hostler.services.promotion import Promotion
from hostler.services.recovery import recover
from hostler.services.returning import Returning
from hostler.services.schedule_needs import NodeMemory, PutBack
from hostler.services.workshop import Workshop
from tests.fakes.clock import settle
from tests.fakes.ids import CountingIds
from tests.fakes.world import fleet
from tests.services.lease_house import ID, House

PLAN = (
    HoldHost(host="crow"),
    PointRoute(host="crow", route="chat", profile="away"),
    DrainEngine(host="crow", engine="big", drain_s=60.0),
    SuspendEngine(host="crow", engine="big"),
)


@dataclass(slots=True)
class Back:
    """A lease that is active on the host `crow`, and the head's part that takes the host up again."""

    house: House
    returning: Returning
    workshop: Workshop

    def remembers(self, **what: object) -> None:
        """The node says this of what it did meanwhile."""

        async def memory() -> NodeMemory:
            return NodeMemory(**what)  # type: ignore[arg-type]  # fields as a test gives them

        self.house.node.memory = memory  # type: ignore[method-assign] # the node of this very test

    async def over(self) -> None:
        """The work that it began has ended."""
        await self.returning.take_up("crow")
        await settle()
        for task in tuple(self.workshop.tasks.values()):
            await task


@pytest.fixture
async def back() -> AsyncIterator[Back]:
    house = House(PLAN)
    await house.take()
    nodes, store, clock = house.nodes, house.store, house.clock
    holders = Holders(store=store, nodes=nodes, clock=clock)
    config = Present(fleet=fleet(()))
    promotion = Promotion(config=config, store=store, nodes=nodes, clock=clock)
    workshop = Workshop(
        runner=house.runner,
        holders=holders,
        store=store,
        clock=clock,
        changed=lambda: None,
        bug=house.report,
    )
    returning = Returning(
        store=store,
        nodes=nodes,
        back=GoingBack(store=store, nodes=nodes, clock=clock, ids=CountingIds()),
        holders=holders,
        fences=Fences(store=store, nodes=nodes, clock=clock, clean=str, excuse=lambda *_: None),
        requests=LeaseRequests(config=config, promotion=promotion, clock=clock, clean=str),
        workshop=workshop,
        clock=clock,
    )
    yield Back(house, returning, workshop)
    await workshop.end()


def put_back_by_hand(it: Back) -> None:
    """What the node did by itself: everything is as before."""
    world = it.house.node.world
    world.hold = it.house.before.hold
    world.routes["chat"].active = "local"
    world.engines["big"].up = True
    world.engines["big"].suspended_by.clear()
    world.engines["big"].draining_by.clear()


async def test_a_nodes_own_restore_counts_as_the_release(back: Back) -> None:
    """F15, LEASE-14, NODE-4: what the node put back is marked so, and the lease is over."""
    lease = await back.house.lease()
    put_back_by_hand(back)
    assert lease.fence is not None
    back.remembers(restored=(PutBack(lease=ID, fence=lease.fence, ago_s=60.0, drift=("route x",)),))
    done = list(back.house.node.log)
    await back.over()
    over = await back.house.lease()
    assert (over.state, over.cause) == (State.EXPIRED, "crow put it back by itself: route x")
    assert back.house.node.log == done
    journal = await back.house.store.read(lambda tx: tx.journal(LeaseId(ID)))
    assert {entry.state for entry in journal} == {EntryState.UNDONE}
    assert (await back.house.lease()).drift == ()


async def test_a_stuck_lease_is_freed_by_it(back: Back) -> None:
    """F15, LEASE-14: a lease that was stuck since its node was away is over by the node's receipt."""
    lease = await back.house.lease()
    back.house.node.faults["observe suspend big"] = OSError("away")
    assert (await back.house.release(State.EXPIRED)).state is State.STUCK
    back.house.node.faults.clear()
    put_back_by_hand(back)
    assert lease.fence is not None
    back.remembers(restored=(PutBack(lease=ID, fence=lease.fence, ago_s=60.0),))
    await back.over()
    assert (await back.house.lease()).state is State.EXPIRED


async def test_a_receipt_of_another_grant_says_nothing(back: Back) -> None:
    """NODE-4, LEASE-8: a receipt of another fence number, or of an unknown lease, changes nothing."""
    lease = await back.house.lease()
    assert lease.fence is not None
    other = type(lease.fence)(epoch="a", generation=1)
    back.remembers(
        restored=(
            PutBack(lease=ID, fence=other, ago_s=60.0),
            PutBack(lease="ls_none", fence=lease.fence, ago_s=60.0),
        ),
        rebooted=("ls_none",),
    )
    await back.over()
    assert (await back.house.lease()).state is State.ACTIVE


async def test_a_reboot_of_the_host_ends_the_lease(back: Back) -> None:
    """F20: a lease that was active before the host's reboot is put back, and ends with that cause."""
    back.remembers(rebooted=(ID,))
    await back.over()
    over = await back.house.lease()
    assert (over.state, over.cause) == (State.RELEASED, "reboot")
    assert back.house.node.world == back.house.before


async def test_it_is_told_what_is_held(back: Back) -> None:
    """LEASE-15, LEASE-28: a node that is back is told what is held there, and the fence."""
    back.house.node.held = {}
    await back.house.fence()
    await back.over()
    assert set(back.house.node.held) == {"hold crow", "route chat", "engine big"}
    assert back.house.node.fence is not None


async def test_a_node_knows_an_end_before_the_lease_is_active() -> None:
    """NODE-4: while a lease activates its nodes know an end that is not too soon; a stuck one has none."""
    house = House(PLAN)
    await house.grant()
    now = house.clock.moment()
    holders = Holders(store=house.store, nodes=house.nodes, clock=house.clock, longest=lambda _: 3600.0)
    await holders.sync()
    (hard,) = {it.hard for it in house.node.held.values()}
    assert hard == now.plus(3600.0 + 30.0 + 30.0 + 90.0 + 900.0)
    await Holders(store=house.store, nodes=house.nodes, clock=house.clock).sync()
    assert {it.hard for it in house.node.held.values()} == {None}
    await recover(house.store, house.clock)
    await holders.sync()
    assert {it.hard for it in house.node.held.values()} == {None}


async def test_a_window_ends_at_its_cap_while_it_opens_too() -> None:
    """NODE-4, WIN-2: a node that is cut off while a window opens knows its cap, and no later end."""
    house = House(PLAN)
    await house.grant()
    cap = house.clock.moment().plus(600.0)
    window = replace(await house.lease(), mode="heavy", hard=cap)
    await house.store.write(lambda tx: tx.put(window))
    await house.clock.advance(5.0)
    await Holders(store=house.store, nodes=house.nodes, clock=house.clock, longest=lambda _: 43_200.0).sync()
    assert {it.hard for it in house.node.held.values()} == {cap}


async def test_an_active_leases_hard_end_is_told() -> None:
    """NODE-4: of an active lease its nodes know the end that no renewal moves."""
    house = House(PLAN, ttl_s=None)
    await house.take()
    holders = Holders(store=house.store, nodes=house.nodes, clock=house.clock, longest=lambda _: 3600.0)
    await holders.sync()
    assert {it.hard for it in house.node.held.values()} == {None}
    hard = house.clock.moment().plus(60.0)
    lease = replace(await house.lease(), hard=hard)
    await house.store.write(lambda tx: tx.put(lease))
    await holders.sync()
    assert {it.hard for it in house.node.held.values()} == {hard}
