"""When an unreadable hold record was first seen (HOLD-4), kept in the state directory.

Decides what counts as the first sight; `domain.hold` decides what follows from it. Neither a missing
state directory nor a full disk fails a reader: it then remembers for its own life only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from hostler.domain.hold_plan import encode
from hostler.domain.hold_record import parse_instant
from hostler.domain.values import rfc3339

FILE_NAME: Final = "hold_first_sight.json"


@dataclass(eq=False, slots=True)
class FirstSight:
    """Remembers the first sight of the latest unreadable record; `directory` None: only in memory."""

    directory: str | None = None
    _identity: str = ""
    _at: datetime | None = None

    def of(self, path: str, identity: str, now: datetime) -> datetime:
        """When that record at `path` was first seen, at the latest `now`. Never raises.

        A time later than `now` is of a clock that has been put back, and counts as now: no record may
        wedge the box for longer than from now on.
        """
        key = f"{path}: {identity}"
        at = self._at if key == self._identity else self._stored(key)
        if at is None or at > now:
            at = now
            self._store(key, at)
        self._identity, self._at = key, at
        return at

    def _stored(self, key: str) -> datetime | None:
        if self.directory is None:
            return None
        from hostler.adapters.state_files import read_object  # noqa: PLC0415 - rarely needed (PERF-11)

        try:
            found = read_object(Path(self.directory, FILE_NAME)) or {}
        except ValueError:
            # A broken note of ours is written anew: it only says how long the other file is broken.
            return None
        return parse_instant(found.get("at")) if found.get("identity") == key else None

    def _store(self, key: str, at: datetime) -> None:
        if self.directory is None:
            return
        from hostler.adapters.state_files import make_private, write_whole  # noqa: PLC0415 - as above

        path = Path(self.directory, FILE_NAME)
        try:
            make_private(path.parent, path.parent)
            write_whole(path, encode({"identity": key, "at": rfc3339(at)}))
        except OSError:
            # No room for the note delays no gate: the time is remembered in this process.
            return
