"""Refusals read back from their JSON form, as the same classes that were raised.

Decides which class an error object becomes. How one is written is in `hostler.wire.refusals`.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, ClassVar, Final, cast

import msgspec

from hostler.domain import errors
from hostler.domain.errors import Kind, Refusal
from hostler.domain.values import shorten, whole
from hostler.wire.values import is_deeper, plain_text

MOST_WAIT_S: Final = 10**9
"""Of a time to retry."""
MOST_BITS: Final = 128
"""Of a number that is a fact: Python writes none of more than some thousand digits."""
DEEPEST: Final = 20
"""How deep a fact may be nested; none of ours is more than two."""

KIND_OF_STATUS: Final[Mapping[int, Kind]] = {
    400: Kind.INVALID,
    401: Kind.UNAUTHORIZED,
    403: Kind.FORBIDDEN,
    404: Kind.NOT_FOUND,
    405: Kind.INVALID,
    409: Kind.CONFLICT,
    410: Kind.GONE,
    413: Kind.INVALID,
    422: Kind.INVALID,
    429: Kind.BUSY,
    502: Kind.UNREACHABLE,
    503: Kind.UNAVAILABLE,
    504: Kind.UNREACHABLE,
    507: Kind.UNAVAILABLE,
}
"""For a code that this version does not know: what a status says by itself."""


@dataclass(eq=False, kw_only=True)
class Told(Refusal):
    """A refusal whose code this version does not know: its text and facts as they came.

    Each gets a class of its own with the code and kind that were told (`code` belongs to a class).
    """

    message: ClassVar[str] = "{text}"
    hint: ClassVar[str] = "{more}"

    text: str
    more: str = ""
    others: Mapping[str, object]

    def facts(self) -> dict[str, object]:
        return {**self.others, "text": self.text, "more": self.more}


def _known() -> Mapping[str, type[Refusal]]:
    named = [it for it in vars(errors).values() if isinstance(it, type) and issubclass(it, Refusal)]
    return {it.code: it for it in named if it is not Refusal}


KNOWN: Final[Mapping[str, type[Refusal]]] = _known()
"""Every refusal of the domain by its code."""


def refusal_from(error: object, status: int = 500) -> Refusal:
    """The refusal in the `error` object of an answer with that HTTP status; never fails.

    A known code with its facts becomes its own class; facts of a newer version are ignored. Anything
    else becomes `Told`, with whatever text there is.
    """
    if not isinstance(error, Mapping):
        said = error if isinstance(error, str) else plain_text(_told_fact(error)) if error else ""
        return _told("unknown", status, said or f"HTTP status {status}.", {})
    code, facts = error.get("code"), error.get("facts")
    given = {str(name): _told_fact(it) for name, it in facts.items()} if isinstance(facts, Mapping) else {}
    known = KNOWN.get(code) if isinstance(code, str) else None
    refusal = _rebuilt(known, given) if known is not None else None
    if refusal is None:
        text, hint = error.get("message"), error.get("hint")
        refusal = _told(
            code if isinstance(code, str) else "unknown",
            status,
            text if isinstance(text, str) else f"HTTP status {status}.",
            given,
            hint if isinstance(hint, str) else "",
        )
    refusal.retry_after = whole(error.get("retry_after"), 0, MOST_WAIT_S)
    return refusal


def _rebuilt(known: type[Refusal], given: Mapping[str, object]) -> Refusal | None:
    """The refusal of that class, None when a fact that it needs was not told, or is of another type."""
    own = [field for field in fields(known) if field.name != "retry_after"]
    needed = {field.name for field in own if field.default is MISSING and field.default_factory is MISSING}
    if not needed <= given.keys():
        return None
    hints, taken = _hints(known.code), dict[str, object]()
    for field in own:
        if field.name in given:
            try:
                taken[field.name] = msgspec.convert(given[field.name], hints[field.name])
            except msgspec.ValidationError:
                return None
    make = cast("Callable[..., Refusal]", known)
    return make(**taken)


@cache
def _hints(code: str) -> Mapping[str, Any]:
    return typing.get_type_hints(KNOWN[code])


def _told_fact(value: object) -> object:
    """A fact as it came; a number that JSON has no form of, or what is too deep to be shown, as a text."""
    if is_deeper(value, DEEPEST):
        return plain_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return shorten(hex(value))
    if isinstance(value, dict):
        return {name: _told_fact(it) for name, it in value.items()}
    return [_told_fact(it) for it in value] if isinstance(value, list) else value


def _told(code: str, status: int, text: str, others: Mapping[str, object], hint: str = "") -> Refusal:
    kind = KIND_OF_STATUS.get(status, Kind.INTERNAL)
    own = type("Told", (Told,), {"code": code, "kind": kind})
    refusal: Refusal = own(text=text, more=hint, others=others)
    return refusal
