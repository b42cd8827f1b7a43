"""Dataclasses that the JSON encoder may write as they are, field by field, without being taken apart first.

Decides which: those whose fields are text, numbers, truth values and None, and lists, mappings and
dataclasses of these. No times, sets or secrets, for these have a form of their own (`hostler.wire.values`);
and no number that JSON has no form of, for the encoder would write `null`.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from hostler.domain.fleet import Secret

PLAIN: Final = frozenset({str, int, bool, types.NoneType})
UNIONS: Final = (typing.Union, types.UnionType)


def is_native(value: object) -> bool:
    """Whether `value` is such a dataclass. Raises ValueError for NaN and infinities in it."""
    floats = _floats(value.__class__)  # type: ignore[arg-type] # mypy reads "no object has a hash" of a class
    if floats is None:
        return False
    for name in floats:
        _check(getattr(value, name))
    return True


def _check(item: object) -> None:
    if item.__class__ in PLAIN:
        return
    if isinstance(item, float):
        if not math.isfinite(item):
            raise ValueError(f"{item} has no place in JSON")
    elif isinstance(item, dict | types.MappingProxyType):
        for each in item.values():
            _check(each)
    elif isinstance(item, list | tuple):
        for each in item:
            _check(each)
    else:
        is_native(item)


@cache
def _floats(kind: type) -> tuple[str, ...] | None:
    """The fields that may have a float somewhere in them; None for a type that is not written as it is."""
    if not is_dataclass(kind) or issubclass(kind, Secret):
        return None
    hints = typing.get_type_hints(kind)
    if not all(_fits(hints[field.name]) for field in fields(kind)):
        return None
    return tuple(field.name for field in fields(kind) if _has_float(hints[field.name]))


def _fits(hint: Any) -> bool:  # noqa: ANN401 - a type hint has no type of its own
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in UNIONS:
        return all(map(_fits, inner))
    if origin is tuple:
        return len(inner) == 2 and inner[1] is Ellipsis and _fits(inner[0])
    if origin is Mapping:
        return inner[0] is str and _fits(inner[1])
    if origin is typing.Literal:
        return all(isinstance(each, str) for each in inner)
    if not isinstance(hint, type):
        return False
    return hint in PLAIN or hint is float or issubclass(hint, StrEnum) or _floats(hint) is not None  # type: ignore[arg-type] # as above


def _has_float(hint: Any) -> bool:  # noqa: ANN401 - as above
    if isinstance(hint, type):
        return hint is float or (is_dataclass(hint) and bool(_floats(hint)))
    return any(map(_has_float, typing.get_args(hint)))
