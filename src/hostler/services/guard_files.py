"""What a node must know of the schedule without its head: `held.json` and `fence.json` (CONF-5, LEASE-28).

Decides how the guard's knowledge survives a restart. A fence file that cannot be read means fenced: fail
closed. Holds that cannot be read are what the schedule tells next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from hostler.domain.errors import StoreFull
from hostler.domain.fence import Fence
from hostler.domain.hold import parse_instant
from hostler.domain.holding import Holding
from hostler.domain.moment import Moment
from hostler.services.guard import Guard
from hostler.services.needs import Clock, StateFiles
from hostler.wire.values import to_json

HELD: Final = "held"
FENCE: Final = "fence"
MOST_ELAPSED_S: Final = 1e10
"""300 years: no machine ran so long, and no lease or fence does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFiles:
    """The guard's memory on disk."""

    guard: Guard
    files: StateFiles
    clock: Clock

    def recall(self) -> tuple[str, ...]:
        """Read what was told before this daemon's start; a sentence for each file that cannot be read."""
        told = []
        try:
            self.guard.adopt(_held(self.files.load(HELD)))
        except ValueError as error:
            told.append(f"{HELD}.json: {error}; what is leased here is known when the schedule tells it")
        try:
            self.guard.raise_fence(_fence(self.files.load(FENCE)))
        except ValueError as error:
            told.append(f"{FENCE}.json: {error}; it counts as a fence until one is put up and taken down")
            now = self.clock.moment()
            self.guard.raise_fence(
                Fence(since=now, until=now, by="unknown", reason="", unreadable="cannot be read")
            )
        return tuple(told)

    async def adopt(self, held: Mapping[str, Holding]) -> None:
        """In memory at once, then on disk where that changed anything. Refuses `store_full`."""
        held = self._since(held)
        changed = _told(held) != _told(self.guard.posts.held)
        self.guard.adopt(held)
        if changed:
            await self._save(HELD, {name: to_json(it) for name, it in held.items()})

    def _since(self, held: Mapping[str, Holding]) -> Mapping[str, Holding]:
        """Each with the run of the machine in which it was told first; nobody else knows it (F20)."""
        boots = {it.lease: it.boot for it in self.guard.posts.held.values() if it.boot}
        here = self.clock.moment().boot
        return {name: replace(it, boot=boots.get(it.lease, here)) for name, it in held.items()}

    async def raise_fence(self, fence: Fence | None) -> None:
        """As `adopt`, for the fence."""
        changed = fence != self.guard.posts.fence
        self.guard.raise_fence(fence)
        if changed:
            await self._save(FENCE, {"fence": None if fence is None else to_json(fence)})

    async def _save(self, name: str, value: Mapping[str, object]) -> None:
        try:
            await asyncio.to_thread(self.files.save, name, value)
        except OSError as error:
            raise StoreFull(file=f"{name}.json", why=error.strerror or str(error)) from error


def _told(held: Mapping[str, Holding]) -> Mapping[str, Holding]:
    """What is worth a write: an end that moved by less than a second is the same one."""
    return {
        name: replace(
            it, until=_whole(it.until), hard=_even(it.hard), stop_accepting=_whole(it.stop_accepting)
        )
        for name, it in held.items()
    }


def _whole(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(microsecond=0)


def _even(hard: Moment | None) -> Moment | None:
    """By elapsed time alone: a wall clock that jumps changes no end."""
    if hard is None:
        return None
    return Moment(at=datetime.min.replace(tzinfo=UTC), boot=hard.boot, elapsed=round(hard.elapsed))


def _held(found: Mapping[str, object] | None) -> Mapping[str, Holding]:
    return {name: holding_of(row) for name, row in (found or {}).items()}


def holding_of(row: object) -> Holding:
    """The lease that a line of `held.json` tells of. Raises ValueError for a line that tells of none."""
    told = _text(row, "lease", "resource", "holder", "key")
    hard = row.get("hard") if isinstance(row, Mapping) else None
    boot = row.get("boot") if isinstance(row, Mapping) else None
    mode = row.get("mode") if isinstance(row, Mapping) else None
    return Holding(
        lease=told["lease"],
        resource=told["resource"],
        holder=told["holder"],
        key=told["key"],
        until=_instant(row, "until"),
        hard=None if hard is None else _moment(hard),
        boot=boot if isinstance(boot, str) else "",
        mode=mode if isinstance(mode, str) else "",
        stop_accepting=_instant(row, "stop_accepting"),
    )


def _instant(row: object, name: str) -> datetime | None:
    """The named time of an object, None where it has none. Raises ValueError for what is no time."""
    text = row.get(name) if isinstance(row, Mapping) else None
    moment = parse_instant(text)
    if text is not None and moment is None:
        raise ValueError(f"{text!r} is no time")
    return moment


def _fence(found: Mapping[str, object] | None) -> Fence | None:
    row = (found or {}).get("fence")
    if row is None and (found is None or "fence" in found):
        return None
    told = _text(row, "by", "reason")
    times = row if isinstance(row, Mapping) else {}
    return Fence(
        since=_moment(times.get("since")),
        until=_moment(times.get("until")),
        by=told["by"],
        reason=told["reason"],
        unreadable=_maybe(times.get("unreadable")),
    )


def _moment(row: object) -> Moment:
    told = _text(row, "at", "boot")
    at = parse_instant(told["at"])
    elapsed = row.get("elapsed") if isinstance(row, Mapping) else None
    if at is None or not isinstance(elapsed, int | float) or not 0 <= elapsed <= MOST_ELAPSED_S:
        raise ValueError("it has no moment where one belongs")
    return Moment(at=at, boot=told["boot"], elapsed=float(elapsed))


def _text(row: object, *names: str) -> Mapping[str, str]:
    """The named texts of an object. Raises ValueError when one is missing."""
    if not isinstance(row, Mapping):
        raise ValueError("it holds no object where one belongs")  # noqa: TRY004 - one error for all defects
    found = {name: row.get(name) for name in names}
    texts = {name: it for name, it in found.items() if isinstance(it, str)}
    if len(texts) != len(names):
        raise ValueError(f"it lacks {', '.join(it for it in names if it not in texts)}")
    return texts


def _maybe(value: object) -> str | None:
    return value if isinstance(value, str) else None
