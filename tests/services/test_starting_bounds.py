import pytest

from hostler.domain.engine import State
from hostler.domain.errors import (
    EngineFailed,
    MemoryNow,
)
from hostler.domain.values import EngineId
from tests.fakes.host import GIB
from tests.fakes.world import engine, world

A = EngineId("a")


async def test_the_sentence_of_a_start_that_took_too_long() -> None:
    """ENG-5: a start past its budget says how long it waited, on what URL, and the last answer (BG-09)."""
    async with world(engine("a", files=("m.gguf",))) as it:
        it.machine.files["m.gguf"] = 5_000_000_000
        it.driver.load_s[A] = 10_000
        caller = it.wanted("a")
        assert it.starting.budget_s(it.lane("a")) == 120 + 5_000 * 0.008
        await it.clock.advance(41)
        assert it.starting.progress(it.lane("a")) == "loading 41 s of 160 s, place 1"
        await it.clock.advance(600)
        with pytest.raises(
            EngineFailed, match=r"not ready after 2 min 40 s; GET http://127\.0\.0\.1:8100/health: 503"
        ):
            await caller


async def test_a_slow_start_that_failed_succeeds_later() -> None:
    """ENG-3: an engine that needed longer than its limit is served by a later request (BG-09)."""
    async with world(engine("a", start_timeout_s=15.0)) as it:
        it.driver.load_s[A] = 20
        first = it.wanted("a")
        await it.clock.advance(60)
        with pytest.raises(EngineFailed):
            await first
        it.driver.load_s[A] = 10
        it.driver.loading.clear()
        await it.clock.advance(30)
        second = it.wanted("a")
        await it.clock.advance(11)
        await second
        assert it.lane("a").ready


async def test_the_floor_ends_that_start_only() -> None:
    """MEM-3: a start that pushes memory under the floor is ended within 250 ms, alone, and it says so."""
    async with world(engine("a"), engine("b")) as it:
        await it.up("b")
        it.driver.load_s[A] = 30
        it.driver.slow_probe = 2.5
        caller = it.wanted("a")
        await it.clock.advance(1)
        it.machine.sizes[A] = 111 * GIB
        await it.clock.advance(0.25)
        with pytest.raises(
            MemoryNow, match=r"its start left 3\.0 GiB of host, under the floor of 4\.0"
        ) as told:
            await caller
        assert told.value.retry_after == 60
        assert it.driver.up() == {"b"}
        assert it.lane("b").ready


async def test_a_bug_in_a_start_leaves_no_engine_behind() -> None:
    """ENG-3: a start that ends by an error of ours is cleaned up and failed, never left starting."""
    async with world(engine("a")) as it:
        it.driver.load_s[A] = 30
        caller = it.wanted("a")
        await it.clock.advance(1)
        it.driver.running[A].model_ids = None  # type: ignore[assignment]  # breaks the next look
        it.driver.running[A].health = "ok"
        await it.clock.advance(1)
        with pytest.raises(TypeError):
            await caller
        assert (it.state("a"), it.driver.up()) == (State.FAILED, set())
        assert it.lane("a").status.why == "an internal error ended its start"


async def test_memory_that_cannot_be_read_wedges_no_start() -> None:
    """MEM-1: while memory cannot be read, a start whose need is known is refused; it is not left starting."""
    async with world(engine("a"), engine("new", need=None)) as it:
        it.machine.broken = True
        with pytest.raises(MemoryNow, match="host cannot be read now"):
            await it.wanted("a")
        await it.up("new")
        assert it.state("a") is State.STOPPED
        assert it.lane("new").ready
