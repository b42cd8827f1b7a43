from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from hostler.domain.holding import Holding
from hostler.domain.values import EngineId
from tests.interfaces.room import Room, room

ENGINES = "/v1/hostler/engines"


@pytest.fixture
async def box() -> AsyncIterator[Room]:
    """A room whose engine `large` and route `chat` a lease has, taken with the local key."""
    async with room() as it:
        until = it.clock.now() + timedelta(hours=2)
        held = Holding(lease="lease_1", resource="pair", holder="ann", key="local", until=until)
        it.control.engines.gate.guard.adopt({"engine large": held})
        it.control.routes.guard.adopt({"route chat": held})
        yield it


CALLS: list[tuple[str, dict[str, object]]] = [
    (f"{ENGINES}/large/start", {}),
    (f"{ENGINES}/large/stop", {}),
    (f"{ENGINES}/large/drain", {}),
    (f"{ENGINES}/large/suspend", {}),
    (f"{ENGINES}/large/resume", {}),
    (f"{ENGINES}/large/clear", {}),
]


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_a_leased_engine_is_nobody_elses(box: Room, path: str, body: dict[str, object]) -> None:
    """LEASE-15: a call that touches a leased engine is 409 `leased`, with lease, holder and when to retry."""
    async with box.client() as client:
        answer = await client.post(path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (409, "leased")
    assert (error["facts"]["lease"], error["facts"]["holder"]) == ("lease_1", "ann")
    assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("7200", "false")
    assert box.driver.started == []


@pytest.mark.parametrize(("path", "body"), CALLS)
async def test_its_holder_passes(box: Room, path: str, body: dict[str, object]) -> None:
    """LEASE-15: the same calls pass with `x-hostler-lease`, from the key that took the lease."""
    async with box.client(**{"x-hostler-lease": "lease_1"}) as client:
        assert (await client.post(path, json=body)).status_code == 200


@pytest.mark.parametrize("lease", ["lease_2", "LEASE 1", "", "../lease_1"])
async def test_another_lease_does_not(box: Room, lease: str) -> None:
    """LEASE-15: another lease, and what cannot be one, passes nothing."""
    async with box.client(**{"x-hostler-lease": lease}) as client:
        answer = await client.post(f"{ENGINES}/large/start")
    assert answer.json()["error"]["code"] == "leased"


async def test_a_leased_route_is_not_switched(box: Room) -> None:
    """LEASE-15, R34: a leased route is switched by its holder only."""
    profile = next(iter(box.control.routes.table.routes["chat"].profiles))
    async with box.client() as client:
        answer = await client.post("/v1/hostler/routes/chat/profile", json={"profile": profile})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (409, "leased")
        assert error["message"].startswith("The route chat is leased: ann has pair until ")
        own = {"x-hostler-lease": "lease_1"}
        answer = await client.post("/v1/hostler/routes/chat/profile", json={"profile": profile}, headers=own)
        assert answer.status_code == 200


async def test_a_leased_engine_shows_what_blocks_it(box: Room) -> None:
    """GATE-2: a stopped engine that a lease has is shown blocked until its end; under a hold that is told."""
    async with box.client() as client:
        shown = (await client.get(ENGINES)).json()["engines"]
        until = "2026-09-04T22:05:11.482Z"
        assert {it["id"]: it["blocked"] for it in shown if it["blocked"]} == {
            "large": {"code": "leased", "owner": "ann", "until": until, "why": ""}
        }
        box.held("bench")
        shown = (await client.get(f"{ENGINES}/large")).json()["engine"]
    assert shown["blocked"]["code"] == "box_reserved"


async def test_a_bot_that_warms_a_leased_engine(box: Room) -> None:
    """GATE-5: warming a leased engine is 409 `leased` in the flat form of its clients."""
    async with box.client() as client:
        answer = await client.post("/llm/acquire", json={"provider": "large"})
    assert (answer.status_code, answer.json()["ok"], answer.json()["error"]) == (409, False, "leased")
    assert box.lane(EngineId("large")).starting is None
