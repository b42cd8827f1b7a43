"""The exchange of rows through random histories: lost, repeated and late messages, and restarts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.domain.engine import State
from hostler.domain.errors import InvalidRequest
from hostler.domain.registry import Row, should_sync
from hostler.wire.sync import ExchangeCall, Told, row_to
from tests.fakes.clock import inline_threads
from tests.fakes.own_machine import OWN_MACHINE
from tests.fakes.paired import ADDRESSES, NAMES, Trio, trio

ROWS = st.builds(
    Row,
    id=st.sampled_from(["a", "b", "raven-work"]),
    url=st.sampled_from([*(f"http://{it}:8000" for it in ADDRESSES.values()), ""])
    | OWN_MACHINE.map("http://{}:8000".format),
    host=st.sampled_from([*NAMES, "external", ""]),
    models=st.sampled_from([(), ("m",), ("n", "o")]),
    local_only=st.booleans(),
    retired=st.booleans(),
)
WHO = st.sampled_from(NAMES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), WHO, ROWS, st.booleans()),
        st.tuples(
            st.just("speak"), WHO, WHO, st.sampled_from(["none", "lost", "unanswered", "twice", "late"])
        ),
        st.tuples(st.just("look"), WHO, st.sampled_from(sorted(ADDRESSES.values())), st.booleans()),
        st.tuples(st.just("restart"), WHO, st.none(), st.none()),
        st.tuples(st.just("deliver"), WHO, st.none(), st.none()),
    ),
    max_size=25,
)


async def step(it: Trio, what: str, who: str, one: object, two: object) -> None:
    node = it[who]
    if what == "say" and isinstance(one, Row):
        with suppress(InvalidRequest):
            await node.says(one, owns=bool(two))
    elif what == "speak" and one != who:
        it.wire.fault = two  # type: ignore[assignment]  # one of the faults
        await node.speak(str(one))
    elif what == "look":
        (node.sockets.dead.add if two else node.sockets.dead.discard)(f"http://{one}:8000")
        await node.reaching.look()
    elif what == "restart":
        node.restart()
    elif what == "deliver":
        await it.wire.deliver()


async def history(steps: list[tuple[str, str, object, object]]) -> None:
    inline_threads()
    it = trio()
    for each in steps:
        await step(it, *each)
        it.wire.fault = "none"
    await it.agree()
    await it.wire.deliver()
    for name in NAMES:
        # What arrived late may have told of older looks: the slow round puts that right.
        it[name].sync.peering.lines.clear()
    await it.agree()
    agreed(it)
    await silent(it)


def agreed(it: Trio) -> None:
    """Everybody has all that travels, as its author says it, and nothing else of others."""
    for name in NAMES:
        node = it[name]
        assert node.bugs == []
        for row in node.registry.told():
            for other in NAMES:
                kept = it[other].registry.rows[row.key]
                assert kept.same(row)
                assert kept.order == row.order
                seen = {who: saw for who, saw in kept.reach.items() if who != other}
                assert seen == {who: saw for who, saw in row.reach.items() if who != other}
        for row in node.registry.rows.values():
            assert row.author == name or should_sync(row).travels
            assert row.author == name or row.key in {each.key for each in it[row.author].registry.told()}
        for shared in node.sync.routes.table.shared.values():
            assert shared.author in node.fleet.peers
            assert shared.host
        assert "raven-work" not in it["raven"].sync.routes.table.shared
        assert {lane.state for lane in node.lanes.by_id.values()} == {State.STOPPED}


async def silent(it: Trio) -> None:
    """Nothing is due; and a look at everybody carries no row and writes nothing."""
    saves, sent = [it[name].files.saves for name in NAMES], it.wire.rows_sent
    for name in NAMES:
        # Nothing is reached otherwise than at the last look: where there was one, there is nothing new.
        if all(name in row.reach for row in it[name].reaching.rows()):
            await it[name].reaching.look()
        for other in NAMES:
            if other != name:
                assert not it[name].sync.peering.is_due(other)
                await it[name].speak(other)
    assert [it[name].files.saves for name in NAMES] == saves
    assert it.wire.rows_sent == sent


@given(STEPS)
@settings(max_examples=150)
def test_nodes_agree_after_any_history_and_fall_silent(
    steps: list[tuple[str, str, object, object]],
) -> None:
    """SYNC-2, SYNC-5, SYNC-6: whatever the wire did, nodes agree at last, fall silent, and start nothing."""
    asyncio.run(history(steps))


FORGED = st.lists(
    st.tuples(WHO, WHO, ROWS, WHO, st.integers(min_value=1, max_value=1 << 40)), min_size=1, max_size=6
)


@given(STEPS, FORGED)
@settings(max_examples=150)
def test_whatever_a_peer_claims_the_words_of_others_stand(
    steps: list[tuple[str, str, object, object]], forged: list[tuple[str, str, Row, str, int]]
) -> None:
    """SYNC-2, SYNC-5, SYNC-6: a peer's claim changes no row of another, and starts nothing."""

    async def lie() -> None:
        inline_threads()
        it = trio()
        for each in steps:
            await step(it, *each)
            it.wire.fault = "none"
        await it.agree()
        before = {name: it[name].registry.told() for name in NAMES}
        for liar, victim, row, author, version in forged:
            if liar != victim:
                claim = Told(rows=(row_to(replace(row, author=author, version=version)),))
                call = ExchangeCall(api=1, node=liar, digest="forged", told=claim)
                await it.wire.arrive(liar, victim, call)
        liars = {liar for liar, *_ in forged}
        for name in NAMES:
            assert it[name].registry.told() == before[name]
            for row in it[name].registry.rows.values():
                assert row.author == name or should_sync(row).travels
                if row.author not in (name, *liars):
                    assert row.same(next(each for each in before[row.author] if each.id == row.id))
            for shared in it[name].sync.routes.table.shared.values():
                assert should_sync(Row(id=shared.id, url=shared.url)).travels
            assert {lane.state for lane in it[name].lanes.by_id.values()} == {State.STOPPED}

    asyncio.run(lie())


@given(st.lists(ROWS, min_size=1, max_size=4), ROWS)
@settings(max_examples=100)
def test_a_node_that_lost_its_numbers_is_heard_again(before: list[Row], row: Row) -> None:
    """SYNC-5: a node that lost its state says a row again, and it becomes later than what peers have."""

    async def lost() -> None:
        inline_threads()
        it = trio()
        raven = it["raven"]
        for each in before:
            await raven.says(
                replace(each, id="a", url="http://10.99.0.2:9000", host="raven", local_only=False)
            )
        await it.agree()
        raven.files.kept.clear()
        raven.restart()
        said = replace(row, id="a", url="http://10.99.0.2:9001", host="raven", local_only=False)
        await raven.says(said)
        await it.agree()
        await it.agree()
        for name in NAMES:
            assert it[name].registry.rows["raven", "a"].same(said)
        await silent(it)

    asyncio.run(lost())
