"""A store, a host and a runner around one lease, for tests of what a lease does and undoes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.events import Event
from hostler.domain.fence import Fence
from hostler.domain.journal import Entry, EntryState
from hostler.domain.lease import (
    Activated,
    CancelAsked,
    Decision,
    Granted,
    Lease,
    LeaseEvent,
    LeaseId,
    State,
    UndoBegun,
)
from hostler.domain.plan import text
from hostler.domain.step import Operation, Step
from hostler.services.lease_changes import change, known
from hostler.services.needs import Store
from hostler.services.recovery import recover
from hostler.services.runner import Runner
from hostler.services.schedule_needs import Node, ScheduleStore, Tx
from tests.fakes.clock import ManualClock
from tests.fakes.ids import CountingIds
from tests.fakes.node import FakeEngine, FakeNode, FakeRoute, World

ID = LeaseId("ls_1")


class BothStores(Store, ScheduleStore, Protocol):
    """A store with both of its sides."""


def world() -> World:
    """A host with an engine that serves, one that was cold, one that a person suspended, and two routes.

    Three of them are brought up by something else as well.
    """
    return World(
        engines={
            "big": FakeEngine(revival="restart: always"),
            "cold": FakeEngine(up=False, revival="restart: unless-stopped"),
            "resting": FakeEngine(up=False, suspended_by={"person:ann"}),
            "coder": FakeEngine(up=False, revival="restart: always"),
            "small": FakeEngine(),
        },
        routes={
            "chat": FakeRoute(
                active="local",
                profiles={
                    "local": (("big",), ()),
                    "away": ((), ("cloud",)),
                    "least": (("small",), ()),
                    "coder": (("coder",), ()),
                },
            ),
            "voice": FakeRoute(active="away", profiles={"local": (("big",), ()), "away": ((), ("cloud",))}),
        },
    )


class House:
    """One lease on the hosts of its plan. `node` is crow, `others` the rest; `bugs` are reported as ours."""

    def __init__(
        self,
        plan: Sequence[Step],
        *,
        store: BothStores | None = None,
        nodes: Mapping[str, Node] | None = None,
        ttl_s: float | None = 3600.0,
    ) -> None:
        self.clock = ManualClock()
        self.store: BothStores = store or MemoryStore(CountingIds())
        self.node = FakeNode("crow", world())
        self.plan = tuple(plan)
        self.others = {it.host: FakeNode(it.host, world()) for it in self.plan if it.host != "crow"}
        self.nodes: Mapping[str, Node] = nodes or {"crow": self.node, **self.others}
        self.before = self.node.picture()
        self.before_elsewhere = {host: it.picture() for host, it in self.others.items()}
        self.bugs: list[BaseException] = []
        self._ttl_s = ttl_s

    @property
    def runner(self) -> Runner:
        """A runner as a daemon has it that has just begun."""
        return self.runner_of(self.store, self.nodes)

    def runner_of(self, store: ScheduleStore, nodes: Mapping[str, Node]) -> Runner:
        """A runner that reaches its store and its nodes through others."""
        return Runner(store=store, nodes=nodes, clock=self.clock, activated=self.activated, bug=self.report)

    def report(self, error: BaseException) -> str:
        self.bugs.append(error)
        return f"bug-{len(self.bugs)}"

    def activated(self, tx: Tx, lease: Lease) -> Decision:
        return change(tx, lease, Activated(hard=None), self.clock.moment())

    async def grant(self) -> None:
        """A lease that has just got its resource."""
        await self.store.write(self._grant)

    def _grant(self, tx: Tx) -> Lease:
        lease = Lease(
            id=ID,
            resource="crow-box",
            covers=("crow-box",),
            holder="bench",
            key="agents",
            secret="0" * 64,
            request_id="r1",
            digest="d1",
            created=self.clock.moment(),
            ttl_s=self._ttl_s,
        )
        event = Granted(fence=tx.next_generation(), plan=self.plan)
        return change(tx, tx.put(lease), event, self.clock.moment()).lease

    async def take(self) -> Lease:
        """Grant and activate."""
        await self.grant()
        return await self.runner.activate(ID)

    async def say(self, event: LeaseEvent) -> Lease:
        """Something happens to the lease, as the schedule writes it."""
        return await self.store.write(lambda tx: change(tx, known(tx, ID), event, self.clock.moment()).lease)

    async def release(self, ending: State = State.RELEASED) -> Lease:
        """The holder gives it back: written, then put back."""
        await self.say(UndoBegun(ending=ending))
        return await self.runner.restore(ID)

    async def cancel(self) -> None:
        """The holder calls the activation off."""
        await self.say(CancelAsked())

    async def fence(self) -> None:
        """An operator puts a fence up."""
        now = self.clock.moment()
        up = Fence(since=now, until=now.plus(600.0), by="op", reason="deploy")
        await self.store.write(lambda tx: tx.put_fence(up))

    def when(self, phrase: str, act: Callable[[], Awaitable[object]]) -> None:
        """Once, when the node has done what `phrase` says, `act` happens before the runner hears of it."""
        tell, over = self.node.perform, set[str]()

        async def perform(operation: Operation) -> None:
            await tell(operation)
            if text(operation.step) == phrase and phrase not in over:
                over.add(phrase)
                await act()

        self.node.perform = perform  # type: ignore[method-assign] # the node of one test

    async def lease(self) -> Lease:
        return await self.store.read(lambda tx: known(tx, ID))

    async def journal(self) -> Sequence[Entry]:
        return await self.store.read(lambda tx: tx.journal(ID))

    async def states(self) -> list[EntryState]:
        """How far each step came, in the order of the plan."""
        return [entry.state for entry in await self.journal()]

    async def notes(self) -> list[str]:
        """What was noted of each step."""
        return [entry.note for entry in await self.journal()]

    async def interrupted(self) -> None:
        """The daemon was killed, and the next one recovers."""
        await recover(self.store, self.clock)

    async def told(self) -> list[Event]:
        """All events, oldest first."""
        return [row.event for row in await self.store.since(None, 10_000)]

    async def events(self) -> list[str]:
        """The types of all events, oldest first."""
        return [event.type for event in await self.told()]
