"""The one table from a refusal's kind to what each interface says: HTTP, exit code, dialect.

Decides statuses, headers and the shape of an error. What a refusal means is `hostler.domain.errors`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hostler.domain.errors import MIN_RETRY_S, Internal, Kind, Refusal
from hostler.domain.fleet import frozen
from hostler.wire.values import dump, to_json

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Face:
    """Control status, inference status, exit code (INTERFACE-4), and OpenAI's error type."""

    control: int
    inference: int
    exit: int
    openai: str


FACES: Final[Mapping[Kind, Face]] = frozen(
    {
        Kind.INVALID: Face(400, 400, 65, "invalid_request_error"),
        Kind.CONFIG: Face(422, 422, 78, "invalid_request_error"),
        Kind.UNAUTHORIZED: Face(401, 401, 77, "authentication_error"),
        Kind.FORBIDDEN: Face(403, 403, 77, "permission_error"),
        Kind.NOT_FOUND: Face(404, 404, 66, "invalid_request_error"),
        Kind.GONE: Face(410, 410, 66, "invalid_request_error"),
        Kind.CONFLICT: Face(409, 409, 76, "invalid_request_error"),
        Kind.DISABLED: Face(409, 503, 77, "server_error"),
        Kind.BUSY: Face(409, 503, 75, "server_error"),
        Kind.CLASS: Face(409, 409, 77, "invalid_request_error"),
        Kind.FAILED: Face(409, 409, 74, "server_error"),
        Kind.EXHAUSTED: Face(409, 503, 71, "server_error"),
        Kind.STUCK: Face(409, 503, 73, "server_error"),
        Kind.UNAVAILABLE: Face(503, 503, 69, "server_error"),
        Kind.UNREACHABLE: Face(502, 502, 69, "server_error"),
        Kind.INTERNAL: Face(500, 500, 70, "server_error"),
    }
)

BY_CODE: Final[Mapping[str, int]] = frozen(
    {
        "ttl_refused": 422,
        "too_large": 413,
        "header_too_large": 431,
        "method_not_allowed": 405,
        "queue_full": 429,
        "rate_limited": 429,
        "store_full": 507,
        "loop": 508,
    }
)
"""Codes whose status, control and inference alike, is not their kind's."""

USAGE_EXIT: Final = 2

_FINAL: Final = frozenset({Kind.BUSY, Kind.DISABLED, Kind.CLASS, Kind.EXHAUSTED, Kind.STUCK})
_RETRIABLE: Final = frozenset({"loading", "queue_full", "rate_limited"})
_NO_RETRY_AFTER: Final = frozenset({Kind.DISABLED, Kind.CLASS})
_NEVER: Final = frozenset({"memory_never"})


def face(refusal: Refusal) -> Face:
    """The face of a refusal, its code's own status put in."""
    known = FACES[refusal.kind]
    status = BY_CODE.get(refusal.code)
    if status is None:
        return known
    return Face(status, status, known.exit, "rate_limit_error" if status == 429 else known.openai)


def refusal_of(error: BaseException, bug_id: str) -> Refusal:
    """`error` when it is a refusal; anything else is a bug and says nothing but its id."""
    return error if isinstance(error, Refusal) else Internal(id=bug_id)


def retry_after(refusal: Refusal) -> int | None:
    """Seconds for `Retry-After`; None where waiting does not help.

    What is busy ends some time: 60 where its end is not known (HOLD-13).
    """
    if refusal.kind in _NO_RETRY_AFTER or refusal.code in _NEVER:
        return None
    if refusal.retry_after is None and refusal.kind is Kind.BUSY:
        return MIN_RETRY_S
    return refusal.retry_after


def error_of(refusal: Refusal) -> dict[str, object]:
    """What stands under `error` (API-1), also in an error frame of a stream.

    `owner` and `expires_at` of a hold stand beside its facts (HOLD-13). Half a surrogate pair in foreign text
    becomes `?`: no refusal fails to be told.
    """
    facts = {name: _sayable(to_json(fact)) for name, fact in refusal.facts().items()}
    error: dict[str, object] = {
        "message": _sayable(str(refusal)),
        "type": face(refusal).openai,
        "param": refusal.param,
        "code": refusal.code,
        "hint": _sayable(refusal.advice()),
        "facts": facts,
        "retry_after": retry_after(refusal),
    }
    if refusal.code == "box_reserved":
        error |= {name: facts.get(name) for name in ("owner", "expires_at")}
    return error


def error_object(refusal: Refusal) -> dict[str, object]:
    """The whole body of an answer that is a refusal (API-1)."""
    return {"error": error_of(refusal)}


def _sayable(value: object) -> object:
    """`value` with nothing in it that UTF-8 cannot carry."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_sayable(item) for item in value]
    if isinstance(value, dict):
        return {_sayable(key): _sayable(item) for key, item in value.items()}
    return value


def headers(refusal: Refusal) -> Headers:
    """`Retry-After`, and `x-should-retry: false` where the SDKs would sleep for nothing (HOLD-13)."""
    found: Headers = []
    seconds = retry_after(refusal)
    if seconds is not None:
        found.append((b"retry-after", b"%d" % seconds))
    if refusal.kind in _FINAL and refusal.code not in _RETRIABLE:
        found.append((b"x-should-retry", b"false"))
    return found


def control_answer(refusal: Refusal) -> tuple[int, Headers, bytes]:
    """Status, headers and body for a control call."""
    return _answer(face(refusal).control, refusal)


def inference_answer(refusal: Refusal) -> tuple[int, Headers, bytes]:
    """Status, headers and body for an inference call, in OpenAI's dialect (GATE-5)."""
    return _answer(face(refusal).inference, refusal)


def _answer(status: int, refusal: Refusal) -> tuple[int, Headers, bytes]:
    return status, [(b"content-type", b"application/json"), *headers(refusal)], dump(error_object(refusal))
