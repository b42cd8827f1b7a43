"""Commands that go on while a test acts: started, listened to, ended with the test whatever becomes of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.interfaces.terminal import HOSTLER, Ended, Shell

Process = asyncio.subprocess.Process
Start = Callable[..., Awaitable[Process]]
LONGEST_S: Final = 40


@asynccontextmanager
async def going(user: Shell) -> AsyncIterator[Start]:
    """Starts `hostler WORDS` of that user; what a failed test leaves is ended, its descendants too."""
    begun: list[Process] = []

    async def start(*words: str) -> Process:
        begun.append(
            await asyncio.create_subprocess_exec(
                *HOSTLER,
                *words,
                env=dict(user.env),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        )
        return begun[-1]

    try:
        yield start
    finally:
        for process in begun:
            if process.returncode is None:
                for pid in (*below(process.pid), process.pid):
                    kill(pid)
            await process.communicate()


def kill(pid: int) -> None:
    """End that process, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def ended(process: Process) -> Ended:
    """How the command ended, and what it printed that nobody read."""
    out, err = await asyncio.wait_for(process.communicate(), LONGEST_S)
    return Ended(code=process.returncode or 0, out=out.decode(), err=err.decode())


async def shown(process: Process, text: str) -> None:
    """Return once the command said so on stderr."""
    assert process.stderr is not None
    while text not in (line := (await process.stderr.readline()).decode()):
        assert line, f"never said: {text}"


def alive(pid: int) -> bool:
    """Whether that process still does something."""
    return state(pid) not in ("Z", "X", "")


def words_of(pid: int) -> bytes:
    """Its arguments; nothing when it is gone."""
    return _read(pid, "cmdline")


def environ_of(pid: int) -> bytes:
    """Its environment; nothing when it is gone."""
    return _read(pid, "environ")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def stat_of(pid: int) -> list[bytes]:
    """The fields of its stat behind the name: state, parent, group and so on."""
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()


def state(pid: int) -> str:
    """Its state as the kernel writes it; empty when it is gone."""
    try:
        return stat_of(pid)[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def below(pid: int) -> list[int]:
    """The processes that descend from that one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
    children = [it for it, parent in parents.items() if parent == pid]
    return [*children, *(deep for child in children for deep in below(child))]
