"""Imports in tests: files of llama-swap in a folder, what they come to, and what is told of them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.adapters.config.reading import Reading, examine
from hostler.adapters.imports.files import ImportFiles
from hostler.domain.errors import NotImportable
from hostler.domain.fleet import Engine, Fleet, Route
from hostler.domain.values import EngineId, RouteName
from hostler.interfaces.imports.llama_swap import Imported, convert
from hostler.interfaces.imports.notes import Sign

Env = Mapping[str, str]


@dataclass(frozen=True)
class Made:
    """An import that was checked and read back."""

    imported: Imported
    reading: Reading
    text: str

    @property
    def fleet(self) -> Fleet:
        assert self.reading.fleet is not None
        return self.reading.fleet

    def engine(self, name: str) -> Engine:
        return self.fleet.engines[EngineId(name)]

    def route(self, name: str) -> Route:
        return self.fleet.routes[RouteName(name)]

    def told(self, sign: Sign | None = None) -> list[str]:
        """Each note as `LINE: path: text`, those of one sign."""
        return [
            str(note).removeprefix(f"{note.sign} {note.file}:")
            for note in self.imported.notes
            if sign is None or note.sign is sign
        ]

    def tells(self, *words: str) -> str:
        """The one note that has all these words."""
        found = [note for note in self.told() if all(word in note for word in words)]
        assert len(found) == 1, (words, found, self.told())
        return found[0]

    def stops(self, one: str, two: str) -> bool:
        """Whether a start of one engine stops the other, by our groups."""
        groups = self.fleet.host.groups
        first, second = self.engine(one).group, self.engine(two).group
        return first is not None and (first == second or second in groups[first].evicts)


def parts(folder: Path, env: Env | None = None) -> ImportFiles:
    return ImportFiles(env={"HOME": str(folder), "PATH": "/nowhere", **(env or {})}, folder=folder)


def write(folder: Path, text: str, name: str = "swap.yaml") -> str:
    """A file of llama-swap; its path."""
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return str(path)


def from_files(folder: Path, *paths: str, env: Env | None = None) -> Made:
    """What these files come to. It must pass the check, where it is written with its secrets."""
    files = parts(folder, env)
    imported = convert(files.read(paths), here=files.here)
    assert list(files.check(imported.draft)) == []
    target = folder / "out" / "hostler.yaml"
    target.parent.mkdir()
    files.finish(imported.draft, str(target), force=False)
    reading = examine(target, files.env, machine="box")
    assert reading.problems == ()
    return Made(imported=imported, reading=reading, text=target.read_text(encoding="utf-8"))


def made(folder: Path, text: str, env: Env | None = None) -> Made:
    """What one file of that text comes to."""
    return from_files(folder, write(folder, text), env=env)


def refused(folder: Path, text: str, env: Env | None = None) -> list[str]:
    """The reasons why a file of that text is refused, each as `LINE: path: why`."""
    path = write(folder, text)
    files = parts(folder, env)
    with pytest.raises(NotImportable) as caught:
        convert(files.read([path]), here=files.here)
    assert caught.value.count == len(caught.value.problems)
    return [problem.removeprefix(f"{path}:") for problem in caught.value.problems]


def stops_between(got: Made, one: str, two: str) -> bool:
    """Whether a start of either engine stops the other."""
    return got.stops(one, two) or got.stops(two, one)
