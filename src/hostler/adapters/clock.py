"""The machine's clocks. Decides nothing: which clock a rule uses is the rule's affair."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_BOOT: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""macOS has no CLOCK_BOOTTIME; its CLOCK_MONOTONIC counts sleep as well."""


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The need `Clock`, answered by the kernel."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed(self) -> float:
        return time.clock_gettime(_BOOT)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
