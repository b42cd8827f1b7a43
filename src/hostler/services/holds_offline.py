"""Holds without a daemon: what `hostler box` asks for, and the answers (HOLD-8, INTERFACE-3).

Decides nothing: it is the seam between the command and what does the work. Every method may raise a
Refusal, which the command tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from hostler.domain.hold import HoldView
from hostler.domain.hold_plan import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPath:
    """Where the hold file is, and why there (HOLD-1).

    `default` is true when nobody named it. `survives_reboot` is None where the file system cannot be
    told. `notes` must be said by every hold command, `warnings` are dangers.
    """

    path: str
    source: str
    default: bool
    survives_reboot: bool | None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """One start that the daemon refused under the hold that is there."""

    at: datetime | None
    engine: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxStatus:
    """The hold, and what a person wants to know beside it.

    `engines` are the ids of the config, None without one: then no id can be called unknown (HOLD-5).
    `refused` are the last ones, oldest first, of `refused_count` in all.
    """

    view: HoldView
    where: HoldPath
    essentials: frozenset[str] = frozenset()
    engines: frozenset[str] | None = None
    refused: tuple[Refused, ...] = ()
    refused_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A hold that was written. `took_over` names the owner whose live hold went for it."""

    view: HoldView
    where: HoldPath
    extended: bool = False
    took_over: str | None = None
    kept_as: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What became of the hold `before`. `kept_as` is where the bytes of an unreadable one are now."""

    before: HoldView
    where: HoldPath
    removed: bool
    forced: bool = False
    kept_as: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that ran under a hold: its exit code, and what became of the hold (HOLD-10)."""

    code: int
    released: bool
    warnings: tuple[str, ...] = ()


class BoxParts(Protocol):
    """What `hostler box` needs from the world."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def where(self) -> HoldPath:
        """The path that writer and gate share. Refusals: hold_path_unusable, invalid_config."""
        ...

    def status(self) -> BoxStatus:
        """The hold as the gate sees it. Refuses only as `where` does."""
        ...

    def hold(self, wanted: Wanted) -> Held:
        """Write a hold (HOLD-9).

        Refusals: held, hold_path_differs, hold_path_unusable, invalid_request, store_full, not_yours.
        """
        ...

    def release(self, *, owner: str | None, force: bool) -> Released:
        """End the hold (HOLD-8). Refusals: held, not_yours."""
        ...

    def run(self, command: Sequence[str], wanted: Wanted, begun: Callable[[Held], None]) -> Ran:
        """Hold while `command` runs, pass signals on to it, then release (HOLD-10).

        `begun` is called between hold and command. Refusals: those of `hold`, not_found.
        """
        ...
