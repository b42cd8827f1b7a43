"""What an answer looks like: JSON, refusals, event streams.

Decides headers and bytes. Which status a refusal has is `hostler.wire.refusals`' decision.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from hostler.domain.errors import MethodNotAllowed, Refusal
from hostler.interfaces.api.cleaning import cleaned
from hostler.wire.refusals import control_answer
from hostler.wire.values import dump, dump_plain

JSON: Final = "application/json"
SSE: Final = "text/event-stream"
NO_STORE: Final = "no-store"


def json_answer(value: object, status: int = 200) -> Response:
    """`value` as the wire has it; never kept by a cache."""
    return Response(dump(value), status, media_type=JSON, headers={"cache-control": NO_STORE})


def plain_answer(value: object) -> Response:
    """The same of what is JSON's already: thousands of events are not looked through again."""
    return Response(dump_plain(value), media_type=JSON, headers={"cache-control": NO_STORE})


def refused(refusal: Refusal, *, flat: bool = False, redact: Callable[[str], str] | None = None) -> Response:
    """A refusal in the one form of errors, or in the flat one that clients of `/llm/acquire` know.

    `redact` takes out of it what the caller sent as its key, wherever it sent it (SEC-1).
    """
    status, headers, body = control_answer(refusal)
    body = dump(flat_error(refusal)) if flat else body
    if redact is not None:
        body = dump(cleaned(msgspec.json.decode(body), redact))
    response = Response(body, status, media_type=JSON)
    for name, value in headers:
        if name != b"content-type":
            response.headers[name.decode()] = value.decode()
    if isinstance(refusal, MethodNotAllowed):
        response.headers["allow"] = refusal.allowed
    response.headers["cache-control"] = NO_STORE
    return response


def flat_error(refusal: Refusal) -> dict[str, object]:
    """`{"ok": false, "error": CODE}`, with `owner` and `expires_at` of a hold, else with the message."""
    told: dict[str, object] = {"ok": False, "error": refusal.code}
    told |= {name: fact for name, fact in refusal.facts().items() if name in ("owner", "expires_at")}
    if refusal.code != "box_reserved":
        told["message"] = str(refusal)
    return told


def sse_answer(frames: AsyncIterator[bytes]) -> Response:
    """A stream of events that no proxy holds back."""
    return StreamingResponse(
        frames, media_type=SSE, headers={"cache-control": NO_STORE, "x-accel-buffering": "no"}
    )


def sse_frame(data: bytes, *, event: str | None = None, id: str | None = None) -> bytes:  # noqa: A002 - SSE's own word
    """One event. `data` is one line, as every JSON of ours is."""
    head = b"" if event is None else b"event: %b\n" % event.encode()
    mark = b"" if id is None else b"id: %b\n" % id.encode()
    return b"%b%bdata: %b\n\n" % (head, mark, data)


def sse_comment(text: str) -> bytes:
    """A line that clients skip: it shows that the stream lives."""
    return b": %b\n\n" % text.encode()
