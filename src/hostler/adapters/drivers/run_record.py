"""What a supervisor wrote about its engine (`run.json`), and what it is told to run (`spec.json`).

Decides how both files are read and written. Whether the processes that they name still live is asked
elsewhere: a record is a claim, the process table is the proof.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from hostler.domain.engine import ExitReport, Launch, Run, Served, served_of
from hostler.domain.values import EngineId, whole

RUN_FILE: Final = "run.json"
LOCK_FILE: Final = "run.lock"
FORMAT: Final = 1
PASSED_ON: Final = ("PATH", "HOME", "LANG", "TZ", "XDG_RUNTIME_DIR")
"""All that an engine gets of our own environment (ENG-2)."""
SIGKILL: Final = 9
MOST_PORT: Final = 65535
MOST_PID: Final = (1 << 31) - 1
MOST_TICKS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One `run.json`: who ran, the inode of the pipe that its output goes into, how it ended if it has."""

    run: Run
    output: int | None
    argv_sha256: str
    ended: ExitReport | None


def clean_environment(ours: Mapping[str, str], engines: Mapping[str, str]) -> dict[str, str]:
    """PATH HOME LANG TZ XDG_RUNTIME_DIR of ours, and the engine's own `env:` over it (ENG-2)."""
    return {name: ours[name] for name in PASSED_ON if name in ours} | dict(engines)


def write_spec(path: Path, launch: Launch, environment: Mapping[str, str]) -> None:
    """What `supervisor.py` shall run, whole and readable by its user only: it may hold keys (SEC-1)."""
    spec = {
        "engine": launch.engine,
        "argv": list(launch.argv),
        "argv_sha256": digest(launch),
        "env": dict(environment),
        "cwd": launch.cwd,
        "directory": launch.directory,
        "port": launch.port,
        "served": served_to_json(launch),
        "log_size": launch.log_size,
        "log_files": launch.log_files,
    }
    part = path.with_name(f"{path.name}.part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(spec, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def digest(launch: Launch) -> str:
    """SHA-256 of the argv: whether what runs is what the config says now."""
    return hashlib.sha256(b"\0".join(one.encode() for one in launch.argv)).hexdigest()


def load(directory: Path, driver: str) -> Record | None:
    """The record in `directory`; None when there is none, or one that cannot be understood names nobody."""
    try:
        value = json.loads((directory / RUN_FILE).read_bytes())
        return parse(value, driver)
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def parse(value: object, driver: str) -> Record:
    """A decoded `run.json` as a record. Raises ValueError, TypeError or KeyError for anything else."""
    if not isinstance(value, dict) or value["v"] != FORMAT:
        raise ValueError("not a run record of a known format")
    output = str(value["output"])
    inode = output.removeprefix("pipe:[").removesuffix("]")
    run = Run(
        engine=EngineId(str(value["engine"])),
        driver=driver,
        pid=number(value["pid"], MOST_PID),
        start_ticks=number(value["start_ticks"], MOST_TICKS),
        supervisor_pid=number(value["supervisor_pid"], MOST_PID),
        supervisor_ticks=number(value["supervisor_ticks"], MOST_TICKS),
        boot_id=str(value["boot_id"]),
        port=number(value["port"], MOST_PORT),
        started_at=datetime.fromisoformat(str(value["started_at"])),
        served=served_from_json(value.get("served")),
    )
    return Record(
        run=run,
        output=int(inode) if inode.isdigit() else None,
        argv_sha256=str(value["argv_sha256"]),
        ended=_ended(value["exit"]),
    )


def number(value: object, most: int) -> int:
    """A whole number from 0 to `most`. Raises ValueError for anything else."""
    found = whole(value, 0, most)
    if found is None:
        raise ValueError(f"{value!r} is no number from 0 to {most}")
    return found


def served_to_json(launch: Launch) -> Mapping[str, object]:
    """How `launch` answers, as records keep it beside the identity of what was started."""
    return asdict(served_of(launch))


def served_from_json(value: object) -> Served | None:
    """What `served_to_json` wrote. None for a record of an earlier version, or what cannot be understood."""
    try:
        found = msgspec.convert(value, Served)
    except msgspec.ValidationError:
        return None
    return found if 0 <= found.port <= MOST_PORT else None


def _ended(value: object) -> ExitReport | None:
    if not isinstance(value, dict):
        return None
    status, number = value["status"], value["signal"]
    return ExitReport(
        status=None if status is None else int(status),
        signal=None if number is None else int(number),
        hint=_hint(number, int(value["oom_kills"])),
    )


def _hint(number: object, oom_kills: int) -> str:
    """The kernel counts its kills but not by victim: a SIGKILL beside one is a strong hint, no more."""
    if number == SIGKILL and oom_kills > 0:
        return f"out of memory: the kernel killed {oom_kills} while it ran"
    return ""
