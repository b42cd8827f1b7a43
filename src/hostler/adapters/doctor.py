"""Looks at this box for `hostler doctor`: the need `DoctorParts`.

Decides where each fact is read. Reads and asks only: nothing is made, started or written.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from hostler.adapters import hold_path
from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.config.paths import Paths, resolve_paths
from hostler.adapters.drivers import http_look
from hostler.adapters.host.interfaces import SystemInterfaces
from hostler.adapters.models_dir import ModelsDir
from hostler.adapters.programs import ProgramFiles
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.domain.curation import build_problem
from hostler.domain.doctor import Dead, DeadRow, Facts, Missing, PrivateFile, Revived, WrongBuild
from hostler.domain.errors import EngineFailed, InvalidConfig, NoConfig, NotFound, NotLaunchable
from hostler.domain.fleet import DriverKind, Engine, EngineTarget, Fleet, Node, UpstreamTarget
from hostler.domain.launching import launch_of
from hostler.domain.registry import Row
from hostler.domain.route import build
from hostler.domain.values import EngineId
from hostler.services import row_book
from hostler.services.doctor_parts import Examined
from hostler.services.needs import Driver
from hostler.services.ports_parts import PortsParts
from hostler.services.present import Present

LINGER: Final = "var/lib/systemd/linger"
MANAGED: Final = "run/systemd/system"
LOOK_S: Final = 2.0
"""How long one target is asked."""
TCP: Final = "tcp"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxDoctor:
    """`root` stands for `/` in tests.

    `told` asks a daemon that runs what it warns of, `skews` by how much the clocks of other hosts are ahead.
    """

    env: Mapping[str, str]
    config: OfflineConfig
    ports: PortsParts
    drivers: Mapping[str, Driver]
    told: Callable[[], Sequence[str]]
    skews: Callable[[], Sequence[tuple[str, float]]]
    root: Path = Path("/")

    def look(self, *, config: str | None, host: str | None, offline: bool) -> Examined:
        try:
            report = self.config.check(config, host)
        except NoConfig:
            return Examined(facts=self._facts(None, Node(), offline=True), report=None)
        fleet: Fleet | None = None
        if not report.problems:
            fleet = self.config.fleet(config, host)[0]
        node = fleet.node if fleet is not None else Node()
        facts = self._facts(fleet, node, offline=offline, config=config)
        return Examined(facts=facts, report=report)

    def _facts(self, fleet: Fleet | None, node: Node, *, offline: bool, config: str | None = None) -> Facts:
        uid = os.geteuid()
        place = hold_path.resolve(self.env, uid, node.hold_path, str(self.root))
        paths = resolve_paths(self.env, node, place.path)
        user = _user(uid)
        usual = self.root / "run/user" / str(uid)
        return Facts(
            user=user,
            uid=uid,
            hold_path=place.path,
            hold_survives=place.survives_reboot,
            lingers=self._lingers(user, uid),
            runtime_dir=self.env.get("XDG_RUNTIME_DIR"),
            usual_runtime_dir=str(usual) if usual.is_dir() else None,
            private=tuple(_private(paths)),
            state_dir=str(paths.state_dir),
            unwritable=tuple(_unwritable(paths)),
            free=_free(paths.state_dir),
            missing=() if fleet is None else tuple(self._missing(fleet, paths)),
            builds=() if fleet is None else asyncio.run(self._builds(fleet, paths)),
            revived=() if fleet is None else asyncio.run(self._revived(fleet, paths)),
            dead=() if fleet is None or offline else asyncio.run(self._dead(fleet)),
            rows=() if fleet is None or offline else asyncio.run(_dead_rows(fleet, paths)),
            clashes=() if fleet is None else self._clashes(config),
            skews=() if offline else tuple(self.skews()),
            told=() if offline else tuple(self.told()),
        )

    # ------------------------------------------------------------ this user

    def _lingers(self, user: str, uid: int) -> bool | None:
        """None for root, whose daemon is the system's, and where systemd does not run."""
        if uid == 0 or not (self.root / MANAGED).is_dir():
            return None
        return (self.root / LINGER / user).exists()

    # ------------------------------------------------------------ engines

    def _missing(self, fleet: Fleet, paths: Paths) -> Iterable[Missing]:
        models, programs = ModelsDir(root=paths.models_dir), ProgramFiles()
        for engine in fleet.local_engines():
            for file in engine.files:
                if engine.enabled and models.size(file) is None:
                    yield Missing(engine=engine.id, what=models.path(file), kind="file")
            if engine.driver is DriverKind.PROCESS and engine.enabled:
                cwd = engine.cwd or str(paths.engines / engine.id)
                if not programs.exists(engine.argv[0], engine.env, cwd):
                    yield Missing(engine=engine.id, what=engine.argv[0], kind="program")

    async def _builds(self, fleet: Fleet, paths: Paths) -> tuple[WrongBuild, ...]:
        """Binaries that are not the build which their engine's catalog entry needs."""
        programs, found = ProgramFiles(environment=self.env), list[WrongBuild]()
        for engine in fleet.local_engines():
            wanted = engine.curation.build if engine.curation is not None else None
            if wanted is None or not engine.argv or not engine.enabled:
                continue
            cwd = engine.cwd or str(paths.engines / engine.id)
            if not programs.exists(engine.argv[0], engine.env, cwd):
                continue
            await programs.ask(engine.argv[0], engine.env, cwd)
            why = build_problem(wanted, programs.report(engine.argv[0], engine.env, cwd))
            if why is not None:
                found.append(WrongBuild(engine=engine.id, entry=engine.entry or "", why=why))
        return tuple(found)

    async def _revived(self, fleet: Fleet, paths: Paths) -> tuple[Revived, ...]:
        """Engines that something else brings up; one whose runtime cannot be asked is passed over."""
        engines = [it for it in fleet.local_engines() if it.enabled and it.driver in self.drivers]

        async def one(engine: Engine) -> Revived | None:
            launch = launch_of(
                engine,
                fleet.host,
                port=engine.port or 0,
                file="",
                directory=str(paths.engines / engine.id),
                log_size=fleet.node.log_size,
                log_files=fleet.node.log_files,
            )
            try:
                words = await self.drivers[engine.driver].revival(launch)
            except (EngineFailed, NotLaunchable):
                return None
            return None if words is None else Revived(engine=engine, words=words)

        return _there(await asyncio.gather(*(one(engine) for engine in engines)))

    # ------------------------------------------------------------ where requests go

    async def _dead(self, fleet: Fleet) -> tuple[Dead, ...]:
        """Targets of the active profiles that nobody of ours starts, and that do not answer."""
        table = build(fleet, {})
        engines: dict[EngineId, Engine] = {}
        upstreams: set[str] = set()
        for route in table.routes.values():
            active = table.profile(route)
            for target in getattr(active[1], "targets", ()) if active is not None else ():
                if isinstance(target, EngineTarget):
                    engines[target.engine] = fleet.engines[target.engine]
                elif isinstance(target, UpstreamTarget):
                    upstreams.add(target.upstream)
        asked: list[Awaitable[Dead | None]] = [
            _asked(engine.id, engine.url or "")
            for engine in engines.values()
            if engine.driver is DriverKind.EXTERNAL and engine.enabled
        ]
        asked += [_asked(name, fleet.upstreams[name].url) for name in sorted(upstreams)]
        return _there(await asyncio.gather(*asked))

    def _clashes(self, config: str | None) -> tuple[str, ...]:
        try:
            report = self.ports.check((), host=None, env=self.env, config=config)
        except (InvalidConfig, NotFound) as refusal:
            return (str(refusal),)
        counted = (it for it in report.verdicts if it.kind.counts and it.kind.value == "collision")
        return tuple(f"{it.host}: {it.text}" for it in counted)


async def _dead_rows(fleet: Fleet, paths: Paths) -> tuple[DeadRow, ...]:
    """Rows of this node and of paired ones at whose URLs nobody answers."""
    present, files = Present(fleet=fleet), DirectoryStateFiles(root=paths.state_dir)
    known = row_book.load(str(fleet.here), files).registry
    rows = [row for row in known.told() if not row.retired]
    rows += known.resolved(fleet.peers, row_book.homes(present, SystemInterfaces()))

    async def one(row: Row) -> DeadRow | None:
        dead = await _asked(row.id, row.url)
        return None if dead is None else DeadRow(id=row.id, author=row.author, url=row.url, why=dead.why)

    return _there(await asyncio.gather(*map(one, rows)))


async def _asked(name: str, url: str) -> Dead | None:
    """Whether somebody listens there; nothing is asked of who does."""
    seen = await http_look.look(url, TCP, {}, timeout_s=LOOK_S)
    return None if seen.health == "ok" else Dead(name=name, url=url, why=seen.detail)


def _there(found: Iterable[_T | None]) -> tuple[_T, ...]:
    return tuple(one for one in found if one is not None)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _private(paths: Paths) -> Iterable[PrivateFile]:
    for path in (paths.local_key, paths.keys):
        try:
            found = path.lstat()
        except OSError:
            continue
        ours = found.st_uid in (os.geteuid(), 0)
        yield PrivateFile(path=str(path), mode=stat.S_IMODE(found.st_mode), ours=ours)


def _unwritable(paths: Paths) -> Iterable[tuple[str, str]]:
    """What the daemon has to write and this user cannot; a place that is not there yet is made by it."""
    for path in (paths.state_dir, paths.schedule_db):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            yield str(path), "this user may not"
    if os.access(paths.state_dir, os.F_OK) and os.statvfs(paths.state_dir).f_flag & os.ST_RDONLY:
        yield str(paths.state_dir), "its file system is read-only"


def _free(path: Path) -> int | None:
    there = next((it for it in (path, *path.parents) if it.exists()), None)
    return None if there is None else shutil.disk_usage(there).free
