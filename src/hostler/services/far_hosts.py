"""What people and bots ask of another host through this daemon: who listens, a warm engine, an engine's log.

Decides nothing: the other host's own daemon looks, and its own gate says whether anything starts.
"""

from __future__ import annotations

from typing import Protocol

from hostler.services.ports_live import LivePorts


class FarHost(Protocol):
    """Another host. Every call may refuse `node_unreachable`, and what is refused there."""

    async def ports(self) -> LivePorts:
        """Who listens there (PORT-5)."""
        ...

    async def logs(self, engine: str, lines: int) -> tuple[str, ...]:
        """The last lines of that engine's log, as they are shown there (NODE-1)."""
        ...

    async def acquire(self, engine: str, by: str) -> bool:
        """Wait until that engine of its is ready, asked for by `by`; whether it had to be started."""
        ...
