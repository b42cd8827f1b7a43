"""Small files of state that live in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


class MemoryStateFiles:
    """The need `StateFiles`: texts by name, as they would lie on disk. `root` is for `directory` only.

    A test breaks a file by writing into `texts`; while `full` nothing can be saved.
    """

    def __init__(self, root: Path = Path("/nowhere")) -> None:
        self.root = root
        self.texts: dict[str, str] = {}
        self.full = False

    def load(self, name: str) -> Mapping[str, object] | None:
        text = self.texts.get(name)
        if text is None:
            return None
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError(f"{name} is no object")  # noqa: TRY004 - what the need promises
        return found

    def save(self, name: str, value: Mapping[str, object]) -> None:
        if self.full:
            raise OSError(28, "No space left on device", name)
        self.texts[name] = json.dumps(value)

    def set_aside(self, name: str) -> None:
        text = self.texts.pop(name, None)
        if text is not None:
            self.texts[f"{name}.unreadable"] = text

    def stands(self, name: str) -> bool:
        return name in self.texts

    def directory(self, name: str) -> str:
        path = self.root / name
        if self.root != Path("/nowhere"):
            path.mkdir(parents=True, exist_ok=True)
        return str(path)
