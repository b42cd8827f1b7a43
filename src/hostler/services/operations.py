"""Operations: the steps and undos of one lease as its nodes are told them (NODE-1, LEASE-8).

Decides identities, deadlines, and what a node's "no" means to the runner: every one becomes `step_failed`,
and an answer that was lost is found out by asking (NODE-3). Decides nothing about states or order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from hostler.domain.errors import AlreadyRestored, NodeUnreachable, Refusal, StepFailed
from hostler.domain.lease import Lease
from hostler.domain.moment import Moment, shown
from hostler.domain.plan import aim, text
from hostler.domain.step import (
    CallWebhook,
    DrainEngine,
    FenceNumber,
    Found,
    Operation,
    PointRoute,
    ResumeEngine,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
    Undo,
    UndoCommand,
    UndoWebhook,
    VerifyRestore,
)
from hostler.domain.values import rfc3339, shorten
from hostler.services.schedule_needs import Node

T = TypeVar("T")

QUICK_S: Final = 30.0
"""How long what only writes a record may take, and the slack of everything that has a time of its own."""
STOP_S: Final = 15 * 60.0
START_S: Final = 60 * 60.0
"""Bounds for a node that hangs; the engine's own `stop_timeout` and `start_timeout` are shorter."""
MOST_TEXT: Final = 500
"""What is kept of a node's words (NODE-3)."""
OBSERVED: Final = "done (observed)"
UNGRANTED: Final = FenceNumber(epoch="", generation=0)
"""The fence of a preflight before the grant: a node compares none there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Calls the nodes for one run of one lease. `run` tells the undos of different runs apart."""

    nodes: Mapping[str, Node]
    bug: Callable[[BaseException], str]
    lease: Lease
    now: Moment
    run: int = 0

    def forward(self, n: int, step: Step, found: Found | None = None) -> Operation:
        """Step `n` of the plan. Its id is the same whenever it is asked about."""
        return self._made(str(n), step, found)

    def backward(self, n: int, undo: Undo) -> Operation:
        """The undo of step `n` in this run: a later run is no repeat, it must be done anew."""
        return self._made(f"u{n}.{self.run}", undo)

    def _made(self, suffix: str, work: Step | Undo, found: Found | None = None) -> Operation:
        lease = self.lease
        fence = lease.fence or UNGRANTED
        return Operation(
            id=f"{lease.id}.{fence.generation}.{suffix}",
            lease=lease.id,
            fence=fence,
            covers=lease.covers,
            step=work,
            deadline_s=deadline_s(work),
            found=found,
            holder=lease.holder,
            reason=lease.reason,
            expires_at=_end(lease, self.now),
            stop_accepting_at=None if lease.soft is None else rfc3339(shown(lease.soft, self.now)),
        )

    async def preflight(self, n: int, step: Step) -> None:
        """Whether the step could be done now. Raises the node's own refusal."""
        await self._node(step).preflight(self.forward(n, step))

    async def observe(self, n: int, step: Step) -> Found:
        """What the step would find. Refuses `step_failed`."""
        return await self._asked(step, lambda: self._node(step).observe(self.forward(n, step)))

    async def do(self, operation: Operation) -> str:
        """Do it and see it hold; a note when an answer was lost, else empty. Refuses `step_failed`."""
        work, note, told = operation.step, "", ""
        try:
            await self._node(work).perform(operation)
        except NodeUnreachable as lost:
            # The answer may have been lost after the effect: the look below finds it out (NODE-3).
            note = f"{OBSERVED}: {_said(lost)}"
        except AlreadyRestored as restored:
            # The node was quicker, while it could not hear us (F16).
            told = _said(restored)
            note = f"{OBSERVED}: {told}"
        except Exception as error:
            raise self._failed(work, error) from error
        seen = await self.look(operation)
        if seen is not None:
            raise StepFailed(step=text(work), why=told or f"wanted {aim(work)}, seen {_cut(seen)}")
        return note

    async def look(self, operation: Operation) -> str | None:
        """None when its effect is seen to hold, else what is seen. Refuses `step_failed`."""
        work = operation.step
        return await self._asked(work, lambda: self._node(work).verify(operation))

    async def end_processes(self, hosts: Sequence[str]) -> Sequence[str]:
        """End what the lease registered on these hosts, on all at once: its time is up on each of them.

        A sentence for each that is still there (F03).
        """
        found = await asyncio.gather(*map(self._ended_on, hosts))
        return [_cut(it) for left in found for it in left]

    async def _ended_on(self, host: str) -> Sequence[str]:
        try:
            return await self.nodes[host].end_processes(self.lease.id)
        except Exception as error:  # noqa: BLE001 - what cannot be asked about counts as still there
            return [f"{host}: {self._why(error)}"]

    def _node(self, work: Step | Undo) -> Node:
        node = self.nodes.get(work.host)
        if node is None:
            raise NodeUnreachable(host=work.host, why="this daemon knows no node of it")
        return node

    async def _asked(self, work: Step | Undo, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except Exception as error:
            raise self._failed(work, error) from error

    def _failed(self, work: Step | Undo, error: Exception) -> StepFailed:
        return StepFailed(step=text(work), why=self._why(error))

    def _why(self, error: Exception) -> str:
        """A refusal in its own words; of a bug only the id that is in the log."""
        if isinstance(error, StepFailed):
            return _cut(error.why)
        if isinstance(error, Refusal):
            return _said(error)
        return f"an internal error, {self.bug(error)} in the log"


async def preflight(nodes: Mapping[str, Node], lease: Lease, now: Moment) -> None:
    """Ask every node whether the steps of `lease.plan` could be done now; changes nothing (LEASE-10, R21).

    A route that leads to an engine which the plan starts cannot lead there yet: its step is not asked about,
    the one that moves it away first is. Raises the first refusal; of a lasting kind for a lasting defect.
    """
    ask = Operations(nodes=nodes, bug=lambda error: type(error).__name__, lease=lease, now=now)
    started = False
    for n, step in enumerate(lease.plan, start=1):
        started = started or isinstance(step, StartEngine)
        if not (started and isinstance(step, PointRoute)):
            await ask.preflight(n, step)


def deadline_s(work: Step | Undo) -> float:
    """How long a node may take, in seconds: a drain's and a command's own time, with slack (R24)."""
    match work:
        case DrainEngine():
            return work.drain_s + QUICK_S
        case SuspendEngine() | StopEngine():
            return STOP_S
        case StartEngine() | VerifyRestore():
            return START_S
        case ResumeEngine(start=start):
            return START_S if start else QUICK_S
        case RunCommand() | UndoCommand() | CallWebhook() | UndoWebhook():
            return work.timeout_s + QUICK_S
        case _:
            return QUICK_S


def _end(lease: Lease, now: Moment) -> str | None:
    """When the lease ends as far as is known: before it is active, its time from now on."""
    if lease.ttl_s is None:
        return None
    return rfc3339(shown(lease.expires or lease.hard or now.plus(lease.ttl_s), now))


def _said(refusal: Refusal) -> str:
    return _cut(str(refusal).removesuffix("."))


def _cut(words: str) -> str:
    return shorten(words, MOST_TEXT)
