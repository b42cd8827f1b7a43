"""Files as texts, bounded: what is no text of a size that people write is not read (PORT-4).

Decides which file may be read at all. Follows no link out of its folder, and opens no device.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 1 << 20


class Unread(Exception):
    """A file that is not read: why."""


def read_text(path: Path) -> str:
    """The text of a file. Raises Unread."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise Unread(
            error.strerror or "cannot be read" if isinstance(error, OSError) else "no path"
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unread("no regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Unread(f"larger than {MAX_BYTES >> 10} KiB")
    if b"\0" in data:
        raise Unread("no text")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise Unread("not UTF-8") from None
