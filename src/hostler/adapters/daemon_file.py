"""Who runs as the daemon of a state directory, by `daemon.json`: the claim is proved by its start time."""

from __future__ import annotations

from pathlib import Path

from hostler.adapters.host.process_table import read
from hostler.adapters.state_files import DirectoryStateFiles

DAEMON = "daemon"


def running(state_dir: Path) -> int | None:
    """The pid of the daemon that runs with this state directory; None when none does. Raises ValueError."""
    found = DirectoryStateFiles(root=state_dir).load(DAEMON) or {}
    pid, ticks = found.get("pid"), found.get("start_ticks")
    process = read(pid) if isinstance(pid, int) else None
    return process.pid if process is not None and process.start_ticks == ticks else None
