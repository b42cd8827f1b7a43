"""A window of one test: real engines, a written restore as the daemon writes it, and its real deadman."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from hostler.adapters.deadmen import SystemDeadmen
from hostler.adapters.host import process_table
from hostler.deadman import kernel, written
from hostler.domain.engine import Launch, Run
from hostler.services.deadman_needs import Check, Orders, PhaseName, Words
from tests.adapters.driver_conformance import ProcessRig, process_rig, start_ready
from tests.fakes.fake_engine import eventually

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

    async def arm(self, orders: Orders, phase: PhaseName = "open") -> tuple[int, int]:
        """Written and started; the phase is the daemon's. Pid and start time of the deadman."""
        self.deadmen.write(orders)
        self.daemon.note(self.place, phase)
        await self.deadmen.start(WINDOW)
        state = self.deadmen.state(WINDOW)
        assert state is not None
        assert state.pid is not None
        found = process_table.read(state.pid)
        assert found is not None
        return found.pid, found.start_ticks

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

    def did(self) -> list[str]:
        """What was done, in order: `ended heavy`."""
        path = self.place / written.DONE
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [" ".join(filter(None, (row["did"], row.get("engine")))) for row in rows]

    def words_of_it(self) -> str:
        """The deadman's log."""
        log = self.place / written.LOG
        return log.read_text() if log.exists() else ""

    def write_hold(self, lease: str | None, *, owner: str = "bench", seconds: float = 600.0) -> None:
        """A hold record at its place."""
        record = {"owner": owner, "expires_at": _later(seconds)} | ({"lease": lease} if lease else {})
        self.hold.write_text(json.dumps(record))
        self.hold.chmod(0o600)

    async def close(self) -> None:
        """Nothing of it runs any more."""
        left = await self.deadmen.end(WINDOW)
        assert left is None, left
        self.daemon.kill()


def _later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@asynccontextmanager
async def window(root: Path, *, real: bool = False) -> AsyncIterator[Window]:
    """A window whose engines and deadman are ended at the end."""
    async with process_rig(root, real=real) as rig:
        process = subprocess.Popen(  # noqa: ASYNC220 - it is signalled and reaped at once
            [sys.executable, "-c", "import time; time.sleep(600)"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        hold = root / "hold" / "box.json"
        hold.parent.mkdir()
        it = Window(
            root=root,
            rig=rig,
            daemon=Daemon(process),
            deadmen=SystemDeadmen(root=root, host="crow", hold_path=hold, environment=os.environ),
            hold=hold,
            heavy=rig.launch("heavy"),
            small=rig.launch("small"),
        )
        try:
            yield it
        finally:
            await it.close()
