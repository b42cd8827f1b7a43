"""Which processes belong to a run, and how all of them are ended (ENG-6).

Decides membership by descent and by identity; never by name, never by port. A signal goes only to a
process whose start time was compared after its pidfd was opened.

While the supervisor lives, its session and everything below it are the run's: it is the subreaper, so
nobody leaves by double fork. When it is dead, session and group numbers prove nothing any more; then
whoever holds the pipe that it made for this engine's output, and the engine itself, are the run's.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hostler.adapters.host import process_table
from hostler.adapters.host.process_table import Process
from hostler.domain.engine import Run

POLL_S: Final = 0.05
"""How often a stop looks whether all are gone. Most have a pidfd, but members come and go."""
LAST_WORDS_S: Final = 5.0
"""How long a supervisor has to take the last output, write the exit record and end. It takes milliseconds."""
KILL_WAIT_S: Final = 5.0
"""How long SIGKILL may take: a process inside a device driver ends late or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The processes of a run now, engine and below, without the supervisor; and the supervisor."""

    engine: tuple[Process, ...]
    supervisor: Process | None

    @property
    def everyone(self) -> tuple[Process, ...]:
        """All of them, the supervisor last."""
        return (*self.engine, self.supervisor) if self.supervisor else self.engine


def members(run: Run, output: int | None) -> Members:
    """Who of this run lives. `output` is the inode of its output pipe, None where it is not known."""
    if run.boot_id != process_table.boot_id():  # Start times count from boot: they may well come again.
        return Members(engine=(), supervisor=None)
    table = {pid: process for pid, process in process_table.everyone().items() if not process.gone}
    supervisor = table.get(run.supervisor_pid)
    if supervisor is not None and supervisor.start_ticks == run.supervisor_ticks:
        below = process_table.descendants(table, run.supervisor_pid)
        below |= {pid for pid, process in table.items() if process.session == run.supervisor_pid}
        below.discard(run.supervisor_pid)
        return Members(engine=tuple(table[pid] for pid in sorted(below)), supervisor=supervisor)
    left = (process for process in table.values() if _is_left_of(run, output, process))
    return Members(engine=tuple(left), supervisor=None)


def _is_left_of(run: Run, output: int | None, process: Process) -> bool:
    if process.pid == run.pid:
        return process.start_ticks == run.start_ticks
    if output is None or process.start_ticks < run.start_ticks:
        return False
    return output in (process_table.open_inodes(process.pid, "pipe") or ())


def lives(run: Run) -> bool:
    """Whether engine and supervisor are both there, as recorded."""
    return (
        run.boot_id == process_table.boot_id()
        and process_table.alive(run.pid, run.start_ticks)
        and process_table.alive(run.supervisor_pid, run.supervisor_ticks)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the end of a run went: the signals in order, the pids that are still there."""

    signals: tuple[str, ...]
    left: tuple[int, ...]


async def end(run: Run, output: int | None, *, timeout_s: float, again_s: float, now: bool) -> Ended:
    """SIGTERM, `timeout_s`, SIGTERM again, `again_s`, SIGKILL, and a last look. `now` begins with SIGKILL.

    The supervisor is not signalled before its engine is gone: it ends by itself then, and writes how
    the engine ended. Only one that does not (it was stopped, say) gets SIGKILL.
    """
    steps = [(signal.SIGTERM, timeout_s), (signal.SIGTERM, again_s)] if not now else []
    sent: list[str] = []
    for number, wait_s in [*steps, (signal.SIGKILL, KILL_WAIT_S)]:
        if await asyncio.to_thread(_signal_all, run, output, number):
            sent.append(number.name)
            await until(lambda: not members(run, output).engine, within_s=wait_s)
    if not await until(lambda: members(run, output).supervisor is None, within_s=LAST_WORDS_S):
        left = await asyncio.to_thread(members, run, output)
        if not left.engine and process_table.send(run.supervisor_pid, run.supervisor_ticks, signal.SIGKILL):
            await until(lambda: members(run, output).supervisor is None, within_s=KILL_WAIT_S)
    left = await asyncio.to_thread(members, run, output)
    return Ended(signals=tuple(sent), left=tuple(process.pid for process in left.everyone))


def _signal_all(run: Run, output: int | None, number: signal.Signals) -> bool:
    """Signal every engine process; whether any was. SIGCONT goes with SIGTERM: who is stopped cannot end."""
    sent = False
    for process in members(run, output).engine:
        if process_table.send(process.pid, process.start_ticks, number):
            sent = True
            if number is signal.SIGTERM:
                process_table.send(process.pid, process.start_ticks, signal.SIGCONT)
    return sent


async def until(true: Callable[[], bool], *, within_s: float) -> bool:
    """Whether `true` (asked off the loop) came true in time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not await asyncio.to_thread(true):
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(max(0.0, min(POLL_S, deadline - loop.time())))
    return True


async def end_of(pid: int, ticks: int) -> None:
    """Return when that very process has ended. It is not our child: a pidfd becomes readable at its end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        if not process_table.alive(pid, ticks):
            return
        loop.add_reader(handle, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
