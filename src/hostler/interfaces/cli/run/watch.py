"""The one loop of `hostler run`: child, signals, lease and time, until the child's whole group is gone.

Decides when the child must end: when the lease is lost, by the head's word or because it was not renewed in
time (LEASE-22), and when the child's first process has ended but others of its group stay. Signals are passed
on; every line is passed through at once.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, Literal

from hostler.client.machine import elapsed
from hostler.client.trust import time_up
from hostler.domain.values import shorten
from hostler.interfaces.cli.failure import complain
from hostler.interfaces.cli.run.beating import Beating
from hostler.interfaces.cli.run.child import Child, Stopped
from hostler.interfaces.cli.run.lines import LONGEST_LINE, Said, Tail, meant

GRACE_S: Final = 10.0
"""Between SIGTERM and SIGKILL."""
GONE_S: Final = 5.0
"""How long a killed group may take to be gone; then it is left to the node (JOB-5)."""
LOOK_S: Final = 0.05
"""How often a group that is ending is looked at."""
AGAIN_S: Final = 1.0
"""How long until a beating process that ended is started again."""
ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
PASSED_ON: Final = (
    *sorted(ENDING),
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGTSTP,
    signal.SIGCONT,
)

OnLost = Literal["stop", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How it went: the child's exit code, why the lease was lost, whether a signal to end was passed on.

    `left` processes of its group would not go.
    """

    code: int
    lost: str | None
    told_to_end: bool
    left: int


@dataclass(eq=False, slots=True, kw_only=True)
class Watch:
    """A child under a lease. `until` is when the lease is trusted no more (elapsed seconds), None: never.

    `limited_by` is what bounds the lease so that no renewal moves its end; empty where one would.
    """

    child: Child
    beating: Beating
    signals: int
    tell: Callable[[Said], None]
    tail: Tail
    on_lost: OnLost
    until: float | None
    grace_s: float = GRACE_S
    code: int | None = None
    lost: str | None = None
    told_to_end: bool = False
    told_to_stop: bool = False
    limited_by: str = ""
    _kill_at: float | None = None
    _give_up_at: float | None = None
    _beat_at: float | None = None
    _part: bytes = b""
    _trouble: str = ""
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def run(self) -> Ran:
        """Until the child's group is gone, or would not go."""
        with self._selector:
            self._selector.register(self.signals, selectors.EVENT_READ, self._on_signals)
            self._selector.register(self.child.stderr, selectors.EVENT_READ, self._on_line)
            self._selector.register(self.beating, selectors.EVENT_READ, self._on_beat)
            while not self._over():
                for key, _ in self._selector.select(self._timeout()):
                    key.data()
                self._tick(elapsed())
        self._drain()
        return Ran(
            code=self.code if self.code is not None else 1,
            lost=self.lost,
            told_to_end=self.told_to_end,
            left=self.child.left(),
        )

    # ------------------------------------------------------------ time

    def _timeout(self) -> float | None:
        """Seconds until something must be looked at though nothing was heard."""
        now = elapsed()
        until = self.until if self.lost is None and self.code is None else None
        at = [it for it in (until, self._kill_at, self._give_up_at, self._beat_at) if it is not None]
        if self.code is not None or self._give_up_at is not None:
            at.append(now + LOOK_S)
        return max(0.0, min(at) - now) if at else None

    def _tick(self, now: float) -> None:
        # First the time: a child that its node killed at the end of the lease ended because of that (F03).
        if self.lost is None and self.code is None and self.until is not None and now >= self.until:
            self._lose(time_up(self.limited_by) or "it was not renewed in time", now)
        self._reap(now)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at, self._give_up_at = None, now + GONE_S
            self.child.send(signal.SIGKILL)
        if self._beat_at is not None and now >= self._beat_at:
            self._beat_at = None
            self.beating.start()
            self._selector.register(self.beating, selectors.EVENT_READ, self._on_beat)

    def _reap(self, now: float) -> None:
        if self.code is not None:
            return
        try:
            self.code = self.child.reap()
        except Stopped:
            if self.told_to_stop or self.child.terminal is not None:
                self.told_to_stop = False
                self.child.pause()
            return
        if self.code is not None and self._kill_at is None and self.child.left():
            # What it left behind would go on under a lease that is about to end.
            self._end(now)

    def _over(self) -> bool:
        if self.code is None:
            return False
        return self.child.left() == 0 or (self._give_up_at is not None and elapsed() >= self._give_up_at)

    def _end(self, now: float) -> None:
        self.child.end()
        self._kill_at = now + self.grace_s

    # ------------------------------------------------------------ lease

    def _on_beat(self) -> None:
        said = self.beating.read()
        if said is None:
            self._selector.unregister(self.beating)
            self.beating.end()
            # One that ended by itself is started again; whether in time is the deadline's affair.
            self._beat_at = elapsed() + AGAIN_S if self.lost is None else None
            return
        for beat in said:
            if beat.trusted:
                self.until, self.limited_by, self._trouble = beat.until, beat.limited_by, ""
            if beat.trouble is not None and beat.trouble != self._trouble:
                self._trouble = beat.trouble
                _say(shorten(beat.trouble, 300))
            if beat.lost is not None:
                self._lose(beat.lost, elapsed())

    def _lose(self, why: str, now: float) -> None:
        if self.lost is not None:
            return
        self.lost = why
        told = "the command is ended" if self.on_lost == "stop" else "the command goes on"
        _say(f"the lease is lost: {shorten(why, 300)}; {told}")
        if self.on_lost == "stop" and self.code is None:
            self._end(now)

    # ------------------------------------------------------------ signals

    def _on_signals(self) -> None:
        for number in os.read(self.signals, 512):
            if number == signal.SIGCHLD:
                continue
            self.told_to_end = self.told_to_end or number in ENDING
            self.told_to_stop = self.told_to_stop or number == signal.SIGTSTP
            self.child.send(number)

    # ------------------------------------------------------------ lines

    def _on_line(self) -> None:
        data = os.read(self.child.stderr.fileno(), 65536)
        if not data:
            self._selector.unregister(self.child.stderr)
            return
        self._pass(data)

    def _pass(self, data: bytes) -> None:
        _through(data)
        *lines, part = (self._part + data).split(b"\n")
        self._part = part[-LONGEST_LINE:]
        for line in lines:
            self._heard(line)

    def _heard(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        said = meant(text) if len(line) <= LONGEST_LINE else None
        if said is not None:
            self.tell(said)
        self.tail.add(text)

    def _drain(self) -> None:
        """What is still in the pipe; a process that left the group may keep it open for ever."""
        handle = self.child.stderr.fileno()
        os.set_blocking(handle, False)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(handle, 65536):
                self._pass(data)
        if self._part:
            self._heard(self._part)


@contextlib.contextmanager
def collected() -> Iterator[int]:
    """Signals as bytes on a pipe, whose reading end this gives; those that were ignored stay so (nohup)."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    os.set_blocking(theirs, False)
    before = {number: signal.getsignal(number) for number in (*PASSED_ON, signal.SIGCHLD)}
    caught = [number for number in before if before[number] is not signal.SIG_IGN]
    fd = signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    for number in caught:
        signal.signal(number, _heard)
    try:
        yield ours
    finally:
        for number in caught:
            signal.signal(number, before[number])
        signal.set_wakeup_fd(fd)
        os.close(ours)
        os.close(theirs)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """The pipe has it."""


def _through(data: bytes) -> None:
    """What the child said, on our own stderr; one that nobody reads any more stops nothing."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(sys.stderr.fileno(), data) :]


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        complain(f"hostler: {text}")
