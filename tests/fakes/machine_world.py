"""Two hosts, configs that follow one another, and a daemon that can be killed: what the state machine plays on.

Decides what a person, a fault and a crash do to this world, and what it should look like again. What is done
in which order is the machine's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar, cast

from hostler.adapters.store.memory import MemoryStore
from hostler.adapters.store.sqlite import SqliteStore
from hostler.domain.errors import NodeUnreachable
from hostler.domain.events import Recorded
from hostler.domain.fence import Fence
from hostler.domain.fleet import EngineTarget, Fleet, Host, Plain, Route, UpstreamTarget, frozen
from hostler.domain.holding import Holding
from hostler.domain.resource import Action, Resource
from hostler.domain.step import (
    CallWebhook,
    DrainEngine,
    Found,
    FoundHold,
    HoldHost,
    Operation,
    PointRoute,
    RunCommand,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
)
from hostler.domain.values import EngineId, HostName, RouteName
from hostler.services.needs import Store
from hostler.services.schedule_needs import NodeMemory, ScheduleStore, Tx
from tests.fakes.ids import CountingIds
from tests.fakes.node import FakeEngine, FakeNode, FakeRoute, World
from tests.fakes.schedule_world import fleet

CROW: Final = HostName("crow")
RAVEN: Final = HostName("raven")
_T = TypeVar("_T")


class BothStores(Store, ScheduleStore, Protocol):
    """A store with both of its sides."""


class Crash(BaseException):
    """The daemon is killed here."""


@dataclass(slots=True)
class Fuse:
    """Where a daemon is killed: at the call that finds `left` at 0; below 0 never. A dead one does nothing."""

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

    `hang_in`: so many calls later one hangs until `go_on`; `lose_in`: so many effects later an answer is lost.
    """

    away: set[str] = field(default_factory=set)
    hang_in: int = -1
    lose_in: int = -1
    gate: asyncio.Event | None = None

    async def meet(self, host: str) -> None:
        """What a call meets on its way."""
        if host in self.away:
            raise NodeUnreachable(host=host, why="no route to it")
        self.hang_in -= 1
        if self.hang_in == -1 and self.gate is None:
            self.gate = asyncio.Event()
            await self.gate.wait()

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

    def __init__(self, inner: ScheduleStore, fuse: Fuse) -> None:
        self._inner, self._fuse = inner, fuse

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
    """The store of that kind; the SQLite one works in the thread of the loop, so that a run can be repeated."""
    if kind == "memory":
        return MemoryStore(ids)
    store = SqliteStore(folder / "schedule.db", ids, busy_s=30)
    work: Callable[..., None] = getattr(store, "_write")  # noqa: B009 - not its thread, but its very work
    look: Callable[..., None] = getattr(store, "_read")  # noqa: B009 - as above

    async def submit(call: object) -> object:
        setattr(store, "_loop", asyncio.get_running_loop())  # noqa: B010 - as above
        call.done.set_running_or_notify_cancel()  # type: ignore[attr-defined]  # the store's own call
        if call.writes:  # type: ignore[attr-defined]  # as above
            work([call])
        else:
            look(call)
        await asyncio.sleep(0)  # What was committed is heard before its writer goes on.
        return call.done.result()  # type: ignore[attr-defined]  # as above

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


# ---------------------------------------------------------------- the hosts and the configs


def hosts() -> dict[str, World]:
    """Both hosts as they stand before anybody leases anything."""
    shared = FakeRoute("local", {"local": (("big",), ()), "away": ((), ("cloud",))})
    crow = World(
        engines={
            "big": FakeEngine(),
            "small": FakeEngine(),
            "coder": FakeEngine(up=False),
            "cold": FakeEngine(up=False),
        },
        routes={
            "chat": FakeRoute(
                "local",
                {
                    "local": (("big",), ()),
                    "away": ((), ("cloud",)),
                    "least": (("small",), ()),
                    "coder": (("coder",), ()),
                },
            ),
            "shared": shared,
        },
    )
    raven = World(
        engines={"tts": FakeEngine(), "asr": FakeEngine()},
        routes={
            "voice": FakeRoute(
                "local", {"local": (("tts",), ()), "away": ((), ("cloud",)), "least": (("asr",), ())}
            ),
            "shared": deepcopy(shared),
        },
    )
    return {"crow": crow, "raven": raven}


def _routes() -> Mapping[RouteName, Route]:
    """The same routes, as the config has them."""
    on: dict[str, list[HostName]] = {}
    known: dict[str, FakeRoute] = {}
    for host, world in hosts().items():
        for name, route in world.routes.items():
            on.setdefault(name, []).append(HostName(host))
            known[name] = route
    made = {}
    for name, route in known.items():
        profiles = {
            profile: Plain(
                targets=(
                    *(EngineTarget(engine=EngineId(it)) for it in engines),
                    *(UpstreamTarget(upstream=it) for it in upstreams),
                )
            )
            for profile, (engines, upstreams) in route.profiles.items()
        }
        made[RouteName(name)] = Route(name=RouteName(name), profiles=frozen(profiles), on=tuple(on[name]))
    return frozen(made)


def _named(name: str, actions: Sequence[Action] = (), *inner: Resource, **more: object) -> Resource:
    made = Resource(
        name=name,
        hosts=(CROW,),
        covers=(name, *(cover for it in inner for cover in it.covers)),
        actions=tuple(actions) or tuple(action for it in inner for action in it.actions),
        ttl_s=600.0,
        max_s=3600.0,
        warn=(300.0, 60.0),
        drain_s=30.0,
        queue_max=5,
        place_s=120.0,
        claim_s=300.0,
    )
    return replace(made, **more)  # type: ignore[arg-type]  # a config names the fields that matter to it


_CROW_BOX: Final = (
    Action(verb="suspend", target="big", host=CROW),
    Action(verb="route", target="chat", host=CROW, to="away"),
    Action(verb="route", target="shared", host=CROW, to="away"),
    Action(verb="suspend", target="cold", host=CROW),
    Action(verb="hold", target="crow", host=CROW),
    Action(verb="exec", host=CROW, argv=("fans", "full"), undo=("fans", "auto"), check=("is-full",)),
)
_RAVEN_BOX: Final = (
    Action(verb="suspend", target="tts", host=RAVEN),
    Action(verb="route", target="voice", host=RAVEN, to="away"),
    Action(
        verb="webhook",
        target="https://board.example.net",
        host=RAVEN,
        undo_url="https://board.example.net/free",
    ),
)
_CODER_BOX: Final = (
    Action(verb="start", target="coder", host=CROW),
    Action(verb="stop", target="big", host=CROW),
    Action(verb="route", target="shared", host=CROW, to="away"),
    Action(verb="route", target="chat", host=CROW, to="coder"),
)
_HELD_RAVEN: Final = (
    Action(verb="hold", target="raven", host=RAVEN),
    Action(verb="route", target="voice", host=RAVEN, to="least"),
    Action(verb="stop", target="tts", host=RAVEN),
)


def _fleet(*resources: Resource) -> Fleet:
    found = frozen({CROW: Host(name=CROW), RAVEN: Host(name=RAVEN)})
    return fleet(*resources, hosts=found, routes=_routes())


def configs() -> Mapping[str, Fleet]:
    """The configs that daemons are started with: the same names, and what they do differs."""
    crow, raven, disk = _named("crow-box", _CROW_BOX), _named("raven-box", _RAVEN_BOX), _named("disk")
    coder, held = _named("crow-box", _CODER_BOX), _named("raven-box", _HELD_RAVEN)
    lock = _named("crow-box")
    return {
        "first": _fleet(crow, raven, _named("pair", (), crow, raven), disk),
        "edited": _fleet(coder, held, _named("pair", (), coder, held), replace(disk, indefinite=True)),
        "shrunk": _fleet(crow, disk),
        "grown": _fleet(lock, raven, disk, _named("pair", (), lock, raven, disk)),
    }


# ---------------------------------------------------------------- what is to be the same again

Thing = tuple[str, str]
"""A host and what may be changed on it: `engine big`, `route chat`, `hold`, `command is-full`."""


def things(plan: Sequence[Step]) -> Iterator[Thing]:
    """What a plan may change."""
    for step in plan:
        match step:
            case DrainEngine() | SuspendEngine() | StopEngine() | StartEngine():
                yield step.host, f"engine {step.engine}"
            case PointRoute():
                yield step.host, f"route {step.route}"
            case HoldHost():
                yield step.host, "hold"
            case RunCommand(argv=argv, check=check):
                yield step.host, f"command {(check or argv)[0]}"
            case CallWebhook(url=url):
                yield step.host, f"webhook {url}"


def values(worlds: Mapping[str, World]) -> dict[Thing, object]:
    """Everything that may be changed, and how it is now."""
    found: dict[Thing, object] = {}
    for host, world in worlds.items():
        for name, engine in world.engines.items():
            seen = engine.up, tuple(sorted(engine.suspended_by)), tuple(sorted(engine.draining_by))
            found[host, f"engine {name}"] = seen
        for name, route in world.routes.items():
            found[host, f"route {name}"] = route.active
        found[host, "hold"] = world.hold
        found[host, "command is-full"] = "is-full" in world.commands
        found[host, "webhook https://board.example.net"] = "https://board.example.net" in world.webhooks
    return found


def down(worlds: Mapping[str, World]) -> set[Thing]:
    """Routes that lead to engines of which none is up (LEASE-4)."""
    engines = {name: engine for world in worlds.values() for name, engine in world.engines.items()}
    found = set()
    for host, world in worlds.items():
        for name, route in world.routes.items():
            targets, upstreams = route.profiles[route.active or ""]
            if targets and not upstreams and not any(engines[it].up for it in targets):
                found.add((host, f"route {name}"))
    return found


def boot(world: World, held: Mapping[str, Holding]) -> None:
    """The host was restarted: its hold went, its engines begin anew but those that a lease keeps down."""
    world.hold = FoundHold()
    for name, engine in world.engines.items():
        engine.draining_by.clear()
        engine.up = engine.up and f"engine {name}" not in held


def nodes(inner: Mapping[str, FakeNode], fuse: Fuse, trouble: Trouble) -> dict[str, MortalNode]:
    """Both hosts as one daemon reaches them."""
    for node in inner.values():
        node.between = fuse.burn
    return {host: MortalNode(node, fuse, trouble) for host, node in inner.items()}


def schedule_store(store: BothStores, fuse: Fuse) -> ScheduleStore:
    """The store as one daemon reaches it."""
    return cast("ScheduleStore", MortalStore(store, fuse))
