"""The config file of a running daemon, read again (CONF-3): the need `ConfigSource`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.adapters.catalog.reading import names_in
from hostler.adapters.config.reading import load
from hostler.domain.fleet import Fleet


@dataclass(eq=False, slots=True, kw_only=True)
class FileSource:
    """The file at `file` as `host` sees it (None: this machine). `listen` stands for that of the file.

    `catalog` is the directory that the file named when it was read last: a change in it is one of the config.
    """

    file: Path
    env: Mapping[str, str]
    host: str | None = None
    listen: tuple[str, ...] = ()
    catalog: Path | None = None

    def looks(self) -> object:
        """Which files they are, how large, and when they were changed; None for one that is not there."""
        return (_looks(self.file), () if self.catalog is None else tuple(_within(self.catalog)))

    def read(self) -> Fleet:
        """The fleet that the file describes. Raises InvalidConfig with every problem."""
        fleet = load(self.file, self.env, self.host)
        self.catalog = None if fleet.catalog.directory is None else Path(fleet.catalog.directory)
        return replace(fleet, node=replace(fleet.node, listen=self.listen)) if self.listen else fleet


def _looks(file: Path) -> object:
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _within(directory: Path) -> Iterator[object]:
    """Each file of a catalog's directory, by its name; nothing of one that cannot be read."""
    try:
        names = names_in(directory)
    except OSError:
        return
    yield from ((path.name, _looks(path)) for path in names)
