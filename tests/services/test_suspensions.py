import asyncio

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import StoreFull, Suspended
from hostler.domain.values import Cause, EngineId
from tests.fakes.clock import settle
from tests.fakes.world import BOT, engine, world


async def test_a_suspension_survives_a_restart_and_blocks_every_cause() -> None:
    """NODE-5: a suspended engine stays stopped, whoever asks, after a restart too, until it is resumed."""
    async with world(engine("a", resident=True)) as it:
        await it.up("a")
        await it.engines.suspend("a", BOT)
        assert it.driver.up() == set()
        for world_ in (it, it.again()):
            await world_.engines.adopt(world_.lane("a"))
            for cause in Cause:
                with pytest.raises(Suspended, match="a is suspended by bot"):
                    await world_.wanted("a", cause)
            await world_.ticks(3)
        await world_.engines.resume("a", BOT)
        await world_.up("a")
        assert it.files.load("engines/a/suspended") == {"owners": []}


@pytest.mark.parametrize("text", ["", "[]", '{"owners": "bot"}', '{"owners": [1]}', '{"owner": []}'])
async def test_an_unreadable_suspension_counts(text: str) -> None:
    """NODE-5: a suspension that cannot be read counts as one by `unknown`; a resume removes it."""
    async with world(engine("a")) as it:
        it.files.texts["engines/a/suspended"] = text
        await it.engines.adopt(it.lane("a"))
        with pytest.raises(Suspended, match="suspended by unknown"):
            await it.wanted("a")
        await it.engines.resume("a", BOT)
        await it.up("a")


async def test_a_suspend_during_a_start() -> None:
    """NODE-5: a suspension during a start calls it off, and nothing of it stays."""
    async with world(engine("a")) as it:
        it.driver.load_s[EngineId("a")] = 20
        it.wanted("a")
        await it.clock.advance(3)
        await it.engines.suspend("a", BOT)
        assert (it.state("a"), it.driver.up()) == (State.STOPPED, set())
        assert it.lane("a").suspended_by == ("person:bot",)


async def test_a_suspension_is_recorded_before_anything_stops() -> None:
    """NODE-5: with a full disk a suspension is refused `store_full`, and the engine serves on."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.files.full = True
        with pytest.raises(StoreFull, match=r"suspended\.json was not written: No space left on device"):
            await it.engines.suspend("a", BOT)
        assert it.lane("a").ready
        assert it.lane("a").suspended_by == ()


async def test_two_suspensions_at_once_are_both_recorded() -> None:
    """NODE-5: two who suspend an engine at once are both its owners; a person's resume takes both away."""
    async with world(engine("a")) as it:
        other = type(BOT)(client="ops")
        await asyncio.gather(it.engines.suspend("a", BOT), it.engines.suspend("a", other))
        assert it.files.load("engines/a/suspended") == {"owners": ["person:bot", "person:ops"]}
        await it.engines.resume("a", other)
        assert it.lane("a").suspended_by == ()
        assert it.events.last("engine_resumed").actor == "person:ops"
        assert len(it.events.of("engine_suspended")) == 2


async def test_a_suspension_whose_caller_leaves_is_recorded_in_memory_as_on_disk() -> None:
    """NODE-5: a caller that goes while the record is written leaves no file that says another thing."""
    async with world(engine("a")) as it:
        change = asyncio.create_task(it.engines.suspensions.add(it.lane("a"), "person:bot"))
        await asyncio.sleep(0)
        change.cancel()
        with pytest.raises(asyncio.CancelledError):
            await change
        await settle()
        assert it.files.load("engines/a/suspended") == {"owners": ["person:bot"]}
        assert it.lane("a").suspended_by == ("person:bot",)


async def test_a_suspension_cut_short_by_a_crash_is_finished() -> None:
    """NODE-5: an engine that still runs though it was suspended is stopped by the daemon that finds it."""
    async with world(engine("a")) as it:
        await it.up("a")
        await it.engines.suspensions.add(it.lane("a"), "person:bot")
        late = it.again()
        await late.engines.adopt(late.lane("a"))
        assert (late.state("a"), it.driver.up()) == (State.STOPPED, set())
