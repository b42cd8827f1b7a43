from dataclasses import replace
from urllib.parse import quote

import pytest

from hostler.domain.fleet import EngineTarget, Escalating, Key, Plain, UpstreamTarget
from hostler.domain.values import EngineId, HostName, ServingClass
from hostler.services.keys import digest_of, keyring
from tests.fakes.clock import ManualClock
from tests.gateway.front import a_fleet, a_route, front
from tests.gateway.wire import Target
from tests.interfaces.room_fleet import engine

FAST = Plain(targets=(EngineTarget(engine=EngineId("fast")),))
CHAT = a_route(
    "chat",
    {"local": Escalating(fast=EngineId("fast"), large=EngineId("large"))},
    aliases=("gpt-4o-mini",),
    description="The assistant",
)
CLOUD = a_route("away", {"cloud": Plain(targets=(UpstreamTarget(upstream="cloud"),))})
NONE = a_route("idle", {"a": FAST, "b": FAST}, active=None)
NAMES = (
    "mistralai/mistral-7b",
    "a:b:free",
    "my model",
    "q@q4",
    "%2e%2e",
    "modèlé",
    "MODEL",
    "model",
    "a//b",
    "t/",
)


async def test_the_list() -> None:
    """GW-2, ENG-11: the list has routes and engines with their state, and none that is hidden or a member."""
    heavy = replace(engine("heavy", 8105), serving_class=ServingClass.WEDGE_RISK, context=4096)
    unseen = replace(engine("x", 8106), hidden=True), replace(engine("y", 8107), of=EngineId("z"))
    engines = (engine("fast", 8101), engine("large", 8102), heavy, *unseen)
    async with front(a_fleet(CHAT, CLOUD, NONE, engines=engines)) as it:
        it.up("fast")
        answer = await it.ask("GET", "/v1/models")
        rows = answer.json["data"]
        assert isinstance(rows, list)
        found = {row["id"]: row for row in rows}
        assert list(found) == ["chat", "away", "idle", "fast", "large", "heavy"]
        assert found["chat"]["state"] == "ready"
        assert found["chat"]["profile"] == "local"
        assert found["chat"]["aliases"] == ["gpt-4o-mini"]
        assert found["away"]["host"] == "cloud"
        assert (found["idle"]["state"], found["idle"]["profile"]) == ("no_profile", None)
        assert (found["large"]["state"], found["large"]["host"]) == ("stopped", "crow")
        assert (found["heavy"]["class"], found["heavy"]["context_length"]) == ("wedge-risk", 4096)
        assert all(row["object"] == "model" for row in rows)


async def test_it_starts_nothing() -> None:
    """GW-2: listing and looking at models asks no engine, starts none, and reads neither hold nor memory."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.machine.broken = "the machine cannot be read"
        for path in ("/v1/models", "/v1/models/chat", "/llm/v1/models", "/v1/models/large"):
            assert (await it.ask("GET", path)).status == 200
        assert target.heard == []
        assert (it.driver.started, it.hold.reads) == ([], 0)


@pytest.mark.parametrize("name", NAMES)
async def test_every_name_of_the_list_is_found(name: str) -> None:
    """GW-2: a name of the list works in the body, and in the path plain and encoded."""
    target = Target()
    async with front(a_fleet(*(a_route(each, {"p": FAST}) for each in NAMES)), {"fast": target}) as it:
        it.up("fast")
        for path in (quote(name, safe=""), quote(name)):
            answer = await it.ask("GET", f"/v1/models/{path}")
            assert (answer.status, answer.json["id"]) == (200, name)
        if name.isascii() and " " not in name:
            assert (await it.ask("GET", f"/v1/models/{name}")).json["id"] == name
        assert (await it.chat(name)).status == 200
        assert target.heard[-1].body.startswith(b'{"model": "fast", ')


async def test_an_alias_and_a_case() -> None:
    """GW-2: an alias finds its route under the route's name, and names that differ in case are two."""
    async with front(a_fleet(CHAT, a_route("Chat", {"p": FAST}))) as it:
        assert (await it.ask("GET", "/v1/models/gpt-4o-mini")).json["id"] == "chat"
        assert (await it.ask("GET", "/v1/models/Chat")).json["id"] == "Chat"
        missing = await it.ask("GET", "/v1/models/CHAT")
        assert (missing.status, missing.error["code"]) == (404, "model_not_found")


async def test_head_and_others() -> None:
    """GW-2: HEAD answers as GET without a body, and anything else is 405 with what is allowed."""
    async with front(a_fleet(CHAT)) as it:
        whole = await it.ask("GET", "/v1/models")
        head = await it.ask("HEAD", "/v1/models")
        assert (head.status, head.body) == (200, b"")
        assert head["content-length"] == whole["content-length"]
        refused = await it.ask("POST", "/v1/models")
        assert (refused.status, refused.error["code"]) == (405, "method_not_allowed")
        assert it.rows == []


async def test_a_key_sees_its_own_routes() -> None:
    """API-4: a key with a list of routes sees these alone, and another is as if it were not there."""
    key = Key(name="bots", digest=digest_of("k1"), scopes=frozenset({"infer"}), routes=frozenset({"chat"}))
    ring = keyring(configured=(key,), kept=(), local=None, clock=ManualClock())
    async with front(a_fleet(CHAT, CLOUD), ring=ring) as it:
        answer = await it.ask("GET", "/v1/models", authorization="Bearer k1")
        rows = answer.json["data"]
        assert isinstance(rows, list)
        assert [row["id"] for row in rows] == ["chat"]
        hidden = await it.ask("GET", "/v1/models/away", authorization="Bearer k1")
        assert (hidden.status, hidden.error["code"]) == (404, "model_not_found")
        assert "away" not in str(hidden.error["hint"])


async def test_a_route_of_another_gateway() -> None:
    """GW-1: a route whose `on` names other hosts is neither listed nor served here."""
    there = a_route("there", {"p": FAST}, on=(HostName("raven"),))
    async with front(a_fleet(CHAT, there)) as it:
        assert b"there" not in (await it.ask("GET", "/v1/models")).body
        assert (await it.chat("there")).error["code"] == "model_not_found"
