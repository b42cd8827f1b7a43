import asyncio

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import BoxReserved, Draining, MemoryNow, MemoryResidue, StopUnverified
from hostler.domain.fleet import DriverKind
from hostler.domain.values import Cause, EngineId
from tests.fakes.clock import settle
from tests.fakes.host import GIB
from tests.fakes.world import BOT, World, engine, group, world

A, B = EngineId("a"), EngineId("b")


async def test_a_sibling_is_gone_and_its_memory_back_before_the_spawn() -> None:
    """EVICT-2: the sibling is stopped, and its memory is seen back, before the wanted engine is spawned."""
    async with world(
        engine("a", group="big", need=80), engine("b", group="big", need=80), groups=[group()]
    ) as it:
        await it.up("a")
        it.driver.stop_s[A] = 3
        it.driver.journal.clear()
        await it.clock.advance(2)
        caller = it.wanted("b")
        await it.clock.advance(1)
        it.machine.pinned = 80 * GIB
        await it.clock.advance(10)
        assert it.driver.journal[-1] == "gone a"
        assert it.state("b") is State.STOPPED
        it.machine.pinned = 1 * GIB
        await it.clock.advance(1)
        await caller
        assert it.driver.journal == ["close http://127.0.0.1:8100", "signal a", "gone a", "start b"]
        assert it.events.last("evicted").facts["for"] == "b"


async def test_a_sibling_that_will_not_stop_fails_the_start() -> None:
    """EVICT-3: a sibling that will not stop fails the start; nothing is started on hope."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await it.clock.advance(2)
        it.driver.deaf.add(A)
        with pytest.raises(StopUnverified):
            await it.wanted("b")
        assert it.driver.started == ["a"]
        assert it.lane("a").run is not None


async def test_memory_that_does_not_come_back_fails_the_start() -> None:
    """MEM-4: memory that a dead sibling pins for 30 s is `memory_residue`, and the start fails (EVICT-3)."""
    async with world(
        engine("a", group="big", need=80), engine("b", group="big", need=20), groups=[group()]
    ) as it:
        await it.up("a")
        await it.clock.advance(2)
        it.machine.pinned = 0
        caller = it.wanted("b")
        it.machine.sizes[A] = 0
        it.machine.pinned = 80 * GIB
        await it.clock.advance(29)
        assert not caller.done()
        await it.clock.advance(2)
        with pytest.raises(MemoryResidue, match=r"80\.0 GiB of its memory did not come back on crow"):
            await caller
        assert it.driver.started == ["a"]
        assert it.lane("a").residue == "80.0 GiB"
        assert it.events.last("memory_residue").facts["waited_s"] == 30


async def test_a_busy_sibling_serves_on_for_the_groups_patience() -> None:
    """EVICT-4: a busy sibling takes requests for `yield_after`; then it takes no new ones, and is not cut."""
    groups = [group(yield_after_s=120)]
    async with world(engine("a", group="big"), engine("b", group="big"), groups=groups) as it:
        await it.up("a")
        entry = it.enter("a")
        caller = it.wanted("b")
        await it.clock.advance(119)
        assert it.lane("a").ready
        it.leave(it.enter("a"))
        await it.clock.advance(2)
        assert it.state("a") is State.DRAINING
        with pytest.raises(Draining):
            it.enter("a")
        it.leave(entry)
        await it.clock.advance(1)
        await caller
        assert (it.driver.up(), it.cuts) == ({"b"}, [])


async def test_the_patience_does_not_begin_anew() -> None:
    """EVICT-4: a sibling that is idle for an instant again and again keeps others waiting no longer."""
    groups = [group(yield_after_s=120)]
    async with world(engine("a", group="big"), engine("b", group="big"), groups=groups) as it:
        await it.up("a")
        entry = it.enter("a")
        caller = it.wanted("b")
        for _ in range(130):
            await it.clock.advance(1)
            if not it.lane("a").ready:
                break
            it.leave(entry)
            entry = it.enter("a")
        it.leave(entry)
        await it.clock.advance(1)
        await caller
        assert it.clock.elapsed() - 1000 <= 60 + 120 + 3


async def test_an_idle_sibling_makes_way_at_once() -> None:
    """EVICT-2: a sibling that is idle makes way at once, whatever the group's patience."""
    groups = [group(yield_after_s=120)]
    async with world(engine("a", group="big"), engine("b", group="big"), groups=groups) as it:
        await it.up("a")
        await it.clock.advance(2)
        await it.wanted("b")
        assert it.driver.up() == {"b"}


async def test_a_sibling_that_stays_busy_refuses_the_start_and_is_never_cut() -> None:
    """EVICT-2: past the drain's bound the start is refused `draining`; the sibling takes requests again."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await it.clock.advance(2)
        it.enter("a")
        caller = it.wanted("b")
        await it.clock.advance(59)
        assert it.state("a") is State.DRAINING
        await it.clock.advance(2)
        with pytest.raises(Draining, match="1 of its requests did not end within 60 s") as told:
            await caller
        assert told.value.retry_after == 60
        assert it.lane("a").ready
        it.leave(it.enter("a"))
        assert (it.cuts, it.driver.stopped) == ([], [])


async def test_a_fresh_sibling_stays_to_be_worth_its_load() -> None:
    """EVICT-4: a sibling that is not up for `min_resident` yet stays, idle or not, and then makes way."""
    groups = [group(min_resident_s=60)]
    async with world(engine("a", group="big"), engine("b", group="big"), groups=groups) as it:
        await it.wanted("a")
        await it.clock.advance(5)
        caller = it.wanted("b")
        await it.clock.advance(54)
        assert it.lane("a").ready
        await it.clock.advance(2)
        await caller
        assert it.driver.up() == {"b"}


async def test_a_hold_that_comes_during_the_drain_refuses_and_evicts_nothing() -> None:
    """GATE-1: a hold that comes while a sibling drains refuses the start; the sibling serves on."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await it.clock.advance(2)
        entry = it.enter("a")
        caller = it.wanted("b")
        await it.clock.advance(5)
        assert it.state("a") is State.DRAINING
        it.hold.write()
        it.leave(entry)
        await it.clock.advance(1)
        with pytest.raises(BoxReserved):
            await caller
        assert it.lane("a").ready
        assert (it.driver.stopped, it.events.of("evicted")) == ([], [])


async def test_a_hold_that_comes_during_the_eviction_refuses_the_spawn() -> None:
    """GATE-1: a hold that comes while the sibling stops refuses the start just before its spawn."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        it.driver.stop_s[A] = 5
        await it.clock.advance(2)
        caller = it.wanted("b")
        await it.clock.advance(1)
        it.hold.write()
        await it.clock.advance(10)
        with pytest.raises(BoxReserved):
            await caller
        assert it.driver.started == ["a"]


async def test_a_start_that_is_called_off_gives_the_drained_sibling_back() -> None:
    """EVICT-2: a start that is called off while a sibling drains gives the sibling back."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await it.clock.advance(2)
        it.enter("a")
        it.wanted("b")
        await it.clock.advance(5)
        assert it.state("a") is State.DRAINING
        await it.engines.stop("b", BOT)
        assert it.lane("a").ready


async def test_no_request_slips_into_a_sibling_that_makes_way() -> None:
    """EVICT-2: from the moment a sibling is found idle no request enters it, so none is cut."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await it.clock.advance(2)
        caller = it.wanted("b")
        served = 0
        for _ in range(50):
            await asyncio.sleep(0)
            if it.lane("a").ready:
                it.leave(it.enter("a"))
                served += 1
        await it.clock.advance(1)
        await caller
        assert served > 0
        assert it.cuts == []


async def alternating(it: World, *, service_s: float) -> list[float]:
    """Ten requests for each of two engines, sent alternately at once: how long each waited."""
    served = [asyncio.ensure_future(it.serve("ab"[number % 2], service_s)) for number in range(20)]
    for _ in range(2000):
        if all(task.done() for task in served):
            break
        await it.clock.advance(1)
    return [await task for task in served]


@pytest.mark.parametrize("min_resident", [0.0, 60.0])
async def test_alternating_requests_do_not_thrash(min_resident: float) -> None:
    """EVICT-4: ten requests for A and ten for B, sent alternately, cost at most 4 swaps, no cut (BG-07)."""
    groups = [group(min_resident_s=min_resident, yield_after_s=120)]
    async with world(engine("a", group="big"), engine("b", group="big"), groups=groups) as it:
        it.driver.load_s.update({A: 5, B: 5})
        it.driver.stop_s.update({A: 1, B: 1})
        waits = await alternating(it, service_s=20)
        assert len(it.driver.started) <= 4
        assert it.driver.most == 1
        assert it.cuts == []
        assert max(waits) <= max(min_resident, 120) + 60 + 1 + 5 + 5


async def test_requests_that_keep_coming_starve_nobody() -> None:
    """EVICT-4: while A never rests, B is served after `yield_after`, and then A again (BG-07)."""
    groups = [group(min_resident_s=10, yield_after_s=30)]
    async with world(engine("a", group="big"), engine("b", group="big"), groups=groups) as it:
        it.driver.load_s.update({A: 5, B: 5})

        async def client(name: str) -> list[float]:
            return [await it.serve(name, 4) for _ in range(12)]

        clients = [asyncio.ensure_future(client(name)) for name in ("a", "a", "b")]
        for _ in range(600):
            await it.clock.advance(1)
        waits = [await each for each in clients]
        assert max(map(max, waits)) <= 30 + 60 + 5 + 5
        assert it.cuts == []


async def test_two_engines_of_one_group_both_start_again_after_the_sweep() -> None:
    """EVICT-2: after A and B displaced each other, either starts again (BG-06)."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        for name in ("a", "b", "a", "b"):
            await it.up(name)
            assert it.driver.up() == {name}
        assert it.driver.most == 1


async def test_more_is_evicted_where_the_first_plan_was_not_enough() -> None:
    """EVICT-3: when memory shrank meanwhile the plan is made anew: nothing is started on an old sum."""
    async with world(engine("a", need=50), engine("b", need=50), engine("c", need=65)) as it:
        await it.up("a", "b")
        await it.clock.advance(100)
        it.driver.stop_s[A] = it.driver.stop_s[B] = 2
        caller = it.wanted("c")
        await it.clock.advance(1)
        it.machine.others = 3 * GIB // 2
        await it.clock.advance(60)
        await caller
        assert it.driver.up() == {"c"}
        assert sorted(it.driver.stopped) == ["a", "b"]


async def test_a_refused_start_has_evicted_nothing() -> None:
    """GATE-1: a start that no eviction can make room for is refused with the sum, and evicts nothing."""
    async with world(
        engine("a", need=50),
        engine("keeps", need=50, essential=True),
        engine("c", need=90),
    ) as it:
        await it.up("a", "keeps")
        await it.clock.advance(100)
        with pytest.raises(MemoryNow) as told:
            await it.wanted("c")
        assert told.value.arithmetic == (
            "needs 90.0 GiB + 8.0 reserve; available 24.0; stops give back 50.0;"
            " a holds 50.0, keeps holds 50.0 of 124.0"
        )
        assert it.driver.up() == {"a", "keeps"}


async def test_an_external_engine_never_makes_room() -> None:
    """ENG-2: an external engine is never stopped, also when its memory is what a start lacks."""
    async with world(engine("ext", driver=DriverKind.EXTERNAL, need=100), engine("b", need=50)) as it:
        it.machine.others = 100 * GIB
        lane = it.lane("ext")
        await it.driver.start(lane.launch)
        await it.ticks(2)
        lane.status = type(lane.status)(engine=lane.engine.id, state=State.READY)
        lane.ready_at = 0.0
        with pytest.raises(MemoryNow):
            await it.wanted("b")
        assert lane.ready
        assert it.events.of("evicted") == []


async def test_residency_waits_like_any_other_behind_a_busy_sibling() -> None:
    """EVICT-2: a timer's start drains a busy sibling no harder than a request's, and cuts nothing."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await it.clock.advance(2)
        entry = it.enter("a")
        caller = it.wanted("b", Cause.IDLE_REVERT)
        await it.clock.advance(30)
        it.leave(entry)
        await it.clock.advance(1)
        await caller
        assert it.cuts == []


async def test_a_failed_sibling_that_is_gone_is_in_nobodys_way() -> None:
    """EVICT-2: a sibling that failed and left nothing behind keeps no start waiting."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        it.driver.ids[A] = "other"
        first = it.wanted("a")
        await it.clock.advance(3)
        await asyncio.gather(first, return_exceptions=True)
        assert it.state("a") is State.FAILED
        await it.wanted("b")
        await settle()
        assert it.driver.up() == {"b"}
