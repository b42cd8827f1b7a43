"""The guard of an open window on this host: what comes up against it is stopped once, then ends it (WIN-6).

Decides who counts as an intruder: an engine of ours outside the mode and the hold's allow list, or a stranger
on one of their ports or in GPU memory. What an intruder costs is `domain.window`'s. Only engines of ours are
stopped, by their identity; a stranger is named, never touched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from hostler.domain.engine import State
from hostler.domain.errors import Refusal
from hostler.domain.events import Event
from hostler.domain.fleet import DriverKind, frozen
from hostler.domain.holding import ENGINE, HOLD, Holding
from hostler.domain.memory import unexplained
from hostler.domain.values import HostName, gib
from hostler.domain.window import STRANGER, Answer
from hostler.domain.window_plan import members
from hostler.services.engines import Engines
from hostler.services.errands import Errands
from hostler.services.holds import Holds
from hostler.services.lanes import Lane
from hostler.services.needs import Clock, Events, MemoryReader, PortTable

LOOK_S: Final = 2.0
"""How often ports and memory are looked at: reading the machine is not free."""
_COMING: Final = (State.STARTING, State.READY, State.DRAINING)

_NO_PROCESS: Final = (DriverKind.EXTERNAL, DriverKind.DISTRIBUTED)
"""Drivers of what is not started here, or is its members: these are looked at one by one."""

Strike = Callable[[str, str], Awaitable[Answer | None]]
"""Tells the schedule that something came up against a window; what is to be done with it."""


class Markers(Protocol):
    """Files whose being there says something."""

    def stands(self, name: str) -> bool:
        """Whether `<state>/<name>` is there, or cannot be looked at: fail closed."""
        ...


@dataclass(eq=False, slots=True, kw_only=True)
class Known:
    """Who was told already, for which window, and when the machine was looked at last (elapsed seconds)."""

    lease: str = ""
    told: set[str] = field(default_factory=set)
    looked: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowGuard:
    """Guards the window that has this host."""

    engines: Engines
    holds: Holds
    memory: MemoryReader
    ports: PortTable
    markers: Markers
    clock: Clock
    events: Events
    errands: Errands
    strike: Strike
    known: Known = field(default_factory=Known)

    def tick(self) -> None:
        """One look. Waits for nothing."""
        window = self._window()
        if window is None:
            self.known.lease = ""
            return
        if window.lease != self.known.lease:
            self.known.lease, self.known.looked = window.lease, None
            self.known.told.clear()
        seen, now = dict(self._intruders(window)), self.clock.elapsed()
        gone = {it for it in self.known.told if it.startswith(ENGINE)}
        if self.known.looked is None or now - self.known.looked >= LOOK_S:
            self.known.looked = now
            seen |= dict(self._strangers(window))
            gone = set(self.known.told)
        # Who is gone may come again, and counts again.
        self.known.told -= gone - seen.keys()
        for key, (note, lane) in seen.items():
            if key not in self.known.told:
                self.known.told.add(key)
                self.errands.begin(self._answer(window, key, note, lane))

    def _window(self) -> Holding | None:
        """The window that is open here and guarded: nobody fights a restore, and a script guards its own."""
        held = self.engines.gate.guard.holding(HOLD, self.holds.host)
        if held is None or not held.mode or held.until is None:
            return None
        mode = self.engines.lanes.config.fleet.modes.get(held.mode)
        if (mode is not None and mode.tool is not None) or self.clock.now() >= held.until:
            return None
        return None if self.markers.stands(f"windows/{held.lease}/teardown") else held

    # ------------------------------------------------------------ who is there

    def _outside(self, window: Holding) -> Iterator[Lane]:
        """Engines of ours that are not to be up: outside the mode and the hold's effective list (HOLD-5).

        The mode's own are not, whatever became of the hold record meanwhile.
        """
        fleet = self.engines.lanes.config.fleet
        mode = fleet.modes.get(window.mode)
        own = () if mode is None else members(fleet, mode, HostName(fleet.here))
        allowed = {*self.holds.view().allow, *own, *fleet.essentials()}
        for lane in self.engines.lanes.by_id.values():
            if lane.engine.id not in allowed and lane.launch.driver not in _NO_PROCESS:
                yield lane

    def _intruders(self, window: Holding) -> Iterator[tuple[str, tuple[str, Lane | None]]]:
        """Engines of ours that came up; one that went down meanwhile comes anew."""
        for lane in self._outside(window):
            if lane.state in _COMING:
                asker = "" if lane.ask is None else f", asked for by {lane.ask.requester.tag()}"
                yield f"{ENGINE} {lane.engine.id}", (f"{lane.engine.id} came up{asker}", lane)

    def _strangers(self, window: Holding) -> Iterator[tuple[str, tuple[str, Lane | None]]]:
        """Who is none of ours: on the port of an engine that is down, or in GPU memory."""
        for lane in self._outside(window):
            if lane.run is None and not lane.state.up:
                who = self.ports.holder(lane.launch.address, lane.launch.port)
                if who is not None and not self._ours(lane.launch.port):
                    note = f"{who} listens on port {lane.launch.port} of {lane.engine.id}"
                    yield f"port {lane.launch.port} {who}", (note, None)
        beyond, pool = self._beyond()
        if beyond >= STRANGER:
            yield f"memory {pool}", (f"nobody's process holds {gib(beyond)} GiB of {pool}", None)

    def _ours(self, port: int) -> bool:
        """Whether an engine of ours that runs has that port: two that exclude each other share one."""
        return any(it.launch.port == port and it.run is not None for it in self.engines.lanes.by_id.values())

    def _beyond(self) -> tuple[int, str]:
        try:
            pools = self.memory.read()
        except OSError:
            return 0, ""
        lanes = self.engines.lanes.by_id.values()
        return unexplained(pools, {it.engine.id: it.taken for it in lanes if it.run is not None})

    # ------------------------------------------------------------ what it costs

    async def _answer(self, window: Holding, key: str, note: str, lane: Lane | None) -> None:
        """Strike one: an engine of ours is stopped. The second time the schedule aborts the window."""
        said = await self.strike(window.lease, note)
        if said is None or lane is None:
            return
        lane.owed = False
        try:
            await self.engines.stopping.stop(lane, actor="guard", why=f"against the window of {window.mode}")
        except Refusal as refusal:
            self.events.emit(
                Event(
                    type="deferred",
                    at=self.clock.now(),
                    actor="guard",
                    subject=frozen({"engine": lane.engine.id, "lease": window.lease}),
                    message=str(refusal),
                )
            )
        else:
            # It may be up again before the next look, and that is another coming.
            self.known.told.discard(key)
