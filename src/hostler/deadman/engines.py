"""Ending and starting engines by the written restore: identity and argv, no driver (ENG-2, ENG-6).

Decides when an engine counts as gone and when as started. Which ones, and in which order, is `restore`'s.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.deadman import kernel
from hostler.deadman.kernel import Process
from hostler.deadman.written import Engine

POLL_S: Final = 0.05
AGAIN_S: Final = 5.0
KILL_S: Final = 5.0
LAST_WORDS_S: Final = 5.0
"""How long a supervisor has, its engine gone, to write how it ended and to end itself."""
COMMAND_S: Final = 60.0
"""How long a command that ends an engine may take beyond the engine's own stop time."""
WORDS_BYTES: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Who runs an engine, by its supervisor's record. `ended`: the record says that it has."""

    pid: int
    ticks: int
    supervisor: int
    supervisor_ticks: int
    boot_id: str
    output: str
    ended: bool


def run_of(engine: Engine) -> Run | None:
    """What its record says; None when there is none that can be understood: it names nobody."""
    try:
        row = json.loads(Path(engine.record).read_bytes())
        return Run(
            pid=int(row["pid"]),
            ticks=int(row["start_ticks"]),
            supervisor=int(row["supervisor_pid"]),
            supervisor_ticks=int(row["supervisor_ticks"]),
            boot_id=str(row["boot_id"]),
            output=str(row["output"]),
            ended=row["exit"] is not None,
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def members(run: Run) -> tuple[list[Process], Process | None]:
    """The living processes of a run, engine and below, and its supervisor; by descent and identity only."""
    if run.boot_id != kernel.boot_id():
        return [], None
    table = kernel.everyone()
    supervisor = table.get(run.supervisor)
    if supervisor is not None and supervisor.ticks == run.supervisor_ticks:
        below = _below(table, run.supervisor)
        below |= {pid for pid, it in table.items() if it.session == run.supervisor}
        return [table[pid] for pid in sorted(below - {run.supervisor})], supervisor
    return [it for it in table.values() if _is_left_of(run, it)], None


def _below(table: Mapping[int, Process], ancestor: int) -> set[int]:
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        parent = waiting.pop()
        more = {it.pid for it in table.values() if it.parent == parent} - found
        found |= more
        waiting += more
    return found


def _is_left_of(run: Run, it: Process) -> bool:
    """Its supervisor is dead: the engine itself, and whoever has its output's pipe, are what is left."""
    if it.pid == run.pid:
        return it.ticks == run.ticks
    return it.ticks >= run.ticks and run.output.startswith("pipe:") and kernel.holds_pipe(it.pid, run.output)


def lives(engine: Engine) -> bool:
    """Whether a process of it exists, as far as a record tells; by `stop_argv` alone nobody knows."""
    run = run_of(engine)
    return run is not None and bool(members(run)[0])


def end(engine: Engine) -> str | None:
    """End it, and see it gone: None, or one sentence with what is left."""
    if engine.stop_argv:
        return command(engine.stop_argv, engine.env, engine.cwd, engine.stop_timeout_s + COMMAND_S)
    run = run_of(engine)
    if run is None:
        return None
    waits = ((signal.SIGTERM, engine.stop_timeout_s), (signal.SIGTERM, min(AGAIN_S, engine.stop_timeout_s)))
    for number, wait_s in (*waits, (signal.SIGKILL, KILL_S)):
        if _signal_all(run, number):
            _until(lambda: not members(run)[0], wait_s)
    if not _until(lambda: members(run)[1] is None, LAST_WORDS_S) and not members(run)[0]:
        kernel.send(run.supervisor, run.supervisor_ticks, signal.SIGKILL)
        _until(lambda: members(run)[1] is None, KILL_S)
    left, supervisor = members(run)
    pids = [it.pid for it in (*left, *([supervisor] if supervisor else []))]
    return f"{', '.join(f'pid {pid}' for pid in pids)} did not end" if pids else None


def _signal_all(run: Run, number: signal.Signals) -> bool:
    """Signal every process of it; who is stopped is let go on, or it could not end. Whether any was."""
    sent = False
    for it in members(run)[0]:
        if kernel.send(it.pid, it.ticks, number):
            sent = True
            if number is signal.SIGTERM:
                kernel.send(it.pid, it.ticks, signal.SIGCONT)
    return sent


def _until(true: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not true():
        if time.monotonic() >= deadline:
            return False
        kernel.pause(POLL_S)
    return True


def command(argv: Sequence[str], env: Mapping[str, str], cwd: str, within_s: float) -> str | None:
    """Run a command to its end, its group killed when its time is up. None for exit 0, else what came.

    Its output is kept in memory: a full disk must not matter, and what it leaves running may keep it open.
    """
    words = os.memfd_create("words")
    try:
        with subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
        ) as child:
            if not kernel.ended(child.pid, within_s):
                os.killpg(child.pid, signal.SIGKILL)
                return f"{argv[0]} did not end within {within_s:g} s"
            status = child.wait()
        if status == 0:
            return None
        size = os.fstat(words).st_size
        said = os.pread(words, WORDS_BYTES, max(0, size - WORDS_BYTES)).decode(errors="replace").strip()
        return f"{argv[0]}: exit status {status}{': ' if said else ''}{said}"
    except (OSError, ValueError) as error:
        return f"{argv[0]} cannot be run: {error}"
    finally:
        os.close(words)
