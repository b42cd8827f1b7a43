"""The caller's own key, and the secret that proves it, taken out of what it wrote (JOB-7, SEC-1).

Decides which texts of a body are cleaned, and what counts as the caller's own. A key that is known by its
digest only can be found just here: where it came in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Final, TypeVar, cast

_T = TypeVar("_T")

LEAST: Final = 8
"""A shorter text stands in every other by chance; no key of ours, and no secret, is so short."""
PLAIN: Final = frozenset({int, float, bool, NoneType})
PROOFS: Final = frozenset({"secret", "secret_hash", "epoch"})
"""What is sent as a proof stays what it is: it is compared, never told."""


def own_secrets(headers: Mapping[str, str], body: object = None) -> Sequence[str]:
    """What came with this call and must not be told: its keys, right or wrong, and the secret in its body."""
    sent = [headers.get(name, "").strip() for name in ("authorization", "x-api-key")]
    bare = [text.partition(" ")[2].strip() for text in sent]
    proof = getattr(body, "secret", None)
    return [each for each in (*sent, *bare, proof) if isinstance(each, str) and len(each) >= LEAST]


def cleaned(value: _T, redact: Callable[[str], str]) -> _T:
    """The same value, every text in it redacted but proofs; also the names of a mapping."""
    return cast("_T", _clean(value, redact))


def _clean(value: object, redact: Callable[[str], str]) -> object:
    if value.__class__ in PLAIN:
        return value
    if isinstance(value, str):
        text = redact(value)
        return value if text == value else text
    if isinstance(value, list | tuple):
        return type(value)(_clean(item, redact) for item in value)
    if isinstance(value, Mapping):
        return {_clean(name, redact): _clean(item, redact) for name, item in value.items()}
    names = _texts(value.__class__)  # type: ignore[arg-type] # mypy reads "no object has a hash" of a class
    had = {name: getattr(value, name) for name in names}
    changed = {name: now for name, item in had.items() if (now := _clean(item, redact)) is not item}
    return replace(value, **changed) if changed else value  # type: ignore[type-var] # only dataclasses have names


@cache
def _texts(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass that may have to be cleaned; none of any other type."""
    return tuple(it.name for it in fields(kind) if it.name not in PROOFS) if is_dataclass(kind) else ()
