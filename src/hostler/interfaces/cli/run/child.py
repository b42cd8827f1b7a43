"""The command that runs under a lease: a process group of its own, with our terminal (JOB-5).

Decides how it is started, told of signals and ended. Whether it must end is `run.watch`'s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from hostler.domain.errors import NotFound, NotYours

_PROC: Final = Path("/proc")
_GONE: Final = frozenset({b"Z", b"X"})
"""A process that only waits for its parent to hear of it does nothing more."""


@dataclass(eq=False, slots=True, kw_only=True)
class Child:
    """A command that was started. `group` is the id of its process group, and of its first process.

    `ticks` is that process's start time as /proc has it, 0 where there is none.
    """

    process: subprocess.Popen[bytes]
    group: int
    ticks: int
    terminal: int | None = None

    @property
    def stderr(self) -> IO[bytes]:
        """What it says on its stderr."""
        if self.process.stderr is None:
            raise ValueError("the child was started without a pipe for its stderr")
        return self.process.stderr

    def send(self, number: int) -> None:
        """Pass a signal on to the whole group; a group that is gone needs none."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, number)

    def end(self) -> None:
        """Ask the whole group to end; one that is stopped goes on, so that it hears of it."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)

    def reap(self) -> int | None:
        """Its exit code once its first process has ended, 128 + n by signal n; None while it runs.

        Raises Stopped when that process was stopped, as ^Z does.
        """
        if self.process.returncode is not None:
            return exit_code(self.process.returncode)
        found, status = os.waitpid(self.process.pid, os.WNOHANG | os.WUNTRACED)
        if found == 0:
            return None
        if os.WIFSTOPPED(status):
            raise Stopped
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return exit_code(self.process.returncode)

    def ended(self) -> bool:
        """Whether its first process has ended; it is left to be reaped."""
        found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return found is not None

    def left(self) -> int:
        """How many processes of the group still do something."""
        return running(self.group)

    def pause(self) -> None:
        """Stop ourselves as our command is stopped, the terminal back with who started us; then go on."""
        if self.terminal is not None:
            _give(self.terminal, os.getpgrp())
        os.kill(os.getpid(), signal.SIGSTOP)
        if self.terminal is not None and _ours() is not None:
            _give(self.terminal, self.group)
        self.send(signal.SIGCONT)


class Stopped(Exception):
    """The child's first process was stopped, not ended."""


def exit_code(returncode: int) -> int:
    """The code as a shell has it: 128 + n for a process that signal n ended."""
    return returncode if returncode >= 0 else 128 - returncode


def check(command: Sequence[str]) -> None:
    """Refuse `not_found` for a program that is not there: before a lease is taken for it."""
    if shutil.which(command[0]) is None:
        raise NotFound(
            what="command", name=command[0], nearest="It must be a program that this user may run."
        )


@contextlib.contextmanager
def started(command: Sequence[str], env: Mapping[str, str]) -> Iterator[Child]:
    """The command, started, with our terminal while it runs. Refuses `not_found`, `not_yours`."""
    try:
        process = subprocess.Popen(command, process_group=0, stderr=subprocess.PIPE, env=dict(env))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(what="command", name=command[0]) from error
    except OSError as error:
        what = f"The command {command[0]} cannot be run: {error.strerror}."
        raise NotYours(what=what, expected="It must be a program that this user may run.") from error
    child = Child(process=process, group=process.pid, ticks=start_ticks(process.pid), terminal=_ours())
    if child.terminal is not None:
        _give(child.terminal, child.group)
    try:
        yield child
    finally:
        child.stderr.close()
        if child.terminal is not None:
            _give(child.terminal, os.getpgrp())


def start_ticks(pid: int) -> int:
    """When the process was started, in the kernel's ticks; 0 where /proc cannot tell."""
    found = _fields(pid)
    return int(found[19]) if found is not None else 0


def running(group: int) -> int:
    """How many processes of a group still do something; 1 where only the group itself can be asked."""
    if not (_PROC / "self" / "stat").exists():
        try:
            os.killpg(group, 0)
        except (ProcessLookupError, PermissionError):
            return 0
        return 1
    count = 0
    for entry in _PROC.iterdir():
        found = _fields(int(entry.name)) if entry.name.isdecimal() else None
        if found is not None and int(found[2]) == group and found[0] not in _GONE:
            count += 1
    return count


def _fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/PID/stat behind the name: state, parent, group …; None when it is gone."""
    try:
        return (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _ours() -> int | None:
    """Our terminal, when we are in its foreground."""
    try:
        handle = sys.stdin.fileno()
        return handle if os.tcgetpgrp(handle) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):
        return None


def _give(terminal: int, group: int) -> None:
    """Make `group` the one that reads the terminal; who is not in the foreground would stop for asking."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(terminal, group)
    except OSError:
        # The terminal or the group is gone: nobody is left to read.
        return
    finally:
        signal.signal(signal.SIGTTOU, before)
