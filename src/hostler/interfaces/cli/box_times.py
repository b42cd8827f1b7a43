"""Times of holds as people write and read them (TIME-1): local to their terminal, and how long until.

Decides what `--until` may say. A time that a change of the clocks skips or repeats is refused.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from hostler.domain.errors import InvalidRequest
from hostler.domain.hold_record import parse_instant
from hostler.domain.values import format_duration

UNTIL: Final = "Give 21:15, 2026-09-04 21:15, or 2026-09-04T21:15:00Z."
"""The forms of `--until`."""

_LOCAL: Final = re.compile(
    r"(?:([0-9]{4})-([0-9]{2})-([0-9]{2})[T ])?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?"
)


def parse_until(text: str, now: datetime) -> datetime | None:
    """The instant that `--until` names, None for a text of another form.

    With a zone it is RFC 3339; without one, the terminal's local time, of the next such time of day when
    there is no date. InvalidRequest, naming both readings, where the clocks change.
    """
    instant = parse_instant(text.strip())
    match = _LOCAL.fullmatch(text.strip())
    if instant is not None or match is None:
        return instant
    year, month, day, hour, minute, second = (None if part is None else int(part) for part in match.groups())
    here = now.astimezone().replace(tzinfo=None, microsecond=0, fold=0)
    try:
        named = here.replace(hour=hour or 0, minute=minute or 0, second=second or 0)
        if year is not None:
            named = named.replace(year=year, month=month or 0, day=day or 0)
        elif named <= here:
            named += timedelta(days=1)
        return _unambiguous(named)
    except (ValueError, OverflowError, OSError):
        # No such date or time of day, or none that the system's clock can say.
        return None


def _unambiguous(named: datetime) -> datetime:
    first, second = (named.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    if first != second:
        one, other = (at.strftime("%Y-%m-%dT%H:%M:%SZ") for at in sorted((first, second)))
        raise InvalidRequest(
            what=f"The clocks change at {named:%H:%M} on {named:%Y-%m-%d}: it is {one} or {other}.",
            expected="Give one of these two as --until.",
        )
    return first


def when(moment: datetime, now: datetime) -> str:
    """`in 42 min (21:15)` or `5 min ago (20:30)`, the date too when it is not today."""
    if moment >= now:
        return f"in {format_duration((moment - now).total_seconds())} ({clock(moment, now)})"
    return f"{format_duration((now - moment).total_seconds())} ago ({clock(moment, now)})"


def clock(moment: datetime, now: datetime) -> str:
    """The terminal's local time of `moment`, with the date when it is not today."""
    full = dated(moment)
    same_day = dated(now).split(" ")[0] == full.split(" ")[0]
    return full.partition(" ")[2] if same_day else full


def dated(moment: datetime) -> str:
    """`2026-09-04 21:15`, the terminal's; UTC where it has none, at the ends of the calendar."""
    try:
        local = moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return f"{moment.date().isoformat()} {moment:%H:%M} UTC"
    return f"{local.date().isoformat()} {local:%H:%M}"
