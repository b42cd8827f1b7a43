"""Box holds: what a record means now (HOLD-2 to HOLD-7, HOLD-12, HOLD-13).

Decides when a host is held, by whom, until when, and which engines may start anyway. Reads no file:
`hold_record` decides what the bytes of one say, the adapter whether the file can be trusted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from hostler.domain.errors import MIN_RETRY_S, BoxReserved
from hostler.domain.hold_record import (
    MAX_BYTES,
    MAX_DEPTH,
    UNKNOWN_OWNER,
    Defect,
    HoldRecord,
    parse_instant,
    parse_record,
)
from hostler.domain.values import rfc3339

__all__ = [
    "AGES_OUT_S",
    "LONGEST_S",
    "MAX_BYTES",
    "MAX_DEPTH",
    "UNKNOWN_OWNER",
    "Defect",
    "Found",
    "HoldRecord",
    "HoldState",
    "HoldView",
    "parse_instant",
    "parse_record",
    "refusal",
    "retry_after",
    "seconds_left",
    "view",
]

AGES_OUT_S = 8 * 3600
"""A record that cannot be read ages out 8 h after the earlier of its mtime and first sight (HOLD-4)."""
LONGEST_S = 480 * 60
"""The longest hold without force: a forgotten one ends before a work morning (HOLD-8)."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class HoldState(StrEnum):
    """What the hold file means at one instant."""

    FREE = "free"
    HELD = "held"
    LAPSED = "lapsed"
    OTHER_BOOT = "other_boot"
    UNREADABLE = "unreadable"
    AGED_OUT = "aged_out"

    @property
    def held(self) -> bool:
        """Whether starts are refused: fail closed, an unreadable record counts (HOLD-4)."""
        return self in (HoldState.HELD, HoldState.UNREADABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What lies at the hold's path: a record or a defect, and the file that says it.

    `mtime_ns` is since 1970, None where not even a stat is possible.
    """

    content: HoldRecord | Defect
    inode: int = 0
    mtime_ns: int | None = None

    def identity(self) -> str:
        """The hold's identity: owner and start, or the file when it cannot be read (HOLD-7)."""
        if isinstance(self.content, HoldRecord):
            since = self.content.started_at or self.content.expires_at
            return f"{self.content.owner}@{rfc3339(since)}"
        if self.mtime_ns is None:
            return f"unreadable: {self.content.what}"
        return f"unreadable: inode {self.inode}, mtime {self.mtime_ns}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldView:
    """What holds now: the answer that the gate, the CLI and the panel share.

    `until` is the record's expiry, or when an unreadable one ages out. `identity` is HOLD-7's.
    `allow` is effective: the record's list and every essential engine (HOLD-5). `overlong` flags an
    expiry more than 8 h away that nobody forced (HOLD-3).
    """

    state: HoldState
    path: str
    record: HoldRecord | None = None
    defect: str | None = None
    until: datetime | None = None
    identity: str = ""
    allow: frozenset[str] = frozenset()
    overlong: bool = False

    @property
    def held(self) -> bool:
        """Whether this host is spoken for."""
        return self.state.held

    @property
    def owner(self) -> str:
        """Whose hold it is; `unknown` when the record cannot be read."""
        return self.record.owner if self.record is not None else UNKNOWN_OWNER

    @property
    def reason(self) -> str:
        """What for."""
        return self.record.reason if self.record is not None else ""

    def allows(self, engine: str) -> bool:
        """Whether `engine` may start at present as far as the hold goes."""
        return not self.held or engine in self.allow


def view(
    found: Found | None,
    *,
    path: str,
    now: datetime,
    first_seen: datetime | None = None,
    boot_id: str | None = None,
    essentials: frozenset[str] = frozenset(),
) -> HoldView:
    """What the file at `path` means at `now` (aware, UTC). None: there is no file, so no hold.

    `first_seen` is when an unreadable record was first seen, None for now. `boot_id` is this boot's;
    None where the system does not tell: then a record of another boot cannot be known from one of this.
    """
    if found is None:
        return HoldView(state=HoldState.FREE, path=path, allow=essentials)
    if isinstance(found.content, Defect):
        until = _ages_out(found, first_seen or now)
        return HoldView(
            state=HoldState.UNREADABLE if now < until else HoldState.AGED_OUT,
            path=path,
            defect=found.content.what,
            until=until,
            identity=found.identity(),
            allow=essentials,
        )
    record = found.content
    left = record.expires_at - now
    state = _state(record, now, boot_id)
    return HoldView(
        state=state,
        path=path,
        record=record,
        until=record.expires_at,
        identity=found.identity(),
        allow=essentials.union(record.allow),
        overlong=state.held and not record.forced and left > timedelta(seconds=LONGEST_S),
    )


def _state(record: HoldRecord, now: datetime, boot_id: str | None) -> HoldState:
    if boot_id is not None and record.boot_id not in (None, boot_id):
        return HoldState.OTHER_BOOT
    # An expiry before its own start spans no time: nothing was ever held.
    if now >= record.expires_at or (record.started_at or record.expires_at) > record.expires_at:
        return HoldState.LAPSED
    return HoldState.HELD


def _ages_out(found: Found, first_seen: datetime) -> datetime:
    """8 h after the earlier of its mtime and its first sight; of a future mtime, its first sight."""
    since = first_seen
    if found.mtime_ns is not None:
        # An mtime beyond the calendar's end cannot be the earlier of the two.
        seconds = min(found.mtime_ns // 10**9, int(first_seen.timestamp()) + 1)
        since = min(first_seen, _EPOCH + timedelta(seconds=max(0, seconds)))
    return since + timedelta(seconds=AGES_OUT_S)


def seconds_left(shown: HoldView, now: datetime) -> int | None:
    """Whole seconds until the hold ends, rounded up; None when nothing is held."""
    if not shown.held or shown.until is None:
        return None
    return max(0, math.ceil((shown.until - now).total_seconds()))


def retry_after(shown: HoldView, now: datetime) -> int:
    """`Retry-After` of a refusal under this hold: max(60, seconds to expiry), 60 if unknown (HOLD-13)."""
    left = seconds_left(shown, now) if shown.record is not None else None
    return max(MIN_RETRY_S, left or 0)


def refusal(shown: HoldView, *, engine: str, host: str, now: datetime) -> BoxReserved:
    """The refusal of a start of `engine` on `host` under this hold (HOLD-13).

    A record that cannot be read has no expiry, but it ages out: `until` says when (HOLD-4).
    """
    expires_at = rfc3339(shown.record.expires_at) if shown.record is not None else None
    return BoxReserved(
        host=host,
        engine=engine,
        owner=shown.owner,
        reason=shown.reason,
        until=rfc3339(shown.until) if shown.until is not None else "unknown",
        expires_at=expires_at,
        unreadable=shown.defect,
        retry_after=retry_after(shown, now),
    )
