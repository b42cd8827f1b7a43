"""The parts of commands that need no daemon (INTERFACE-3): holds, the config, the catalog, the daemon's unit.

Decides which adapter fulfils which need of theirs. Loads the config's adapters only for who asks for them:
`hostler box status` must answer in an instant (PERF-11).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hostler.adapters.hold_box import SYSTEM_STATE, Box
from hostler.adapters.hold_file import HoldFile, boot_id, user_ids
from hostler.adapters.hold_path import OURS, THEIRS, resolve
from hostler.adapters.hold_settings import SYSTEM, HoldSettings, hold_settings, state_dir
from hostler.adapters.hold_sight import FirstSight
from hostler.adapters.hold_write import HoldWriter
from hostler.domain.errors import InvalidConfig
from hostler.services.catalog_parts import CatalogParts
from hostler.services.config_parts import ConfigParts
from hostler.services.holds_offline import BoxParts
from hostler.services.import_parts import ImportParts
from hostler.services.ports_parts import PortsParts
from hostler.services.service_parts import ServiceParts
from hostler.services.sight_parts import SightParts


def offline_config(env: Mapping[str, str]) -> ConfigParts:
    """The config of this machine."""
    from hostler.adapters.config.offline import OfflineConfig  # noqa: PLC0415 - pydantic takes 100 ms to load

    return OfflineConfig(env=env, here=Path.cwd())


def offline_service(env: Mapping[str, str]) -> ServiceParts:
    """The daemon as a unit of systemd."""
    from hostler.adapters.service_install import SystemdService  # noqa: PLC0415 - as offline_config

    return SystemdService(env=env, here=Path.cwd())


def offline_import(env: Mapping[str, str]) -> ImportParts:
    """What `hostler import` reads and writes."""
    from hostler.adapters.imports.files import ImportFiles  # noqa: PLC0415 - as the config's

    return ImportFiles(env=env, folder=Path.cwd())


def offline_sight(env: Mapping[str, str]) -> SightParts:
    """This box, as `hostler init` looks at it."""
    from hostler.adapters.sight.box import Box as Seen  # noqa: PLC0415 - as the config's

    return Seen(env=env)


def offline_ports(env: Mapping[str, str]) -> PortsParts:
    """The registry of ports, the scanners of files, and the listeners of this machine and of others."""
    from hostler.adapters.config.offline import OfflineConfig  # noqa: PLC0415 - pydantic takes 100 ms to load
    from hostler.adapters.host.listeners import HostListeners  # noqa: PLC0415 - as above
    from hostler.adapters.nodes.far_listeners import DaemonListeners  # noqa: PLC0415 - as above
    from hostler.adapters.scan.offline import OfflinePorts  # noqa: PLC0415 - as above

    return OfflinePorts(
        config=OfflineConfig(env=env, here=Path.cwd()),
        listeners=HostListeners(),
        far=DaemonListeners(env=env),
    )


def offline_catalog(env: Mapping[str, str]) -> CatalogParts:
    """The catalog of this machine, and its directory of models."""
    from hostler.adapters.catalog.offline import OfflineCatalog  # noqa: PLC0415 - as offline_config

    return OfflineCatalog(env=env, here=Path.cwd())


def offline_box(env: Mapping[str, str], root: str = "/") -> BoxParts:
    """What `hostler box` needs, from the environment, the config and the files of this host.

    `root` stands for `/` in tests. Refusals: invalid_config, hold_path_unusable.
    """
    uid = os.geteuid()
    settings, trouble = _settings(env, Path(root) / SYSTEM.relative_to("/"))
    place = resolve(env, uid, settings.hold_path, root)
    reader = HoldFile(
        path=place.path,
        sight=FirstSight(settings.state_dir),
        essentials=settings.essentials,
        writers=user_ids(settings.hold_writers),
        boot=boot_id(root),
    )
    return Box(
        writer=HoldWriter(reader=reader, mode=settings.hold_mode),
        place=replace(place, warnings=(*place.warnings, *trouble)),
        state_dirs=tuple(dict.fromkeys((settings.state_dir, str(Path(root, SYSTEM_STATE))))),
        uid=uid,
        engines=settings.engines,
        root=root,
    )


def _settings(env: Mapping[str, str], system: Path) -> tuple[HoldSettings, tuple[str, ...]]:
    """The config's words on holds. One that is broken matters less where the environment names the path."""
    try:
        return hold_settings(env, system), ()
    except InvalidConfig as invalid:
        if not (env.get(OURS) or env.get(THEIRS)):
            raise
        return HoldSettings(state_dir=state_dir(env)), (f"The config was passed over: {invalid.problems[0]}",)
