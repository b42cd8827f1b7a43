"""When the deadman acts (WIN-1). Pure: told what is seen and what the boot clock says.

Decides by four rules. At the cap it acts, be the daemon dead, hung, stopped or at work. Before the cap it
acts only when the daemon died in the middle of opening or closing: then after `grace_s`, whether it is back
or not. A daemon that dies while the window is open ends nothing. A window that is over leaves nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What the daemon wrote before its last step of the window."""

    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    OVER = "over"
    """Everything is put back and seen to be: the deadman is disarmed."""
    UNKNOWN = "unknown"
    """There is no phase that can be read: only the cap counts."""

    @property
    def midway(self) -> bool:
        """Whether a daemon that dies now leaves something half done."""
        return self in (Phase.OPENING, Phase.CLOSING)


class Act(StrEnum):
    """What the deadman does now."""

    WAIT = "wait"
    LEAVE = "leave"
    CAP = "cap"
    """Restore: the cap has come."""
    DIED = "daemon_died"
    """Restore: the daemon died in the middle."""

    @property
    def restores(self) -> bool:
        """Whether it restores."""
        return self in (Act.CAP, Act.DIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One look. `lives`: whether the daemon that wrote the phase still exists, stopped or not.

    `beat_s` is the boot second of its last sign of life, None where it gave none.
    """

    phase: Phase
    lives: bool
    beat_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """`cap_s` is a boot second, `grace_s` how long the death of a daemon midway is waited on."""

    cap_s: float
    grace_s: float


def died_at(before: float | None, seen: Seen, now_s: float) -> float | None:
    """The boot second at which a daemon was first seen dead midway; once seen it stays (WIN-1)."""
    if before is None and seen.phase.midway and not seen.lives:
        return now_s
    return before


def decide(times: Times, seen: Seen, died_s: float | None, now_s: float) -> Act:
    """What to do at boot second `now_s`."""
    if seen.phase is Phase.OVER:
        return Act.LEAVE
    if now_s >= times.cap_s:
        return Act.CAP
    if died_s is not None and now_s >= died_s + times.grace_s:
        return Act.DIED
    return Act.WAIT


def may_take_over(times: Times, seen: Seen, act: Act, now_s: float) -> bool:
    """Whether a restore of the daemon's own is no reason to wait any more: it hangs, and the cap has come.

    A daemon at work gives a sign of life every few seconds; one that is stopped or hung does not.
    """
    if act is not Act.CAP:
        return False
    since = times.cap_s if seen.beat_s is None else max(times.cap_s, seen.beat_s)
    return now_s >= since + times.grace_s
