import asyncio

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import (
    BoxReserved,
    Draining,
    EngineFailed,
    Loading,
    PortConflict,
    StopUnverified,
)
from hostler.domain.values import Cause, EngineId
from hostler.services.starting import LOOK_AGAIN_S
from tests.fakes.clock import settle
from tests.fakes.world import BOT, engine, world

A = EngineId("a")


async def test_fifty_callers_and_residency_share_one_start() -> None:
    """ENG-3: fifty requests at once, while residency wants the same engine, start it once for all of them."""
    async with world(engine("a", resident=True)) as it:
        it.driver.load_s[A] = 5
        it.watch.tick()
        callers = [it.wanted("a") for _ in range(50)]
        await it.clock.advance(1)
        assert it.starting.queue == ["a"]
        await it.clock.advance(5)
        await asyncio.gather(*callers)
        assert it.driver.started == ["a"]
        assert it.lane("a").ready
        assert it.lane("a").waiters == 0


async def test_each_waiter_has_its_own_deadline_and_ends_nothing() -> None:
    """ENG-3: a waiter past its deadline is told `loading`, one that leaves is gone, and the start goes on."""
    async with world(engine("a")) as it:
        it.driver.load_s[A] = 20
        brief, leaver, patient = it.wanted("a", wait_s=3), it.wanted("a"), it.wanted("a", wait_s=30)
        await it.clock.advance(5)
        with pytest.raises(Loading) as told:
            await brief
        assert (told.value.elapsed_s, told.value.budget_s, told.value.retry_after) == (3, 120, 117)
        leaver.cancel()
        await it.clock.advance(20)
        await patient
        assert it.driver.started == ["a"]


@pytest.mark.parametrize("loaded_for", [0.0, 7.0])
async def test_an_explicit_stop_calls_a_start_off(loaded_for: float) -> None:
    """ENG-3: an explicit stop calls off a start that is under way, tells who waits, and leaves nothing."""
    async with world(engine("a")) as it:
        it.driver.load_s[A] = 20
        callers = [it.wanted("a"), it.wanted("a")]
        await it.clock.advance(loaded_for)
        await it.engines.stop("a", BOT)
        for caller in callers:
            with pytest.raises(EngineFailed, match="called off"):
                await caller
        assert (it.state("a"), it.lane("a").run, it.driver.up()) == (State.STOPPED, None, set())
        await it.clock.advance(60)
        assert it.driver.started == ["a"]


async def test_a_stop_calls_off_a_start_that_waits_for_its_next_try() -> None:
    """ENG-3: a stop between two tries, when nothing runs, calls the start off too."""
    async with world(engine("a")) as it:
        it.driver.refusals[A] = EngineFailed(engine="a", why="no luck")
        caller = it.wanted("a")
        await it.clock.advance(0.5)
        await it.engines.stop("a", BOT)
        with pytest.raises(EngineFailed, match="called off"):
            await caller
        await it.clock.advance(60)
        assert it.driver.started == ["a"]


async def test_a_stop_calls_off_a_start_that_waits_for_its_turn() -> None:
    """ENG-3: a stop of an engine that waits for another one's load calls its start off; the other goes on."""
    async with world(engine("a"), engine("b")) as it:
        it.driver.load_s[A] = 20
        first = it.wanted("a")
        await settle()
        second = it.wanted("b")
        await it.clock.advance(1)
        await it.engines.stop("b", BOT)
        with pytest.raises(EngineFailed, match="called off"):
            await second
        await it.clock.advance(30)
        await first
        assert it.driver.started == ["a"]


async def test_two_stops_do_not_disturb_a_start_that_cleans_up() -> None:
    """ENG-3: a failed start that cleans up while two call it off ends what it started, and ends it once."""
    async with world(engine("a")) as it:
        it.driver.ids[A] = "other"
        it.driver.stop_s[A] = 5
        it.wanted("a")
        await it.clock.advance(0.3)
        stops = []
        for _ in range(2):
            stops.append(asyncio.ensure_future(it.engines.stop("a", BOT)))
            await it.clock.advance(1)
        assert it.driver.up() == {"a"}
        await it.clock.advance(20)
        await asyncio.gather(*stops)
        assert (it.driver.started, it.driver.stopped, it.driver.up()) == (["a"], ["a"], set())


async def test_a_start_that_is_called_off_and_will_not_die_is_told() -> None:
    """ENG-6: when what a called-off start had started will not die, the stop says so and keeps its run."""
    async with world(engine("a")) as it:
        it.driver.load_s[A] = 20
        it.wanted("a")
        await it.clock.advance(1)
        it.driver.deaf.add(A)
        with pytest.raises(StopUnverified):
            await it.engines.stop("a", BOT)
        assert it.state("a") is State.FAILED
        assert it.lane("a").run is not None
        it.driver.deaf.clear()
        await it.engines.stop("a", BOT)
        assert (it.state("a"), it.driver.up()) == (State.STOPPED, set())


async def test_a_failed_start_is_tried_three_times_and_then_failed() -> None:
    """ENG-3: a start that crashes is cleaned up and tried after 1 s and after 2 s more; then it is failed."""
    async with world(engine("a")) as it:
        it.driver.load_s[A] = 50
        it.driver.logs[A] = [f"line {number}" for number in range(250)]
        caller = it.wanted("a")
        tries: list[float] = []
        for wait in (0.0, 1.0, 2.0):
            await it.clock.advance(wait)
            tries.append(it.clock.elapsed())
            assert it.driver.up() == {"a"}
            it.driver.crash(A, status=3)
            await settle()
        with pytest.raises(EngineFailed, match="it exited with status 3 while loading") as told:
            await caller
        assert [later - tries[0] for later in tries] == [0.0, 1.0, 3.0]
        assert told.value.retry_after == 30
        assert (it.state("a"), it.lane("a").run) == (State.FAILED, None)
        assert it.lane("a").last_lines == tuple(f"line {number}" for number in range(50, 250))


@pytest.mark.parametrize(
    ("cause", "seconds"), [(Cause.REQUEST, 30.0), (Cause.API, 30.0), (Cause.RESIDENCY, 120.0)]
)
async def test_failed_is_left_after_a_while(cause: Cause, seconds: float) -> None:
    """ENG-3: a failed engine is tried again for a caller after 30 s, for residency after 120 s."""
    async with world(engine("a")) as it:
        it.driver.ids[A] = "other"
        first = it.wanted("a")
        await it.clock.advance(3)
        with pytest.raises(EngineFailed, match="it serves other, expected a"):
            await first
        del it.driver.ids[A]
        await it.clock.advance(seconds - 1)
        with pytest.raises(EngineFailed, match="it serves other, expected a") as told:
            await it.wanted("a", cause)
        assert told.value.retry_after == 1
        await it.clock.advance(1)
        await it.wanted("a", cause)
        assert len(it.driver.started) == 4


@pytest.mark.parametrize("deaf", [False, True])
async def test_clear_leaves_failed_at_once(deaf: bool) -> None:
    """ENG-3: `clear` lets a failed engine be tried at once, also one whose process would not die."""
    async with world(engine("a")) as it:
        it.driver.ids[A] = "other"
        if deaf:
            it.driver.deaf.add(A)
        first = it.wanted("a")
        await it.clock.advance(3)
        with pytest.raises((EngineFailed, StopUnverified)):
            await first
        it.driver.ids.clear()
        it.driver.deaf.clear()
        it.engines.clear("a", BOT)
        await it.wanted("a")
        assert it.lane("a").ready


async def test_a_failed_start_stops_what_it_started() -> None:
    """ENG-3: a start that serves another model than expected is stopped, and its memory is back."""
    async with world(engine("a")) as it:
        it.driver.ids[A] = "other"
        caller = it.wanted("a")
        await it.clock.advance(3)
        with pytest.raises(EngineFailed):
            await caller
        assert it.driver.up() == set()
        assert it.driver.stopped == ["a"] * 3


async def test_the_last_words_of_a_start_that_will_not_die() -> None:
    """ENG-3: a failed start whose process will not die is `stop_unverified`, and its last lines are kept."""
    async with world(engine("a")) as it:
        it.driver.ids[A] = "other"
        it.driver.deaf.add(A)
        it.driver.logs[A] = ["out of memory"]
        caller = it.wanted("a")
        await it.clock.advance(3)
        with pytest.raises(StopUnverified):
            await caller
        assert it.lane("a").last_lines == ("out of memory",)
        assert it.lane("a").run is not None


async def test_a_stranger_on_the_port_is_neither_killed_nor_routed_to() -> None:
    """ENG-4: a stranger on the port ends the start as `port_conflict`, naming it; only ours is stopped."""
    async with world(engine("a")) as it:
        it.driver.load_s[A] = 20
        caller = it.wanted("a")
        await it.clock.advance(1)
        it.driver.put_stranger(8100)
        await it.clock.advance(1)
        with pytest.raises(PortConflict, match="pid 99") as told:
            await caller
        assert told.value.port == 8100
        assert it.driver.stopped == ["a"]
        assert it.driver.strangers == {8100: "pid 99 (nginx)"}
        assert not it.lane("a").ready


async def test_a_stranger_that_is_there_first_refuses_the_start() -> None:
    """ENG-4: a port that a stranger has before the spawn refuses the start; nothing is spawned."""
    async with world(engine("a")) as it:
        it.driver.put_stranger(8100)
        with pytest.raises(PortConflict, match="nginx"):
            await it.wanted("a")
        assert it.driver.started == []


async def test_one_start_loads_at_a_time() -> None:
    """MEM-2: two engines that are asked for at once load one after the other, in the order of asking."""
    async with world(engine("a"), engine("b")) as it:
        it.driver.load_s.update({A: 10, EngineId("b"): 10})
        both = [it.wanted("a"), it.wanted("b")]
        await it.clock.advance(5)
        assert it.driver.started == ["a"]
        assert it.starting.progress(it.lane("b")) == "waiting to load, place 2"
        await it.clock.advance(20)
        await asyncio.gather(*both)
        assert it.driver.started == ["a", "b"]


async def test_a_failure_that_waits_lets_others_load() -> None:
    """ENG-3: while a failed start waits for its next try, another engine of the host loads."""
    async with world(engine("a"), engine("b")) as it:
        it.driver.refusals[A] = EngineFailed(engine="a", why="no luck")
        first = it.wanted("a")
        await it.clock.advance(0.5)
        await it.wanted("b")
        await it.clock.advance(1)
        await first
        assert it.driver.started == ["a", "b", "a"]


async def test_who_asks_by_name_lifts_a_timers_start() -> None:
    """MEM-2: a request that joins a timer's start for an unmeasured engine gets it started all the same."""
    async with world(engine("a"), engine("new", need=None)) as it:
        it.driver.load_s[A] = 10
        first = it.wanted("a")
        await settle()
        timer = it.wanted("new", Cause.RESIDENCY)
        await settle()
        asked = it.wanted("new", Cause.REQUEST)
        await it.clock.advance(20)
        await asyncio.gather(first, timer, asked)
        assert it.lane("new").ready


async def test_an_engine_drained_by_hand_refuses_at_once() -> None:
    """GW-8: a request for an engine that somebody drains is refused `draining`, not kept waiting."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.engines.drain("a", BOT)
        with pytest.raises(Draining):
            await it.wanted("a")
        await it.engines.resume("a", BOT)
        assert it.lane("a").ready


async def test_the_end_of_the_daemon_leaves_a_loading_engine_to_its_successor() -> None:
    """ENG-7: at the daemon's end a start that waits is called off; what loads is not stopped."""
    async with world(engine("a"), engine("b")) as it:
        it.driver.load_s[A] = 20
        both = [it.wanted("a"), it.wanted("b")]
        await it.clock.advance(1)
        it.starting.end()
        await asyncio.gather(*both, return_exceptions=True)
        with pytest.raises(Draining, match="the daemon shuts down"):
            await it.wanted("b")
        assert (it.driver.started, it.driver.stopped, it.driver.up()) == (["a"], [], {"a"})


async def test_a_request_waits_until_it_is_known_what_an_earlier_daemon_left() -> None:
    """ENG-7: a request that comes before adoption is served by what runs; nothing is started beside it."""
    async with world(engine("a")) as it:
        await it.up("a")
        late = it.again()
        late.lane("a").known = False
        caller = late.wanted("a")
        await it.clock.advance(1)
        assert not caller.done()
        await late.engines.adopt(late.lane("a"))
        await caller
        assert it.driver.started == ["a"]


async def test_a_hold_that_comes_while_a_start_waits_refuses_it() -> None:
    """GATE-1: the gate is asked again when a start's turn comes: a hold that came meanwhile refuses it."""
    async with world(engine("a"), engine("b")) as it:
        it.driver.load_s[A] = 10
        first = it.wanted("a")
        await settle()
        second = it.wanted("b")
        await it.clock.advance(1)
        it.hold.write()
        await it.clock.advance(20)
        await first
        with pytest.raises(BoxReserved):
            await second
        assert it.driver.started == ["a"]


async def test_nothing_starts_before_every_engine_was_looked_at() -> None:
    """ENG-7: a start waits until it is known of each engine whether an earlier daemon left it running."""
    async with world(engine("a"), engine("b")) as it:
        it.lane("b").known = False
        caller = it.wanted("a")
        await it.clock.advance(5)
        assert it.driver.started == []
        it.lane("b").known = True
        it.lane("b").notify()
        await it.clock.advance(5)
        await caller
        assert it.driver.started == ["a"]


async def test_who_waits_behind_another_load_hears_of_a_hold() -> None:
    """GATE-1: a waiter whose start has not begun is refused soon after a hold appears, whoever loads."""
    async with world(engine("a"), engine("b")) as it:
        it.driver.load_s[A] = 60
        loading, behind = it.wanted("a"), it.wanted("b")
        await it.clock.advance(1)
        it.hold.write()
        await it.clock.advance(2 * LOOK_AGAIN_S)
        assert (behind.done(), loading.done()) == (True, False)
        with pytest.raises(BoxReserved):
            await behind
