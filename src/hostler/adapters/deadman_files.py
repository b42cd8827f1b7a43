"""What a deadman left in its window's directory, read for the daemon: the report, and a line per thing done.

Decides how they are read. What is torn or missing says nothing; what it means is `hostler.domain.deadman`'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.state_files import read_object
from hostler.deadman import written
from hostler.domain.deadman import DeadmanReport

MOST_LINES: Final = 100
"""Of what was done: a restore of ten engines has about forty lines."""
_SAID: Final = ("engine", "program", "cause", "why")


def object_at(path: Path) -> Mapping[str, object] | None:
    """The JSON object at `path`; None when there is none that can be read."""
    try:
        return read_object(path)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`report.json` of one window, as it lies there."""

    row: Mapping[str, object]

    def told(self, place: Path) -> DeadmanReport:
        """It, with what was done line by line, as the schedule is told."""
        row = self.row
        failing = row.get("failing")
        return DeadmanReport(
            window=str(row.get("window", "")),
            host=str(row.get("host", "")),
            cause=str(row.get("cause", "")),
            verified=row.get("verified") is True,
            begun_at=str(row.get("begun_at", "")),
            ended_at=str(row.get("ended_at", "")),
            failing=tuple(map(str, failing)) if isinstance(failing, list) else (),
            ended=tuple(self._engines("down")),
            back=tuple(self._engines("verified")),
            unheld=row.get("hold") == "removed",
            done=tuple(lines_at(place / written.DONE)),
        )

    def _engines(self, which: str) -> Iterator[str]:
        rows = self.row.get("engines")
        for it in rows if isinstance(rows, list) else []:
            if isinstance(it, Mapping) and it.get(which) is True:
                yield str(it.get("engine", ""))


def report_at(place: Path) -> Report | None:
    """The deadman's report of the window in `place`, None while there is none."""
    row = object_at(place / written.REPORT)
    return None if row is None or row.get("by") != "deadman" else Report(row=row)


def lines_at(path: Path) -> list[str]:
    """What was done, a phrase each, oldest first: `verified small`. A torn line is left out."""
    try:
        raw = path.read_bytes().splitlines()
    except OSError:
        return []
    return [phrase for line in raw[-MOST_LINES:] if (phrase := _phrase(line))]


def _phrase(line: bytes) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(row, dict) or "did" not in row:
        return ""
    more = [str(row[name]) for name in _SAID if row.get(name)]
    return " ".join([str(row["did"]), *more])
