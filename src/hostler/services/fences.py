"""The deployment fence: put up, taken down, mirrored to the nodes (LEASE-28).

Decides in which order it is recorded and told. What a fence means is asked where it counts: at promotion, at
expiry, at the gate's timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hostler.domain.errors import NodeUnreachable
from hostler.domain.events import Event
from hostler.domain.fence import anchored, over, put_up, under_s
from hostler.domain.fleet import frozen
from hostler.domain.lease import Shifted
from hostler.domain.moment import Moment
from hostler.domain.values import rfc3339
from hostler.services.lease_changes import change
from hostler.services.needs import Clock
from hostler.services.schedule_needs import Node, ScheduleStore, Tx
from hostler.services.schedule_views import fence_view
from hostler.wire.schedule import FenceBody, FenceNow


@dataclass(frozen=True, slots=True, kw_only=True)
class Fences:
    """`excuse` takes the time under the fence off what jobs are judged by (R74).

    `untold` are the nodes that could not be reached: they are told at the next tick.
    """

    store: ScheduleStore
    nodes: Mapping[str, Node]
    clock: Clock
    clean: Callable[[str], str]
    excuse: Callable[[Tx, Moment, Moment], None]
    untold: set[str] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def up(self, body: FenceBody, actor: str) -> None:
        """Put it up, or give the one that is up another end. Refuses `invalid_request`."""
        await self.store.write(lambda tx: self._up(tx, body, actor))
        await self.mirror()

    def _up(self, tx: Tx, body: FenceBody, actor: str) -> None:
        now = self.clock.moment()
        fence = put_up(tx.fence(), now, for_s=body.for_s, by=actor, reason=self.clean(body.reason))
        tx.put_fence(fence)
        until = rfc3339(fence.until.at)
        self._record(tx, "fence_up", actor, f"until {until}: {fence.reason}", {"until": until})

    async def down(self, actor: str) -> None:
        """Take it down: the time under it counts toward nothing. Not up: nothing to do."""
        await self.store.write(lambda tx: self._down(tx, actor))
        await self.mirror()

    async def tick(self) -> bool:
        """Take it down at its time. Whether it came down now."""
        now = self.clock.moment()
        fence = await self.store.read(lambda tx: tx.fence())
        if fence is None or not over(fence, now):
            if self.untold:
                await self.mirror()
            return False
        await self.down("its time")
        return True

    def _down(self, tx: Tx, actor: str) -> None:
        now, fence = self.clock.moment(), tx.fence()
        if fence is None:
            return
        for lease in tx.live():
            change(tx, lease, Shifted(seconds=under_s(fence, now, lease.activated)), now)
        self.excuse(tx, fence.since, now)
        tx.put_fence(None)
        self._record(tx, "fence_down", actor, "", {"seconds": round(under_s(fence, now), 3)})

    async def now(self, running: Sequence[str]) -> FenceNow:
        """The fence as it is told."""
        now = self.clock.moment()
        fence = await self.store.read(lambda tx: tx.fence())
        return FenceNow(at=rfc3339(now.at), fence=fence_view(fence, running, now))

    async def anchor(self) -> None:
        """After a restart of the machine its times count by this run's elapsed time (LEASE-21)."""
        await self.store.write(self._anchor)

    def _anchor(self, tx: Tx) -> None:
        fence = tx.fence()
        if fence is not None:
            tx.put_fence(anchored(fence, self.clock.moment()))

    async def mirror(self) -> None:
        """Tell the nodes what the store has: after a restart their files may be older.

        One at a time: what is read later is told later.
        """
        async with self.lock:
            fence = await self.store.read(lambda tx: tx.fence())
            for host, node in self.nodes.items():
                self.untold.add(host)
                with suppress(NodeUnreachable):
                    await node.raise_fence(fence)
                    self.untold.discard(host)

    def _record(self, tx: Tx, kind: str, actor: str, message: str, facts: Mapping[str, object]) -> None:
        tx.record(Event(type=kind, at=self.clock.now(), actor=actor, message=message, facts=frozen(facts)))
