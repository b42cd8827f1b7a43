"""Forced changes of holds, for the daemon to tell (HOLD-9): the need `ForcedChanges`.

Decides which lines of box.ndjson are new. How far it was read is kept in the state directory, so that
a change made while no daemon ran is told by the next one, and none is told twice.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters.hold_write import CHANGES_NAME
from hostler.adapters.state_files import make_private, read_object, write_whole

FILE_NAME: Final = "hold_changes_read.json"
HEAD: Final = 64
"""The first bytes, by which one box.ndjson is told from the next: a reboot clears it, inodes come again."""
MAX_READ: Final = 256 << 10
"""Bytes of changes that are read at once; a longer backlog is read over several ticks."""


@dataclass(eq=False, slots=True)
class HoldChanges:
    """Reads box.ndjson beside the hold file `path`; keeps its place in `state_dir`."""

    path: str
    state_dir: str
    _place: tuple[bytes, int] | None = None

    def take(self) -> Sequence[str]:
        """The changes since the last call, one sentence each. Never raises."""
        try:
            return self._take()
        except OSError:
            # It cannot be read now: its lines stay where they are, for a later tick.
            return ()

    def _take(self) -> Sequence[str]:
        try:
            handle = os.open(
                Path(self.path).with_name(CHANGES_NAME),
                os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC,
            )
        except FileNotFoundError:
            return ()
        try:
            found = os.fstat(handle)
            head, offset = self._place or self._stored()
            if offset > found.st_size or os.pread(handle, len(head), 0) != head:
                offset = 0
            if not stat.S_ISREG(found.st_mode) or offset == found.st_size:
                return ()
            head = os.pread(handle, HEAD, 0)
            data = os.pread(handle, MAX_READ, offset)
        finally:
            os.close(handle)
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == MAX_READ:
            whole = data
        self._keep(head[: offset + len(whole)], offset + len(whole))
        return [sentence(line) for line in whole.splitlines() if line.strip()]

    def _stored(self) -> tuple[bytes, int]:
        try:
            found = read_object(Path(self.state_dir, FILE_NAME)) or {}
            head, offset = found.get("head"), found.get("offset")
            if isinstance(head, str) and isinstance(offset, int) and offset >= 0:
                return bytes.fromhex(head), offset
        except ValueError:
            # Our own note is broken: telling a change twice is better than not at all.
            pass
        return b"", 0

    def _keep(self, head: bytes, offset: int) -> None:
        self._place = (head, offset)
        path = Path(self.state_dir, FILE_NAME)
        try:
            make_private(path.parent, path.parent)
            write_whole(path, json.dumps({"head": head.hex(), "offset": offset}).encode())
        except OSError:
            # Only the next daemon would need it, and that one then tells these changes again.
            return


def sentence(line: bytes) -> str:
    """What a line of box.ndjson says, in words; of a line that is not ours, that there was one."""
    try:
        found = json.loads(line.decode("utf-8"))
        at, change, owner, by = (str(found[key]) for key in ("at", "change", "owner", "by"))
    except (ValueError, KeyError, TypeError, RecursionError):
        return "A forced change of the hold was noted, but its line cannot be read."
    return f"The hold of {owner} was {change} by {by} at {at}."
