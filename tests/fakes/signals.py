"""Signals to asyncio's child processes, straight to the kernel.

Their own `send_signal` and `kill` poll the child first, which may take its exit code away from the loop's
watcher: the loop then reports 255.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal


def send(process: asyncio.subprocess.Process, number: int) -> None:
    """Send a signal to that child; nothing happens when it has ended."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def kill(process: asyncio.subprocess.Process) -> None:
    """End that child; nothing happens when it has ended."""
    send(process, signal.SIGKILL)
