"""The deadmen of this host without its daemon: what `hostler deadman status` asks for (INTERFACE-3).

Decides nothing: it is the seam between the command and what reads the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hostler.services.deadman_needs import DeadmanState


class OfflineDeadmen(Protocol):
    """The windows of this host, as their files and the process table tell them."""

    def windows(self) -> Sequence[DeadmanState]:
        """All that are known here, also those that are over. Never raises for what is torn."""
        ...
