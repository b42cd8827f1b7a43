"""What a host keeps of a window in files: how it was before, and what came back of it (WIN-4).

Decides how they are written and read. A file of another version, or a torn one, says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostler.domain.fleet import HOST_POOL
from hostler.domain.values import LONGEST_S, sizes
from hostler.domain.window import Back


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """How a host was when the window opened, and what of it is verified at its end.

    `up`: the standing engines that served, with what they took, in bytes by pool. `standing`: all that the
    window takes down and brings back. `checks`: commands with their timeouts. `tool`: a script restores.
    """

    up: Mapping[str, Mapping[str, int]]
    standing: tuple[str, ...]
    checks: tuple[tuple[tuple[str, ...], float], ...] = ()
    tool: bool = False

    def row(self) -> Mapping[str, object]:
        """As it is written."""
        return {
            "up": {name: dict(took) for name, took in self.up.items()},
            "standing": list(self.standing),
            "checks": [{"argv": list(argv), "timeout_s": timeout_s} for argv, timeout_s in self.checks],
            "tool": self.tool,
        }


def before_of(row: Mapping[str, object] | None) -> Before | None:
    """It, as it was written; None for anything else."""
    match row:
        case {"up": dict(up), "standing": list(standing), "checks": list(checks), "tool": bool(tool)}:
            return Before(
                up={str(name): sizes(took) for name, took in up.items()},
                standing=tuple(map(str, standing)),
                checks=tuple(it for it in map(_check, checks) if it is not None),
                tool=tool,
            )
    return None


def _check(row: object) -> tuple[tuple[str, ...], float] | None:
    match row:
        case {"argv": list(argv), "timeout_s": int() | float() as timeout_s} if argv:
            return tuple(map(str, argv)), float(timeout_s)
    return None


def back_of(row: Mapping[str, object], here: str) -> Back:
    """One engine, as a daemon or a deadman writes it: that one has the memory of the host as one number."""
    memory, seconds = row.get("memory"), row.get("seconds")
    return Back(
        engine=str(row.get("engine")),
        host=str(row.get("host") or here),
        up=row.get("up") is True,
        verified=row.get("verified") is True,
        why=str(row.get("why") or ""),
        memory=sizes(memory if isinstance(memory, Mapping) else {HOST_POOL: memory}),
        seconds=float(seconds) if isinstance(seconds, int | float) and 0 <= seconds <= LONGEST_S else None,
    )
