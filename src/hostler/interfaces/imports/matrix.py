"""llama-swap's matrix: which models may be up together, from its expressions.

Decides what an expression means: `a & b` both, `a | b` one of them, `+set` another set. Each set permits all
its subsets. Pairs are computed without writing the sets out: ten times `(a | …) & (b | …)` has 10^10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(r"\s*(?:([&|()])|(\+?)([A-Za-z0-9_.-]+))")
MAX_DEPTH: Final = 50

Pair = frozenset[str]


class Malformed(Exception):
    """An expression that says nothing: `str()` is the reason."""


@dataclass(frozen=True, slots=True)
class One:
    """A model."""

    name: str


@dataclass(frozen=True, slots=True)
class Both:
    """All of these together."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of these."""

    parts: tuple[Expression, ...]


Expression = One | Both | Either


def members(expression: Expression) -> frozenset[str]:
    """Every model in it."""
    if isinstance(expression, One):
        return frozenset({expression.name})
    return frozenset().union(*(members(part) for part in expression.parts))


def pairs(expression: Expression) -> frozenset[Pair]:
    """Every two models that it permits together."""
    if isinstance(expression, One):
        return frozenset()
    found = set().union(*(pairs(part) for part in expression.parts))
    if isinstance(expression, Both):
        sides = [members(part) for part in expression.parts]
        for index, side in enumerate(sides):
            for other in sides[index + 1 :]:
                found |= {frozenset({one, two}) for one in side for two in other if one != two}
    return frozenset(found)


def permits(expression: Expression, wanted: frozenset[str]) -> bool:
    """Whether all of `wanted` may be up at once."""
    if not wanted:
        return True
    if isinstance(expression, One):
        return wanted == {expression.name}
    if isinstance(expression, Either):
        return any(permits(part, wanted) for part in expression.parts)
    return _shared_out(expression.parts, wanted)


def _shared_out(parts: tuple[Expression, ...], wanted: frozenset[str]) -> bool:
    """Whether each of `wanted` finds a part of its own to come from, together with the others there."""
    if not parts:
        return not wanted
    first, rest = parts[0], parts[1:]
    possible = sorted(wanted & members(first))
    for number in range(1 << len(possible)):
        chosen = frozenset(name for bit, name in enumerate(possible) if number >> bit & 1)
        if permits(first, chosen) and _shared_out(rest, wanted - chosen):
            return True
    return False


@dataclass(slots=True)
class _Parser:
    """Reads one expression. `names` leads from a word to a model, `sets` from a set's name to its text."""

    words: list[tuple[str, str]]
    names: Mapping[str, str]
    sets: Mapping[str, str]
    within: tuple[str, ...]

    def whole(self) -> Expression:
        found = self._either()
        if self.words:
            raise Malformed(f"{self.words[0][1]} is not expected there")
        return found

    def _either(self) -> Expression:
        parts = [self._both()]
        while self._take("|"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _both(self) -> Expression:
        parts = [self._one()]
        while self._take("&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _take(self, sign: str) -> bool:
        if self.words and self.words[0] == ("sign", sign):
            self.words.pop(0)
            return True
        return False

    def _one(self) -> Expression:
        if self._take("("):
            inner = self._either()
            if not self._take(")"):
                raise Malformed("a parenthesis is not closed")
            return inner
        if not self.words or self.words[0][0] == "sign":
            raise Malformed("a model is missing")
        kind, word = self.words.pop(0)
        if kind == "set":
            return self._other(word)
        if word not in self.names:
            raise Malformed(f"there is no model {word}")
        return One(self.names[word])

    def _other(self, name: str) -> Expression:
        if name not in self.sets:
            raise Malformed(f"there is no set {name}")
        if name in self.within or len(self.within) > MAX_DEPTH:
            raise Malformed(f"the set {name} is made of itself")
        return parse(self.sets[name], self.names, self.sets, (*self.within, name))


def parse(
    text: str, names: Mapping[str, str], sets: Mapping[str, str], within: tuple[str, ...] = ()
) -> Expression:
    """The expression that `text` is. Raises Malformed."""
    words: list[tuple[str, str]] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Malformed(f"{text[position:].strip()[:20]} is not understood")
        words.append(("sign", match[1]) if match[1] else ("set" if match[2] else "model", match[3]))
        position = match.end()
    if text.count("(") > MAX_DEPTH:
        raise Malformed(f"more than {MAX_DEPTH} parentheses")
    return _Parser(words=words, names=names, sets=sets, within=within).whole()
