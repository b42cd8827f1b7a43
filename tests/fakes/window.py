"""A window of one test: real engines, a written restore as the daemon writes it, and its real deadman."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NotRequired, TypedDict

from hostler.adapters.deadmen import SystemDeadmen
from hostler.adapters.host import process_table
from hostler.deadman import kernel, written
from hostler.domain.engine import Launch, Run
from hostler.services.deadman_needs import Check, DeadmanState, Orders, PhaseName, Words
from tests.adapters.driver_conformance import ProcessRig, process_rig, start_ready
from tests.fakes.fake_engine import eventually


class Row(TypedDict):
    """A line of `restore.ndjson`."""

    at: str
    boot_s: float
    did: str
    engine: NotRequired[str]


WINDOW: Final = "lease_1"
FAR_S: Final = 3600.0


@dataclass(slots=True)
class Daemon:
    """A process that stands for the daemon: it leads a process group and writes nothing by itself."""

    process: subprocess.Popen[bytes]

    def note(self, place: Path, phase: PhaseName, *, beat_s: float | None = None) -> None:
        """The phase as that daemon writes it."""
        found = process_table.read(self.process.pid)
        assert found is not None
        row = {
            "phase": phase,
            "pid": found.pid,
            "ticks": found.start_ticks,
            "boot_id": kernel.boot_id(),
            "beat_s": kernel.boot_s() if beat_s is None else beat_s,
        }
        beside = place / "phase.new"
        beside.write_text(json.dumps(row))
        beside.replace(place / written.PHASE)

    def kill(self) -> None:
        """Killed with its whole process group, and reaped."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self) -> None:
        """Stopped, not dead."""
        os.kill(self.process.pid, signal.SIGSTOP)


@dataclass(kw_only=True)
class Window:
    """The window `lease_1`: `heavy` is the mode's engine, `small` the standing one."""

    root: Path
    rig: ProcessRig
    daemon: Daemon
    deadmen: SystemDeadmen
    hold: Path
    heavy: Launch
    small: Launch
    release: Callable[[], None] = lambda: None

    @property
    def place(self) -> Path:
        """Its directory."""
        return self.root / "windows" / WINDOW

    def words(self, launch: Launch, *, budget_s: float = 30.0, need: int | None = None) -> Words:
        """An engine as the daemon writes it down."""
        return Words(
            launch=launch,
            restore=self.rig.driver.restore(launch),
            stop_timeout_s=2.0,
            budget_s=budget_s,
            task="chat",
            need=need,
        )

    def orders(
        self,
        *,
        cap_s: float = FAR_S,
        grace_s: float = 60.0,
        start: tuple[Words, ...] | None = None,
        verify: tuple[Check, ...] = (),
    ) -> Orders:
        """What it is armed with."""
        return Orders(
            window=WINDOW,
            mode="heavy",
            host="crow",
            cap_s=cap_s,
            grace_s=grace_s,
            look_s=0.05,
            memory_s=0.1,
            end=(self.words(self.heavy),),
            start=start if start is not None else (self.words(self.small),),
            verify=verify,
        )

    async def arm(self, orders: Orders, phase: PhaseName = "open", *, claim: bool = False) -> tuple[int, int]:
        """Written and started; the phase is the daemon's. Pid and start time of the deadman.

        `claim`: before it is started the daemon has the restore lock, until `release`.
        """
        self.deadmen.write(orders)
        self.daemon.note(self.place, phase)
        if claim:
            release = self.deadmen.claim(WINDOW)
            assert release is not None
            self.release = release
        await self.deadmen.start(WINDOW)
        mark = json.loads((self.place / written.DEADMAN).read_bytes())
        return mark["pid"], mark["ticks"]

    async def run(self, launch: Launch) -> Run:
        """An engine that serves."""
        return await start_ready(self.rig.driver, launch)

    async def up(self, launch: Launch) -> Run | None:
        """Who runs it."""
        return await self.rig.driver.adopt(launch)

    def report(self) -> dict[str, object]:
        """The deadman's report."""
        found: dict[str, object] = json.loads((self.place / written.REPORT).read_text())
        return found

    async def restored(self) -> dict[str, object]:
        """The report, once it is there."""
        await eventually((self.place / written.REPORT).exists, f"a report: {self.words_of_it()}")
        return self.report()

    def failing(self) -> list[str]:
        """What the report says was not seen to be back."""
        found = self.report()["failing"]
        assert isinstance(found, list)
        return found

    def rows(self) -> list[Row]:
        """`restore.ndjson`."""
        path = self.place / written.DONE
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def did(self) -> list[str]:
        """What was done, in order: `ended heavy`."""
        return [" ".join(filter(None, (row["did"], row.get("engine")))) for row in self.rows()]

    def hours_off(self) -> int:
        """By how many whole hours the deadman's wall clock differs from this one."""
        at = datetime.fromisoformat(self.rows()[0]["at"])
        return round((at - datetime.now(UTC)).total_seconds() / 3600)

    def wrap_python(self, environment: str) -> None:
        """The deadman's interpreter gets these variables."""
        script = self.root / "python"
        script.write_text(f'#!/bin/sh\nexec env {environment} {self.deadmen.python} "$@"\n')
        script.chmod(0o700)
        self.deadmen = replace(self.deadmen, python=str(script))

    async def gone(self) -> None:
        """Return once no deadman of it lives."""
        await eventually(lambda: not self.state.alive, "its deadman is gone")

    async def said(self, text: str) -> None:
        """Return once the deadman said so in its log."""
        await eventually(lambda: text in self.words_of_it(), f"it says {text}")

    @property
    def state(self) -> DeadmanState:
        """What is seen of it now."""
        found = self.deadmen.state(WINDOW)
        assert found is not None
        return found

    def words_of_it(self) -> str:
        """The deadman's log."""
        log = self.place / written.LOG
        return log.read_text() if log.exists() else ""

    def write_hold(self, lease: str | None, *, owner: str = "bench", seconds: float = 600.0) -> None:
        """A hold record at its place."""
        record = {"owner": owner, "expires_at": _later(seconds)} | ({"lease": lease} if lease else {})
        self.hold.write_text(json.dumps(record))
        self.hold.chmod(0o600)


def _later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@contextmanager
def daemon() -> Iterator[Daemon]:
    """A process that leads a session of its own, killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    found = Daemon(process)
    try:
        yield found
    finally:
        found.kill()


@asynccontextmanager
async def window(root: Path, *, real: bool = False) -> AsyncIterator[Window]:
    """A window whose engines and deadman are ended at the end."""
    async with process_rig(root, real=real) as rig:
        hold = root / "hold" / "box.json"
        hold.parent.mkdir()
        with daemon() as process:
            it = Window(
                root=root,
                rig=rig,
                daemon=process,
                deadmen=SystemDeadmen(root=root, host="crow", hold_path=hold, environment=os.environ),
                hold=hold,
                heavy=rig.launch("heavy"),
                small=rig.launch("small"),
            )
            try:
                yield it
            finally:
                left = await it.deadmen.end(WINDOW)
                assert left is None, left
