"""One look at an engine whose processes this host can see: whose its port is, and what it answers (ENG-4).

Decides who on a port is a stranger, and in which words a look is told. Which processes are an engine's is
its driver's to say, and what a look means `hostler.domain.engine.judge`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hostler.adapters.drivers import http_look, ports
from hostler.adapters.drivers.http_look import Look
from hostler.adapters.host import process_table
from hostler.adapters.host.listeners import Socket
from hostler.domain.engine import Launch, PortOwner, Probe
from hostler.domain.values import EngineId, format_duration


@dataclass(slots=True)
class _Seen:
    """When an engine last answered (loop time, seconds) and with what status: for `Probe.detail` only."""

    at: float
    status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A run as it was found now: whether it lives, and the pids that are its own."""

    alive: bool
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Looks at the engines of one driver. `timeout_s` bounds what is asked over HTTP."""

    timeout_s: float = http_look.LOOK_S
    _seen: dict[EngineId, _Seen] = field(default_factory=dict, init=False)

    async def look(self, launch: Launch, family: Callable[[], Family], ended: Callable[[], str]) -> Probe:
        """Whose the port is, then over HTTP what answers there. `ended` says how the run ended, if it has.

        Both are asked off the loop.
        """
        found, owner, stranger = await asyncio.to_thread(_whose, launch, family)
        if owner == "stranger":
            told = f"port {launch.port} is held by {stranger}"
            return Probe(
                alive=found.alive, port_owner=owner, stranger=stranger, health="unreachable", detail=told
            )
        if owner == "nobody":
            last = await asyncio.to_thread(ended)
            told = f"nothing listens on {launch.address}:{launch.port}{last}"
            return Probe(alive=found.alive, port_owner=owner, health="unreachable", detail=told)
        seen = await http_look.look(launch.url, launch.health, {}, timeout_s=self.timeout_s)
        return Probe(
            alive=found.alive,
            port_owner=owner,
            health=seen.health,
            http_status=seen.status,
            model_ids=seen.ids,
            detail=self._with_last_answer(launch, seen),
        )

    def forget(self, engine: EngineId) -> None:
        """It was stopped: what it last answered says nothing of the next run."""
        self._seen.pop(engine, None)

    def _with_last_answer(self, launch: Launch, seen: Look) -> str:
        now = asyncio.get_running_loop().time()
        if seen.health != "unreachable":
            self._seen[launch.engine] = _Seen(now, seen.status)
            return seen.detail
        last = self._seen.get(launch.engine)
        if last is None:
            return f"{seen.detail}; it has not answered yet"
        ago = format_duration(now - last.at)
        return f"{seen.detail}; last answer {last.status or 'a connection'}, {ago} ago"


def strangers(pids: Iterable[int], found: Iterable[Socket]) -> list[Socket]:
    """Those of `found` that none of `pids` has open (ENG-4)."""
    ours: set[int] = set()
    for pid in pids:
        ours |= process_table.open_inodes(pid, "socket") or frozenset()
    return [listener for listener in found if listener.inode not in ours]


def _whose(launch: Launch, family: Callable[[], Family]) -> tuple[Family, PortOwner, str]:
    """The run; whose the port is; who the stranger is.

    Where a process of the run may not be looked into (another user's), nothing proves that a listener is a
    stranger: only the model id counts then (ENG-4).
    """
    found = family()
    try:
        blocking = ports.in_the_way(launch.address, launch.port)
    except OSError:
        return found, "unknown", ""
    foreign = strangers(found.pids, blocking)
    if not foreign:
        return found, "ours" if blocking else "nobody", ""
    if any(process_table.open_inodes(pid, "socket") is None for pid in found.pids):
        return found, "unknown", ""
    return found, "stranger", ports.holder_of(foreign[0])
