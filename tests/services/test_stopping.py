import asyncio

import pytest

from hostler.domain.engine import State, StopReport
from hostler.domain.errors import (
    Draining,
    MemoryResidue,
    NotLaunchable,
    OrchestrationDisabled,
    StopUnverified,
)
from hostler.domain.fleet import DriverKind
from hostler.domain.values import EngineId
from tests.fakes.clock import settle
from tests.fakes.host import GIB
from tests.fakes.world import BOT, engine, join, world

A, B = EngineId("a"), EngineId("b")
URL = "close http://127.0.0.1:8100"


async def test_the_order_of_a_stop() -> None:
    """ENG-6: streams end with an error frame, then our connections close, and only then is it signalled."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.enter("a")
        it.driver.journal.clear()
        await it.engines.stop("a", BOT, now=True)
        assert it.driver.journal == ["cut a", URL, "signal a now", "gone a"]
        assert isinstance(it.cuts[0][1], Draining)
        assert it.state("a") is State.STOPPED


async def test_a_stream_that_will_not_end_delays_the_signal_by_two_seconds() -> None:
    """ENG-6: a stream that does not end when it is cut gets 2 s; then the connections close all the same."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.cut_ends = False
        it.enter("a")
        it.driver.journal.clear()
        stop = asyncio.ensure_future(it.engines.stop("a", BOT, now=True))
        await it.clock.advance(1.9)
        assert it.driver.journal == ["cut a"]
        await it.clock.advance(0.2)
        await stop
        assert it.driver.journal[1:] == [URL, "signal a now", "gone a"]


async def test_a_stop_drains_first() -> None:
    """GW-8: a stop lets what is under way finish, up to its deadline, and takes nothing new."""
    async with world(engine("a")) as it:
        await it.up("a")
        first, second = it.enter("a"), it.enter("a")
        stop = asyncio.ensure_future(it.engines.stop("a", BOT, timeout_s=30))
        await it.clock.advance(10)
        it.leave(first)
        with pytest.raises(Draining):
            it.enter("a")
        await it.clock.advance(10)
        assert it.driver.stopped == []
        it.leave(second)
        await it.clock.advance(0)
        await stop
        assert it.cuts == []


async def test_a_stops_deadline_ends_what_is_left() -> None:
    """GW-8: at the deadline of a stop, requests that are left end with an error frame."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.enter("a")
        stop = asyncio.ensure_future(it.engines.stop("a", BOT, timeout_s=30))
        await it.clock.advance(30)
        await stop
        assert [name for name, _ in it.cuts] == ["a"]


async def test_a_stop_that_cannot_be_verified_keeps_the_run() -> None:
    """ENG-6: an engine that survives every signal is failed, its run stays recorded; a stop can try again."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.driver.deaf.add(A)
        with pytest.raises(StopUnverified, match="SIGTERM SIGTERM SIGKILL: 1002"):
            await it.engines.stop("a", BOT)
        assert it.state("a") is State.FAILED
        run = it.lane("a").run
        assert run is not None
        assert run.pid == 1002
        it.driver.deaf.clear()
        await it.engines.stop("a", BOT)
        assert (it.state("a"), it.lane("a").run) == (State.STOPPED, None)


async def test_a_port_that_stays_open_is_no_verified_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """ENG-6: a stop after which the port is still open is unverified, and says which port."""
    async with world(engine("a")) as it:
        await it.up("a")

        async def stop(*_: object, **__: object) -> StopReport:
            return StopReport(gone=True, port_free=False, signals=("SIGTERM",), seconds=1.0)

        monkeypatch.setattr(type(it.driver), "stop", stop)
        with pytest.raises(StopUnverified, match="port 8100 is still open"):
            await it.engines.stop("a", BOT)


async def test_a_stop_that_breaks_leaves_no_engine_stopping() -> None:
    """ENG-6: when the stop itself breaks, the engine is failed with its run, not stopping for ever."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.driver.broken_stop = OSError(24, "Too many open files")
        with pytest.raises(OSError, match="Too many open files"):
            await it.engines.stop("a", BOT)
        assert it.state("a") is State.FAILED
        it.driver.broken_stop = None
        await it.engines.stop("a", BOT)
        assert it.driver.up() == set()


async def test_two_stops_are_one() -> None:
    """ENG-6: two who stop an engine at once join one stop."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.driver.stop_s[A] = 5
        both = [asyncio.ensure_future(it.engines.stop("a", BOT)) for _ in range(2)]
        await it.clock.advance(6)
        await asyncio.gather(*both)
        assert it.driver.stopped == ["a"]


async def test_now_hurries_a_stop_that_is_under_way() -> None:
    """GW-8: `--now` during a slow stop does not wait for its time-out."""
    async with world(engine("a", stop_timeout_s=300.0)) as it:
        await it.up("a")
        it.driver.stop_s[A] = 300
        slow = asyncio.ensure_future(it.engines.stop("a", BOT))
        await it.clock.advance(5)
        begun = it.clock.elapsed()
        await it.engines.stop("a", BOT, now=True)
        await slow
        assert (it.state("a"), it.clock.elapsed()) == (State.STOPPED, begun)


async def test_a_stop_goes_on_when_its_caller_leaves() -> None:
    """GW-8: a stop whose caller leaves during the drain is done all the same; half a stop is none."""
    async with world(engine("a")) as it:
        await it.up("a")
        entry = it.enter("a")
        stop = asyncio.ensure_future(it.engines.stop("a", BOT))
        await it.clock.advance(5)
        stop.cancel()
        await settle()
        it.leave(entry)
        await it.clock.advance(1)
        assert it.state("a") is State.STOPPED


async def test_a_stop_of_what_is_stopped_is_a_success() -> None:
    """ENG-1: a stop of an engine that is stopped, or failed and gone, signals nobody and succeeds."""
    async with world(engine("a")) as it:
        await it.engines.stop("a", BOT)
        assert it.driver.journal == []


async def test_memory_is_waited_for_against_what_was_there_before() -> None:
    """MEM-4: a stop ends when the memory is back, and not before; residue is told after 30 s."""
    async with world(engine("a", need=80)) as it:
        await it.up("a")
        it.machine.sizes[A] = 0
        it.machine.pinned = 80 * GIB
        stop = asyncio.ensure_future(it.engines.stop("a", BOT))
        await it.clock.advance(10)
        assert (it.state("a"), stop.done()) == (State.STOPPED, False)
        it.machine.pinned = 2 * GIB
        await it.clock.advance(0.25)
        await stop
        assert it.lane("a").residue is None


async def test_residue_is_told() -> None:
    """MEM-4: more than `max_residue` that does not come back in 30 s is `memory_residue`, with how much."""
    async with world(engine("a", need=80)) as it:
        await it.up("a")
        it.machine.sizes[A] = 0
        it.machine.pinned = 3 * GIB
        stop = asyncio.ensure_future(it.engines.stop("a", BOT))
        await it.clock.advance(31)
        with pytest.raises(MemoryResidue, match=r"a is gone, but 3\.0 GiB of its memory did not come back"):
            await stop
        assert it.state("a") is State.STOPPED


async def test_the_memory_of_a_start_that_is_called_off_is_waited_for() -> None:
    """MEM-4: a stop of an engine that loads ends when what it had taken so far is back, and not before."""
    async with world(engine("a", need=80)) as it:
        it.driver.load_s[A] = 60
        it.wanted("a")
        await it.clock.advance(5)
        it.machine.pinned = 80 * GIB
        it.machine.sizes[A] = 0
        stop = asyncio.ensure_future(it.engines.stop("a", BOT))
        await it.clock.advance(10)
        assert (it.state("a"), it.driver.up(), stop.done()) == (State.STOPPED, set(), False)
        it.machine.pinned = 0
        await it.clock.advance(0.25)
        await stop


async def test_memory_that_cannot_be_read_stops_no_stop() -> None:
    """ENG-6: an engine is stopped also while the machine's memory cannot be read."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.machine.broken = True
        stop = asyncio.ensure_future(it.engines.stop("a", BOT))
        await it.clock.advance(40)
        await stop
        assert it.driver.up() == set()


# ---------------------------------------------------------------- draining


async def test_a_drain_by_hand_ends_what_is_left_at_its_deadline() -> None:
    """GW-8: a drain lets requests finish, ends the rest at its deadline, and stays until it is resumed."""
    async with world(engine("a")) as it:
        await it.up("a")
        first, _ = it.enter("a"), it.enter("a")
        drain = asyncio.ensure_future(it.engines.drain("a", BOT, timeout_s=20))
        await it.clock.advance(10)
        it.leave(first)
        await it.clock.advance(10)
        assert await drain == 1
        assert str(it.cuts[0][1]) == "a is draining: its drain of 20 s is over."
        assert it.state("a") is State.DRAINING
        await it.engines.resume("a", BOT)
        assert it.lane("a").ready


async def test_a_stop_ends_a_drain() -> None:
    """GW-8: an engine that was drained by hand and then stopped starts and serves like any other."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.engines.drain("a", BOT)
        await it.engines.stop("a", BOT)
        await it.wanted("a")
        it.leave(it.enter("a"))


async def test_a_resume_calls_a_drain_off() -> None:
    """GW-8: a drain that is resumed before its deadline ends no request at that deadline."""
    async with world(engine("a")) as it:
        await it.up("a")
        entry = it.enter("a")
        drain = asyncio.ensure_future(it.engines.drain("a", BOT, timeout_s=20))
        await it.clock.advance(5)
        await it.engines.resume("a", BOT)
        await settle()
        assert drain.done()
        await it.clock.advance(30)
        assert await drain == 0
        assert it.cuts == []
        it.leave(entry)


async def test_a_resume_does_not_call_a_stop_off() -> None:
    """GW-8: a `resume` during the drain of a stop lets no request in: the stop was asked for."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.enter("a")
        stop = asyncio.ensure_future(it.engines.stop("a", BOT, timeout_s=20))
        await it.clock.advance(5)
        await it.engines.resume("a", BOT)
        assert it.state("a") is State.DRAINING
        await it.clock.advance(20)
        await stop
        assert it.state("a") is State.STOPPED


async def test_a_stop_during_a_drain() -> None:
    """ENG-6: a stop with `--now` during a drain ends the requests at once and stops."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.enter("a")
        drain = asyncio.ensure_future(it.engines.drain("a", BOT, timeout_s=50))
        await it.clock.advance(5)
        await it.engines.stop("a", BOT, now=True)
        await settle()
        assert await drain == 0
        assert it.state("a") is State.STOPPED


@pytest.mark.parametrize("wish", ["stop", "drain", "suspend", "resume"])
async def test_what_is_not_ours_is_not_touched(wish: str) -> None:
    """GATE-4: with orchestration off, and for external engines, nothing is stopped, drained or suspended."""
    async with world(engine("a"), engine("ext", driver=DriverKind.EXTERNAL)) as it:
        await it.up("a")
        with pytest.raises(NotLaunchable):
            await getattr(it.engines, wish)("ext", BOT)
        off = join(
            it.fleet,
            it.clock,
            it.driver,
            it.machine,
            it.hold,
            it.files,
            disabled="HOSTLER_DISABLE_ORCHESTRATION=1",
        )
        await off.engines.adopt(off.lane("a"))
        with pytest.raises(OrchestrationDisabled, match="HOSTLER_DISABLE_ORCHESTRATION=1"):
            await getattr(off.engines, wish)("a", BOT)
        assert off.lane("a").ready
        assert it.driver.stopped == []
