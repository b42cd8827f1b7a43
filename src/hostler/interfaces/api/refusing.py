"""Refusals that several rows of the endpoint table share."""

from __future__ import annotations

from typing import Final

from hostler.domain.errors import (
    BoxReserved,
    Draining,
    EngineFailed,
    EngineNotFound,
    MemoryNever,
    MemoryNow,
    NotLaunchable,
    OrchestrationDisabled,
    PortConflict,
    Refusal,
    ServingClassRefused,
    Suspended,
    TopologyRefused,
)

STARTING: Final[tuple[type[Refusal], ...]] = (
    EngineNotFound,
    OrchestrationDisabled,
    NotLaunchable,
    ServingClassRefused,
    Suspended,
    BoxReserved,
    PortConflict,
    TopologyRefused,
    MemoryNow,
    MemoryNever,
    Draining,
    EngineFailed,
)
"""What every start may be refused with, in the gate's order (GATE-1)."""
