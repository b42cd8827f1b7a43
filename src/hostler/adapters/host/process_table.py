"""Processes of this host, as /proc tells them: identity, descent, sockets, memory; signals that cannot miss.

Decides who is who by pid and start time (ENG-6); decides nothing about engines. Functions take the
root of a /proc tree where tests feed recordings. A process that ends while it is read is None, not
an error.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_LINK: Final = re.compile(r"(socket|pipe):\[(\d+)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One line of the table. `start_ticks` are clock ticks since boot; `threads` counts live ones."""

    pid: int
    comm: str
    state: str
    ppid: int
    group: int
    session: int
    threads: int
    start_ticks: int

    @property
    def gone(self) -> bool:
        """Whether nothing of it runs any more: a zombie whose other threads still run is not gone."""
        return self.state in ("Z", "X") and self.threads <= 1


def read(pid: int, root: Path = PROC) -> Process | None:
    """The process `pid` now, None when there is none."""
    try:
        raw = (root / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    head, _, tail = raw.rpartition(b")")  # The name in parentheses may contain anything, also `) S 1`.
    rest = tail.split()
    return Process(
        pid=pid,
        comm=head.partition(b"(")[2].decode(errors="replace"),
        state=rest[0].decode(),
        ppid=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        threads=int(rest[17]),
        start_ticks=int(rest[19]),
    )


def everyone(root: Path = PROC) -> dict[int, Process]:
    """All processes by pid."""
    pids = (int(entry.name) for entry in root.iterdir() if entry.name.isdigit())
    return {pid: process for pid in pids if (process := read(pid, root)) is not None}


def alive(pid: int, start_ticks: int, root: Path = PROC) -> bool:
    """Whether that very process still runs: same pid, same start time, no zombie."""
    process = read(pid, root)
    return process is not None and process.start_ticks == start_ticks and not process.gone


def descendants(table: Mapping[int, Process], ancestor: int) -> set[int]:
    """The pids below `ancestor`, itself not among them."""
    below: dict[int, list[int]] = {}
    for process in table.values():
        below.setdefault(process.ppid, []).append(process.pid)
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        for pid in below.get(waiting.pop(), ()):
            if pid not in found:
                found.add(pid)
                waiting.append(pid)
    return found


def boot_id(root: Path = PROC) -> str:
    """The kernel's name for this boot: a pid of another boot means nothing."""
    return (root / "sys/kernel/random/boot_id").read_text().strip()


def open_inodes(pid: int, kind: str, root: Path = PROC) -> frozenset[int] | None:
    """Inodes of the `socket`s or `pipe`s that `pid` has open; None when it may not be looked into."""
    try:
        links = [_target(entry) for entry in (root / str(pid) / "fd").iterdir()]
    except PermissionError:
        return None
    except (FileNotFoundError, ProcessLookupError):
        return frozenset()
    matches = (_LINK.fullmatch(link) for link in links)
    return frozenset(int(match[2]) for match in matches if match and match[1] == kind)


def _target(entry: Path) -> str:
    try:
        return str(entry.readlink())
    except OSError:  # Closed, or its process gone, since the listing.
        return ""


def held_bytes(pids: Iterable[int], root: Path = PROC) -> int:
    """Memory that comes back when these processes end, in bytes (MEM-5): RssAnon and RssShmem.

    Not the pages of mapped model files: they count as available all the time, since they can be read again.
    """
    return 1024 * sum(_own_kib(root / str(pid) / "status") for pid in pids)


def _own_kib(status: Path) -> int:
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "RssShmem:")))


def send(pid: int, start_ticks: int, number: signal.Signals) -> bool:
    """Signal that very process, and no other that has its pid by now; whether it was sent (ENG-6).

    The pidfd is opened first and the start time compared after: from then on the descriptor means
    the process that was compared, whatever becomes of its pid.
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if not alive(pid, start_ticks):
            return False
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True
