"""Small plots in text: a progress bar, and a line of values (HIST-2).

Decides how many characters they take and which. Blocks where a terminal can show them, ASCII elsewhere.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Final

from hostler.interfaces.cli.output import on_terminal

WIDTH: Final = 40
"""Characters of a bar or a plot."""
BLOCKS: Final = "▁▂▃▄▅▆▇█"
STROKES: Final = "_.-~=+*#"
"""The same eight heights for what is no UTF-8 terminal."""


def fancy() -> bool:
    """Whether stdout is a terminal that shows blocks."""
    return on_terminal(sys.stdout) and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def bar(value: float, *, blocks: bool, width: int = WIDTH) -> str:
    """A bar of `width` characters and the percentage; `value` is cut to 0..1."""
    share = min(1.0, max(0.0, value))
    full = math.floor(share * width)
    done, rest = ("█", "░") if blocks else ("#", ".")
    return f"[{done * full}{rest * (width - full)}] {math.floor(share * 100)} %"


def line(values: Sequence[float], *, blocks: bool, width: int = WIDTH) -> str:
    """`values` as at most `width` heights: each the mean of its part, between the least and the greatest."""
    if not values:
        return ""
    parts = min(width, len(values))
    means = [_mean(values[len(values) * i // parts : len(values) * (i + 1) // parts]) for i in range(parts)]
    least, most = min(means), max(means)
    heights = BLOCKS if blocks else STROKES
    return "".join(heights[_height(mean, least, most, len(heights))] for mean in means)


def number(value: float) -> str:
    """A measured value in at most six digits."""
    return f"{value:.6g}"


def _mean(values: Sequence[float]) -> float:
    # Divided before it is added: two of the greatest floats have no sum.
    return math.fsum(value / len(values) for value in values)


def _height(value: float, least: float, most: float, levels: int) -> int:
    if most <= least:
        return levels // 2
    span = most / 2 - least / 2
    return min(levels - 1, int((value / 2 - least / 2) / span * levels)) if span > 0 else levels // 2
