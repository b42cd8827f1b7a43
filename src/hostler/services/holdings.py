"""What leases hold on which host, as their nodes are told (LEASE-15).

Decides that everything which a lease's captured plan touches is its own from the grant to the end, and what
a beat of a job gives its lease (LEASE-20).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from hostler.domain.errors import NodeUnreachable
from hostler.domain.fleet import frozen
from hostler.domain.holding import ENGINE, HOLD, ROUTE, Holding, place
from hostler.domain.lease import Lease, State
from hostler.domain.moment import Moment, shown
from hostler.domain.step import (
    DrainEngine,
    HoldHost,
    PointRoute,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
)
from hostler.services.needs import Clock
from hostler.services.operations import deadline_s
from hostler.services.schedule_needs import Node, ScheduleStore

Longest = Callable[[str], float | None]

CERTAIN = frozenset({State.ACTIVE, State.RELEASING})
"""Their hard end is known; one that is stuck waits for a person (LEASE-14)."""
TOUCHING = frozenset({State.ACTIVATING, State.ACTIVE, State.RELEASING, State.STUCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Keeps the nodes told. `told` is what each knows now."""

    store: ScheduleStore
    nodes: Mapping[str, Node]
    clock: Clock
    longest: Longest = lambda _: None
    told: dict[str, Mapping[str, Holding]] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def sync(self) -> bool:
        """Tell each node what is held there, when that is something else than before. Whether all know it.

        One at a time: what is read later is told later. A node that cannot be reached is told at the next
        call: it does not keep the others from being told, and a step there fails by itself (NODE-3). Refuses
        `schedule_unavailable`.
        """
        async with self.lock:
            live = await self.store.read(lambda tx: tx.live())
            held = holdings(live, self.nodes, self.clock.moment(), self.longest)
            for host, node in self.nodes.items():
                if self.told.get(host) == held[host]:
                    continue
                self.told.pop(host, None)
                with suppress(NodeUnreachable):
                    await node.adopt(held[host])
                    self.told[host] = held[host]
            return self.told.keys() >= self.nodes.keys()


def holdings(
    live: Iterable[Lease], hosts: Iterable[str], now: Moment, longest: Longest = lambda _: None
) -> Mapping[str, Mapping[str, Holding]]:
    """What is held on each host: `engine fast-4b`, `route chat`, `hold crow` -> by whom.

    `longest` gives the most seconds that a resource is given for, None when that is not known.
    """
    found: dict[str, dict[str, Holding]] = {host: {} for host in hosts}
    for lease in live:
        if lease.plan and lease.state in TOUCHING:
            holding = Holding(
                lease=lease.id,
                resource=lease.resource,
                holder=lease.holder,
                key=lease.key,
                until=_until(lease, now),
                hard=_hard(lease, now, longest),
                mode=lease.mode,
            )
            started = {it.engine for it in lease.plan if isinstance(it, StartEngine)} if lease.soft else set()
            for host, thing in things(lease.plan):
                kind, _, name = thing.partition(" ")
                closes = kind == HOLD or (kind == ENGINE and name in started)
                soft = shown(lease.soft, now) if lease.soft is not None and closes else None
                found.setdefault(host, {})[thing] = replace(holding, stop_accepting=soft)
    return frozen({host: frozen(things) for host, things in found.items()})


def _hard(lease: Lease, now: Moment, longest: Longest) -> Moment | None:
    """When a node that is cut off puts it back by itself; None: it keeps what it has (NODE-4).

    While it activates that is not known yet, only that it is no later than its steps and its longest time
    from now: a node that is cut off in that very moment must not keep it for ever. A window's cap counts from
    its grant: it ends by it while it opens, too (WIN-2).
    """
    if lease.state in CERTAIN or (lease.state is State.ACTIVATING and lease.mode):
        return lease.hard
    most = longest(lease.resource)
    if lease.state is not State.ACTIVATING or lease.ttl_s is None or most is None:
        return None
    return now.plus(most + sum(map(deadline_s, lease.plan)))


def _until(lease: Lease, now: Moment) -> datetime | None:
    """When its time is up; while it activates, releases or is stuck nobody knows when it ends."""
    if lease.state is not State.ACTIVE or lease.expires is None:
        return None
    return shown(lease.expires, now)


def things(plan: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """What a plan changes: the host and the thing, as `holdings` names it."""
    for step in plan:
        match step:
            case DrainEngine() | SuspendEngine() | StopEngine() | StartEngine():
                yield step.host, place(ENGINE, step.engine)
            case PointRoute():
                yield step.host, place(ROUTE, step.route)
            case HoldHost():
                yield step.host, place(HOLD, step.host)
            case _:
                continue
