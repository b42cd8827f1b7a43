import asyncio
from collections.abc import AsyncIterator

import pytest

from hostler.domain.engine import State
from hostler.domain.fleet import Key
from hostler.domain.values import EngineId
from hostler.services.keys import digest_of, keyring
from tests.fakes.clock import settle
from tests.interfaces.room import Room, room

ACQUIRE = "/llm/acquire"


@pytest.fixture
async def box() -> AsyncIterator[Room]:
    async with room() as it:
        yield it


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
        ("far", 409, "not_launchable"),
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
