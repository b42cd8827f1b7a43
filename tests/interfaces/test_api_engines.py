import asyncio

import pytest

from hostler.domain.engine import Failed, StartBegun
from hostler.domain.values import EngineId
from tests.fakes.clock import settle
from tests.interfaces.room import Room

ENGINES = "/v1/hostler/engines"


async def test_a_start_answers_once_the_engine_is_ready(box: Room) -> None:
    """API-1: POST start answers with the engine, ready; again it is a success that starts nothing."""
    async with box.client() as client:
        for _ in range(2):
            answer = await client.post(f"{ENGINES}/fast/start")
            assert answer.status_code == 200
            assert answer.json()["engine"]["state"] == "ready"
    assert box.driver.started == ["fast"]


async def test_a_start_under_a_hold_is_refused_at_once(box: Room) -> None:
    """HOLD-13: a start while another holds the box is 409 box_reserved with owner, expiry and Retry-After."""
    box.held("bench", minutes=42)
    async with box.client() as client:
        answer = await client.post(f"{ENGINES}/fast/start", json={})
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert (error["code"], error["owner"], error["retry_after"]) == ("box_reserved", "bench", 42 * 60)
    assert error["expires_at"] == "2026-09-04T20:47:11.482Z"
    assert answer.headers["retry-after"] == "2520"
    assert answer.headers["x-should-retry"] == "false"
    assert box.driver.started == []


async def test_an_essential_engine_starts_under_a_hold(box: Room) -> None:
    """HOLD-5: what the hold allows, essential engines among them, is started while it is live."""
    box.held("bench")
    async with box.client() as client:
        assert (await client.post(f"{ENGINES}/embed/start")).status_code == 200


async def test_a_start_that_takes_longer_than_the_caller_waits_goes_on(box: Room) -> None:
    """ENG-3: with wait_s the call ends with 202 and the progress, and the start goes on without it."""
    box.driver.loading.add(EngineId("fast"))
    async with box.client() as client:
        call = asyncio.ensure_future(client.post(f"{ENGINES}/fast/start", json={"wait_s": 5}))
        await settle()
        await box.clock.advance(5)
        answer = await call
        assert answer.status_code == 202
        shown = answer.json()["engine"]
        assert shown["state"] == "starting"
        assert shown["starting"]["text"] == f"loading 5 s of {shown['starting']['budget_s']} s, place 1"
        box.driver.finish_loading(EngineId("fast"))
        await box.clock.advance(1)
        assert (await client.get(f"{ENGINES}/fast")).json()["engine"]["state"] == "ready"


async def test_a_dangerous_engine_needs_its_class_named(box: Room) -> None:
    """GATE-1: a start of a dangerous class is 409 without Retry-After unless the call names the class."""
    async with box.client() as client:
        answer = await client.post(f"{ENGINES}/heavy/start")
        assert answer.status_code == 409
        assert answer.json()["error"]["code"] == "serving_class_refused"
        assert "retry-after" not in answer.headers
        assert (
            await client.post(f"{ENGINES}/heavy/start", json={"override": "wedge-risk"})
        ).status_code == 200


async def test_a_failed_start_is_told(box: Room) -> None:
    """ENG-3: a start that fails answers 502 engine_failed with the reason, and the engine shows why."""
    box.driver.ids[EngineId("fast")] = "other-model"
    async with box.client() as client:
        call = asyncio.ensure_future(client.post(f"{ENGINES}/fast/start"))
        for _ in range(8):
            await box.clock.advance(40)
        answer = await call
        assert (answer.status_code, answer.json()["error"]["code"]) == (502, "engine_failed")
        shown = (await client.get(f"{ENGINES}/fast")).json()["engine"]
    assert shown["state"] == "failed"
    assert "serves other-model, expected fast" in shown["why"]


def fail(box: Room, engine: str) -> None:
    """The engine's last start failed."""
    lane, now = box.lane(engine), box.clock.now()
    box.lanes.move(lane, StartBegun(engine=lane.engine.id, at=now))
    box.lanes.move(lane, Failed(engine=lane.engine.id, at=now, why="no such device"))


async def test_a_failed_engine_is_refused_until_it_is_cleared(box: Room) -> None:
    """ENG-3: soon after a failure a start is refused with the seconds to wait; after clear it starts."""
    fail(box, "fast")
    async with box.client() as client:
        answer = await client.post(f"{ENGINES}/fast/start")
        assert (answer.status_code, answer.headers["retry-after"]) == (502, "30")
        assert (await client.post(f"{ENGINES}/fast/clear")).json()["engine"]["state"] == "stopped"
        assert (await client.post(f"{ENGINES}/fast/start")).status_code == 200


async def test_a_stop_ends_the_engine(box: Room) -> None:
    """ENG-6: POST stop answers once the engine is gone, and again when there is nothing to stop."""
    async with box.client() as client:
        await client.post(f"{ENGINES}/fast/start")
        for _ in range(2):
            answer = await client.post(f"{ENGINES}/fast/stop", json={"now": True})
            assert (answer.status_code, answer.json()["engine"]["state"]) == (200, "stopped")
    assert box.driver.stopped == ["fast"]


async def test_a_stop_that_does_not_work_is_told(box: Room) -> None:
    """ENG-6: a stop that the engine survives answers 409 stop_unverified and does not claim it gone."""
    box.driver.deaf.add(EngineId("fast"))
    async with box.client() as client:
        await client.post(f"{ENGINES}/fast/start")
        answer = await client.post(f"{ENGINES}/fast/stop")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "stop_unverified")
    assert "retry-after" not in answer.headers


async def test_a_drain_ends_what_is_left_at_its_deadline(box: Room) -> None:
    """GW-8: drain ends what is left at its deadline and says how many; resume lets requests in again."""
    async with box.client() as client:
        await client.post(f"{ENGINES}/fast/start")
        entry = box.request("fast")
        call = asyncio.ensure_future(client.post(f"{ENGINES}/fast/drain", json={"timeout_s": 10}))
        await settle()
        await box.clock.advance(10)
        assert [refusal.code for refusal in box.cuts] == ["draining"]
        box.lane("fast").leave(entry, box.clock.elapsed())
        await box.clock.advance(3)
        answer = await call
        assert (answer.status_code, answer.json()["ended"]) == (200, 1)
        assert answer.json()["engine"]["state"] == "draining"
        assert (await client.post(f"{ENGINES}/fast/resume")).json()["engine"]["state"] == "ready"


async def test_a_suspended_engine_does_not_start(box: Room) -> None:
    """NODE-5: suspend stops an engine, a start is then 409 suspended, and resume ends that."""
    async with box.client(**{"x-hostler-client": "kim"}) as client:
        await client.post(f"{ENGINES}/fast/start")
        shown = (await client.post(f"{ENGINES}/fast/suspend")).json()["engine"]
        assert (shown["state"], shown["suspended_by"]) == ("stopped", ["person:kim"])
        answer = await client.post(f"{ENGINES}/fast/start")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "suspended")
        assert "retry-after" not in answer.headers
        await client.post(f"{ENGINES}/fast/resume")
        assert (await client.post(f"{ENGINES}/fast/start")).status_code == 200


async def test_nothing_is_changed_where_orchestration_is_off(box: Room) -> None:
    """GATE-4: an engine that is external is never started or stopped: 409 not_launchable."""
    async with box.client() as client:
        for verb in ("start", "stop", "drain", "suspend", "resume"):
            answer = await client.post(f"{ENGINES}/far/{verb}")
            assert (verb, answer.status_code, answer.json()["error"]["code"]) == (verb, 409, "not_launchable")


@pytest.mark.parametrize("verb", ["start", "stop", "drain", "suspend", "resume", "clear"])
async def test_an_unknown_engine_is_not_found(box: Room, verb: str) -> None:
    """API-1: a call about an engine that there is not is 404 engine_not_found with the nearest name."""
    async with box.client() as client:
        answer = await client.post(f"{ENGINES}/embedd/{verb}")
    assert answer.status_code == 404
    assert answer.json()["error"]["hint"] == "Did you mean embed?"


async def test_why_shows_every_check_and_starts_nothing(box: Room) -> None:
    """GATE-2: why lists all checks in order with their result, the refusing one with its code."""
    box.held("bench")
    async with box.client() as client:
        shown = (await client.get(f"{ENGINES}/fast/why")).json()
    assert shown["allowed"] is False
    asked = [check["name"] for check in shown["checks"]]
    order = ["known", "serving_class", "launchable", "suspended", "hold", "leased", "fence", "port", "memory"]
    assert [name for name in asked if name in order] == order
    assert [check["code"] for check in shown["checks"] if check["result"] == "refused"] == ["box_reserved"]
    assert box.driver.started == []


async def test_a_stopped_engine_shows_what_blocks_it(box: Room) -> None:
    """GATE-2: a stopped engine that the hold does not allow is shown blocked until its end, others not."""
    async with box.client() as client:
        await client.post(f"{ENGINES}/fast/start")
        box.held("bench", minutes=42)
        shown = {it["id"]: it["blocked"] for it in (await client.get(ENGINES)).json()["engines"]}
    until_then = {"code": "box_reserved", "owner": "bench", "until": "2026-09-04T20:47:11.482Z", "why": ""}
    assert shown == {"fast": None, "large": until_then, "embed": None, "heavy": until_then, "far": None}


async def test_log_lines_are_shown_without_what_moves_a_cursor(box: Room) -> None:
    """ENG-12: log lines are told with their control characters escaped, as many as were asked for."""
    box.driver.logs[EngineId("fast")] = ["first", "load \x1b[31mred\x1b[0m\u202e"]
    async with box.client() as client:
        answer = await client.get(f"{ENGINES}/fast/logs", params={"lines": 1})
    assert answer.json() == {"engine": "fast", "lines": ["load \\x1b[31mred\\x1b[0m\\u202e"]}


async def test_a_followed_log_is_a_stream_of_events(box: Room) -> None:
    """ENG-12: with follow the lines come as server-sent events, each one JSON text on one line."""
    box.driver.logs[EngineId("fast")] = ["one\rtwo"]
    async with box.client() as client:
        answer = await client.get(f"{ENGINES}/fast/logs?lines=0&follow=1")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.text == 'event: line\ndata: "one\\\\x0dtwo"\n\n'
