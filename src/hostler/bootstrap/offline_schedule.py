"""The schedule's files for commands that need no daemon (INTERFACE-3): its history, and a backup put back.

Decides where they are, by the config, and that nothing is put back while a daemon of this state directory
runs. What is done with the files is `hostler.adapters`'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hostler.adapters import daemon_file, daemon_lock
from hostler.adapters.clock import SystemClock
from hostler.adapters.history import HistoryFiles
from hostler.adapters.ids import SystemIds
from hostler.adapters.store import care
from hostler.bootstrap.offline import offline_config
from hostler.domain.errors import DaemonRuns, ScheduleUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFiles:
    """The need `OfflineSchedule`, from the places that the config names."""

    env: Mapping[str, str]

    def history(
        self, *, lease: str | None, job: str | None, since_s: float | None
    ) -> Sequence[Mapping[str, object]]:
        files = HistoryFiles(folder=Path(self._places()["history"]))
        since = None if since_s is None else SystemClock().now() - timedelta(seconds=since_s)
        try:
            return files.read(lease=lease, job=job, since=since)
        except OSError as error:
            why = f"the history: {error.strerror}"
            raise ScheduleUnavailable(why=why, file=str(error.filename)) from error

    def restore(self, file: str) -> Mapping[str, object]:
        places = self._places()
        state = Path(places["state_dir"])
        _refuse_while_running(state)
        lock = daemon_lock.take(Path(places["daemon_lock"]), state)
        try:
            present = care.file_at(Path(places["schedule_db"]), SystemIds())
            begun = care.restore(present, Path(file), now=SystemClock().now())
        finally:
            lock.release()
        return {"file": places["schedule_db"], "epoch": begun.epoch, "kept_as": begun.aside}

    def _places(self) -> Mapping[str, str]:
        return offline_config(self.env).paths(None, None)


def offline_schedule(env: Mapping[str, str]) -> ScheduleFiles:
    """What `history --offline` and `schedule restore` need. Reads nothing before it is asked."""
    return ScheduleFiles(env=env)


def _refuse_while_running(state: Path) -> None:
    """Refuse `daemon_runs`; also for a daemon that orchestrates nothing, which has no lock (CONF-5)."""
    pid = daemon_file.running(state)
    if pid is not None:
        raise DaemonRuns(pid=pid, where=f"state directory {state}")
