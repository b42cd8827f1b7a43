"""The written restore and the phase: what the daemon leaves for the deadman, in files of one window (WIN-1).

Decides the format of `restore.json` and how `phase` is read. The daemon writes with the same values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from hostler.deadman import kernel
from hostler.deadman.when import Phase, Seen

FORMAT: Final = 1
RESTORE: Final = "restore.json"
PHASE: Final = "phase"
DEADMAN: Final = "deadman.json"
TEARDOWN: Final = "teardown"
LOCK: Final = "restore.lock"
DONE: Final = "restore.ndjson"
REPORT: Final = "report.json"
PROGRAM: Final = "program"
LOG: Final = "deadman.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How one engine is ended and started, in words that need no driver (ENG-2).

    `record` is the `run.json` of its supervisor, empty where `stop_argv` ends it. `health` is a path below
    `url`, `tcp` or `none`; `task` says which piece of work it proves itself by. `need` is memory in bytes,
    None where nobody knows it.
    """

    engine: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    record: str
    stop_argv: tuple[str, ...]
    stop_timeout_s: float
    url: str
    health: str
    model: str
    task: str
    key: str
    budget_s: float
    need: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A command that must exit with 0 before the restore counts as verified (WIN-4)."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Where this host's hold record is, and which one is the window's own. `essential` starts under all."""

    path: str
    lease: str
    essential: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A whole restore of one window on one host. `cap_s` is a boot second of the boot `boot_id`.

    `look_s` is how often the phase is read, and an engine looked at (LEASE-13); `memory_s` how long memory
    that was given back may take to show (MEM-4).
    """

    window: str
    mode: str
    host: str
    boot_id: str
    cap_s: float
    grace_s: float
    end: tuple[Engine, ...]
    start: tuple[Engine, ...]
    verify: tuple[Check, ...]
    hold: Hold
    look_s: float = 1.0
    memory_s: float = 30.0
    meminfo: str = "/proc/meminfo"
    v: int = field(default=FORMAT)


def load(directory: Path) -> Written:
    """The written restore of a window. Raises OSError, or ValueError for what is no such file."""
    try:
        return _written(_object(json.loads((directory / RESTORE).read_bytes())))
    except KeyError as missing:
        raise ValueError(f"{RESTORE} lacks {missing}") from None
    except RecursionError:
        raise ValueError(f"{RESTORE} is nested too deep") from None


def _written(row: Mapping[str, object]) -> Written:
    if row["v"] != FORMAT:
        raise ValueError(f"{RESTORE} is of format {row['v']}, not {FORMAT}")
    hold = _object(row["hold"])
    return Written(
        window=str(row["window"]),
        mode=str(row["mode"]),
        host=str(row["host"]),
        boot_id=str(row["boot_id"]),
        cap_s=_number(row["cap_s"]),
        grace_s=_number(row["grace_s"]),
        end=tuple(_engine(it) for it in _list(row["end"])),
        start=tuple(_engine(it) for it in _list(row["start"])),
        verify=tuple(_check(it) for it in _list(row["verify"])),
        hold=Hold(path=str(hold["path"]), lease=str(hold["lease"]), essential=_texts(hold["essential"])),
        look_s=_number(row["look_s"]),
        memory_s=_number(row["memory_s"]),
        meminfo=str(row["meminfo"]),
    )


def _engine(found: object) -> Engine:
    row = _object(found)
    need = row["need"]
    return Engine(
        engine=str(row["engine"]),
        argv=_texts(row["argv"]),
        env=_pairs(row["env"]),
        cwd=str(row["cwd"]),
        record=str(row["record"]),
        stop_argv=_texts(row["stop_argv"]),
        stop_timeout_s=_number(row["stop_timeout_s"]),
        url=str(row["url"]),
        health=str(row["health"]),
        model=str(row["model"]),
        task=str(row["task"]),
        key=str(row["key"]),
        budget_s=_number(row["budget_s"]),
        need=None if need is None else int(_number(need)),
    )


def _check(found: object) -> Check:
    row = _object(found)
    return Check(argv=_texts(row["argv"]), env=_pairs(row["env"]), timeout_s=_number(row["timeout_s"]))


def _object(found: object) -> Mapping[str, object]:
    if not isinstance(found, dict):
        raise ValueError("it holds no object where one belongs")  # noqa: TRY004 - one error for all defects
    return found


def _list(found: object) -> list[object]:
    if not isinstance(found, list):
        raise ValueError("it holds no list where one belongs")  # noqa: TRY004 - as above
    return found


def _texts(found: object) -> tuple[str, ...]:
    return tuple(str(it) for it in _list(found))


def _pairs(found: object) -> Mapping[str, str]:
    return {str(name): str(value) for name, value in _object(found).items()}


def _number(found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"{found!r} is no number")  # noqa: TRY004 - as above
    return float(found)


def seen(directory: Path) -> Seen:
    """The phase, and whether the daemon that wrote it exists still. Never raises: what is torn is unknown."""
    try:
        row = _object(json.loads((directory / PHASE).read_bytes()))
        phase, pid, ticks = Phase(str(row["phase"])), int(_number(row["pid"])), int(_number(row["ticks"]))
        lives = row["boot_id"] == kernel.boot_id() and kernel.alive(pid, ticks)
        return Seen(phase=phase, lives=lives, beat_s=_number(row["beat_s"]))
    except (OSError, ValueError, KeyError, RecursionError, OverflowError):
        return Seen(phase=Phase.UNKNOWN, lives=False)
