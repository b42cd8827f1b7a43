"""What a child says on its stderr that is meant for its job (JOB-5): `hostler: progress 3/10`.

Decides which lines are meant, and what they say. Every line is passed through all the same; one that is
meant and cannot be understood is the child's own text and nothing more.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hostler.wire.jobs import MAX_LABEL, MAX_METRICS, MAX_NOTE, ProgressBody

PREFIX: Final = "hostler: "
LAST_LINES: Final = 20
"""How many of the child's last lines are kept as a note."""
LAST_BYTES: Final = 4096
LONGEST_LINE: Final = 64 << 10
"""A longer line of the child is passed through in parts, and means nothing to us."""

_NUMBER: Final = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_COUNTED: Final = re.compile(rf"({_NUMBER})\s*/\s*({_NUMBER})(?:\s+(.*))?")
_SHARE: Final = re.compile(rf"({_NUMBER})\s*(%?)(?:\s+(.*))?")
_METRIC: Final = re.compile(rf"([A-Za-z_][A-Za-z0-9_./:-]{{0,99}})=({_NUMBER})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one line, or several that go together, tells of a job."""

    note: str | None = None
    progress: ProgressBody | None = None
    metrics: tuple[tuple[str, float], ...] = ()

    def with_next(self, later: Said) -> Said | None:
        """Both in one update; None when one of them would be lost by it.

        Only the last progress counts; two notes, or two values of one metric, need two updates.
        """
        if self.note is not None and later.note is not None:
            return None
        names = {name for name, _ in self.metrics}
        if any(name in names for name, _ in later.metrics) or len(names) + len(later.metrics) > MAX_METRICS:
            return None
        return Said(
            note=self.note if later.note is None else later.note,
            progress=later.progress or self.progress,
            metrics=(*self.metrics, *later.metrics),
        )


def meant(line: str) -> Said | None:
    """What the line tells of the job; None when it is not meant, or not understood."""
    if not line.startswith(PREFIX):
        return None
    verb, _, rest = line.removeprefix(PREFIX).strip().partition(" ")
    rest = rest.strip()
    if verb == "progress":
        progress = progress_of(rest)
        return None if progress is None else Said(progress=progress)
    if verb == "metric":
        metrics = metrics_of(rest.split())
        return None if metrics is None else Said(metrics=metrics)
    if verb == "note" and rest:
        return Said(note=cut(rest, MAX_NOTE))
    return None


def progress_of(text: str) -> ProgressBody | None:
    """`3/10 prompts`, `0.3`, `30 %`; None for anything else, and for what is not from 0 to 1."""
    counted = _COUNTED.fullmatch(text)
    if counted is not None:
        n, total = float(counted[1]), float(counted[2])
        if not (math.isfinite(n) and math.isfinite(total) and 0 <= n <= total and total > 0):
            return None
        return ProgressBody(n=n, total=total, label=(counted[3] or "")[:MAX_LABEL])
    share = _SHARE.fullmatch(text)
    if share is None:
        return None
    value = float(share[1]) / (100 if share[2] else 1)
    return ProgressBody(value=value, label=(share[3] or "")[:MAX_LABEL]) if 0 <= value <= 1 else None


def metrics_of(words: Sequence[str]) -> tuple[tuple[str, float], ...] | None:
    """`tok_s=41 loss=0.3`; None when one of them is no `name=number`, or a name comes twice."""
    found: dict[str, float] = {}
    for word in words:
        one = _METRIC.fullmatch(word)
        value = float(one[2]) if one is not None else math.nan
        if one is None or one[1] in found or not math.isfinite(value):
            return None
        found[one[1]] = value
    return tuple(found.items()) if 0 < len(found) <= MAX_METRICS else None


def cut(text: str, limit: int) -> str:
    """`text` cut to `limit` bytes of UTF-8, no character halved."""
    data = text.encode("utf-8", "replace")
    return data[:limit].decode("utf-8", "ignore")


@dataclass(slots=True)
class Tail:
    """The last lines of the child, for the note at its end."""

    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))

    def add(self, line: str) -> None:
        """One more line; blank ones and those that were meant for the job say nothing at the end."""
        if line.strip() and not line.startswith(PREFIX):
            self.lines.append(line.rstrip())

    def note(self) -> str:
        """The last lines, the last 4 KiB of them."""
        data = "\n".join(self.lines).encode("utf-8", "replace")
        return data[-LAST_BYTES:].decode("utf-8", "ignore")
