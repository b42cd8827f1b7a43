"""Errands: work that a tick begins and does not wait for (REL-1).

Decides that a fault in one is logged and ends nothing else, and that all of them end with the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Errands:
    """The work under way. `bug` logs an exception of ours and returns its id."""

    bug: Callable[[BaseException], str]
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, work: Coroutine[object, object, None]) -> None:
        """Begin `work`; at most as many are under way as there are engines to work on."""
        task = asyncio.create_task(self._guarded(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        # A task that is cancelled before its first step has never begun it.
        task.add_done_callback(lambda _: work.close())

    async def end(self) -> None:
        """End all of them, and return when they have."""
        tasks = tuple(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - a bug in one task is logged, the loop goes on
            self.bug(error)
