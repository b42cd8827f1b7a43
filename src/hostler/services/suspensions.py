"""Suspensions: engines that stay stopped until their owners let them start again (NODE-5).

Decides who keeps an engine from starting. Kept in `engines/<id>/suspended.json`, so that it survives
restarts. A record that cannot be read counts as suspended by `unknown`: fail closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hostler.domain.errors import StoreFull
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.domain.gate import UNREADABLE, personal
from hostler.services.lanes import Lane, heard
from hostler.services.needs import Clock, Events, StateFiles

__all__ = ["UNREADABLE", "Suspensions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspensions:
    """The owners of each engine's suspension: `person:NAME`, and ids of leases."""

    files: StateFiles
    clock: Clock
    events: Events
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def recall(self, lane: Lane) -> None:
        """Read who suspended it."""
        try:
            found = self.files.load(_name(lane))
        except ValueError:
            lane.suspended_by = (UNREADABLE,)
            return
        owners = found.get("owners") if found is not None else []
        good = isinstance(owners, list) and all(isinstance(owner, str) for owner in owners)
        lane.suspended_by = tuple(owners) if good and isinstance(owners, list) else (UNREADABLE,)

    async def add(self, lane: Lane, owner: str) -> None:
        """Suspend for `owner`; again for the same one changes nothing. Durable when it returns.

        Refuses `store_full`; nothing is changed then.
        """
        changed = await self._change(lane, lambda owners: (*(it for it in owners if it != owner), owner))
        if changed:
            self._tell("engine_suspended", lane, owner)

    async def remove(self, lane: Lane, by: str, owner: str | None = None) -> None:
        """Take away `owner`'s suspension; None takes away every person's. Refuses `store_full`."""

        def left(owners: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(it for it in owners if not (it == owner or (owner is None and personal(it))))

        if await self._change(lane, left):
            self._tell("engine_resumed", lane, by)

    async def _change(self, lane: Lane, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> bool:
        """One change at a time: two who suspend at once are both recorded. Whether anything changed.

        Memory has what the file has, also when the caller leaves meanwhile.
        """
        task = asyncio.create_task(self._changed(lane, change))
        task.add_done_callback(heard)
        return await asyncio.shield(task)

    async def _changed(self, lane: Lane, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> bool:
        async with self.lock:
            owners = change(lane.suspended_by)
            if set(owners) == set(lane.suspended_by):
                return False
            try:
                await asyncio.to_thread(self.files.save, _name(lane), {"owners": list(owners)})
            except OSError as error:
                raise StoreFull(file=f"{_name(lane)}.json", why=error.strerror or str(error)) from error
            lane.suspended_by = owners
            lane.notify()
        return True

    def _tell(self, kind: str, lane: Lane, owner: str) -> None:
        self.events.emit(
            Event(
                type=kind,
                at=self.clock.now(),
                actor=owner,
                subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
            )
        )


def _name(lane: Lane) -> str:
    return f"engines/{lane.engine.id}/suspended"
