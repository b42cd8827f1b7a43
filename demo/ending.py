"""Ends a demo that was left running: its windows, its daemon, whatever of it lives, its directory.

Decides the order. A window goes first: its deadman would put back at its cap what was ended, in a
directory that is gone. Each process is ended by its own id, and the directory goes
only when nothing of it lives.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from demo.real_engine import fake
from demo.show import Show
from demo.stage import MARK, DemoError, Stage
from hostler.adapters.deadmen import SystemDeadmen
from hostler.adapters.host import process_table

GONE_S = 40.0
"""The daemon lets streams finish and stops its engines; each has ten seconds of its own."""


@dataclass(kw_only=True)
class Ending:
    """One demo's end, by the directory that it printed."""

    root: Path
    show: Show

    def run(self) -> None:
        """All of it, in order. DemoError, and the directory stays, where something of it does not end."""
        if not (self.root / MARK).is_file():
            raise DemoError(f"{self.root} is no directory of a demo, and stays as it is")
        stage = Stage(engine=fake(), root=self.root)
        listen = json.loads(stage.config.read_text(encoding="utf-8"))["node"]["listen"]
        stage.port = int(listen.rpartition(":")[2])
        pid = self._daemon(stage)
        if pid is not None:
            self._windows(stage)
            self._stop(pid)
        asyncio.run(self._deadmen())
        stage.end_engines()
        self._until("what runs from it ends", lambda: not self.left())
        shutil.rmtree(self.root)
        self.show.line(f"{self.root} is gone, and nothing of it runs.")

    def left(self) -> dict[int, str]:
        """What runs of it, by pid: its deadmen, and what has the directory in its command line."""
        own = os.getpid()
        found = {pid: _words(pid) for pid in process_table.everyone() if pid != own}
        mine = {pid: words for pid, words in found.items() if f"{self.root}/" in words}
        deadmen = self._known().windows()
        return mine | {it.pid: f"the deadman of {it.window}" for it in deadmen if it.pid is not None}

    def _known(self) -> SystemDeadmen:
        hold = Stage(engine=fake(), root=self.root).hold
        return SystemDeadmen(root=self.root / "state", host="", hold_path=hold, environment={})

    def _daemon(self, stage: Stage) -> tuple[int, int] | None:
        """The daemon's pid and start time; None where none answers."""
        told = stage.command("status", "--json")
        if told.returncode != 0:
            return None
        process = process_table.read(int(json.loads(told.stdout)["daemon"]["pid"]))
        return None if process is None else (process.pid, process.start_ticks)

    def _windows(self, stage: Stage) -> None:
        told = stage.command("window", "status", "--json")
        if told.returncode != 0:
            raise DemoError(f"its windows are not known: {told.stderr.strip()}")
        for window in json.loads(told.stdout)["leases"]:
            self.show.line(f"The window {window['id']} is aborted; all that it stopped comes back first.")
            ended = stage.command("window", "abort", window["id"], "--because", "the demo ends")
            if ended.returncode != 0:
                raise DemoError(f"its window is not over: {ended.stderr.strip()}")

    def _stop(self, daemon: tuple[int, int]) -> None:
        process_table.send(*daemon, signal.SIGTERM)
        self._until("its daemon ends", lambda: not process_table.alive(*daemon))

    async def _deadmen(self) -> None:
        """Those whose window no daemon could end any more."""
        deadmen = self._known()
        for it in deadmen.windows():
            if it.alive:
                why = await deadmen.end(it.window)
                if why is not None:
                    raise DemoError(f"the deadman of {it.window} does not end: {why}")

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + GONE_S
        while not holds():
            if time.monotonic() > end:
                named = "; ".join(f"{pid}: {words[:80]}" for pid, words in self.left().items())
                raise DemoError(f"not seen within {GONE_S:.0f} s: {what}. {self.root} stays. {named}")
            time.sleep(0.1)


def _words(pid: int) -> str:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # It has ended since.
        return ""
    return raw.replace(b"\0", b" ").decode("utf-8", "replace")
