"""A window whose opening or closing a restart of the head cut off, where no deadman begins (WIN-11)."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from hostler.domain.errors import EngineFailed, NodeUnreachable, ScheduleUnavailable
from hostler.domain.lease import Interrupted, Lease, LeaseId, State, UndoBegun
from hostler.domain.step import SuspendEngine
from hostler.domain.values import Requester
from hostler.services.deadman_reports import DEADMEN_S, DeadmanReports
from hostler.services.going_back import WHY
from hostler.services.keys import Principal, Scope
from hostler.services.lease_requests import LeaseRequests
from hostler.services.present import Present
from hostler.services.promotion import Promotion
from hostler.services.runner import Runner
from hostler.services.scene import Scene
from hostler.services.schedule_needs import NodeMemory
from hostler.services.schedule_views import why_of
from hostler.wire.schedule import ReleaseBody
from tests.fakes.paired import a_fleet
from tests.services.lease_house import ID, House
from tests.services.test_deadman_reports import PLAN, look, reports_of, restored


@pytest.fixture
def house() -> House:
    """A window on one host."""
    return House(PLAN)


async def later(house: House, reports: DeadmanReports) -> None:
    """A look when every deadman has had its time."""
    await look(house, reports)
    await house.clock.advance(DEADMEN_S)
    await look(house, reports)


@pytest.mark.parametrize("opening", [True, False])
async def test_the_head_ends_what_its_restart_cut_off(house: House, *, opening: bool) -> None:
    """WIN-11, LEASE-14: cut off while it opened or closed it is put back by the head, without a person."""
    if opening:
        await house.grant()
    else:
        await house.take()
        await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    reports = reports_of(house)
    await look(house, reports)
    assert (await house.lease()).state is State.STUCK
    await later(house, reports)
    lease = await house.lease()
    assert lease.state is (State.FAILED if opening else State.RELEASED)
    assert lease.cause == "the head put back what was cut off: restart"
    assert house.node.picture() == house.before


async def test_a_deadman_that_is_at_it_is_waited_for(house: House) -> None:
    """WIN-7, WIN-11: while a deadman restores the head begins nothing."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    house.node.restoring = (house.plan[0].window,)  # type: ignore[union-attr] # the first step arms it
    reports = reports_of(house)
    await later(house, reports)
    assert (await house.lease()).state is State.STUCK
    house.node.restoring = ()
    await later(house, reports)
    assert (await house.lease()).state is State.RELEASED


async def test_what_could_not_be_put_back_is_a_persons(house: House) -> None:
    """LEASE-14: tried once; then the window is stuck with what fails, until somebody releases it."""
    await house.take()
    house.node.faults["perform resume big"] = EngineFailed(engine="big", why="no memory")
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    reports = reports_of(house)
    await later(house, reports)
    tried = house.node.calls.count("perform resume big")
    assert tried == 1
    await later(house, reports)
    lease = await house.lease()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert house.node.calls.count("perform resume big") == tried


async def test_a_person_may_be_quicker(house: House) -> None:
    """LEASE-16, WIN-11: a release that comes between the look and its end is the one that counts."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    reports = reports_of(house)
    await look(house, reports)
    await house.clock.advance(DEADMEN_S)
    tell = house.node.memory

    async def memory() -> NodeMemory:
        await house.say(UndoBegun(ending=State.RELEASED, why="ann"))
        return await tell()

    house.node.memory = memory  # type: ignore[method-assign] # the node of one test
    await look(house, reports)
    lease = await house.lease()
    assert (lease.state, lease.cause) == (State.RELEASING, "ann")
    assert reports.workshop.tasks == {}


async def test_a_window_that_is_open_is_not_cut_off(house: House) -> None:
    """WIN-1: its time counts from when it is seen to be cut off, not from its opening."""
    await house.take()
    reports = reports_of(house)
    await look(house, reports)
    await house.clock.advance(DEADMEN_S)
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    await look(house, reports)
    assert (await house.lease()).state is State.STUCK


async def test_a_lease_that_is_no_window_stays_stuck() -> None:
    """LEASE-14, R35: without a deadman nothing is undone by itself: one release of somebody's frees it."""
    house = House((SuspendEngine(host="crow", engine="big"),))
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    await later(house, reports_of(house))
    assert (await house.lease()).state is State.STUCK


async def test_a_window_of_a_store_that_went_back_was_open(house: House) -> None:
    """WIN-1, LEASE-8: as its nodes remember it nothing cut it off: the head does not end it by itself."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED, why=WHY))
    await house.say(Interrupted(why=WHY))
    await later(house, reports_of(house))
    assert (await house.lease()).state is State.STUCK


async def test_no_receipt_counts_before_every_node_has_reported(house: House) -> None:
    """LEASE-8, WIN-4: what a node that is away did for it is not known, and would be taken for nothing."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED, why=WHY))
    await house.say(Interrupted(why=WHY))
    restored(house)
    away = [NodeUnreachable(host="raven", why="it has not told what it knows")]
    reports = replace(reports_of(house), blocked=lambda: away[0] if away else None)
    await look(house, reports)
    assert (await house.lease()).state is State.STUCK
    away.clear()
    await look(house, reports)
    assert (await house.lease()).state is State.RELEASED


async def test_nobody_releases_it_before_every_node_has_reported(house: House) -> None:
    """LEASE-8, R32: a release would leave another host as the lease has it, and nobody to put it back."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED, why=WHY))
    await house.say(Interrupted(why=WHY))
    away = [NodeUnreachable(host="raven", why="it has not told what it knows")]
    config = Present(fleet=a_fleet("crow"))
    promotion = Promotion(
        config=config,
        store=house.store,
        nodes=house.nodes,
        clock=house.clock,
        blocked=lambda: away[0] if away else None,
    )
    requests = LeaseRequests(config=config, promotion=promotion, clock=house.clock, clean=str)
    body, who = (
        ReleaseBody(because="the box is wanted", generation=1),
        Principal(name="ops", rights=frozenset(Scope)),
    )

    async def release() -> State:
        made = await house.store.write(
            lambda tx: requests.release(tx, ID, body, who, Requester(client="ops"))
        )
        return made.lease.state

    with pytest.raises(NodeUnreachable, match="raven"):
        await release()
    away.clear()
    assert await release() is State.RELEASING


async def test_a_fence_keeps_the_head_from_it(house: House) -> None:
    """LEASE-28: under a deployment fence no timer reverts anything; once it is down the head goes on."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    await house.fence()
    reports = reports_of(house)
    await later(house, reports)
    assert (await house.lease()).state is State.STUCK
    await house.store.write(lambda tx: tx.put_fence(None))
    await later(house, reports)
    assert (await house.lease()).state is State.RELEASED


async def test_a_store_that_is_locked_for_long_is_named(house: House) -> None:
    """LEASE-14, REL-1: whoever looks why the lease is stuck reads the store's trouble, not a bug's number."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED))
    reports = reports_of(house)

    class Locked:
        async def restore(self, _id: LeaseId) -> Lease:
            raise ScheduleUnavailable(why="database is locked", file="schedule.db")

    workshop = replace(reports.workshop, runner=cast("Runner", Locked()))
    workshop.begin(ID, State.RELEASING)
    for task in list(workshop.tasks.values()):
        await task
    lease = await house.lease()
    assert (lease.state, lease.cause) == (State.STUCK, "The schedule cannot be read: database is locked")
    assert house.bugs == []


async def test_a_stuck_lease_says_whether_something_failed(house: House) -> None:
    """LEASE-23, LEASE-14: cut off is told apart from what could not be put back."""
    await house.take()
    house.node.faults["perform resume big"] = EngineFailed(engine="big", why="no memory")
    await house.say(UndoBegun(ending=State.RELEASED))
    cut_off = await house.say(Interrupted())
    scene = Scene(fleet=a_fleet("crow"), live=(), fence=None, now=house.clock.moment())
    assert why_of(cut_off, scene, None, None).startswith("what was done for it was cut off")
    failed = await house.release()
    assert why_of(failed, scene, None, None).startswith("it could not be put back: resume big")
