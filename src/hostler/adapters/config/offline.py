"""The config for commands that need no daemon: the `ConfigParts` of this machine (INTERFACE-3).

Decides which file and which host a command means. The commands decide how it is told.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.adapters import hold_path
from hostler.adapters.config.find import SYSTEM, find_config
from hostler.adapters.config.paths import Paths, resolve_paths
from hostler.adapters.config.reading import Reading, examine, right
from hostler.adapters.config.schema.document import schema_text
from hostler.adapters.config.show import as_yaml, differences, effective
from hostler.adapters.state_files import DirectoryStateFiles
from hostler.domain.errors import NoConfig
from hostler.domain.fleet import Fleet, Node, frozen
from hostler.domain.values import shorten
from hostler.services.config_parts import ConfigReport, Difference, EffectiveConfig, Problem
from hostler.services.guard_files import HELD


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineConfig:
    """The need `ConfigParts`. `here` is the working directory, where `hostler.yaml` is looked for last."""

    env: Mapping[str, str]
    here: Path
    system: Path = SYSTEM
    machine: str | None = None

    def check(self, path: str | None, host: str | None) -> ConfigReport:
        found = self._examine(self._find(path), host, anywhere=True)
        return ConfigReport(
            file=found.file,
            host=found.host,
            problems=found.problems,
            warnings=(*found.warnings, *self._leased(found)),
            counts=frozen({} if found.fleet is None else _counts(found.fleet)),
        )

    def show(self, path: str | None, host: str | None) -> EffectiveConfig:
        found = right(self._examine(self._find(path), host))
        document = effective(found)
        return EffectiveConfig(
            file=found.reading.file, host=found.reading.host, document=document, text=as_yaml(document)
        )

    def schema(self) -> str:
        return schema_text()

    def diff(self, before: str, after: str, host: str | None) -> Sequence[Difference]:
        return differences(*(right(self._examine(Path(each), host)) for each in (before, after)))

    def paths(self, path: str | None, host: str | None) -> Mapping[str, str]:
        try:
            file = self._find(path)
        except NoConfig:
            return self._paths(Node()).listing()
        fleet = right(self._examine(file, host)).fleet
        return {"config": str(file), **self._paths(fleet.node).listing()}

    def fleet(self, path: str | None, host: str | None = None) -> tuple[Fleet, Path, bool]:
        """The config of a fleet, its file, and whether this machine is one of its hosts.

        For commands about any host of it: another machine reads it as its first host. Raises NoConfig and
        InvalidConfig.
        """
        file = self._find(path)
        found = self._examine(file, host)
        if found.problems:
            return right(self._examine(file, host, anywhere=True)).fleet, file, False
        return right(found).fleet, file, True

    def state(self, fleet: Fleet) -> Path:
        """The state directory of this host's daemon."""
        return self._paths(fleet.node).state_dir

    def _leased(self, found: Reading) -> list[Problem]:
        """A warning for each resource that is leased now (LEASE-5)."""
        if found.fleet is None:
            return []
        state = DirectoryStateFiles(root=self._paths(found.fleet.node).state_dir)
        try:
            rows = (state.load(HELD) or {}).values()
        except ValueError:
            return []
        leases = {str(row.get("resource")): str(row.get("lease")) for row in rows if isinstance(row, dict)}
        return [
            Problem(
                file=found.file,
                line=1,
                column=1,
                path=f"reservations.resources.{shorten(name)}",
                message=f"is leased now ({shorten(lease)}): a change of it counts from its next lease on",
            )
            for name, lease in sorted(leases.items())
        ]

    def _find(self, path: str | None) -> Path:
        return find_config(self.env, path, here=self.here, system=self.system)

    def _examine(self, path: Path, host: str | None, *, anywhere: bool = False) -> Reading:
        return examine(path, self.env, host, machine=self.machine, anywhere=anywhere)

    def _paths(self, node: Node) -> Paths:
        hold = hold_path.resolve(self.env, os.geteuid(), node.hold_path)
        return resolve_paths(self.env, node, hold.path)


def _counts(fleet: Fleet) -> dict[str, int]:
    resources = fleet.later.get("reservations", {})
    named = resources.get("resources", {}) if isinstance(resources, Mapping) else {}
    return {
        "hosts": len(fleet.hosts),
        "engines": len(fleet.engines),
        "routes": len(fleet.routes),
        "upstreams": len(fleet.upstreams),
        "resources": len(named) if isinstance(named, Mapping) else 0,
        "modes": len(fleet.modes),
        "keys": len(fleet.keys),
    }
