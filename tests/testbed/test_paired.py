"""Three nodes with configs of their own: what one publishes the others offer, until it is retired."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest

from hostler.domain.registry import Row
from hostler.wire.sync import ExchangeCall, Told, row_to
from hostler.wire.values import to_json
from tests.fakes.fake_engine import eventually
from tests.testbed.box import KEY, Box
from tests.testbed.hub import TRIO
from tests.testbed.telling import code
from tests.testbed.trio import SYNC, Trio, models, pair_key

pytestmark = pytest.mark.slow
WORK = Row(
    id="crow-work", url="http://10.99.0.1:8101", host="crow", models=("crow-work",), version=1, author="crow"
)


async def published(it: Trio) -> None:
    """Crow's engine is offered by the others."""
    await it.start()
    await it.crow.is_state("crow-work", "ready")
    await it.crow.told("sync", "publish", "crow-work")
    for box in (it.raven, it.annex):
        await it.row_is(box, "crow-work", "crow", "offered")


async def test_what_is_published_is_offered_and_what_is_retired_is_not(three: Trio) -> None:
    """SYNC-1, SYNC-4, SYNC-5: a published engine serves every paired node; retired it resolves nowhere."""
    await published(three)
    crow, raven, annex = three.crow, three.raven, three.annex
    for box in (raven, annex):
        assert "crow-work" in await models(box)
        assert await box.said("crow-work") == "I am crow-work."
    assert (await annex.get("/v1/hostler/engines"))["engines"] == []
    table = await annex.told("sync")
    assert "crow-work" in table
    assert "offered" in table
    retired = await crow.told("sync", "retire", "crow-work")
    assert retired == "crow-work is retired.\n"
    for box in (raven, annex):
        await three.row_is(box, "crow-work", "crow", "retired")
        assert code(await box.chat("crow-work")) == (404, "model_not_found")
        assert "crow-work" not in await models(box)
    assert await crow.said("crow-work") == "I am crow-work."


async def test_a_row_of_each_nodes_own_machine_stays(three: Trio) -> None:
    """SYNC-2: an engine on loopback is not published, and `explain` says that it is per node."""
    await three.start()
    refused = await three.crow.run("sync", "publish", "crow-own")
    assert refused.code == 65
    assert "each node's own machine" in refused.err
    said = await three.crow.told("sync", "explain", "crow-own")
    assert (
        "crow-own stays here: 127.0.0.1 is each node's own machine: such a row is per node, and retired on"
        in said
    )


async def test_it_is_not_published_while_one_node_does_not_reach_it(three: Trio) -> None:
    """SYNC-4: who cannot reach it is named in a table; once allowed by name it is published."""
    await three.start()
    await three.crow.is_state("crow-work", "ready")
    three.hub.cut("annex")
    refused = await three.crow.run("sync", "publish", "crow-work")
    assert refused.code == 76
    assert "annex" in refused.out
    assert "crow-work is not published: annex does not reach" in refused.err
    assert await three.row(three.raven, "crow-work", "crow") is None
    bare = await three.crow.run("sync", "publish", "crow-work", "--allow-unreachable", "annex")
    assert bare.code == 65
    args = ("--allow-unreachable", "annex", "--because", "it moves on Friday", "--json")
    told = json.loads(await three.crow.told("sync", "publish", "crow-work", *args))
    assert list(told["row"]["allowed"]) == ["annex"]
    assert "it moves on Friday" in told["row"]["allowed"]["annex"]
    await three.row_is(three.raven, "crow-work", "crow", "offered")


async def test_a_cut_node_hears_of_it_when_its_cable_is_back(three: Trio) -> None:
    """SYNC-5: what was retired and published behind a cut cable is known soon after it is healed."""
    await published(three)
    crow, annex = three.crow, three.annex
    three.hub.cut("annex")
    await crow.told("sync", "retire", "crow-work")
    await three.row_is(three.raven, "crow-work", "crow", "retired")
    await three.peer_is(crow, "annex", up=False)
    assert (await three.row_is(annex, "crow-work", "crow", "offered", "unreached"))["retired"] is False
    three.hub.heal("annex")
    await three.row_is(annex, "crow-work", "crow", "retired")
    await three.peer_is(crow, "annex", up=True)


async def test_rows_outlive_a_kill(three: Trio) -> None:
    """REL-2, SYNC-5: what was acknowledged is there after kill -9 on both sides, and nothing is told anew."""
    await published(three)
    before = await three.row(three.annex, "crow-work", "crow")
    for box in (three.crow, three.annex):
        await box.end(signal.SIGKILL)
        await box.start()
    await three.row_is(three.annex, "crow-work", "crow", "offered")
    after = await three.row(three.annex, "crow-work", "crow")
    assert before is not None
    assert after is not None
    assert before["version"] == after["version"]
    assert await three.annex.said("crow-work") == "I am crow-work."


async def test_a_dead_row_is_told_at_once_and_found_by_doctor(three: Trio) -> None:
    """SYNC-5, GW-14: a row whose engine died answers 502 and is no longer offered; doctor names it."""
    await published(three)
    crow, annex = three.crow, three.annex
    await crow.told("suspend", "crow-work")
    assert code(await annex.chat("crow-work")) == (502, "upstream_unreachable")
    await three.row_is(annex, "crow-work", "crow", "unreached")
    assert "crow-work" not in await models(annex)
    assert code(await annex.chat("crow-work")) == (502, "upstream_unreachable")
    assert (await crow.row("crow-work"))["state"] == "stopped"
    looked = await annex.run("doctor")
    assert "crow-work" in looked.out
    assert "dead row" in looked.out
    seen = await three.row_is(crow, "crow-work", "crow", "ours")
    assert seen["reach"] == {"annex": False, "crow": False, "raven": False}


async def tell(box: Box, key: str, node: str, *rows: Row) -> dict[str, object]:
    """What a node answers to whoever tells it these rows with that key."""
    told = Told(rows=tuple(row_to(row) for row in rows))
    call = ExchangeCall(api=1, node=node, digest=told.digest, told=told)
    async with box.client(key) as client:
        got = await client.post(f"{SYNC}/exchange", json=to_json(call))
    found = got.json()
    assert isinstance(found, dict)
    return {"status": got.status_code, **found}


async def test_a_forged_row_changes_nothing(three: Trio) -> None:
    """SYNC-5, SYNC-6: a peer that is neither author nor owner changes no row, whatever version it writes."""
    await published(three)
    annex, key = three.annex, pair_key("raven", "annex")
    wild = replace(WORK, retired=True, version=10**9)
    evil = replace(WORK, url="http://10.99.0.2:8102", version=10**9)
    mine = replace(WORK, id="crow-own", url="http://127.0.0.1:8103", host="raven", author="raven")
    for row in (wild, evil, replace(wild, author="raven"), replace(wild, author="raven", host="raven"), mine):
        told = await tell(annex, key, "raven", row)
        assert told["status"] == 200, told
        assert await annex.said("crow-work") == "I am crow-work."
        assert (await three.row_is(annex, "crow-work", "crow", "offered"))["version"] == 1
    assert await three.row(annex, "crow-own", "raven") is None
    other = await tell(annex, key, "crow", wild)
    assert other["status"] == 400
    assert (await tell(annex, KEY, "crow", wild))["status"] == 403


async def test_the_key_of_a_pair_opens_the_sync_calls_alone(three: Trio) -> None:
    """SYNC-6, SEC-4: with the key of a pair nothing is read, started, asked of a model or told to a node."""
    await three.start()
    async with three.annex.client(pair_key("crow", "annex")) as client:
        for method, path in (
            ("GET", "/v1/hostler/status"),
            ("GET", SYNC),
            ("POST", f"{SYNC}/publish"),
            ("POST", "/v1/hostler/engines/x/start"),
            ("GET", "/v1/hostler/node"),
            ("GET", "/v1/models"),
            ("POST", "/v1/hostler/config/reload"),
        ):
            got = await client.request(method, path, json={} if method == "POST" else None)
            assert got.status_code == 403, (path, got.text)
        probe = {"api": 1, "node": "crow", "url": "http://127.0.0.1:7070"}
        refused = await client.post(f"{SYNC}/probe", json=probe)
    assert code(refused) == (400, "invalid_request")


async def test_a_converged_fleet_is_silent(three: Trio) -> None:
    """SYNC-5: once all agree nothing is written and no row is sent, whatever is looked at meanwhile."""
    await published(three)
    files = {name: box.state / "sync.json" for name, box in three.boxes.items()}

    async def settled() -> bool:
        """Every peer has all, and each row has every node's word."""
        for name, box in three.boxes.items():
            found = await box.get(SYNC)
            peers, rows = found["peers"], found["rows"]
            assert isinstance(peers, list)
            assert isinstance(rows, list)
            if any(it["waiting"] for it in peers) or any(set(it["reach"]) < set(TRIO) for it in rows):
                return False
            if not files[name].exists():
                return False
        return True

    await eventually(settled, three.crow.words(), patience_s=60.0)

    def seen() -> dict[str, tuple[int, int]]:
        """When each file was written last, and how many exchanges each daemon has begun."""
        return {
            name: (files[name].stat().st_mtime_ns, box.log.read_text().count(f"{SYNC}/exchange"))
            for name, box in three.boxes.items()
        }

    before = seen()
    assert all(begun for _, begun in before.values())
    for box in three.boxes.values():
        await box.told("sync")
        await box.told("reload")
        await box.told("doctor")
        await box.chat("crow-work")
    assert seen() == before
    heard = {name: len(await box.events("rows_heard")) for name, box in three.boxes.items()}
    # A change of somebody's shows that the silence was no deafness.
    await three.raven.is_state("raven-work", "ready")
    await three.raven.told("sync", "publish", "raven-work")
    for box in (three.crow, three.annex):
        await three.row_is(box, "raven-work", "raven", "offered")
    after = {name: len(await box.events("rows_heard")) for name, box in three.boxes.items()}
    assert after == {"crow": heard["crow"] + 1, "raven": heard["raven"], "annex": heard["annex"] + 1}
    assert seen() != before
