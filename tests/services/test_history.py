import asyncio
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import ScheduleUnavailable
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.services.event_queue import EventQueue
from hostler.services.history import GATHER_S, History
from tests.fakes.clock import START, ManualClock, inline_threads, settle
from tests.fakes.ids import CountingIds


def event(number: int) -> Event:
    return Event(type="lease_active", at=START + timedelta(seconds=number), facts=frozen({"number": number}))


@dataclass(eq=False, kw_only=True)
class Lines:
    """The need `HistoryLog`, in a list; `trouble` makes it fail, after `room` more lines."""

    kept: list[Mapping[str, object]] = field(default_factory=list)
    trouble: OSError | None = None
    room: int = 0
    asked: list[object] = field(default_factory=list)
    appended: int = 0
    go: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.go.set()

    def last(self) -> str | None:
        return str(self.kept[-1]["cursor"]) if self.kept else None

    def append(self, lines: Sequence[Mapping[str, object]]) -> None:
        self.entered.set()
        self.appended += 1
        assert self.go.wait(30)
        if self.trouble is not None:
            self.kept += lines[: self.room]
            raise self.trouble
        self.kept += lines

    def read(
        self, *, lease: str | None = None, job: str | None = None, since: datetime | None = None
    ) -> Sequence[Mapping[str, object]]:
        if self.trouble is not None:
            raise self.trouble
        self.asked.append((lease, job, since))
        return tuple(self.kept)

    def told(self) -> list[object]:
        """The numbers of events, the types of lines that have none."""
        numbers = []
        for line in self.kept:
            facts = line["facts"]
            assert isinstance(facts, Mapping)
            numbers.append(facts.get("number", line["type"]))
        return numbers


@dataclass(eq=False, kw_only=True)
class Desk:
    """A store, its queue and the history of it, all running."""

    lines: Lines = field(default_factory=Lines)
    store: MemoryStore = field(default_factory=lambda: MemoryStore(CountingIds()))
    clock: ManualClock = field(default_factory=ManualClock)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        inline_threads()
        self.history = self.made()

    def made(self) -> History:
        """As a daemon begins: with nothing in memory."""
        self.queue = EventQueue(store=self.store, clock=self.clock, ids=CountingIds())
        return History(
            queue=self.queue,
            store=self.store,
            log=self.lines,
            clock=self.clock,
            events=self.queue,
            ids=CountingIds(),
        )

    def begin(self) -> None:
        self.tasks += [asyncio.ensure_future(each) for each in (self.queue.run(), self.history.run())]

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def write(self, *numbers: int) -> None:
        await self.store.record([event(number) for number in numbers])
        await self.clock.advance(GATHER_S)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    made = Desk()
    made.begin()
    await settle()
    yield made
    await made.end()


async def test_every_event_becomes_a_line(desk: Desk) -> None:
    """HIST-1: what anybody commits is a line at once, with the event's place and all that a reader needs."""
    await desk.write(1, 2)
    desk.queue.emit(event(3))
    await desk.store.write(lambda tx: tx.record(replace(event(4), before="a", after="b", message="ü")))
    await settle()
    assert sorted(map(str, desk.lines.told())) == ["1", "2", "3", "4"]
    assert [line["seq"] for line in desk.lines.kept] == [1, 2, 3, 4]
    (line,) = [line for line in desk.lines.kept if line["message"] == "ü"]
    assert line == {
        "cursor": f"{desk.store.epoch}:{line['seq']}",
        "seq": line["seq"],
        "time": "2026-09-04T20:05:15.482Z",
        "type": "lease_active",
        "actor": "daemon",
        "subject": {},
        "from": "a",
        "to": "b",
        "message": "ü",
        "facts": {"number": 4},
    }
    assert desk.history.failing is None


async def test_what_comes_together_is_written_together(desk: Desk) -> None:
    """HIST-1, PERF-8: after quiet a line comes at once; what follows within a moment is written in one go."""
    for number in (1, 2, 3):
        await desk.store.record([event(number)])
        await settle()
        assert desk.lines.told() == [1]
    await desk.clock.advance(GATHER_S)
    assert desk.lines.told() == [1, 2, 3]
    assert desk.lines.appended == 2


async def test_it_goes_on_from_the_last_line(desk: Desk) -> None:
    """HIST-1: a history begun anew writes what came since its last line, and nothing twice."""
    await desk.write(1, 2, 3)
    await desk.end()
    del desk.lines.kept[-1:]
    await desk.write(4)
    again = desk.made()
    await again.catch_up()
    await again.catch_up()
    assert desk.lines.told() == [1, 2, 3, 4]


async def test_a_long_log_is_written_whole() -> None:
    """HIST-1: a first history of a long log has all of it, page by page."""
    desk = Desk()
    await desk.write(*range(1234))
    desk.begin()
    await settle()
    assert desk.lines.told() == list(range(1234))
    await desk.end()


async def test_pruned_events_leave_a_line_that_counts_them(desk: Desk) -> None:
    """HIST-3: events that were pruned before they were written are told as a gap at their place."""
    await desk.write(1, 2)
    await desk.end()
    await desk.write(3, 4, 5, 6)
    assert await desk.store.prune(START + timedelta(seconds=5), 100) == 4
    again = desk.made()
    await again.catch_up()
    assert desk.lines.told() == [1, 2, "history_gap", 5, 6]
    gap = desk.lines.kept[2]
    assert (gap["cursor"], gap["seq"]) == (f"{desk.store.epoch}:4", 4)
    assert str(gap["message"]).startswith("2 events are missing here")


async def test_a_gap_at_the_end_of_a_pruned_log(desk: Desk) -> None:
    """HIST-3: when all later events are pruned the gap is told, and what comes then follows it."""
    await desk.write(1)
    await desk.end()
    await desk.write(2, 3)
    await desk.store.prune(START + timedelta(seconds=9), 100)
    again = desk.made()
    await again.catch_up()
    assert desk.lines.told() == [1, "history_gap"]
    await desk.write(4)
    await again.catch_up()
    assert desk.lines.told() == [1, "history_gap", 4]


async def test_another_store_is_told_and_followed(desk: Desk) -> None:
    """F25, HIST-1: lines of another store's epoch follow a gap that names both epochs."""
    await desk.write(1, 2)
    await desk.end()
    ids = CountingIds()
    ids.new("x")
    other = MemoryStore(ids)
    await other.record([event(7), event(8), event(9)])
    desk.store = other
    again = desk.made()
    await again.catch_up()
    assert desk.lines.told() == [1, 2, "history_gap", 7, 8, 9]
    gap = desk.lines.kept[2]
    assert (gap["to"], gap["from"]) == (f"{other.epoch}:0", desk.lines.kept[1]["cursor"])
    assert other.epoch in str(gap["message"])


async def test_an_empty_log_is_waited_for() -> None:
    """HIST-1: before the first event there is nothing to write, and the first one is written."""
    desk = Desk()
    desk.begin()
    await settle()
    assert desk.lines.kept == []
    await desk.write(1)
    assert desk.lines.told() == [1]
    await desk.end()


async def test_trouble_is_shown_and_blocks_nobody(desk: Desk) -> None:
    """R87, HIST-1: files that take nothing are told once; events go on, and later each is a line, once."""
    desk.lines.trouble, desk.lines.room = OSError(28, "No space left on device"), 1
    await desk.write(1, 2, 3)
    assert "No space left" in str(desk.history.failing)
    await desk.write(4)
    await desk.clock.advance(300)
    types = [row.event.type for row in await desk.store.since(None, 99)]
    assert types == [*["lease_active"] * 3, "history_failing", "lease_active"]
    desk.lines.trouble = None
    await desk.clock.advance(60)
    assert desk.lines.told()[:3] == [1, 2, 3]
    assert sorted(map(str, desk.lines.told()[3:])) == ["4", "history_failing"]
    assert [line["seq"] for line in desk.lines.kept] == [1, 2, 3, 4, 5]
    assert desk.history.failing is None


async def test_a_store_that_is_away_is_waited_for(desk: Desk) -> None:
    """REL-1: while the store cannot be read the history waits, and then has all of it."""
    desk.store.broken = "it is locked"
    await desk.clock.advance(60)
    desk.store.broken = None
    await desk.write(1)
    await desk.clock.advance(120)
    assert desk.lines.told()[-1] == 1
    assert desk.history.failing is None


async def test_reading_has_what_was_told_before(desk: Desk) -> None:
    """HIST-2: a reading comes after all that was committed before; its time is seconds back from now."""
    await desk.end()
    await desk.store.record([event(1)])
    (line,) = await desk.history.read(lease="ls_1", job="jb_1", since_s=60)
    assert line["seq"] == 1
    await desk.history.read()
    back = desk.clock.now() - timedelta(seconds=60)
    assert desk.lines.asked == [("ls_1", "jb_1", back), (None, None, None)]
    desk.lines.trouble = OSError(13, "Permission denied")
    with pytest.raises(ScheduleUnavailable, match="the history: Permission denied"):
        await desk.history.read()


async def test_it_ends_with_the_daemon(desk: Desk) -> None:
    """REL-5: when readers are let go the history's task ends by itself, and a last look writes the rest."""
    await desk.write(1)
    desk.queue.release()
    await settle()
    assert desk.tasks[1].done()
    await desk.write(2)
    await desk.history.catch_up()
    assert desk.lines.told() == [1, 2]


async def test_a_cancelled_write_is_not_done_twice() -> None:
    """HIST-1: a write that is cancelled in its middle is waited for, and is not done again."""
    desk = Desk()
    await desk.write(1, 2)
    with ThreadPoolExecutor(1) as threads:
        asyncio.get_running_loop().set_default_executor(threads)
        desk.lines.go.clear()
        task = asyncio.ensure_future(desk.history.catch_up())
        while not desk.lines.entered.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0)
        task.cancel()
        await settle()
        assert not task.done()
        desk.lines.go.set()
        with suppress(asyncio.CancelledError):
            await task
        await desk.history.catch_up()
    assert desk.lines.told() == [1, 2]
