"""The loop of this host, joined: what it looks at, and whom it tells of a strike (WIN-6)."""

from __future__ import annotations

from hostler.adapters.drivers.activity import EngineActivity
from hostler.bootstrap.ground import Ground, World
from hostler.bootstrap.nodes import Nodes
from hostler.services.engines import Engines
from hostler.services.holds import Holds
from hostler.services.watch import Watch


def watch_of(ground: Ground, world: World, engines: Engines, holds: Holds, nodes: Nodes) -> Watch:
    """The watch; strikes of a host that is not the head wait there until the head asks for them."""
    return Watch(
        engines=engines,
        holds=holds,
        drivers=engines.drivers,
        activity=EngineActivity(),
        memory=world.memory,
        files=world.files,
        clock=world.clock,
        events=world.events,
        vitals=world.vitals,
        bug=ground.speech.bug,
        ports=engines.gate.ports,
        markers=world.files,
        upkeep=nodes.node.upkeep,
        deadmen=nodes.node.deadman.tick,
        strike=nodes.node.strikes.strike if nodes.head is None else nodes.head.windows.strike,
    )
