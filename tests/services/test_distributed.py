import asyncio
from dataclasses import replace

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import (
    Draining,
    EngineFailed,
    MemoryNow,
    NodeUnreachable,
    ServingClassRefused,
    StopUnverified,
    StoreFull,
    Suspended,
)
from hostler.domain.gate import Ask
from hostler.domain.gate_words import Result
from hostler.domain.step import FenceNumber, FoundEngine, Operation, StartEngine
from hostler.domain.values import Cause, ServingClass
from tests.fakes.distributed import MASTER, WIDE, pair
from tests.fakes.far_host import far_host
from tests.fakes.host import GIB
from tests.fakes.world import BOT

AWAY = NodeUnreachable(host="raven", why="no route to host")
LEFT = "worker on raven: The node of raven does not answer: no route to host"


async def test_members_start_in_order_and_stop_in_reverse() -> None:
    """ENG-11: the worker starts first, the master when it is ready; they stop the other way round."""
    async with pair() as it:
        await it.up()
        assert it.states() == ("ready", "ready")
        assert it.log == ["start worker", "start master"]
        assert it.world.lane("wide").load_s is not None
        del it.log[:]
        await it.during(60, it.world.engines.stop("wide", BOT))
        assert [line for line in it.log if not line.startswith("close")] == [
            "signal master",
            "gone master",
            "stop worker",
        ]
        assert it.states() == ("stopped", "stopped")
        assert not it.worker.up


async def test_the_class_that_the_call_names_is_passed_on() -> None:
    """ENG-11, CAT-5: a whole that is windowed starts for whoever names that class once, and else not."""
    async with pair() as it:
        plain = Ask(engine=WIDE, cause=Cause.API, requester=BOT)
        with pytest.raises(ServingClassRefused):
            await it.world.starting.ensure_ready(it.world.lane("wide"), plain, wait_s=60)
        assert it.far.calls == []
        seen: list[StartEngine] = []
        told = it.far.perform

        async def listening(operation: object) -> None:
            step = getattr(operation, "step", None)
            if isinstance(step, StartEngine):
                seen.append(step)
            await told(operation)  # type: ignore[arg-type]  # it is one

        it.far.perform = listening  # type: ignore[method-assign]  # to see what travels
        await it.up()
        assert seen == [
            StartEngine(host="raven", engine="worker", override="windowed", of="wide", cause="api")
        ]


async def test_the_gates_of_all_are_asked_before_the_first_starts() -> None:
    """ENG-11, GATE-1: where the gate of any member refuses nothing is started, and nothing has failed."""
    async with pair() as it:
        await it.during(60, it.world.engines.suspend("master", BOT))
        with pytest.raises(Suspended):
            await it.during(60, it.wanted())
        await it.world.engines.resume("master", BOT)
        it.far.faults["preflight start worker"] = AWAY
        with pytest.raises(NodeUnreachable):
            await it.during(60, it.wanted())
        assert (it.log, it.states()) == ([], ("stopped", "stopped"))
        rows = {row.name: row for row in await it.world.engines.why("wide", _ask())}
        assert (rows["members"].result, rows["members"].code) == (Result.REFUSED, "node_unreachable")
        assert rows["memory"].result is Result.PASSED


def _ask() -> Ask:
    return Ask(engine=WIDE, cause=Cause.API, requester=BOT, override=ServingClass.WINDOWED)


async def test_a_later_one_that_fails_takes_the_earlier_down() -> None:
    """ENG-11: when the master fails the worker is stopped again, and the whole says whose failure it is."""
    async with pair() as it:
        it.world.driver.ids[MASTER] = "another"
        with pytest.raises(EngineFailed) as told:
            await it.during(120, it.wanted())
        assert told.value.why.startswith("its member master on crow: it serves another")
        assert (it.log[0], it.log[-1]) == ("start worker", "stop worker")
        assert it.states() == ("failed", "failed")
        assert not it.worker.up


async def test_what_could_not_be_rolled_back_is_told() -> None:
    """ENG-11: a worker that cannot be reached for the rollback is named, and what is owed is remembered."""
    async with pair() as it:
        it.world.driver.ids[MASTER] = "another"
        it.far.faults["perform stop worker"] = AWAY
        with pytest.raises(EngineFailed):
            await it.during(120, it.wanted())
        (event,) = it.world.events.of("deferred")
        assert event.message == f"Its start failed, and is not rolled back yet: {LEFT}"
        assert it.world.parts.owes(WIDE)


async def test_a_start_that_is_called_off_is_rolled_back() -> None:
    """ENG-3, ENG-11: a stop in the middle of the start takes down what was begun, and leaves it stopped."""
    async with pair() as it:
        it.world.driver.load_s[MASTER] = 30
        start = it.wanted()
        await it.world.clock.advance(5)
        assert (it.states(), it.worker.up) == (("starting", "starting"), True)
        assert it.world.starting.progress(it.world.lane("wide")).startswith("loading 5 s of ")
        await it.during(60, it.world.engines.stop("wide", BOT))
        assert (it.states(), it.worker.up) == (("stopped", "stopped"), False)
        assert isinstance(start.exception(), EngineFailed)


async def test_the_end_of_the_daemon_rolls_nothing_back() -> None:
    """ENG-7, ENG-11: what loads when the daemon ends is left to be adopted."""
    async with pair() as it:
        it.world.driver.load_s[MASTER] = 30
        start = it.wanted()
        await it.world.clock.advance(5)
        it.world.starting.end()
        await asyncio.wait({start})
        assert it.worker.up
        assert "stop worker" not in it.log


async def test_a_stop_names_who_is_not_gone() -> None:
    """ENG-6, ENG-11: a member that cannot be asked is not taken for stopped; the others are stopped."""
    async with pair() as it:
        await it.up()
        it.far.faults["perform stop worker"] = AWAY
        with pytest.raises(StopUnverified) as told:
            await it.during(60, it.world.engines.stop("wide", BOT))
        assert told.value.why == LEFT
        assert it.states() == ("failed", "stopped")
        assert it.world.lane("wide").status.why == told.value.why
        del it.far.faults["perform stop worker"]
        await it.during(60, it.world.engines.stop("wide", BOT))
        assert (it.states(), it.worker.up) == (("stopped", "stopped"), False)


async def test_what_comes_late_of_an_earlier_start_is_refused() -> None:
    """LEASE-8, ENG-11: each start and stop has a higher number, on disk before anything is done."""
    async with pair() as it:
        await it.up()
        first = it.far.highest["engine wide"]
        await it.during(60, it.world.engines.stop("wide", BOT))
        second = it.far.highest["engine wide"]
        assert (first[0], first[1] + 1) == second
        later = it.again()
        await later.during(60, later.world.engines.adopt(later.world.lane("wide")))
        await later.up()
        assert later.far.highest["engine wide"] == (second[0], second[1] + 1)


async def test_without_a_record_nothing_is_started() -> None:
    """ENG-11: a start whose number cannot be written down is refused before any member is touched."""
    async with pair() as it:
        it.world.files.full = True
        with pytest.raises(StoreFull):
            await it.during(60, it.wanted())
        assert it.log == []


async def test_a_broken_record_begins_another_epoch() -> None:
    """LEASE-8, ENG-11: where the last number cannot be read, a later epoch is begun."""
    async with pair() as it:
        await it.up()
        before = it.far.highest["engine wide"]
        for text in ("no json", '{"epoch": 5, "generation": 7}'):
            it.world.files.texts["engines/wide/whole"] = text
            assert it.world.parts.stamp(WIDE) is None
        await it.during(60, it.world.engines.stop("wide", BOT))
        assert it.far.highest["engine wide"] > before


async def test_a_host_that_nobody_knows_is_named() -> None:
    """NODE-3, ENG-11: without a node of a member's host its gate is refused."""
    async with pair() as it:
        it.world.parts.nodes.pop("raven")
        with pytest.raises(NodeUnreachable):
            await it.during(60, it.wanted())
        assert [str(one) for one in await it.world.parts.look(it.world.lane("wide").engine)] == [
            "the node of raven, which worker is on, does not answer",
            "master on crow is stopped",
        ]


async def test_a_look_waits_for_nobody() -> None:
    """ENG-8, ENG-11: a node that hangs is looked at for 3 s, and then counts as one that does not answer."""
    async with pair() as it:

        async def hangs(_: object) -> None:
            await asyncio.Event().wait()

        it.far.observe = hangs  # type: ignore[method-assign, assignment]  # it never answers
        looked = await it.during(3, it.world.parts.look(it.world.lane("wide").engine))
        assert [one.state for one in looked] == [None, State.STOPPED]


async def test_a_request_is_in_the_whole_and_in_its_master() -> None:
    """GW-8, ENG-11: what is under way in the whole is so in the member that answers: no drain cuts it."""
    async with pair() as it:
        await it.up()
        entry = it.world.enter("wide")
        assert entry in it.world.lane("master").requests
        assert entry.engine == "wide"
        drained = asyncio.ensure_future(it.world.stopping.drain(it.world.lane("master"), by="lease_1"))
        await it.world.clock.advance(5)
        assert not drained.done()
        with pytest.raises(Draining):
            it.world.enter("wide")
        it.world.leave(entry)
        await it.world.clock.advance(1)
        assert drained.result()
        assert (it.world.lane("wide").requests, it.world.lane("master").requests) == (set(), set())
        assert it.world.lane("wide").used == it.world.lane("master").used


async def test_the_log_of_the_whole_is_that_of_its_master() -> None:
    """ENG-12, ENG-11: the log of a whole is that of the member that answers."""
    async with pair() as it:
        it.world.driver.logs[MASTER] = ["one", "two"]
        assert it.world.engines.tail("wide", 1) == ["two"]
        driver = it.world.engines.drivers["distributed"]
        launch = it.world.lane("wide").launch
        assert [line async for line in driver.follow(launch)] == ["one", "two"]
        assert driver.restore(launch).argv == ()
        await driver.set_revival(launch, None)
        assert await driver.revival(launch) is None


async def test_the_whole_takes_no_memory_itself() -> None:
    """MEM-2, ENG-11: the whole takes no part in the sum of its host; its members do."""
    async with pair() as it:
        await it.up()
        lanes = it.world.lanes
        assert it.world.gate.need(lanes.get("wide")) == {}
        assert lanes.get("wide").taken == {}
        assert not lanes.get("wide").unmeasured
        assert lanes.get("master").taken != {}


async def test_the_numbers_of_a_whole_are_no_schedules() -> None:
    """LEASE-8, ENG-11: what a node accepted for a whole tells its head nothing of the schedule."""
    async with pair() as it:
        await it.up()
        assert it.parts.node.receipts.known.keys() == {"engine wide"}
        assert (await it.parts.node.memory()).highest is None


async def test_who_operates_on_members_is_no_head() -> None:
    """NODE-4, ENG-11: a node that a neighbour asks about a member has heard nothing of its head."""
    async with pair() as it:
        far = far_host(it.parts)
        neighbour = replace(far.remote, head=False)
        step = StartEngine(host="crow", engine="master", override="windowed", of="wide", cause="api")
        seen = await it.during(1, neighbour.observe(_operation(step)))
        assert isinstance(seen, FoundEngine)
        assert seen.state == "stopped"
        await it.during(60, neighbour.perform(_operation(step)))
        assert it.world.lane("master").ready
        assert far.own.mind.heard is None
        assert [request.method for request in far.cable.seen] == ["POST", "POST"]
        await it.during(1, neighbour.observe(_operation(replace(step, of=""))))
        assert far.own.mind.heard is not None


def _operation(step: StartEngine) -> Operation:
    return Operation(
        id="whole_1.1.1",
        lease="whole_1",
        fence=FenceNumber(epoch="whole_1", generation=1),
        covers=("engine wide",),
        step=step,
        deadline_s=60,
    )


async def test_a_node_asks_its_whole_gate_before_a_member_starts() -> None:
    """ENG-11, GATE-1: before a whole starts nothing is stopped first, so that memory refuses beforehand."""
    async with pair() as it:
        it.world.machine.others = 120 * GIB
        step = StartEngine(host="crow", engine="master", override="windowed", of="wide", cause="api")
        with pytest.raises(MemoryNow):
            await it.parts.node.preflight(_operation(step))
        await it.parts.node.preflight(_operation(replace(step, of="", cause="")))


async def test_no_member_is_unloaded_by_itself() -> None:
    """ENG-10, ENG-11: a `ttl` of a member unloads nothing: that would take the whole down."""
    async with pair() as it:
        lane = it.world.lane("master")
        lane.engine = replace(lane.engine, ttl_s=5.0)
        await it.up()
        await it.world.ticks(60)
        assert it.states() == ("ready", "ready")


async def test_a_worker_without_http_has_no_work_to_prove() -> None:
    """LEASE-13, ENG-11: of a worker that has only a port its health is seen; the whole does the work."""
    async with pair() as it:
        lane = it.world.lane("master")
        await it.up()
        proving = it.parts.node.engines.proving
        lane.launch = replace(lane.launch, health="tcp")
        await it.during(10, proving.prove(lane))
        assert it.parts.completions.asked == []
        lane.launch = replace(lane.launch, health="/health")
        await it.during(10, proving.prove(lane))
        assert it.parts.completions.asked == ["chat master"]
