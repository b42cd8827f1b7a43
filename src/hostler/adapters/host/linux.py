"""The main memory of a Linux host (MEM-1): MemTotal and MemAvailable of /proc/meminfo, nothing guessed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hostler.domain.memory import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxMemory:
    """Reads below `root`: `/` on a real machine, a recorded tree in tests."""

    root: Path = Path("/")

    def read(self) -> Reading:
        """Bytes in all, and bytes that a new process could get without swapping. Raises OSError."""
        path = self.root / "proc/meminfo"
        fields: dict[str, int] = {}
        for line in path.read_text().splitlines():
            name, _, value = line.partition(":")
            number = value.split()[:1]
            if number and number[0].isdigit():
                fields[name] = int(number[0]) * 1024
        try:
            return Reading(total=fields["MemTotal"], available=fields["MemAvailable"])
        except KeyError as missing:
            raise OSError(f"{path} has no {missing.args[0]}") from None
