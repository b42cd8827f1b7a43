"""Variables in compose files: `$VAR`, `${VAR}`, defaults, alternatives, nested ones, `$$` (PORT-2).

Decides what a text comes to with what is known of its variables, and how sure that is. Executes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.ports import Certainty, least_sure

MAX_DEPTH: Final = 12
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR: Final = re.compile(r":?[-?+]")
_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A text with its variables filled in. `unset` came to nothing, `missing` must be set and are not."""

    text: str
    certainty: Certainty = Certainty.LITERAL
    unset: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def _whole(parts: Sequence[Filled]) -> Filled:
    """The parts, one after the other."""
    return Filled(
        text="".join(part.text for part in parts),
        certainty=least_sure(*(part.certainty for part in parts)),
        unset=tuple(name for part in parts for name in part.unset),
        missing=tuple(name for part in parts for name in part.missing),
    )


def fill(text: str, known: Mapping[str, str], depth: int = 0) -> Filled:
    """`text` with its variables filled in from `known`. What is no variable stays as it is."""
    parts: list[Filled] = []
    at = 0
    while at < len(text):
        dollar = text.find("$", at)
        if dollar < 0 or depth > MAX_DEPTH:
            break
        parts.append(Filled(text=text[at:dollar]))
        part, at = _variable(text, dollar, known, depth)
        parts.append(part)
    return _whole([*parts, Filled(text=text[at:])])


def _variable(text: str, dollar: int, known: Mapping[str, str], depth: int) -> tuple[Filled, int]:
    """What begins at a dollar sign, and where it ends."""
    following = text[dollar + 1 : dollar + 2]
    if following == "$":
        return Filled(text="$"), dollar + 2
    if following == "{":
        end = closing(text, dollar + 2)
        inner = text[dollar + 2 : end]
        name = _NAME.match(inner)
        if end == len(text):  # It never closes, and neither does any after it.
            return Filled(text=text[dollar:]), end
        if name is not None:
            return _expression(name[0], inner[name.end() :], known, depth), end + 1
    elif (name := _NAME.match(text, dollar + 1)) is not None:
        return _expression(name[0], "", known, depth), name.end()
    return Filled(text="$"), dollar + 1


def closing(text: str, start: int) -> int:
    """Where the brace opened before `start` closes; the end of the text where it does not."""
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if not depth:
                return at
    return len(text)


def _expression(name: str, rest: str, known: Mapping[str, str], depth: int) -> Filled:
    value = known.get(name)
    operator = _OPERATOR.match(rest)
    if operator is None:
        if value is None:
            return Filled(text="", certainty=Certainty.VARIABLE, unset=(name,))
        return Filled(text=value, certainty=Certainty.VARIABLE)
    is_set = value is not None and (value != "" or not operator[0].startswith(":"))
    other, what = rest[operator.end() :], operator[0][-1]
    if what == "+":
        chosen = fill(other, known, depth + 1) if is_set else Filled(text="")
        return replace(chosen, certainty=least_sure(Certainty.VARIABLE, chosen.certainty))
    if is_set and value is not None:
        return Filled(text=value, certainty=Certainty.VARIABLE)
    if what == "?":
        return Filled(text="", certainty=Certainty.VARIABLE, missing=(name,))
    chosen = fill(other, known, depth + 1)
    return replace(chosen, certainty=least_sure(Certainty.DEFAULT, chosen.certainty))


def env_file(text: str) -> dict[str, str]:
    """The variables of a `.env` file: quotes are taken off, comments behind a value too."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is not None and not line.lstrip().startswith("#"):
            found[match[1]] = _unquoted(match[2].strip())
    return found


def _unquoted(value: str) -> str:
    if value[:1] in ("'", '"'):
        end = value.find(value[0], 1)
        return value[1:end] if end > 0 else value[1:]
    return value.partition(" #")[0].rstrip()
