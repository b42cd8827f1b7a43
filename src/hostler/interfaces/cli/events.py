"""Events of the log as people see them: one line each. Decides words only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.fleet import frozen
from hostler.domain.values import shorten
from hostler.interfaces.cli.output import parse_moment, with_local_times

LONGEST: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a line tells of an event: the feed's has more keys, the history's has these."""

    time: str
    type: str
    actor: str = "daemon"
    subject: Mapping[str, str] = field(default_factory=lambda: frozen({}))
    message: str = ""


def line(it: Line) -> str:
    """One event on one line, at the terminal's local time (TIME-1)."""
    at = parse_moment(it.time)
    local = at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    subject = " ".join(f"{name}={value}" for name, value in it.subject.items())
    by = "" if it.actor == "daemon" else f"  by {it.actor}"
    message = f"  {with_local_times(it.message, at)}" if it.message else ""
    return f"{local}  {shorten(f'{it.type}  {subject}{message}{by}', LONGEST)}"
