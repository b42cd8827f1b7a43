"""What a reload needs of the world, joined (CONF-3): ports, keys, secrets, who may start under a hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hostler.adapters.hold_file import HoldFile
from hostler.bootstrap.catalog import take_catalog
from hostler.bootstrap.engines import BUILT, launches_of
from hostler.bootstrap.ground import Ground, World
from hostler.bootstrap.ports import taken_ports
from hostler.bootstrap.speech import Redaction, secrets_of
from hostler.domain.engine import Launch
from hostler.domain.fleet import Fleet
from hostler.domain.uncurated import uncurated
from hostler.domain.values import EngineId
from hostler.services.browser_guard import BrowserGuard
from hostler.services.engines import Engines
from hostler.services.errands import Errands
from hostler.services.guard import Guard
from hostler.services.keys import Keyring
from hostler.services.reload import Reload, Seen
from hostler.services.routes import Routes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutfit:
    """The world of one node, as far as a config says how it is."""

    world: World
    hold: HoldFile
    redaction: Redaction
    keys: Callable[[Fleet], Keyring]
    config_file: Path
    state_dir: Path

    def launches(self, fleet: Fleet) -> Mapping[EngineId, Launch]:
        """How each engine of this host is launched. Refuses `limit`."""
        return launches_of(
            fleet, self.world.files, self.world.models, lambda: taken_ports(fleet, self.config_file)
        )

    def keyring(self, fleet: Fleet) -> Keyring:
        """Its keys and those that were made here. Refuses `invalid_config`."""
        return self.keys(fleet)

    def take(self, fleet: Fleet) -> None:
        """Hide its secrets, let its essential engines start under a hold, and keep its catalog."""
        self.redaction.hide(secrets_of(fleet))
        self.hold.essentials = frozenset(str(engine) for engine in fleet.essentials())
        take_catalog(fleet, self.state_dir, told=uncurated(self.world.config.fleet))


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """The services that hold what a reload swaps."""

    engines: Engines
    routes: Routes
    browsers: BrowserGuard
    hold: HoldFile
    guard: Guard
    errands: Errands


def reload_of(ground: Ground, world: World, parts: Swapped) -> Reload:
    """Takes up this node's config anew."""
    looks = ground.source.looks()
    return Reload(
        file=ground.config_file,
        source=ground.source,
        outfit=NodeOutfit(
            world=world,
            hold=parts.hold,
            redaction=ground.speech.redact,
            keys=ground.keys,
            config_file=Path(ground.config_file),
            state_dir=ground.paths.state_dir,
        ),
        config=world.config,
        lanes=parts.engines.lanes,
        routes=parts.routes,
        keyring=ground.keyring,
        browsers=parts.browsers,
        guard=parts.guard,
        clock=world.clock,
        events=world.events,
        vitals=world.vitals,
        supported=lambda engine: engine.driver in BUILT,
        adopt=parts.engines.adopt,
        errands=parts.errands,
        seen=Seen(read=looks, last=looks),
    )
