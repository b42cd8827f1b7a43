"""Windows: capped stays in a mode other than the standing one (WIN-2, WIN-5, WIN-6, WIN-8).

Decides what must be right before a window opens, when no window may be open, and what an intruder costs. Its
steps are `hostler.domain.window_plan`'s, its states those of every lease. Asks nobody and reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from hostler.domain.errors import InvalidRequest, NotFound, ServingClassRefused, TtlRefused
from hostler.domain.fleet import Fleet, frozen
from hostler.domain.gate import WHY_CLASS
from hostler.domain.mode import Mode, QuietHours
from hostler.domain.route import nearest
from hostler.domain.values import ServingClass, exact_duration, format_duration, gib, rfc3339

UNFORCED_S: Final = 8 * 3600.0
"""A longer cap is meant only when it is forced: a forgotten one should end before a work morning (HOLD-8)."""
LEAST_S: Final = 1.0
STRANGER: Final = 2 << 30
"""A process that nobody knows counts from so many bytes of a pool on (WIN-6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A window as it is asked for. `cap_s` None: the mode's default; `override`: the class that is named."""

    mode: str
    cap_s: float | None = None
    override: str | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a window is opened with."""

    mode: str
    cap_s: float
    drain_before_s: float


def mode_of(fleet: Fleet, name: str) -> Mode:
    """The mode that a window may enter. Refuses `not_found`, and `invalid_request` for the standing one."""
    mode = fleet.modes.get(name)
    if mode is None:
        raise NotFound(what="mode", name=name, nearest=nearest(name, fleet.modes))
    if mode.standing:
        raise InvalidRequest(
            what=f"{name} is the standing mode: the fleet is in it while no window is open.",
            expected="`hostler window close` goes back to it.",
            where="mode",
        )
    return mode


def terms(fleet: Fleet, wish: Wish, now: datetime, zone: tzinfo) -> Terms:
    """What the window is opened with, when all that needs no look at a host is right (WIN-8).

    Refuses `not_found`, `serving_class_refused` unless the mode's very class is named (CAT-5), `ttl_refused`
    for a cap that the mode does not allow, or from which it would serve nobody (WIN-2), `invalid_request` for
    one over 8 h or a window in quiet hours that are not forced.
    """
    mode = mode_of(fleet, wish.mode)
    _named(mode, wish.override)
    cap_s = mode.cap_s if wish.cap_s is None else wish.cap_s
    if not LEAST_S <= cap_s <= mode.cap_max_s:
        raise TtlRefused(
            what=f"A window of {mode.name} is not opened for {exact_duration(cap_s)}.",
            expected=f"Give a cap from {LEAST_S:g} s to {exact_duration(mode.cap_max_s)}.",
        )
    if cap_s <= mode.drain_before_s:
        drain = exact_duration(mode.drain_before_s)
        raise TtlRefused(
            what=f"A window of {mode.name} for {exact_duration(cap_s)} would serve nobody.",
            expected=f"It takes no request from {drain} before its cap on (drain_before): give a longer one.",
        )
    if cap_s > UNFORCED_S and not wish.force:
        raise InvalidRequest(
            what=f"A cap of more than {format_duration(UNFORCED_S)} is not given without --force.",
            expected="A forgotten window should end before a work morning; give --force if you mean it.",
            where="cap_s",
        )
    if not wish.force:
        _loud(mode, now, cap_s, zone)
    return Terms(mode=mode.name, cap_s=cap_s, drain_before_s=mode.drain_before_s)


def _named(mode: Mode, override: str | None) -> None:
    needed = mode.serving_class
    if override == needed.value or (override is None and needed is ServingClass.RESIDENT):
        return
    if needed is ServingClass.RESIDENT:
        raise InvalidRequest(
            what=f"The mode {mode.name} is resident, not {override}.",
            expected="Open it without --override.",
            where="override",
        )
    raise ServingClassRefused(engine=mode.name, serving_class=needed.value, why=WHY_CLASS[needed])


def _loud(mode: Mode, now: datetime, cap_s: float, zone: tzinfo) -> None:
    found = quiet(mode.not_between, zone, now, now + timedelta(seconds=cap_s))
    if found is not None:
        hours, start, end = found
        times = f"from {rfc3339(start)} to {rfc3339(end)}"
        raise InvalidRequest(
            what=f"No window of {mode.name} is open in its quiet hours {hours}: {times}.",
            expected="Open it afterwards or with a shorter cap; --force opens it all the same.",
            where="mode",
        )


def quiet(
    hours: Iterable[QuietHours], zone: tzinfo, start: datetime, end: datetime
) -> tuple[QuietHours, datetime, datetime] | None:
    """The first quiet hours that overlap the time from `start` to `end`, with their own begin and end in UTC.

    Where the clocks change they run from the earlier reading of their start to the later of their end
    (TIME-1). None: none do.
    """
    for each in hours:
        day = (start - timedelta(days=2)).astimezone(zone).date()
        last = (end + timedelta(days=1)).astimezone(zone).date()
        while day <= last:
            begins = min(_readings(day, each.start, zone))
            over = day if each.end > each.start else day + timedelta(days=1)
            ends = max(_readings(over, each.end, zone))
            if begins < end and start < ends:
                return each, begins, ends
            day += timedelta(days=1)
    return None


def _readings(day: date, minute: int, zone: tzinfo) -> tuple[datetime, datetime]:
    """Both readings of a local time, equal but where the clocks change."""
    named = datetime.combine(day, time()) + timedelta(minutes=minute)
    first, second = (named.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, second


# ---------------------------------------------------------------- the guard


class Answer(StrEnum):
    """What an intruder is answered with."""

    STOP = "stop"
    """It is stopped, once; a stranger is named only."""
    ABORT = "abort"
    """The window is aborted and everything is restored."""


STRIKES: Final[Mapping[int, Answer]] = frozen({0: Answer.STOP, 1: Answer.ABORT})
"""The answer by the strikes that there were before: there is no third (WIN-6)."""


def answer(strikes: int) -> Answer:
    """What the next intruder is answered with after so many strikes."""
    return STRIKES.get(strikes, Answer.ABORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStrike:
    """What a host's guard saw come up against a window. `note` is one of its kind: it names host and time."""

    window: str
    note: str


# ---------------------------------------------------------------- what came back


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """One engine in the report of a restore (WIN-4). `why` is empty when it was verified.

    `memory` is what it took, by pool in bytes, `seconds` how long its last start took.
    """

    engine: str
    host: str
    up: bool
    verified: bool
    why: str = ""
    memory: Mapping[str, int]
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """What one host wrote down of its restore. `wrong`: what keeps it from being verified."""

    engines: tuple[Back, ...] = ()
    wrong: tuple[str, ...] = ()


def unusual(before: Mapping[str, int], now: Mapping[str, int]) -> str | None:
    """Why what an engine took is outside its usual range, None when it is within (WIN-4).

    Usual is what it took before, give or take a half and `STRANGER`. An engine that was never measured has
    no usual range.
    """
    for pool, usual in before.items():
        took = now.get(pool, 0)
        if abs(took - usual) > usual // 2 + STRANGER:
            return f"it took {gib(took)} GiB of {pool}, and {gib(usual)} before"
    return None
