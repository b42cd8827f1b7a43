"""How a command answers: JSON, times and sentences.

Decides the form of every answer on stdout but tables (`interfaces.cli.tables`), and no exit code
(`interfaces.cli.failure`). All foreign text is escaped before it is printed and takes one row (BG-22).
"""

from __future__ import annotations

import json
import os
import re
from datetime import datetime
from typing import Final, TextIO

from hostler.domain.values import shorten
from hostler.interfaces.cli import box_times
from hostler.services.picture import HoldStatus

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


def parse_moment(text: str) -> datetime:
    """The aware time of a wire value."""
    return datetime.fromisoformat(text)


def when(moment: str | None, now: str) -> str:
    """`in 42 min (21:15)` or `3 min ago (20:30)`: how long, and the terminal's local time (TIME-1).

    Both are wire values; `now` is the daemon's, so that a clock that is off on one side misleads nobody.
    """
    return "-" if moment is None else box_times.when(parse_moment(moment), parse_moment(now))


def with_local_times(text: str, now: datetime | None = None) -> str:
    """`text` with each time of the wire as the terminal's local one (TIME-1).

    With `now` how long until as well: `21:15 (in 42 min)`; else the date, as nobody can tell the day.
    """
    return _WIRE_TIME.sub(lambda found: _local(parse_moment(found[0]), now), text)


def _local(moment: datetime, now: datetime | None) -> str:
    if now is None:
        return box_times.dated(moment)
    return f"{box_times.clock(moment, now)} ({box_times.when(moment, now).rpartition(' (')[0]})"


def clock_until(moment: str | None, now: str) -> str:
    """`until 21:15 (in 42 min)`, or nothing of an end that nobody knows."""
    return "" if moment is None else f"until {_local(parse_moment(moment), parse_moment(now))}"


def clock_since(moment: str | None, now: str) -> str:
    """`since 21:15 (42 min ago)`, or nothing of a time that nobody knows."""
    return "" if moment is None else f"since {_local(parse_moment(moment), parse_moment(now))}"


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
