"""What a caller sent, checked for its form: the body and the query (API-1).

Decides the bounds of a body and refuses what nobody asked for. What a value means is the handlers'.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Final

import msgspec
from starlette.requests import Request

from hostler.domain.errors import InvalidRequest, TooLarge
from hostler.domain.values import shorten

MAX_BODY: Final = 256 << 10
"""The largest body of a control call, in bytes (JOB-7)."""


async def read_body(request: Request, headers: Mapping[str, str]) -> bytes:
    """The whole body. Refuses `too_large` as soon as it is known to be, before the rest was sent."""
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > MAX_BODY:
        raise too_large()
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY:
            raise too_large()
        parts.append(part)
    return b"".join(parts)


def too_large() -> TooLarge:
    """The refusal of a body over the bound of control calls, which no setting moves."""
    return TooLarge(what="body of a control call", limit=MAX_BODY, setting="")


def query_from(model: type, request: Request) -> object:
    """The query as the dataclass `model`. Refuses unknown and repeated names, and values that do not fit."""
    given: dict[str, str] = {}
    if not request.scope["query_string"]:
        return _converted(model, given)
    known = [field.name for field in fields(model)] if is_dataclass(model) else []
    for name, value in request.query_params.multi_items():
        if name not in known:
            raise _unknown(name, known)
        if name in given:
            raise InvalidRequest(what=f"The query has {name!r} twice.", expected="Give it once.", where=name)
        given[name] = value
    return _converted(model, given)


def _unknown(name: str, known: list[str]) -> InvalidRequest:
    near = difflib.get_close_matches(name, known, 1)
    expected = f"Did you mean {near[0]!r}?" if near else f"Known are: {', '.join(known) or 'none'}."
    return InvalidRequest(
        what=f"The query {shorten(name)!r} is not known here.", expected=expected, where=shorten(name)
    )


def _converted(model: type, given: Mapping[str, str]) -> object:
    try:
        return msgspec.convert(given, model, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise InvalidRequest(
            what=f"The query does not fit: {what}.", where=where.strip("`").removeprefix("$.")
        ) from error
