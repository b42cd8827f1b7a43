"""What an import tells: what changed its meaning, what was left out, what is risky, and what is refused.

Decides how like notes are put together. What is noted is decided where the thing is converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hostler.domain.values import shorten
from hostler.services.import_parts import Given

LONGEST = 600


class Sign(StrEnum):
    """How a note is marked, as in a diff."""

    CHANGED = "~"
    """It means something else now."""
    LEFT_OUT = "-"
    """There is nothing for it here."""
    ADDED = "+"
    """It was not in the file."""
    WARNING = "!"
    """It means the same, and is worth a look."""


NAMES = {Sign.CHANGED: "changed", Sign.LEFT_OUT: "left_out", Sign.ADDED: "added", Sign.WARNING: "warning"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line of the report. `count` are the places that it is true of; it names the first."""

    file: str
    line: int
    sign: Sign
    path: str
    text: str
    count: int = 1

    def __str__(self) -> str:
        more = f" (and {self.count - 1} more such)" if self.count > 1 else ""
        path = f"{shorten(self.path, 200)}: " if self.path else ""
        return f"{self.sign} {self.file}:{self.line}: {path}{shorten(self.text, LONGEST)}{more}"

    def facts(self) -> dict[str, object]:
        """The wire form."""
        return {
            "file": self.file,
            "line": self.line,
            "change": NAMES[self.sign],
            "path": self.path,
            "text": self.text,
            "count": self.count,
        }


@dataclass(slots=True)
class Notes:
    """Collects notes and refusals of one import."""

    found: dict[tuple[object, ...], list[tuple[Given, str]]] = field(default_factory=dict)
    refused: dict[tuple[str, int, str], str] = field(default_factory=dict)

    def tell(self, sign: Sign, at: Given, path: str, text: str, *, alike: str = "") -> None:
        """Note something. Notes with the same text and the same `alike` become one."""
        key = (sign, text, alike) if alike else (sign, text, path, at.file, at.line)
        self.found.setdefault(key, []).append((at, path))

    def changed(self, at: Given, path: str, text: str, *, alike: str = "") -> None:
        """It means something else now."""
        self.tell(Sign.CHANGED, at, path, text, alike=alike)

    def left_out(self, at: Given, path: str, text: str, *, alike: str = "") -> None:
        """There is nothing for it here."""
        self.tell(Sign.LEFT_OUT, at, path, text, alike=alike)

    def warn(self, at: Given, path: str, text: str, *, alike: str = "") -> None:
        """It means the same, and is worth a look."""
        self.tell(Sign.WARNING, at, path, text, alike=alike)

    def refuse(self, at: Given, path: str, why: str, *, line: int | None = None) -> None:
        """It cannot be imported."""
        number = line or at.line
        told = f"{path}: {why}" if path else why
        self.refused.setdefault((at.file, number, told), f"{at.file}:{number}: {shorten(told, LONGEST)}")

    def notes(self) -> tuple[Note, ...]:
        """Every note, in the order of the files and lines."""
        made = [_joined(key, places) for key, places in self.found.items()]
        return tuple(sorted(made, key=lambda it: (it.file, it.line)))

    def refusals(self) -> tuple[str, ...]:
        """Every refusal as `file:line: path: why`, in the order of the files and lines."""
        return tuple(text for _, text in sorted(self.refused.items()))


def _joined(key: tuple[object, ...], places: Sequence[tuple[Given, str]]) -> Note:
    first, path = min(places, key=lambda it: (it[0].file, it[0].line))
    return Note(
        file=first.file,
        line=first.line,
        sign=Sign(str(key[0])),
        path=path,
        text=str(key[1]),
        count=len(places),
    )
