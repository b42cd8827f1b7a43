"""The last good catalog directory, kept in the state directory (CAT-7): the file `catalog.json`.

Decides its form. A copy that cannot be read is none, and is never overwritten unseen: `state_files` puts it
aside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.state_files import DirectoryStateFiles
from hostler.domain.catalog import Catalog
from hostler.domain.fleet import frozen

NAME: Final = "catalog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The texts of the last good directory by their file names; `why` there are none (`texts` None)."""

    texts: Mapping[str, str] | None = None
    why: str = "no good one was seen before"


def kept(state_dir: Path) -> Kept:
    """What was kept. Never raises."""
    try:
        found = DirectoryStateFiles(root=state_dir).load(NAME)
    except ValueError as error:
        return Kept(why=str(error))
    if found is None:
        return Kept()
    files = found.get("files")
    if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
        return Kept(why=f"{state_dir / NAME}.json holds no files")
    return Kept(texts=frozen({str(name): text for name, text in files.items()}), why="")


def keep(state_dir: Path, catalog: Catalog) -> None:
    """Keep the directory of a catalog that is in force and right, where it is another than before.

    Raises OSError; what is in force stays so all the same.
    """
    if catalog.directory is None or catalog.trouble or kept(state_dir).texts == catalog.added:
        return
    files = DirectoryStateFiles(root=state_dir)
    files.save(NAME, {"directory": catalog.directory, "files": dict(catalog.added)})
