"""Holding while a command runs (HOLD-10): in a process group of its own, with every signal passed on.

Decides when the command ends and with which code. The hold is written before it starts and removed
after it, whatever its end; it is never extended: its expiry is the bound.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from hostler.domain.errors import NotFound, NotYours

PASSED_ON: Final = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)


@dataclass(eq=False, slots=True)
class Passing:
    """Passes signals on to the group of the command; those from before its start are kept for it."""

    group: int | None = None
    early: list[int] = field(default_factory=list)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """The handler: forward, or remember."""
        if self.group is None:
            self.early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, number)

    def interrupted(self) -> int | None:
        """A signal from before the command's start that ends it before it began, else None."""
        return next((it for it in self.early if it != signal.SIGWINCH), None)


@contextlib.contextmanager
def passing() -> Iterator[Passing]:
    """Catch signals from here on; those that were ignored stay so (nohup)."""
    handler = Passing()
    before = {number: signal.getsignal(number) for number in PASSED_ON}
    caught = [number for number in PASSED_ON if before[number] is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, handler)
    try:
        yield handler
    finally:
        for number in caught:
            signal.signal(number, before[number])


def run(command: Sequence[str], handler: Passing) -> int:
    """Run `command` to its end; its exit code, 128 + n when signal n ended it.

    Refusals: not_found, not_yours when there is no such program or it may not be run.
    """
    if (early := handler.interrupted()) is not None:
        return 128 + early
    try:
        child = subprocess.Popen(command, process_group=0)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(what="command", name=command[0]) from error
    except OSError as error:
        what = f"The command {command[0]} cannot be run: {error.strerror}."
        raise NotYours(what=what, expected="It must be a program that this user may run.") from error
    with _foreground(child.pid) as terminal:
        handler.group = child.pid
        for number in handler.early:
            handler(number, None)
        return _wait(child, terminal)


def _wait(child: subprocess.Popen[bytes], terminal: int | None) -> int:
    """Wait for the end; a command that a person stops (^Z) stops us too, and goes on when we do."""
    while True:
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            if terminal is not None:
                _give(terminal, os.getpgrp())
                os.kill(os.getpid(), signal.SIGSTOP)
                if _terminal() is not None:
                    _give(terminal, child.pid)
                os.killpg(child.pid, signal.SIGCONT)
            continue
        child.returncode = os.waitstatus_to_exitcode(status)
        return child.returncode if child.returncode >= 0 else 128 - child.returncode


@contextlib.contextmanager
def _foreground(group: int) -> Iterator[int | None]:
    """Give the terminal to the command's group, where we have it; take it back at the end."""
    terminal = _terminal()
    if terminal is None:
        yield None
        return
    _give(terminal, group)
    try:
        yield terminal
    finally:
        _give(terminal, os.getpgrp())


def _terminal() -> int | None:
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
