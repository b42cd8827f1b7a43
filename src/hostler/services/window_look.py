"""A window as its hosts see it now: which of its holds stand, and what is not as it should be in an open one.

Decides in which words it is told, and with which command it is put right. Changes nothing; a host that says
nothing for a moment is named, and nothing is said for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hostler.domain.fleet import Fleet
from hostler.domain.lease import Lease, State
from hostler.domain.mode import Mode
from hostler.domain.step import Found, FoundEngine, FoundHold, HoldHost, StartEngine
from hostler.domain.values import EngineId, shorten
from hostler.services.fleet_look import FleetLook
from hostler.services.present import Present


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSeen:
    """What hosts say of a window: `wrong` in a sentence each, `held` are those where its own hold stands."""

    wrong: tuple[str, ...] = ()
    held: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowLook:
    """Looks at windows."""

    config: Present
    look: FleetLook

    async def seen(self, lease: Lease) -> WindowSeen:
        """Its holds, and what is wrong while it is open: else its steps tell that. Of one over, nothing."""
        fleet = self.config.fleet
        if lease.state.ended:
            return WindowSeen()
        active = lease.state is State.ACTIVE
        steps = [
            it for it in lease.plan if isinstance(it, HoldHost) or (active and isinstance(it, StartEngine))
        ]
        found = await self.look.found(steps, lease)
        seen = dict(zip(steps, found, strict=True))
        own = [it.host for it, hold in seen.items() if isinstance(hold, FoundHold) and hold.lease == lease.id]
        mode = fleet.modes.get(lease.mode)
        wrong = dict.fromkeys(_wrong(fleet, mode, lease, seen)) if active else ()
        return WindowSeen(wrong=tuple(wrong), held=frozenset(own))


def _wrong(
    fleet: Fleet, mode: Mode | None, lease: Lease, seen: Mapping[HoldHost | StartEngine, Found | None]
) -> Iterator[str]:
    for step, found in seen.items():
        match step, found:
            case _, None:
                yield f"{step.host} does not say how it is"
            case HoldHost(host=host), FoundHold(lease=whose, owner=owner) if whose != lease.id:
                # A script may write the record itself (MODE-4).
                if mode is None or mode.tool is None:
                    what = f"held by {shorten(owner)}, not by this window" if owner else "not held any more"
                    yield f"{host} is {what}: `hostler window close {lease.id}` ends the window"
            case StartEngine(engine=name), FoundEngine(up=False, state=state):
                known = fleet.engines.get(EngineId(name))
                whole = name if known is None or known.of is None else known.of
                again = f"`hostler start {whole} --lease {lease.id}` there starts it again"
                yield f"{name} on {step.host} is {state or 'down'}: {again}"
