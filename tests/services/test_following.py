import asyncio
from typing import cast

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import NodeUnreachable
from hostler.domain.holding import Holding
from hostler.domain.step import FenceNumber, FoundEngine, Operation, StartEngine, Step, StopEngine, Undo
from hostler.domain.values import Cause
from tests.fakes.distributed import MASTER, WIDE, Pair, pair
from tests.fakes.world import BOT

AWAY = NodeUnreachable(host="raven", why="no route to host")
LEASE = Holding(lease="lease_1", resource="pair", holder="anna")


async def follows(it: Pair) -> None:
    """The watch has its eye on what runs, and the whole is looked at once."""
    await it.world.ticks(1)
    await it.during(3, it.follow.look(it.world.lane("wide")))
    await it.world.ticks(5)


def fails(it: Pair) -> None:
    """The worker dies."""
    it.worker.up, it.worker.failed = False, True


async def test_a_worker_that_dies_fails_the_whole() -> None:
    """ENG-11, ENG-8: the whole has failed, its master is stopped, and nothing brings either back."""
    async with pair() as it:
        await it.up()
        fails(it)
        await follows(it)
        assert it.states() == ("failed", "stopped")
        assert it.world.lane("wide").status.why == "it lost a member: worker on raven is failed"
        await it.world.ticks(300)
        assert it.log.count("start master") == 1
        assert it.world.events.of("deferred") == []


async def test_a_master_that_dies_fails_the_whole() -> None:
    """ENG-11, ENG-8: the master has failed by itself, the worker is stopped, and no member is restarted."""
    async with pair() as it:
        await it.up()
        it.world.driver.crash(MASTER, number=6, status=None)
        await it.world.ticks(3)
        assert it.world.state("master") is State.FAILED
        await follows(it)
        assert (it.states(), it.worker.up) == (("failed", "failed"), False)
        await it.world.ticks(300)
        assert it.log.count("start master") == 1


async def test_a_node_that_is_away_fails_the_whole_after_three_looks() -> None:
    """ENG-8, NODE-3, ENG-11: one look without an answer is none; three make the whole failed."""
    async with pair() as it:
        await it.up()
        it.far.faults["observe stop worker"] = AWAY
        it.far.faults["perform stop worker"] = AWAY
        await it.world.ticks(15)
        assert it.states() == ("ready", "ready")
        await it.world.ticks(30)
        assert it.states() == ("failed", "stopped")
        await it.during(3, it.follow.look(it.world.lane("wide")))
        assert it.worker.up
        it.far.faults.clear()
        await it.during(60, it.follow.look(it.world.lane("wide")))
        assert (it.states(), it.worker.up) == (("failed", "stopped"), False)
        assert it.world.lane("wide").run is None


async def test_what_cannot_be_ended_is_tried_again_in_its_time() -> None:
    """ENG-11: what is left of a whole is ended again and again, no sooner than after 30 s."""
    async with pair() as it:
        await it.up()
        it.far.faults["perform stop worker"] = AWAY
        follow, lane = it.follow, it.world.lane("wide")
        fails(it)
        await it.world.ticks(1)
        await it.during(3, follow.look(lane))
        await it.world.ticks(5)
        assert lane.run is not None
        for _ in range(3):
            await it.during(3, follow.look(lane))
        assert it.far.calls.count("perform stop worker") == 2
        await it.world.clock.advance(30)
        await it.during(3, follow.look(lane))
        assert it.far.calls.count("perform stop worker") == 3
        assert it.world.bugs == []


def told(step: Step | Undo, n: int) -> Operation:
    """A step of the lease that opens a window."""
    return Operation(
        id=f"lease_1.1.{n}",
        lease="lease_1",
        fence=FenceNumber(epoch="ep_1", generation=1),
        covers=("pair",),
        step=step,
        deadline_s=60,
        found=FoundEngine(up=False) if isinstance(step, StartEngine) else None,
    )


def leased(it: Pair) -> None:
    """The window's lease has the master."""
    it.world.gate.guard.adopt({"engine master": LEASE})


async def open_window(it: Pair) -> None:
    """Its steps start the members, each by its own node."""
    leased(it)
    it.worker.up = True
    step = StartEngine(host="crow", engine="master", override="windowed")
    await it.during(60, it.parts.node.perform(told(step, 2)))


async def test_a_window_starts_the_whole_by_its_members() -> None:
    """ENG-11, MODE-1: once a window's steps have started every member the whole is up, for requests too."""
    async with pair() as it:
        await open_window(it)
        assert it.states() == ("ready", "ready")
        assert it.log == ["start master"]
        it.world.leave(it.world.enter("wide"))


async def test_a_whole_is_found_when_a_worker_comes_up_last() -> None:
    """ENG-11: whoever started the last of the members, the whole is taken for running at the next look."""
    async with pair() as it:
        leased(it)
        step = StartEngine(host="crow", engine="master", override="windowed")
        await it.during(60, it.parts.node.perform(told(step, 1)))
        await it.during(3, it.follow.look(it.world.lane("wide")))
        assert it.states() == ("stopped", "ready")
        it.worker.up = True
        await it.during(3, it.follow.look(it.world.lane("wide")))
        assert it.states() == ("ready", "ready")


async def test_a_window_that_ends_fails_nothing() -> None:
    """ENG-11, LEASE-15: members that a lease takes down one after the other are not lost."""
    async with pair() as it:
        await open_window(it)
        await it.during(60, it.parts.node.perform(told(StopEngine(host="crow", engine="master"), 3)))
        await it.world.ticks(15)
        await follows(it)
        assert it.states() == ("stopped", "stopped")
        assert it.world.events.of("engine_failed") == []


async def test_a_worker_that_dies_in_a_window_fails_the_whole() -> None:
    """ENG-11: a lease makes no difference to a member that has failed."""
    async with pair() as it:
        await open_window(it)
        fails(it)
        await follows(it)
        assert it.states() == ("failed", "stopped")


async def test_a_lease_of_the_master_is_one_of_the_whole() -> None:
    """LEASE-15, WIN-2, ENG-11: what a lease has of the answering member nobody changes by the whole."""
    async with pair() as it:
        await open_window(it)
        lane = it.world.lane("wide")
        with pytest.raises(Exception, match="anna has pair"):
            await it.world.engines.stop("wide", BOT)
        assert it.world.gate.holding(lane) == LEASE
        assert it.world.gate.closing(WIDE) is None


async def test_all_stopped_is_stopped() -> None:
    """ENG-11: a whole whose members were all stopped, by whomever, is stopped and has not failed."""
    async with pair() as it:
        await it.up()
        it.worker.up = False
        await it.during(60, it.world.engines.stop("master", BOT))
        await follows(it)
        assert it.states() == ("stopped", "stopped")


@pytest.mark.parametrize("up", [True, False])
async def test_a_later_daemon_finds_the_whole_or_ends_what_is_left(up: bool) -> None:
    """ENG-7, ENG-11: a whole that runs is adopted; of one that runs in part the rest is ended."""
    async with pair() as it:
        await it.up()
        if not up:
            it.world.driver.crash(MASTER)
        later = it.again()
        for name in ("master", "wide"):
            await later.during(10, later.world.engines.adopt(later.world.lane(name)))
        if up:
            assert later.states() == ("ready", "ready")
            return
        assert later.states() == ("failed", "stopped")
        assert "master on crow is stopped" in later.world.lane("wide").status.why
        await later.during(3, later.follow.look(later.world.lane("wide")))
        assert (later.states(), later.worker.up) == (("failed", "stopped"), False)
        assert not later.world.parts.owes(WIDE)


async def test_a_later_daemon_waits_for_a_node_that_is_away() -> None:
    """ENG-7, ENG-11: what runs is not given up because a node does not answer at the first look."""
    async with pair() as it:
        await it.up()
        it.far.faults["observe stop worker"] = AWAY
        later = it.again()
        await later.during(10, later.world.engines.adopt(later.world.lane("master")))
        adopting = asyncio.ensure_future(later.world.engines.adopt(later.world.lane("wide")))
        await later.world.clock.advance(0.1)
        assert later.states() == ("unknown", "ready")
        del later.far.faults["observe stop worker"]
        await later.world.clock.advance(1)
        await adopting
        assert later.states() == ("ready", "ready")


async def test_nothing_is_found_of_what_never_ran() -> None:
    """ENG-7: a whole that nobody started is stopped, whether or not its members' nodes answer."""
    async with pair() as it:
        it.far.faults["observe stop worker"] = AWAY
        await it.during(10, it.world.engines.adopt(it.world.lane("wide")))
        assert it.states() == ("stopped", "stopped")
        await it.during(10, it.follow.look(it.world.lane("wide")))
        assert it.log == []


async def test_a_start_under_way_is_not_followed() -> None:
    """ENG-11: while the whole starts nothing is concluded from members that are not up yet."""
    async with pair() as it:
        it.world.driver.load_s[MASTER] = 20
        start = it.wanted()
        await it.world.clock.advance(5)
        await it.during(3, it.follow.look(it.world.lane("wide")))
        assert it.states() == ("starting", "starting")
        await it.world.clock.advance(30)
        await start
        assert it.states() == ("ready", "ready")


async def test_the_loop_goes_on() -> None:
    """REL-1, ENG-11: a bug in one look is logged, and the next look comes."""
    async with pair() as it:
        await it.up()
        follow = it.follow
        lane = it.world.lane("wide")
        follow.parts.lanes.config.fleet = cast("object", None)  # type: ignore[assignment]  # to break a look
        await it.during(3, follow.look(lane))
        assert len(it.world.bugs) == 1
        follow.parts.lanes.config.fleet = it.world.fleet
        loop = asyncio.ensure_future(follow.run())
        await it.world.clock.advance(1)
        fails(it)
        await it.world.ticks(10)
        assert it.states() == ("failed", "stopped")
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)


async def test_no_timer_and_no_request_brings_a_member_up() -> None:
    """ENG-10, ENG-11: residency, an idle revert and a request meet the same refusal as a person."""
    async with pair() as it:
        for cause in (Cause.RESIDENCY, Cause.IDLE_REVERT, Cause.RETRY, Cause.REQUEST, Cause.ACQUIRE):
            task = it.world.wanted("master", cause)
            await it.world.clock.advance(1)
            assert "is a member of wide and does not start alone" in str(task.exception())
        assert it.log == []


async def test_a_member_that_somebody_stops_fails_the_whole() -> None:
    """ENG-11: a member that is stopped while no lease has it is lost like any, and the others are stopped."""
    async with pair() as it:
        await it.up()
        await it.during(60, it.world.engines.stop("master", BOT))
        await follows(it)
        assert (it.states(), it.worker.up) == (("failed", "stopped"), False)
        assert it.world.lane("wide").status.why == "it lost a member: master on crow is stopped"


async def test_what_a_window_starts_is_not_tidied_up() -> None:
    """ENG-11, LEASE-15: what is left of an earlier start is ended, but not while a lease has the whole."""
    async with pair() as it:
        it.world.files.save("engines/wide/whole", {"epoch": "whole_0", "generation": 1, "begun": True})
        leased(it)
        it.worker.up = True
        await it.during(3, it.follow.look(it.world.lane("wide")))
        assert it.log == []
        it.world.gate.guard.adopt({})
        await it.during(3, it.follow.look(it.world.lane("wide")))
        assert it.log == ["stop worker"]
