import json
from dataclasses import replace

import pytest

from hostler.domain.fleet import (
    EngineTarget,
    Escalating,
    Escalation,
    Gateway,
    Key,
    Plain,
    Route,
    UpstreamTarget,
    frozen,
)
from hostler.domain.values import EngineId
from hostler.services.keys import Keyring, digest_of, keyring
from tests.fakes.clock import ManualClock
from tests.gateway.front import Front, a_fleet, a_route, front
from tests.gateway.wire import Target, chat_body, parsed, request
from tests.interfaces.room_fleet import engine

FAST = Plain(targets=(EngineTarget(engine=EngineId("fast")),))
CHAT = a_route("chat", {"p": FAST})
CLOUD = a_route("cloud", {"p": Plain(targets=(UpstreamTarget(upstream="cloud"),))})
CHAT_PATH = "/v1/chat/completions"


def ring(*keys: Key) -> Keyring:
    return keyring(configured=keys, kept=(), local="hk_local", clock=ManualClock())


def a_key(name: str, scope: str, routes: frozenset[str] | None = None) -> Key:
    return Key(name=name, digest=digest_of(name), scopes=frozenset({scope}), routes=routes)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b'{"model": "chat"} x', "no JSON"),
        (b"[]", "no JSON object"),
        (b'"chat"', "no JSON object"),
        (b"{}", "names no `model`"),
        (b'{"model": ""}', "is empty"),
        (b'{"model": 3}', "model"),
        (b'{"model": null}', "model"),
        (b'{"model": "chat", "model": "embed"}', "twice"),
        (b'{"model": "\xff"}', ""),
    ],
)
async def test_bodies_that_cannot_be_routed(body: bytes, said: str) -> None:
    """GW-14: a body that is no JSON, no object, or names no model is 400, and says which of these it is."""
    async with front(a_fleet(CHAT)) as it:
        it.up("fast")
        answer = await it.ask("POST", CHAT_PATH, body)
        assert (answer.status, answer.error["code"]) == (400, "invalid_request")
        assert said in str(answer.error["message"])
        assert answer.error["type"] == "invalid_request_error"
        assert it.outcomes == ["refused"]


async def test_an_unknown_model() -> None:
    """GW-2: an unknown model is 404 `model_not_found`, names the nearest, and is no path of the caller's."""
    async with front(a_fleet(CHAT, a_route("Chat-large", {"p": FAST}))) as it:
        answer = await it.chat("chat-larg")
        assert (answer.status, answer.error["code"], answer.error["param"]) == (
            404,
            "model_not_found",
            "model",
        )
        assert "Chat-large" in str(answer.error["hint"])
        assert (await it.chat("x\x1b[2J" * 90)).status == 404


async def test_a_route_without_a_profile() -> None:
    """GW-1: a route with profiles and no active one is refused, and says how one is set."""
    async with front(a_fleet(a_route("idle", {"a": FAST, "b": FAST}, active=None))) as it:
        answer = await it.chat("idle")
        assert answer.status == 404
        assert "hostler routes set idle" in str(answer.error["hint"])


async def test_methods() -> None:
    """GW-14: an inference path takes POST; another method is 405 and no row of the table stays behind."""
    async with front(a_fleet(CHAT)) as it:
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
            assert (await it.ask(method, CHAT_PATH)).status == 405
        assert (await it.ask("GET", "/v1/hostler/engines")).body == b"control"
        assert it.rows == []


# ---------------------------------------------------------------- keys


async def test_no_keys() -> None:
    """API-4: while no keys are configured loopback may ask models, and the table names nobody's key."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        assert (await it.chat()).status == 200
        assert it.ends[0][2].requester.key == "-"


async def test_keys() -> None:
    """API-4: with keys an unknown one is 401, one without the right is 403, and a good one is named."""
    async with front(
        a_fleet(CHAT), {"fast": Target()}, ring=ring(a_key("bots", "infer"), a_key("wall", "board"))
    ) as it:
        it.up("fast")
        refused: tuple[dict[str, str], ...]
        refused = ({}, {"authorization": "Bearer x"}, {"x_api_key": "x"}, {"authorization": "bots x"})
        for sent in refused:
            answer = await it.chat(**sent)
            assert (answer.status, answer.error["code"]) == (401, "no_key")
            assert answer.error["type"] == "authentication_error"
        answer = await it.chat(authorization="Bearer wall")
        assert (answer.status, answer.error["code"]) == (403, "wrong_scope")
        for sent in ({"authorization": "Bearer bots"}, {"x_api_key": "bots"}):
            assert (await it.chat(**sent)).status == 200
            assert it.ends[-1][2].requester.key == "bots"
        assert (await it.ask("GET", "/v1/models")).status == 401
        assert (await it.ask("GET", "/v1/models", authorization="Bearer wall")).status == 200
        assert (await it.ask("GET", "/upstream/fast/health")).status == 401


async def test_a_keys_routes() -> None:
    """API-4: a key with a list of routes may use these by name or alias, and no other, no engine either."""
    chat = replace(CHAT, aliases=("gpt",))
    keys = ring(a_key("bots", "infer", frozenset({"chat"})))
    async with front(a_fleet(chat, CLOUD), {"fast": Target(), "cloud": Target()}, ring=keys) as it:
        it.up("fast")
        key: dict[str, str] = {"authorization": "Bearer bots"}
        assert [(await it.chat(name, **key)).status for name in ("chat", "gpt")] == [200, 200]
        for name in ("cloud", "fast"):
            assert (await it.chat(name, **key)).error["code"] == "model_not_found"
        assert (await it.ask("POST", "/upstream/fast/x", b"", **key)).status == 404


async def test_a_foreign_page() -> None:
    """API-4: a page of another site and a rebound name are refused on inference paths, before any key."""
    async with front(a_fleet(CHAT), {"fast": Target()}) as it:
        it.up("fast")
        assert (await it.chat(origin="https://evil.example.net")).status == 403
        assert (await it.chat(sec_fetch_site="cross-site")).status == 403
        assert (await it.chat(host="evil.example.net")).status == 403
        assert (await it.chat(origin="http://127.0.0.1")).status == 200


# ---------------------------------------------------------------- bodies


def small(it: Front) -> int:
    return it.fleet.gateway.max_body


async def test_too_large() -> None:
    """GW-12: one byte over the limit is 413, declared or not, and names the setting that moves it."""
    fleet = a_fleet(CHAT, gateway=Gateway(max_body=200))
    async with front(fleet, {"fast": Target()}) as it:
        it.up("fast")
        fits = chat_body("chat", "x" * (200 - len(chat_body("chat", ""))))
        assert len(fits) == small(it)
        assert (await it.ask("POST", CHAT_PATH, fits)).status == 200
        declared = await it.ask("POST", CHAT_PATH, fits + b" ")
        assert (declared.status, declared.error["code"]) == (413, "too_large")
        assert "gateway.max_body" in str(declared.error["hint"])
        chunked = await it.server.connect()
        head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        chunked.send(head.encode() + b"c9\r\n" + fits + b" " + b"\r\n")
        assert parsed(await chunked.rest()).status == 413


async def test_a_routes_own_limit() -> None:
    """GW-12: a route's `max_body` is its own, above the gateway's or under it; edited routes take 8 MiB."""
    own = {"max_body": 300}
    edited: Route = a_route("edited", {"p": FAST}, patches=frozen({"fast": frozen({"a": 1})}))
    fleet = a_fleet(a_route("wide", {"p": FAST}, **own), CHAT, edited, gateway=Gateway(max_body=200))
    async with front(fleet, {"fast": Target()}) as it:
        it.up("fast")
        body = chat_body("wide", "x" * 220)
        assert (await it.ask("POST", CHAT_PATH, body)).status == 200
        refused = await it.ask("POST", CHAT_PATH, chat_body("chat", "x" * 220))
        assert refused.status == 413
        assert "routes.chat.max_body" in str(refused.error["hint"])
    async with front(replace(fleet, gateway=Gateway()), {"fast": Target()}) as it:
        it.up("fast")
        assert (await it.ask("POST", CHAT_PATH, chat_body("edited", "x" * (8 << 20)))).status == 413
        assert (await it.ask("POST", CHAT_PATH, chat_body("chat", "x" * (8 << 20)))).status == 200


async def test_a_body_in_bytes() -> None:
    """GW-12: a body that comes as chunks of one byte arrives whole and as it was sent."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        body = chat_body("fast", "öäü")
        client = await it.server.connect()
        client.send(f"POST {CHAT_PATH} HTTP/1.1\r\nhost: localhost\r\n".encode())
        client.send(b"transfer-encoding: chunked\r\n\r\n")
        for byte in body:
            client.send(b"1\r\n%c\r\n" % byte)
            await client.writer.drain()
        client.send(b"0\r\n\r\n")
        assert b" 200 " in await client.head()
        assert target.heard[0].body == body


async def test_expect_continue() -> None:
    """GW-12: a client that asks first hears 413 instead of 100 when its body would be too large."""
    async with front(a_fleet(CHAT, gateway=Gateway(max_body=200)), {"fast": Target()}) as it:
        client = await it.send("POST", CHAT_PATH, content_length="999999", expect="100-continue")
        assert b" 413 " in await client.head()
        body = chat_body("fast")
        client = await it.server.connect()
        asks = request("POST", CHAT_PATH, content_length=str(len(body)), expect="100-continue")
        it.up("fast")
        client.send(asks)
        assert b" 100 " in await client.head()
        client.send(body)
        assert b" 200 " in await client.head()


# ---------------------------------------------------------------- classes of waiting


async def test_an_unknown_class() -> None:
    """GW-6: an unknown x-hostler-class is 400 and names the nearest there is."""
    async with front(a_fleet(CHAT)) as it:
        answer = await it.chat(x_hostler_class="bach")
        assert (answer.status, answer.error["code"]) == (400, "invalid_request")
        assert "batch" in str(answer.error["hint"])


@pytest.mark.parametrize(
    ("header", "key", "route", "expected"),
    [
        ("interactive", "batch", "batch", 10),
        (None, "interactive", "batch", 10),
        (None, None, "interactive", 10),
        (None, None, "chat", 120),
        ("batch", "chat", "chat", 600),
    ],
)
async def test_whose_class_counts(header: str | None, key: str | None, route: str, expected: int) -> None:
    """GW-6: the header's class is waited for, else the key's, else the route's."""
    keys = ring(replace(a_key("bots", "infer"), request_class=key))
    slow = replace(engine("fast", 8101), start_timeout_s=3600.0)
    async with front(a_fleet(replace(CHAT, request_class=route), engines=(slow,)), ring=keys) as it:
        it.driver.loading.add(EngineId("fast"))
        sent = {"authorization": "Bearer bots", **({"x_hostler_class": header} if header else {})}
        client = await it.send("POST", CHAT_PATH, chat_body("chat"), connection="close", **sent)
        while it.lanes.get("fast").state != "starting":
            await it.clock.advance(0)
        await it.clock.advance(expected - 1)
        assert len(it.rows) == 1
        await it.clock.advance(1.1)
        answer = parsed(await client.rest())
        assert (answer.status, answer.error["code"]) == (503, "loading")


# ---------------------------------------------------------------- loops, and the rest of an engine


@pytest.mark.parametrize(("hop", "status"), [("0", 200), ("1", 200), ("2", 508), ("x", 508), ("1, 1", 508)])
async def test_the_loop_guard(hop: str, status: int) -> None:
    """GW-11: gateway to gateway is the one hop there is; a second one, or nonsense, is 508."""
    target = Target()
    async with front(a_fleet(CHAT), {"fast": target}) as it:
        it.up("fast")
        answer = await it.chat(x_hostler_hop=hop)
        assert answer.status == status
        if status == 200:
            assert target.heard[0].all("x-hostler-hop") == [str(int(hop) + 1).encode()]
        else:
            assert answer.error["code"] == "loop"


async def test_the_rest_of_an_engine() -> None:
    """GW-10: /upstream/<engine> passes any method, path and body to it, also beside a route of its name."""
    target = Target()
    async with front(a_fleet(a_route("fast", {"p": FAST})), {"fast": target}) as it:
        it.up("fast")
        assert (await it.ask("GET", "/upstream/fast/slots?x=%2F")).status == 200
        assert (await it.ask("PUT", "/upstream/fast/x%2Fy", b"not json")).status == 200
        assert [heard.target for heard in target.heard] == [b"/slots?x=%2F", b"/x%2Fy"]
        assert target.heard[1].body == b"not json"
        missing = await it.ask("GET", "/upstream/fats/slots")
        assert (missing.status, missing.error["code"]) == (404, "engine_not_found")
        assert "fast" in str(missing.error["hint"])


async def test_a_look_is_no_start() -> None:
    """API-2: a GET below /upstream starts nothing, says why, and counts as no refused start."""
    async with front(a_fleet(CHAT)) as it:
        down = await it.ask("GET", "/upstream/fast/metrics")
        assert (down.status, down.error["code"]) == (502, "upstream_unreachable")
        it.held("bench")
        held = await it.ask("GET", "/upstream/fast/metrics")
        assert (held.status, held.error["code"]) == (503, "box_reserved")
        assert it.driver.started == []
        assert it.events.types == []


async def test_a_write_starts() -> None:
    """GW-10: a POST below /upstream may start its engine, as any request."""
    async with front(a_fleet(CHAT), {"fast": Target()}) as it:
        assert (await it.ask("POST", "/upstream/fast/v1/rerank", b"{}")).status == 200
        assert it.driver.started == ["fast"]


# ---------------------------------------------------------------- what it costs


async def test_a_running_engine_costs_no_look_at_anything() -> None:
    """GW-3: a request for a running engine reads neither hold nor memory and asks no gate."""
    route = a_route("voice", {"p": Escalating(fast=EngineId("fast"), large=EngineId("large"))})
    fleet = a_fleet(CHAT, replace(route, escalate=Escalation(token="!escalate")))
    async with front(fleet, {"fast": Target()}) as it:
        it.up("fast")
        it.machine.broken = "the machine cannot be read"
        for model in ("chat", "voice", "fast"):
            assert (await it.chat(model)).status == 200
        assert it.hold.reads == 0
        assert it.events.types[-1] == "engine_ready"


async def test_a_pipeline() -> None:
    """GW-9: requests that come in one piece on one connection are answered in order, each with its row."""
    async with front(a_fleet(CHAT), {"fast": Target()}) as it:
        it.up("fast")
        client = await it.server.connect()
        client.send(request("POST", CHAT_PATH, chat_body("nobody")) + request("GET", "/v1/models"))
        client.send(request("POST", CHAT_PATH, chat_body("chat")))
        answers = [await client.answer() for _ in range(3)]
        assert [status for status, _ in answers] == [404, 200, 200]
        assert json.loads(answers[2][1]) == {}
        assert (it.rows, sorted(it.outcomes)) == ([], ["ok", "ok", "refused"])
