"""Signals while something must not be left behind: the first one gives back, the second leaves (R95).

Decides exit codes of interrupted commands (INTERFACE-4). What is given back is decided by who waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Final

from hostler.interfaces.cli.failure import INTERRUPTED

TERMINATED: Final = 143
"""As a shell shows SIGTERM; SIGHUP gives the same (INTERFACE-4 knows no third)."""
CAUGHT: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signalled(BaseException):
    """A signal came: whatever waits gives back what it has. No `except Exception` may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code of a command that it ends."""
        return INTERRUPTED if self.number == signal.SIGINT else TERMINATED


@dataclass(eq=False, slots=True)
class Interruptible:
    """Raises `Signalled` in the main thread for each signal, until it is `kept`.

    `note` is written to stderr at the first one: giving back may take some seconds. `count` is how many came.
    """

    note: str = ""
    over: bool = False
    count: int = 0

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """The handler."""
        if self.over:
            return
        self.count += 1
        note, self.note = self.note, ""
        with contextlib.suppress(OSError):
            # Not by print: what is interrupted may be printing.
            os.write(2, note.encode())
        if self.count > 1:
            # Not raised: it could come while the first is on its way, and the two would count as one.
            os._exit(Signalled(number).code)
        raise Signalled(number)

    def keep(self) -> None:
        """From here on the command ends as it will: what it took is its caller's, whatever comes now."""
        self.over = True


@contextlib.contextmanager
def interruptible(note: str = "") -> Iterator[Interruptible]:
    """Catch signals in here; those that were ignored stay so (nohup)."""
    handler = Interruptible(note=note)
    before = {number: signal.getsignal(number) for number in CAUGHT}
    caught = [number for number in CAUGHT if before[number] is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, handler)
    try:
        yield handler
    finally:
        # What was kept stays kept: between here and the end of the process nobody could give it back.
        for number in caught:
            signal.signal(number, signal.SIG_IGN if handler.over else before[number])
