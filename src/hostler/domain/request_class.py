"""Request classes of the config: what a caller names instead of a place in the queue. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClass:
    """How long a request waits for a cold engine, and who is served first (GW-6)."""

    name: str
    max_wait_s: float
    rank: int
