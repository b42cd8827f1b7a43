r"""Bookings as a calendar feed (LEASE-26, RFC 5545).

Decides which leases are in it: those that are booked, and those that run and have an end. Lines end with
CRLF and are folded at 75 bytes; text of others is escaped, so that it begins no line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Final

from hostler.domain.values import escape_controls
from hostler.interfaces.cli.output import parse_moment
from hostler.wire.schedule import LeaseView

LONGEST: Final = 75
"""Bytes of a line, its end not counted."""


def calendar(leases: Iterable[LeaseView], at: str) -> str:
    """The calendar, whole. `at` is the answer's time: when each entry was made."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//hostler//schedule//EN", "CALSCALE:GREGORIAN"]
    for it in leases:
        lines.extend(_entry(it, at))
    lines.append("END:VCALENDAR")
    return "".join(f"{folded}\r\n" for line in lines for folded in _folded(line))


def _entry(it: LeaseView, at: str) -> Iterator[str]:
    start, end = it.start_at or it.activated_at, it.end_at or it.expires_at
    if start is None or end is None:
        return
    yield "BEGIN:VEVENT"
    yield f"UID:{_text(it.id)}@hostler"
    yield f"DTSTAMP:{_instant(at)}"
    yield f"DTSTART:{_instant(start)}"
    yield f"DTEND:{_instant(end)}"
    yield f"SUMMARY:{_text(f'{it.title or it.resource}: {it.holder}')}"
    if it.reason:
        yield f"DESCRIPTION:{_text(it.reason)}"
    yield f"STATUS:{'TENTATIVE' if it.state == 'scheduled' else 'CONFIRMED'}"
    yield "END:VEVENT"


def _instant(moment: str) -> str:
    return parse_moment(moment).astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _text(text: str) -> str:
    shown = escape_controls(text.replace("\n", " "))
    return shown.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,")


def _folded(line: str) -> Iterator[str]:
    """The line in parts of at most 75 bytes; each after the first begins with a blank."""
    part = ""
    for char in line:
        if len((part + char).encode()) > LONGEST:
            yield part
            part = " "
        part += char
    yield part
