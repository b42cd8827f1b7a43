"""Installs the daemon as a systemd unit, and removes it again: the need `ServiceParts`.

Decides which commands that takes, and that nothing is touched which we did not write. The config must be
right as the unit will see it: a service has another environment than the shell that installs it.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostler.adapters import daemon_file, service_file
from hostler.adapters.commands import SystemCommands
from hostler.adapters.config.find import find_config, home
from hostler.adapters.config.paths import SYSTEM_STATE, state_dir
from hostler.adapters.config.reading import load
from hostler.adapters.drivers import members, run_record
from hostler.adapters.service_file import UNIT, Service
from hostler.adapters.systemctl import Scope, Systemctl, Unanswered
from hostler.domain.errors import (
    DaemonRuns,
    InvalidConfig,
    NoConfig,
    ServiceEdited,
    ServiceFailed,
)
from hostler.domain.fleet import DriverKind, Fleet
from hostler.services.service_parts import Installed, Uninstalled

SYSTEM_UNITS: Final = Path("etc/systemd/system")
LINGER: Final = Path("var/lib/systemd/linger")
KEPT_ENV: Final = (
    "PATH",
    "HOSTLER_STATE_DIR",
    "HOSTLER_HOST",
    "HOSTLER_BOX_RESERVATION_PATH",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
)
"""What the unit takes over from the shell: where programs and our own places are. Never a key."""
END_S: Final = 30.0
"""What an orderly end takes beside `node.shutdown`: error frames, the last events, the lock."""
START_S: Final = 120.0
"""How long a start or a stop of the unit may take: systemd's own bound is 90 s."""
_PROPERTIES: Final = ("ActiveState", "UnitFileState", "MainPID", "NeedDaemonReload")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdService:
    """For the user of `env`. `here` is the working directory; `root` stands for `/` in tests."""

    env: Mapping[str, str]
    here: Path
    python: str = sys.executable
    root: Path = Path("/")

    def install(
        self, *, config: str | None, host: str | None, system: bool, force: bool, dry_run: bool
    ) -> Installed:
        file = find_config(self.env, config, here=self.here).absolute()
        seen = self._environment(system=system)
        fleet = load(file, seen, host)
        named = ("--host", host) if host else ()
        made = Service(
            argv=(self.python, "-m", "hostler", "serve", "--config", str(file), *named),
            env={name: seen[name] for name in KEPT_ENV if name in seen},
            stop_s=_stop_s(fleet),
            system=system,
        )
        place = _Place(path=self._path(system=system), manager=self._manager(system=system))
        state = state_dir(seen, fleet.node.state_dir)
        return asyncio.run(self._install(place, made.text(), state, force=force, dry_run=dry_run))

    async def _install(
        self, place: _Place, text: str, state: Path, *, force: bool, dry_run: bool
    ) -> Installed:
        found = place.text()
        place.check(found, force=force)
        told = await place.told()
        _refuse_another(state, told)
        commands: tuple[tuple[str, ...], ...] = ()
        if found != text or not _runs(told):
            commands = (("daemon-reload",), ("enable", "--", UNIT), ("restart", "--", UNIT))
        kept = None
        if not dry_run:
            kept = place.keep(found)
            if found != text:
                place.write(text)
            for words in commands:
                await place.ask(*words)
        return Installed(
            unit=UNIT,
            path=str(place.path),
            text=text,
            commands=tuple(place.manager.argv(*words) for words in commands),
            kept_as=kept,
            notes=self._notes(place.manager.scope, state),
            dry_run=dry_run,
        )

    def uninstall(self, *, system: bool, force: bool, dry_run: bool) -> Uninstalled:
        place = _Place(path=self._path(system=system), manager=self._manager(system=system))
        return asyncio.run(self._uninstall(place, system=system, force=force, dry_run=dry_run))

    async def _uninstall(self, place: _Place, *, system: bool, force: bool, dry_run: bool) -> Uninstalled:
        found = place.text()
        place.check(found, force=force)
        commands = (("disable", "--now", "--", UNIT), ("daemon-reload",)) if found is not None else ()
        kept = None
        if commands and not dry_run:
            await place.ask(*commands[0])
            kept = place.keep(found)
            if kept is None:
                place.remove()
            await place.ask(*commands[1])
        return Uninstalled(
            unit=UNIT,
            path=str(place.path),
            removed=found is not None and not dry_run,
            commands=tuple(place.manager.argv(*words) for words in commands),
            engines=await self._engines(system=system),
            kept_as=kept,
            dry_run=dry_run,
        )

    # ------------------------------------------------------------ this user's places

    def _environment(self, *, system: bool) -> dict[str, str]:
        """What the unit's process will have of what we go by."""
        found = {name: self.env[name] for name in KEPT_ENV if self.env.get(name)}
        if system:
            return found | {"STATE_DIRECTORY": str(SYSTEM_STATE)}
        return found | {name: self.env[name] for name in ("HOME", "XDG_RUNTIME_DIR") if name in self.env}

    def _path(self, *, system: bool) -> Path:
        if system:
            return self.root / SYSTEM_UNITS / UNIT
        base = home(self.env, "XDG_CONFIG_HOME", ".config")
        if base is None:
            fix = "Set HOME, or install for the machine with --system."
            raise ServiceFailed(unit=UNIT, why="this user has no home to put it into", fix=fix)
        return base / "systemd" / "user" / UNIT

    def _manager(self, *, system: bool) -> Systemctl:
        scope: Scope = "system" if system else "user"
        return Systemctl(scope=scope, commands=SystemCommands(environment=self.env))

    def _notes(self, scope: Scope, state: Path) -> tuple[str, ...]:
        if scope == "system":
            return (f"It runs as root. Commands of root find it with HOSTLER_STATE_DIR={state}.",)
        name = _user()
        if (self.root / LINGER / name).exists():
            return ()
        off = f"Lingering is off: the daemon ends when {name} logs out, and does not start at boot."
        return (f"{off} `loginctl enable-linger {name}` keeps it running.",)

    async def _engines(self, *, system: bool) -> tuple[str, ...]:
        """The engines of this host that run now, in words."""
        seen = self._environment(system=system)
        try:
            fleet = load(find_config(self.env, None, here=self.here), seen)
        except (NoConfig, InvalidConfig):
            fleet = None  # What runs is on record without it; only units are not found.
        state = state_dir(seen, fleet.node.state_dir if fleet is not None else None)
        found = []
        for directory in sorted((state / "engines").glob("*")):
            record = run_record.load(directory, DriverKind.PROCESS)
            if record is not None and members.lives(record.run):
                found.append(f"{directory.name} (pid {record.run.pid}, port {record.run.port})")
        return (*found, *([] if fleet is None else await self._units(fleet)))

    async def _units(self, fleet: Fleet) -> list[str]:
        found = []
        for engine in fleet.local_engines():
            if engine.unit is None:
                continue
            manager = self._manager(system=engine.scope == "system")
            with suppress(Unanswered):  # Its manager does not run, and so none of its units does.
                told = await manager.properties(engine.unit, ("ActiveState",))
                if told.get("ActiveState") == "active":
                    found.append(f"{engine.id} (unit {engine.unit})")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where the unit's file is, and the manager that reads it there."""

    path: Path
    manager: Systemctl

    def text(self) -> str | None:
        """The file as it is; None when there is none."""
        try:
            return self.path.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(error) from error

    def check(self, found: str | None, *, force: bool) -> None:
        """Refuses `service_edited` for a file that is not as we wrote it."""
        if found is not None and not force and not service_file.is_ours(found):
            raise ServiceEdited(path=str(self.path))

    def keep(self, found: str | None) -> str | None:
        """Put a file that is not ours beside, under a name that systemd passes over; where it is then."""
        if found is None or service_file.is_ours(found):
            return None
        names = (self.path.with_name(f"{UNIT}.kept-{number}") for number in range(1, 1000))
        kept = next(name for name in names if not name.exists())
        try:
            self.path.rename(kept)
        except OSError as error:
            raise self._failed(error) from error
        return str(kept)

    def write(self, text: str) -> None:
        """The file, whole."""
        part = self.path.with_name(f".{UNIT}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with part.open("w", encoding="utf-8", errors="surrogateescape") as file:
                os.fchmod(file.fileno(), 0o644)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError as error:
            raise self._failed(error) from error

    def remove(self) -> None:
        """The file goes."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(error) from error

    async def told(self) -> Mapping[str, str]:
        """What the manager knows of the unit. Refuses `service_failed`."""
        try:
            return await self.manager.properties(UNIT, _PROPERTIES)
        except Unanswered as no:
            raise ServiceFailed(unit=UNIT, why=no.why, fix=no.fix) from no

    async def ask(self, *words: str) -> None:
        """One command. Refuses `service_failed`, with where its own words are."""
        try:
            await self.manager.ask(*words, timeout_s=START_S)
        except Unanswered as no:
            fix = f"`journalctl --{self.manager.scope} --unit={UNIT} -n 30` shows what it said. {no.fix}"
            raise ServiceFailed(unit=UNIT, why=no.why, fix=fix) from no

    def _failed(self, error: OSError) -> ServiceFailed:
        fix = "Only root may, with sudo." if isinstance(error, PermissionError) else "Look at that directory."
        why = f"{error.filename or self.path}: {error.strerror or error}"
        return ServiceFailed(unit=UNIT, why=why, fix=fix)


def _runs(told: Mapping[str, str]) -> bool:
    """Whether it is enabled and up, by the file that is there."""
    return (
        told.get("ActiveState") == "active"
        and told.get("UnitFileState") == "enabled"
        and told.get("NeedDaemonReload") == "no"
    )


def _refuse_another(state: Path, told: Mapping[str, str]) -> None:
    """Refuse `daemon_runs` while one runs that is not the unit's: the unit's could not start beside it."""
    try:
        pid = daemon_file.running(state)
    except ValueError:
        return  # A record that is broken names nobody; the daemon's own lock decides.
    if pid is not None and str(pid) != told.get("MainPID"):
        raise DaemonRuns(pid=pid, where=f"state directory {state}")


def _stop_s(fleet: Fleet) -> float:
    """How long an end may take: streams first, then, with `on_exit: stop`, the slowest engine twice."""
    slowest = max((engine.stop_timeout_s for engine in fleet.local_engines()), default=0.0)
    return fleet.node.shutdown_s + END_S + (2 * slowest if fleet.node.on_exit == "stop" else 0.0)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
