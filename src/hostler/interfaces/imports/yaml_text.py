"""Writes a config as a person would: block style, short lists on one line, comments beside what they explain.

Decides the form only. What it writes reads back as what it was given, under the strict rules of CONF-1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hostler.domain.values import escape_controls

WIDTH: Final = 110
FIRST_LINE: Final = "# yaml-language-server: $schema=./hostler.schema.json"
"""Tells editors where the JSON Schema is; the first line of every config that we write (CONF-1)."""

_PLAIN: Final = re.compile(r"(--?)?[A-Za-z_/][A-Za-z0-9_./@+-]*(:[A-Za-z0-9_./@+-]+)*")
_MEASURE: Final = re.compile(r"([0-9]+(ms|[smhd]))+|[0-9]+(\.[0-9]+)? [KMGT]?i?B")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_HIDDEN: Final = re.compile("[\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]")


@dataclass(frozen=True, slots=True)
class Said:
    """A value with comments: `above` it, a line each, and `beside` it."""

    value: object
    above: tuple[str, ...] = ()
    beside: str = ""


def write(document: Mapping[str, object], head: Sequence[str] = ()) -> str:
    """The document as YAML, with `head` as comment lines below the first line."""
    lines = [FIRST_LINE, *(_comment(line) for line in head), *_mapping(document, 0)]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    return f"# {escape_controls(text)}".rstrip()


def _mapping(document: Mapping[str, object], depth: int) -> Iterator[str]:
    for name, given in document.items():
        said = given if isinstance(given, Said) else Said(given)
        indent = "  " * depth
        yield from ("" if not line else indent + _comment(line) for line in said.above)
        beside = f"  {_comment(said.beside)}" if said.beside else ""
        yield from _entry(f"{indent}{scalar(name)}:", said.value, beside, depth)


def _entry(start: str, value: object, beside: str, depth: int) -> Iterator[str]:
    flow = _flow(value)
    if flow is not None and len(start) + 1 + len(flow) + len(beside) <= WIDTH:
        yield f"{start} {flow}{beside}"
    elif isinstance(value, Mapping) and value:
        yield start + beside
        yield from _mapping(value, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        yield start + beside
        yield from _list(value, depth + 1)
    else:
        yield f"{start} {flow}{beside}"


def _list(items: Sequence[object], depth: int) -> Iterator[str]:
    """Scalars fill their lines, as long as a flag and its value stay readable; the rest stands one a line."""
    indent = "  " * depth
    if all(_is_scalar(item) for item in items):
        yield from _filled([scalar(item) for item in items], indent)
        return
    for item in items:
        flow = _flow(item)
        if flow is None:
            raise ValueError("an item of a list has no comments")
        yield f"{indent}- {flow}"


def _filled(words: Sequence[str], indent: str) -> Iterator[str]:
    line = indent + "["
    for number, word in enumerate(words):
        part = word + ("]" if number == len(words) - 1 else ",")
        if len(line) + len(part) > WIDTH and line.strip() not in ("[", ""):
            yield line.rstrip()
            line = indent + " "
        line += part + " "
    yield line.rstrip()


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int | float)


def _flow(value: object) -> str | None:
    """The value on one line; None for a mapping with comments in it, or with nested block content."""
    if isinstance(value, Said):
        return None
    if isinstance(value, Mapping):
        parts = [(scalar(name), _flow(each)) for name, each in value.items()]
        if any(flow is None for _, flow in parts):
            return None
        return "{" + ", ".join(f"{name}: {flow}" for name, flow in parts) + "}"
    if _is_scalar(value):
        return scalar(value)
    if isinstance(value, Sequence):
        flows = [_flow(each) for each in value]
        return None if None in flows else "[" + ", ".join(str(flow) for flow in flows) + "]"
    raise TypeError(f"a config has no {type(value).__name__}")


def scalar(value: object) -> str:
    """A scalar of the core schema; text is quoted wherever it could be read as anything else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    text = str(value)
    if (_PLAIN.fullmatch(text) and text.lower() not in _WORDS) or _MEASURE.fullmatch(text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)
