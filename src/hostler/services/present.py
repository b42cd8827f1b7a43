"""The config that is in force: the one reference that a reload swaps (CONF-3).

Decides nothing. Whoever reads more than one thing of it in one decision takes `fleet` once: it is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.fleet import Fleet


@dataclass(eq=False, slots=True, kw_only=True)
class Present:
    """Where services find the fleet of now."""

    fleet: Fleet
