"""A head in memory: the real schedule on the memory store, the fake node and a clock that a test moves."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from hostler.adapters.store.memory import MemoryStore
from hostler.bootstrap.scheduling import Means, Scheduling, scheduling
from hostler.domain.fleet import Fleet, Host, Node, frozen
from hostler.domain.lease import Lease, LeaseId
from hostler.domain.resource import Resource
from hostler.domain.values import HostName, requester
from hostler.services.keys import INCLUDES, Principal, Scope
from hostler.services.present import Present
from hostler.services.schedule import Schedule
from hostler.services.schedule_needs import Node as NodeNeed
from hostler.services.schedule_needs import ScheduleStore
from hostler.wire.schedule import LeaseView, ReleaseBody, RenewBody, ReserveBody
from tests.fakes.clock import ManualClock, settle
from tests.fakes.events import EventList
from tests.fakes.ids import CountingIds

CROW = HostName("crow")
AGENT = Principal(name="agents", rights=INCLUDES[Scope.SCHEDULE_WRITE])
OPERATOR = Principal(name="me", rights=INCLUDES[Scope.ADMIN])
BY = requester(ip="10.99.0.7", ua="agent/1", client="agent", key="agents")


def resource(name: str = "bench-disk", **more: object) -> Resource:
    """A fair, timed lock on the host `crow`."""
    made = Resource(name=name, hosts=(CROW,), covers=(name,))
    return replace(made, **more)  # type: ignore[arg-type]  # a test names the fields that matter to it


def hash_of(secret: str) -> str:
    """What a client sends instead of its secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(slots=True, kw_only=True)
class Head:
    """One daemon's schedule. `again` is a later daemon on the same store and clock."""

    fleet: Fleet
    store: ScheduleStore
    nodes: Mapping[str, NodeNeed]
    clock: ManualClock
    ids: CountingIds
    parts: Scheduling
    processes: list[tuple[str, int, int]]
    warnings: list[tuple[str, ...]]
    bugs: list[BaseException] = field(default_factory=list)
    requests: int = 0

    @property
    def schedule(self) -> Schedule:
        return self.parts.schedule

    async def reserve(
        self,
        resource_: str = "bench-disk",
        *,
        holder: str = "anna",
        who: Principal = AGENT,
        request: str | None = None,
        **more: object,
    ) -> LeaseView:
        """Ask as `holder`, whose secret is its name."""
        self.requests += 1
        body = ReserveBody(resource=resource_, holder=holder, secret_hash=hash_of(holder))
        body = replace(body, **more)  # type: ignore[arg-type]  # as above
        found = await self.schedule.reserve(body, request or f"request-{self.requests}", who, BY)
        return found.lease

    async def renew(self, lease: LeaseView, *, who: Principal = AGENT, **more: object) -> LeaseView:
        """Renew as the lease's holder."""
        body = replace(RenewBody(secret=lease.holder), **more)  # type: ignore[arg-type]  # as above
        return (await self.schedule.renew(lease.id, body, who, BY)).lease

    async def release(self, lease: LeaseView, *, who: Principal = AGENT, **more: object) -> LeaseView:
        """Release as the lease's holder."""
        body = replace(ReleaseBody(secret=lease.holder), **more)  # type: ignore[arg-type]  # as above
        found = (await self.schedule.release(lease.id, body, who, BY)).lease
        await settle()
        return found

    async def look(self, lease: LeaseView) -> LeaseView:
        """The lease now."""
        return (await self.schedule.lease(lease.id)).lease

    async def row(self, lease: LeaseView) -> Lease:
        """The lease as it is stored."""
        found = await self.store.read(lambda tx: tx.lease(LeaseId(lease.id)))
        assert found is not None
        return found

    async def ticks(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass with the keeper running."""
        left = seconds
        while left > 0:
            await self.clock.advance(min(step, left))
            await self.parts.keeper.tick()
            await settle()
            left -= step

    async def skip(self, seconds: float) -> None:
        """Let time pass at which the keeper is not blind, but looks only at its end."""
        await self.clock.advance(seconds)
        self.parts.keeper.mind.last = self.clock.moment()
        await self.parts.keeper.tick()
        await settle()

    async def types(self) -> list[str]:
        """The types of all events so far, in order."""
        store = self.store
        assert isinstance(store, MemoryStore)
        return [row.event.type for row in await store.since(None, 100_000)]

    async def again(self, fleet: Fleet | None = None) -> Head:
        """The daemon is gone without a word; another one begins."""
        await self.parts.keeper.workshop.end()
        made = join(fleet or self.fleet, self.store, self.nodes, self.clock, self.ids, requests=self.requests)
        await made.parts.keeper.begin()
        return made


def fleet(*resources: Resource, **more: object) -> Fleet:
    """A fleet of the host `crow` with these resources."""
    made = Fleet(
        here=CROW,
        head=(CROW,),
        node=Node(),
        hosts=frozen({CROW: Host(name=CROW)}),
        engines=frozen({}),
        timezone="Europe/Berlin",
        resources=frozen({it.name: it for it in resources}),
    )
    return replace(made, **more)  # type: ignore[arg-type]  # as above


def join(
    made: Fleet,
    store: ScheduleStore,
    nodes: Mapping[str, NodeNeed],
    clock: ManualClock,
    ids: CountingIds,
    *,
    requests: int = 0,
) -> Head:
    """The services of a head, as the bootstrap joins them."""
    bugs: list[BaseException] = []
    processes: list[tuple[str, int, int]] = []
    warnings: list[tuple[str, ...]] = []

    def bug(error: BaseException) -> str:
        bugs.append(error)
        return f"bug_{len(bugs)}"

    async def note(host: str | None, lease: str, pid: int, ticks: int) -> None:
        processes.append((lease, pid, ticks))

    parts = scheduling(
        Means(
            config=Present(fleet=made),
            store=store,
            nodes=nodes,
            clock=clock,
            ids=ids,
            events=EventList(),
            redact=lambda text: text.replace("hk_secret", "****"),
            bug=bug,
            note_process=note,
            warn=warnings.append,
        )
    )
    return Head(
        fleet=made,
        store=store,
        nodes=nodes,
        clock=clock,
        ids=ids,
        parts=parts,
        processes=processes,
        warnings=warnings,
        bugs=bugs,
        requests=requests,
    )


@asynccontextmanager
async def head(
    *resources: Resource,
    nodes: Mapping[str, NodeNeed] | None = None,
    made: Fleet | None = None,
    store: ScheduleStore | None = None,
) -> AsyncIterator[Head]:
    """A head with these resources, on the memory store if no other is given. Fails when it met a bug."""
    before = asyncio.all_tasks()
    clock, ids = ManualClock(), CountingIds()
    it = join(
        made or fleet(*(resources or (resource(),))), store or MemoryStore(ids), nodes or {}, clock, ids
    )
    await it.parts.keeper.begin()
    it.parts.keeper.mind.grace_until = 0.0
    try:
        yield it
        assert it.bugs == []
    finally:
        left = [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
