import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import CursorReset, InvalidRequest, ScheduleUnavailable
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import frozen
from hostler.domain.values import rfc3339
from hostler.services.event_queue import EventQueue
from hostler.services.feed import PAGE, Feed
from hostler.services.picture import Picture
from tests.fakes.clock import ManualClock, settle
from tests.fakes.ids import CountingIds

ENGINES = ("embed", "fast-4b", "large-14b")


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """As much of a picture as the feed looks at."""

    at: str
    host: Mapping[str, str]
    hold: None
    engines: Mapping[str, str]
    routes: Sequence[str]


class SlowStore:
    """A store in memory whose writes take some turns of the loop: others act meanwhile."""

    def __init__(self, turns: int) -> None:
        self.inner = MemoryStore(CountingIds())
        self.turns = turns
        self.epoch = self.inner.epoch
        self.since, self.cursor = self.inner.since, self.inner.cursor
        self.prune, self.close = self.inner.prune, self.inner.close
        self.listen = self.inner.listen

    async def record(self, events: Sequence[Event]) -> Sequence[Recorded]:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return await self.inner.record(events)


@dataclass(eq=False, kw_only=True)
class House:
    """Engines that change their state and tell it, with the feed of that."""

    turns: int = 0

    states: dict[str, str] = field(default_factory=lambda: dict.fromkeys(ENGINES, "stopped"))
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.store = SlowStore(self.turns)
        self.queue = EventQueue(store=self.store, clock=self.clock, ids=CountingIds())
        self.feed = Feed(queue=self.queue, draw=self.draw, clock=self.clock)
        self.task = asyncio.ensure_future(self.queue.run())

    def draw(self) -> Picture:
        drawn = Drawn(
            at=rfc3339(self.clock.now()),
            host={"name": "crow"},
            hold=None,
            engines=dict(self.states),
            routes=(),
        )
        return cast("Picture", drawn)

    def move(self, engine: str, state: str, type_: str = "engine_ready") -> None:
        before, self.states[engine] = self.states[engine], state
        self.queue.emit(
            Event(
                type=type_,
                at=self.clock.now(),
                subject=frozen({"engine": engine}),
                before=before,
                after=state,
            )
        )

    async def end(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


@pytest.fixture
async def house() -> AsyncIterator[House]:
    made = House()
    await settle()
    yield made
    await made.end()


def events(answer: Mapping[str, object]) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", answer["events"])


def folded(states: Mapping[str, str], told: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The states after events, as a reader works them out; each must fit what it comes upon."""
    result = dict(states)
    for each in told:
        assert result[each["subject"]["engine"]] == each["from"]
        result[each["subject"]["engine"]] = each["to"]
    return result


async def test_a_snapshot_has_what_there_is(house: House) -> None:
    """FEED-1: the snapshot has hosts, hold, engines, routes, the time, and the cursor to go on from."""
    house.move("embed", "starting")
    found = await house.feed.snapshot()
    assert found == {
        "cursor": f"{house.store.epoch}:1",
        "time": rfc3339(house.clock.now()),
        "hosts": [{"name": "crow"}],
        "hold": None,
        "engines": {"embed": "starting", "fast-4b": "stopped", "large-14b": "stopped"},
        "routes": [],
    }


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.sampled_from(ENGINES), st.integers(0, 9)), st.just("snapshot"), st.just("settle")
        ),
        max_size=40,
    ),
    turns=st.integers(0, 8),
)
def test_a_snapshot_and_later_events_give_the_later_snapshot(
    steps: list[tuple[str, int] | str], turns: int
) -> None:
    """FEED-3: the events between the cursors of any two snapshots make the later one of the earlier one."""

    async def play() -> None:
        house = House(turns=turns)
        taken: list[asyncio.Future[Mapping[str, object]]] = []
        for step in steps:
            if step == "snapshot":
                taken.append(asyncio.ensure_future(house.feed.snapshot()))
                await asyncio.sleep(0)
            elif step == "settle":
                await settle()
            else:
                house.move(step[0], f"state-{step[1]}")
        await settle()
        taken.append(asyncio.ensure_future(house.feed.snapshot()))
        shots = await asyncio.gather(*taken)
        all_events = events(await house.feed.since(f"{house.store.epoch}:0"))
        for earlier, later in pairwise(shots):
            place, end = (int(str(shot["cursor"]).rpartition(":")[2]) for shot in (earlier, later))
            assert (
                folded(cast("dict[str, str]", earlier["engines"]), all_events[place:end]) == later["engines"]
            )
        await house.end()

    asyncio.run(play())


async def test_later_events_come_once_and_in_order(house: House) -> None:
    """FEED-1, R78: each event comes once, in order, with its place, time, subject, from where, to where."""
    start = (await house.feed.snapshot())["cursor"]
    house.move("embed", "starting", "engine_starting")
    house.move("embed", "ready")
    await settle()
    first = await house.feed.since(str(start))
    assert events(first)[0] == {
        "cursor": f"{house.store.epoch}:1",
        "seq": 1,
        "time": rfc3339(house.clock.now()),
        "type": "engine_starting",
        "actor": "daemon",
        "subject": {"engine": "embed"},
        "from": "stopped",
        "to": "starting",
        "message": "",
        "facts": {},
        "priority": None,
        "once": None,
    }
    assert [each["seq"] for each in events(first)] == [1, 2]
    again = await house.feed.since(str(first["cursor"]))
    assert again == {"events": [], "cursor": first["cursor"], "more": False}


async def test_a_long_log_comes_in_pages(house: House) -> None:
    """FEED-1: a reader far behind gets pages, and is told that there is more."""
    start = str((await house.feed.snapshot())["cursor"])
    for number in range(PAGE + 3):
        house.move("embed", f"{number}")
    await settle()
    first = await house.feed.since(start)
    second = await house.feed.since(str(first["cursor"]), wait_s=25)
    assert (len(events(first)), first["more"]) == (PAGE, True)
    assert (len(events(second)), second["more"]) == (3, False)


async def test_waiting_ends_with_an_event_or_in_time(house: House) -> None:
    """FEED-1: with `wait` the answer comes with the next event, or without any when the time is over."""
    start = str((await house.feed.snapshot())["cursor"])
    asked = asyncio.ensure_future(house.feed.since(start, wait_s=25))
    await house.clock.advance(10)
    assert not asked.done()
    house.move("embed", "ready")
    await settle()
    assert len(events(asked.result())) == 1
    asked = asyncio.ensure_future(house.feed.since(str(asked.result()["cursor"]), wait_s=25))
    await house.clock.advance(24.9)
    assert not asked.done()
    await house.clock.advance(0.1)
    assert events(asked.result()) == []


async def test_a_wait_has_a_bound(house: House) -> None:
    """FEED-1: a wait of an hour ends after a minute."""
    start = str((await house.feed.snapshot())["cursor"])
    asked = asyncio.ensure_future(house.feed.since(start, wait_s=3600))
    await house.clock.advance(60)
    assert asked.done()


async def test_only_the_asked_types_come(house: House) -> None:
    """FEED-1: of the asked types only come events, and wait and cursor go on over the others."""
    start = str((await house.feed.snapshot())["cursor"])
    asked = asyncio.ensure_future(house.feed.since(start, wait_s=25, types=["engine_failed"]))
    house.move("embed", "ready")
    await house.clock.advance(1)
    assert not asked.done()
    house.move("embed", "failed", "engine_failed")
    await settle()
    assert [each["type"] for each in events(asked.result())] == ["engine_failed"]
    house.move("embed", "ready")
    await settle()
    last = await house.feed.since(str(asked.result()["cursor"]), types=["engine_failed"])
    assert last == {"events": [], "cursor": f"{house.store.epoch}:3", "more": False}


async def test_a_type_that_there_is_not_is_told(house: House) -> None:
    """FEED-1: an unknown event type is refused with the nearest one."""
    for call in (house.feed.since("x", types=["engine_redy"]), house.feed.follow(types=["engine_redy"])):
        with pytest.raises(InvalidRequest) as refused:
            await call
        assert refused.value.expected == "Did you mean 'engine_ready'?"


async def test_a_cursor_that_fits_no_more_is_told(house: House) -> None:
    """FEED-2, R79: a foreign or future cursor is refused, before a stream's first byte too."""
    for cursor in ("ep_other:0", f"{house.store.epoch}:1", "nonsense"):
        for call in (house.feed.since(cursor, wait_s=25), house.feed.follow(cursor)):
            with pytest.raises(CursorReset):
                await call


async def test_without_a_store_the_snapshot_is_refused(house: House) -> None:
    """REL-1: while the log cannot be written there is no snapshot that later events would fit."""
    house.store.inner.broken = "the disk is full"
    house.move("embed", "ready")
    asked = asyncio.ensure_future(house.feed.snapshot())
    await house.clock.advance(5)
    with pytest.raises(ScheduleUnavailable, match="the disk is full"):
        await asked


# ---------------------------------------------------------------- as a stream


async def test_a_stream_has_every_event_and_heartbeats(house: House) -> None:
    """FEED-2: a stream sends each event with its cursor, and after 15 s of silence the current one."""
    epoch = house.store.epoch
    stream = await house.feed.follow()
    async with aclosing(cast("Any", stream)):
        assert await anext(stream) == f"id: {epoch}:0\n: heartbeat {epoch}:0\n\n".encode()
        house.move("embed", "ready")
        chunk = await anext(stream)
        head, _, data = chunk.decode().partition("data: ")
        assert head == f"id: {epoch}:1\nevent: engine_ready\n"
        assert data.endswith("\n\n")
        assert json.loads(data)["seq"] == 1
        beat = asyncio.ensure_future(anext(stream))
        await house.clock.advance(14.9)
        assert not beat.done()
        await house.clock.advance(0.1)
        assert beat.result() == f"id: {epoch}:1\n: heartbeat {epoch}:1\n\n".encode()


async def test_a_heartbeat_comes_after_silence_only(house: House) -> None:
    """FEED-2: an event puts the next heartbeat off: it comes 15 s after the last thing that was sent."""
    stream = await house.feed.follow()
    async with aclosing(cast("Any", stream)):
        await anext(stream)
        for number in range(3):
            chunk = asyncio.ensure_future(anext(stream))
            await house.clock.advance(10)
            assert not chunk.done()
            house.move("embed", f"{number}")
            await settle()
            assert "event: engine_" in chunk.result().decode()
        beat = asyncio.ensure_future(anext(stream))
        await house.clock.advance(14.9)
        assert not beat.done()
        await house.clock.advance(0.1)
        assert "heartbeat" in beat.result().decode()
        gone = asyncio.ensure_future(anext(stream))
        await settle()
        gone.cancel()
        await settle()
    assert house.clock.sleepers == 0


async def test_a_stream_goes_on_where_it_broke(house: House) -> None:
    """FEED-2: with the last id of a broken stream the next one has every later event, and none twice."""
    for number in range(PAGE * 2):
        house.move("embed", f"{number}")
    await settle()
    stream = await house.feed.follow(f"{house.store.epoch}:3")
    seen: list[int] = []
    async with aclosing(cast("Any", stream)):
        while len(seen) < PAGE * 2 - 3:
            chunk = (await anext(stream)).decode()
            seen += [int(line.rpartition(":")[2]) for line in chunk.splitlines() if line.startswith("id")][
                "heartbeat" in chunk :
            ]
    assert seen == list(range(4, PAGE * 2 + 1))


async def test_a_filtered_stream_moves_on(house: House) -> None:
    """FEED-2: a stream of one type sends no others, and its heartbeat carries the cursor over them."""
    stream = await house.feed.follow(types=["engine_failed"])
    async with aclosing(cast("Any", stream)):
        await anext(stream)
        house.move("embed", "ready")
        beat = asyncio.ensure_future(anext(stream))
        await house.clock.advance(15)
        assert f"heartbeat {house.store.epoch}:1" in beat.result().decode()


@pytest.mark.parametrize("trouble", ["reset", "error"])
async def test_trouble_within_a_stream_is_told_and_ends_it(house: House, trouble: str) -> None:
    """FEED-2, R79: a reader whose place was pruned gets `reset` with the way to a snapshot, and no more."""
    stream = await house.feed.follow()
    await anext(stream)
    for number in range(3):
        house.move("embed", f"{number}")
    await settle()
    if trouble == "reset":
        await house.clock.advance(1)
        await house.store.prune(house.clock.now(), 3)
    else:
        house.store.inner.broken = "its content is damaged"
    house.queue._ring.clear()  # noqa: SLF001 - as if it had been away for thousands of events
    house.queue._last = None  # noqa: SLF001 - a reader that is not up to date
    chunk = (await anext(stream)).decode()
    assert chunk.startswith(f"event: {trouble}\ndata: ")
    told = json.loads(chunk.partition("data: ")[2])
    assert told["code"] == ("cursor_reset" if trouble == "reset" else "schedule_unavailable")
    assert told.get("snapshot") == ("/gateway/schedule" if trouble == "reset" else None)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_streams_and_waits_end_when_the_daemon_is_to_end(house: House) -> None:
    """FEED-2: at the daemon's end every stream and every wait ends by itself, at once."""
    stream = await house.feed.follow()
    cursor = str((await house.feed.snapshot())["cursor"])
    await anext(stream)
    following = asyncio.ensure_future(anext(stream, b"end"))
    waiting = asyncio.ensure_future(house.feed.since(cursor, wait_s=25))
    await settle()
    house.feed.stop()
    await settle()
    assert events(waiting.result()) == []
    assert following.done()
    assert await anext(stream, b"end") == b"end"
