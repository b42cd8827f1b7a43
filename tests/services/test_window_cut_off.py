"""A window whose opening or closing a restart of the head cut off, where no deadman begins (WIN-11)."""

from __future__ import annotations

import pytest

from hostler.domain.errors import EngineFailed
from hostler.domain.lease import Interrupted, State, UndoBegun
from hostler.domain.step import SuspendEngine
from hostler.services.deadman_reports import DEADMEN_S, DeadmanReports
from hostler.services.scene import Scene
from hostler.services.schedule_needs import NodeMemory
from hostler.services.schedule_views import why_of
from tests.fakes.paired import a_fleet
from tests.services.lease_house import House
from tests.services.test_deadman_reports import PLAN, look, reports_of


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
    assert lease.cause == "a restart of the head cut it off"
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
