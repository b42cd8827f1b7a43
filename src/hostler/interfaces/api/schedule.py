"""The feed over HTTP: a snapshot, the events after a cursor, and the same as a stream (FEED-1, FEED-2)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from hostler.domain.errors import InvalidRequest
from hostler.interfaces.api.answers import json_answer, plain_answer, sse_answer
from hostler.interfaces.api.endpoint import Call
from hostler.interfaces.api.shapes import EventsQuery, ScheduleQuery

RESUME: Final = "last-event-id"


async def schedule(call: Call) -> Response:
    """The snapshot; with `since` every later event once, in order."""
    asked, feed = call.query(ScheduleQuery), call.control.feed
    if asked.since is not None:
        types = _types(asked.type)
        return plain_answer(await feed.since(asked.since, wait_s=asked.wait, types=types))
    if asked.wait or asked.type is not None:
        raise InvalidRequest(
            what="`wait` and `type` are for events.", expected="Give `since=CURSOR` too.", where="since"
        )
    return json_answer(await feed.snapshot())


async def events(call: Call) -> Response:
    """Later events as they come; `Last-Event-ID` goes on where a cut stream ended."""
    asked = call.query(EventsQuery)
    cursor = call.headers.get(RESUME) or asked.since
    return sse_answer(await call.control.feed.follow(cursor, types=_types(asked.type)))


def _types(text: str | None) -> tuple[str, ...]:
    """The event types of `type=engine_ready,engine_failed`."""
    return tuple(part for part in (text or "").split(",") if part)
