"""Which endpoint a path leads to: by one look-up for most, by a pattern for those with parameters.

Decides how a path is matched, as `{name}` is one part of it and `{name:path}` any; a path without parameters
comes first. What is done with it, and what an unknown path answers, is for others.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.routing import compile_path

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Generic[T]):
    """A path with parameters, and what it leads to."""

    regex: re.Pattern[str]
    target: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths(Generic[T]):
    """`patterns` by what stands before the first parameter; `lengths` of these, the longest first."""

    exact: Mapping[str, T]
    patterns: Mapping[str, Sequence[Pattern[T]]]
    lengths: Sequence[int]

    def find(self, path: str) -> tuple[T, Mapping[str, str]] | None:
        """What the path leads to, and its parameters; None for a path that nobody knows."""
        known = self.exact.get(path)
        if known is not None:
            return known, {}
        for length in self.lengths:
            for pattern in self.patterns.get(path[:length], ()):
                match = pattern.regex.match(path)
                if match is not None:
                    return pattern.target, match.groupdict()
        return None


def paths(targets: Iterable[tuple[str, T]]) -> Paths[T]:
    """Of those that stand before their first parameter alike the one that comes first is tried first."""
    exact: dict[str, T] = {}
    patterns: defaultdict[str, list[Pattern[T]]] = defaultdict(list)
    for path, target in targets:
        before, parameter, _ = path.partition("{")
        if parameter:
            patterns[before].append(Pattern(regex=compile_path(path)[0], target=target))
        else:
            exact[path] = target
    return Paths(exact=exact, patterns=dict(patterns), lengths=sorted({*map(len, patterns)}, reverse=True))
