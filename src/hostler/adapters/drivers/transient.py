"""How a process of ours is started so that it outlives the daemon's unit, where systemd runs (ENG-2).

A double fork leaves the daemon's session but stays in its unit's cgroup, and dies at the unit's restart.
A scope of its own does not. Decides the argv only; nothing is started here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Manager:
    """The systemd manager that the daemon can ask: the machine's or the user's."""

    scope: Literal["system", "user"]

    def wrap(self, unit: str, argv: Sequence[str]) -> tuple[str, ...]:
        """`argv` run inside a transient scope named `unit`; its output and exit status stay `argv`'s own."""
        return (
            "systemd-run",
            f"--{self.scope}",
            "--scope",
            "--quiet",
            "--collect",
            f"--unit={unit}.scope",
            f"--description=Hostler: {unit}",
            "--",
            *argv,
        )


def manager(*, uid: int, runtime_dir: str | None, root: Path = Path("/")) -> Manager | None:
    """The manager to ask, None where systemd does not run.

    Root asks the machine's, everybody else, and root where there is none, the user's own. Each is there when
    its private socket is.
    """
    if not (root / "run/systemd/system").is_dir():
        return None
    if uid == 0 and (root / "run/systemd/private").exists():
        return Manager(scope="system")
    if runtime_dir and (root / runtime_dir.lstrip("/") / "systemd/private").exists():
        return Manager(scope="user")
    return None


def wrapped(found: Manager | None, unit: str, argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` in a scope of its own where there is a manager, else as it is."""
    return found.wrap(unit, argv) if found else tuple(argv)
