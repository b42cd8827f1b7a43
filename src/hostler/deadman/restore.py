"""The restore of one window on this host, from the written words alone (WIN-4, WIN-5, WIN-7).

Decides the order: the mode's engines end; the standing ones start one at a time, each seen to serve as itself
before the next; the verify commands run; only then the window's own hold is removed. What fails is told, and
keeps nothing else down; then the hold stays, at most to its expiry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hostler.deadman import asking, box, disk, engines, kernel
from hostler.deadman import written as files
from hostler.deadman.disk import Lines
from hostler.deadman.written import Engine, Written

IN_A_ROW: Final = 3
TRIES: Final = 3
PAUSE_S: Final = 2.0
REPORT_EVERY_S: Final = 5.0


@dataclass(slots=True)
class Restore:
    """One run. `failing` has one sentence for each thing that could not be seen to be back."""

    written: Written
    directory: Path
    cause: str
    lines: Lines
    failing: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, object]] = field(default_factory=dict)
    checks: list[dict[str, object]] = field(default_factory=list)

    def run(self) -> bool:
        """Restore, and write the report; whether everything was seen to be back."""
        begun = kernel.wall()
        marker = {"by": "deadman", "window": self.written.window, "cause": self.cause, "at": begun}
        disk.wrote(self.directory / files.TEARDOWN, marker)
        self.lines.add(did="begun", cause=self.cause)
        for engine in self.written.end:
            self._end(engine)
        for engine in self.written.start:
            self._bring_back(engine)
        self._verify()
        unheld = self._unhold()
        self.lines.add(did="over", verified=not self.failing)
        self._report(begun, unheld)
        return not self.failing

    # ------------------------------------------------------------ one engine

    def _row(self, engine: Engine) -> dict[str, object]:
        return self.rows.setdefault(engine.engine, {"engine": engine.engine})

    def _end(self, engine: Engine) -> None:
        was = True
        try:
            was = bool(engine.stop_argv) or engines.lives(engine)
            why = engines.end(engine) if was else None
        except Exception as error:  # noqa: BLE001 - one engine's trouble must not keep the others down
            why = f"{type(error).__name__}: {error}"
        self._row(engine)["down"] = why is None
        if why is None:
            self.lines.add(did="ended" if was else "was_down", engine=engine.engine)
        else:
            self._fail(f"{engine.engine} was not ended: {why}", engine=engine.engine)

    def _bring_back(self, engine: Engine) -> None:
        begun, taken = time.monotonic(), None
        try:
            before = kernel.available(self.written.meminfo)
            why = self._start(engine)
            after = kernel.available(self.written.meminfo)
            taken = None if before is None or after is None else before - after
        except Exception as error:  # noqa: BLE001 - one engine's trouble must not keep the others down
            why = f"{type(error).__name__}: {error}"
        self._row(engine).update(
            up=why is None,
            verified=why is None,
            seconds=round(time.monotonic() - begun, 3),
            memory=taken,
            why=why or "",
        )
        if why is None:
            self.lines.add(did="verified", engine=engine.engine)
        else:
            self._fail(f"{engine.engine} does not come back: {why}", engine=engine.engine)

    def _start(self, engine: Engine) -> str | None:
        """Start it and see it serve as itself: None, or what is seen instead. Up already is up."""
        if asking.look(engine) is None and (not engine.record or engines.lives(engine)):
            self.lines.add(did="was_up", engine=engine.engine)
            return self._proven(engine, time.monotonic() + engine.budget_s)
        self._wait_for_hold(engine)
        why: str | None = "it was not tried"
        for attempt in range(TRIES):
            if attempt:
                kernel.pause(PAUSE_S)
            why = self._room(engine) or engines.command(engine.argv, engine.env, engine.cwd, engine.budget_s)
            if why is None:
                self.lines.add(did="started", engine=engine.engine, attempt=attempt + 1)
                why = self._proven(engine, time.monotonic() + engine.budget_s)
            if why is None:
                return None
            left = engines.end(engine)  # What a failed start leaves would take the others' memory.
            self.lines.add(did="start_failed", engine=engine.engine, why=why, left=left or "")
        return why

    def _proven(self, engine: Engine, deadline: float) -> str | None:
        """Ready three times in a row, a look apart, and one piece of work (LEASE-13)."""
        row, seen = 0, "it was not looked at"
        while True:
            look = asking.look(engine)
            row, seen = (row + 1, seen) if look is None else (0, look)
            if row >= IN_A_ROW:
                failed = asking.work(engine)
                if failed is None:
                    return None
                row, seen = 0, failed
            run = engines.run_of(engine) if engine.record else None
            if run is not None and run.ended:
                return f"it ended: {seen}"
            if time.monotonic() >= deadline:
                return f"not ready after {engine.budget_s:.0f} s: {seen}"
            kernel.pause(self.written.look_s)

    def _room(self, engine: Engine) -> str | None:
        """None once there is memory for it, else the sum: nothing is started on hope (EVICT-3)."""
        waited = self.written.memory_s
        deadline = time.monotonic() + waited
        while True:
            found = kernel.available(self.written.meminfo)
            if engine.need is None or found is None or engine.need <= found:
                return None
            if time.monotonic() >= deadline:
                return (
                    f"it needs {_gib(engine.need)} GiB, and {_gib(found)} are available after {waited:.0f} s"
                )
            kernel.pause(self.written.look_s)

    def _wait_for_hold(self, engine: Engine) -> None:
        """While somebody else holds this host nothing is started (the gate's one other starter)."""
        told = ""
        while (owner := box.in_the_way(self.written.hold, engine.engine)) is not None:
            if owner != told:
                self.lines.add(did="waiting", engine=engine.engine, why=f"{owner} holds {self.written.host}")
                told = owner
            kernel.pause(self.written.look_s)

    # ------------------------------------------------------------ what follows

    def _verify(self) -> None:
        for check in self.written.verify:
            why = engines.command(check.argv, check.env, "/", check.timeout_s)
            self.checks.append({"program": check.argv[0], "ok": why is None, "why": why or ""})
            if why is None:
                self.lines.add(did="checked", program=check.argv[0])
            else:
                self._fail(f"a verify command failed: {why}", program=check.argv[0])

    def _unhold(self) -> str:
        """Remove the window's own hold, if all is back: `removed`, `not ours` or `kept`."""
        if self.failing:
            return "kept"
        try:
            gone = box.remove_own(self.written.hold)
        except OSError as error:
            self._fail(f"the hold was not removed: {error.strerror}")
            return "kept"
        self.lines.add(did="unheld" if gone else "not_held")
        return "removed" if gone else "not ours"

    def _fail(self, why: str, **facts: object) -> None:
        self.failing.append(why)
        self.lines.add(did="failed", why=why, **facts)

    def _report(self, begun: str, unheld: str) -> None:
        """Write the report. A disk that is full keeps this process: without it nobody knows what was done."""
        report = {
            "v": 1,
            "window": self.written.window,
            "mode": self.written.mode,
            "host": self.written.host,
            "by": "deadman",
            "cause": self.cause,
            "begun_at": begun,
            "ended_at": kernel.wall(),
            "verified": not self.failing,
            "failing": self.failing,
            "engines": list(self.rows.values()),
            "verify": self.checks,
            "hold": unheld,
        }
        keep_trying(lambda: self._told(report))

    def _told(self, report: dict[str, object]) -> bool:
        if not self.directory.is_dir():
            disk.say(f"{self.directory} is gone: nobody can be told in it")
            return True
        self.lines.flush()
        return disk.wrote(self.directory / files.REPORT, report)


def _gib(size: int) -> str:
    """A size for people, in GiB."""
    return f"{size / (1 << 30):.1f}"


def keep_trying(work: Callable[[], bool]) -> None:
    """Do it until it is done."""
    while not work():
        kernel.pause(REPORT_EVERY_S)
