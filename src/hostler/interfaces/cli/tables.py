"""Tables: styled on a terminal and never cut to make them fit, plain and whole on a pipe (INTERFACE-2).

Decides which columns a narrow terminal shows and what is folded. Foreign text is escaped (BG-22).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final

from hostler.domain.fleet import frozen
from hostler.domain.values import shorten
from hostler.interfaces.cli.output import on_terminal, say

CELL: Final = 120
"""The longest cell of a table on a terminal: a reason is text of others, and is not to fill it (BG-22)."""
WHOLE: Final = 4096
"""The longest cell on a pipe, and where nothing may be lost: the longest path that Linux knows."""
FOLDED: Final = 29
"""What is wider may be folded, down to this; a name, a state, a time and the id of a lease stay whole."""
GAP: Final = 2

_STYLES: Final[Mapping[str, str]] = frozen(
    {
        "ready": "green",
        "failed": "bold red",
        "starting": "yellow",
        "draining": "yellow",
        "stopping": "yellow",
        "unknown": "magenta",
        "held": "bold yellow",
        "free": "green",
        "stuck": "bold red",
    }
)


def say_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    empty: str,
    longest: int = CELL,
    spare: Sequence[str] = (),
) -> None:
    """A table for people: styled on a terminal, plain columns on a pipe, `empty` without rows.

    On a terminal cells end after `longest` characters and wide ones are folded; where that is not enough
    the columns of `spare` go, the first one first, and a line below says which.
    """
    if not rows:
        say(empty)
    elif on_terminal(sys.stdout):
        _styled(columns, [[shorten(cell, longest) for cell in row] for row in rows], spare)
    else:
        _plain(columns, [[shorten(cell, WHOLE) for cell in row] for row in rows])


def _plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # One long cell pads no other row further than a terminal's cell would.
    widths = [min(CELL, max(len(row[i]) for row in (columns, *rows))) for i in range(len(columns))]
    for row in (columns, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _styled(columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str]) -> None:
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    natural = [max(cell_len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    widths = dict(zip(columns, natural, strict=True))
    shown = fitting(widths, spare, console.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in shown:
        table.add_column(column, width=shown[column], overflow="fold")
    places = [columns.index(column) for column in shown]
    for row in rows:
        table.add_row(*(Text(row[i], style=_STYLES.get(row[i].split(" ")[0], "")) for i in places))
    console.print(table)
    hidden = [column for column in columns if column not in shown]
    if hidden:
        say(f"Not shown for want of width: {', '.join(hidden)}; --json has everything.")


def fitting(widths: Mapping[str, int], spare: Sequence[str], room: int) -> Mapping[str, int]:
    """The columns to show in `room` characters and how wide each is, from how wide they would be.

    Wide ones shrink to `FOLDED`, then the `spare` ones go, then all shrink, the widest first, to no less
    than one character.
    """
    kept = dict(widths)
    for column in spare:
        if _total({name: min(width, FOLDED) for name, width in kept.items()}) <= room:
            break
        kept.pop(column, None)
    floor = FOLDED
    while _total(kept) > room and floor >= 1:
        widest = max(kept, key=lambda name: kept[name])
        if kept[widest] > floor:
            kept[widest] = max(floor, kept[widest] - (_total(kept) - room))
        else:
            floor -= 1
    return kept


def _total(widths: Mapping[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)
