"""What came up against a window on a host that does not own the schedule: kept until the head has it (WIN-6).

Decides that an intruder is stopped here at once, whatever the head makes of it: strikes are the head's to
count. One is in `windows/<id>/strikes` before the engine is stopped, so that a restart loses none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from hostler.domain.values import rfc3339, shorten
from hostler.domain.window import Answer, WindowStrike
from hostler.services.needs import Clock, StateFiles

MOST: Final = 20
"""So many of one window are kept: two end it."""
LONGEST: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowStrikes:
    """The strikes of this host, by window; `known` are those that were read or made since the start."""

    host: str
    files: StateFiles
    clock: Clock
    known: dict[str, tuple[WindowStrike, ...]] = field(default_factory=dict)

    async def strike(self, window: str, note: str) -> Answer:
        """Something came up: it is to be stopped. Which of the two it is the head says, once it was told."""
        text = f"{shorten(note, LONGEST)} on {self.host} at {rfc3339(self.clock.now())}"
        if window not in self.known:
            self.known[window] = await asyncio.to_thread(self._read, window)
        self.known[window] = (*self.known[window], WindowStrike(window=window, note=text))[:MOST]
        notes = {"notes": [it.note for it in self.known[window]]}
        with suppress(OSError):  # A full disk: it is known until the daemon ends.
            await asyncio.to_thread(self.files.save, f"windows/{window}/strikes", notes)
        return Answer.STOP

    async def told(self, windows: Iterable[str]) -> tuple[WindowStrike, ...]:
        """Those against these windows."""
        found: list[WindowStrike] = []
        for window in sorted(windows):
            if window not in self.known:
                self.known[window] = await asyncio.to_thread(self._read, window)
            found += self.known[window]
        return tuple(found)

    def _read(self, window: str) -> tuple[WindowStrike, ...]:
        """Of a file that cannot be read nobody is accused: who came up was stopped."""
        try:
            found = self.files.load(f"windows/{window}/strikes")
        except ValueError:
            return ()
        notes = (found or {}).get("notes")
        return tuple(
            WindowStrike(window=window, note=str(it)) for it in (notes if isinstance(notes, list) else [])
        )
