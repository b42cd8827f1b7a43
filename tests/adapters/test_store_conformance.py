"""What every store does. Each test runs on each of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostler.domain.errors import CursorReset, ScheduleUnavailable
from hostler.domain.fleet import frozen
from hostler.services.needs import Store
from tests.adapters.stores import START, STORES, event, everything, numbers
from tests.fakes.ids import CountingIds


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made = STORES[request.param](tmp_path, CountingIds())
    yield made
    await made.close()


async def test_an_empty_store_has_a_cursor(store: Store) -> None:
    """FEED-2: before the first event there is a cursor, and nothing after it or before it."""
    cursor = await store.cursor()
    assert cursor.rpartition(":")[2] == "0"
    assert await store.since(cursor, 10) == ()
    assert await store.since(None, 10) == ()


async def test_events_come_back_whole_and_in_order(store: Store) -> None:
    """FEED-2: what is recorded is numbered in order without gaps, and reads as what `record` gave back."""
    first = await store.record([event(1)])
    second = await store.record([event(2), event(3)])
    assert [row.seq for row in (*first, *second)] == [1, 2, 3]
    assert await store.since(None, 10) == (*first, *second)
    assert await store.cursor() == second[-1].cursor


async def test_an_event_keeps_every_field(store: Store) -> None:
    """TIME-1: a recorded event is the event itself, its time to the millisecond."""
    (row,) = await store.record([event(7)])
    wanted = replace(
        event(7),
        at=START.replace(microsecond=482_000) + timedelta(seconds=7),
        facts=frozen({"number": 7, "sizes": [1, 2.5, None], "deep": {"a": [True]}}),
    )
    assert row.event == wanted
    bare = replace(
        event(8), subject=frozen({}), before=None, after=None, facts=frozen({}), priority=None, once=None
    )
    (row,) = await store.record([bare])
    assert replace(row.event, at=bare.at) == bare


async def test_a_reader_goes_on_from_its_cursor(store: Store) -> None:
    """FEED-2: from each event's cursor on there is every later event once, page by page, and then none."""
    rows = await store.record([event(number) for number in range(7)])
    for place, row in enumerate(rows):
        assert numbers(await everything(store, row.cursor, page=2)) == list(range(place + 1, 7))
    assert numbers(await store.since(None, 3)) == [0, 1, 2]


async def test_nothing_recorded_is_nothing_changed(store: Store) -> None:
    """FEED-2: recording no event takes no number."""
    assert await store.record([]) == ()
    assert (await store.record([event(1)]))[0].seq == 1


@pytest.mark.parametrize(
    "change", ["future", "foreign", "no number", "negative", "odd digits", "huge", "empty"]
)
async def test_a_cursor_that_fits_no_log_is_told_so(store: Store, change: str) -> None:
    """FEED-2: a cursor of the future, of another store, or that is none, is a reset, never empty."""
    await store.record([event(1)])
    epoch = (await store.cursor()).rpartition(":")[0]
    cursor = {
        "future": f"{epoch}:2",
        "foreign": "ep_another:1",
        "no number": f"{epoch}:x",
        "negative": f"{epoch}:-1",
        "odd digits": f"{epoch}:١",  # noqa: RUF001 - an Arabic digit is the point
        "huge": f"{epoch}:{'9' * 30}",
        "empty": "",
    }[change]
    with pytest.raises(CursorReset) as refused:
        await store.since(cursor, 10)
    assert refused.value.facts() == {"cursor": cursor, "reset": True, "snapshot": "/gateway/schedule"}


@pytest.mark.parametrize("name", STORES)
async def test_a_store_made_anew_is_another_log(tmp_path: Path, name: str) -> None:
    """FEED-2: a store made anew after the file was lost knows the cursors of the one before as foreign."""
    ids = CountingIds()
    cursors = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        store = STORES[name](folder, ids)
        cursors.append((await store.record([event(1)]))[0].cursor)
        with pytest.raises(CursorReset) if len(cursors) == 2 else nullcontext():
            await store.since(cursors[0], 10)
        await store.close()
    assert len(set(cursors)) == 2


async def test_pruning_moves_the_oldest_cursor(store: Store) -> None:
    """FEED-2: a cursor from before a prune is too old, one from its edge goes on, None is the oldest."""
    rows = await store.record([event(number) for number in range(6)])
    start = rows[0].cursor.replace(":1", ":0")
    assert await store.prune(START + timedelta(seconds=3), 100) == 3
    for old in (start, rows[0].cursor, rows[1].cursor):
        with pytest.raises(CursorReset):
            await store.since(old, 10)
    assert numbers(await store.since(rows[2].cursor, 10)) == [3, 4, 5]
    assert numbers(await store.since(None, 10)) == [3, 4, 5]
    assert (await store.record([event(6)]))[0].seq == 7


async def test_pruning_goes_in_small_steps_and_leaves_no_hole(store: Store) -> None:
    """FEED-2: a prune takes at most its limit from the oldest on, up to the first that is not old."""
    await store.record([event(0), event(1), event(2), event(3, seconds=1000), event(4)])
    assert await store.prune(START + timedelta(seconds=100), 2) == 2
    assert await store.prune(START + timedelta(seconds=100), 2) == 1
    assert await store.prune(START + timedelta(seconds=100), 2) == 0
    assert numbers(await store.since(None, 10)) == [3, 4]


async def test_everything_may_be_pruned(store: Store) -> None:
    """FEED-2: a log without events still counts on, and its cursor still holds."""
    await store.record([event(1)])
    assert await store.prune(datetime(2030, 1, 1, tzinfo=UTC), 10) == 1
    cursor = await store.cursor()
    assert await store.since(cursor, 10) == ()
    assert await store.since(None, 10) == ()
    assert (await store.record([event(2)]))[0].seq == 2
    assert numbers(await store.since(cursor, 10)) == [2]


async def test_an_event_without_a_text_form_fails_alone(store: Store) -> None:
    """FEED-2: facts that are no JSON fail their own call and take no number; calls beside it are kept."""
    odd = replace(event(1), facts=frozen({"number": object()}))
    nan = replace(event(1), facts=frozen({"number": float("nan")}))
    calls = [store.record([each]) for each in (event(0), odd, nan, event(2))]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each).__name__ for each in results] == [
        "tuple",
        "TypeError",
        "ValueError",
        "tuple",
    ]
    assert [(row.seq, row.event.facts["number"]) for row in await store.since(None, 10)] == [(1, 0), (2, 2)]


async def test_half_a_character_in_an_event_is_shown(store: Store) -> None:
    """FEED-3: half of a character in an event is kept as text that shows it; nothing is lost for it."""
    await store.record([replace(event(1), message="a\ud800")])
    assert [row.event.message for row in await store.since(None, 10)] == ["a\\ud800"]


async def test_calls_at_once_lose_nothing(store: Store) -> None:
    """FEED-2: of 200 calls at once each event is there once, and each call's stay together in order."""
    results = await asyncio.gather(
        *(store.record([event(3 * call), event(3 * call + 1), event(3 * call + 2)]) for call in range(200))
    )
    rows = await everything(store)
    assert [row.seq for row in rows] == list(range(1, 601))
    assert sorted(map(str, numbers(rows))) == sorted(map(str, range(600)))
    for call, told in enumerate(results):
        assert numbers(told) == [3 * call, 3 * call + 1, 3 * call + 2]
        assert [row.seq for row in told] == list(range(told[0].seq, told[0].seq + 3))
        assert [rows[row.seq - 1] for row in told] == list(told)


async def test_what_is_told_can_be_read(store: Store) -> None:
    """REL-2: when `record` returns, the event is there for every reader."""
    for number in range(50):
        (row,) = await store.record([event(number)])
        assert await store.cursor() == row.cursor
        assert (await store.since(None, 100))[-1] == row


async def test_a_closed_store_refuses(store: Store) -> None:
    """REL-1: a store that was closed says so to every call, and closing it again is no error."""
    waiting = asyncio.gather(*(store.record([event(number)]) for number in range(20)))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert [row.seq for rows in await waiting for row in rows] == list(range(1, 21))
    for call in (store.record([event(1)]), store.cursor(), store.since(None, 1), store.prune(START, 1)):
        with pytest.raises(ScheduleUnavailable, match="it is closed"):
            await call
