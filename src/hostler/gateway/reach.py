"""Whether a peer's row can be reached: the need `Reacher` (SYNC-4).

Decides that a look goes where a request would, by the same rules: what is never dialled is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hostler.gateway.places import Places
from hostler.gateway.upstream_dial import reached

LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReacher:
    """Looks at URLs of rows."""

    places: Places

    async def look(self, url: str) -> str:
        """See `Reacher.look`."""
        return await reached(self.places.foreign(url), LOOK_S)
