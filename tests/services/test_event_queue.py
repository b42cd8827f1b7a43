import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import CursorReset, ScheduleUnavailable
from hostler.domain.events import Event, Recorded
from hostler.domain.fleet import frozen
from hostler.services.event_queue import BATCH, RING, EventQueue
from tests.fakes.clock import START, ManualClock, settle
from tests.fakes.ids import CountingIds


class CountedStore:
    """A store in memory that says how often it was asked, and can be told to take its time."""

    def __init__(self) -> None:
        self.inner = MemoryStore(CountingIds())
        self.batches: list[int] = []
        self.reads = 0
        self.go = asyncio.Event()
        self.go.set()
        self.cursor, self.prune, self.close = self.inner.cursor, self.inner.prune, self.inner.close
        self.listen = self.inner.listen

    async def record(self, events: Sequence[Event]) -> Sequence[Recorded]:
        await self.go.wait()
        rows = await self.inner.record(events)
        self.batches.append(len(rows))
        return rows

    async def since(self, cursor: str | None, limit: int) -> Sequence[Recorded]:
        self.reads += 1
        return await self.inner.since(cursor, limit)


@dataclass(eq=False, kw_only=True)
class Desk:
    """A queue on a store and a clock, its writer running."""

    store: CountedStore = field(default_factory=CountedStore)
    clock: ManualClock = field(default_factory=ManualClock)
    limit: int = 10

    def __post_init__(self) -> None:
        self.queue = EventQueue(store=self.store, clock=self.clock, ids=CountingIds(), limit=self.limit)
        self.task = asyncio.ensure_future(self.queue.run())

    def emit(self, *numbers: int) -> None:
        for number in numbers:
            self.queue.emit(event(number))

    async def stored(self) -> list[object]:
        """What the log has: numbers, and the types of events that have none."""
        rows = await self.store.inner.since(None, 100_000)
        return [row.event.facts.get("number", row.event.type) for row in rows]


def event(number: int) -> Event:
    return Event(type="engine_ready", at=START, facts=frozen({"number": number}))


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    await settle()
    yield made
    made.task.cancel()
    with suppress(asyncio.CancelledError):
        await made.task


async def test_events_are_written_in_order(desk: Desk) -> None:
    """FEED-2: what is reported is written in the order of reporting."""
    desk.emit(1, 2, 3)
    assert await desk.stored() == []
    await settle()
    assert await desk.stored() == [1, 2, 3]
    assert desk.queue.lag_s() == 0


async def test_events_that_wait_go_together(desk: Desk) -> None:
    """FEED-2: what came while a write was under way is written as one batch, and none of it twice."""
    desk.store.go.clear()
    desk.emit(1)
    await settle()
    desk.emit(2, 3, 4)
    desk.store.go.set()
    await settle()
    assert desk.store.batches == [1, 3]
    assert await desk.stored() == [1, 2, 3, 4]


async def test_a_batch_has_a_bound() -> None:
    """FEED-2: a long queue is written in several transactions, each of a bounded size."""
    desk = Desk(limit=3 * BATCH)
    desk.emit(*range(2 * BATCH + 1))
    await settle()
    assert desk.store.batches == [BATCH, BATCH, 1]
    assert await desk.stored() == list(range(2 * BATCH + 1))
    desk.task.cancel()


async def test_reporting_never_blocks_and_never_fails(desk: Desk) -> None:
    """HOLD-15: while the store takes nothing, reporting returns at once, and what is too much is counted."""
    desk.store.inner.broken = "the disk is full"
    await settle()
    desk.emit(*range(100))
    await settle()
    assert desk.queue.dropped > 0
    assert desk.queue.failing == "the disk is full"
    assert await asyncio.wait_for(desk.queue.flush(0), 1) is False


async def test_a_store_that_comes_back_gets_all_that_waited(desk: Desk) -> None:
    """REL-1: events wait while the store is away and are written once it is back, with the outage itself."""
    desk.store.inner.broken = "it is locked"
    desk.emit(1, 2)
    await desk.clock.advance(60)
    desk.emit(3)
    assert desk.queue.lag_s() == 60
    desk.store.inner.broken = None
    await desk.clock.advance(30)
    assert await desk.stored() == [1, 2, "store_unavailable", 3]
    assert desk.queue.failing is None
    assert desk.queue.dropped == 0


async def test_retries_back_off(desk: Desk) -> None:
    """REL-1: a store that stays away is asked ever more rarely, but at least twice a minute."""
    asked = []

    async def refuse(events: Sequence[Event]) -> Sequence[Recorded]:
        asked.append(desk.clock.elapsed())
        raise ScheduleUnavailable(why="it is gone", file="schedule.db")

    desk.store.record = refuse  # type: ignore[method-assign] # only to see when it is asked
    desk.emit(1)
    await desk.clock.advance(300)
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert pauses[:7] == [0.375 * 2**power for power in range(6)] + [22.5]
    assert set(pauses[7:]) == {22.5}


async def test_a_gap_is_told_at_its_place(desk: Desk) -> None:
    """FEED-2: dropped events leave one that counts them, behind what was kept, before what came later."""
    desk.store.inner.broken = "the disk is full"
    desk.emit(*range(14))
    await settle()
    desk.store.inner.broken = None
    await desk.clock.advance(1)
    desk.emit(100)
    await settle()
    assert await desk.stored() == [*range(10), "events_dropped", 100]
    assert desk.queue.dropped == 5
    (told,) = [row.event for row in await desk.store.since(None, 99) if row.event.type == "events_dropped"]
    assert told.facts["count"] == 5


async def test_an_event_without_a_text_form_is_lost_alone(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """FEED-2: an event without a text form is dropped, counted and logged; others are written once."""
    desk.emit(1)
    desk.queue.emit(replace(event(2), facts=frozen({"number": object()})))
    desk.emit(3)
    await settle()
    assert await desk.stored() == [1, 3, "events_dropped"]
    assert desk.queue.dropped == 1
    assert "has no text form" in caplog.text


async def test_secrets_and_half_characters_stay_out() -> None:
    """SEC-1: secrets are taken out of every text of an event before it waits, and text that no file takes is
    escaped.
    """
    queue = EventQueue(
        store=CountedStore(),
        clock=ManualClock(),
        ids=CountingIds(),
        redact=lambda text: text.replace("hunter2", "****"),
    )
    queue.emit(
        replace(
            event(1),
            actor="hunter2",
            message="key hunter2 " + "x" * 1000,
            facts=frozen({"lines": ["a hunter2", "\ud800\x1b"], "deep": {"key": "hunter2"}, "number": 1}),
        )
    )
    task = asyncio.ensure_future(queue.run())
    assert await queue.flush(1)
    (row,) = await queue.since(None, 1)
    assert row.event.actor == "****"
    assert row.event.message.startswith("key **** xxx")
    assert len(row.event.message) == 500
    assert row.event.facts == {"lines": ["a ****", "\\ud800\\x1b"], "deep": {"key": "****"}, "number": 1}
    task.cancel()


# ---------------------------------------------------------------- reading


async def test_a_reader_who_is_up_to_date_touches_no_store(desk: Desk) -> None:
    """GW-3: reading on from a recent cursor is answered from memory."""
    desk.emit(1, 2, 3)
    cursor = await desk.queue.mark()
    desk.emit(4, 5)
    await settle()
    rows = await desk.queue.since(cursor, 10)
    assert [row.event.facts["number"] for row in rows] == [4, 5]
    assert [row.event.facts["number"] for row in await desk.queue.since(cursor, 1)] == [4]
    assert await desk.queue.since(rows[-1].cursor, 10) == ()
    assert desk.store.reads == 0
    assert await desk.store.since(cursor, 10) == rows


async def test_memory_and_store_answer_alike(desk: Desk) -> None:
    """FEED-2: from every cursor, of the ring or from before it, a reader gets what the store has."""
    desk.emit(*range(5))
    await settle()
    epoch = desk.store.inner.epoch
    desk.queue._ring.popleft()  # noqa: SLF001 - as if the ring were smaller
    desk.queue._ring.popleft()  # noqa: SLF001 - and smaller still
    for place in range(6):
        wanted = await desk.store.inner.since(f"{epoch}:{place}", 10)
        assert await desk.queue.since(f"{epoch}:{place}", 10) == wanted
    for cursor in (f"{epoch}:6", f"{epoch}:-1", "ep_x:3", "", f"{epoch}:\u0663", f"{epoch}:{'9' * 40}"):
        with pytest.raises(CursorReset):
            await desk.queue.since(cursor, 10)


async def test_the_ring_forgets_the_oldest() -> None:
    """FEED-2: memory keeps a bounded number of events; older ones are read from the store."""
    desk = Desk(limit=RING + 10)
    desk.emit(*range(RING + 5))
    await settle()
    epoch = desk.store.inner.epoch
    assert len(await desk.queue.since(f"{epoch}:5", RING * 2)) == RING
    assert desk.store.reads == 0
    assert len(await desk.queue.since(f"{epoch}:4", RING * 2)) == RING + 1
    assert desk.store.reads == 1
    desk.task.cancel()


async def test_events_of_transactions_are_in_memory(desk: Desk) -> None:
    """FEED-2: what others commit through the store is read from memory in commit order, and wakes readers."""
    desk.emit(1)
    first = await desk.queue.mark()
    reader = asyncio.ensure_future(desk.queue.wait(first, 50))
    await settle()
    await desk.store.inner.write(lambda tx: [tx.record(event(2)), tx.record(event(3))])
    await settle()
    assert reader.result() is True
    desk.emit(4)
    await desk.store.inner.write(lambda tx: tx.record(event(5)))
    await settle()
    rows = await desk.queue.since(first, 10)
    assert desk.store.reads == 0
    assert rows == await desk.store.inner.since(first, 10)
    assert sorted(str(row.event.facts["number"]) for row in rows) == ["2", "3", "4", "5"]
    assert await desk.queue.since(rows[-1].cursor, 10) == ()
    assert await desk.queue.mark() == rows[-1].cursor


async def test_events_of_another_process_are_not_missed(desk: Desk) -> None:
    """FEED-2: when another process wrote between, memory no longer answers for that place, the store does."""
    desk.emit(1)
    first = await desk.queue.mark()
    hearing, desk.store.inner._hearing = desk.store.inner._hearing, []  # noqa: SLF001 - nobody here hears it
    await desk.store.inner.record([event(2)])
    desk.store.inner._hearing = hearing  # noqa: SLF001 - as before
    desk.emit(3)
    await settle()
    assert [row.event.facts["number"] for row in await desk.queue.since(first, 10)] == [2, 3]
    assert desk.store.reads == 1


async def test_a_mark_before_the_first_look_is_not_lost() -> None:
    """FEED-1: who asks for a mark before the log was looked at gets it with the first event that is heard."""
    store, clock = CountedStore(), ManualClock()
    queue = EventQueue(store=store, clock=clock, ids=CountingIds())
    mark = asyncio.ensure_future(queue.mark(50))
    await settle()
    store.inner.broken = "it is locked"
    task = asyncio.ensure_future(queue.run())
    await settle()
    store.inner.broken = None
    await store.inner.write(lambda tx: tx.record(event(1)))
    await settle()
    assert mark.done()
    assert await mark == f"{store.inner.epoch}:1"
    task.cancel()


async def test_a_slow_first_look_does_not_go_back(desk: Desk) -> None:
    """FEED-2: an event heard while the log is first looked at is not forgotten for the older cursor."""
    store, go = CountedStore(), asyncio.Event()
    old = await store.inner.cursor()

    async def slow() -> str:
        await go.wait()
        return old

    store.cursor = slow  # A look that takes its time.
    queue = EventQueue(store=store, clock=desk.clock, ids=CountingIds())
    task = asyncio.ensure_future(queue.run())
    await settle()
    await store.inner.write(lambda tx: tx.record(event(1)))
    go.set()
    await settle()
    assert await queue.mark() == await store.inner.cursor() != old
    assert await queue.since(old, 9) == await store.inner.since(old, 9)
    task.cancel()


async def test_a_mark_stands_behind_what_was_reported(desk: Desk) -> None:
    """FEED-1: a mark is the cursor after the last event before the call, whatever comes in the same batch."""
    desk.store.go.clear()
    desk.emit(1, 2)
    mark = asyncio.ensure_future(desk.queue.mark())
    await settle()
    desk.emit(3)
    later = asyncio.ensure_future(desk.queue.mark())
    await settle()
    assert not mark.done()
    desk.store.go.set()
    await settle()
    assert (await mark, await later) == (f"{desk.store.inner.epoch}:2", f"{desk.store.inner.epoch}:3")
    assert await desk.queue.mark() == f"{desk.store.inner.epoch}:3"


async def test_a_mark_is_not_waited_for_for_ever(desk: Desk) -> None:
    """REL-1: a mark that the store does not let come is a refusal with the store's reason, after a bound."""
    desk.store.inner.broken = "it is locked"
    desk.emit(1)
    mark = asyncio.ensure_future(desk.queue.mark(5))
    await desk.clock.advance(4.9)
    assert not mark.done()
    await desk.clock.advance(0.2)
    with pytest.raises(ScheduleUnavailable, match="it is locked"):
        await mark


async def test_readers_wake_at_an_event(desk: Desk) -> None:
    """FEED-1: a waiting reader wakes when an event is written, at its deadline, or when all are let go."""
    cursor = await desk.queue.mark()
    early, late, never = (asyncio.ensure_future(desk.queue.wait(cursor, each)) for each in (5, 50, 500))
    await desk.clock.advance(10)
    assert early.done()
    assert early.result() is False
    assert not late.done()
    desk.emit(1)
    await settle()
    assert (late.result(), never.result()) == (True, True)
    assert await desk.queue.wait(cursor, 50) is True
    last = asyncio.ensure_future(desk.queue.wait(await desk.queue.mark(), 50))
    await settle()
    assert not last.done()
    desk.queue.release()
    await settle()
    assert last.result() is False
    assert desk.clock.sleepers == 0
