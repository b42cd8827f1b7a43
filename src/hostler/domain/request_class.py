"""Request classes of the config: what a caller names instead of a place in the queue. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClass:
    """How long a request waits for a cold engine, and who is served first (GW-6)."""

    name: str
    max_wait_s: float
    rank: int


DEFAULT_CLASSES: Mapping[str, RequestClass] = MappingProxyType(
    {
        "interactive": RequestClass(name="interactive", max_wait_s=10.0, rank=1),
        "chat": RequestClass(name="chat", max_wait_s=120.0, rank=2),
        "batch": RequestClass(name="batch", max_wait_s=600.0, rank=3),
    }
)
