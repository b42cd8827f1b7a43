"""The node API of this host: what other nodes may have done here, one fenced operation at a time (NODE-1).

Decides how a call becomes the node's own methods and back, and that whoever calls is heard of (NODE-4). What
is done, and what is refused, is `services.node`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hostler.domain.errors import NotFound
from hostler.domain.step import Operation
from hostler.domain.values import NAME, rfc3339, shorten
from hostler.services.definitions import Definitions
from hostler.services.left_behind import left_behind
from hostler.services.needs import Clock
from hostler.services.node import LocalNode
from hostler.services.own_restore import OwnRestore
from hostler.services.schedule_needs import Remembered
from hostler.wire import nodes as wire
from hostler.wire.node_forms import NAMED, fence_from, held_from, operation_from, sent
from hostler.wire.refusals import error_of
from hostler.wire.steps import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDoor:
    """Every method refuses `node_outdated` for a caller whose API number is more than one away (NODE-7)."""

    node: LocalNode
    own: OwnRestore
    definitions: Definitions
    clock: Clock
    version: str
    api: int = wire.NODE_API

    async def now(self) -> wire.NodeAnswer:
        """This node as it is; who asks is a head that is there."""
        silent_s = self.own.silent_s
        self.own.hear()
        return self.answer(silent_s)

    def answer(self, heard_s: float | None = None) -> wire.NodeAnswer:
        """This node as it is."""
        view, moment = self.node.hold.holds.view(), self.clock.moment()
        return wire.NodeAnswer(
            api=self.api,
            host=self.node.host,
            version=self.version,
            at=rfc3339(moment.at),
            boot=moment.boot,
            hold=view.owner if view.held else None,
            hold_until=None if view.until is None or not view.held else rfc3339(view.until),
            leases=self.own.views(),
            heard_s=heard_s,
            left=left_behind(self.node.engines.engines.gate, self.node.hold.holds),
        )

    async def operate(self, call: wire.OperationCall) -> wire.OperationAnswer:
        """Preflight, observe, perform or verify one operation. Refuses what the node refuses."""
        self._spoken(call.api)
        if not call.operation.step.get("of"):
            # A neighbour that starts a distributed engine is no head: of that one nothing was heard (NODE-4).
            self.own.hear()
        operation = await self._operation(call.operation)
        match call.do:
            case "preflight":
                await self.node.preflight(operation)
            case "observe":
                found = await self.node.observe(operation)
                return wire.OperationAnswer(api=self.api, found=plain(found))
            case "verify":
                return wire.OperationAnswer(api=self.api, seen=await self.node.verify(operation))
            case "perform":
                return wire.OperationAnswer(
                    api=self.api, done=await self._within(call.wait_s, self._perform, operation)
                )
        return wire.OperationAnswer(api=self.api)

    async def _perform(self, operation: Operation) -> None:
        await self.own.joined(operation)
        await self.node.perform(operation)

    async def _within(
        self, seconds: float, work: Callable[[Operation], Awaitable[None]], operation: Operation
    ) -> bool:
        """Whether it ended within so long; what goes on is joined by the same call, sent again."""
        task = asyncio.ensure_future(work(operation))
        timer = asyncio.ensure_future(self.clock.sleep(seconds))
        try:
            await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            return task.done()
        finally:
            timer.cancel()
            # The operation itself goes on: only this wait for it ends.
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _operation(self, body: wire.OperationBody) -> Operation:
        """The operation; a command or webhook is looked up where only this host can."""
        now = self.clock.now()

        def made() -> Operation:
            return operation_from(body, now, lambda named: self.definitions.find(named, body.lease))

        return await asyncio.to_thread(made) if body.step.get("kind") in NAMED else made()

    async def receipt(self, id_: str) -> wire.ReceiptAnswer:
        """What became of an operation, by its receipt. Refuses `not_found`."""
        self.own.hear()
        past = await self.node.receipts.past(id_)
        if past is None:
            raise NotFound(what="operation", name=id_, nearest="Nothing is known of it here.")
        state = "begun" if not past.ended else "refused" if past.refusal is not None else "done"
        error = None if past.refusal is None else error_of(past.refusal)
        return wire.ReceiptAnswer(api=self.api, id=id_, state=state, error=error)

    async def held(self, call: wire.HeldCall) -> wire.Heard:
        """What leases hold here from now on. Refuses `store_full`."""
        self._heard(call.api)
        await self.node.adopt(held_from(call.held, self.clock.moment()))
        return wire.Heard(api=self.api)

    async def fence(self, call: wire.FenceCall) -> wire.Heard:
        """The deployment fence as it stands now. Refuses `store_full`."""
        self._heard(call.api)
        await self.node.raise_fence(fence_from(call.fence, self.clock.moment()))
        return wire.Heard(api=self.api)

    async def register(self, call: wire.ProcessCall) -> wire.Heard:
        """A process of this host works under a lease (JOB-5). Refuses `invalid_request`."""
        self._heard(call.api)
        await self.node.register(call.lease, call.pid, call.start_ticks)
        return wire.Heard(api=self.api)

    async def end_processes(self, call: wire.EndCall) -> wire.Heard:
        """End what works under a lease here (F03)."""
        self._heard(call.api)
        return wire.Heard(api=self.api, left=tuple(await self.node.end_processes(call.lease)))

    async def memory(self) -> wire.MemoryAnswer:
        """What this node knows of the schedule by its receipts (LEASE-8), and what it put back itself."""
        self.own.hear()
        found = await self.node.memory()
        highest = found.highest
        return wire.MemoryAnswer(
            api=self.api,
            epoch=None if highest is None else highest.epoch,
            generation=None if highest is None else highest.generation,
            leases=tuple(map(_remembered, found.leases)),
            restored=tuple(
                wire.RestoredView(
                    lease=it.lease,
                    epoch=it.fence.epoch,
                    generation=it.fence.generation,
                    ago_s=it.ago_s,
                    drift=it.drift,
                )
                for it in await self.own.restores()
            ),
            rebooted=found.rebooted,
            reports=found.reports,
            restoring=found.restoring,
            strikes=found.strikes,
        )

    async def report(self, window: str) -> wire.ReportAnswer:
        """What this host wrote down of a window's restore (WIN-4). Refuses `not_found` for what is no id."""
        self.own.hear()
        if not NAME.fullmatch(window):
            raise NotFound(what="window", name=shorten(window))
        found = await self.node.report(window)
        return wire.ReportAnswer(api=self.api, engines=found.engines, wrong=found.wrong)

    def _heard(self, theirs: int) -> None:
        self._spoken(theirs)
        self.own.hear()

    def _spoken(self, theirs: int) -> None:
        wire.spoken(self.node.host, self.api, "the head", theirs)


def _remembered(it: Remembered) -> wire.RememberedView:
    return wire.RememberedView(
        lease=it.lease,
        resource=it.resource,
        holder=it.holder,
        key=it.key,
        epoch=it.fence.epoch,
        generation=it.fence.generation,
        covers=it.covers,
        entries=tuple(
            wire.EntryView(n=e.n, step=sent(e.step), found=plain(e.found), state=e.state.value)
            for e in it.entries
        ),
    )
