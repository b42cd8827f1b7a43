"""Engines without a catalog entry, and those whose entry nobody knows (CAT-7).

Decides what the catalog keeps from ever starting as things are. Classes are merged before (`catalog`).
"""

from __future__ import annotations

from hostler.domain.fleet import DriverKind, Engine, Fleet
from hostler.domain.values import EngineId


def is_uncurated(engine: Engine) -> bool:
    """Whether no entry speaks of an engine that is ours to start; one that is only used needs none."""
    return engine.entry is None and engine.driver is not DriverKind.EXTERNAL


def uncurated(fleet: Fleet) -> tuple[EngineId, ...]:
    """The engines of this host that are so."""
    return tuple(engine.id for engine in fleet.local_engines() if is_uncurated(engine))


def barred(fleet: Fleet, engine: Engine) -> str | None:
    """Why the catalog keeps `engine` from starting; None when it does not."""
    if is_uncurated(engine):
        return (
            "it has no catalog entry, and policy.uncurated is refuse" if fleet.uncurated == "refuse" else None
        )
    if engine.entry is None or engine.curation is not None:
        return None
    return f"nobody knows what {engine.entry} is: {fleet.catalog.trouble or 'no catalog is in force'}"
