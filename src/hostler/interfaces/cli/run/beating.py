"""The beating process as `hostler run` sees it: started, read from, started again, ended (JOB-5).

Decides nothing about the lease: when it is renewed is `run.beat`'s, what a lost one means `run.watch`'s.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

END_S: Final = 2.0
"""It ends with its stdin, between two calls at the latest; a call that hangs is not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One thing that it said. `trusted` tells that a renewal succeeded; then `until` None: without an end."""

    trusted: bool = False
    until: float | None = None
    limited_by: str = ""
    lost: str | None = None
    trouble: str | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class Beating:
    """The process, and what it has not finished saying."""

    file: Path
    job: str
    process: subprocess.Popen[bytes] | None = None
    rest: bytes = b""

    def start(self) -> None:
        """Start it, in a session of its own: no ^C, ^Z or hang-up of our terminal reaches it."""
        self.process = subprocess.Popen(
            (sys.executable, "-m", "hostler.interfaces.cli.run.beat", str(self.file), self.job),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.rest = b""

    def fileno(self) -> int:
        """Where it is read from."""
        if self.process is None or self.process.stdout is None:
            raise ValueError("the beating process was not started")
        return self.process.stdout.fileno()

    def read(self) -> list[Beat] | None:
        """What it said since; None when it has ended."""
        data = os.read(self.fileno(), 65536)
        if not data:
            return None
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [_beat(line) for line in lines]

    def end(self) -> None:
        """Close its stdin and see it gone."""
        process, self.process = self.process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        if process.poll() is None:
            process.kill()
            process.wait()


@contextlib.contextmanager
def beating(file: Path, job: str) -> Iterator[Beating]:
    """A beating process for the lease of that private file and for that job, ended with the block."""
    it = Beating(file=file, job=job)
    it.start()
    try:
        yield it
    finally:
        it.end()


def _beat(line: bytes) -> Beat:
    found = json.loads(line)
    if "trusted_until" in found:
        return Beat(trusted=True, until=found["trusted_until"], limited_by=found["limited_by"])
    return Beat(lost=found.get("lost"), trouble=found.get("trouble"))
