"""Model files in the places where programs put them. Opens no file but for its first four bytes.

Decides what counts as a model: a GGUF that says so itself, of several parts the first one, with the sizes of
all; and a directory of safetensors with a config.json.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.services.sight_parts import ModelFile

DEEPEST: Final = 6
MOST_ENTRIES: Final = 20_000
"""Entries of directories that are looked at, in all."""
_PART: Final = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


@dataclass(slots=True)
class _Walk:
    left: int

    def files(self, directory: Path, depth: int) -> Iterator[Path]:
        """Every file below, no directory by a link; what may not be read is passed over."""
        if depth > DEEPEST:
            return
        try:
            entries = sorted(directory.iterdir())
        except OSError:
            return
        for entry in entries:
            self.left -= 1
            if self.left < 0:
                return
            if entry.is_dir() and not entry.is_symlink():
                yield from self.files(entry, depth + 1)
            elif entry.suffix.lower() in (".gguf", ".safetensors"):
                yield entry


def models_in(places: Iterable[Path], most: int = MOST_ENTRIES) -> tuple[ModelFile, ...]:
    """Every model below these directories, each once, by path; `most` entries are looked at."""
    walk = _Walk(left=most)
    files = [file for place in places for file in walk.files(place, 0)]
    ggufs = [file for file in files if file.suffix.lower() == ".gguf" and _says_gguf(file)]
    tensors = {file.parent for file in files if file.suffix.lower() == ".safetensors"}
    found: dict[str, ModelFile] = {}
    for file in ggufs:
        if not _is_projector(file) and _is_first(file):
            real = os.path.realpath(file)
            found.setdefault(real, _gguf(file, ggufs))
    for directory in sorted(tensors):
        if (directory / "config.json").is_file():
            size = sum(_size(file) for file in directory.glob("*.safetensors"))
            found.setdefault(str(directory), ModelFile(path=str(directory), size=size, kind="safetensors"))
    return tuple(sorted(found.values(), key=lambda it: it.path))


def _gguf(file: Path, all_: Iterable[Path]) -> ModelFile:
    part = _PART.search(file.name)
    stem = file.name[: part.start()] if part else ""
    parts = [it for it in all_ if it.parent == file.parent and it.name.startswith(stem)] if part else [file]
    beside = [it for it in all_ if it.parent == file.parent and _is_projector(it)]
    return ModelFile(
        path=str(file),
        size=sum(_size(it) for it in parts if not part or _PART.search(it.name)),
        projector=str(beside[0]) if len(beside) == 1 else "",
    )


def _is_projector(file: Path) -> bool:
    return "mmproj" in file.name.lower()


def _is_first(file: Path) -> bool:
    part = _PART.search(file.name)
    return part is None or int(part[1]) == 1


def _says_gguf(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(4) == b"GGUF"
    except OSError:
        return False


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
