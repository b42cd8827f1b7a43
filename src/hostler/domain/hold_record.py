"""What the bytes of a hold file say: a record, or the defect that makes them none (HOLD-3, HOLD-4).

Decides which bytes are a record and what an expiry is. Does not decide whether the record holds now
(`hold`), nor whether the file itself can be trusted (the adapter looks at its owner and mode).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

UNKNOWN_OWNER = "unknown"
MAX_BYTES = 64 << 10
MAX_DEPTH = 8

_INSTANT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]"
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
# Possessive, so that 64 KiB of quotes cost one pass; an unterminated text ends with the data.
_TEXT_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*+\\?(?:"|\Z)|([\[{])|([\]}])', re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a record cannot be read or trusted, as the end of the sentence "the hold record …" (HOLD-4)."""

    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRecord:
    """A readable record. `raw` is the whole JSON object as found, extra keys too (HOLD-4).

    `owner` and `reason` hold no lone surrogate, which no UTF-8 could carry; other controls are as found.
    """

    owner: str
    reason: str
    started_at: datetime | None
    expires_at: datetime
    allow: tuple[str, ...] = ()
    forced: bool = False
    by: str | None = None
    lease: str | None = None
    boot_id: str | None = None
    stop_accepting_at: datetime | None = None
    raw: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))

    def belongs_to(self) -> str | None:
        """`lease 7f3` or `window bench-20260904-2005` when one of these took it (HOLD-11), else None."""
        if self.lease:
            return f"lease {self.lease}"
        kind, colon, name = self.owner.partition(":")
        return f"{kind} {name}" if colon and kind in {"lease", "window"} else None


def parse_instant(text: object) -> datetime | None:
    """The instant of an RFC 3339 text with a zone, in UTC; None for anything else (HOLD-3).

    `t`, `z` and a blank are accepted, second 60 and hour 24 are the next second and day, fractions are
    cut to microseconds. What lies beyond the years 1 to 9999 in UTC is the end of that range.
    """
    match = _INSTANT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    zone_hours, zone_minutes = int(match[9] or 0), int(match[10] or 0)
    if hour > 24 or minute > 59 or second > 60 or zone_hours > 23 or zone_minutes > 59:
        return None
    offset = timedelta(hours=zone_hours, minutes=zone_minutes)
    try:
        date = datetime(year, month, day, tzinfo=UTC)
    except ValueError:
        return None
    micros = int((match[7] or "0")[:6].ljust(6, "0"))
    since = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)
    since += offset if match[8] == "-" else -offset
    try:
        return date + since
    except OverflowError:
        return _LATEST if since > timedelta(0) else _EARLIEST


def parse_record(data: bytes) -> HoldRecord | Defect:
    """The record that the bytes of a hold file say, or why they say none. Never raises (HOLD-3, HOLD-4)."""
    found = _object(data)
    if isinstance(found, Defect):
        return found
    allow = found.get("allow", [])
    if not isinstance(allow, list):
        return Defect("has an `allow` that is not a list")
    if "expires_at" not in found:
        return Defect("has no expires_at")
    expires_at = parse_instant(found["expires_at"])
    if expires_at is None:
        return Defect("has an expires_at that is no RFC 3339 time with a zone")
    return HoldRecord(
        owner=_text(found.get("owner")) or UNKNOWN_OWNER,
        reason=_text(found.get("reason")) or "",
        started_at=parse_instant(found.get("started_at")),
        expires_at=expires_at,
        allow=tuple(dict.fromkeys(name for name in allow if isinstance(name, str) and name)),
        forced=found.get("forced") is True,
        by=_text(found.get("by")),
        lease=_text(found.get("lease")),
        boot_id=_text(found.get("boot_id")),
        stop_accepting_at=parse_instant(found.get("stop_accepting_at")),
        raw=MappingProxyType(found),
    )


def _text(value: object) -> str | None:
    """A text that is not empty, its lone surrogates shown; None for anything else."""
    if not isinstance(value, str) or not value:
        return None
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", value)


def _object(data: bytes) -> dict[str, object] | Defect:
    """The one JSON object in `data`, read strictly."""
    if len(data) > MAX_BYTES:
        return Defect(f"is larger than {MAX_BYTES >> 10} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Defect("is not UTF-8")
    if not text.strip():
        return Defect("is empty")
    if _depth(text) > MAX_DEPTH:
        return Defect(f"is nested over {MAX_DEPTH} deep")
    try:
        found: object = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite
        )
    except _Refused as refused:
        return Defect(str(refused))
    except (ValueError, RecursionError):
        return Defect("is not JSON")
    return found if isinstance(found, dict) else Defect("is no JSON object")


def _depth(text: str) -> int:
    """How deep brackets nest outside texts; of broken JSON, how deep they nest before it breaks."""
    deepest = depth = 0
    for match in _TEXT_OR_BRACKET.finditer(text):
        if match[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif match[2]:
            depth -= 1
    return deepest


class _Refused(ValueError):
    """JSON by grammar or by Python's habit, but nothing that a record may say."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Refused("has a key twice")
    return found


def _no_number(name: str) -> object:
    raise _Refused(f"has {name}, which is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _Refused("has a number that is out of range")
    return number
