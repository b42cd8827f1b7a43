"""Reload: a changed config taken up while everything runs on (CONF-3).

Decides when the file is read again and in what order its parts are swapped. What a difference means is
`domain.reload`'s. A file that is not right changes nothing: the config in force stays, and status, log and
the event log say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from hostler.domain.engine import EngineState, Launch
from hostler.domain.errors import InvalidConfig, Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import Engine, Fleet, frozen
from hostler.domain.holding import ENGINE, ROUTE
from hostler.domain.reload import Change, How, changes, taken_up
from hostler.domain.values import EngineId, Requester, shorten
from hostler.services.browser_guard import BrowserGuard, origins
from hostler.services.errands import Errands
from hostler.services.guard import Guard
from hostler.services.keys import Keyring
from hostler.services.lanes import Lane, Lanes, coupled
from hostler.services.needs import Clock, Events
from hostler.services.present import Present
from hostler.services.routes import Routes
from hostler.services.status import Vitals

LOOK_S: Final = 1.0
"""How often it is looked whether the file has changed; it is read once it looks the same twice."""
TOLD: Final = 12
"""Changes that an event's message names; its facts have all."""


class ConfigSource(Protocol):
    """The config of this daemon, as it lies on the disk."""

    def looks(self) -> object:
        """Something that is equal while the file is the same. Never raises."""
        ...

    def read(self) -> Fleet:
        """The config now, as this host sees it. Raises InvalidConfig with every problem."""
        ...


class Outfit(Protocol):
    """What the world outside the services needs of a new config."""

    def launches(self, fleet: Fleet) -> Mapping[EngineId, Launch]:
        """How each engine of this host is launched: ports are given out, and kept. Refuses `limit`."""
        ...

    def keyring(self, fleet: Fleet) -> Keyring:
        """The keys of that config, and those that were made here. Refuses `invalid_config`."""
        ...

    def take(self, fleet: Fleet) -> None:
        """Hide its secrets in what is said, and let its essential engines start under a hold."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """What a reload did, or would do: the differences, and what follows for what runs or is leased."""

    file: str
    changes: tuple[Change, ...]
    follows: tuple[str, ...] = ()


@dataclass(eq=False, slots=True, kw_only=True)
class Seen:
    """What the file looked like when it was read last, and at the last look. `asked`: read it anyway."""

    read: object
    last: object
    asked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """Takes up the config of one daemon anew. One at a time.

    `supported` says whether an engine's driver is built; `adopt` looks for what runs already of a new one.
    """

    file: str
    source: ConfigSource
    outfit: Outfit
    config: Present
    lanes: Lanes
    routes: Routes
    keyring: Keyring
    browsers: BrowserGuard
    guard: Guard
    clock: Clock
    events: Events
    vitals: Vitals
    supported: Callable[[Engine], bool]
    adopt: Callable[[Lane], Coroutine[object, object, None]]
    errands: Errands
    seen: Seen
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def reload(self, by: Requester) -> Reloaded:
        """Read the file and take it up. Refuses `invalid_config`, `limit`; nothing is changed then."""
        async with self.lock:
            looks = self.source.looks()
            try:
                new = await asyncio.to_thread(self.source.read)
                told = await self._take(new)
            except InvalidConfig as invalid:
                self._rejected(invalid, by)
                raise
            finally:
                self.seen.read = self.seen.last = looks
            self.vitals.config = ()
            if told.changes:
                self._tell("config_reloaded", by, told)
            return told

    def ask(self) -> None:
        """Read the file at the next look, changed or not (SIGHUP)."""
        self.seen.asked = True

    async def plan(self) -> Reloaded:
        """What `reload` would do now. Refuses as it does; changes nothing."""
        new = await asyncio.to_thread(self.source.read)
        return self._told(new)

    async def follow(self) -> None:
        """Take up each change of the file, once it looks the same at two looks; forget what has ended."""
        while True:
            await self.clock.sleep(LOOK_S)
            looks = self.source.looks()
            settled, self.seen.last = looks == self.seen.last, looks
            if self.seen.asked or (settled and looks != self.seen.read):
                self.seen.asked = False
                try:
                    await self.reload(Requester(client="file"))
                except InvalidConfig:
                    continue  # It was told where it was found; the next change of the file is read again.
                except Refusal as refusal:
                    # Nothing was changed: for want of room or the like, which may pass.
                    self.vitals.config = (f"The config on disk is not in use yet: {refusal}",)
                    self.seen.asked = True
                    continue
            self._forget()

    # ------------------------------------------------------------ taking it up

    async def _take(self, new: Fleet) -> Reloaded:
        """Everything that can fail comes first; the swap itself awaits nothing."""
        told, fleet = self._told(new), taken_up(self.config.fleet, new)
        launches = await asyncio.to_thread(self.outfit.launches, fleet)
        ring = await asyncio.to_thread(self.outfit.keyring, fleet)
        async with self.routes.lock:
            self.outfit.take(fleet)
            self.keyring.become(ring)
            self.browsers.cors = origins(fleet)
            self.config.fleet = fleet
            self.lanes.by_id = self._lanes(fleet, launches)
            self.routes.retable(fleet)
        for lane in self.lanes.by_id.values():
            lane.notify()
            if not lane.known:
                self.errands.begin(self.adopt(lane))
        return told

    def _lanes(self, fleet: Fleet, launches: Mapping[EngineId, Launch]) -> Mapping[EngineId, Lane]:
        """The lanes of that config: those that were, those that are new, and removed ones that still run."""
        lanes: dict[EngineId, Lane] = {}
        for engine in fleet.local_engines():
            if not self.supported(engine):
                continue
            lane = self.lanes.by_id.get(engine.id)
            lanes[engine.id] = self._new(engine, launches[engine.id]) if lane is None else lane
            self._change(lanes[engine.id], engine, launches[engine.id])
        for name, lane in self.lanes.by_id.items():
            if name not in lanes and not self._is_over(lane):
                lane.removed, lane.owed = True, False
                lane.engine = replace(lane.engine, enabled=False, resident=False)
                lanes[name] = lane
        return coupled(frozen(lanes))

    def _new(self, engine: Engine, launch: Launch) -> Lane:
        now = self.clock.elapsed()
        status = EngineState(engine=engine.id)
        return Lane(engine=engine, launch=launch, status=status, used=now, down_since=now, known=False)

    def _change(self, lane: Lane, engine: Engine, launch: Launch) -> None:
        lane.engine, lane.removed = engine, False
        lane.pending = launch if launch != lane.launch else None
        if lane.at_rest and lane.pending is not None:
            # What kept it down may be what was changed: a port that somebody else has.
            lane.settle()
            lane.cleared = True

    def _is_over(self, lane: Lane) -> bool:
        """Whether a removed engine can be forgotten: nothing of it runs, and no lease has it."""
        return lane.at_rest and self.guard.holding(ENGINE, lane.engine.id) is None

    def _forget(self) -> None:
        gone = {name for name, lane in self.lanes.by_id.items() if lane.removed and self._is_over(lane)}
        if gone:
            left = {name: lane for name, lane in self.lanes.by_id.items() if name not in gone}
            self.lanes.by_id = frozen(left)

    # ------------------------------------------------------------ saying what follows

    def _told(self, new: Fleet) -> Reloaded:
        """What differs. Refuses `invalid_config` for a config in which this host has another name."""
        old = self.config.fleet
        if new.here != old.here:
            problem = (
                f"{self.file}: hosts: this host is {old.here} and would be {new.here}: restart the daemon"
            )
            raise InvalidConfig(file=self.file, count=1, problems=(problem,))
        found = changes(old, new)
        follows = [text for change in found for text in self._follows(change)]
        return Reloaded(file=self.file, changes=found, follows=tuple(follows))

    def _follows(self, change: Change) -> list[str]:
        kind, _, name = change.what.partition(" ")
        if kind == "engine" and change.how in (How.REMOVED, How.LATER):
            return self._of_engine(name, removed=change.how is How.REMOVED)
        held = self.guard.holding(ROUTE, name) if kind == "route" and change.how is How.REMOVED else None
        if held is not None:
            return [f"route {name} is moved by lease {held.lease}: its release will not find it"]
        return []

    def _of_engine(self, name: str, *, removed: bool) -> list[str]:
        lane = self.lanes.by_id.get(EngineId(name))
        if lane is None:
            return []
        held = self.guard.holding(ENGINE, name)
        if held is not None and removed:
            who = f"lease {held.lease} of {shorten(held.holder)} has {name}"
            return [f"{who}: it goes on as it is until that lease is over (`hostler schedule` shows when)"]
        if lane.run is None:
            return []
        if removed:
            return [f"{name} runs on (pid {lane.run.pid}): `hostler stop {name}` ends it"]
        return [f"{name} runs on as it was started: `hostler stop {name}`, and its next start is the new one"]

    def _rejected(self, invalid: InvalidConfig, by: Requester) -> None:
        more = f", and {invalid.count - 1} more" if invalid.count > 1 else ""
        first = f"{invalid.problems[0]}{more}"
        self.vitals.config = (f"The config on disk is not right and not in use: {first}",)
        self.events.emit(
            Event(
                type="config_rejected",
                at=self.clock.now(),
                actor=by.tag(),
                subject=frozen({"host": self.config.fleet.here, "file": self.file}),
                message=first,
                facts=frozen({"count": invalid.count, "problems": list(invalid.problems[:TOLD])}),
            )
        )

    def _tell(self, kind: str, by: Requester, told: Reloaded) -> None:
        lines = [str(change) for change in told.changes]
        more = f"; and {len(lines) - TOLD} more" if len(lines) > TOLD else ""
        self.events.emit(
            Event(
                type=kind,
                at=self.clock.now(),
                actor=by.tag(),
                subject=frozen({"host": self.config.fleet.here, "file": self.file}),
                message="; ".join(lines[:TOLD]) + more,
                facts=frozen({"changes": lines, "follows": list(told.follows)}),
            )
        )
