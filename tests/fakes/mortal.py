"""A daemon that can be killed at every call, on a store and nodes that outlive it, over a network that fails.

Decides where it is killed and what its calls meet. Knows nothing of leases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from hostler.adapters.store.memory import MemoryStore
from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.errors import NodeUnreachable, ScheduleUnavailable
from hostler.domain.events import Recorded
from hostler.domain.fence import Fence
from hostler.domain.holding import Holding
from hostler.domain.step import Found, Operation
from hostler.domain.window import HostReport
from hostler.services.needs import Store
from hostler.services.schedule_needs import NodeMemory, ScheduleStore, Tx
from tests.fakes.ids import CountingIds
from tests.fakes.node import FakeNode

_T = TypeVar("_T")


class BothStores(Store, ScheduleStore, Protocol):
    """A store with both of its sides."""


class Crash(BaseException):
    """The daemon is killed here."""


@dataclass(slots=True)
class Fuse:
    """Where a daemon is killed: at the call that finds `left` at 0, below 0 never; the dead do no more."""

    left: int = -1
    dead: bool = False

    def burn(self) -> None:
        """One more place where it may be killed."""
        if self.left == 0:
            self.dead = True
        if self.dead:
            raise Crash
        self.left -= 1


@dataclass(slots=True)
class Trouble:
    """What is wrong between the daemon and its nodes.

    `hang_in`: so many calls later one hangs until `go_on`; `lose_in`: so many effects later an answer is
    lost; so many `refusals` has the store left.
    """

    away: set[str] = field(default_factory=set)
    hang_in: int = -1
    lose_in: int = -1
    refusals: int = 0
    gate: asyncio.Event | None = None

    async def meet(self, host: str) -> None:
        """What a call meets on its way."""
        if host in self.away:
            raise NodeUnreachable(host=host, why="no route to it")
        self.hang_in -= 1
        if self.hang_in == -1 and self.gate is None:
            self.gate = asyncio.Event()
            await self.gate.wait()

    def store(self) -> None:
        """What a call of the store meets."""
        if self.refusals > 0:
            self.refusals -= 1
            raise ScheduleUnavailable(why="the disk is away", file="schedule.db")

    def loses(self, host: str) -> None:
        """What an answer meets on its way."""
        self.lose_in -= 1
        if self.lose_in == -1:
            raise NodeUnreachable(host=host, why="the answer was lost")

    def go_on(self) -> None:
        """What hangs goes on."""
        self.hang_in = -1
        if self.gate is not None:
            self.gate.set()
            self.gate = None


class MortalStore:
    """The schedule's store as a daemon sees it that may be killed before and after every call."""

    def __init__(self, inner: ScheduleStore, fuse: Fuse, trouble: Trouble) -> None:
        self._inner, self._fuse, self._trouble = inner, fuse, trouble

    async def write(self, work: Callable[[Tx], _T]) -> _T:
        return await self._mortal(lambda: self._inner.write(work))

    async def read(self, work: Callable[[Tx], _T]) -> _T:
        return await self._mortal(lambda: self._inner.read(work))

    def listen(self, hear: Callable[[Sequence[Recorded]], None]) -> None:
        def alive(rows: Sequence[Recorded]) -> None:
            if not self._fuse.dead:
                hear(rows)

        self._inner.listen(alive)

    async def _mortal(self, call: Callable[[], Awaitable[_T]]) -> _T:
        self._fuse.burn()
        self._trouble.store()
        result = await call()
        self._fuse.burn()
        return result


class MortalNode:
    """A node as a daemon sees it that may be killed around every call, over a network that fails."""

    def __init__(self, inner: FakeNode, fuse: Fuse, trouble: Trouble) -> None:
        self._inner, self._fuse, self._trouble = inner, fuse, trouble

    async def preflight(self, operation: Operation) -> None:
        await self._call(lambda: self._inner.preflight(operation))

    async def observe(self, operation: Operation) -> Found:
        return await self._call(lambda: self._inner.observe(operation))

    async def perform(self, operation: Operation) -> None:
        await self._call(lambda: self._inner.perform(operation))
        self._trouble.loses(self._inner.host)

    async def verify(self, operation: Operation) -> str | None:
        return await self._call(lambda: self._inner.verify(operation))

    async def end_processes(self, lease: str) -> Sequence[str]:
        return await self._call(lambda: self._inner.end_processes(lease))

    async def memory(self) -> NodeMemory:
        self._fuse.burn()
        return await self._inner.memory()

    async def report(self, window: str) -> HostReport:
        self._fuse.burn()
        return await self._inner.report(window)

    async def raise_fence(self, fence: Fence | None) -> None:
        await self._call(lambda: self._inner.raise_fence(fence))

    async def adopt(self, held: Mapping[str, Holding]) -> None:
        await self._call(lambda: self._inner.adopt(held))

    async def _call(self, call: Callable[[], Awaitable[_T]]) -> _T:
        self._fuse.burn()
        await self._trouble.meet(self._inner.host)
        self._fuse.burn()
        result = await call()
        self._fuse.burn()
        return result


# ---------------------------------------------------------------- stores


def open_store(kind: str, folder: Path, ids: CountingIds) -> BothStores:
    """The store of that kind; SQLite works in the thread of the loop, so that a run can be repeated."""
    if kind == "memory":
        return MemoryStore(ids)
    store = SqliteStore(folder / "schedule.db", ids, busy_s=30)
    work: Callable[..., None] = getattr(store, "_write")  # noqa: B009 - not its thread, but its very work
    look: Callable[..., None] = getattr(store, "_read")  # noqa: B009 - as above

    def promise() -> asyncio.Future[object]:
        loop = asyncio.get_running_loop()
        setattr(store, "_loop", loop)  # noqa: B010 - as above
        return loop.create_future()

    async def submit(call: object) -> object:
        if call.writes:  # type: ignore[attr-defined]  # the store's own call
            work([call])
        else:
            look(call)
        await asyncio.sleep(0)  # What was committed is heard before its writer goes on.
        return call.done.result()  # type: ignore[attr-defined]  # as above

    setattr(store, "_promise", promise)  # noqa: B010 - as above
    setattr(store, "_submit", submit)  # noqa: B010 - as above
    return store


def again(store: BothStores, folder: Path, ids: CountingIds) -> BothStores:
    """The store as the next daemon opens it."""
    if isinstance(store, MemoryStore):
        return store
    close(store)
    return open_store("sqlite", folder, ids)


def close(store: BothStores) -> None:
    """Close the file of a SQLite store."""
    if isinstance(store, SqliteStore):
        file = getattr(store, "_file")  # noqa: B009 - no thread was begun that could close it
        file.close()


def nodes(inner: Mapping[str, FakeNode], fuse: Fuse, trouble: Trouble) -> dict[str, MortalNode]:
    """Both hosts as one daemon reaches them."""
    for node in inner.values():
        node.between = fuse.burn
    return {host: MortalNode(node, fuse, trouble) for host, node in inner.items()}


def schedule_store(store: BothStores, fuse: Fuse, trouble: Trouble) -> ScheduleStore:
    """The store as one daemon reaches it."""
    return cast("ScheduleStore", MortalStore(store, fuse, trouble))
