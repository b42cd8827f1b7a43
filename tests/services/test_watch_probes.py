import asyncio

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import EngineFailed
from hostler.domain.fleet import DriverKind
from hostler.domain.values import EngineId
from tests.fakes.world import BOT, engine, group, world

A, B = EngineId("a"), EngineId("b")


async def test_three_failed_probes_restart_an_engine_once() -> None:
    """ENG-8: an engine that fails three probes in a row is stopped and started once, by the watchdog."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.driver.freeze(A)
        await it.ticks(15)
        assert it.lane("a").ready
        await it.ticks(25)
        assert (it.driver.started, it.driver.stopped) == (["a", "a"], ["a"])
        assert it.lane("a").ready
        assert it.events.last("engine_failed").actor == "watchdog"
        assert [event.message for event in it.events.of("engine_starting")] == ["for request", "for watchdog"]
        await it.ticks(100)
        assert len(it.driver.started) == 2


async def test_one_good_probe_forgives() -> None:
    """ENG-8: two failed probes and a good one are no failure."""
    async with world(engine("a")) as it:
        await it.up("a")
        for _ in range(3):
            it.driver.freeze(A)
            await it.ticks(20)
            it.driver.thaw(A)
            await it.ticks(10)
        assert it.driver.started == ["a"]


async def test_a_probe_wakes_nothing() -> None:
    """ENG-8: probes do not count as use: an engine that is probed goes idle all the same."""
    async with world(engine("a", ttl_s=100.0)) as it:
        await it.wanted("a")
        await it.ticks(99)
        assert len(it.driver.probed) > 8
        await it.ticks(4)
        assert it.state("a") is State.STOPPED


async def test_a_crash_is_seen_at_once() -> None:
    """ENG-8: an engine that dies is failed without waiting for a probe, and owed a restart."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.ticks(2)
        it.driver.crash(A, status=None, number=9)
        await it.ticks(2)
        assert it.events.last("engine_failed").message == "it was killed by signal 9"
        assert it.lane("a").ready


async def test_a_crash_loop_is_bounded() -> None:
    """ENG-8: an engine that crashes soon after each start is restarted twice and then left failed."""
    async with world(engine("a")) as it:
        await it.up("a")
        for _ in range(10):
            await it.ticks(2)
            if it.driver.up():
                it.driver.crash(A)
        assert len(it.driver.started) == 3
        assert it.state("a") is State.FAILED
        assert it.lane("a").status.why.endswith("it failed 3 times soon after its start")
        with pytest.raises(EngineFailed):
            await it.wanted("a")


async def test_requests_do_not_drive_a_crash_loop() -> None:
    """ENG-3: requests that wait for an engine which crashes again and again start it no oftener."""
    async with world(engine("a")) as it:
        await it.up("a")
        for _ in range(30):
            it.wanted("a", wait_s=30)
            await it.ticks(1)
            if it.driver.up():
                it.driver.crash(A)
        assert len(it.driver.started) <= 3
        assert it.bugs == []


async def test_a_request_waits_for_the_back_off_too() -> None:
    """ENG-3: there is one backoff per engine: a request right after a crash waits for it as well."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.ticks(2)
        it.driver.crash(A)
        caller = it.wanted("a")
        await it.clock.advance(0.9)
        assert it.driver.started == ["a"]
        await it.clock.advance(0.2)
        await caller
        assert it.driver.started == ["a", "a"]


async def test_who_waits_while_an_engine_is_given_up_is_told() -> None:
    """ENG-3: a request that waits for the stop of an engine which is then left failed is told why."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.lane("a").crashes = 2
        it.driver.stop_s[A] = 5
        it.driver.freeze(A)
        while it.lane("a").ready:
            await it.ticks(1)
        caller = it.wanted("a")
        await it.ticks(6)
        with pytest.raises(EngineFailed, match="it failed 3 times soon after its start"):
            await caller
        assert it.driver.started == ["a"]


async def test_a_crash_long_after_the_start_is_a_first_one() -> None:
    """ENG-8: crashes that lie hours apart are no loop."""
    async with world(engine("a")) as it:
        await it.up("a")
        for _ in range(6):
            await it.ticks(200)
            it.driver.crash(A)
            await it.ticks(5)
            assert it.lane("a").ready


async def test_a_stall_is_told_by_progress() -> None:
    """ENG-8: a request whose bytes and counters do not move for 10 min is a stall: a restart."""
    async with world(engine("a")) as it:
        await it.up("a")
        entry = it.enter("a")
        await it.ticks(590)
        assert it.lane("a").ready
        await it.ticks(40)
        assert "nothing has moved for" in it.events.last("engine_failed").message
        assert it.driver.started == ["a", "a"]
        assert [name for name, _ in it.cuts] == ["a"]
        assert entry not in it.lane("a").requests


@pytest.mark.parametrize("by", ["bytes", "counters"])
async def test_a_long_answer_that_goes_on_is_no_stall(by: str) -> None:
    """ENG-8: an answer that keeps streaming, or whose engine counts on, is never a stall."""
    async with world(engine("a")) as it:
        await it.up("a")
        entry = it.enter("a")
        for number in range(150):
            if by == "bytes":
                entry.bytes_out += 10
            else:
                it.machine.counters[A] = float(number)
            await it.ticks(10)
        assert it.driver.started == ["a"]


async def test_a_stop_under_way_is_no_failure() -> None:
    """ENG-8: a probe, or an exit, that comes while an engine is being stopped does not make it failed."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.ticks(1)
        it.driver.slow_probe = 2.5
        it.driver.stop_s[A] = 5
        await it.ticks(9)
        it.driver.freeze(A)
        it.lane("a").failures = 2
        it.watch.probing.probed.clear()
        it.watch.tick()
        await it.clock.advance(1)
        await asyncio.gather(it.engines.stop("a", BOT, now=True), it.ticks(5))
        assert it.state("a") is State.STOPPED
        assert (it.events.of("engine_failed"), it.bugs) == ([], [])


async def test_a_crash_under_a_hold_is_restarted_when_the_hold_ends() -> None:
    """HOLD-15: the restart of a crashed engine waits for the hold's end, told once, and comes then."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.ticks(2)
        it.hold.write()
        it.driver.crash(A)
        await it.ticks(400)
        assert (it.state("a"), len(it.events.of("deferred"))) == (State.STOPPED, 1)
        it.hold.remove()
        await it.ticks(1)
        assert it.lane("a").ready


async def test_a_stop_by_hand_ends_what_the_watchdog_owes() -> None:
    """ENG-8: an engine that somebody stops after its crash is not restarted by the watchdog."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.ticks(2)
        it.driver.crash(A)
        await it.clock.advance(0.5)
        await it.engines.stop("a", BOT)
        await it.ticks(200)
        assert it.driver.started == ["a"]


async def test_a_restart_is_owed_once() -> None:
    """ENG-8: an engine that came back after its crash is not started again when it is unloaded later."""
    async with world(engine("a", ttl_s=60.0)) as it:
        await it.wanted("a")
        await it.ticks(2)
        it.driver.crash(A)
        await it.ticks(300)
        assert it.driver.started == ["a", "a"]
        assert it.state("a") is State.STOPPED


async def test_a_restart_throws_nobody_out() -> None:
    """ENG-8: where a sibling came up since the crash, the crashed engine is not restarted over it."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await it.ticks(2)
        it.driver.crash(A)
        await it.clock.advance(0.2)
        await it.wanted("b")
        await it.ticks(200)
        assert it.driver.up() == {"b"}


async def test_an_external_engine_is_ready_when_it_answers() -> None:
    """ENG-2: an external engine is ready while it answers as itself, gone when it does not, never touched."""
    async with world(engine("ext", driver=DriverKind.EXTERNAL)) as it:
        name = EngineId("ext")
        await it.ticks(12)
        assert it.state("ext") is State.STOPPED
        answers = it.lane("ext")
        run = await it.driver.start(answers.launch)
        answers.run = run
        await it.ticks(12)
        assert answers.ready
        it.driver.freeze(name)
        await it.ticks(12)
        assert it.state("ext") is State.FAILED
        it.driver.thaw(name)
        await it.ticks(12)
        assert answers.ready
        assert it.driver.stopped == []
