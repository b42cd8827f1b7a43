"""Callers that wait for a lease to change: each is woken by the events of its own lease (F29).

Decides nothing. A wake-up carries no data and may be lost: whoever is woken looks for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hostler.domain.events import Recorded
from hostler.services.needs import Clock


@dataclass(eq=False, slots=True, kw_only=True)
class Waiters:
    """`released`: the daemon is to end, and nobody waits any more (REL-5)."""

    clock: Clock
    released: bool = False
    _by_lease: dict[str, asyncio.Event] = field(default_factory=dict)
    _any: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, rows: Sequence[Recorded]) -> None:
        """What was committed: wake those who wait for these leases."""
        for row in rows:
            lease = row.event.subject.get("lease")
            woken = self._by_lease.pop(lease, None) if lease is not None else None
            if woken is not None:
                woken.set()
        self.wake()

    def wake(self) -> None:
        """Something changed that is no lease's own event."""
        self._any.set()
        self._any = asyncio.Event()

    def release(self) -> None:
        """Let everybody go, now and from here on."""
        self.released = True
        for each in self._by_lease.values():
            each.set()
        self._by_lease.clear()
        self.wake()

    def next(self, lease: str) -> asyncio.Event:
        """Set at the next change of `lease`. Ask before looking: what comes between is not missed."""
        return self._by_lease.setdefault(lease, asyncio.Event())

    async def heard(self, event: asyncio.Event, seconds: float) -> None:
        """Return when `event` is set, or `seconds` have passed."""
        waiting = asyncio.ensure_future(event.wait())
        timer = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait((waiting, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            timer.cancel()

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait until `done()`, looked at after every change, or `seconds`. Whether it was."""
        deadline = self.clock.elapsed() + seconds
        while not done():
            left = deadline - self.clock.elapsed()
            if left <= 0 or self.released:
                return False
            await self.heard(self._any, left)
        return True
