"""What the kernel knows: this boot, its clock, processes by identity (ENG-6), and memory.

Decides who is who by pid and start time; a signal goes to the process that was compared and to no other.
"""

from __future__ import annotations

import math
import os
import re
import select
import signal
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_AVAILABLE: Final[Mapping[str, re.Pattern[str]]] = {
    "MemAvailable": re.compile(r"(\d+)\s*(kB)"),
    "available": re.compile(r"(\d+(?:\.\d+)?)\s*(B|[KMGT]i?B)"),
}
"""What says how much is free, by its name in the file."""
MOST_BYTES: Final = 64 << 10
"""Of a file that says how much is free; the kernel's has less than 2 KiB."""
_BYTES: Final[Mapping[str, int]] = {
    "B": 1,
    "kB": 1 << 10,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
"""Units as the config has them, and the kernel's kB, which are KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One line of the process table. `ticks` are clock ticks since boot at its start."""

    pid: int
    parent: int
    session: int
    ticks: int
    gone: bool


def boot_s() -> float:
    """Seconds since boot, sleep counted: no jump of the wall clock moves it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def pause(seconds: float) -> None:
    """Wait so long, whatever signals come: a poll, no sleep until a time, which a moved clock may end."""
    _poll(seconds, None)


def ended(pid: int, within_s: float) -> bool:
    """Whether that child of ours has ended, waited for so long at most; it is still to be reaped."""
    handle = os.pidfd_open(pid)
    try:
        return _poll(within_s, handle)
    finally:
        os.close(handle)


def _poll(seconds: float, handle: int | None) -> bool:
    """Whether `handle` became readable in that time."""
    until = time.monotonic() + seconds
    poll = select.poll()
    if handle is not None:
        poll.register(handle, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        if poll.poll(max(1, int(left * 1000))):
            return True
    return False


def boot_id() -> str:
    """The kernel's name for this boot; empty where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def wall() -> str:
    """The wall clock: RFC 3339, UTC, milliseconds (TIME-1). For records; nothing is decided by it."""
    seconds = time.time()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"


def read(pid: int) -> Process | None:
    """The process `pid` now, None when there is none."""
    try:
        rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return Process(
        pid=pid,
        parent=int(rest[1]),
        session=int(rest[3]),
        ticks=int(rest[19]),
        # A zombie whose other threads still run is not gone.
        gone=rest[0] in (b"Z", b"X") and int(rest[17]) <= 1,
    )


def everyone() -> dict[int, Process]:
    """All processes that are not gone, by pid."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid: it for pid in pids if (it := read(pid)) is not None and not it.gone}


def alive(pid: int, ticks: int) -> bool:
    """Whether that very process still exists; one that is stopped does."""
    found = read(pid)
    return found is not None and found.ticks == ticks and not found.gone


def send(pid: int, ticks: int, number: signal.Signals) -> bool:
    """Signal that very process, and no other that has its pid by now; whether it was sent."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not alive(pid, ticks):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def holds_pipe(pid: int, inode: str) -> bool:
    """Whether `pid` has the pipe of that name (`pipe:[4711]`) open, as far as we may look."""
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    return any(_leads_to(link, inode) for link in links)


def _leads_to(link: Path, name: str) -> bool:
    try:
        return str(link.readlink()) == name
    except OSError:  # Closed since the listing.
        return False


def available(meminfo: str) -> int | None:
    """Bytes of main memory that are free by the file `meminfo`, None where it does not say, whatever it is.

    The kernel's `MemAvailable: N kB`, or `available: SIZE` as a test bed has it (MEM-1).
    """
    try:
        lines = _beginning(meminfo).decode("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return None
    for name, _, value in (line.partition(":") for line in lines):
        pattern = _AVAILABLE.get(name.strip())
        found = None if pattern is None else pattern.fullmatch(value.strip())
        if found is not None:
            size = float(found[1]) * _BYTES[found[2]]
            return round(size) if math.isfinite(size) else None
    return None


def _beginning(path: str) -> bytes:
    """The file's first bytes, of a regular one only, without waiting. Raises OSError, ValueError."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError(f"{path} is no regular file")
        return file.read(MOST_BYTES)
