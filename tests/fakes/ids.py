"""Ids in a known order, and loaded dice."""

from __future__ import annotations

from itertools import count


class CountingIds:
    """The need `Ids`: `<prefix>_` and a number of 26 digits that counts up; `jitter` is what was set."""

    def __init__(self, jitter: float = 0.5) -> None:
        self.dice = jitter
        self._numbers = count(1)

    def new(self, prefix: str) -> str:
        return f"{prefix}_{next(self._numbers):026d}"

    def jitter(self) -> float:
        return self.dice
