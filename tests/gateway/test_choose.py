import json
import logging
from dataclasses import replace
from typing import Literal

import pytest

from hostler.domain.engine import Failed
from hostler.domain.fleet import (
    Engine,
    EngineTarget,
    Escalating,
    Escalation,
    Gateway,
    Plain,
    Profile,
    Route,
    Secret,
    Strategy,
    Upstream,
    UpstreamTarget,
    frozen,
)
from hostler.domain.values import EngineId
from tests.gateway.front import Front, a_fleet, a_route, front
from tests.gateway.wire import Answer, Target, chat_body
from tests.interfaces.room_fleet import engine

PATH = "/v1/chat/completions"
VOICE = a_route(
    "voice",
    {"local": Escalating(fast=EngineId("fast"), large=EngineId("large"))},
    escalate=Escalation(token="!escalate", when_tools=True, intent=(r"(?i)\bturn\b.*\bon\b",), lookback=2),
)
NOTE = "The larger model is unavailable (held by bench until 2026-09-04T20:47:11.482Z); answer within"
TOOLS = [{"type": "function", "function": {"name": "lamp"}}]


def engines(*names: str) -> Plain:
    return Plain(targets=tuple(EngineTarget(engine=EngineId(name)) for name in names))


def pool(strategy: Strategy, *names: str) -> Route:
    """A route over engines that do not exclude each other."""
    return a_route("pool", {"p": engines(*names)}, strategy=strategy)


def free() -> tuple[Engine, ...]:
    return (engine("fast", 8101), engine("large", 8102), engine("embed", 8103))


async def served_by(it: Front, model: str, text: str = "hi") -> str | None:
    answer = await it.chat(model, text)
    assert answer["x-hostler-route"] == model
    return answer["x-hostler-served-by"]


def three() -> dict[str, Target]:
    return {name: Target() for name in ("fast", "large", "embed")}


# ---------------------------------------------------------------- plain routes


async def test_pin() -> None:
    """GW-1: `pin` is the first target alone: another one that is ready does not serve it."""
    route = pool(Strategy(kind="pin"), "fast", "embed")
    async with front(a_fleet(route, engines=free()), three()) as it:
        it.up("embed")
        assert await served_by(it, "pool") == "fast"
        assert it.driver.started == ["fast"]


async def test_first_ready() -> None:
    """GW-1: `first_ready` is the first that runs; none is started while another could serve."""
    route = pool(Strategy(kind="first_ready"), "fast", "embed", "large")
    async with front(a_fleet(route, engines=free()), three()) as it:
        it.up("embed", "large")
        assert await served_by(it, "pool") == "embed"
        assert it.driver.started == []


async def test_least_loaded_and_spill() -> None:
    """GW-1: `least_loaded` is the one with the fewest requests, `spill` fills the first up to its bound."""
    both = {"p": engines("fast", "embed")}
    least = a_route("least", both, strategy=Strategy(kind="least_loaded"))
    spill = a_route("spill", both, strategy=Strategy(kind="spill", spill=1))
    async with front(a_fleet(least, spill, engines=free()), three()) as it:
        it.up("fast", "embed")
        assert [await served_by(it, name) for name in ("least", "spill")] == ["fast", "fast"]
        busy = it.gateway.requests.open(it.ends[0][2].requester, route="pool", path=PATH, cut=lambda _: None)
        it.lanes.get("fast").enter(busy)
        assert [await served_by(it, name) for name in ("least", "spill")] == ["embed", "embed"]


async def test_the_next_target() -> None:
    """GW-13: a target that cannot be reached lets the next one serve; one that answered does not."""
    targets = (UpstreamTarget(upstream="cloud"), EngineTarget(engine=EngineId("fast")))
    route = a_route("chat", {"p": Plain(targets=targets)}, strategy=Strategy(kind="first_ready"))
    async with front(a_fleet(route), {"fast": Target()}) as it:
        it.up("fast")
        it.gateway.chooser.places.known["http://cloud.example.net/v1"] = it.gateway.chooser.places.at(
            "http://127.0.0.1:9"
        )
        assert await served_by(it, "chat") == "fast"
    failing = Target(answer=b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}")
    async with front(a_fleet(route), {"cloud": failing, "fast": Target()}) as it:
        it.up("fast")
        assert (await it.chat("chat")).status == 500


@pytest.mark.parametrize("needs_start", [False, True])
async def test_the_fallback(needs_start: bool) -> None:
    """GW-1: instead of a refusal the fallback serves, marked as degraded, and only if it needs no start."""
    route = a_route("chat", {"p": engines("large"), "least": engines("embed")}, fallback="least")
    targets = three()
    async with front(a_fleet(route), targets) as it:
        if not needs_start:
            it.up("embed")
        it.held()
        answer = await it.chat("chat")
        if needs_start:
            assert (answer.status, answer.error["code"]) == (503, "box_reserved")
            assert answer["x-hostler-degraded"] is None
        else:
            assert (answer["x-hostler-degraded"], answer["x-hostler-served-by"]) == ("box_reserved", "embed")
            assert json.loads(targets["embed"].heard[0].body)["messages"][0]["role"] == "system"
        assert it.driver.started == []


async def test_an_upstream_is_told_its_own_name_and_key() -> None:
    """GW-11: an upstream gets its own model name, path and key, and never the caller's key."""
    cloud = Upstream(name="cloud", url="http://cloud.example.net/v1", key=Secret("sk-ours"))
    spare = Upstream(name="spare", url="http://spare.example.net/base")
    routes = [
        a_route(name, {"p": Plain(targets=(UpstreamTarget(upstream=name, model=model),))})
        for name, model in (("cloud", "big"), ("spare", None))
    ]
    fleet = a_fleet(*routes, upstreams=frozen({"cloud": cloud, "spare": spare}))
    target, other = Target(), Target()
    async with front(fleet, {"cloud": target, "spare": other}) as it:
        for name in ("cloud", "spare"):
            await it.chat(name, authorization="Bearer sk-caller", x_api_key="sk-caller")
        first, second = target.heard[0], other.heard[0]
        assert (first.target, second.target) == (b"/v1/chat/completions", b"/base/v1/chat/completions")
        assert first.all("authorization") == [b"Bearer sk-ours"]
        assert b"sk-caller" not in first.head + second.head
        assert second.all("authorization") == []
        assert json.loads(first.body)["model"] == "big"
        assert second.body == chat_body("spare")


async def test_patches() -> None:
    """GW-4: a target's patches change the keys that they name; another target's leave the body alone."""
    patches = frozen({"fast": frozen({"chat_template_kwargs": frozen({"enable_thinking": False})})})
    route = a_route("chat", {"p": engines("fast")}, patches=patches)
    targets = three()
    async with front(a_fleet(route, a_route("e", {"p": engines("embed")}, patches=patches)), targets) as it:
        it.up("fast", "embed")
        body = b'{"model":"chat", "chat_template_kwargs": {"a":1.50},"messages":[]}'
        await it.ask("POST", PATH, body)
        assert targets["fast"].heard[0].body == (
            b'{"model":"fast", "chat_template_kwargs": {"a":1.50,"enable_thinking":false},"messages":[]}'
        )
        await it.ask("POST", PATH, body.replace(b'"chat"', b'"e"', 1))
        assert targets["embed"].heard[0].body == body.replace(b'"chat"', b'"embed"', 1)


# ---------------------------------------------------------------- escalating routes


async def voice(it: Front, messages: object, *, tools: bool = False, **headers: str) -> Answer:
    offered = {"tools": TOOLS} if tools else {}
    body = json.dumps({"model": "voice", "messages": messages, **offered}).encode()
    return await it.ask("POST", PATH, body, **headers)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


PARTS = [
    {"type": "image_url", "image_url": {"url": "data:,x"}},
    {"type": "text", "text": "!escalate plan it"},
]
CALLED = [
    user("do it"),
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "done"},
]


@pytest.mark.parametrize(
    ("messages", "tools", "large"),
    [
        ([user("hello")], False, False),
        ([user("!escalate hello")], False, True),
        ([user("  !escalate")], False, True),
        ([user("!escalated hello")], False, False),
        ([user("say !escalate")], False, False),
        ([user(PARTS)], False, True),
        ([user("!escalate a"), user("b")], False, False),
        ([user("Turn the lamp on")], True, True),
        ([user("Turn the lamp on")], False, False),
        ([user("hello")], True, False),
        (CALLED, False, True),
        ([*CALLED, user("a"), user("b")], False, True),
        ([*CALLED, user("a"), user("b"), user("c")], False, False),
        ([], False, False),
        ("no list", False, False),
        ([3, None, user("!escalate x")], False, True),
    ],
)
async def test_which_engine(messages: object, tools: bool, large: bool) -> None:
    """GW-4: a leading token, an intent with tools, and recent tool activity ask for large; nothing else."""
    targets = three()
    fleet = a_fleet(VOICE, engines=free())
    async with front(fleet, targets) as it:
        it.up("fast", "large")
        answer = await voice(it, messages, tools=tools)
        assert answer["x-hostler-served-by"] == ("large" if large else "fast")
        assert answer["x-hostler-degraded"] is None


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("!escalate  plan it", "plan it"),
        ("!escalate", ""),
        (PARTS, [PARTS[0], {"type": "text", "text": "plan it"}]),
    ],
)
@pytest.mark.parametrize("held", [False, True])
async def test_the_token_is_stripped(content: object, left: object, held: bool) -> None:
    """GW-4: the token is gone from a string and from parts, also when the answer is degraded."""
    targets = three()
    async with front(a_fleet(VOICE, engines=free()), targets) as it:
        it.up("fast")
        if held:
            it.held()
        else:
            it.up("large")
        answer = await voice(it, [user(content)])
        assert answer.status == 200
        sent = json.loads(targets["fast" if held else "large"].heard[0].body)
        assert sent["messages"][-1] == {"role": "user", "content": left}


async def test_large_serves_both() -> None:
    """GW-4: while large is ready and fast is not, large serves both and no engine is swapped."""
    async with front(a_fleet(VOICE), three()) as it:
        it.up("large")
        assert await served_by(it, "voice") == "large"
        assert it.driver.started == []


async def test_both_down() -> None:
    """GW-4: while neither runs, fast is started for a plain request and large for one that asks for it."""
    async with front(a_fleet(VOICE), three()) as it:
        assert await served_by(it, "voice") == "fast"
        assert it.driver.started == ["fast"]
        await it.clock.advance(120)
        assert await served_by(it, "voice", "!escalate x") == "large"
        assert it.driver.started == ["fast", "large"]


async def test_degraded() -> None:
    """GATE-6: large held, fast ready: 200 by fast with the note, the headers and the metric's mark."""
    targets = three()
    async with front(a_fleet(VOICE), targets) as it:
        it.up("fast")
        it.held()
        answer = await voice(it, [user("!escalate x")])
        assert answer.status == 200
        assert answer["x-hostler-degraded"] == "box_reserved"
        assert answer["x-hostler-served-by"] == "fast"
        assert answer["x-hostler-route"] == "voice"
        messages = json.loads(targets["fast"].heard[0].body)["messages"]
        assert [message["role"] for message in messages] == ["system", "user"]
        assert messages[0]["content"].startswith(NOTE)
        assert it.ends[0][2].degraded == "box_reserved"
        assert it.driver.started == []
        assert it.events.of("start_refused")[0].facts["route"] == "voice"


async def test_a_degraded_answer_can_be_declined() -> None:
    """GATE-6: with x-hostler-no-degrade: 1 the caller gets the 503 instead, and fast is not asked."""
    targets = three()
    async with front(a_fleet(VOICE), targets) as it:
        it.up("fast")
        it.held()
        answer = await voice(it, [user("!escalate x")], x_hostler_no_degrade="1")
        assert (answer.status, answer.error["code"]) == (503, "box_reserved")
        assert targets["fast"].heard == []


@pytest.mark.parametrize(
    ("note", "roles", "system"),
    [
        ("merge", ["system", "user"], "Be kind.\n\nN"),
        ("first", ["system", "system", "user"], "N"),
        ("last", ["system", "user", "system"], "Be kind."),
    ],
)
async def test_where_the_note_goes(
    note: Literal["merge", "first", "last"], roles: list[str], system: str
) -> None:
    """GATE-6: the note stands where the engine's template takes it: merged, first, or last."""
    fast = replace(engine("fast", 8101, group="main"), note=note)
    targets = three()
    fleet = a_fleet(VOICE, engines=(fast, engine("large", 8102, group="main")))
    async with front(replace(fleet, gateway=Gateway(degrade_note="N")), targets) as it:
        it.up("fast")
        it.held()
        await voice(it, [{"role": "system", "content": "Be kind."}, user("!escalate x")])
        messages = json.loads(targets["fast"].heard[0].body)["messages"]
        assert [message["role"] for message in messages] == roles
        assert messages[0]["content"] == system


async def test_neither_can_serve() -> None:
    """GW-4: large held and fast down is the refusal; a degraded answer never starts anything."""
    async with front(a_fleet(VOICE), three()) as it:
        it.held()
        for text in ("!escalate x", "x"):
            answer = await voice(it, [user(text)])
            assert (answer.status, answer.error["code"]) == (503, "box_reserved")
        assert it.driver.started == []


@pytest.mark.parametrize("declined", [False, True])
async def test_a_start_that_fails_degrades(declined: bool) -> None:
    """GW-4: large that failed to start lets fast answer, with the cause in the note, if that is wanted."""
    targets = three()
    fleet = a_fleet(VOICE, engines=free())
    async with front(fleet, targets) as it:
        it.up("fast")
        lane = it.lanes.get("large")
        it.lanes.move(lane, Failed(engine=EngineId("large"), at=it.clock.now(), why="it died"))
        if declined:
            answer = await voice(it, [user("!escalate x")], x_hostler_no_degrade="1")
            assert (answer.status, answer.error["code"]) == (502, "engine_failed")
            return
        answer = await voice(it, [user("!escalate x")])
        assert (answer.status, answer["x-hostler-degraded"]) == (200, "engine_failed")
        assert "it failed to start" in targets["fast"].heard[0].body.decode()


async def test_not_enough_memory_degrades() -> None:
    """GW-4: large that does not fit now lets fast answer, and stops nothing."""
    async with front(a_fleet(VOICE, engines=free()), three()) as it:
        it.up("fast")
        it.machine.available = 1 << 30
        answer = await voice(it, [user("!escalate x")])
        assert (answer.status, answer["x-hostler-degraded"]) == (200, "memory_now")
        assert it.lanes.get("fast").ready


async def test_the_decision_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """GW-4: each decision of an escalating route is a log line with its reason and who asked (HOLD-14)."""
    caplog.set_level(logging.INFO, "hostler.routes")
    async with front(a_fleet(VOICE), three()) as it:
        it.up("fast")
        it.held()
        await voice(it, [user("!escalate x")], x_hostler_client="bot-1", user_agent="py/1")
        said = caplog.records[0].__dict__
        assert (said["route"], said["served_by"]) == ("voice", "fast")
        assert said["why"] == "token, but large is refused"
        assert said["by"] == "127.0.0.1 ua=py/1 client=bot-1"


async def test_a_switch_of_profile() -> None:
    """GW-1: a request is served by the profile that was active when it came, the next one by the new one."""
    profiles: dict[str, Profile] = {"a": engines("fast"), "b": engines("embed")}
    async with front(a_fleet(a_route("chat", profiles), engines=free()), three()) as it:
        it.up("fast", "embed")
        assert await served_by(it, "chat") == "fast"
        await it.gateway.routes.switch("chat", "b", it.ends[0][2].requester)
        assert await served_by(it, "chat") == "embed"


# ---------------------------------------------------------------- refusals as callers hear them


@pytest.mark.parametrize(("minutes", "expected"), [(42, 2520), (0.5, 60), (60 * 24, 86400)])
async def test_a_holds_refusal(minutes: float, expected: int) -> None:
    """HOLD-13: Retry-After is max(60, seconds to expiry), as in the body, and SDKs are told not to retry."""
    async with front(a_fleet(a_route("chat", {"p": engines("large")}))) as it:
        it.held("bench", minutes=minutes)
        answer = await it.chat("chat", x_hostler_client="bot", user_agent="py/1  x")
        assert (answer.status, answer["retry-after"]) == (503, str(expected))
        assert answer["x-should-retry"] == "false"
        error = answer.error
        assert (error["code"], error["retry_after"], error["owner"]) == ("box_reserved", expected, "bench")
        assert str(error["expires_at"]).endswith("Z")
        refused = it.events.of("start_refused")[0]
        assert refused.actor == "127.0.0.1 ua=py/1 x client=bot"
        assert (refused.facts["cause"], refused.facts["route"]) == ("request", "chat")
