import asyncio

import pytest

from hostler.domain.engine import State
from hostler.domain.values import EngineId, Priority
from tests.fakes.host import GIB
from tests.fakes.world import BOT, World, engine, group, world

A, B = EngineId("a"), EngineId("b")


async def until_ready(it: World, name: str, most: float = 20.0) -> None:
    """Tick until that engine is ready."""
    while not it.lane(name).ready:
        assert most > 0, f"{name} is {it.state(name)}"
        await it.ticks(1)
        most -= 1


# ---------------------------------------------------------------- residency


async def test_residents_come_up_in_their_order() -> None:
    """ENG-10: residents come up at boot, in `order`, one after the other."""
    async with world(
        engine("late", resident=True, order=30),
        engine("b", resident=True, order=2),
        engine("a", resident=True, order=1),
        engine("not"),
    ) as it:
        it.driver.load_s.update({EngineId(name): 5.0 for name in ("late", "a", "b")})
        await it.ticks(30)
        assert it.driver.started == ["a", "b", "late"]


async def test_one_resident_that_fails_does_not_stop_the_others() -> None:
    """ENG-10: a resident that fails does not keep the others down, and is tried again after 120 s."""
    async with world(engine("a", resident=True, order=1), engine("b", resident=True)) as it:
        it.driver.ids[A] = "other"
        await it.ticks(10)
        assert (it.state("a"), it.lane("b").ready) == (State.FAILED, True)
        del it.driver.ids[A]
        await it.ticks(110)
        assert it.state("a") is State.FAILED
        await it.ticks(16)
        assert it.lane("a").ready


async def test_a_resident_that_memory_refuses_is_deferred_not_dropped() -> None:
    """ENG-10: a resident that does not fit is tried again every 120 s, and its deferral is told once."""
    async with world(engine("a", resident=True)) as it:
        it.machine.others = 120 * GIB
        await it.ticks(300)
        assert [event.after for event in it.events.of("deferred")] == ["memory_now"]
        it.machine.others = 0
        await it.ticks(121)
        assert it.lane("a").ready


async def test_a_resident_that_is_down_is_told_once_per_outage() -> None:
    """ENG-10: a resident that is not ready for 10 min is one high notice, and one more at the next."""
    async with world(engine("a", resident=True)) as it:
        it.machine.others = 120 * GIB
        await it.ticks(599)
        assert it.events.of("resident_down") == []
        await it.ticks(700)
        assert [event.priority for event in it.events.of("resident_down")] == [Priority.HIGH]
        it.machine.others = 0
        await until_ready(it, "a", 130)
        await it.ticks(1)
        await it.engines.stop("a", BOT)
        it.machine.others = 120 * GIB
        await it.ticks(700)
        assert len({event.once for event in it.events.of("resident_down")}) == 2


async def test_a_suspended_resident_is_skipped() -> None:
    """ENG-10: residency does not ask for a suspended engine, and no notice calls it down."""
    async with world(engine("a", resident=True)) as it:
        await it.engines.suspend("a", BOT)
        await it.ticks(700)
        assert it.events.of("deferred") + it.events.of("resident_down") == []


async def test_residency_resumes_at_the_first_tick_after_a_release() -> None:
    """HOLD-15: what a hold deferred is started at the first tick after its release, not 120 s later."""
    async with world(engine("a", resident=True)) as it:
        it.hold.write()
        await it.ticks(50)
        it.hold.remove()
        await it.ticks(1)
        assert it.lane("a").ready


async def test_residency_resumes_within_two_seconds_of_an_expiry() -> None:
    """HOLD-12: what a hold deferred is up no later than 2 s after the hold's expiry."""
    async with world(engine("a", resident=True)) as it:
        it.hold.write(seconds=100.5)
        watching = asyncio.ensure_future(it.watch.run())
        await it.clock.advance(100.4)
        assert it.driver.started == []
        await it.clock.advance(2.0)
        assert it.lane("a").ready
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert it.watch.errands.tasks == set()


async def test_a_resident_that_the_hold_allows_starts() -> None:
    """HOLD-5: a resident that the hold allows, or an essential one, comes up while the host is held."""
    async with world(
        engine("a", resident=True), engine("b", resident=True), engine("embed", resident=True, essential=True)
    ) as it:
        it.hold.write(allow=["b"])
        await it.ticks(5)
        assert it.driver.up() == {"b", "embed"}


async def test_a_deferral_is_told_again_after_a_hold() -> None:
    """HOLD-15: what deferred a resident before a hold, and defers it after, is told again after it."""
    async with world(engine("a", resident=True)) as it:
        it.machine.others = 120 * GIB
        await it.ticks(5)
        it.hold.write()
        await it.ticks(130)
        it.hold.remove()
        await it.ticks(5)
        told = [event.after for event in it.events.of("deferred")]
        assert told == ["memory_now", "box_reserved", "memory_now"]


# ---------------------------------------------------------------- idle


async def test_an_idle_engine_is_unloaded() -> None:
    """ENG-10: an engine with a `ttl` is unloaded that long after its last byte, and not while it is used."""
    async with world(engine("a", ttl_s=30.0)) as it:
        await it.wanted("a")
        entry = it.enter("a")
        await it.ticks(60)
        assert it.lane("a").ready
        it.leave(entry)
        await it.ticks(30)
        assert it.lane("a").ready
        await it.ticks(2)
        assert it.state("a") is State.STOPPED


async def test_nothing_is_unloaded_while_held() -> None:
    """ENG-10: while the host is held nothing idle is unloaded, since it could not come back."""
    async with world(engine("a", ttl_s=30.0)) as it:
        await it.wanted("a")
        it.hold.write()
        await it.ticks(100)
        assert it.lane("a").ready


@pytest.mark.parametrize("offset_ms", range(-50, 1250, 50))
async def test_an_unload_that_races_with_a_request(offset_ms: int) -> None:
    """ENG-3: a request around the moment of an idle unload is served, by one process, within 5 s (BG-05)."""
    engines = (engine("m", group="swap", ttl_s=2.0), engine("n", group="swap"))
    async with world(*engines, groups=[group("swap")]) as it:
        it.driver.stop_s[EngineId("m")] = 1.0
        watching = asyncio.ensure_future(it.watch.run())
        await it.clock.advance(0.3)
        first = asyncio.ensure_future(it.serve("m", 0.2))
        while not it.driver.stopped and it.state("m") is not State.STOPPING:
            await it.clock.advance(0.05)
            assert it.clock.elapsed() < 1010
            at = it.clock.elapsed()
            if first.done() and offset_ms < 0 and at >= it.lane("m").used + 2.0 + offset_ms / 1000:
                break
        await it.clock.advance(max(0, offset_ms) / 1000)
        second = asyncio.ensure_future(it.serve("m", 0.1))
        await it.clock.advance(5)
        assert await second <= 5
        for name in ("m", "n", "m"):
            again = asyncio.ensure_future(it.serve(name, 0.1))
            await it.clock.advance(10)
            assert await again <= 5
        assert (it.driver.most, it.cuts, it.bugs) == (1, [], [])
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_no_request_slips_into_an_unload() -> None:
    """ENG-6: between the look that finds an engine idle and its stop no request can enter it (BG-05)."""
    async with world(engine("a", ttl_s=5.0)) as it:
        await it.wanted("a")
        await it.clock.advance(6)
        it.watch.tick()
        entry = it.enter("a")
        await it.clock.advance(1)
        assert (it.cuts, it.lane("a").ready) == ([], True)
        it.leave(entry)
        await it.clock.advance(6)
        it.watch.tick()
        for _ in range(30):
            await asyncio.sleep(0)
            if it.lane("a").ready:
                it.enter("a")
        assert it.cuts == []


async def test_the_groups_default_comes_back() -> None:
    """ENG-10: after 20 min without use of another member the group's default comes back."""
    async with world(
        engine("a", group="big"), engine("b", group="big"), groups=[group(idle_revert="a")]
    ) as it:
        await it.up("b")
        await it.ticks(1100)
        assert it.driver.up() == {"b"}
        await it.ticks(110)
        assert it.driver.up() == {"a"}


@pytest.mark.parametrize(("allow", "up"), [([], "b"), (["a"], "a")])
async def test_the_default_reverts_by_the_holds_leave(allow: list[str], up: str) -> None:
    """ENG-10: while held a default reverts only if the hold allows it; the other stays untouched if not."""
    async with world(
        engine("a", group="big"), engine("b", group="big"), groups=[group(idle_revert="a")]
    ) as it:
        await it.up("b")
        it.hold.write(seconds=9000, allow=allow)
        await it.ticks(1300)
        assert it.driver.up() == {up}


@pytest.mark.parametrize("seen", [[5.0, 6.0, 7.0, 8.0, 9.0, 10.0], [float("inf")] * 6])
async def test_direct_traffic_counts_as_use(seen: list[float]) -> None:
    """ENG-9: an engine whose own counters move, or which says that it is busy, is not idle."""
    async with world(engine("a", ttl_s=30.0)) as it:
        await it.wanted("a")
        for number in seen:
            it.machine.counters[A] = number
            await it.ticks(10)
        assert it.lane("a").ready
        it.machine.counters[A] = 10.0
        await it.ticks(50)
        assert it.state("a") is State.STOPPED


async def test_counters_are_read_only_where_idleness_matters() -> None:
    """ENG-9: only an engine whose idleness matters to somebody is asked for its counters, every 10 s."""
    async with world(engine("a"), engine("b", ttl_s=100.0)) as it:
        await it.up("a")
        await it.wanted("b")
        await it.ticks(31)
        assert it.machine.asked == [B] * 4
