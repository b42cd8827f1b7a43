from datetime import datetime, timedelta

from hostler.domain.fleet import EngineTarget, Escalating, Escalation, Key, Plain, Strategy
from hostler.domain.holding import Holding
from hostler.domain.values import EngineId
from hostler.services.keys import digest_of, keyring
from tests.fakes.clock import ManualClock
from tests.gateway.front import Front, a_fleet, a_route, front
from tests.gateway.wire import Target

VOICE = a_route(
    "voice",
    {"local": Escalating(fast=EngineId("fast"), large=EngineId("large"))},
    escalate=Escalation(token="!escalate"),
)
CHAT = a_route("chat", {"p": Plain(targets=(EngineTarget(engine=EngineId("large")),))})


def leased(it: Front, key: str = "-", soft: datetime | None = None) -> None:
    until = it.clock.now() + timedelta(hours=2)
    held = Holding(lease="lease_1", resource="pair", holder="ann", key=key, until=until, stop_accepting=soft)
    it.gateway.chooser.engines.gate.guard.adopt({"engine large": held})


async def test_a_leased_engine_is_not_started_by_a_request() -> None:
    """GATE-5: a request for a leased engine that is down is 503 `leased`, with when its lease ends."""
    async with front(a_fleet(CHAT), {"large": Target()}) as it:
        leased(it)
        for model in ("chat", "large"):
            answer = await it.chat(model)
            assert (answer.status, answer.error["code"]) == (503, "leased")
            assert (answer["retry-after"], answer["x-should-retry"]) == ("7200", "false")
        assert it.driver.started == []


async def test_a_leased_engine_that_runs_serves() -> None:
    """GATE-1: a request for a leased engine that runs is served: it needs no start."""
    async with front(a_fleet(CHAT), {"large": Target()}) as it:
        it.up("large")
        leased(it)
        assert (await it.chat("chat"))["x-hostler-served-by"] == "large"


async def test_an_escalating_route_degrades() -> None:
    """GATE-5, GATE-6: with the large engine leased fast answers, marked, and its note says `leased`."""
    fast = Target()
    async with front(a_fleet(VOICE), {"fast": fast}) as it:
        it.up("fast")
        leased(it)
        answer = await it.chat("voice", "!escalate think")
        assert (answer.status, answer["x-hostler-served-by"]) == (200, "fast")
        assert answer["x-hostler-degraded"] == "leased"
        assert b"The larger model is unavailable (leased)" in fast.heard[-1].body
        refused = await it.chat("voice", "!escalate think", **{"x-hostler-no-degrade": "1"})
        assert (refused.status, refused.error["code"]) == (503, "leased")


async def test_a_plain_route_falls_back() -> None:
    """GATE-5: a plain route whose engine is leased is served by its fallback profile, marked as degraded."""
    fast = Plain(targets=(EngineTarget(engine=EngineId("fast")),))
    large = Plain(targets=(EngineTarget(engine=EngineId("large")),))
    route = a_route("chat", {"p": large, "spare": fast}, fallback="spare")
    async with front(a_fleet(route), {"fast": Target()}) as it:
        it.up("fast")
        leased(it)
        answer = await it.chat("chat")
        assert (answer["x-hostler-served-by"], answer["x-hostler-degraded"]) == ("fast", "leased")


async def test_a_closing_engine_is_chosen_by_no_new_request() -> None:
    """WIN-2: past the soft deadline an engine that runs is passed over, and refused where it is alone."""
    both = Plain(targets=tuple(EngineTarget(engine=EngineId(it)) for it in ("large", "embed")))
    route = a_route("pool", {"p": both}, strategy=Strategy(kind="first_ready"))
    async with front(a_fleet(route, CHAT), {"large": Target(), "embed": Target()}) as it:
        it.up("large", "embed")
        leased(it, soft=it.clock.now() + timedelta(minutes=1))
        assert (await it.chat("pool"))["x-hostler-served-by"] == "large"
        await it.clock.advance(60.0)
        assert (await it.chat("pool"))["x-hostler-served-by"] == "embed"
        refused = await it.chat("chat")
        assert (refused.status, refused.error["code"]) == (503, "window_closing")


async def test_the_holders_request_starts_its_engine() -> None:
    """LEASE-15: a request that names its lease, with the lease's key, starts the leased engine."""
    clock = ManualClock()
    ring = keyring(configured=(), kept=(known("ann"), known("bots")), local=None, clock=clock)
    async with front(a_fleet(CHAT), {"large": Target()}, ring=ring) as it:
        leased(it, key="ann")
        own = {"x-hostler-lease": "lease_1"}
        thief = await it.chat("chat", authorization="Bearer hk_bots", **own)
        assert (thief.status, thief.error["code"]) == (503, "leased")
        answer = await it.chat("chat", authorization="Bearer hk_ann", **own)
        assert (answer.status, it.driver.started) == (200, ["large"])


def known(name: str) -> Key:
    return Key(name=name, digest=digest_of(f"hk_{name}"), scopes=frozenset({"infer"}))
