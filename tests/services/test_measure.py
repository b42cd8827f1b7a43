import pytest

from hostler.domain.errors import MemoryNow
from hostler.domain.values import EngineId
from tests.fakes.clock import settle
from tests.fakes.host import GIB
from tests.fakes.world import engine, world

A = EngineId("a")


async def test_what_a_start_took_is_kept() -> None:
    """MEM-5: a start's peak and steady part are kept, logged, and recalled by the next daemon."""
    async with world(engine("a", need=10)) as it:
        it.driver.load_s[A] = 10
        caller = it.wanted("a")
        await it.clock.advance(5)
        it.machine.sizes[A] = 30 * GIB
        await it.clock.advance(1)
        it.machine.sizes[A] = 20 * GIB
        await it.clock.advance(5)
        await caller
        assert it.files.load("engines/a/measured") == {
            "peak": {"host": 30 * GIB},
            "steady": {"host": 20 * GIB},
        }
        told = it.events.last("engine_measured")
        assert told.message == "took host 30.0 GiB at its peak"
        assert told.facts["claim"] == {"host": 10 * GIB}
        late = it.again()
        late.measure.recall(late.lane("a"))
        assert (late.lane("a").peak, late.lane("a").taken) == ({"host": 30 * GIB}, {"host": 20 * GIB})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"peak": 3}',
        '{"peak": {"host": "much"}}',
        '{"peak": {"host": -1}}',
        '{"peak": {"host": true}}',
    ],
)
async def test_a_broken_record_counts_as_never_measured(text: str) -> None:
    """MEM-5: a measure that cannot be read counts as none."""
    async with world(engine("a")) as it:
        it.files.texts["engines/a/measured"] = text
        it.measure.recall(it.lane("a"))
        assert it.lane("a").peak == {}


async def test_what_the_processes_hold_counts_where_it_is_more() -> None:
    """MEM-5: the host's part is at least what the engine's processes hold, whatever else gave back."""
    async with world(engine("a", need=10)) as it:
        it.driver.sizes[A] = 12 * GIB
        await it.up("a")
        assert it.lane("a").taken == {"host": 12 * GIB}


async def test_a_failed_start_forgets_no_measure() -> None:
    """MEM-2: a start that fails measures nothing: what an earlier one took is still the need."""
    async with world(engine("a", need=None)) as it:
        it.lane("a").peak = {"host": 40 * GIB}
        it.driver.load_s[A] = 20
        caller = it.wanted("a")
        await it.clock.advance(1)
        assert it.gate.need(it.lane("a")) == {"host": 40 * GIB}
        it.machine.others = 123 * GIB
        await it.clock.advance(0.3)
        assert it.driver.up() == set()
        await it.clock.advance(31)
        with pytest.raises(MemoryNow):
            await caller
        assert it.lane("a").peak == {"host": 40 * GIB}
        assert not it.lane("a").unmeasured
        assert (it.measure.baselines, it.measure.peaks) == ({}, {})


async def test_a_pool_that_was_under_its_floor_is_not_this_starts_doing() -> None:
    """MEM-3: a start is not ended for a floor that was undercut before it."""
    async with world(engine("a", need=None)) as it:
        it.machine.others = 122 * GIB
        it.machine.sizes[A] = GIB
        await it.up("a")
        assert it.lane("a").ready


async def test_a_full_disk_costs_the_record_only() -> None:
    """MEM-5: with a full disk a start succeeds, its measure counts, and the event says it was not kept."""
    async with world(engine("a")) as it:
        it.files.full = True
        await it.up("a")
        await settle()
        assert it.lane("a").peak == {"host": 10 * GIB}
        assert it.events.last("engine_measured").message.endswith(
            "; that was not written down: No space left on device"
        )
