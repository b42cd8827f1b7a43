"""Engines of other hosts: their own gateways serve them, and what those refuse is a refusal here (NODE-6)."""

from dataclasses import replace

import pytest

from hostler.domain.fleet import (
    EngineTarget,
    Escalating,
    Escalation,
    Fleet,
    Host,
    Plain,
    Route,
    Secret,
    Strategy,
    frozen,
)
from hostler.domain.values import EngineId, HostName
from hostler.services.keys import keyring
from tests.fakes.clock import ManualClock
from tests.gateway.front import URLS, Front, a_fleet, a_route, front
from tests.gateway.wire import Answer, Target, chat_body
from tests.interfaces.room_fleet import engine

RAVEN = HostName("raven")
KEY = "hk_of_raven_0123"
FAR = EngineId("far/a")
"""An engine whose name must be quoted in a path."""


def targets(*names: str) -> Plain:
    return Plain(targets=tuple(EngineTarget(engine=EngineId(name)) for name in names))


def fleet(*routes: Route, url: str | None, key: str | None = KEY) -> Fleet:
    """Two hosts: `fast` is here, the far one is raven's."""
    far = replace(engine("far", 8109), id=FAR, host=RAVEN, model="far-model")
    made = a_fleet(*routes, engines=(engine("fast", 8101), far))
    raven = Host(name=RAVEN, url=url, key=None if key is None else Secret(key))
    return replace(made, hosts=frozen({**made.hosts, RAVEN: raven}))


def refusing(status: int, code: str) -> bytes:
    """What the gateway of another host answers that refuses."""
    text = (
        f'{{"error": {{"code": "{code}", "message": "no", "retry_after": 60, '
        '"facts": {"host": "raven", "engine": "far/a", "owner": "bench"}}}'
    ).encode()
    head = f"HTTP/1.1 {status} no\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n"
    return head.encode() + b"x-hostler-route: far/a\r\n\r\n" + text


def serving() -> bytes:
    """What it answers when the engine does: it names itself, too."""
    text = b'{"choices": [{"message": {"content": "far"}}]}'
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-hostler-served-by: far/a\r\n"
        b"x-hostler-route: far/a\r\ncontent-length: %d\r\n\r\n" % len(text)
    ) + text


CHAT = a_route("chat", {"p": targets("far/a")})


async def asked(it: Front, model: str = "chat", **headers: str) -> Answer:
    return await it.ask("POST", "/v1/chat/completions", chat_body(model, "hi"), **headers)


@pytest.mark.parametrize("model", ["chat", "far/a"])
async def test_a_request_goes_to_the_gateway_of_the_engines_host(model: str) -> None:
    """NODE-6: it goes to /upstream/<engine> there with that host's key, the hop and the class."""
    raven = Target(answer=serving())
    async with front(fleet(CHAT, url=URLS["raven"]), {"raven": raven}) as it:
        answer = await asked(it, model, authorization="Bearer hk_callers_own", **{"x-hostler-class": "batch"})
        assert answer.status == 200
        assert answer.all("x-hostler-served-by") == ["far/a"]
        assert answer.all("x-hostler-route") == [model]
        (heard,) = raven.heard
        head = heard.head.decode().lower()
        assert head.startswith("post /upstream/far%2fa/v1/chat/completions http/1.1")
        assert f"authorization: bearer {KEY}" in head
        assert "callers_own" not in head
        assert "x-hostler-hop: 1" in head
        assert head.count("x-hostler-class: batch") == 1
        assert b'"model": "far-model"' in heard.body or b'"model":"far-model"' in heard.body


async def test_the_class_of_the_route_goes_along() -> None:
    """NODE-6, GW-6: the far gateway waits for a cold start as long as this route would."""
    raven = Target(answer=serving())
    route = replace(CHAT, request_class="interactive")
    async with front(fleet(route, url=URLS["raven"]), {"raven": raven}) as it:
        await asked(it)
        assert b"x-hostler-class: interactive" in raven.heard[0].head


async def test_what_came_from_a_gateway_goes_no_further() -> None:
    """NODE-6, GW-11: what another gateway sent here for an engine that is elsewhere is a loop."""
    async with front(fleet(CHAT, url=URLS["raven"]), {"raven": Target()}) as it:
        answer = await asked(it, **{"x-hostler-hop": "1"})
        assert (answer.status, answer.error["code"]) == (508, "loop")


@pytest.mark.parametrize(("url", "key", "lacks"), [(None, KEY, "url"), (URLS["raven"], None, "key")])
async def test_a_host_that_cannot_be_asked_is_named(url: str | None, key: str | None, lacks: str) -> None:
    """NODE-3: without url or key of the other host the refusal names the node and what is missing."""
    async with front(fleet(CHAT, url=url, key=key)) as it:
        answer = await asked(it)
        assert (answer.status, answer.error["code"]) == (502, "node_unreachable")
        assert f"hosts.raven.{lacks}" in str(answer.error["message"])


async def test_a_node_that_does_not_answer_is_named_and_left_alone() -> None:
    """NODE-3, NODE-6: a gateway that cannot be reached is told as its node, at once the second time too."""
    async with front(fleet(CHAT, url="http://127.0.0.1:9")) as it:
        for _ in range(2):
            answer = await asked(it)
            assert (answer.status, answer.error["code"]) == (502, "node_unreachable")
            assert "The node of raven" in str(answer.error["message"])
        assert it.backoff.is_off("node raven")


async def test_a_node_that_is_known_to_hang_is_not_asked() -> None:
    """NODE-3: a stopped daemon takes calls and answers none: what the head knows is told at once."""
    raven = Target(answer=serving())
    async with front(fleet(CHAT, url=URLS["raven"]), {"raven": raven}) as it:
        it.gone["raven"] = "no answer within 5 s"
        answer = await asked(it)
        assert (answer.status, answer.error["code"]) == (502, "node_unreachable")
        assert "no answer within 5 s" in str(answer.error["message"])
        assert raven.heard == []
        it.gone.clear()
        assert (await asked(it)).status == 200


async def test_its_refusal_is_told_as_it_came() -> None:
    """NODE-6, GATE-5: what the other gateway refuses reaches the caller with its code and Retry-After."""
    raven = Target(answer=refusing(503, "box_reserved"))
    async with front(fleet(CHAT, url=URLS["raven"]), {"raven": raven}) as it:
        answer = await asked(it)
        assert (answer.status, answer.error["code"]) == (503, "box_reserved")
        assert answer["retry-after"] == "60"
        assert not it.backoff.is_off("node raven")


async def test_a_refusal_there_lets_another_target_serve() -> None:
    """NODE-6, GW-1: when the far gateway refuses, the next target or the fallback of the route serves."""
    raven = Target(answer=refusing(503, "box_reserved"))
    pool = a_route("pool", {"p": targets("far/a", "fast")}, strategy=Strategy(kind="first_ready"))
    back = a_route("back", {"p": targets("far/a"), "least": targets("fast")}, fallback="least")
    async with front(fleet(pool, back, url=URLS["raven"]), {"raven": raven, "fast": Target()}) as it:
        it.up("fast")
        assert (await asked(it, "pool"))["x-hostler-served-by"] == "fast"
        answer = await asked(it, "back")
        assert (answer["x-hostler-served-by"], answer["x-hostler-degraded"]) == ("fast", "box_reserved")


async def test_an_escalation_to_another_host_degrades() -> None:
    """NODE-6, GW-4: an escalating route whose large engine its host refuses answers with the fast one."""
    raven = Target(answer=refusing(503, "box_reserved"))
    voice = a_route(
        "voice",
        {"p": Escalating(fast=EngineId("fast"), large=FAR)},
        escalate=Escalation(token="!escalate"),
    )
    async with front(fleet(voice, url=URLS["raven"]), {"raven": raven, "fast": Target()}) as it:
        it.up("fast")
        answer = await it.chat("voice", "!escalate hi")
        assert (answer["x-hostler-served-by"], answer["x-hostler-degraded"]) == ("fast", "box_reserved")


@pytest.mark.parametrize("text", [b"<html>", b"[" * 20_000])
async def test_what_is_no_refusal_of_ours_is_told_by_its_status(text: bytes) -> None:
    """NODE-3: an error page of something else at that address becomes a refusal with the status's meaning."""
    page = b"HTTP/1.1 503 no\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n%s" % (len(text), text)
    async with front(fleet(CHAT, url=URLS["raven"]), {"raven": Target(answer=page)}) as it:
        answer = await asked(it)
        assert answer.status == 503
        assert answer.error["message"] == "HTTP status 503."


async def test_an_error_of_the_engine_itself_is_passed_on() -> None:
    """NODE-6, GW-14: what the engine answers through its gateway is passed on as it came."""
    raven = Target(answer=serving().replace(b"200 OK", b"400 Bad"))
    async with front(fleet(CHAT, url=URLS["raven"]), {"raven": raven}) as it:
        answer = await asked(it)
        assert answer.status == 400
        assert answer.json == {"choices": [{"message": {"content": "far"}}]}


async def test_a_node_key_opens_what_is_sent_on_and_nothing_else() -> None:
    """NODE-6, SEC-4: with this host's node key other gateways reach its engines, and nothing else."""
    ring = keyring(configured=(), kept=None, local=None, clock=ManualClock(), node="hk_node_of_crow")
    async with front(fleet(CHAT, url=URLS["raven"]), {"fast": Target()}, ring=ring) as it:
        it.up("fast")
        key = {"authorization": "Bearer hk_node_of_crow", "x-hostler-hop": "1"}
        body = chat_body("fast", "hi")
        good = await it.ask("POST", "/upstream/fast/v1/chat/completions", body, **key)
        assert good.status == 200
        refused = await it.ask("POST", "/v1/chat/completions", body, **key)
        assert (refused.status, refused.error["code"]) == (403, "wrong_scope")


async def test_a_read_of_another_hosts_engine_is_sent_on() -> None:
    """NODE-6: a look at an engine of another host goes to its gateway, which starts nothing for it."""
    raven = Target(answer=serving())
    async with front(fleet(CHAT, url=URLS["raven"]), {"raven": raven}) as it:
        answer = await it.ask("GET", "/upstream/far%2Fa/v1/models")
        assert answer.status == 200
        assert raven.heard[0].head.startswith(b"GET /upstream/far%2Fa/v1/models HTTP/1.1")
