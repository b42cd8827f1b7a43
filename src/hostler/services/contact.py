"""The head's contact with the nodes of other hosts: who is there, since when, and how far its clock is off.

Decides that a node which is away is not asked again and again, that it is told and compared when it is back,
and that nothing is granted on it before (NODE-3, LEASE-8). What a node is asked is `services.operations`'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from hostler.domain.errors import NodeOutdated, NodeUnreachable, Refusal
from hostler.domain.events import Event
from hostler.domain.fence import Fence
from hostler.domain.fleet import frozen
from hostler.domain.hold import parse_instant
from hostler.domain.holding import Holding
from hostler.domain.step import Found, Operation
from hostler.domain.values import HostName, Priority, rfc3339
from hostler.domain.window import HostReport
from hostler.services.lanes import heard
from hostler.services.lost_holds import Said
from hostler.services.needs import Clock, Events
from hostler.services.present import Present
from hostler.services.schedule_needs import Node, NodeMemory
from hostler.wire.nodes import NodeAnswer, NodeList, NodeView

T = TypeVar("T")

EVERY_S: Final = 5.0
PATIENCE_S: Final = 30.0
AGAIN_S: Final = 1.0
SKEW_S: Final = 5.0
"""A wall clock that is so much off is told; nothing is decided by it (F18)."""


class FarNode(Node, Protocol):
    """A node of another host."""

    async def now(self) -> NodeAnswer:
        """How it is. Refuses `node_unreachable`, `node_outdated`."""
        ...

    async def register(self, lease: str, pid: int, start_ticks: int) -> None:
        """A process group of that host works under the lease (JOB-5). Refuses `invalid_request`."""
        ...

    async def close(self) -> None:
        """End the connections."""
        ...


@dataclass(eq=False, slots=True, kw_only=True)
class Contact:
    """What is known of one node. `compared`: it was asked what it remembers since it was away last."""

    since: datetime
    up: bool = False
    compared: bool = False
    told: bool = False
    why: str = "it has not been asked yet"
    answer: NodeAnswer | None = None
    skew_s: float | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def back(self, now: datetime) -> None:
        """It answers."""
        if not self.up:
            self.up, self.since, self.why = True, now, ""
        self.gone.clear()

    @property
    def seen(self) -> bool | None:
        """Whether it is there; None before it was asked for the first time."""
        return self.up and self.compared if self.up or self.told else None

    def lost(self, why: str, now: datetime) -> bool:
        """It does not answer; whether that is new."""
        new = self.up or not self.told
        if new:
            self.since = now
        self.up = self.compared = False
        self.told, self.why = True, why
        self.gone.set()
        return new


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """`Node` of another host: as the far one, but for what is known without asking it."""

    far: FarNode
    host: str
    contact: Contact
    clock: Clock
    lost: Callable[[str, NodeUnreachable], None]

    async def preflight(self, operation: Operation) -> None:
        self._ready()
        await self._unless_lost(self.far.preflight(operation))

    async def observe(self, operation: Operation) -> Found:
        return await self._patient(lambda: self.far.observe(operation))

    async def perform(self, operation: Operation) -> None:
        await self._asked(self.far.perform(operation))

    async def verify(self, operation: Operation) -> str | None:
        return await self._patient(lambda: self.far.verify(operation))

    async def end_processes(self, lease: str) -> Sequence[str]:
        return await self._patient(lambda: self.far.end_processes(lease))

    async def memory(self) -> NodeMemory:
        self._there()
        return await self._asked(self.far.memory())

    async def report(self, window: str) -> HostReport:
        self._there()
        return await self._asked(self.far.report(window))

    async def raise_fence(self, fence: Fence | None) -> None:
        self._there()
        await self._asked(self.far.raise_fence(fence))

    async def adopt(self, held: Mapping[str, Holding]) -> None:
        self._there()
        await self._asked(self.far.adopt(held))

    def _ready(self) -> None:
        """Refuse what is not to be begun there now; who is outdated says so itself (NODE-7)."""
        self._there()
        if not self.contact.compared:
            raise NodeUnreachable(host=self.host, why="it is back, and is being asked what it remembers")

    def _there(self) -> None:
        """Whoever is away is told when it is back: nobody waits for it here."""
        if not self.contact.up and self.contact.told:
            raise NodeUnreachable(host=self.host, why=self.contact.why)

    async def _patient(self, call: Callable[[], Awaitable[T]]) -> T:
        """A look in the middle of a lease: a node that is away for a moment is waited for, 30 s and no more.

        A daemon that restarts must not leave its lease stuck; a call that hangs ends when the node is lost.
        """
        ends = self.clock.elapsed() + PATIENCE_S
        while True:
            try:
                self._there()
                return await self._unless_lost(call())
            except NodeUnreachable:
                if self.clock.elapsed() >= ends:
                    raise
                await self.clock.sleep(AGAIN_S)

    async def _unless_lost(self, call: Awaitable[T]) -> T:
        """What it answers; refused as soon as the contact is lost."""
        task = asyncio.ensure_future(self._asked(call))
        lost = asyncio.ensure_future(self.contact.gone.wait())
        try:
            await asyncio.wait({task, lost}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise NodeUnreachable(host=self.host, why=self.contact.why)
        finally:
            lost.cancel()
            task.cancel()
            await asyncio.gather(task, lost, return_exceptions=True)

    async def _asked(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except NodeUnreachable as refusal:
            self.lost(self.host, refusal)
            raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Contacts:
    """All of them. `hooks` take up what one that is back remembers; `own` is this host's own answer.

    `warn` takes what people should know, `bug` logs an exception of ours and returns its id.
    """

    config: Present
    far: Mapping[str, FarNode]
    own: Callable[[], NodeAnswer]
    clock: Clock
    events: Events
    warn: Callable[[tuple[str, ...]], None]
    bug: Callable[[BaseException], str]
    known: dict[str, Contact] = field(default_factory=dict)
    hooks: list[Callable[[str], Awaitable[None]]] = field(default_factory=list)

    def node(self, host: str) -> KnownNode:
        """The node of another host, as the schedule has it."""
        return KnownNode(
            far=self.far[host], host=host, contact=self.contact(host), clock=self.clock, lost=self._lost
        )

    def contact(self, host: str) -> Contact:
        """What is known of it."""
        found = self.known.get(host)
        if found is None:
            found = self.known[host] = Contact(since=self.clock.now())
        return found

    async def run(self) -> None:
        """Ask everybody every 5 s until cancelled; one that hangs delays no other."""
        tasks: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                for host in self.far:
                    running = tasks.get(host)
                    if running is None or running.done():
                        tasks[host] = asyncio.create_task(self.look(host))
                        tasks[host].add_done_callback(heard)
                await self.clock.sleep(EVERY_S)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def close(self) -> None:
        """End the connections to all of them."""
        for far in self.far.values():
            await far.close()

    async def look(self, host: str) -> None:
        """One look at one node; what it remembers is taken up before it counts as there."""
        contact = self.contact(host)
        try:
            answer = await self.far[host].now()
            contact.answer = answer
            at = parse_instant(answer.at)
            contact.skew_s = None if at is None else round((at - self.clock.now()).total_seconds(), 3)
            contact.back(self.clock.now())
            if not contact.compared:
                for hook in self.hooks:
                    await hook(host)
                contact.compared = True
                self._tell("node_back", host, f"{host} answers{self._skew(contact)}.", None)
        except NodeUnreachable as refusal:
            self._lost(host, refusal)
        except NodeOutdated as refusal:
            if contact.lost(str(refusal), self.clock.now()):
                self._tell("node_lost", host, str(refusal), Priority.HIGH)
        except Refusal as refusal:
            # The store, or the node's disk: it is there, and is compared at the next look.
            contact.why = str(refusal)
        except Exception as error:  # noqa: BLE001 - one look's bug must not end the watch
            contact.why = f"error {self.bug(error)}"
        self.warn(self.warnings())

    def _lost(self, host: str, refusal: NodeUnreachable) -> None:
        if self.contact(host).lost(refusal.why, self.clock.now()):
            self._tell("node_lost", host, str(refusal), Priority.HIGH)

    def _skew(self, contact: Contact) -> str:
        skew = contact.skew_s
        return "" if skew is None or abs(skew) < SKEW_S else f"; its wall clock is {skew:+.0f} s off"

    async def nodes(self) -> NodeList:
        """Every node of the fleet."""
        return NodeList(at=rfc3339(self.clock.now()), nodes=tuple(map(self._view, self.config.fleet.hosts)))

    def away(self, host: str) -> str | None:
        """See `NodesApi.away`: a head asks every few seconds, so that nobody else need wait (NODE-3)."""
        found = self.known.get(host)
        return found.why if found is not None and found.told and not found.up else None

    def said(self, host: str) -> Said | None:
        """What a node said last of its host; None where it does not answer now. This one says it at once."""
        if host == self.config.fleet.here:
            return Said(answer=self.own(), at=self.clock.now())
        found = self.known.get(host)
        at = None if found is None or found.answer is None or not found.up else parse_instant(found.answer.at)
        if found is None or found.answer is None or at is None or found.skew_s is None:
            return None
        return Said(answer=found.answer, at=at - timedelta(seconds=found.skew_s))

    def warnings(self) -> tuple[str, ...]:
        """What a person should know (F18)."""
        told = []
        for host, contact in self.known.items():
            if not contact.up and contact.told:
                since = rfc3339(contact.since)
                told.append(f"the node of {host} does not answer since {since}: {contact.why}")
            elif self._skew(contact):
                told.append(f"the node of {host} answers{self._skew(contact)}")
            if contact.up and contact.answer is not None:
                told += contact.answer.left
        return tuple(told)

    def _view(self, host: HostName) -> NodeView:
        fleet = self.config.fleet
        contact = self.known.get(host)
        here = host == fleet.here
        answer = self.own() if here else None if contact is None else contact.answer
        return view(
            fleet.hosts[host].url,
            answer,
            host=host,
            head=host in fleet.head,
            here=here,
            up=True if here else None if contact is None else contact.seen,
            since=None if contact is None else contact.since,
            why="" if contact is None else contact.why,
            skew_s=None if contact is None else contact.skew_s,
        )

    def _tell(self, kind: str, host: str, message: str, priority: Priority | None) -> None:
        at = self.clock.now()
        self.events.emit(
            Event(
                type=kind,
                at=at,
                subject=frozen({"host": host}),
                message=message,
                priority=priority,
                once=f"{kind} {host} {rfc3339(at)}" if priority is not None else None,
            )
        )


def view(  # noqa: PLR0913 - one row of people's facts, each named
    url: str | None,
    answer: NodeAnswer | None,
    *,
    host: str,
    head: bool,
    here: bool,
    up: bool | None,
    since: datetime | None = None,
    why: str = "",
    skew_s: float | None = None,
) -> NodeView:
    """A row of `hostler nodes`; of a node that is away, what it said last."""
    return NodeView(
        host=host,
        url=url,
        head=head,
        here=here,
        up=up,
        since=None if since is None else rfc3339(since),
        why=why,
        api=None if answer is None else answer.api,
        version="" if answer is None else answer.version,
        skew_s=skew_s,
        hold=None if answer is None else answer.hold,
        hold_until=None if answer is None else answer.hold_until,
        leases=() if answer is None else answer.leases,
        left=() if answer is None else answer.left,
    )
