"""Revivals: what else brings an engine up again: set to no while somebody keeps it down, and put back.

Decides when that is done, for whom, and what is put back: what was found, unless somebody has set another
since. Kept in `engines/<id>/revival.json`, written before anything is changed, so that it survives restarts.
How it is set is the driver's. Whether an engine is suspended at all is `services.suspensions`'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler.domain.errors import EngineFailed, StoreFull
from hostler.domain.events import Event
from hostler.domain.fleet import frozen
from hostler.services.lanes import Lane
from hostler.services.needs import Clock, Driver, Events, StateFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What was found, and who keeps it off: persons (`person:NAME`) and ids of leases."""

    revival: str
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revivals:
    """The restart policies of this host's engines, as far as somebody keeps them off."""

    files: StateFiles
    drivers: Mapping[str, Driver]
    clock: Clock
    events: Events
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def found(self, lane: Lane) -> str | None:
        """What else brings it up, None: nothing. Refuses `engine_failed`."""
        return await self._driver(lane).revival(lane.launch)

    async def keep_off(self, lane: Lane, owner: str) -> None:
        """For `owner` let nothing else bring it up. Recorded first; again changes nothing.

        Where nothing does there is nothing to record. Refuses `engine_failed`, `store_full`.
        """
        async with self.lock:
            kept, found = await self._recorded(lane), await self.found(lane)
            wanted = found or (kept.revival if kept else None)
            if wanted is None:
                return
            owners = tuple(it for it in (kept.owners if kept else ()) if it != owner)
            await self._record(lane, Kept(revival=wanted, owners=(*owners, owner)))
            if found is not None:
                await self._driver(lane).set_revival(lane.launch, None)
                self._tell("revival_off", lane, owner, found)

    async def keep_still_off(self, lane: Lane) -> None:
        """What a crash left half done, or something else set again, while it is kept off: off it goes."""
        kept = await self._recorded(lane)
        if kept is not None:
            await self.keep_off(lane, kept.owners[-1])

    async def put_back(self, lane: Lane, owner: str) -> None:
        """`owner` keeps it off no more. The last one puts back what was found.

        What somebody has set since stays. Refuses `engine_failed`: it stays recorded, to be asked for again.
        """
        async with self.lock:
            kept = await self._recorded(lane)
            if kept is None or owner not in kept.owners:
                return
            owners = tuple(it for it in kept.owners if it != owner)
            if not owners and await self.found(lane) is None:
                await self._driver(lane).set_revival(lane.launch, kept.revival)
                self._tell("revival_back", lane, owner, kept.revival)
            await self._record(lane, Kept(revival=kept.revival, owners=owners))

    async def owners(self, lane: Lane) -> tuple[str, ...]:
        """Who keeps it off. Refuses `engine_failed` for a record that is damaged."""
        kept = await self._recorded(lane)
        return kept.owners if kept else ()

    # ------------------------------------------------------------ the record

    async def _recorded(self, lane: Lane) -> Kept | None:
        try:
            found = await asyncio.to_thread(self.files.load, _name(lane))
        except ValueError as error:
            raise _damaged(lane, str(error)) from error
        if found is None:
            return None
        revival, owners = found.get("revival"), found.get("owners")
        if not isinstance(revival, str) or not isinstance(owners, list):
            raise _damaged(lane, "it names no policy and no owners")
        return Kept(revival=revival, owners=tuple(map(str, owners))) if owners else None

    async def _record(self, lane: Lane, kept: Kept) -> None:
        value = {"revival": kept.revival, "owners": list(kept.owners)}
        try:
            await asyncio.to_thread(self.files.save, _name(lane), value)
        except OSError as error:
            raise StoreFull(file=f"{_name(lane)}.json", why=error.strerror or str(error)) from error

    def _driver(self, lane: Lane) -> Driver:
        return self.drivers[lane.launch.driver]

    def _tell(self, kind: str, lane: Lane, owner: str, revival: str) -> None:
        self.events.emit(
            Event(
                type=kind,
                at=self.clock.now(),
                actor=owner,
                subject=frozen({"engine": lane.engine.id, "host": lane.engine.host}),
                message=revival,
            )
        )


def _damaged(lane: Lane, why: str) -> EngineFailed:
    """Nobody knows what to put back: never taken for "there is nothing"."""
    what = f"{_name(lane)}.json, what else brings it up, is damaged ({why})"
    return EngineFailed(engine=lane.engine.id, why=f"{what}; remove it once that is set as you want it")


def _name(lane: Lane) -> str:
    return f"engines/{lane.engine.id}/revival"
