"""What a reload needs of the world, in memory: a config that a test changes, and launches as it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hostler.domain.engine import Launch
from hostler.domain.errors import InvalidConfig, LimitReached
from hostler.domain.fleet import Engine, Fleet, frozen
from hostler.domain.values import EngineId
from hostler.services.browser_guard import BrowserGuard
from hostler.services.engines import Engines
from hostler.services.errands import Errands
from hostler.services.guard import Guard
from hostler.services.keys import Keyring, keyring
from hostler.services.needs import Clock
from hostler.services.reload import Reload, Seen
from hostler.services.routes import Routes
from hostler.services.status import Vitals

FILE = "/etc/hostler/hostler.yaml"


@dataclass(eq=False, kw_only=True)
class Disk:
    """The config file. `write` changes it; `problems` are what is wrong with it."""

    fleet: Fleet
    version: int = 0
    problems: tuple[str, ...] = ()
    reads: int = 0

    def write(self, fleet: Fleet | None = None, *problems: str) -> None:
        """Another content; with problems it is not right."""
        self.fleet, self.problems = fleet or self.fleet, problems
        self.version += 1

    def looks(self) -> object:
        return self.version

    def read(self) -> Fleet:
        self.reads += 1
        if self.problems:
            raise InvalidConfig(file=FILE, count=len(self.problems), problems=self.problems)
        return self.fleet


@dataclass(eq=False, kw_only=True)
class Wardrobe:
    """The outfit. `full`: no port is left to give; `taken` are the fleets that were put on, in order."""

    launch: Callable[[Engine], Launch]
    clock: Clock
    local: str = "hk_local"
    full: bool = False
    taken: list[Fleet] = field(default_factory=list)

    def launches(self, fleet: Fleet) -> Mapping[EngineId, Launch]:
        if self.full:
            raise LimitReached(what="ports", limit=1)
        return frozen({engine.id: self.launch(engine) for engine in fleet.local_engines()})

    def keyring(self, fleet: Fleet) -> Keyring:
        return keyring(configured=fleet.keys, kept=(), local=self.local, clock=self.clock)

    def take(self, fleet: Fleet) -> None:
        self.taken.append(fleet)


def reload_in(
    engines: Engines,
    routes: Routes,
    ring: Keyring,
    *,
    launch: Callable[[Engine], Launch],
    bug: Callable[[BaseException], str] = repr,
    guard: Guard | None = None,
    browsers: BrowserGuard | None = None,
    vitals: Vitals | None = None,
) -> Reload:
    """A reload of these services, as the bootstrap joins it."""
    lanes = engines.lanes
    disk = Disk(fleet=lanes.config.fleet)
    return Reload(
        file=FILE,
        source=disk,
        outfit=Wardrobe(launch=launch, clock=lanes.clock),
        config=lanes.config,
        lanes=lanes,
        routes=routes,
        keyring=ring,
        browsers=browsers or BrowserGuard(names=frozenset({"localhost"})),
        guard=guard or routes.guard,
        clock=lanes.clock,
        events=lanes.events,
        vitals=vitals or Vitals(),
        supported=lambda _: True,
        adopt=engines.adopt,
        errands=Errands(bug=bug),
        seen=Seen(read=0, last=0),
    )
