"""A systemd unit as its manager shows it: whether it lives, who belongs to it, and how it ended.

Decides how properties are read. Does not ask for them: `hostler.adapters.systemctl` does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hostler.adapters.host import process_table
from hostler.adapters.host.process_table import Process
from hostler.domain.engine import ExitReport

CGROUPS: Final = Path("/sys/fs/cgroup")
PROPERTIES: Final = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "Job",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "InvocationID",
    "InactiveExitTimestampMonotonic",
    "ControlGroup",
    "UnitFileState",
    "FragmentPath",
    "NRestarts",
)
_EXITED, _KILLED, _DUMPED = 1, 2, 3
"""How waitid(2) names the ways in which a process ends (CLD_EXITED and the next)."""
_HINTS: Final[Mapping[str, str]] = {
    "oom-kill": "out of memory: the kernel killed it",
    "watchdog": "its unit's watchdog ended it",
    "timeout": "its unit's own time was up",
    "resources": "its unit could not get what it needs",
}
_STATUS_HINTS: Final[Mapping[int, str]] = {
    200: "its WorkingDirectory= is not there",
    203: "the program of ExecStart= cannot be run",
    217: "its User= is not there",
}
"""Statuses by which systemd itself says that it did not get as far as the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A unit at one moment. `main_pid` 0: none. `invocation` is its run's own id, empty when it forgot it."""

    load: str
    active: str
    sub: str
    result: str
    job: bool
    main_pid: int
    exit_code: int
    exit_status: int
    invocation: str
    begun_us: int
    group: str
    file_state: str
    file: str
    restarts: int

    @property
    def down(self) -> bool:
        """Whether its manager has nothing more to do with it: dead, and not to be started again."""
        return self.active in ("inactive", "failed")

    @property
    def lives(self) -> bool:
        """Whether it runs, comes up or goes down; not while it only waits to be started again."""
        return not self.down and not self.sub.startswith("auto-restart")

    def ended(self) -> ExitReport:
        """How its main process ended, as far as its manager kept it."""
        hint = _HINTS.get(self.result, "")
        if self.exit_code in (_KILLED, _DUMPED):
            return ExitReport(status=None, signal=self.exit_status, hint=hint)
        if self.exit_code == _EXITED:
            hint = hint or _STATUS_HINTS.get(self.exit_status, "")
            return ExitReport(status=self.exit_status, signal=None, hint=hint)
        return ExitReport(status=None, signal=None, hint=hint or "its unit kept no more of it")

    def started_at(self, process: Process | None) -> datetime:
        """When it was started: by its main process where there is one. Always the same for one run."""
        ticks = os.sysconf("SC_CLK_TCK")
        since_boot = process.start_ticks / ticks if process is not None else self.begun_us / 1e6
        return datetime.fromtimestamp(_booted() + since_boot, UTC)


def parse(told: Mapping[str, str]) -> Unit:
    """A unit from its properties; what a manager does not know yet is empty or 0."""
    return Unit(
        load=told.get("LoadState", ""),
        active=told.get("ActiveState", ""),
        sub=told.get("SubState", ""),
        result=told.get("Result", ""),
        job=_number(told, "Job") > 0,
        main_pid=_number(told, "MainPID"),
        exit_code=_number(told, "ExecMainCode"),
        exit_status=_number(told, "ExecMainStatus"),
        invocation=told.get("InvocationID", ""),
        begun_us=_number(told, "InactiveExitTimestampMonotonic"),
        group=told.get("ControlGroup", ""),
        file_state=told.get("UnitFileState", ""),
        file=told.get("FragmentPath", ""),
        restarts=_number(told, "NRestarts"),
    )


def _number(told: Mapping[str, str], name: str) -> int:
    value = told.get(name, "")
    return int(value) if value.isdigit() else 0


def members(group: str, main: Process | None, cgroups: Path = CGROUPS) -> frozenset[int]:
    """The pids of a unit: those of its control group, and where that cannot be read the main one's tree."""
    folder = group_folder(group, cgroups)
    if folder is not None:
        # A group that goes while it is looked at has no process: `os.walk` passes it over.
        return frozenset().union(*(_pids(Path(at, "cgroup.procs")) for at, _, _ in os.walk(folder)))
    if main is None or not process_table.alive(main.pid, main.start_ticks):
        return frozenset()
    return frozenset({main.pid} | process_table.descendants(process_table.everyone(), main.pid))


def group_folder(group: str, cgroups: Path = CGROUPS) -> Path | None:
    """The folder of a control group, in whichever hierarchy systemd keeps its units; None without one."""
    name = group.strip("/")
    if not name:
        return None
    found = (cgroups / hierarchy / name for hierarchy in ("", "unified", "systemd"))
    return next((path for path in found if (path / "cgroup.procs").exists()), None)


def _pids(path: Path) -> frozenset[int]:
    try:
        return frozenset(int(line) for line in path.read_text().split())
    except OSError:  # The group went with its last process, or is a threaded one, whose parent tells.
        return frozenset()


def _booted(root: Path = process_table.PROC) -> int:
    """When this machine was started, in seconds since the epoch, by the kernel's own account."""
    lines = (root / "stat").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("btime ")), 0)
