"""How a command answers: JSON, tables, times and sentences; colour only on a terminal.

Decides the form of every answer on stdout. Decides no exit code (`interfaces.cli.failure`). All foreign
text is escaped before it is printed and takes one row (BG-22).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TextIO

from hostler.domain.fleet import frozen
from hostler.domain.values import format_duration, shorten
from hostler.services.picture import HoldStatus

CELL: Final = 120
"""The longest cell of a table: a reason is text of others, and one row is one item (BG-22)."""

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


_WIRE_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def on_terminal(stream: TextIO) -> bool:
    """Whether a person reads `stream`: tables are plain and nothing moves elsewhere."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def say_json(value: object) -> None:
    """One JSON document on one line; characters beyond ASCII are escaped, so none can move a cursor."""
    print(json.dumps(value, separators=(",", ":")), flush=True)


def say(text: str = "") -> None:
    """One line of ours, foreign parts already shortened."""
    print(text, flush=True)


def say_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str, longest: int = CELL
) -> None:
    """A table for people: styled on a terminal, plain columns on a pipe, `empty` without rows.

    Cells are cut to `longest`; where that is more than `CELL`, the last column is folded on a terminal.
    """
    if not rows:
        say(empty)
        return
    safe = [[shorten(cell, longest) for cell in row] for row in rows]
    if on_terminal(sys.stdout):
        _styled(columns, safe, fold=longest > CELL)
        return
    widths = [max(len(row[i]) for row in (columns, *safe)) for i in range(len(columns))]
    for row in (columns, *safe):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _styled(columns: Sequence[str], rows: Sequence[Sequence[str]], *, fold: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        folds = fold and column == columns[-1]
        table.add_column(column, no_wrap=not folds, overflow="fold" if folds else "ellipsis")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell.split(" ")[0], "")) for cell in row))
    Console(highlight=False).print(table)


def parse_moment(text: str) -> datetime:
    """The aware time of a wire value."""
    return datetime.fromisoformat(text)


def in_zone(moment: datetime) -> datetime:
    """The terminal's local time of `moment`; at the end of the calendar, where there is none, its own."""
    try:
        return moment.astimezone()
    except OverflowError:
        return moment


def when(moment: str | None, now: str) -> str:
    """`in 42 min (21:15)` or `3 min ago (20:30)`: how long, and the terminal's local time (TIME-1).

    Both are wire values; `now` is the daemon's, so that a clock that is off on one side misleads nobody.
    """
    if moment is None:
        return "-"
    at, here = parse_moment(moment), parse_moment(now)
    local, today = in_zone(at), in_zone(here)
    clock = local.strftime("%H:%M") if local.date() == today.date() else local.strftime("%a %d %b %H:%M")
    if at >= here:
        return f"in {format_duration((at - here) / timedelta(seconds=1))} ({clock})"
    return f"{format_duration((here - at) / timedelta(seconds=1))} ago ({clock})"


def until(moment: str | None, now: str) -> str:
    """`until 21:15`, or `until unknown`; the date too when it is not today."""
    if moment is None:
        return "until unknown"
    local = in_zone(parse_moment(moment))
    same = local.date() == in_zone(parse_moment(now)).date()
    return "until " + local.strftime("%H:%M" if same else "%a %d %b %H:%M")


def with_local_times(text: str) -> str:
    """`text` with each time of the wire as the terminal's local one: `Sun 29 Nov 17:05` (TIME-1)."""
    return _WIRE_TIME.sub(lambda found: in_zone(parse_moment(found[0])).strftime("%a %d %b %H:%M"), text)


def hold_line(hold: HoldStatus, now: str) -> str:
    """`free`, or by whom, until when and what for, on one line (BG-22)."""
    if not hold.held:
        return "free" if hold.state in ("free", "lapsed") else f"free ({hold.state.replace('_', ' ')})"
    if hold.unreadable is not None:
        left = when(hold.until, now)
        return f"held by unknown: {shorten(hold.unreadable, 120)}; counts until it ages out {left}"
    reason = f": {shorten(hold.reason, 120)}" if hold.reason else ""
    refused = f"; {hold.refused} start{'' if hold.refused == 1 else 's'} refused" if hold.refused else ""
    return f"held by {shorten(hold.owner or 'unknown')}, ends {when(hold.until, now)}{reason}{refused}"
