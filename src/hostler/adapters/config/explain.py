"""Tells a validation error in words: where, what was expected, and the nearest valid name (CONF-2).

Decides no rule; the models of `hostler.adapters.config.schema` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, cast

from pydantic_core import ErrorDetails

from hostler.adapters.config.schema.base import kind_of
from hostler.adapters.config.schema.reservations import VERBS
from hostler.adapters.config.tree import Node, Path, child
from hostler.domain.values import shorten

LISTED: Final = 12
"""At most this many valid names are listed where none is near."""

MISSING: Final = "is missing"
UNKNOWN: Final = "no such key"

Schema = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An error in words. `at_key`: it is the key that is wrong, not its value."""

    path: Path
    message: str
    hint: str = ""
    at_key: bool = False


def nearest(name: str, names: Iterable[str]) -> str:
    """`nearest valid name: X`, else the valid names where they are few, else empty."""
    valid = list(dict.fromkeys(names))
    near = get_close_matches(name, valid, n=1, cutoff=0.6)
    if near:
        return f"nearest valid name: {shorten(near[0])}"
    if not valid:
        return ""
    if len(valid) > LISTED:
        return f"{len(valid)} are known, none is near"
    return f"valid: {', '.join(shorten(each) for each in valid)}"


def explain(error: ErrorDetails, root: Node, schema: Callable[[], Schema]) -> Told:
    """One of pydantic's errors in words. `schema` is asked only where a key is unknown."""
    path, at_key = place(error["loc"], root)
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        name = str(path[-1])
        return Told(
            path=path,
            message=UNKNOWN,
            hint=nearest(name, known_keys(schema(), path[:-1])),
            at_key=True,
        )
    if kind == "missing":
        return Told(path=path, message=MISSING)
    if kind == "literal_error":
        expected = str(context.get("expected", "")).replace("'", "")
        words = expected.replace(" or ", ", ").split(", ")
        hint = nearest(error["input"], words) if isinstance(error["input"], str) else ""
        found = kind_of(error["input"])
        return Told(
            path=path,
            message=f"expected {expected}, not {found}",
            hint=hint if hint.startswith("nearest") else "",
        )
    if kind == "union_tag_invalid":
        return Told(path=path, message=f"expected one of the verbs {', '.join(VERBS)}")
    return Told(path=path, message=_message(error), at_key=at_key)


def _message(error: ErrorDetails) -> str:
    kind, context, found = error["type"], error.get("ctx", {}), kind_of(error["input"])
    wanted = {
        "string_type": "text",
        "bool_type": "true or false",
        "int_type": "a whole number",
        "int_from_float": "a whole number",
        "float_type": "a number",
        "list_type": "a list",
        "dict_type": "a mapping",
        "model_type": "a mapping of keys",
    }
    if kind in wanted:
        return f"expected {wanted[kind]}, not {found}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "too_short":
        return f"expected at least {context['min_length']} of them"
    if kind == "greater_than_equal":
        return f"expected a number of at least {context['ge']}, not {found}"
    if kind == "less_than_equal":
        return f"expected a number of at most {context['le']}, not {found}"
    return error["msg"][:1].lower() + error["msg"][1:]


def place(loc: tuple[int | str, ...], root: Node) -> tuple[Path, bool]:
    """The path of keys of pydantic's location, and whether the key itself is meant.

    Leaves out the tags of alternatives (`=list`), which are in no file.
    """
    path: list[int | str] = []
    node: Node | None = root
    for step in loc:
        found = None if node is None else child(node, step)
        if found is None and isinstance(step, str) and step.startswith("="):
            continue
        if found is None and step == "[key]":
            return tuple(path), True
        path.append(step)
        node = None if found is None else found[1]
    return tuple(path), False


def known_keys(schema: Schema, path: Path) -> list[str]:
    """The keys that a JSON Schema knows of the mapping at `path`, in its order."""
    return [key for part in parts_at(schema, path) for key in _properties(part)]


def parts_at(schema: Schema, path: Path) -> list[Schema]:
    """The parts of a JSON Schema that describe the value at `path`."""
    parts = list(expand(schema, schema))
    for step in path:
        inner = (_step(part, step) for part in parts)
        parts = [deep for part in inner if part is not None for deep in expand(schema, part)]
    return parts


def expand(schema: Schema, part: Schema) -> Iterator[Schema]:
    """`part` of a JSON Schema with its reference followed and its alternatives taken apart."""
    reference = part.get("$ref")
    if isinstance(reference, str):
        definitions = cast("Mapping[str, Schema]", schema["$defs"])
        yield from expand(schema, definitions[reference.rpartition("/")[2]])
        return
    alternatives = [
        each for name in ("anyOf", "oneOf", "allOf") for each in cast("list[Schema]", part.get(name, []))
    ]
    if not alternatives:
        yield part
    for each in alternatives:
        yield from expand(schema, each)


def _step(part: Schema, step: str | int) -> Schema | None:
    if isinstance(step, int):
        return cast("Schema | None", part.get("items"))
    named = _properties(part).get(step)
    if named is not None:
        return named
    patterns = cast("Mapping[str, Schema]", part.get("patternProperties", {}))
    if patterns:
        return next(iter(patterns.values()))
    other = part.get("additionalProperties")
    return cast("Schema", other) if isinstance(other, Mapping) else None


def _properties(part: Schema) -> Mapping[str, Schema]:
    return cast("Mapping[str, Schema]", part.get("properties", {}))
