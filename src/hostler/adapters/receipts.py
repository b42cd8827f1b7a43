"""Small JSON files of one directory: the need `Records`, for receipts and for the processes of leases.

Decides how they are named and which are pruned. What is in them is `services.receipts`' and
`services.lease_processes`' decision. Files are written whole, as every state file is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from hostler.adapters.state_files import keep_unreadable, make_private, read_object, write_whole
from hostler.domain.errors import InvalidRequest
from hostler.domain.values import NAME, shorten

ENDING: Final = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryRecords:
    """The need `Records`, in `directory` below the state directory `root`."""

    root: Path
    directory: str

    def load(self, name: str) -> Mapping[str, object] | None:
        return read_object(self._place(name))

    def save(self, name: str, value: Mapping[str, object]) -> None:
        path = self._place(name)
        make_private(path.parent, self.root)
        keep_unreadable(path)
        write_whole(path, json.dumps(value, allow_nan=False, ensure_ascii=False).encode() + b"\n")

    def remove(self, name: str) -> None:
        self._place(name).unlink(missing_ok=True)

    def names(self) -> Sequence[str]:
        return [path.name.removesuffix(ENDING) for _, path in self._latest_first()]

    def prune(self, *, before: datetime, most: int, spare: frozenset[str]) -> int:
        kept = gone = 0
        for written, path in self._latest_first():
            if path.name.removesuffix(ENDING) in spare:
                continue
            if kept < most and written >= before.timestamp():
                kept += 1
                continue
            try:
                path.unlink()
                gone += 1
            except OSError:
                # It is tried again at the next one.
                kept += 1
        return gone

    def _latest_first(self) -> Sequence[tuple[float, Path]]:
        paths = (self.root / self.directory).glob(f"[a-z0-9]*{ENDING}")
        try:
            return sorted(((path.stat().st_mtime, path) for path in paths), reverse=True)
        except OSError:
            # A directory that is not there, or not ours to list, has nothing to prune.
            return []

    def _place(self, name: str) -> Path:
        """InvalidRequest for what cannot be one of ours: nothing from outside leads elsewhere (SEC-2)."""
        if not NAME.fullmatch(name):
            raise InvalidRequest(what=f"{shorten(name)!r} is no id.", expected="Send the id as it was given.")
        return self.root / self.directory / f"{name}{ENDING}"
