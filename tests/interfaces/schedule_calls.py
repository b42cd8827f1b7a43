"""Calls of the schedule's API on a daemon in memory."""

from __future__ import annotations

import httpx2

from tests.fakes.jobs import SECRET, hashed
from tests.fakes.schedule import FakeSchedule
from tests.interfaces.room import LOCAL, Room

HASH = hashed(SECRET)
KEY = {"idempotency-key": "rq-1"}
RESERVE = {"resource": "pair", "secret_hash": HASH}
JOB = {"title": "sweep", "secret_hash": HASH}


def schedule(box: Room) -> FakeSchedule:
    """The schedule behind the API."""
    assert isinstance(box.control.schedule, FakeSchedule)
    return box.control.schedule


async def post(
    box: Room, path: str, body: object = None, key: str | None = LOCAL, **headers: str
) -> httpx2.Response:
    async with box.client(key=key) as client:
        return await client.post(path, json={} if body is None else body, headers={**KEY, **headers})


async def get(box: Room, path: str, key: str | None = LOCAL) -> httpx2.Response:
    async with box.client(key=key) as client:
        return await client.get(path)


def code(answer: httpx2.Response) -> tuple[int, str]:
    """The status and code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]
