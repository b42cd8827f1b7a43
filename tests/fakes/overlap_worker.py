"""Work that cannot be shared: it writes when it begins and when it ends, and goes on at a word of the test.

    python overlap_worker.py DIRECTORY NAME

Appends `NAME start NS PPID` and `NAME end NS PPID` to DIRECTORY/times, in nanoseconds of the machine's
monotonic clock, PPID being its parent. Between the two it waits until DIRECTORY/go.NAME is there.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """When one piece of work was under way. `end` is infinite while it is; `parent`: whose child it was."""

    name: str
    start: float
    end: float
    parent: int


def spans(room: Path) -> list[Span]:
    """All work that began, in the order of the beginnings."""
    found: dict[str, Span] = {}
    times = room / "times"
    for line in times.read_text().splitlines() if times.exists() else []:
        name, what, at, parent = line.split()
        if what == "start":
            found[name] = Span(name=name, start=float(at), end=float("inf"), parent=int(parent))
        else:
            begun = found[name]
            found[name] = Span(name=name, start=begun.start, end=float(at), parent=begun.parent)
    return sorted(found.values(), key=lambda it: it.start)


def overlaps(found: list[Span]) -> list[tuple[str, str]]:
    """The pairs of which the later one began before the earlier one had ended."""
    return [(a.name, b.name) for n, a in enumerate(found) for b in found[n + 1 :] if b.start < a.end]


def say(room: Path, name: str, what: str) -> None:
    """One line, in one write: lines of two processes do not mix."""
    line = f"{name} {what} {time.monotonic_ns()} {os.getppid()}\n"
    handle = os.open(room / "times", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, line.encode())
    os.close(handle)


def main(directory: str, name: str) -> int:
    """Work."""
    room = Path(directory)
    say(room, name, "start")
    while not (room / f"go.{name}").exists():
        time.sleep(POLL_S)
    say(room, name, "end")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
