"""A state directory whose disk is full for a while: a small tmpfs for root, else a limit on files."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tests.story.house import House

SIZE = "8m"
BLOCK = 4096


@dataclass(kw_only=True)
class Disk:
    """The disk of a house's state. `small`: it is one of its own, and is filled; else files may not grow."""

    it: House
    small: bool

    def fill(self) -> None:
        """From here on nothing more fits."""
        if not self.small:
            self._limit(0)
            return
        with suppress(OSError), (self.it.state / "filler").open("wb", buffering=0) as file:
            while file.write(b"\0" * BLOCK) == BLOCK:
                pass
        assert self._full()

    def clear(self) -> None:
        """There is room again."""
        if self.small:
            (self.it.state / "filler").unlink()
        else:
            self._limit(resource.RLIM_INFINITY)

    def _limit(self, soft: int) -> None:
        assert self.it.daemon is not None
        _, hard = resource.prlimit(self.it.daemon.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.it.daemon.pid, resource.RLIMIT_FSIZE, (soft, hard))

    def _full(self) -> bool:
        try:
            (self.it.state / "probe").write_bytes(b"\0")
        except OSError as error:
            return error.errno == errno.ENOSPC
        return False


@contextmanager
def small_disk(it: House) -> Iterator[Disk]:
    """The disk of the state, before the daemon starts; taken away with the block."""
    it.state.mkdir(mode=0o700, exist_ok=True)
    small = os.geteuid() == 0 and _mounted(it)
    try:
        yield Disk(it=it, small=small)
    finally:
        if small:
            subprocess.run(("umount", "--lazy", str(it.state)), check=True)


def _mounted(it: House) -> bool:
    """Whether this machine lets us mount one."""
    options = f"size={SIZE},mode=0700"
    done = subprocess.run(
        ("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(it.state)), check=False, capture_output=True
    )
    return done.returncode == 0
