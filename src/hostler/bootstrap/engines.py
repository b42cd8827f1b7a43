"""The engines of this host, joined with their drivers, ports and directories."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

import structlog

from hostler.adapters.config.paths import Paths
from hostler.adapters.drivers import run_record, transient
from hostler.adapters.drivers.compose import ComposeServices
from hostler.adapters.drivers.container import ContainerDriver
from hostler.adapters.drivers.container_api import Declined, Unanswered, api_of
from hostler.adapters.drivers.container_find import labelled
from hostler.adapters.drivers.container_made import NamedContainers
from hostler.adapters.drivers.container_seen import ENGINE_LABEL
from hostler.adapters.drivers.external import ExternalDriver
from hostler.adapters.drivers.process import ProcessDriver
from hostler.adapters.drivers.systemd import SystemdDriver
from hostler.adapters.host import process_table
from hostler.adapters.host.listeners import every_listener
from hostler.adapters.models_dir import ModelsDir
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.domain.engine import EngineState, Launch, Run
from hostler.domain.fleet import DriverKind, Engine, Fleet, Secret, frozen
from hostler.domain.launching import assign_ports, launch_of
from hostler.domain.values import EngineId
from hostler.gateway.places import Places
from hostler.gateway.upstream import Upstream
from hostler.services.lanes import Lane, coupled
from hostler.services.needs import Driver

PORTS = "ports"
"""`ports.json`: what engines with `port: auto` were given, kept so that a restart finds them again."""
BUILT = (
    DriverKind.PROCESS,
    DriverKind.CONTAINER,
    DriverKind.COMPOSE,
    DriverKind.SYSTEMD,
    DriverKind.EXTERNAL,
    DriverKind.DISTRIBUTED,
)
"""Drivers that this version has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConnections:
    """The gateway's connections to engines, by base URL (ENG-6)."""

    upstream: Upstream
    places: Places

    def close(self, url: str) -> None:
        self.upstream.close_all(self.places.at(url))


def drivers_of(
    env: Mapping[str, str], key: Callable[[EngineId], Secret | None] = lambda _: None
) -> Mapping[str, Driver]:
    """Every driver by its name. `key` tells what an external engine is sent as its key."""
    units = transient.manager(uid=os.geteuid(), runtime_dir=env.get("XDG_RUNTIME_DIR"))
    api = api_of(env)
    named = NamedContainers(api=api, environment=env)
    services = ComposeServices(api=api, environment=env)
    drivers: dict[str, Driver] = {
        DriverKind.PROCESS: ProcessDriver(environment=env, units=units),
        DriverKind.CONTAINER: ContainerDriver(api=api, maker=named),
        DriverKind.COMPOSE: ContainerDriver(api=api, maker=services),
        DriverKind.SYSTEMD: SystemdDriver(environment=env),
        DriverKind.EXTERNAL: ExternalDriver(key=key),
    }
    return frozen(drivers)


def lanes_of(
    fleet: Fleet,
    files: DirectoryStateFiles,
    models: ModelsDir,
    now: float,
    taken: Callable[[], Collection[int]] = frozenset,
) -> Mapping[EngineId, Lane]:
    """A lane for each engine of this host whose driver is built. Ports given out now are kept first."""
    return coupled(
        frozen(
            {
                name: Lane(
                    engine=fleet.engines[name],
                    launch=launch,
                    status=EngineState(engine=name),
                    used=now,
                    down_since=now,
                    known=False,
                )
                for name, launch in launches_of(fleet, files, models, taken).items()
            }
        )
    )


def launches_of(
    fleet: Fleet,
    files: DirectoryStateFiles,
    models: ModelsDir,
    taken: Callable[[], Collection[int]] = frozenset,
) -> Mapping[EngineId, Launch]:
    """How each engine of this host whose driver is built is launched, its port given out and kept.

    `taken` are the ports of others: nothing new is given of them.
    """
    mine = [engine for engine in fleet.local_engines() if engine.driver in BUILT]
    try:
        kept = files.load(PORTS) or {}
    except ValueError:
        kept = {}
    known = {name: port for name, port in kept.items() if _is_port(port)}
    lacking = any(engine.port is None and engine.id not in known for engine in mine)
    away = _running_of(known.keys() - {str(it.id) for it in mine if it.port is None}, known, files)
    others = {*away.values(), *taken()} if lacking else set(away.values())
    given = assign_ports(mine, fleet.host, known, others)
    wanted = away | {str(name): port for name, port in given.items()}
    if wanted != known:
        try:
            files.save(PORTS, wanted)
        except OSError as error:
            # They are given again at the next start, perhaps others: worse than kept, better than no daemon.
            structlog.get_logger("hostler").warning("ports not kept", why=error.strerror)
    made = {it.id: _launch(fleet, it, given.get(it.id) or it.port or 0, files, models) for it in mine}
    return frozen({**made, **{it.id: _answered(made, it) for it in mine if it.members}})


def _answered(made: Mapping[EngineId, Launch], engine: Engine) -> Launch:
    """A distributed engine answers where its last member does; it listens on no port itself (ENG-11)."""
    return replace(made[engine.id], url=made[engine.members[-1]].url)


def _is_port(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= run_record.MOST_PORT


def _running_of(
    names: Collection[str], known: Mapping[str, int], files: DirectoryStateFiles
) -> dict[str, int]:
    """Kept ports of engines that this config gives none and that run still: they may come back (ENG-7)."""
    if not names:
        return {}
    try:
        listening = {each.port for each in every_listener()}
    except OSError:
        listening = set()  # What runs of ours is known by its record as well.
    engines = files.root / "engines"
    return {
        name: known[name]
        for name in names
        if known[name] in listening or _running(engines / name) is not None
    }


def _running(directory: Path) -> Run | None:
    """The process that the record in an engine's directory names, if that very one still runs."""
    record = run_record.load(directory, DriverKind.PROCESS)
    if record is None or record.run.boot_id != process_table.boot_id():
        return None
    return record.run if process_table.alive(record.run.pid, record.run.start_ticks) else None


def strays(fleet: Fleet, paths: Paths) -> tuple[str, ...]:
    """A sentence for each engine that runs from an earlier config and is in this one no more (CONF-3).

    It holds memory that the gate sees and nobody can name; it is told, and never ended by itself.
    """
    known = {str(engine.id) for engine in fleet.local_engines()}
    found = []
    for directory in sorted(paths.engines.glob("*")):
        run = None if directory.name in known else _running(directory)
        if run is not None:
            found.append(
                f"{directory.name} still runs (pid {run.pid}, port {run.port}) and is not in the config:"
                f" put it back and `hostler stop {directory.name}`,"
                f" or end its supervisor, pid {run.supervisor_pid}"
            )
    return tuple(found)


def stray_containers(fleet: Fleet, env: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each container that we made, that runs, and that this config names no more (CONF-3).

    Where the container engine cannot be asked nothing is said: then nothing is known.
    """
    try:
        rows = labelled(api_of(env), ENGINE_LABEL)
    except (Unanswered, Declined):
        return ()
    made = {
        (str(it.id), it.container.name)
        for it in fleet.local_engines()
        if it.driver is DriverKind.CONTAINER and it.container is not None
    }
    found = []
    for row in rows:
        labels, names = row.get("Labels"), row.get("Names")
        engine = labels.get(ENGINE_LABEL) if isinstance(labels, dict) else None
        name = str(names[0]).removeprefix("/") if isinstance(names, list) and names else str(row.get("Id"))
        if (str(engine), name) not in made:
            found.append(
                f"{engine} still runs (container {name}) and is not in the config:"
                f" put it back and `hostler stop {engine}`, or `docker stop {name}`"
            )
    return tuple(found)


def _launch(fleet: Fleet, engine: Engine, port: int, files: DirectoryStateFiles, models: ModelsDir) -> Launch:
    return launch_of(
        engine,
        fleet.host,
        port=port,
        file=models.path(engine.files[0]) if engine.files else "",
        directory=files.directory(f"engines/{engine.id}"),
        log_size=fleet.node.log_size,
        log_files=fleet.node.log_files,
    )
