"""What a unit printed, from the journal; where that does not answer, what `systemctl status` shows of it.

Decides only where the lines come from, and says it when they are not the journal's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hostler.adapters.drivers.run_record import clean_environment
from hostler.adapters.systemctl import Scope
from hostler.domain.values import shorten

READ_S: Final = 3.0
"""How long a journal has to answer; one on a slow disk may need a second."""
NO_ENTRIES: Final = "-- No entries --"
LINE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Reads with what may be passed on of `environment`. `program` is journalctl, with where it looks."""

    environment: Mapping[str, str]
    program: tuple[str, ...] = ("journalctl",)

    def tail(self, scope: Scope, unit: str, lines: int) -> list[str]:
        """The last lines, oldest first."""
        found, trouble = self._read(self._argv(scope, unit, f"--lines={lines}"))
        if trouble:
            shown, _ = self._read(
                ("systemctl", f"--{scope}", "--no-pager", f"--lines={lines}", "status", unit)
            )
            return [_says(trouble, "systemctl status shows"), *shown]
        return found

    async def follow(self, scope: Scope, unit: str) -> AsyncIterator[str]:
        """Lines as they come; ends, having said why, when the journal does not answer."""
        process = await asyncio.create_subprocess_exec(
            *self._argv(scope, unit, "--lines=0", "--follow"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=clean_environment(self.environment, {}),
            limit=LINE_BYTES,
        )
        try:
            if process.stdout is not None:
                async for line in process.stdout:
                    yield line.decode(errors="replace").removesuffix("\n")
            yield _says(f"it ended with status {await process.wait()}", "nothing follows")
        finally:
            # Straight to the kernel: asking asyncio first could take the exit code away from its watcher.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            await process.wait()

    def _argv(self, scope: Scope, unit: str, *more: str) -> tuple[str, ...]:
        whose = f"--user-unit={unit}" if scope == "user" else f"--unit={unit}"
        return (*self.program, "--no-pager", "--all", "--output=cat", whose, *more)

    def _read(self, argv: Sequence[str]) -> tuple[list[str], str]:
        """Its lines, and why they may not be all: empty when it answered."""
        try:
            ran = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=clean_environment(self.environment, {}),
                timeout=READ_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return [], f"it took longer than {READ_S:g} s"
        except OSError as error:
            return [], error.strerror or str(error)
        lines = [line for line in ran.stdout.decode(errors="replace").splitlines() if line != NO_ENTRIES]
        if ran.returncode == 0 and (lines or not ran.stderr):
            return lines, ""
        complaint = ran.stderr.decode(errors="replace").strip().splitlines()
        return lines, complaint[0] if complaint else f"it ended with status {ran.returncode}"


def _says(why: str, instead: str) -> str:
    return f"(the journal does not answer: {shorten(why)}; {instead}:)"
