"""Who may write and remove holds, and what is written (HOLD-8, HOLD-9, HOLD-11).

Decides from what is there and what is asked for. Writes nothing: the adapter does, under its lock,
with the decision made on what it read under that same lock.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from hostler.domain.errors import HoldTaken, InvalidRequest
from hostler.domain.hold import LONGEST_S, MAX_BYTES, UNKNOWN_OWNER, HoldState, HoldView, retry_after
from hostler.domain.step import FenceNumber
from hostler.domain.values import rfc3339, shorten

BY_CLI = "cli"
"""What `by` says in a record that `hostler box hold` wrote: only such a one ends without its owner named."""
BY_LEASE = "lease"
LEASE_OWNER = "lease:"
"""Begins the owner of a record that a lease wrote (HOLD-11)."""
TAKEN_OVER = "taken over"
RELEASED = "released"
"""What a forced change of a hold was, in box.ndjson."""
REWRITTEN = timedelta(minutes=10)
"""How often the record of a lease without an end is written again (HOLD-11)."""
NEAR = timedelta(seconds=1)
"""Two ends that are no further apart are the same one: machines exchange durations (LEASE-21)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The hold that somebody asks for. `reason` and `allow` None: as before when it extends one, else none.

    `forced` allows more than 480 minutes and nothing else; `take_over` names the owner whose hold may go.
    """

    owner: str
    reason: str | None
    expires_at: datetime
    allow: tuple[str, ...] | None = None
    forced: bool = False
    take_over: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedChange:
    """A line of box.ndjson: somebody's live hold went without them (HOLD-9)."""

    change: str
    owner: str
    by: str
    record: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Put `record` in place. `set_aside`: what is there cannot be read, its bytes are kept beside."""

    record: Mapping[str, object]
    replaces: bool
    set_aside: bool = False
    forced: ForcedChange | None = None


class Removal(StrEnum):
    """What a release does with the file."""

    NOTHING = "nothing"
    """There is no live hold: whatever lies there is left (HOLD-3)."""
    REMOVE = "remove"
    SET_ASIDE = "set_aside"
    """It cannot be read: its bytes are kept beside it (HOLD-4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """How a hold ends."""

    removal: Removal
    forced: ForcedChange | None = None


def check_length(expires_at: datetime, now: datetime, *, forced: bool) -> None:
    """InvalidRequest for an expiry that has passed, or is over 480 minutes away and not forced (HOLD-8)."""
    left = expires_at - now
    if left <= timedelta(0):
        raise InvalidRequest(what="The hold would end before it begins.", expected="Give a later --until.")
    if left > timedelta(seconds=LONGEST_S) and not forced:
        raise InvalidRequest(
            what=f"A hold of more than {LONGEST_S // 60} minutes is not written without --force.",
            expected="A forgotten hold should end before a work morning; give --force if you mean it.",
        )


def plan_write(shown: HoldView, wanted: Wanted, *, now: datetime, boot_id: str | None) -> Write:
    """What `box hold` writes over what is there (HOLD-9).

    HoldTaken for a live hold of another owner, of a lease or window, or one that cannot be read, unless
    `take_over` names its owner (`unknown` for the last). InvalidRequest for a record that is too large.
    """
    check_length(wanted.expires_at, now, forced=wanted.forced)
    old = shown.record if shown.state is HoldState.HELD else None
    extends = old is not None and old.owner == wanted.owner and old.belongs_to() is None
    if shown.held and not extends and wanted.take_over != shown.owner:
        raise taken(shown, _way_in(shown), now)
    reason, allow, started_at = wanted.reason, wanted.allow, now
    if extends and old is not None:
        reason = old.reason if reason is None else reason
        allow = old.allow if allow is None else allow
        started_at = old.started_at or now
    record: dict[str, object] = {
        "owner": wanted.owner,
        "reason": reason or "",
        "started_at": rfc3339(started_at),
        "expires_at": rfc3339(wanted.expires_at),
        "allow": list(allow or ()),
        "by": BY_CLI,
    }
    if wanted.forced:
        record["forced"] = True
    if boot_id is not None:
        record["boot_id"] = boot_id
    if len(encode(record)) > MAX_BYTES:
        raise InvalidRequest(
            what=f"The record would be larger than {MAX_BYTES >> 10} KiB, and no reader would take it.",
            expected="Give a shorter reason or allow list.",
        )
    return Write(
        record=MappingProxyType(record),
        replaces=shown.state is not HoldState.FREE,
        set_aside=shown.defect is not None,
        forced=_forced(TAKEN_OVER, shown, wanted.owner) if shown.held and not extends else None,
    )


def plan_release(shown: HoldView, *, owner: str | None, force: bool, by: str, now: datetime) -> Release:
    """What `box release` does with what is there (HOLD-4, HOLD-8, HOLD-11).

    HoldTaken, naming the holder and the way, for a hold that this call may not end. `by` is who asks,
    for box.ndjson.
    """
    if shown.defect is not None:
        return Release(removal=Removal.SET_ASIDE)
    if not shown.held or shown.record is None:
        return Release(removal=Removal.NOTHING)
    record = shown.record
    named = owner == record.owner if owner is not None else record.by == BY_CLI
    if named and record.belongs_to() is None:
        return Release(removal=Removal.REMOVE)
    if not force:
        raise taken(shown, _way_out(shown), now)
    return Release(removal=Removal.REMOVE, forced=_forced(RELEASED, shown, by))


def change(before: HoldView, after: HoldView) -> str:
    """What an owner did to its own hold: `Extended`, `Shortened`, or `Changed` when it ends as before."""
    if before.until is None or after.until is None or before.until == after.until:
        return "Changed"
    return "Extended" if after.until > before.until else "Shortened"


def encode(record: Mapping[str, object]) -> bytes:
    """The bytes of a record: one line of ASCII JSON."""
    return json.dumps(dict(record), allow_nan=False).encode("ascii") + b"\n"


def taken(shown: HoldView, way: str, now: datetime) -> HoldTaken:
    """The refusal that names the holder of a live hold and the way past it."""
    until = "unknown" if shown.until is None else rfc3339(shown.until)
    return HoldTaken(owner=shown.owner, until=until, way=way, retry_after=retry_after(shown, now))


def _way_in(shown: HoldView) -> str:
    if shown.defect is not None:
        return (
            f"The record {shown.defect}. `hostler box release` removes it and keeps its bytes;"
            f" `--take-over {UNKNOWN_OWNER}` does so and holds."
        )
    whose = _whose(shown)
    return f"{whose}Wait, ask, or give `--take-over {_argument(shown)}` to end that hold."


def _way_out(shown: HoldView) -> str:
    if _whose(shown):
        return f"{_whose(shown)}Release that instead, or give --force to end only the hold."
    return f"Give `--owner {_argument(shown)}` if it is yours, or --force to end another's hold."


def _argument(shown: HoldView) -> str:
    """The owner as one would type it to a shell."""
    return shlex.quote(shorten(shown.owner))


def _whose(shown: HoldView) -> str:
    belongs = shown.record.belongs_to() if shown.record is not None else None
    return f"It belongs to {shorten(belongs)}. " if belongs is not None else ""


def _forced(change: str, shown: HoldView, by: str) -> ForcedChange:
    found = shown.record.raw if shown.record is not None else MappingProxyType({})
    return ForcedChange(change=change, owner=shown.owner, by=by, record=found)


# ---------------------------------------------------------------- holds of leases


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseHold:
    """The hold that a lease wants on this host (HOLD-11). `expires_at` is the record's own end.

    `stop_accepting_at`: a window's soft deadline (WIN-2).
    """

    lease: str
    fence: FenceNumber
    reason: str
    expires_at: datetime
    allow: tuple[str, ...] = ()
    stop_accepting_at: datetime | None = None


def plan_lease_hold(shown: HoldView, wanted: LeaseHold, *, now: datetime, boot_id: str | None) -> Write:
    """What a lease writes over what is there: nothing of anybody else's that is live (HOLD-11, GATE-3).

    HoldTaken for a live hold of another, InvalidRequest for a record that is too large.
    """
    own = shown.record if shown.held and shown.record is not None and _is_of(shown, wanted.lease) else None
    if shown.held and own is None:
        raise taken(shown, "Wait until it is over, or ask its owner.", now)
    record: dict[str, object] = {
        "owner": f"{LEASE_OWNER}{wanted.lease}",
        "reason": wanted.reason,
        "started_at": rfc3339((own.started_at if own is not None else None) or now),
        "expires_at": rfc3339(wanted.expires_at),
        "allow": list(wanted.allow),
        "by": BY_LEASE,
        "forced": True,
        "lease": wanted.lease,
        "epoch": wanted.fence.epoch,
        "generation": wanted.fence.generation,
    }
    if wanted.stop_accepting_at is not None:
        record["stop_accepting_at"] = rfc3339(wanted.stop_accepting_at)
    if boot_id is not None:
        record["boot_id"] = boot_id
    if len(encode(record)) > MAX_BYTES:
        raise InvalidRequest(
            what=f"The hold record would be larger than {MAX_BYTES >> 10} KiB, and no reader would take it.",
            expected="Give a shorter reason or allow list.",
        )
    return Write(
        record=MappingProxyType(record),
        replaces=shown.state is not HoldState.FREE,
        set_aside=shown.defect is not None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The last time that a person took a lease's hold away by force, as box.ndjson tells it (HOLD-9).

    `change` is `TAKEN_OVER` or `RELEASED`, `until` the end that the record had. None: the line does not tell.
    """

    change: str
    at: datetime | None
    until: datetime | None


def stays_away(taken: Taken, expires_at: datetime | None, *, endless: bool, now: datetime) -> bool:
    """Whether the hold that a person took from a lease is still left to them, with nobody's in its place.

    Who takes over has it for the time of their own hold. What was released by force comes back with the
    lease's next renewal, which gives it a later end `expires_at`; of a lease without an end (`endless`) with
    the next time that it is to be rewritten (HOLD-11). A window is not renewed: its hold stays away, and so
    does that of a lease which is put back, whose end nobody knows (`expires_at` None).

    A line from the future was written before the wall clock was set back: it counts as long, and no longer.
    """
    if taken.change == TAKEN_OVER:
        return False
    if endless:
        return taken.at is not None and abs(now - taken.at) < REWRITTEN
    return taken.until is None or expires_at is None or expires_at - taken.until <= NEAR


def plan_lease_extension(shown: HoldView, lease: str, expires_at: datetime) -> Write | None:
    """The lease's own record with another end, one that lapsed too; None when that is not what is there.

    What somebody removed or took over is not written anew: that was a person's decision (HOLD-9).
    """
    if shown.record is None or shown.state is HoldState.OTHER_BOOT or not _is_of(shown, lease):
        return None
    record = {**shown.record.raw, "expires_at": rfc3339(expires_at)}
    return Write(record=MappingProxyType(record), replaces=True)


def plan_lease_removal(shown: HoldView, lease: str) -> Removal:
    """Whether what is there goes with the lease: its own record only, lapsed or not (HOLD-11)."""
    return Removal.REMOVE if _is_of(shown, lease) else Removal.NOTHING


def _is_of(shown: HoldView, lease: str) -> bool:
    return shown.record is not None and shown.record.lease == lease
