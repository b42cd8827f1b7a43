"""The deadman's process: it leaves whoever started it, says who it is, looks each second, and acts once.

Decides nothing about time: `when` does. A signal that would end it is told and passed over; whoever may end
it (the daemon, by pid and start time) kills it.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from hostler.deadman import disk, kernel, written
from hostler.deadman.restore import Restore
from hostler.deadman.when import Act, Seen, Times, decide, died_at, may_take_over
from hostler.deadman.written import Written

BOTH: Final = "both_dead"
"""The cause where a daemon asks for it as it starts: neither daemon nor deadman was left (WIN-11)."""
HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(slots=True)
class Deadman:
    """One window's deadman on this host."""

    written: Written
    directory: Path
    told: set[str] = field(default_factory=set)

    def watch(self) -> None:
        """Look each second until there is something to do, then do it."""
        times = Times(cap_s=self.written.cap_s, grace_s=self.written.grace_s)
        died: float | None = None
        while True:
            now, seen = kernel.boot_s(), written.seen(self.directory)
            died = died_at(died, seen, now)
            if died is not None:
                self._once(
                    f"the daemon died while {seen.phase}: in {times.grace_s:g} s this host is restored"
                )
            act = decide(times, seen, died, now)
            if act is Act.LEAVE:
                disk.say(f"window {self.written.window} is over; nothing is left to do")
                return
            if act.restores and self._restored(act, seen, times, now):
                return
            until_cap, look = times.cap_s - now, self.written.look_s
            kernel.pause(min(look, until_cap) if until_cap > 0 else look)

    def _restored(self, act: Act, seen: Seen, times: Times, now: float) -> bool:
        """Whether it was restored, by this process or by somebody before; False while somebody is at it."""
        over = may_take_over(times, seen, act, now)
        lock = disk.claim(self.directory / written.LOCK, take_over=over)
        if lock is None:
            self._once("the daemon restores just now; this waits")
            return False
        self.restore(act.value)
        return True

    def _once(self, text: str) -> None:
        if text not in self.told:
            self.told.add(text)
            disk.say(text)

    def restore(self, cause: str) -> None:
        """Restore now, unless a verified report says that it is done (WIN-7)."""
        lines = disk.Lines(path=self.directory / written.DONE)
        if reported(self.directory):
            lines.add(did="already_restored")
            return
        Restore(written=self.written, directory=self.directory, cause=cause, lines=lines).run()


def reported(directory: Path) -> bool:
    """Whether a report says that this host was restored and verified."""
    try:
        return json.loads((directory / written.REPORT).read_bytes())["verified"] is True
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return False


def main(place: str, *, at_once: bool) -> int:
    """Start the deadman of the window in the directory `place`, and wait until it has said how that went.

    One JSON object on standard output, `deadman.json`'s or {"error"}; 0 or 1. `at_once`: it restores now.
    """
    os.closerange(3, 4096)
    listener, answer = os.pipe()
    if os.fork() == 0:
        os.close(listener)
        _stay(Path(place).absolute(), answer, at_once=at_once)
    os.close(answer)
    with os.fdopen(listener, "rb") as file:
        told = file.read().decode()
    sys.stdout.write(told or json.dumps({"error": "the deadman ended before it could tell"}))
    return 0 if told and "error" not in json.loads(told) else 1


def _stay(directory: Path, answer: int, *, at_once: bool) -> NoReturn:
    """The second process: never returns into the first one's code; a bug leaves its trace in the log."""
    code = 70
    try:
        code = _be(directory, answer, at_once=at_once)
    except BaseException:  # noqa: BLE001 - whatever it is, it must be written before the process is gone
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(code)


def _be(directory: Path, answer: int, *, at_once: bool) -> int:
    """Leave the session, be the only one of this window, tell `answer`, and stay."""
    os.setsid()
    for number in HEARD:
        signal.signal(number, lambda heard, _: disk.say(f"signal {heard} is passed over"))
    try:
        mine = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _to_the_log(directory)
        deadman = Deadman(written=written.load(directory), directory=directory)
        if deadman.written.boot_id != kernel.boot_id():
            raise ValueError("it was armed before the machine's last start")
        mark = _mark(deadman.written)
        if not disk.wrote(directory / written.DEADMAN, mark) and not at_once:
            raise OSError(28, f"{written.DEADMAN} cannot be written")
    except BlockingIOError:
        _tell(answer, {"error": "another deadman of this window runs already"})
        return 1
    except (OSError, ValueError) as error:
        _tell(answer, {"error": str(error)})
        return 1
    _tell(answer, mark)
    if at_once:
        _wait_for_lock(deadman)
        deadman.restore(BOTH)
    else:
        deadman.watch()
    return 0


def _wait_for_lock(deadman: Deadman) -> None:
    while disk.claim(deadman.directory / written.LOCK, take_over=False) is None:
        kernel.pause(deadman.written.look_s)


def _to_the_log(directory: Path) -> None:
    """Standard input from nowhere, output to nowhere, errors and words into the log."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(directory / written.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for handle, place in ((null, 0), (null, 1), (log, 2)):
        os.dup2(handle, place)
    os.chdir("/")


def _mark(orders: Written) -> dict[str, object]:
    """Who this is, and until when it waits at most."""
    me = kernel.read(os.getpid())
    return {
        "window": orders.window,
        "pid": os.getpid(),
        "ticks": me.ticks if me is not None else 0,
        "boot_id": kernel.boot_id(),
        "cap_s": orders.cap_s,
        "at": kernel.wall(),
    }


def _tell(answer: int, value: dict[str, object]) -> None:
    """One JSON object to the command that waits; it may be gone, which changes nothing."""
    try:
        os.write(answer, json.dumps(value).encode())
    except BrokenPipeError:
        return
    finally:
        os.close(answer)
