import asyncio

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import Draining
from tests.fakes.clock import settle
from tests.fakes.world import engine, world


async def test_only_a_ready_engine_is_entered() -> None:
    """ENG-1: a request enters a ready engine only; in every other state it is refused `draining`."""
    async with world(engine("a")) as it:
        lane = it.lane("a")
        for state in State:
            lane.status = type(lane.status)(engine=lane.engine.id, state=state)
            if state is State.READY:
                it.leave(it.enter("a"))
                continue
            with pytest.raises(Draining, match=f"it is {state}"):
                it.enter("a")
        assert lane.requests == set()


async def test_idle_begins_at_the_last_byte() -> None:
    """ENG-9: an engine is idle since the last byte of its last answer."""
    async with world(engine("a")) as it:
        await it.up("a")
        first, second = it.enter("a"), it.enter("a")
        await it.clock.advance(10)
        it.leave(first)
        await it.clock.advance(10)
        it.leave(second)
        assert it.lane("a").used == it.clock.elapsed()
        assert first.engine == "a"


async def test_a_wait_ends_when_it_is_so_or_when_time_is_up() -> None:
    """ENG-3: a wait for an engine ends at its deadline, at once when it is so already, and leaves no task."""
    async with world(engine("a")) as it:
        lane = it.lane("a")
        before = len(asyncio.all_tasks())
        assert await it.lanes.until(lane, 0.0, lambda _: True)
        late = asyncio.ensure_future(it.lanes.until(lane, it.clock.elapsed() + 5, lambda its: its.ready))
        good = asyncio.ensure_future(it.lanes.until(lane, float("inf"), lambda its: its.ready))
        await it.clock.advance(5)
        await it.up("a")
        await settle()
        assert (await late, await good) == (False, True)
        assert len(asyncio.all_tasks()) == before


async def test_every_change_is_an_event() -> None:
    """ENG-1: each change of an engine's state is one event, with before, after, engine and host."""
    async with world(engine("a")) as it:
        await it.up("a")
        told = [event for event in it.events.all if event.before is not None]
        assert [(event.type, event.before, event.after) for event in told] == [
            ("engine_starting", State.STOPPED, State.STARTING),
            ("engine_ready", State.STARTING, State.READY),
        ]
        assert told[0].subject == {"engine": "a", "host": "crow"}
