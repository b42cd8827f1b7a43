"""The config file of a running daemon, read again (CONF-3): the need `ConfigSource`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.adapters.config.reading import load
from hostler.domain.fleet import Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """The file at `file` as `host` sees it (None: this machine). `listen` stands for that of the file."""

    file: Path
    env: Mapping[str, str]
    host: str | None = None
    listen: tuple[str, ...] = ()

    def looks(self) -> object:
        """Which file it is, how large, and when it was changed; None while there is none."""
        try:
            found = self.file.stat()
        except OSError:
            return None
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def read(self) -> Fleet:
        """The fleet that the file describes. Raises InvalidConfig with every problem."""
        fleet = load(self.file, self.env, self.host)
        return replace(fleet, node=replace(fleet.node, listen=self.listen)) if self.listen else fleet
