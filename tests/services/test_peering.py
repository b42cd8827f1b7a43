"""The exchange with peers: who is told what and when, and what is done with what they tell."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from hostler.domain.errors import InvalidRequest, NodeOutdated, StoreFull
from hostler.domain.fleet import frozen
from hostler.domain.registry import JUMP, Row
from hostler.services import reaching
from hostler.services.peering import AGAIN_S, EVERY_S, TICK_S
from hostler.wire.sync import ExchangeCall, Told, row_to
from tests.fakes.clock import inline_threads
from tests.fakes.paired import Trio, nested, trio

WORK = Row(id="work", url="http://10.99.0.1:8101", host="crow", models=("m",))


@pytest.fixture
def three() -> Trio:
    return trio()


@contextmanager
def running(it: Trio, *names: str) -> Iterator[None]:
    """The exchange of these nodes goes on by itself."""
    tasks = [asyncio.ensure_future(it[name].sync.peering.run()) for name in names]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def test_a_change_is_told_within_a_second_and_then_nothing_is_said(three: Trio) -> None:
    """SYNC-5: a new row goes to each peer once; between slow looks nodes that agree send no message."""
    inline_threads()
    with running(three, "crow", "raven", "annex"):
        await three.clock.advance(2 * TICK_S)
        first = len(three.wire.carried)
        await three.clock.advance(100 * TICK_S)
        assert len(three.wire.carried) == first
        await three["crow"].says(WORK)
        await three.clock.advance(TICK_S)
        assert three["annex"].registry.rows["crow", "work"].same(WORK)
        assert three["raven"].sync.routes.table.shared["work"].url == WORK.url
        assert len(three.wire.carried) == first + 2
        sent, saves = three.wire.rows_sent, three["annex"].files.saves
        await three.clock.advance(3 * EVERY_S)
        assert three.wire.rows_sent == sent
        assert three["annex"].files.saves == saves
        assert len(three.wire.carried) - first - 2 <= 3 * 6


async def test_a_peer_that_is_away_is_told_when_it_is_back(three: Trio) -> None:
    """SYNC-5: a peer behind a cut cable delays no other, and has everything 5 s after it is healed."""
    inline_threads()
    three.wire.cut.add("annex")
    crow = three["crow"]
    with running(three, "crow"):
        await crow.says(WORK)
        await three.clock.advance(2 * TICK_S)
        assert ("crow", "work") in three["raven"].registry.rows
        assert crow.events.types.count("peer_lost") == 1
        line = crow.sync.peering.line("annex")
        assert (line.up, line.why) == (False, "no connection within 3 s")
        await three.clock.advance(10 * AGAIN_S)
        assert crow.events.types.count("peer_lost") == 1
        assert (await crow.sync.now()).peers[1].waiting
        three.wire.cut.clear()
        await three.clock.advance(AGAIN_S + TICK_S)
    assert ("crow", "work") in three["annex"].registry.rows
    assert crow.events.types[-1] == "peer_back"
    assert [it.waiting for it in (await crow.sync.now()).peers] == [False, False]


async def test_a_peer_that_lost_what_it_had_asks_for_it(three: Trio) -> None:
    """SYNC-5: a node whose state is gone is sent the rows again, at the latest with the slow look."""
    inline_threads()
    await three["crow"].says(WORK)
    await three.agree()
    annex = three["annex"]
    annex.files.kept.clear()
    annex.restart()
    with running(three, "crow"):
        await three.clock.advance(EVERY_S + TICK_S)
    assert annex.registry.rows["crow", "work"].same(WORK)


async def test_what_is_acknowledged_is_on_the_disk(three: Trio) -> None:
    """REL-2, SYNC-1: a node whose disk is full takes nothing, answers so, and is told again until it can."""
    inline_threads()
    annex, crow = three["annex"], three["crow"]
    annex.files.full = True
    await crow.says(WORK)
    await crow.speak("annex")
    assert annex.registry.rows == {}
    line = crow.sync.peering.line("annex")
    assert line.up is False
    assert "was not written" in line.why
    with pytest.raises(StoreFull):
        await annex.says(replace(WORK, id="x"))
    annex.files.full = False
    await crow.speak("annex")
    annex.restart()
    assert annex.registry.rows["crow", "work"].same(WORK)


async def test_what_cannot_be_taken_is_left_and_named(three: Trio) -> None:
    """SYNC-1, SYNC-2: rows that are broken, of others, or of each node's machine are left, and named."""
    inline_threads()
    good = row_to(replace(WORK, version=1, author="crow"))
    told = Told(
        rows=(
            good,
            {**good, "id": "flag", "retired": "yes"},
            {**good, "id": "odd", "url": "http://127.1:8000"},
            {**good, "id": "his", "author": "raven"},
            {**good, "id": "ctrl\u0007"},
            {**good, "id": "big", "models": ["m" * 200] * 30},
            {"id": "bare"},
            {},
            {**good, "id": "seen", "reach": {f"{'n' * 250}{node}": True for node in range(64)}},
        )
    )
    answer = await three["annex"].sync.exchange(
        ExchangeCall(api=1, node="crow", digest=told.digest, told=told), "crow"
    )
    assert set(three["annex"].registry.rows) == {("crow", "work")}
    assert [text.partition(":")[0] for text in answer.left] == [
        "flag",
        r"ctrl\x07",
        "big",
        "bare",
        "a row without an id",
        "seen",
        "odd",
        "his",
    ]
    assert "speaks for itself" in answer.left[-1]
    notes = (await three["annex"].sync.now()).notes
    assert len([text for text in notes if text.startswith("a row of crow is left")]) == 8
    again = Told(rows=({**good, "id": "new", "later": 1}, {**good, "id": "odd", "local_only": "perhaps"}))
    answer = await three["annex"].sync.exchange(
        ExchangeCall(api=1, node="crow", digest=again.digest, told=again), "crow"
    )
    assert set(three["annex"].registry.rows) == {("crow", "work"), ("crow", "new")}
    assert answer.left == ("odd: its local_only is neither true nor false",)
    three["annex"].restart()
    assert set(three["annex"].registry.rows) == {("crow", "work"), ("crow", "new")}
    assert not three["annex"].sync.book.kept.notes


@pytest.mark.parametrize("levels", [400, 900, 5000])
@pytest.mark.parametrize("key", ["local_only", "later", "url"])
async def test_what_is_nested_too_deep_is_left_and_named(three: Trio, key: str, levels: int) -> None:
    """SYNC-1, SYNC-2: a value that cannot be followed makes a row unsound, or is passed over, no more."""
    inline_threads()
    good = row_to(replace(WORK, version=1, author="crow"))
    told = Told(rows=(good, {**good, "id": "deep", key: nested(levels)}))
    answer = await three["annex"].sync.exchange(
        ExchangeCall(api=1, node="crow", digest="x", told=told), "crow"
    )
    assert ("crow", "work") in three["annex"].registry.rows
    assert [text.partition(":")[0] for text in answer.left] == ([] if key == "later" else ["deep"])


async def test_a_version_that_nobody_can_have_come_to_is_refused(three: Trio) -> None:
    """SYNC-5: it would keep an id from everybody's later word; it is left, and both sides name it."""
    inline_threads()
    annex = three["annex"]
    await annex.says(replace(WORK, host="annex", url="http://10.99.0.3:1"))
    good = row_to(replace(WORK, version=JUMP, author="crow", url="http://10.99.0.9:1"))
    wild = {**good, "id": "wild", "version": annex.registry.clock + JUMP + 1}
    told = Told(rows=(wild, good))
    answer = await annex.sync.exchange(
        ExchangeCall(api=1, node="crow", digest=told.digest, told=told), "crow"
    )
    assert ("crow", "wild") not in annex.registry.rows
    (left,) = answer.left
    assert left.startswith(f"wild: its version {JUMP + 2} is none that changes lead to")
    assert any(left in note for note in (await annex.sync.now()).notes)
    # What was taken is no further ahead than the next word of anybody.
    await annex.says(replace(WORK, host="annex", url="http://10.99.0.3:2"))
    first, second = annex.registry.claims("work", {})
    assert (first.author, second.author) == ("annex", "crow")


async def test_a_full_registry_names_what_it_left(three: Trio, monkeypatch: pytest.MonkeyPatch) -> None:
    """SYNC-1: a row for which there is no room is left and named."""
    inline_threads()
    monkeypatch.setattr("hostler.domain.registry.MAX_ROWS", 0)
    told = Told(rows=(row_to(replace(WORK, version=1, author="crow")),))
    answer = await three["annex"].sync.exchange(
        ExchangeCall(api=1, node="crow", digest=told.digest, told=told), "crow"
    )
    assert answer.left == ("work: there is no room for more rows",)


async def test_whose_key_it_is_says_who_speaks(three: Trio) -> None:
    """SYNC-6: a call that names another node than its key's is refused, and so is an unknown version."""
    annex = three["annex"].sync
    with pytest.raises(InvalidRequest, match="The key is that of raven"):
        await annex.exchange(ExchangeCall(api=1, node="crow", digest="x"), "raven")
    with pytest.raises(NodeOutdated):
        await annex.exchange(ExchangeCall(api=9, node="crow", digest="x"), "crow")


async def test_a_bug_in_one_exchange_ends_no_other(three: Trio) -> None:
    """REL-1: an exception of ours is logged under an id, told as such, and the next exchange is tried."""
    inline_threads()
    crow = three["crow"]
    del three.wire.nodes["annex"]
    await crow.says(WORK)
    with running(three, "crow"):
        await three.clock.advance(2 * TICK_S)
    assert isinstance(crow.bugs[0], KeyError)
    assert crow.sync.peering.line("annex").why == "error err_1"
    assert ("crow", "work") in three["raven"].registry.rows


async def test_what_each_node_reaches_comes_to_who_wrote_it(three: Trio) -> None:
    """SYNC-4: rows carry what every node saw, and who cannot reach one does not offer it."""
    inline_threads()
    crow, annex = three["crow"], three["annex"]
    await crow.says(WORK)
    await three.agree()
    annex.sockets.dead.add(WORK.url)
    for name in ("crow", "raven", "annex"):
        await three[name].reaching.look()
    await three.agree()
    for name in ("crow", "raven", "annex"):
        assert three[name].registry.rows["crow", "work"].reach == {
            "crow": True,
            "raven": True,
            "annex": False,
        }
    assert annex.sync.routes.table.shared["work"].reached is False
    saves = annex.files.saves
    await annex.reaching.look()
    assert annex.files.saves == saves
    annex.sockets.dead.clear()
    looking = asyncio.ensure_future(annex.reaching.run())
    await three.clock.advance(reaching.EVERY_S)
    looking.cancel()
    assert annex.sync.routes.table.shared["work"].reached is True


async def test_a_row_that_changes_during_a_look_is_not_judged_by_it(three: Trio) -> None:
    """SYNC-4: what was seen of a URL says nothing of the one that took its place meanwhile."""
    inline_threads()
    crow = three["crow"]
    await crow.says(WORK)

    @dataclass(frozen=True, slots=True)
    class Moving:
        """The need `Reacher`: the row moves while it is looked at."""

        async def look(self, url: str) -> str:
            await crow.says(replace(WORK, url="http://10.99.0.1:9"))
            return f"{url} is gone"

    await replace(crow.reaching, reacher=Moving()).look()
    assert crow.registry.rows["crow", "work"].reach == {}


async def test_a_full_disk_ends_no_look(three: Trio) -> None:
    """REL-1, SYNC-4: what was seen and could not be written is seen again at the next look."""
    inline_threads()
    crow = three["crow"]
    await crow.says(WORK)
    crow.files.full = True
    looking = asyncio.ensure_future(crow.reaching.run())
    await three.clock.advance(reaching.EVERY_S)
    assert len(crow.bugs) >= 1
    crow.files.full = False
    await three.clock.advance(reaching.EVERY_S)
    looking.cancel()
    assert crow.registry.rows["crow", "work"].reach == frozen({"crow": True})
