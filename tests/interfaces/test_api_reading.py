import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.domain.engine import Failed, StartBegun
from hostler.domain.hold import HoldState, HoldView
from hostler.domain.values import EngineId
from hostler.interfaces.api.endpoints import ENDPOINTS
from hostler.services.keys import Scope
from hostler.services.status import STUCK_S
from tests.fakes.clock import settle
from tests.interfaces.room import Room
from tests.interfaces.room_fleet import GIB

STATUS = "/v1/hostler/status"
ENGINES = "/v1/hostler/engines"
SCHEDULE = "/gateway/schedule"
KINDS: dict[str, tuple[type, ...]] = {
    "any": (object,),
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


async def seen(box: Room, path: str) -> dict[str, Any]:
    """The JSON object at `path`."""
    async with box.client() as client:
        answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, dict)
    return found


async def test_reading_changes_nothing(box: Room) -> None:
    """API-2: no GET starts, stops or probes an engine, resets its idleness or writes an event."""
    async with box.client() as client:
        await client.post(f"{ENGINES}/fast/start")
        await box.queue.flush(5)
        before = (await box.store.cursor(), len(box.driver.probed), box.lane("fast").used)
        await box.clock.advance(30)
        box.control.feed.stop()
        for endpoint in ENDPOINTS:
            if not endpoint.changes:
                await client.get(endpoint.path.replace("{engine}", "fast"))
    await settle()
    assert before == (await box.store.cursor(), len(box.driver.probed), box.lane("fast").used)
    assert box.driver.started == ["fast"]
    assert box.driver.stopped == []


async def test_the_picture_has_what_a_person_asks_for(box: Room) -> None:
    """API-1: status shows memory, reserve and floor, hold, engines, routes, requests and the daemon."""
    box.held("bench", minutes=42)
    box.request()
    async with box.client() as client:
        shown = (await client.get(STATUS)).json()
    assert shown["at"] == "2026-09-04T20:05:11.482Z"
    assert shown["host"]["memory"]["host"] == {
        "total": 124 * GIB,
        "available": 100 * GIB,
        "used": 24 * GIB,
        "reserve": 8 * GIB,
        "floor": 4 * GIB,
    }
    hold = shown["hold"]
    assert (hold["held"], hold["owner"], hold["seconds_left"]) == (True, "bench", 42 * 60)
    assert hold["record"] == {"owner": "bench"}
    assert [it["id"] for it in shown["engines"]] == ["fast", "large", "embed", "heavy", "far"]
    assert shown["routes"][0]["profiles"]["local"][1] == {
        "kind": "engine",
        "name": "large",
        "role": "large",
        "model": None,
        "state": "stopped",
    }
    assert (shown["in_flight"], shown["requests"][0]["client"]) == (1, "bot")
    assert (shown["daemon"]["pid"], shown["daemon"]["hold_path"]) == (4711, "/run/hold.json")


async def test_an_engine_shows_what_it_does(box: Room) -> None:
    """ENG-9: a ready engine shows its requests in flight, and once it has none the seconds it is idle."""
    async with box.client() as client:
        await client.post(f"{ENGINES}/fast/start")
    entry = box.request("fast")
    assert (box.control.status.engine("fast").in_flight, box.control.status.engine("fast").idle_s) == (
        1,
        None,
    )
    box.lane("fast").leave(entry, box.clock.elapsed())
    await box.clock.advance(7)
    shown = box.control.status.engine("fast")
    assert (shown.in_flight, shown.idle_s, shown.state) == (0, 7, "ready")
    assert shown.memory.claim == {"host": 4 * GIB}
    assert shown.memory.peak == {"host": 0}


async def test_a_start_under_way_shows_its_progress(box: Room) -> None:
    """ENG-5: an engine that loads shows the seconds so far, its budget, and the line that waiters get."""
    box.driver.loading.add(EngineId("fast"))
    async with box.client() as client:
        call = asyncio.ensure_future(client.post(f"{ENGINES}/fast/start", json={"wait_s": 41}))
        await settle()
        await box.clock.advance(40)
        progress = box.control.status.engine("fast").starting
        await box.clock.advance(1)
        assert (await call).status_code == 202
    assert progress is not None
    assert progress.elapsed_s == 40
    assert progress.text == f"loading 40 s of {progress.budget_s} s, place 1"


async def test_a_failed_engine_says_why_and_since_when(box: Room) -> None:
    """ENG-3: a failed engine shows the reason of its failure and when it was."""
    lane, at = box.lane("fast"), box.clock.now()
    box.lanes.move(lane, StartBegun(engine=lane.engine.id, at=at))
    box.lanes.move(lane, Failed(engine=lane.engine.id, at=at, why="no such device"))
    shown = box.control.status.engine("fast")
    assert (shown.state, shown.why, shown.since) == ("failed", "no such device", "2026-09-04T20:05:11.482Z")


async def test_an_unreadable_hold_is_shown_as_held(box: Room) -> None:
    """HOLD-4: a hold record that cannot be read is shown held by unknown with its defect."""
    box.hold.view = HoldView(
        state=HoldState.UNREADABLE, path="/run/hold.json", defect="is not JSON", identity="unreadable: 1"
    )
    shown = box.control.status.hold()
    assert (shown.held, shown.owner, shown.unreadable) == (True, "unknown", "is not JSON")
    blocked = box.control.status.engine("fast").blocked
    assert blocked is not None
    assert (blocked.owner, blocked.until) == ("unknown", None)


async def test_the_hold_counts_whom_it_refused(box: Room) -> None:
    """HOLD-14: the hold shows how many starts it refused, and of whom the last ones came."""
    box.held("bench")
    async with box.client(**{"x-hostler-client": "bot"}) as client:
        for _ in range(2):
            await client.post(f"{ENGINES}/fast/start")
    found = await seen(box, "/v1/hostler/hold")
    hold = found["hold"]
    assert hold["refused"] == 2
    assert "client=bot" in hold["refusals"][0]["by"]


async def test_memory_that_cannot_be_read_is_said(box: Room) -> None:
    """MEM-1: where memory cannot be read the picture says so and shows everything else."""
    box.machine.broken = "no such counter"
    host = (await seen(box, STATUS))["host"]
    assert (host["memory"], host["memory_error"]) == ({}, "memory cannot be read: no such counter")


async def test_health_says_how_late_things_are(box: Room) -> None:
    """REL-7: health shows loop lag, keeper lag and the oldest waiter, and is not ok while work is stuck."""
    box.control.status.vitals.keeper_at = box.clock.elapsed()
    box.request()
    await box.clock.advance(5)
    shown = await seen(box, "/health")
    assert (shown["status"], shown["keeper_lag_s"], shown["waiters"], shown["oldest_waiter_s"]) == (
        "ok",
        5,
        1,
        5,
    )
    await box.clock.advance(STUCK_S)
    assert (await seen(box, "/health"))["status"] == "stuck"


async def test_health_is_not_ok_while_the_log_cannot_be_written(box: Room) -> None:
    """REL-7: events that wait for the store for long are shown, and the picture warns of the cause."""
    box.store.broken = "disk full"
    box.held("bench")
    async with box.client() as client:
        await client.post(f"{ENGINES}/fast/start")
    await box.clock.advance(STUCK_S)
    assert (await seen(box, "/health"))["status"] == "stuck"
    assert "disk full" in box.control.status.daemon().warnings[0]
    async with box.client() as client:
        call = asyncio.ensure_future(client.get(SCHEDULE))
        await settle()
        await box.clock.advance(10)
        answer = await call
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "schedule_unavailable")


async def test_metrics_are_text(box: Room) -> None:
    """METRIC-1: metrics come in the text form of Prometheus with its content type."""
    async with box.client() as client:
        answer = await client.get("/metrics")
    assert answer.text == "hostler_up 1\n"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


async def test_a_list_pages_by_cursor(box: Room) -> None:
    """API-2: a list is read whole in pages of any size, each row once; a foreign cursor is 410."""
    async with box.client() as client:
        for limit in range(1, 7):
            names, cursor = [], None
            while True:
                query = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
                page = (await client.get(ENGINES, params=query)).json()
                names += [it["id"] for it in page["engines"]]
                cursor = page["next"]
                if cursor is None:
                    break
            assert names == ["fast", "large", "embed", "heavy", "far"]
        answer = await client.get(ENGINES, params={"cursor": "nobody"})
    assert (answer.status_code, answer.json()["error"]["facts"]["snapshot"]) == (410, ENGINES)


async def test_a_list_goes_on_past_a_row_that_ended(box: Room) -> None:
    """API-2: the cursor of a request that has ended meanwhile leads on to the later ones."""
    entries = [box.request() for _ in range(3)]
    async with box.client() as client:
        page = (await client.get("/v1/hostler/requests?limit=2")).json()
        assert page["next"] == entries[1].id
        box.control.requests.close(entries[1])
        rest = (await client.get("/v1/hostler/requests", params={"cursor": entries[1].id})).json()
    assert [it["id"] for it in rest["requests"]] == [entries[2].id]
    assert rest["next"] is None


async def test_the_schedule_is_a_snapshot_and_then_events(box: Room) -> None:
    """FEED-1: the snapshot has a cursor, and what comes after it is told once and in order."""
    async with box.client() as client:
        cursor = (await client.get(SCHEDULE)).json()["cursor"]
        await client.post(f"{ENGINES}/fast/start")
        await box.queue.flush(5)
        found = (await client.get(SCHEDULE, params={"since": cursor})).json()
        assert [it["type"] for it in found["events"]] == [
            "engine_starting",
            "engine_ready",
            "engine_measured",
        ]
        some = (await client.get(SCHEDULE, params={"since": cursor, "type": "engine_ready"})).json()
        assert [it["type"] for it in some["events"]] == ["engine_ready"]
        assert (await client.get(SCHEDULE, params={"since": found["cursor"]})).json()["events"] == []


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("since=nothing", 410, "cursor_reset"),
        ("wait=5", 400, "invalid_request"),
        ("type=engine_ready", 400, "invalid_request"),
        ("since=nothing&type=engine_reddy", 400, "invalid_request"),
        ("since=nothing&wait=-1", 400, "invalid_request"),
    ],
)
async def test_a_cursor_that_fits_no_more_is_told(box: Room, query: str, status: int, code: str) -> None:
    """FEED-2: a cursor that cannot be continued from is 410 with the way to a snapshot, never 200."""
    async with box.client() as client:
        answer = await client.get(f"{SCHEDULE}?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    if status == 410:
        assert answer.json()["error"]["facts"]["snapshot"] == SCHEDULE


async def test_a_reader_may_wait_for_the_next_event(box: Room) -> None:
    """FEED-1: with wait the answer comes with the next event, or without one when the time has passed."""
    async with box.client() as client:
        cursor = (await client.get(SCHEDULE)).json()["cursor"]
        call = asyncio.ensure_future(client.get(SCHEDULE, params={"since": cursor, "wait": 25}))
        await settle()
        assert not call.done()
        await client.post(f"{ENGINES}/fast/start")
        assert (await call).json()["events"][0]["type"] == "engine_starting"
        cursor = (await client.get(SCHEDULE)).json()["cursor"]
        call = asyncio.ensure_future(client.get(SCHEDULE, params={"since": cursor, "wait": 25}))
        await settle()
        await box.clock.advance(25)
        assert (await call).json()["events"] == []


async def test_a_stream_goes_on_from_the_last_event_seen(box: Room) -> None:
    """FEED-1: the stream tells each later event with its cursor as id, from Last-Event-ID on."""
    async with box.client() as client:
        cursor = (await client.get(SCHEDULE)).json()["cursor"]
        await client.post(f"{ENGINES}/fast/start")
        await box.queue.flush(5)

        found = (await client.get(SCHEDULE, params={"since": cursor})).json()
        cursors = [it["cursor"] for it in found["events"]]
        call = asyncio.ensure_future(client.get("/gateway/events", headers={"last-event-id": cursors[0]}))
        await settle()
        box.control.feed.stop()
        answer = await call
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert re.findall(r"^id: (.*)\nevent: engine_", answer.text, re.MULTILINE) == cursors[1:]
        answer = await client.get("/gateway/events", headers={"last-event-id": "nothing"})
        assert answer.status_code == 410


async def test_the_description_names_every_endpoint(box: Room) -> None:
    """API-1: the OpenAPI document has every endpoint with its parameters, and no reference leads nowhere."""
    document = await seen(box, "/v1/hostler/openapi.json")
    assert document["openapi"] == "3.1.0"
    paths = document["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert described == {
        *((it.method, it.path.replace(":path", "")) for it in ENDPOINTS),
        ("GET", "/v1/hostler/openapi.json"),
    }
    for path, methods in paths.items():
        for operation in methods.values():
            named = {it["name"] for it in operation["parameters"] if it["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
    names = [it["operationId"] for methods in paths.values() for it in methods.values()]
    assert len(names) == len(set(names))
    components = document["components"]
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= set(components["schemas"])
    assert components["schemas"]["StartBody"]["additionalProperties"] is False


async def test_answers_are_as_described(box: Room) -> None:
    """API-1: every answer of a reading endpoint has the keys and types of its description."""
    box.request()
    document = await seen(box, "/v1/hostler/openapi.json")
    for endpoint in ENDPOINTS:
        if endpoint.changes or endpoint.answer is None or endpoint.path == SCHEDULE:
            continue
        if endpoint.scope is Scope.NODE:
            # Read by other nodes only; their answers are read back in `tests/adapters/test_node_remote.py`.
            continue
        found = await seen(box, endpoint.path.replace("{engine}", "fast"))
        name = getattr(endpoint.answer, "__name__", "")
        schema = {"$ref": f"#/components/schemas/{name}"}
        assert list(misfits(found, schema, document["components"], name)) == []


def misfits(value: object, schema: dict[str, Any], components: dict[str, Any], where: str) -> Iterator[str]:
    """Where a value and its schema part ways: keys and types, as far down as the schema goes."""
    if "$ref" in schema:
        schema = components["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        tried = [list(misfits(value, option, components, where)) for option in schema["anyOf"]]
        yield from min(tried, key=len)
    elif not isinstance(value, KINDS[schema.get("type", "any")]):
        yield f"{where}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        if "properties" in schema and set(value) != set(schema["properties"]):
            yield f"{where}: {set(value) ^ set(schema['properties'])}"
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties") or {}
            yield from misfits(item, inner, components, f"{where}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from misfits(item, schema.get("items", {}), components, f"{where}[]")
