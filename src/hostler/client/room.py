"""Whether a file could not be written for want of room, and on which file system (NODE-5, REL-1).

Decides which refusal a failure to write a file of ours is. Does not decide where files of ours lie.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Final

from hostler.domain.errors import StateUnusable, StoreFull

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A quota or a limit of a file's size is no room either."""


def unusable(path: Path, error: OSError) -> StateUnusable | StoreFull:
    """`store_full` with the file system that has no room, else `state_unusable`: another place would help."""
    why = error.strerror or str(error)
    if error.errno not in NO_ROOM:
        return StateUnusable(path=str(path), why=why)
    return StoreFull(file=str(path), why=f"the disk is full ({why}), the file system of {mount_of(path)}")


def mount_of(path: Path) -> Path:
    """Where the file system is mounted on which that file lies, or would lie."""
    place = path.absolute()
    while not place.is_mount() and place != place.parent:
        place = place.parent
    return place
