"""The links to other boxes (CAT-8): the need `Links`.

Decides how a link is looked at: the kernel's word on its interface and speed, and a connection to the port at
its other end. What must hold is the domain's decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.domain.curation import Crossing, LinkSeen

NET: Final = Path("/sys/class/net")
CONNECT_S: Final = 2.0
"""The other end of a cable answers in milliseconds, or not."""


@dataclass(frozen=True, slots=True)
class SystemLinks:
    """Interfaces of this machine. `root` stands for /sys/class/net in tests."""

    root: Path = NET

    async def probe(self, crossings: Sequence[Crossing]) -> Sequence[LinkSeen]:
        """What is seen of each, all at once. Never raises."""
        return await asyncio.gather(*(self._one(crossing) for crossing in crossings))

    async def _one(self, crossing: Crossing) -> LinkSeen:
        state = self._word(crossing.interface, "operstate")
        if state is None:
            return LinkSeen(up=False, why="there is no such interface")
        # A tunnel or a loopback has no state of its own: its carrier says whether it works.
        up = state == "up" or (state == "unknown" and self._word(crossing.interface, "carrier") == "1")
        if not up:
            return LinkSeen(up=False, why=f"the kernel says {state}")
        reached, why = await _reached(crossing)
        return LinkSeen(up=True, speed=self._speed(crossing.interface), reached=reached, why=why)

    def _speed(self, interface: str) -> int | None:
        """Bits per second; the kernel says megabits, and -1 or nothing where it does not know."""
        word = self._word(interface, "speed")
        return int(word) * 10**6 if word is not None and word.isdigit() else None

    def _word(self, interface: str, name: str) -> str | None:
        try:
            return (self.root / interface / name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None  # An interface that is not there, or a driver that does not say: both are unknown.


async def _reached(crossing: Crossing) -> tuple[bool | None, str]:
    """Whether the port at the other end takes a connection; None where none is expected to."""
    if crossing.port is None:
        return None, ""
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(crossing.peer, crossing.port)
    except TimeoutError:
        return False, f"no answer within {CONNECT_S:g} s"
    except OSError as error:
        return False, error.strerror or str(error)
    writer.close()
    return True, ""
