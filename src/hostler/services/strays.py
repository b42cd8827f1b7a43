"""What is up outside the standing mode though nothing brings it up by itself (MODE-2, WIN-8).

Decides who is one, on this host, and in which words it is told. What comes up on demand is none.
"""

from __future__ import annotations

from hostler.domain.fleet import Fleet
from hostler.domain.holding import ENGINE
from hostler.domain.mode import standing
from hostler.domain.values import EngineId, HostName, ServingClass
from hostler.domain.window_plan import members
from hostler.services.gate import Gate


def named_only(fleet: Fleet) -> frozenset[EngineId]:
    """The engines that do not come up on demand: those of a class that has to be named (CAT-5)."""
    return frozenset(it.id for it in fleet.engines.values() if it.serving_class is not ServingClass.RESIDENT)


def strays_here(gate: Gate) -> tuple[str, ...]:
    """A sentence for each engine of this host that is one, and that no lease has."""
    fleet = gate.lanes.config.fleet
    usual, here = standing(fleet.modes), HostName(fleet.here)
    if usual is None or here not in usual.hosts:
        return ()
    own, named = members(fleet, usual, here), named_only(fleet)
    return tuple(
        told(fleet, lane.engine.id)
        for lane in gate.lanes.by_id.values()
        if lane.state.up
        and lane.engine.id in named
        and lane.engine.id not in own
        and not lane.engine.members
        and gate.guard.holding(ENGINE, lane.engine.id) is None
    )


def told(fleet: Fleet, name: EngineId) -> str:
    """What is told of one, with the command that ends it: of a member it is that of the whole (ENG-11)."""
    engine = fleet.engines[name]
    whole = fleet.engines[engine.of] if engine.of is not None else engine
    end = f"`hostler stop {whole.id}` on {whole.host} ends it"
    return f"{name} on {engine.host} is up, and not of the standing mode: {end}"
