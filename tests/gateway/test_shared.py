"""Rows of paired nodes at the gateway: forwarded to as upstreams, and never a reason to start anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.domain.fleet import EngineTarget, Peer, Plain, Secret, frozen
from hostler.domain.registry import Row
from hostler.domain.values import EngineId, HostName
from hostler.services.keys import keyring
from tests.fakes.clock import ManualClock
from tests.gateway.front import Front, a_fleet, a_route, front
from tests.gateway.wire import Target, chat_body

ROW = Row(
    id="far", url="http://annex.test:8101/v1", host="annex", models=("far-model",), version=1, author="annex"
)
ANNEX = HostName("annex")
FLEET = replace(
    a_fleet(a_route("chat", {"p": Plain(targets=(EngineTarget(engine=EngineId("fast")),))})),
    peers=frozen({ANNEX: Peer(name=ANNEX, url="http://annex.test:7070", key=Secret("hk_pair"))}),
)


def untouched(it: Front) -> None:
    """Nothing was started, and nothing was asked of the gate."""
    assert it.driver.started == []
    assert it.events.all == []


async def test_a_row_is_forwarded_to_with_no_key_of_anybody() -> None:
    """SYNC-6, GW-11: the request goes below the row's URL as its model, with the hop and without any key."""
    annex = Target()
    async with front(FLEET, {"annex": annex}) as it:
        await it.gateway.routes.share([ROW])
        answer = await it.chat("far", authorization="Bearer sk-callers-own")
        assert (answer.status, answer["x-hostler-served-by"]) == (200, "far")
        heard = annex.heard[0]
        assert heard.target == b"/v1/chat/completions"
        assert heard.all("authorization") == []
        assert heard.all("x-hostler-hop") == [b"1"]
        assert b'"far-model"' in heard.body
        untouched(it)


async def test_it_is_listed_while_it_is_reached() -> None:
    """SYNC-4, GW-2: a row is offered as a model with its host and node, and not while it is not reached."""
    async with front(FLEET) as it:
        await it.gateway.routes.share([ROW])
        rows = (await it.ask("GET", "/v1/models")).json["data"]
        assert isinstance(rows, list)
        found = {row["id"]: row for row in rows}["far"]
        assert (found["state"], found["host"], found["author"]) == ("remote", "annex", "annex")
        assert found["aliases"] == ["far-model"]
        assert (await it.ask("GET", "/v1/models/far-model")).json["id"] == "far"
        assert (await it.ask("GET", "/v1/models/fast")).json["id"] == "fast"
        await it.gateway.routes.share([replace(ROW, reach=frozen({"crow": False}))])
        rows = (await it.ask("GET", "/v1/models")).json["data"]
        assert isinstance(rows, list)
        assert "far" not in {row["id"] for row in rows}


async def test_a_row_that_was_not_reached_is_refused_at_once() -> None:
    """SYNC-5, GW-14: such a row answers 502 without a connection being tried, and says whose it is."""
    annex = Target()
    async with front(FLEET, {"annex": annex}) as it:
        await it.gateway.routes.share([replace(ROW, reach=frozen({"crow": False}))])
        answer = await it.chat("far")
        assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
        assert "annex says" in str(answer.error["message"])
        assert annex.connections == 0
        untouched(it)


async def test_a_row_that_died_since_is_told_as_unreachable() -> None:
    """SYNC-5, GW-14: a row at which nobody listens answers 502, the second time without a try."""
    async with front(FLEET) as it:
        await it.gateway.routes.share([replace(ROW, url="http://192.0.2.1:9")])
        it.gateway.chooser.places.known["http://192.0.2.1:9 foreign"] = it.gateway.chooser.places.at(
            "http://127.0.0.1:9"
        )
        for _ in range(2):
            answer = await it.chat("far")
            assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
        assert it.backoff.is_off("far")
        untouched(it)


async def test_a_retired_row_stops_resolving_at_once() -> None:
    """SYNC-5: when its rows are swapped, the next request finds the id no more."""
    async with front(FLEET, {"annex": Target()}) as it:
        await it.gateway.routes.share([ROW])
        assert (await it.chat("far")).status == 200
        await it.gateway.routes.share([])
        answer = await it.chat("far")
        assert (answer.status, answer.error["code"]) == (404, "model_not_found")


async def test_what_a_gateway_sent_on_is_not_sent_on_again() -> None:
    """SYNC-6, GW-11: a request that another gateway forwarded here is not forwarded to a row: 508."""
    annex = Target()
    async with front(FLEET, {"annex": annex}) as it:
        await it.gateway.routes.share([ROW])
        answer = await it.chat("far", **{"x-hostler-hop": "1"})
        assert answer.error["code"] == "loop"
        assert annex.heard == []


async def test_a_row_is_no_engine_of_ours() -> None:
    """SYNC-6: neither /upstream/<id> nor a name of this config leads to a row."""
    async with front(FLEET, {"annex": Target(), "fast": Target()}) as it:
        await it.gateway.routes.share([ROW, replace(ROW, id="fast"), replace(ROW, id="chat")])
        got = await it.ask("POST", "/upstream/far/v1/chat/completions", chat_body("far", "hi"))
        assert (got.status, got.error["code"]) == (404, "engine_not_found")
        it.up("fast")
        for model in ("fast", "chat"):
            assert (await it.chat(model))["x-hostler-served-by"] == "fast"


@pytest.mark.parametrize(
    ("url", "why"), [("http://localhost:9", "this machine"), ("http://127.1:9", "never")]
)
async def test_a_name_of_this_machine_is_never_dialled(url: str, why: str) -> None:
    """SYNC-2, SYNC-6: a row whose name leads to this machine once it is looked up is not dialled."""
    async with front(FLEET) as it:
        await it.gateway.routes.share([replace(ROW, url=url)])
        answer = await it.chat("far")
        assert (answer.status, answer.error["code"]) == (502, "upstream_unreachable")
        assert why in str(answer.error["message"])


async def test_a_reload_keeps_the_rows_of_whom_it_pairs_with() -> None:
    """SYNC-6, CONF-3: after a reload rows of paired nodes are resolved, those of others are not."""
    async with front(FLEET) as it:
        await it.gateway.routes.share([ROW])
        it.gateway.routes.retable(FLEET)
        assert "far" in it.gateway.routes.table.shared
        it.gateway.routes.retable(replace(FLEET, peers=frozen({})))
        assert it.gateway.routes.table.shared == {}


async def test_the_key_of_a_pair_asks_no_model() -> None:
    """SYNC-6: a peer cannot infer here with the key of the pair."""
    ring = keyring(
        configured=(), kept=None, local=None, clock=ManualClock(), peers=list(FLEET.peers.values())
    )
    async with front(FLEET, {"fast": Target()}, ring=ring) as it:
        answer = await it.chat("chat", authorization="Bearer hk_pair")
        assert (answer.status, answer.error["code"]) == (403, "wrong_scope")
