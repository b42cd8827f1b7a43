"""What a node needs beside its services, in memory: records, hold writer, commands, calls, processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from hostler.domain.engine import Launch
from hostler.domain.fleet import Secret
from hostler.domain.hold import parse_record
from hostler.domain.hold_plan import (
    LeaseHold,
    Removal,
    Taken,
    Write,
    encode,
    plan_lease_extension,
    plan_lease_hold,
    plan_lease_removal,
)
from hostler.domain.hold_record import HoldRecord
from hostler.services.engines import Engines
from hostler.services.guard_files import GuardFiles
from hostler.services.lease_processes import LeaseProcesses
from hostler.services.node import LocalNode
from hostler.services.node_commands import NodeCommands
from hostler.services.node_deadman import NodeDeadman
from hostler.services.node_engines import NodeEngines
from hostler.services.node_hold import NodeHold
from hostler.services.node_needs import Member, Ran
from hostler.services.node_routes import NodeRoutes
from hostler.services.node_windows import NodeWindows
from hostler.services.proving import Proving
from hostler.services.receipts import Receipts
from hostler.services.routes import Routes, load
from hostler.services.window_strikes import WindowStrikes
from tests.fakes.deadmen import FakeDeadmen
from tests.fakes.host import FakeHold
from tests.fakes.world import CROW, World


@dataclass(slots=True)
class MemoryRecords:
    """The need `Records`: texts by name, the latest last. While `full` nothing can be saved."""

    texts: dict[str, str] = field(default_factory=dict)
    full: bool = False
    pruned: list[tuple[datetime, int, frozenset[str]]] = field(default_factory=list)

    def load(self, name: str) -> Mapping[str, object] | None:
        text = self.texts.get(name)
        if text is None:
            return None
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError(f"{name} is no object")  # noqa: TRY004 - what the need promises
        return found

    def save(self, name: str, value: Mapping[str, object]) -> None:
        if self.full:
            raise OSError(28, "No space left on device", name)
        self.texts.pop(name, None)
        self.texts[name] = json.dumps(value)

    def remove(self, name: str) -> None:
        self.texts.pop(name, None)

    def names(self) -> Sequence[str]:
        return list(reversed(self.texts))

    def prune(self, *, before: datetime, most: int, spare: frozenset[str]) -> int:
        self.pruned.append((before, most, spare))
        return 0


@dataclass(slots=True)
class FakeHoldKeeper:
    """The need `HoldKeeper`, over the hold that the gate reads.

    `written` counts, `goes` is why it may go, `forced` are leases whose hold a person took by force, and how.
    """

    hold: FakeHold
    written: int = 0
    goes: str | None = None
    forced: dict[str, Taken] = field(default_factory=dict)

    def short_lived(self) -> str | None:
        return self.goes

    def write_for_lease(self, wanted: LeaseHold) -> None:
        now = self.hold.clock.now()
        self._put(plan_lease_hold(self.hold.read(), wanted, now=now, boot_id=None))

    def extend_for_lease(self, lease: str, expires_at: datetime) -> bool:
        plan = plan_lease_extension(self.hold.read(), lease, expires_at)
        if plan is not None:
            self._put(plan)
        return plan is not None

    def write_again_for_lease(self, wanted: LeaseHold, away: Callable[[Taken], bool]) -> bool:
        taken = self.forced.get(wanted.lease)
        if taken is not None and away(taken):
            return False
        self.write_for_lease(wanted)
        return True

    def remove_for_lease(self, lease: str) -> bool:
        if plan_lease_removal(self.hold.read(), lease) is Removal.NOTHING:
            return False
        self.hold.remove()
        return True

    def _put(self, plan: Write) -> None:
        record = parse_record(encode(plan.record))
        assert isinstance(record, HoldRecord)
        self.hold.record, self.hold.defect = record, None
        self.written += 1


@dataclass(slots=True)
class FakeCommands:
    """The need `Commands`. `made` are the checks that are so; a program `make X` makes X so, `unmake X` not.

    `fail` end with status 3, `hang` until their time is up.
    """

    made: set[str] = field(default_factory=set)
    ran: list[tuple[str, ...]] = field(default_factory=list)
    told: list[dict[str, str]] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)
    fail: set[str] = field(default_factory=set)
    hang: set[str] = field(default_factory=set)

    def exists(self, program: str) -> bool:
        return program not in self.missing

    async def run(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None
    ) -> Ran:
        self.ran.append(tuple(argv))
        self.told.append(dict(env or {}))
        program = argv[0]
        if program in self.missing:
            raise FileNotFoundError(2, "No such file or directory")
        if program in self.fail:
            return Ran(status=3, last="it went wrong\n")
        if program in self.hang:
            return Ran(status=None)
        if program == "make":
            self.made.add(argv[1])
        elif program == "unmake":
            self.made.discard(argv[1])
        elif program == "is":
            return Ran(status=0 if argv[1] in self.made else 1)
        return Ran(status=0)


@dataclass(slots=True)
class FakeWebhooks:
    """The need `Webhooks`: `calls` are all, `answer` is what is said of each once `gate` is open."""

    calls: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)
    answer: str | None = None
    gate: asyncio.Event | None = None

    async def call(self, url: str, body: Mapping[str, object], *, timeout_s: float) -> str | None:
        self.calls.append((url, body))
        if self.gate is not None:
            await self.gate.wait()
        return self.answer


@dataclass(slots=True)
class FakeCompletions:
    """The need `Completions`: `asked` are all, `answers` are given one by one, then it works."""

    asked: list[str] = field(default_factory=list)
    answers: list[str | None] = field(default_factory=list)

    async def chat(self, launch: Launch, key: Secret | None) -> str | None:
        return self._answer(f"chat {launch.engine}")

    async def embed(self, launch: Launch, key: Secret | None) -> str | None:
        return self._answer(f"embed {launch.engine}")

    def _answer(self, what: str) -> str | None:
        self.asked.append(what)
        return self.answers.pop(0) if self.answers else None


@dataclass(slots=True)
class FakeProcesses:
    """The need `ProcessTable`: `groups` are the living members of each leader; `deaf` ones survive SIGTERM.

    `immortal` ones survive everything; `heard` is what was sent.
    """

    groups: dict[tuple[int, int], list[Member]] = field(default_factory=dict)
    deaf: set[int] = field(default_factory=set)
    immortal: set[int] = field(default_factory=set)
    left: list[Member] = field(default_factory=list)
    heard: list[tuple[int, bool]] = field(default_factory=list)

    def leads(self, pid: int, start_ticks: int) -> bool:
        return (pid, start_ticks) in self.groups

    def family(self, pid: int, start_ticks: int) -> Sequence[Member]:
        return tuple(self.groups.get((pid, start_ticks), ()))

    def orphans(self, group: int, start_ticks: int) -> Sequence[Member]:
        return self.left

    def alive(self, member: Member) -> bool:
        return any(member in members for members in self.groups.values())

    def end(self, member: Member, *, hard: bool) -> None:
        self.heard.append((member.pid, hard))
        if member.pid not in self.immortal and (hard or member.pid not in self.deaf):
            for members in self.groups.values():
                if member in members:
                    members.remove(member)


@dataclass(slots=True, kw_only=True)
class Parts:
    """A node on the services of a world, and all that a test may turn beside it."""

    world: World
    node: LocalNode
    routes: Routes
    records: MemoryRecords
    groups: MemoryRecords
    keeper: FakeHoldKeeper
    commands: FakeCommands
    webhooks: FakeWebhooks
    completions: FakeCompletions
    processes: FakeProcesses
    deadmen: FakeDeadmen

    def again(self) -> Parts:
        """A second daemon on the same host: what was kept is what is on disk."""
        return parts(self.world.again(), self)


def parts(world: World, kept: Parts | None = None) -> Parts:
    """A node of this world, joined as the bootstrap does. `kept`: what another daemon left."""
    routes = Routes(
        files=world.files,
        clock=world.clock,
        events=world.events,
        current=load(world.fleet, world.files),
        guard=world.gate.guard,
    )
    records = kept.records if kept else MemoryRecords()
    groups = kept.groups if kept else MemoryRecords()
    commands = kept.commands if kept else FakeCommands()
    webhooks = kept.webhooks if kept else FakeWebhooks()
    processes = kept.processes if kept else FakeProcesses()
    keeper, completions = FakeHoldKeeper(world.hold), FakeCompletions()
    deadmen = kept.deadmen if kept else FakeDeadmen()
    files = GuardFiles(guard=world.gate.guard, files=world.files, clock=world.clock)
    engines: Engines = world.engines
    proving = Proving(drivers=engines.drivers, work=completions, clock=world.clock)
    node = LocalNode(
        host=CROW,
        engines=NodeEngines(engines=engines, proving=proving),
        routes=NodeRoutes(routes=routes, lanes=world.lanes),
        hold=NodeHold(holds=world.holds, writer=keeper, clock=world.clock, events=world.events),
        commands=NodeCommands(commands=commands, webhooks=webhooks),
        deadman=NodeDeadman(
            host=CROW, deadmen=deadmen, engines=engines, clock=world.clock, events=world.events
        ),
        windows=NodeWindows(
            engines=engines,
            proving=proving,
            commands=commands,
            memory=world.machine,
            ports=world.machine,
            files=world.files,
            clock=world.clock,
            events=world.events,
        ),
        strikes=WindowStrikes(host=CROW, files=world.files, clock=world.clock),
        receipts=Receipts(records=records, clock=world.clock),
        processes=LeaseProcesses(records=groups, table=processes, clock=world.clock),
        files=files,
        clock=world.clock,
    )
    world.parts.nodes[CROW] = node
    node.recall()
    return Parts(
        world=world,
        node=node,
        routes=routes,
        records=records,
        groups=groups,
        keeper=keeper,
        commands=commands,
        webhooks=webhooks,
        completions=completions,
        processes=processes,
        deadmen=deadmen,
    )


def with_routes(world: World, **routes: object) -> World:
    """The same world, whose fleet has these routes."""
    made = replace(world.fleet, routes=routes)  # type: ignore[arg-type]  # names and routes, as a test gives them
    return replace(world, fleet=made)
