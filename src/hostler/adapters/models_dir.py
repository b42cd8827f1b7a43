"""Model files on this host. Decides where a name of the config points; reads no file's content."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsDir:
    """The need `Models`. Names come from the config only, never from a request (SEC-2)."""

    root: Path

    def path(self, name: str) -> str:
        return str(self.root / name)

    def size(self, name: str) -> int | None:
        try:
            found = (self.root / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None
