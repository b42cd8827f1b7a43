"""What `hostler serve` asks for: one Protocol, which the bootstrap fulfils. Decides nothing."""

from __future__ import annotations

from typing import Protocol


class ServeParts(Protocol):
    """What runs the daemon."""

    def serve(self, *, config: str | None, host: str | None, listen: tuple[str, ...]) -> int:
        """Serve until told to end; the exit code. `listen` empty: node.listen.

        Refusals: no_config, invalid_config, daemon_runs.
        """
        ...
