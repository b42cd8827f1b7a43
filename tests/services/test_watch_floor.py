import pytest

from hostler.domain.engine import State
from hostler.domain.values import Cause, EngineId, Priority
from tests.fakes.host import GIB
from tests.fakes.world import engine, join, world

A, B = EngineId("a"), EngineId("b")


async def test_a_floor_that_is_undercut_is_one_notice() -> None:
    """MEM-7: under the floor for 10 s is one high notice with who grew; a shorter dip is none."""
    async with world(engine("a"), engine("b")) as it:
        await it.up("a", "b")
        await it.ticks(5)
        it.driver.running[A].rss += 30 * GIB
        it.machine.others = 102 * GIB
        await it.ticks(9)
        it.machine.others = 0
        await it.ticks(2)
        assert it.events.of("memory_floor") == []
        it.machine.others = 102 * GIB
        await it.ticks(300)
        assert [event.message for event in it.events.of("memory_floor")] == [
            "crow has 2.0 GiB left, under its floor of 4.0 GiB: a grew by 30.0 GiB"
        ]
        assert it.events.last("memory_floor").priority is Priority.HIGH
        assert it.driver.stopped == []


async def test_engines_go_in_the_order_of_on_floor() -> None:
    """MEM-7: under the floor the engines of `on_floor` go in that order, one each 10 s, no other."""
    async with world(engine("a"), engine("b"), engine("c"), on_floor=("b", "a")) as it:
        await it.up("a", "b", "c")
        it.machine.sizes.clear()
        it.lane("a").taken = it.lane("b").taken = {}
        it.machine.others = 122 * GIB
        await it.ticks(12)
        assert it.driver.stopped == ["b"]
        await it.ticks(12)
        assert it.driver.stopped == ["b", "a"]
        await it.ticks(50)
        assert it.driver.up() == {"c"}
        assert len({event.once for event in it.events.of("memory_floor")}) == 1


async def test_the_floor_stops_nothing_where_nothing_is_ours_to_stop() -> None:
    """GATE-4: with orchestration off the floor is told, and no engine is stopped for it."""
    async with world(engine("a"), on_floor=("a",)) as base:
        await base.up("a")
        it = join(base.fleet, base.clock, base.driver, base.machine, base.hold, base.files, disabled="off")
        await it.engines.adopt(it.lane("a"))
        it.machine.others = 112 * GIB
        await it.ticks(30)
        assert len(it.events.of("memory_floor")) == 1
        assert it.driver.stopped == []


async def test_an_engine_that_loads_goes_too() -> None:
    """MEM-7: an engine of `on_floor` that is still loading has its start called off."""
    async with world(engine("a", need=None), on_floor=("a",)) as it:
        it.driver.load_s[A] = 100
        it.machine.others = 121 * GIB
        caller = it.wanted("a")
        await it.ticks(15)
        assert caller.done()
        assert (it.state("a"), it.driver.up(), it.bugs) == (State.STOPPED, set(), [])


async def test_a_slow_stop_does_not_hold_the_loop_up() -> None:
    """MEM-7: while an engine of `on_floor` takes minutes to stop, holds and residency go on."""
    async with world(engine("a"), engine("b", resident=True), on_floor=("a",)) as it:
        await it.up("a")
        it.driver.stop_s[A] = 300
        it.hold.write(seconds=60)
        it.machine.others = 112 * GIB
        await it.ticks(20)
        assert it.state("a") is State.STOPPING
        it.machine.others = 0
        await it.ticks(45)
        assert it.lane("b").ready


@pytest.mark.parametrize("broken", [True, False])
async def test_memory_that_cannot_be_read_ends_no_duty(broken: bool) -> None:
    """REL-1: while memory cannot be read the other duties go on, and no bug is logged each second."""
    async with world(engine("a")) as it:
        it.machine.broken = broken
        await it.ticks(30)
        assert it.bugs == []
        assert it.watch.vitals.keeper_at == it.clock.elapsed() - 1


async def test_a_bug_in_one_duty_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """REL-1: an exception in one duty is logged, and residency goes on."""
    async with world(engine("a", resident=True)) as it:

        def broken() -> bool:
            raise ZeroDivisionError

        monkeypatch.setattr(type(it.holds), "tick", lambda _: broken())
        await it.ticks(3)
        assert len(it.bugs) == 3
        assert it.lane("a").ready


async def test_a_full_disk_neither_delays_nor_fails_the_gate() -> None:
    """HOLD-15: with a full disk refusals are given as before; they are written down once there is room."""
    async with world(engine("a")) as it:
        it.files.full = True
        it.hold.write()
        for _ in range(3):
            caller = it.wanted("a", Cause.REQUEST)
            await it.clock.advance(0)
            assert caller.done()
        await it.ticks(50)
        assert len(it.bugs) == 1
        it.files.full = False
        await it.ticks(60)
        kept = it.files.load("hold_refusals") or {}
        assert kept["count"] == 3
