"""The base of every refusal, and the kinds there are."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import ClassVar, Final

from hostler.domain.values import format_duration

MIN_RETRY_S = 60
"""The least `Retry-After` of a hold (HOLD-13): a client that comes back sooner finds the same answer."""

_TWO_ENDS: Final = re.compile(r"(?<=[^\s./])\.\.(?=\s|$)")
"""A fact that is a whole sentence, and the end of the sentence that it stands in."""


class _Words(string.Formatter):
    """As `str.format`, and `{left_s:duration}` is a time in words."""

    def format_field(self, value: object, format_spec: str) -> str:
        """One fact. What another daemon told may be of any type: then it is shown as it came."""
        try:
            if format_spec == "duration" and isinstance(value, int | float):
                return format_duration(value)
            return str(super().format_field(value, format_spec))
        except (ValueError, TypeError, OverflowError, RecursionError):
            return _shown(value)

    def convert_field(self, value: object, conversion: str | None) -> object:
        """As it is defined; what is nested too deep for that is one mark."""
        try:
            return super().convert_field(value, conversion)
        except (ValueError, RecursionError):
            return _UNSAYABLE


def _shown(value: object) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):
        return _UNSAYABLE


_KNOWN: Final = "_known_here"
_UNSAYABLE: Final = "…"
"""A fact that has no text: nested too deep, or a number of too many digits."""
_WORDS: Final = _Words()


class Kind(StrEnum):
    """What sort of "no" this is. One row per kind in `hostler.wire.refusals`."""

    INVALID = "invalid"
    CONFIG = "config"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    GONE = "gone"
    CONFLICT = "conflict"
    DISABLED = "disabled"
    BUSY = "busy"
    CLASS = "class"
    FAILED = "failed"
    EXHAUSTED = "exhausted"
    STUCK = "stuck"
    UNAVAILABLE = "unavailable"
    UNREACHABLE = "unreachable"
    INTERNAL = "internal"


@dataclass(eq=False, kw_only=True)
class Refusal(Exception):
    """Base of every "no" that a caller may be told. Any other exception is a bug and says nothing.

    Fields of a subclass are its facts: plain JSON values. `retry_after` is in whole seconds, None
    where waiting does not help.
    """

    kind: ClassVar[Kind] = Kind.INTERNAL
    code: ClassVar[str] = "internal"
    message: ClassVar[str] = "The request was refused."
    hint: ClassVar[str] = ""
    param: ClassVar[str | None] = None

    retry_after: int | None = None

    def facts(self) -> dict[str, object]:
        """The facts of this refusal, by field name, without `retry_after`."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "retry_after"}

    def __str__(self) -> str:
        """The message with its facts filled in: one sentence."""
        return self.filled(self.message)

    def advice(self) -> str:
        """The hint with its facts filled in; empty when there is none."""
        return self.filled(self.hint)

    @property
    def known_here(self) -> str:
        """What only this side of a call knows of who was asked: for people it stands in the hint's place."""
        return str(vars(self).get(_KNOWN, ""))

    def note_here(self, text: str) -> None:
        """Say so. It is no fact, and goes to nobody else."""
        vars(self)[_KNOWN] = text

    def filled(self, text: str) -> str:
        """A text with the facts in it."""
        return _TWO_ENDS.sub(".", _WORDS.vformat(text, (), self.facts()))
