"""Words of a command as a scan sees them: each with the values that it may have (PORT-2).

Decides how options are written and what an address with a port looks like.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from hostler.domain.ports import ANY, HIGHEST, LOWEST, Certainty

HOLE: Final = "\0"
"""Stands in a value for what is known only when it runs."""
_DIGITS: Final = re.compile(r"[0-9]{1,8}")
_WHERE: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.*-]*):([0-9]{1,5})")
_URL: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/@\s]*@)?(\[[0-9A-Fa-f:.]+\]|[^/:\s\[\]]+):([0-9]{1,5})\b"
)
LOCAL: Final = {"localhost": "127.0.0.1", "*": ANY, "": ANY}


@dataclass(frozen=True, slots=True)
class Value:
    """One value that a word may have. `branch`: others are as possible."""

    text: str
    certainty: Certainty = Certainty.LITERAL
    branch: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One word with all its values, never none."""

    values: tuple[Value, ...]

    @property
    def text(self) -> str:
        """Its first value: what names of programs and options are read from."""
        return self.values[0].text

    def after(self, prefix: str) -> Word:
        """The rest of each value behind `prefix`."""
        return Word(tuple(replace(each, text=each.text.removeprefix(prefix)) for each in self.values))


def words(texts: Sequence[str]) -> tuple[Word, ...]:
    """Words of one value each."""
    return tuple(Word((Value(text),)) for text in texts)


def port_of(text: str) -> int | None:
    """The port that a text is, decimal whatever it begins with; None for anything else."""
    if not text.isascii() or not _DIGITS.fullmatch(text):
        return None
    number = int(text)
    return number if LOWEST <= number <= HIGHEST else None


def address_of(text: str) -> str | None:
    """The address that a program binds to, None where it is a name that nobody can tell from here."""
    bare = text.strip("[]")
    if bare in LOCAL:
        return LOCAL[bare]
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return None


def where(text: str) -> tuple[str, int] | None:
    """Host and port of `127.0.0.1:8000`, `[::1]:8000`, `:8000` or `crow:8000`; None for anything else."""
    match = _WHERE.fullmatch(text)
    port = port_of(match[2]) if match is not None else None
    return None if match is None or port is None else (match[1].strip("[]"), port)


def urls(text: str) -> list[tuple[str, int]]:
    """Host and port of each URL in a text that names a port."""
    found = ((match[1].strip("[]"), port_of(match[2])) for match in _URL.finditer(text))
    return [(host, port) for host, port in found if port is not None]


def option(word: Word) -> tuple[str, Word | None]:
    """Name and own value of `--name=value`, `--name`, `-n`; an empty name for what is no option."""
    text = word.text
    if not text.startswith("-") or text in ("-", "--"):
        return "", None
    name, equals, _ = text.partition("=")
    if equals and text.startswith("--"):
        return name, word.after(f"{name}=")
    return text, None
