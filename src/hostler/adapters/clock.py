"""The machine's clocks. Decides nothing: which clock a rule uses is the rule's affair."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from hostler.adapters.hold_file import boot_id
from hostler.domain.moment import Moment

_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts sleep as well."""


def _boot() -> str:
    return boot_id() or "unknown"


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The need `Clock`, answered by the kernel. `boot` names this run of the machine."""

    boot: str = field(default_factory=_boot)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.clock_gettime(_BOOT)

    def moment(self) -> Moment:
        return Moment(at=self.now(), boot=self.boot, elapsed=self.elapsed())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
