"""A plot of costs by size, as an SVG made of plain text: both axes in powers of ten.

Colours hold on light and dark pages, and every line is named at its end, so that none depends on its colour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 50
COLOURS: Final = ("#3b7dd8", "#c8553d", "#3a9b6a", "#9a6fb0", "#b8860b")
GREY: Final = "#808080"
FONT: Final = "font-family='sans-serif' font-size='12'"


def plot(title: str, across: str, up: str, sizes: Sequence[int], lines: Mapping[str, Sequence[float]]) -> str:
    """The picture. `lines` have a value for each of `sizes`, all above zero."""
    values = [value for line in lines.values() for value in line]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(min(sizes)), math.log10(max(sizes))

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' role='img'>",
        f"<title>{escape(title)}</title>",
        _text(LEFT, 20, title, "start"),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, across, "middle"),
        _text(12, TOP - 8, up, "start"),
    ]
    for power in range(low, high + 1):
        here = y(10.0**power)
        ends = f"x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{here:.1f}' y2='{here:.1f}'"
        parts.append(f"<line {ends} stroke='{GREY}' stroke-opacity='0.3'/>")
        parts.append(_text(LEFT - 8, here + 4, f"{10.0**power:g}", "end"))
    parts += [_text(x(size), HEIGHT - BOTTOM + 18, f"{size:,}", "middle") for size in sizes]
    heights = _apart([y(line[-1]) for line in lines.values()])
    for place, (name, line) in enumerate(lines.items()):
        colour = COLOURS[place % len(COLOURS)]
        points = [(x(size), y(value)) for size, value in zip(sizes, line, strict=True)]
        way = " ".join(f"{across_:.1f},{up_:.1f}" for across_, up_ in points)
        parts.append(f"<polyline points='{way}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts += [f"<circle cx='{cx:.1f}' cy='{cy:.1f}' r='3' fill='{colour}'/>" for cx, cy in points]
        parts.append(_text(WIDTH - RIGHT + 10, heights[place] + 4, name, "start", colour))
    return "\n".join([*parts, "</svg>", ""])


def _apart(heights: Sequence[float], gap: float = 16.0) -> list[float]:
    """The heights of the names, none upon another."""
    found, last = list(heights), -math.inf
    for place in sorted(range(len(heights)), key=lambda it: heights[it]):
        last = found[place] = max(heights[place], last + gap)
    return found


def _text(x: float, y: float, text: str, anchor: str, colour: str = GREY) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{colour}' {FONT}>{escape(text)}</text>"
    )
