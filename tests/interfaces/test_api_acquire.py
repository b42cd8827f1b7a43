import asyncio
from dataclasses import dataclass, field, replace

import httpx2
import pytest

from hostler.domain.engine import State
from hostler.domain.fleet import EngineTarget, Host, Key, Plain, Route, frozen
from hostler.domain.values import EngineId, HostName, RouteName
from hostler.interfaces.api.app import create_app
from hostler.services.keys import digest_of, keyring
from hostler.services.ports_live import LivePorts
from tests.fakes.clock import settle
from tests.interfaces.room import Room
from tests.interfaces.room_fleet import engine

ACQUIRE = "/llm/acquire"


async def test_acquire_waits_until_the_engine_is_ready(box: Room) -> None:
    """HOLD-12: acquire starts the engine that is named, waits until it is ready, and says what it warmed."""
    box.driver.loading.add(EngineId("large"))
    async with box.client(key=None) as client:
        call = asyncio.ensure_future(client.post(ACQUIRE, json={"provider": "large"}))
        await settle()
        assert box.lane("large").state is State.STARTING
        box.driver.finish_loading(EngineId("large"))
        await box.clock.advance(1)
        answer = await call
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "warmed": "large", "provider": "large"})


async def test_acquire_of_what_is_ready_warms_nothing(box: Room) -> None:
    """HOLD-12: acquire of an engine that is ready, or of an upstream, is ok with warmed null."""
    async with box.client() as client:
        await client.post(ACQUIRE, json={"provider": "fast"})
        for provider in ("fast", "chat", "gpt-4o-mini"):
            answer = await client.post(ACQUIRE, json={"provider": provider})
            assert answer.json() == {"ok": True, "warmed": None, "provider": provider}
        await client.post("/v1/hostler/routes/chat/profile", json={"profile": "cloud"})
        await client.post("/v1/hostler/engines/fast/stop")
        assert (await client.post(ACQUIRE, json={"provider": "chat"})).json()["warmed"] is None
    assert box.driver.started == ["fast"]


async def test_acquire_of_a_route_warms_its_first_engine(box: Room) -> None:
    """GW-4: acquire of an escalating route warms its fast engine; a name with a slash is a route like any."""
    async with box.client() as client:
        answer = await client.post(ACQUIRE, json={"provider": "chat"})
        assert answer.json() == {"ok": True, "warmed": "fast", "provider": "chat"}
        answer = await client.post(ACQUIRE, json={"provider": "team/embed v1"})
        assert answer.json()["warmed"] == "embed"


async def test_a_held_acquire_is_told_flatly(box: Room) -> None:
    """HOLD-13: while held acquire is the flat 409 that bots know, with Retry-After; nothing is started."""
    box.held("bench", minutes=42)
    async with box.client(key=None) as client:
        answer = await client.post(ACQUIRE, json={"provider": "large"})
    assert answer.status_code == 409
    assert answer.json() == {
        "ok": False,
        "error": "box_reserved",
        "owner": "bench",
        "expires_at": "2026-09-04T20:47:11.482Z",
    }
    assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("2520", "false")
    assert box.driver.started == []


async def test_a_refused_acquire_names_who_asked(box: Room) -> None:
    """HOLD-14: a refused acquire is logged with the caller's address, agent and tag."""
    box.held("bench")
    tags = {"user-agent": "bot 1.0\x09x", "x-crow-client": "kitchen bot"}
    async with box.client(key=None, **tags) as client:
        await client.post(ACQUIRE, json={"provider": "large"})
    await box.queue.flush(5)
    rows = await box.store.since(None, 100)
    refused = next(row.event for row in rows if row.event.type == "start_refused")
    assert refused.actor == "127.0.0.1 ua=bot 1.0 x client=kitchen_bot"
    assert refused.facts["cause"] == "acquire"


@pytest.mark.parametrize("body", ["{}", '{"provider": ""}', ""])
async def test_acquire_without_a_provider_is_bad_input(box: Room, body: str) -> None:
    """HOLD-12: acquire without a provider is a flat 400."""
    async with box.client() as client:
        answer = await client.post(ACQUIRE, content=body)
    assert answer.status_code == 400
    told = answer.json()
    assert (told["ok"], told["error"], told["message"]) == (False, "invalid_request", "A provider is needed.")


@pytest.mark.parametrize(
    ("provider", "status", "code"),
    [
        ("nothing", 404, "model_not_found"),
        ("idle", 404, "not_found"),
        ("heavy", 409, "serving_class_refused"),
        ("far", 502, "upstream_unreachable"),
    ],
)
async def test_other_refusals_of_acquire_are_flat_too(
    box: Room, provider: str, status: int, code: str
) -> None:
    """API-1: every refusal of acquire is flat, with its status, its code and a message."""
    async with box.client() as client:
        answer = await client.post(ACQUIRE, json={"provider": provider})
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert answer.json()["ok"] is False
    assert answer.json()["message"]


async def test_a_key_for_some_routes_warms_no_others(box: Room) -> None:
    """API-4: for a key with a list of routes another name is not there, be it a route or an engine."""
    key = Key(
        name="bots", digest=digest_of("hk_bots"), scopes=frozenset({"infer"}), routes=frozenset({"chat"})
    )
    box.other_keys(keyring(configured=(key,), kept=(), local=None, clock=box.clock))
    async with box.client(key="hk_bots") as client:
        for provider in ("team/embed v1", "embed", "nothing"):
            answer = await client.post(ACQUIRE, json={"provider": provider})
            assert (answer.status_code, answer.json()["error"]) == (404, "model_not_found")
        assert (await client.post(ACQUIRE, json={"provider": "gpt-4o-mini"})).status_code == 200
    assert box.driver.started == ["fast"]


@dataclass
class Raven:
    """The need `FarHost`: raven, whose engine `there` is cold."""

    asked: list[tuple[str, str]] = field(default_factory=list)
    cold: bool = True

    async def ports(self) -> LivePorts:
        return LivePorts(host="raven", auto_from=8100, auto_to=8199, ports=(), silent=())

    async def logs(self, engine: str, lines: int) -> tuple[str, ...]:
        self.asked.append((engine, f"{lines} lines"))
        return ("llama says",)

    async def acquire(self, engine: str, by: str) -> bool:
        self.asked.append((engine, by))
        return self.cold


def with_raven(box: Room, far: Raven) -> httpx2.AsyncClient:
    """A client of a daemon whose route `away` leads to the engine `there`, which is raven's."""
    there = replace(engine("there", 8109), host=HostName("raven"))
    fleet = box.control.config.fleet
    route = Route(
        name=RouteName("away"),
        profiles=frozen({"raven": Plain(targets=(EngineTarget(engine=there.id),))}),
        active="raven",
    )
    box.control.config.fleet = replace(
        fleet,
        hosts=frozen({**fleet.hosts, there.host: Host(name=there.host)}),
        engines=frozen({**fleet.engines, there.id: there}),
        routes=frozen({**fleet.routes, route.name: route}),
    )
    box.control.routes.retable(box.control.config.fleet)
    return replace(box, app=create_app(replace(box.control, far={"raven": far}))).client()


async def test_the_log_of_an_engine_of_another_host(box: Room) -> None:
    """NODE-1, ENG-12: its daemon is asked for the lines; to follow it one is told where to ask."""
    far = Raven()
    async with with_raven(box, far) as client:
        got = await client.get("/v1/hostler/engines/there/logs", params={"lines": 7})
        assert got.json() == {"engine": "there", "lines": ["llama says"]}
        assert far.asked == [("there", "7 lines")]
        followed = await client.get("/v1/hostler/engines/there/logs", params={"follow": True})
        assert followed.status_code == 404
        assert "It is an engine of raven" in followed.json()["error"]["hint"]


async def test_an_engine_of_another_host_is_warmed_there(box: Room) -> None:
    """NODE-6, HOLD-12: its own daemon starts it through its own gate; the answer is that of any engine."""
    far = Raven()
    async with with_raven(box, far) as client:
        for provider in ("there", "away"):
            answer = await client.post(ACQUIRE, json={"provider": provider})
            assert answer.json() == {"ok": True, "warmed": "there", "provider": provider}
        far.cold = False
        answer = await client.post(ACQUIRE, json={"provider": "there"})
        assert answer.json() == {"ok": True, "warmed": None, "provider": "there"}
    assert [name for name, _ in far.asked] == ["there"] * 3
    assert box.driver.started == []


async def test_the_ports_of_another_host_are_asked_of_it(box: Room) -> None:
    """PORT-5: `ports live --host` is answered by that host's own daemon."""
    async with with_raven(box, Raven()) as client:
        assert (await client.get("/v1/hostler/ports", params={"host": "raven"})).json()["host"] == "raven"
        unknown = await client.get("/v1/hostler/ports", params={"host": "ravem"})
        assert unknown.status_code == 404
        assert "raven" in unknown.json()["error"]["hint"]
