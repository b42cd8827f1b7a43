"""Steps, undos and what they found as JSON, told apart by `kind`: in the store, in receipts, on the wire.

Decides nothing: which kinds there are is `hostler.domain.step`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, cast, get_args

import msgspec

from hostler.domain.fleet import frozen
from hostler.domain.step import Found, Step, Undo
from hostler.wire.values import to_json

_T = TypeVar("_T")


def _by_kind(union: object) -> Mapping[str, type]:
    return frozen({member.__dataclass_fields__["kind"].default: member for member in get_args(union)})


STEPS: Final = _by_kind(Step)
UNDOS: Final = _by_kind(Undo)
FOUND: Final = _by_kind(Found)


def step_from_json(found: object) -> Step:
    """The step of its JSON form. Raises ValueError."""
    return cast("Step", _made(STEPS, found))


def work_from_json(found: object) -> Step | Undo:
    """The step or the undo of its JSON form, as an operation carries either. Raises ValueError."""
    return cast("Step | Undo", _made({**STEPS, **UNDOS}, found))


def found_from_json(found: object) -> Found:
    """What a step found, of its JSON form. Raises ValueError."""
    return cast("Found", _made(FOUND, found))


def plain(value: Step | Undo | Found) -> Mapping[str, object]:
    """The JSON form of any of these: an object with its `kind`."""
    return cast("Mapping[str, object]", to_json(value))


def _made(known: Mapping[str, type[_T]], found: object) -> _T:
    kind = found.get("kind") if isinstance(found, Mapping) else None
    model = known.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise ValueError(f"{found!r} is of no known kind")
    try:
        return msgspec.convert(found, model)
    except msgspec.ValidationError as error:
        raise ValueError(f"{found!r} does not fit: {error}") from error
