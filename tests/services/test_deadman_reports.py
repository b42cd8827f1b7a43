"""What the schedule makes of a deadman's receipt: the lease ends, or is stuck, and nothing is done twice."""

from dataclasses import dataclass, field, replace

import pytest

from hostler.domain.deadman import DeadmanReport
from hostler.domain.errors import NodeUnreachable
from hostler.domain.journal import EntryState
from hostler.domain.lease import Interrupted, State, Struck, UndoBegun
from hostler.domain.step import ArmDeadman, FoundHold, HoldHost, PointRoute, StartEngine, Step, SuspendEngine
from hostler.domain.window import Answer, WindowStrike
from hostler.services.deadman_reports import DeadmanReports
from hostler.services.holdings import Holders
from hostler.services.schedule_needs import NodeMemory
from hostler.services.workshop import Workshop
from tests.fakes.node import FakeNode
from tests.services.lease_house import ID, House, world

ARM = ArmDeadman(host="crow", window=ID, mode="heavy", cap_s=3600.0, bring_back=("big",), end=("coder",))
PLAN: tuple[Step, ...] = (
    ARM,
    HoldHost(host="crow"),
    PointRoute(host="crow", route="chat", profile="away"),
    SuspendEngine(host="crow", engine="big"),
    StartEngine(host="crow", engine="coder"),
)
DONE = DeadmanReport(
    window=ID,
    host="crow",
    cause="cap",
    verified=True,
    begun_at="2026-09-04T20:00:00.000Z",
    ended_at="2026-09-04T20:01:00.000Z",
    ended=("coder",),
    back=("big",),
    unheld=True,
    done=("begun cap", "ended coder", "verified big", "unheld"),
)
BAD = replace(DONE, verified=False, unheld=False, back=(), failing=("big does not come back: no file",))


@dataclass
class Counted:
    """Counts what nodes tell of their guards."""

    notes: list[tuple[str, str]] = field(default_factory=list)

    async def __call__(self, window: str, note: str) -> Answer:
        self.notes.append((window, note))
        return Answer.STOP


def reports_of(house: House) -> DeadmanReports:
    """As the keeper has it."""
    holders = Holders(store=house.store, nodes=house.nodes, clock=house.clock)
    workshop = Workshop(
        runner=house.runner,
        holders=holders,
        store=house.store,
        clock=house.clock,
        changed=lambda: None,
        bug=house.report,
    )
    return DeadmanReports(store=house.store, nodes=house.nodes, workshop=workshop, strike=Counted())


def restored(house: House, report: DeadmanReport = DONE) -> None:
    """The deadman did its work on the host."""
    engines = house.node.world.engines
    engines["coder"].up = False
    if report.verified:
        engines["big"].up, engines["big"].suspended_by = True, set()
        house.node.world.hold = FoundHold()
    house.node.reports = (report,)
    house.node.log.clear()


async def look(house: House, reports: DeadmanReports) -> None:
    """One look of the keeper, and the undo that follows."""
    await house.clock.advance(5)
    await reports.look(house.clock.moment())
    for task in list(reports.workshop.tasks.values()):
        await task


@pytest.fixture
def house() -> House:
    """A window on one host."""
    return House(PLAN)


async def test_the_lease_ends_and_nothing_is_restored_twice(house: House) -> None:
    """WIN-7, F15: the receipt ends the lease with the cause deadman; of its engines none is started again.

    What else brings one up (ENG-2) is put back by us: that is no part of a written restore.
    """
    await house.take()
    restored(house)
    await look(house, reports_of(house))
    lease = await house.lease()
    assert (lease.state, lease.cause) == (State.EXPIRED, "deadman")
    assert house.node.log == ["resume big", "route chat to local on crow", "disarm the deadman of crow"]
    assert house.node.picture() == house.before


async def test_an_engine_that_nothing_else_brings_up_is_not_touched(house: House) -> None:
    """WIN-7, F15: of an engine without a policy of its own there is nothing left to do."""
    house.node.world.engines["big"].revival = None
    await house.take()
    restored(house)
    await look(house, reports_of(house))
    assert house.node.log == ["route chat to local on crow", "disarm the deadman of crow"]
    notes = {entry.step.kind: (entry.state, entry.note) for entry in await house.journal()}
    assert notes["suspend"] == (EntryState.UNDONE, "back already (observed)")


async def test_the_journal_says_who_did_what(house: House) -> None:
    """WIN-7: what the deadman settled is in the journal as its own, and its lines are in the log."""
    await house.take()
    restored(house)
    await look(house, reports_of(house))
    notes = {entry.step.kind: (entry.state, entry.note) for entry in await house.journal()}
    assert notes["hold"] == notes["start"] == (EntryState.UNDONE, "by the deadman")
    assert notes["suspend"] == (EntryState.UNDONE, "")
    told = [event for event in await house.told() if event.type == "deadman_restored"]
    assert [event.facts["done"] for event in told] == [list(DONE.done)]


async def test_a_stuck_window_is_released_by_its_deadman(house: House) -> None:
    """LEASE-14: a window that a restart left stuck ends by its deadman's restore, without a person."""
    await house.take()
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    restored(house, replace(DONE, cause="daemon_died"))
    await look(house, reports_of(house))
    assert (await house.lease()).state is State.RELEASED


async def test_what_could_not_be_verified_is_stuck(house: House) -> None:
    """WIN-4, WIN-11: an engine that does not come back leaves the lease stuck, with its name, once."""
    await house.take()
    restored(house, BAD)
    reports = reports_of(house)
    for _ in range(3):
        await look(house, reports)
    lease = await house.lease()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert lease.failing.seen == "big does not come back: no file"
    told = [kind for kind in await house.events() if kind.startswith("deadman_")]
    assert told == ["deadman_failed"]
    assert house.node.log == []


async def test_a_person_releases_what_it_could_not_put_back(house: House) -> None:
    """LEASE-14: after an unverified report the release of a person undoes the rest."""
    await house.take()
    restored(house, BAD)
    await look(house, reports_of(house))
    assert (await house.release()).state is State.EXPIRED
    assert house.node.picture() == house.before


async def test_a_receipt_is_taken_in_once(house: House) -> None:
    """LEASE-14: an undo that fails after the receipt stays stuck: nothing is tried by itself again."""
    await house.take()
    restored(house)
    house.node.faults["perform route chat to local on crow"] = NodeUnreachable(host="crow", why="cut")
    house.node.unseen["route chat to local on crow"] = "it is away"
    reports = reports_of(house)
    for _ in range(3):
        await look(house, reports)
    assert (await house.lease()).state is State.STUCK
    assert house.node.calls.count("perform route chat to local on crow") == 1


def pair() -> tuple[House, FakeNode]:
    """A window on two hosts."""
    house = House((ARM, replace(ARM, host="raven"), *PLAN[1:], SuspendEngine(host="raven", engine="big")))
    raven = FakeNode("raven", world())
    house.nodes = {"crow": house.node, "raven": raven}
    return house, raven


async def test_one_receipt_is_the_release_of_the_whole_window() -> None:
    """LEASE-14, WIN-11: a daemon that died midway took one host with it; the head puts the other back."""
    house, raven = pair()
    await house.take()
    assert not raven.world.engines["big"].up
    await house.say(UndoBegun(ending=State.RELEASED))
    await house.say(Interrupted())
    restored(house, replace(DONE, cause="daemon_died"))
    await look(house, reports_of(house))
    lease = await house.lease()
    assert (lease.state, lease.cause) == (State.RELEASED, "deadman")
    assert raven.world.engines["big"].up
    assert "suspend big" in raven.log
    assert "resume big" in raven.log


async def test_a_deadman_that_is_at_it_is_waited_for() -> None:
    """WIN-7: what two deadmen do at the same cap nobody does a third time."""
    house, raven = pair()
    await house.take()
    restored(house)
    raven.restoring = (ID,)
    reports = reports_of(house)
    await look(house, reports)
    assert (await house.lease()).state is State.ACTIVE
    raven.restoring, raven.reports = (), (replace(DONE, host="raven"),)
    raven.world.engines["big"].up, raven.world.engines["big"].suspended_by = True, set()
    await look(house, reports)
    assert (await house.lease()).state is State.EXPIRED


async def test_a_host_that_is_cut_off_leaves_it_stuck_until_its_receipt() -> None:
    """WIN-4, F15: with one host away the window is not over; its receipt ends it, without a person."""
    house, raven = pair()
    await house.take()
    restored(house)
    reports, cut = reports_of(house), NodeUnreachable(host="raven", why="cut")
    raven.faults["perform resume big"] = cut
    await look(house, replace(reports, nodes={"crow": house.node, "raven": Cut("raven", world())}))
    lease = await house.lease()
    assert lease.state is State.STUCK
    raven.faults.clear()
    raven.reports = (replace(DONE, host="raven"),)
    await look(house, reports)
    assert (await house.lease()).state is State.EXPIRED


async def test_strikes_of_other_hosts_are_told_on() -> None:
    """WIN-6: what a node's guard saw is told with each look until the lease has it, and no other window's."""
    house, raven = pair()
    await house.take()
    raven.strikes = (
        WindowStrike(window=ID, note="bots came up on raven at 1"),
        WindowStrike(window="another", note="bots came up"),
    )
    reports = reports_of(house)
    await look(house, reports)
    assert isinstance(reports.strike, Counted)
    assert reports.strike.notes == [(ID, "bots came up on raven at 1")]
    await house.say(Struck(note="bots came up on raven at 1"))
    await look(house, reports)
    assert len(reports.strike.notes) == 1


class Cut(FakeNode):
    """A node that does not answer."""

    async def memory(self) -> NodeMemory:
        raise NodeUnreachable(host=self.host, why="cut")


async def test_a_lease_that_is_no_window_is_not_asked_about() -> None:
    """WIN-7: for leases without a deadman no node is asked."""
    house = House(PLAN[1:])
    await house.take()
    house.node.calls.clear()
    await look(house, reports_of(house))
    assert (await house.lease()).state is State.ACTIVE
    assert house.node.calls == []


async def test_it_looks_every_two_seconds(house: House) -> None:
    """WIN-7: a keeper that ticks each second does not read every receipt of its nodes each time."""
    await house.take()
    reports = reports_of(house)
    await look(house, reports)
    restored(house)
    await reports.look(house.clock.moment())
    assert (await house.lease()).state is State.ACTIVE
    await look(house, reports)
    assert (await house.lease()).state is State.EXPIRED
