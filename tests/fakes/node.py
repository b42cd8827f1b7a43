"""A host that does what it is told, in memory: the need `Node`, with faults that a test puts in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from hostler.domain.deadman import DeadmanReport
from hostler.domain.errors import BoxReserved, EngineNotFound, NodeUnreachable, NotFound, StaleGeneration
from hostler.domain.fence import Fence
from hostler.domain.holding import Holding
from hostler.domain.plan import text
from hostler.domain.step import (
    ArmDeadman,
    CallWebhook,
    CheckMemory,
    DisarmDeadman,
    DrainEngine,
    EndDrain,
    FenceNumber,
    Found,
    FoundCommand,
    FoundDeadman,
    FoundEngine,
    FoundHold,
    FoundNothing,
    FoundRoute,
    HoldHost,
    Operation,
    PointRoute,
    RemoveHold,
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
from hostler.domain.window import HostReport, WindowStrike
from hostler.services.schedule_needs import NodeMemory, Remembered


@dataclass
class FakeEngine:
    """An engine: up or down, and who keeps it so. `healthy` False: a start of it fails. `failed`: it says so.

    `revival` is what else brings it up, `kept` what was found before `kept_by` set it to nothing.
    """

    up: bool = True
    suspended_by: set[str] = field(default_factory=set)
    draining_by: set[str] = field(default_factory=set)
    healthy: bool = True
    failed: bool = False
    revival: str | None = None
    kept: str | None = None
    kept_by: set[str] = field(default_factory=set)

    def keep_off(self, lease: str) -> None:
        """Let nothing else bring it up."""
        if self.revival is not None or self.kept is not None:
            self.kept, self.revival = self.revival or self.kept, None
            self.kept_by.add(lease)

    def put_back(self, lease: str) -> None:
        """What was found, once nobody keeps it off, unless there is another by now."""
        if lease in self.kept_by:
            self.kept_by.discard(lease)
            if not self.kept_by:
                self.revival, self.kept = self.revival or self.kept, None


@dataclass
class FakeRoute:
    """A route: its active profile, and the engines and upstreams that each of its profiles leads to."""

    active: str | None
    profiles: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]


@dataclass
class World:
    """Everything of a host that a lease may change; two of them are compared whole (R39)."""

    engines: dict[str, FakeEngine] = field(default_factory=dict)
    routes: dict[str, FakeRoute] = field(default_factory=dict)
    hold: FoundHold = field(default_factory=FoundHold)
    commands: set[str] = field(default_factory=set)
    webhooks: set[str] = field(default_factory=set)
    deadman: FoundDeadman = field(default_factory=FoundDeadman)


def _nothing() -> None:
    """Between the two halves of an effect nothing happens."""


class FakeNode:
    """The need `Node` of one host.

    `log` has what was done, as one phrase each, `calls` every call with its method. `faults` are raised by a
    call of that method and phrase (`perform stop big`), those of `once` by the first; `lost` answers are lost
    after the effect, `unseen` is what `verify` says of a phrase. `between` runs between the two halves of an
    effect that has two, `changed` after each.
    """

    def __init__(self, host: str, world: World) -> None:
        self.host = host
        self.world = world
        self.log: list[str] = []
        self.calls: list[str] = []
        self.faults: dict[str, BaseException] = {}
        self.once: dict[str, BaseException] = {}
        self.lost: set[str] = set()
        self.unseen: dict[str, str] = {}
        self.receipts: dict[str, str] = {}
        self.highest: dict[str, tuple[str, int]] = {}
        self.held: Mapping[str, Holding] = {}
        self.fence: Fence | None = None
        self.remembered: tuple[Remembered, ...] = ()
        self.reports: tuple[DeadmanReport, ...] = ()
        self.restoring: tuple[str, ...] = ()
        self.strikes: tuple[WindowStrike, ...] = ()
        self.restore_report = HostReport()
        self.processes: dict[str, list[str]] = {}
        self.stubborn: list[str] = []
        self.between: Callable[[], None] = _nothing
        self.changed: Callable[[str], None] = lambda _: None

    def picture(self) -> World:
        """A copy of everything, to compare with later."""
        return deepcopy(self.world)

    # ------------------------------------------------------------ the need

    async def preflight(self, operation: Operation) -> None:
        self._call("preflight", operation.step)
        match operation.step:
            case PointRoute(route=route, profile=profile):
                found = self._route(route)
                if found.active is None:
                    raise NotFound(what="active profile of route", name=route)
                if profile not in found.profiles:
                    raise NotFound(what="profile", name=profile)
            case HoldHost(host=host):
                self._free(host, operation.lease)
            case DrainEngine() | SuspendEngine() | StopEngine() | StartEngine():
                self._engine(operation.step.engine)
            case _:
                pass

    async def observe(self, operation: Operation) -> Found:
        self._call("observe", operation.step)
        self._fenced(operation)
        match operation.step:
            case HoldHost() | RemoveHold():
                return self.world.hold
            case PointRoute(route=name):
                route = self._route(name)
                engines, upstreams = route.profiles.get(route.active or "", ((), ()))
                return FoundRoute(profile=route.active, engines=engines, upstreams=upstreams)
            case RunCommand(check=check) | UndoCommand(check=check):
                return FoundCommand(already=None if check is None else check[0] in self.world.commands)
            case CallWebhook() | UndoWebhook() | CheckMemory() | VerifyRestore():
                return FoundNothing()
            case ArmDeadman() | DisarmDeadman():
                return self.world.deadman
            case _:
                return self._seen(operation.step.engine)

    async def perform(self, operation: Operation) -> None:
        work = operation.step
        phrase = self._call("perform", work)
        self._fenced(operation)
        for cover in operation.covers:
            self.highest[cover] = operation.fence.order
        if self.receipts.get(operation.id) != "done":
            self.receipts[operation.id] = "begun"
            self._do(operation, work)
            self.receipts[operation.id] = "done"
            self.log.append(phrase)
            self.changed(phrase)
        if phrase in self.lost:
            raise NodeUnreachable(host=self.host, why="the answer was lost")

    async def verify(self, operation: Operation) -> str | None:
        work = operation.step
        phrase = self._call("verify", work)
        self._fenced(operation)
        return self.unseen.get(phrase) or self._look(work, operation.lease)

    async def end_processes(self, lease: str) -> Sequence[str]:
        self.calls.append(f"end_processes {lease}")
        self.processes.pop(lease, None)
        return tuple(self.stubborn)

    async def memory(self) -> NodeMemory:
        order = max(self.highest.values(), default=None)
        return NodeMemory(
            highest=None if order is None else FenceNumber(epoch=order[0], generation=order[1]),
            leases=self.remembered,
            reports=self.reports,
            restoring=self.restoring,
            strikes=self.strikes,
        )

    async def report(self, window: str) -> HostReport:
        self.calls.append(f"report {window}")
        if "report" in self.faults:
            raise self.faults["report"]
        return self.restore_report

    async def raise_fence(self, fence: Fence | None) -> None:
        self.fence = fence

    async def adopt(self, held: Mapping[str, Holding]) -> None:
        self.held = held

    # ------------------------------------------------------------ how it does it

    def _call(self, method: str, work: Step | Undo) -> str:
        phrase = text(work)
        self.calls.append(f"{method} {phrase}")
        fault = self.once.pop(f"{method} {phrase}", None) or self.faults.get(f"{method} {phrase}")
        if fault is not None:
            raise fault
        return phrase

    def _fenced(self, operation: Operation) -> None:
        for cover in operation.covers:
            highest = self.highest.get(cover)
            if highest is not None and operation.fence.order < highest:
                given = operation.fence.generation
                raise StaleGeneration(resource=cover, given=given, present=highest[1])

    def _engine(self, name: str) -> FakeEngine:
        if name not in self.world.engines:
            raise EngineNotFound(engine=name, nearest="")
        return self.world.engines[name]

    def _route(self, name: str) -> FakeRoute:
        if name not in self.world.routes:
            raise NotFound(what="route", name=name)
        return self.world.routes[name]

    def _free(self, host: str, lease: str) -> None:
        hold = self.world.hold
        if hold.owner is not None and hold.lease != lease:
            raise BoxReserved(host=host, engine="", owner=hold.owner)

    def _seen(self, name: str) -> FoundEngine:
        engine = self._engine(name)
        return FoundEngine(
            up=engine.up,
            suspended_by=tuple(sorted(engine.suspended_by)),
            draining_by=tuple(sorted(engine.draining_by)),
            state="ready" if engine.up else "failed" if engine.failed else "stopped",
            revival=engine.revival,
        )

    def _do(self, operation: Operation, work: Step | Undo) -> None:
        lease = operation.lease
        match work:
            case HoldHost(host=host):
                self._free(host, lease)
                self.world.hold = FoundHold(identity=f"lease:{lease}", owner=f"lease:{lease}", lease=lease)
            case RemoveHold():
                if self.world.hold.lease == lease:
                    self.world.hold = FoundHold()
            case PointRoute(route=route, profile=profile):
                self._route(route).active = profile
            case RunCommand() | CallWebhook() | UndoCommand() | UndoWebhook():
                self._outside(work)
            case ArmDeadman(window=window):
                self.world.deadman = FoundDeadman(window=window, alive=True)
            case DisarmDeadman(window=window):
                if self.world.deadman.window == window:
                    self.world.deadman = FoundDeadman()
            case CheckMemory() | VerifyRestore():
                pass
            case _:
                self._move(work, self._engine(work.engine), lease, as_step=operation.found is not None)

    def _outside(self, work: RunCommand | CallWebhook | UndoCommand | UndoWebhook) -> None:
        """Commands and webhooks: what a do and its undo have in common is the check, or the program."""
        match work:
            case RunCommand(argv=argv, check=check):
                self.world.commands.add((check or argv)[0])
            case UndoCommand(argv=argv, check=check):
                self.world.commands.discard((check or argv)[0])
            case CallWebhook(url=url):
                self.world.webhooks.add(url)
            case UndoWebhook(url=url):
                self.world.webhooks.discard(url.removesuffix("/free"))

    def _move(
        self,
        work: DrainEngine | SuspendEngine | StopEngine | StartEngine | EndDrain | ResumeEngine,
        engine: FakeEngine,
        lease: str,
        *,
        as_step: bool,
    ) -> None:
        match work:
            case DrainEngine():
                engine.draining_by.add(lease)
            case EndDrain():
                engine.draining_by.discard(lease)
            case SuspendEngine():
                engine.suspended_by.add(lease)
                engine.keep_off(lease)
                self.between()
                self._stop(engine)
            case StopEngine():
                if as_step:
                    engine.keep_off(lease)
                self._stop(engine)
            case StartEngine():
                self._start(engine)
            case ResumeEngine(start=start):
                engine.put_back(lease)
                engine.suspended_by.discard(lease)
                self.between()
                if start:
                    self._start(engine)

    def _stop(self, engine: FakeEngine) -> None:
        engine.up = False
        engine.draining_by.clear()

    def _start(self, engine: FakeEngine) -> None:
        engine.up = engine.up or (engine.healthy and not engine.suspended_by)

    def _look(self, work: Step | Undo, lease: str) -> str | None:
        """What is seen instead of the effect of `work`; None when it holds."""
        match work:
            case HoldHost():
                good = self.world.hold.lease == lease
            case RemoveHold():
                good = self.world.hold.lease != lease
            case PointRoute(route=route, profile=profile):
                good = self._route(route).active == profile
            case RunCommand(argv=argv, check=check):
                good = (check or argv)[0] in self.world.commands
            case UndoCommand(argv=argv, check=check):
                good = (check or argv)[0] not in self.world.commands
            case CallWebhook() | UndoWebhook() | CheckMemory() | VerifyRestore():
                good = True
            case ArmDeadman(window=window):
                good = self.world.deadman == FoundDeadman(window=window, alive=True)
            case DisarmDeadman(window=window):
                good = self.world.deadman.window != window
            case _:
                good = _holds(work, self._engine(work.engine), lease)
        return None if good else f"{text(work)} does not hold"


def _holds(
    work: DrainEngine | SuspendEngine | StopEngine | StartEngine | EndDrain | ResumeEngine,
    engine: FakeEngine,
    lease: str,
) -> bool:
    match work:
        case DrainEngine():
            return lease in engine.draining_by or not engine.up
        case EndDrain():
            return lease not in engine.draining_by
        case SuspendEngine():
            return lease in engine.suspended_by and not engine.up and engine.revival is None
        case StopEngine():
            return not engine.up
        case StartEngine():
            return engine.up and engine.healthy
        case ResumeEngine(start=start):
            free = lease not in engine.suspended_by and lease not in engine.kept_by
            return free and ((engine.up and engine.healthy) or not start)
