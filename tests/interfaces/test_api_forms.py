import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from starlette.responses import Response

from hostler.domain.engine import State
from hostler.domain.values import EngineId
from hostler.interfaces.api.answers import json_answer
from hostler.interfaces.api.app import create_app
from hostler.interfaces.api.forms import MAX_BODY
from hostler.interfaces.api.idempotency import KEPT, Repeats
from hostler.services.keys import Scope
from tests.fakes.clock import settle
from tests.interfaces.room import LOCAL, Room, ring

START = "/v1/hostler/engines/fast/start"


async def test_an_error_has_one_form(box: Room) -> None:
    """API-1: an error has message, type, param, code, hint, facts, retry_after, also on unknown paths."""
    async with box.client() as client:
        answer = await client.get("/v1/hostler/nowhere")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code", "hint", "facts", "retry_after"}
    assert (error["code"], error["facts"]["name"]) == ("not_found", "/v1/hostler/nowhere")


@pytest.mark.parametrize("path", ["/health/", "/v1/hostler/engines/fast/starts", "/v1/hostler", "/"])
async def test_an_unknown_path_is_not_found(box: Room, path: str) -> None:
    """API-1: a path that is not in the table is 404, and no call is led on to a neighbour of it."""
    async with box.client() as client:
        assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", START, "POST"),
        ("POST", "/v1/hostler/status", "GET"),
        ("DELETE", "/v1/hostler/engines/fast", "GET"),
        ("GET", "/llm/acquire", "POST"),
        ("OPTIONS", "/health", "GET"),
    ],
)
async def test_a_wrong_method_names_the_right_one(box: Room, method: str, path: str, allowed: str) -> None:
    """API-2: a method that a path has not is 405 with Allow: GET changes nothing and says what would."""
    async with box.client() as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.json()["error"]["code"] == "method_not_allowed"
    assert box.driver.started == []


async def test_head_is_answered_like_get(box: Room) -> None:
    """API-2: HEAD of what can be read is answered as GET is."""
    async with box.client() as client:
        assert (await client.head("/health")).status_code == 200


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ('{"override": ', "truncated"),
        ("[]", "object"),
        ('"fast"', "object"),
        ("{'wait_s': 1}", "byte"),
        ('{"wait_s": NaN}', "byte"),
        ('{"overide": "windowed"}', "Did you mean 'override'?"),
        ('{"override": "safe"}', "override"),
        ('{"wait_s": -1}', "wait_s"),
        ('{"wait_s": "5"}', "wait_s"),
        ('{"wait_s": 1e99}', "wait_s"),
        (b"\xff", ""),
    ],
)
async def test_a_body_that_does_not_fit_is_refused(box: Room, body: str | bytes, where: str) -> None:
    """API-1: malformed JSON, unknown keys and wrong values are 400 naming the place; nothing is started."""
    async with box.client() as client:
        answer = await client.post(START, content=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "invalid_request"
    assert where in f"{error['message']} {error['hint']} {error['facts']['where']}"
    assert box.driver.started == []


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("limt=3", "limt"),
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limit=1001", "limit"),
    ],
)
async def test_a_query_that_does_not_fit_is_refused(box: Room, query: str, where: str) -> None:
    """API-1: unknown, repeated and unfit parts of a query are 400 with the name of the part."""
    async with box.client() as client:
        answer = await client.get(f"/v1/hostler/engines?{query}")
    assert (answer.status_code, answer.json()["error"]["facts"]["where"]) == (400, where)


async def test_a_large_body_is_refused_early(box: Room) -> None:
    """JOB-7: a body over 256 KiB is 413, by its length or as soon as that much came; 256 KiB pass."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * (MAX_BODY // 4)

    async def never() -> AsyncIterator[bytes]:
        pytest.fail("it was read")
        yield b""

    async with box.client() as client:
        long = {"content-length": str(MAX_BODY + 1)}
        assert (await client.post(START, content=never(), headers=long)).status_code == 413
        fits = b"{" + b" " * (MAX_BODY - 2) + b"}"
        assert (await client.post(START, content=fits)).status_code == 200
        for body in (fits + b" ", pieces()):
            answer = await client.post(START, content=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
            assert answer.json()["error"]["hint"] == "Send less: this bound is fixed."


async def test_a_bug_is_told_by_an_id_only(box: Room, caplog: pytest.LogCaptureFixture) -> None:
    """API-1: a bug is 500 with an id and no word of its cause, which the log has under that id."""

    def fail() -> bytes:
        raise OSError("the secret disk")

    box.control = replace(box.control, metrics=fail)
    box.app = create_app(box.control)
    with caplog.at_level(logging.ERROR):
        async with box.client() as client:
            answer = await client.get("/metrics")
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["code"] == "internal"
    assert "secret" not in answer.text
    assert error["facts"]["id"] in caplog.text
    assert "the secret disk" in caplog.text


async def test_a_repeated_call_acts_once(box: Room) -> None:
    """API-2: a second call with the same Idempotency-Key gets the first one's answer and does nothing."""
    async with box.client() as client:
        first = await client.post(START, headers={"idempotency-key": "k1"})
        await client.post("/v1/hostler/engines/fast/stop")
        again = await client.post(START, headers={"idempotency-key": "k1"})
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["x-hostler-replayed"] == "1"
    assert box.driver.started == ["fast"]
    assert box.lane("fast").state is State.STOPPED


async def test_a_repeated_call_joins_one_under_way(box: Room) -> None:
    """API-2: a repeated call that comes while the first is under way waits for that one's answer."""
    box.driver.loading.add(EngineId("fast"))
    async with box.client() as client:
        calls = [
            asyncio.ensure_future(client.post(START, headers={"idempotency-key": "k1"})) for _ in range(2)
        ]
        await settle()
        box.driver.finish_loading(EngineId("fast"))
        await box.clock.advance(1)
        answers = [await it for it in calls]
    assert answers[0].content == answers[1].content
    assert sorted("x-hostler-replayed" in it.headers for it in answers) == [False, True]


async def test_a_key_is_not_used_for_another_request(box: Room) -> None:
    """API-2: a key with another body is 409 idempotency_conflict; on another path or by another it is new."""
    box.other_keys(ring(box.clock, Scope.ENGINES))
    key = {"idempotency-key": "k1"}
    async with box.client() as client, box.client(key="hk_engines") as other:
        await client.post(START, headers=key)
        answer = await client.post(START, headers=key, json={"wait_s": 1})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "idempotency_conflict")
        stopped = await client.post("/v1/hostler/engines/fast/stop", headers=key)
        assert "x-hostler-replayed" not in stopped.headers
        assert "x-hostler-replayed" not in (await other.post(START, headers=key)).headers


async def test_a_refusal_is_not_kept(box: Room) -> None:
    """API-2: a call that was refused acted not, so the same key may try again."""
    box.held("bench")
    async with box.client() as client:
        assert (await client.post(START, headers={"idempotency-key": "k1"})).status_code == 409
        box.held("bench", allow=("fast",))
        assert (await client.post(START, headers={"idempotency-key": "k1"})).status_code == 200


@pytest.mark.parametrize("key", ["", "x" * 201, "tab\there"])
async def test_a_malformed_key_is_refused(box: Room, key: str) -> None:
    """API-2: an Idempotency-Key that is empty, long or not printable is 400."""
    async with box.client() as client:
        answer = await client.post(START, headers={"idempotency-key": key})
    assert (answer.status_code, answer.json()["error"]["facts"]["where"]) == (400, "idempotency-key")
    assert box.driver.started == []


async def test_the_memory_of_repeated_calls_is_bounded() -> None:
    """API-2: at most a thousand answers are kept, and the oldest goes first."""
    repeats, acted = Repeats(), []

    async def ask(key: str) -> None:
        async def act() -> Response:
            acted.append(key)
            return json_answer({})

        await repeats.once(key, LOCAL, "POST /x", b"", act)

    for number in range(KEPT + 1):
        await ask(f"k{number}")
    assert len(repeats.entries) == KEPT
    await ask(f"k{KEPT}")
    await ask("k0")
    assert acted[KEPT:] == [f"k{KEPT}", "k0"]
