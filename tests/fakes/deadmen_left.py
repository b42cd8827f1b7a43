"""Deadmen that a test left behind: at their cap they would start its engines again."""

from __future__ import annotations

from pathlib import Path

from hostler.adapters.deadmen import SystemDeadmen


async def end_deadmen(state: Path, hold: Path) -> None:
    """End those of the windows in that state directory, each by its pid and start time."""
    deadmen = SystemDeadmen(root=state, host="", hold_path=hold, environment={})
    for it in deadmen.windows():
        if it.alive:
            assert await deadmen.end(it.window) is None
