"""The fleet as its nodes see it, for who is shown it: one look each, within a few seconds (MODE-2).

Decides that what cannot be seen counts as nothing seen: a node that is away or hangs keeps nobody waiting.
Changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.errors import Refusal
from hostler.domain.fleet import DriverKind, Engine, Fleet
from hostler.domain.lease import Lease
from hostler.domain.resource import Resource
from hostler.domain.step import Found, FoundEngine, Step, StopEngine
from hostler.domain.values import EngineId, HostName
from hostler.services.needs import Clock
from hostler.services.operations import Operations
from hostler.services.promotion import asking
from hostler.services.schedule_needs import Node

LOOK_S: Final = 2.0
"""How long one look at an engine may take: who asks waits for all of them."""
PATIENCE_S: Final = 5.0
"""A node that is away or hangs counts as unseen after that: whoever asks gets an answer all the same."""
NOTHING: Final = Resource(name="", hosts=(), covers=())
_OTHERS: Final = (DriverKind.EXTERNAL, DriverKind.DISTRIBUTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one look at engines found: those that are up, and the hosts of which nothing was seen."""

    up: frozenset[EngineId]
    silent: tuple[HostName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLook:
    """Looks at what steps would find, on the head."""

    nodes: Mapping[str, Node]
    clock: Clock

    async def seen(self, fleet: Fleet) -> Seen:
        """The engines of every host that are up, a distributed one by its members; who could not be asked."""
        return await self.seen_of([it for it in fleet.engines.values() if it.driver not in _OTHERS])

    async def up_of(self, engines: Collection[Engine]) -> frozenset[EngineId]:
        """Those of these engines that are up."""
        return (await self.seen_of(engines)).up

    async def seen_of(self, engines: Collection[Engine]) -> Seen:
        """The same of these engines."""
        found = await self.found([StopEngine(host=it.host, engine=it.id) for it in engines])
        pairs = list(zip(engines, found, strict=True))
        answered = {it.host for it, seen in pairs if seen is not None}
        return Seen(
            up=frozenset(it.id for it, seen in pairs if isinstance(seen, FoundEngine) and seen.up),
            silent=tuple(sorted({it.host for it in engines} - answered)),
        )

    async def found(self, steps: Sequence[Step], lease: Lease | None = None) -> list[Found | None]:
        """What each step would find now, all at once; for `lease` where it is one's own."""
        return list(await asyncio.gather(*(self._found(step, lease) for step in steps)))

    async def _found(self, step: Step, lease: Lease | None) -> Found | None:
        """What a node sees of it; None where it cannot be asked, or says nothing for a moment."""
        node = self.nodes.get(step.host)
        if node is None:
            return None
        now = self.clock.moment()
        for_whom = asking(NOTHING, "", (), now) if lease is None else lease
        ask = Operations(nodes=self.nodes, bug=str, lease=for_whom, now=now)
        look = asyncio.ensure_future(node.observe(replace(ask.forward(1, step), deadline_s=LOOK_S)))
        timer = asyncio.ensure_future(self.clock.sleep(PATIENCE_S))
        try:
            await asyncio.wait({look, timer}, return_when=asyncio.FIRST_COMPLETED)
            return look.result() if look.done() else None
        except Refusal:
            return None
        finally:
            for it in (look, timer):
                it.cancel()
            await asyncio.gather(look, timer, return_exceptions=True)
