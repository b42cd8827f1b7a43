"""What a word of a script may come to: its variables, loops and sums (PORT-2).

Decides values from the text alone: assignments before it, defaults, `seq`. What only a run tells is a hole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

from hostler.adapters.scan.args import HOLE, Value, Word
from hostler.adapters.scan.lexer import Of, Part, Token, tokens
from hostler.domain.ports import Certainty, least_sure

MOST: Final = 128
"""Values of one word that are followed: a loop over more ports is told as its first ones."""
LONGEST: Final = 1 << 16
"""Characters of a word of one value, which may be a script; one of several is cut to `SHORT`."""
SHORT: Final = 256
DEEPEST: Final = 8
_EXPRESSION: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+)(?:(:?[-=?+])(.*))?", re.DOTALL)
_NUMBER: Final = re.compile(r"\s*(?:([0-9]{1,9})|\$?\{?([A-Za-z_][A-Za-z0-9_]*)\}?|([-+*/%()]))")

Known = Mapping[str, Sequence[Value]]
"""The values that each variable may have at this place."""

_UNTOLD: Final = Value(HOLE, Certainty.VARIABLE)


def expand(token: Token, known: Known, depth: int = 0) -> Word:
    """The word with all values that its text tells."""
    found: list[Value] = []
    choices = [_part(part, known, depth) for part in token.parts]
    longest = LONGEST if all(len(each) == 1 for each in choices) else SHORT
    for combination in product(*choices):
        # `A=$A$A` again and again would fill the memory; nothing that long is a port.
        small = sum(len(value.text) for value in combination) <= longest
        found.append(_joined(combination) if small else _UNTOLD)
        if len(found) == MOST:
            break
    return Word(tuple(found))


def split(token: Token, known: Known) -> Iterable[Value]:
    """The words that a word without quotes comes to, as a loop or a command's list sees them."""
    if any(part.quoted for part in token.parts):
        yield from expand(token, known).values
        return
    for value in expand(token, known).values:
        for text in value.text.split():
            yield replace(value, text=text)


def _joined(values: Sequence[Value]) -> Value:
    return Value(
        "".join(value.text for value in values),
        least_sure(*(value.certainty for value in values)),
        any(value.branch for value in values),
    )


def _part(part: Part, known: Known, depth: int) -> Sequence[Value]:
    if part.of is Of.TEXT:
        return (Value(part.text),)
    if depth >= DEEPEST:
        return (_UNTOLD,)
    if part.of is Of.VARIABLE:
        return _variable(part.text, known, depth)
    if part.of is Of.SUM:
        return _sums(part.text, known)
    return _command(part.text, known, depth)


def _variable(text: str, known: Known, depth: int) -> Sequence[Value]:
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        return (_UNTOLD,)
    name, operator, other = match[1], match[2] or "", match[3] or ""
    values = tuple(known.get(name, ()))
    if operator.endswith("+"):
        return (*_inner(other, known, depth, Certainty.VARIABLE), Value("", Certainty.VARIABLE))
    if operator.endswith(("-", "=")):
        empty = not values or (operator.startswith(":") and all(not each.text for each in values))
        return _inner(other, known, depth, Certainty.DEFAULT) if empty else values
    return values or (_UNTOLD,)


def _inner(text: str, known: Known, depth: int, at_least: Certainty) -> Sequence[Value]:
    """The values of a default: it is read as if it stood in quotes, less the quotes."""
    found = tokens(text)
    if not found:
        return (Value("", at_least),)
    if len(found) > 1 or not found[0].is_word:
        return (Value(text, at_least),)
    values = expand(found[0], known, depth + 1).values
    return tuple(replace(each, certainty=least_sure(each.certainty, at_least)) for each in values)


def _command(text: str, known: Known, depth: int) -> Sequence[Value]:
    """`$(seq 8047 8049)` and `$(echo N)` are told by their text; no other command is."""
    found = tokens(text)
    if not found or not all(each.is_word for each in found):
        return (_UNTOLD,)
    name, *rest = (expand(each, known, depth + 1).text for each in found)
    if name == "seq" and 1 <= len(rest) <= 3 and all(re.fullmatch(r"[0-9]{1,6}", each) for each in rest):
        numbers = [int(each) for each in rest]
        first = 1 if len(numbers) == 1 else numbers[0]
        step = numbers[1] if len(numbers) == 3 else 1
        every = range(first, numbers[-1] + 1, max(1, step))
        return tuple(Value(str(number)) for number in every[:MOST]) or (Value(""),)
    if name == "echo":
        return (Value(" ".join(rest)),)
    return (_UNTOLD,)


def _sums(text: str, known: Known) -> Sequence[Value]:
    """`$((BASE + 1))` for each value of each variable in it."""
    names = sorted({match[2] for match in _NUMBER.finditer(text) if match[2]})
    choices = [known.get(name, (Value("0", Certainty.VARIABLE),)) for name in names]
    found = []
    for values in product(*choices):
        numbers = {name: value.text for name, value in zip(names, values, strict=True)}
        result = _evaluate(text, numbers)
        found.append(_UNTOLD if result is None else replace(_joined(values), text=str(result)))
        if len(found) == MOST:
            break
    return tuple(found)


def _evaluate(text: str, numbers: Mapping[str, str]) -> int | None:
    """A sum of whole numbers; None for anything else that a shell might calculate."""
    terms: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text) and len(terms) < 64:
        match = _NUMBER.match(text, at)
        if match is None:
            return None
        terms.append(numbers[match[2]] if match[2] else match[1] or match[3])
        at = match.end()
    try:
        value, rest = _plus(terms, 0)
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    return value if rest == len(terms) and abs(value) < 10**9 else None


def _plus(terms: Sequence[str], at: int) -> tuple[int, int]:
    value, at = _times(terms, at)
    while at < len(terms) and terms[at] in "+-":
        other, following = _times(terms, at + 1)
        value, at = (value + other if terms[at] == "+" else value - other), following
    return value, at


def _times(terms: Sequence[str], at: int) -> tuple[int, int]:
    value, at = _single(terms, at)
    while at < len(terms) and terms[at] in "*/%":
        other, following = _single(terms, at + 1)
        operator = terms[at]
        value = value * other if operator == "*" else value // other if operator == "/" else value % other
        at = following
    return value, at


def _single(terms: Sequence[str], at: int) -> tuple[int, int]:
    """A number, or a sum in parentheses. Raises ValueError for anything else."""
    if at >= len(terms):
        raise ValueError("a term is missing")
    if terms[at] == "(":
        value, at = _plus(terms, at + 1)
        if at >= len(terms) or terms[at] != ")":
            raise ValueError("a parenthesis is open")
        return value, at + 1
    if not re.fullmatch(r"[0-9]{1,9}", terms[at]):
        raise ValueError(f"{terms[at]} is no number")
    return int(terms[at]), at + 1
