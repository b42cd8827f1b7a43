"""The node of another host: the need `Node` over its node API (NODE-1 to NODE-3).

Decides how a call is sent and what an answer is worth: the key of that host and no other, no redirect, plain
HTTP only where the config says so, a pinned certificate or one that the machine trusts. Words of a node are
bounded and without our keys. An answer that was lost is asked for again, under the same operation id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from urllib.parse import quote

from hostler.adapters.nodes.lines import Far, Lines, Lost
from hostler.client.address import Address
from hostler.client.call import Call, answer, call, fitted
from hostler.domain.errors import (
    ConfigDiffers,
    DaemonUnreachable,
    Kind,
    NodeUnreachable,
    NotFound,
    Refusal,
)
from hostler.domain.fence import Fence
from hostler.domain.fleet import Host
from hostler.domain.holding import Holding
from hostler.domain.journal import Entry, EntryState
from hostler.domain.plan import command, webhook
from hostler.domain.step import (
    CallWebhook,
    FenceNumber,
    Found,
    Operation,
    RunCommand,
    Step,
    UndoCommand,
    UndoWebhook,
)
from hostler.domain.values import HostName, format_duration, shorten
from hostler.domain.window import HostReport
from hostler.domain.window_plan import script_of
from hostler.services.needs import Clock
from hostler.services.ports_live import LivePorts
from hostler.services.present import Present
from hostler.services.schedule_needs import NodeMemory, PutBack, Remembered
from hostler.wire import nodes as wire
from hostler.wire.node_forms import Named, fence_to, held_to, operation_to, received
from hostler.wire.steps import found_from_json, step_from_json
from hostler.wire.values import to_json

T = TypeVar("T")

BASE: Final = "/v1/hostler/node"
ASK_S: Final = 5.0
"""What a node answers from memory."""
LOOK_S: Final = 60.0
"""A look at an engine, with its proof; a command's own time comes on top."""
WAIT_S: Final = 10.0
"""So long a node keeps the call of an operation that goes on; then it is asked again."""
LOST_S: Final = 30.0
"""A node that does not answer for so long in the middle of an operation is unreachable (F14)."""
AGAIN_S: Final = 1.0
START_S: Final = 24 * 3600.0
"""How long a start there is waited for: its own budget ends it."""
MOST_TEXT: Final = 500
TIMED: Final = (RunCommand, UndoCommand, CallWebhook, UndoWebhook)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteNode:
    """The node of `host`, as its config says. `file` is this host's config, for texts.

    `lines` has the connections, once there are some; `spoken` the API number that both speak. `head` False:
    whoever asks owns no schedule, and only operates.
    """

    host: HostName
    config: Present
    file: str
    clock: Clock
    api: int = wire.NODE_API
    lines: Lines = field(default_factory=Lines)
    head: bool = True
    spoken: list[int] = field(default_factory=list)

    # ------------------------------------------------------------ the Node

    async def preflight(self, operation: Operation) -> None:
        """See `Node.preflight`. Refuses `node_outdated`, `config_differs` too."""
        await self._speaks()
        try:
            await self._operate("preflight", operation)
        except ConfigDiffers as refusal:
            other = f"{self.file} on {self.config.fleet.here}"
            raise ConfigDiffers(
                definition=refusal.definition, host=refusal.host, file=refusal.file, other=other
            ) from refusal

    async def observe(self, operation: Operation) -> Found:
        """See `Node.observe`."""
        told = await self._operate("observe", operation)
        try:
            return found_from_json(told.found)
        except ValueError as error:
            raise self._unreachable(f"its answer is not of this version: {error}") from error

    async def perform(self, operation: Operation) -> None:
        """See `Node.perform`. While it is under way it is asked again; a lost answer too (NODE-3)."""
        heard = self.clock.elapsed()
        ends = heard + operation.deadline_s + LOST_S
        while True:
            try:
                told = await self._operate("perform", operation, wait_s=WAIT_S)
            except NodeUnreachable:
                if self.clock.elapsed() - heard >= LOST_S:
                    raise
                await self.clock.sleep(AGAIN_S)
                continue
            if told.done:
                return
            heard = self.clock.elapsed()
            if heard >= ends:
                raise self._unreachable(
                    f"the operation is under way for {format_duration(operation.deadline_s)}"
                )

    async def verify(self, operation: Operation) -> str | None:
        """See `Node.verify`."""
        seen = (await self._operate("verify", operation)).seen
        return None if seen is None else shorten(seen, MOST_TEXT)

    async def end_processes(self, lease: str) -> Sequence[str]:
        """See `Node.end_processes`."""
        body = wire.EndCall(api=await self._speaks(), lease=lease)
        told = await self._post("/processes/end", body, wire.Heard, LOOK_S)
        return [f"{self.host}: {shorten(it, MOST_TEXT)}" for it in told.left]

    async def memory(self) -> NodeMemory:
        """See `Node.memory`."""
        await self._speaks()
        told = await self._get("/memory", wire.MemoryAnswer)
        number = (told.epoch, told.generation)
        try:
            leases = tuple(map(self._remembered, told.leases))
        except ValueError as error:
            raise self._unreachable(f"its answer is not of this version: {error}") from error
        return NodeMemory(
            highest=_fence(*number) if told.epoch is not None else None,
            leases=leases,
            restored=tuple(
                PutBack(lease=it.lease, fence=_fence(it.epoch, it.generation), ago_s=it.ago_s, drift=it.drift)
                for it in told.restored
            ),
            rebooted=told.rebooted,
            reports=told.reports,
            restoring=told.restoring,
            strikes=tuple(replace(it, note=shorten(it.note, MOST_TEXT)) for it in told.strikes),
        )

    async def report(self, window: str) -> HostReport:
        """See `Node.report`."""
        await self._speaks()
        told = await self._get(f"/windows/{quote(window, safe='')}/report", wire.ReportAnswer)
        return HostReport(
            engines=tuple(replace(it, why=shorten(it.why, MOST_TEXT)) for it in told.engines),
            wrong=tuple(shorten(it, MOST_TEXT) for it in told.wrong),
        )

    async def raise_fence(self, fence: Fence | None) -> None:
        """See `Node.raise_fence`."""
        row = fence_to(fence, self.clock.moment())
        await self._post("/fence", wire.FenceCall(api=await self._speaks(), fence=row), wire.Heard)

    async def adopt(self, held: Mapping[str, Holding]) -> None:
        """See `Node.adopt`."""
        rows = held_to(held, self.clock.moment())
        await self._post("/held", wire.HeldCall(api=await self._speaks(), held=rows), wire.Heard)

    # ------------------------------------------------------------ for people and bots

    async def ports(self) -> LivePorts:
        """See `FarHost.ports`."""
        return await self._get("/ports", LivePorts)

    async def logs(self, engine: str, lines: int) -> tuple[str, ...]:
        """See `FarHost.logs`."""
        path = f"/engines/{quote(engine, safe='')}/logs?lines={lines}"
        return (await self._get(path, wire.LogAnswer)).lines

    async def acquire(self, engine: str, by: str) -> bool:
        """See `FarHost.acquire`. A start ends by itself long before this call would."""
        body = wire.WarmCall(api=await self._speaks(), engine=engine, by=shorten(by, wire.MAX_TEXT))
        return (await self._post("/acquire", body, wire.WarmAnswer, START_S)).started

    # ------------------------------------------------------------ beside it

    async def now(self) -> wire.NodeAnswer:
        """How it is. Refuses `node_unreachable`, `node_outdated`."""
        try:
            told = await self._get("", wire.NodeAnswer)
        except NotFound:
            # A Hostler from before there was a node API.
            wire.spoken(self.config.fleet.here, self.api + 1, self.host, 0)
            raise
        if told.host != self.host:
            raise self._unreachable(f"the node of {shorten(told.host)} answers at its address")
        number = wire.spoken(self.config.fleet.here, self.api, self.host, told.api)
        self.spoken[:] = [number]
        return told

    async def register(self, lease: str, pid: int, start_ticks: int) -> None:
        """A process group of that host works under the lease (JOB-5). Refuses `invalid_request`."""
        number = await self._speaks()
        body = wire.ProcessCall(api=number, lease=lease, pid=pid, start_ticks=start_ticks)
        await self._post("/processes", body, wire.Heard)

    async def receipt(self, id_: str) -> wire.ReceiptAnswer:
        """What became of an operation there. Refuses `not_found`."""
        return await self._get(f"/ops/{quote(id_, safe='')}", wire.ReceiptAnswer)

    async def close(self) -> None:
        """End the connections."""
        await self.lines.close()

    # ------------------------------------------------------------ calls

    async def _speaks(self) -> int:
        """The number that both speak; asked for again once it did not answer (NODE-7).

        A node that asks another how it is would be taken for its head: it says its own number, and is refused
        where that is too far away.
        """
        if not self.head:
            return self.api
        if not self.spoken:
            await self.now()
        return self.spoken[0]

    async def _operate(
        self, do: wire.Do, operation: Operation, *, wait_s: float = 0.0
    ) -> wire.OperationAnswer:
        number = await self._speaks()
        body = operation_to(operation, self.clock.now())
        asked = wire.OperationCall(api=number, do=do, operation=body, wait_s=wait_s)
        step = operation.step
        own_s = step.timeout_s if isinstance(step, TIMED) else 0.0
        patience = wait_s + ASK_S if do == "perform" else LOOK_S + own_s
        return await self._post("/ops", asked, wire.OperationAnswer, patience)

    async def _get(self, path: str, model: type[T]) -> T:
        return await self._send("GET", path, None, model, ASK_S)

    async def _post(self, path: str, body: object, model: type[T], patience_s: float = ASK_S) -> T:
        return await self._send("POST", path, body, model, patience_s)

    async def _send(self, method: str, path: str, body: object, model: type[T], patience_s: float) -> T:
        """One call. Every "no" that is the node's own is raised as its class (NODE-3)."""
        host = self.config.fleet.hosts.get(self.host)
        if host is None or host.url is None:
            raise self._unreachable("the config has no such host any more, or no url of it")
        if host.key is None:
            raise self._unreachable(f"the config has no hosts.{self.host}.key, or it cannot be read here")
        request = call(
            Address(url=host.url.rstrip("/"), key=host.key),
            method,
            BASE + path,
            body=None if body is None else to_json(body),
            timeout_s=patience_s,
        )
        try:
            status, content = await self._sent(host, request, patience_s)
            return fitted(answer(request, status, content), model, host.url)
        except DaemonUnreachable as refusal:
            self.spoken.clear()
            raise self._unreachable(refusal.why) from refusal
        except Refusal as refusal:
            if refusal.kind in (Kind.UNAUTHORIZED, Kind.FORBIDDEN):
                why = f"it does not accept the key in hosts.{self.host}.key"
                raise self._unreachable(why) from refusal
            raise

    async def _sent(self, host: Host, request: Call, patience_s: float) -> tuple[int, bytes]:
        try:
            return await self.lines.sent(
                Far(url=host.url or "", tls_pin=host.tls_pin, plain=host.allow_plain_http, named="hosts.*"),
                request,
                patience_s,
            )
        except Lost as error:
            raise self._lost(error.why) from error

    def _lost(self, why: str) -> NodeUnreachable:
        """It did not answer: who comes back may be another version."""
        self.spoken.clear()
        return self._unreachable(why)

    def _unreachable(self, why: str) -> NodeUnreachable:
        return NodeUnreachable(host=self.host, why=shorten(why, MOST_TEXT))

    # ------------------------------------------------------------ what it remembers

    def _remembered(self, it: wire.RememberedView) -> Remembered:
        """Raises ValueError for a step or a found of another version."""
        entries = tuple(
            Entry(
                lease=it.lease,
                n=row.n,
                step=step_from_json(to_json(received(row.step, self._found))),
                found=found_from_json(row.found),
                state=EntryState(row.state),
            )
            for row in it.entries
        )
        return Remembered(
            lease=it.lease,
            resource=it.resource,
            holder=it.holder,
            key=it.key,
            fence=_fence(it.epoch, it.generation),
            covers=it.covers,
            entries=entries,
        )

    def _found(self, named: Named) -> Step:
        """A command or webhook of that host as this config has it, else as its name: it is done there."""
        script = script_of(self.config.fleet, named.definition, self.host, named.cap_s)
        if script is not None and script.digest == named.digest:
            return script
        for resource in self.config.fleet.resources.values():
            for action in resource.actions:
                if action.definition == named.definition and action.digest == named.digest:
                    return command(action) if action.verb == "exec" else webhook(action)
        name = named.definition
        if named.kind == "exec":
            return RunCommand(
                host=named.host,
                argv=(name,),
                undo=(name,) if named.undo else None,
                definition=name,
                digest=named.digest,
                cap_s=named.cap_s,
            )
        return CallWebhook(
            host=named.host,
            url=name,
            undo=name if named.undo else None,
            definition=name,
            digest=named.digest,
        )


def _fence(epoch: str | None, generation: int | None) -> FenceNumber:
    return FenceNumber(epoch=epoch or "", generation=generation or 0)
