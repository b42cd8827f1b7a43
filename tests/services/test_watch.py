import asyncio

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import EngineFailed
from hostler.domain.fleet import DriverKind
from hostler.domain.values import Cause, EngineId, Priority
from tests.fakes.host import GIB
from tests.fakes.world import BOT, World, engine, group, join, world

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


# ---------------------------------------------------------------- probes


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


# ---------------------------------------------------------------- memory


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
