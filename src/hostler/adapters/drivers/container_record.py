"""What is remembered of a container's start (`container.json`), beside what the container engine knows.

Decides how it is written and read. It is needed where the container engine cannot be asked: its containers
may live on without it, and are then known by their main process.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from hostler.adapters.drivers import container_world, run_record
from hostler.adapters.drivers.container_seen import Container
from hostler.adapters.host import process_table
from hostler.domain.engine import Launch, Run
from hostler.domain.values import EngineId

FILE: Final = "container.json"
FORMAT: Final = 1


def run_of(launch: Launch, seen: Container) -> Run:
    """The run that `seen` is: the container's id with its start, and its main process where it is seen."""
    main = container_world.main_process(seen.id, seen.pid)
    return Run(
        engine=launch.engine,
        driver=launch.driver,
        pid=main.pid if main else 0,
        start_ticks=main.start_ticks if main else 0,
        supervisor_pid=0,
        supervisor_ticks=0,
        boot_id=process_table.boot_id(),
        port=launch.port,
        started_at=seen.started_at,
        identity=seen.identity,
    )


def as_recorded(run: Run, recorded: Run | None) -> Run:
    """`run` with how it was started, where the record is of this very start and says so."""
    if recorded is None or recorded.served is None or recorded.identity != run.identity:
        return run
    return replace(run, port=recorded.served.port, served=recorded.served)


def id_of(run: Run) -> str:
    """The id of the run's container."""
    return run.identity.partition(" ")[0]


def lives(run: Run) -> bool:
    """Whether its main process is seen to run: False says nothing where this host can see none."""
    return run.boot_id == process_table.boot_id() and process_table.alive(run.pid, run.start_ticks)


def save(launch: Launch, run: Run) -> None:
    """Write it whole, readable by this user only. Raises OSError."""
    directory = Path(launch.directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    value = {
        "v": FORMAT,
        "engine": run.engine,
        "driver": run.driver,
        "identity": run.identity,
        "pid": run.pid,
        "start_ticks": run.start_ticks,
        "boot_id": run.boot_id,
        "port": run.port,
        "started_at": run.started_at.isoformat(),
        "served": None if run.served is None else asdict(run.served),
    }
    part = directory / f"{FILE}.part"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        json.dump(value, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    part.replace(directory / FILE)


def load(launch: Launch) -> Run | None:
    """The recorded run; None when there is none, or one that cannot be understood."""
    try:
        value = json.loads((Path(launch.directory) / FILE).read_bytes())
        if value["v"] != FORMAT or value["engine"] != launch.engine:
            return None
        return Run(
            engine=EngineId(str(value["engine"])),
            driver=str(value["driver"]),
            pid=run_record.number(value["pid"], run_record.MOST_PID),
            start_ticks=run_record.number(value["start_ticks"], run_record.MOST_TICKS),
            supervisor_pid=0,
            supervisor_ticks=0,
            boot_id=str(value["boot_id"]),
            port=run_record.number(value["port"], run_record.MOST_PORT),
            started_at=datetime.fromisoformat(str(value["started_at"])),
            identity=str(value["identity"]),
            served=run_record.served_from_json(value.get("served")),
        )
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
