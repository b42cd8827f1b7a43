"""The command line in a folder with a catalog and a config of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.adapters.catalog.offline import OfflineCatalog
from hostler.adapters.config.offline import OfflineConfig
from hostler.interfaces.cli.main import run
from hostler.services.catalog_parts import CatalogParts
from hostler.services.config_parts import ConfigParts
from hostler.services.deadman_offline import OfflineDeadmen
from hostler.services.doctor_parts import DoctorParts
from hostler.services.holds_offline import BoxParts
from hostler.services.import_parts import ImportParts
from hostler.services.ports_parts import PortsParts
from hostler.services.schedule_offline import OfflineSchedule
from hostler.services.service_parts import ServiceParts
from hostler.services.serving import ServeParts
from hostler.services.sight_parts import SightParts


@dataclass(frozen=True)
class Here:
    """A bootstrap of a folder's catalog and config."""

    folder: Path
    machine: str

    def _env(self) -> Mapping[str, str]:
        return {"HOME": str(self.folder / "home"), "HOSTLER_BOX_RESERVATION_PATH": "/run/hold.json"}

    def catalog(self) -> CatalogParts:
        return OfflineCatalog(
            env=self._env(), here=self.folder, system=self.folder / "etc", machine=self.machine
        )

    def config(self) -> ConfigParts:
        return OfflineConfig(
            env=self._env(), here=self.folder, system=self.folder / "etc", machine=self.machine
        )

    def box(self) -> BoxParts:
        raise AssertionError("a command on the catalog asks for no hold")

    def serving(self) -> ServeParts:
        raise AssertionError("a command on the catalog serves nothing")

    def schedule(self) -> OfflineSchedule:
        raise AssertionError("a command on the catalog asks for no schedule")

    def imports(self) -> ImportParts:
        raise AssertionError("a command on the catalog imports nothing")

    def sight(self) -> SightParts:
        raise AssertionError("a command on the catalog looks at no box")

    def ports(self) -> PortsParts:
        raise AssertionError("a command on the catalog asks for no port")

    def doctor(self) -> DoctorParts:
        raise AssertionError("a command on the catalog asks for no doctor")

    def deadmen(self) -> OfflineDeadmen:
        raise AssertionError("a command on the catalog asks for no deadmen")

    def service(self) -> ServiceParts:
        raise AssertionError("a command on the catalog installs nothing")


@dataclass(frozen=True)
class Shell:
    """Runs `hostler` in a folder; gives the exit code and what was printed."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    machine: str = "box"

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        code = run(arguments, Here(self.folder, self.machine))
        out, err = self.capture.readouterr()
        return code, out, err

    def json(self, *arguments: str) -> dict[str, object]:
        """The answer as a program reads it."""
        code, out, err = self(*arguments, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert isinstance(found, dict)
        return found
