"""Calls of `hostler box` in this process: what they print, and their exit code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hostler.bootstrap.offline import offline_box
from hostler.domain.hold_record import parse_instant
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
class Said:
    """One call's exit code and output."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, object]:
        """The one document on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    def error(self) -> dict[str, object]:
        """The one error object on stderr, alone."""
        assert self.out == ""
        found = json.loads(self.err)
        assert list(found) == ["error"]
        assert isinstance(found["error"], dict)
        return found["error"]


@dataclass(frozen=True)
class Offline:
    """The bootstrap, for the box alone, below a root of its own."""

    root: Path

    def box(self) -> BoxParts:
        return offline_box(os.environ, str(self.root))

    def config(self) -> ConfigParts:
        raise AssertionError("no test of the box reads a config")

    def ports(self) -> PortsParts:
        raise AssertionError("this command asks for no port")

    def doctor(self) -> DoctorParts:
        raise AssertionError("this command asks for no doctor")

    def serving(self) -> ServeParts:
        raise AssertionError("no test of the box serves")

    def imports(self) -> ImportParts:
        raise AssertionError("no test of the box imports")

    def sight(self) -> SightParts:
        raise AssertionError("no test of the box looks at one")

    def catalog(self) -> CatalogParts:
        raise AssertionError("a box command asks for no catalog")

    def schedule(self) -> OfflineSchedule:
        raise AssertionError("no test of the box asks for a schedule")

    def service(self) -> ServiceParts:
        raise AssertionError("a command on holds installs nothing")

    def deadmen(self) -> OfflineDeadmen:
        raise AssertionError("no test of the box asks for deadmen")


@dataclass(frozen=True)
class Calls:
    """`hostler box …` with a hold file, a state directory and a root of its own."""

    root: Path
    path: Path
    state: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Said:
        code = run(["box", *arguments], Offline(self.root))
        out, err = self.capture.readouterr()
        return Said(code, out, err)

    def put(self, record: Mapping[str, object] | bytes, mode: int = 0o600) -> None:
        """Write the hold file as a script does."""
        data = record if isinstance(record, bytes) else json.dumps(dict(record)).encode()
        self.path.write_bytes(data)
        self.path.chmod(mode)

    def config(self, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Write a config and name it in the environment."""
        path = self.root / "hostler.yaml"
        path.touch(0o600)
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv("HOSTLER_CONFIG", str(path))

    def record(self) -> dict[str, object]:
        """What the hold file says."""
        found = json.loads(self.path.read_bytes())
        assert isinstance(found, dict)
        return found

    def span_s(self) -> float:
        """Seconds from start to expiry of the record."""
        start, end = (parse_instant(self.record()[key]) for key in ("started_at", "expires_at"))
        assert start is not None
        assert end is not None
        return (end - start).total_seconds()


def soon(minutes: float = 30) -> str:
    """A wire time that many minutes from now."""
    return (datetime.now(UTC) + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def calls(tmp_path: Path, capture: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Calls with everything below `tmp_path`, and no config but one that a test writes."""
    (tmp_path / "run").mkdir(mode=0o700)
    found = Calls(tmp_path, tmp_path / "run/h.json", tmp_path / "state", capture)
    for name in ("HOSTLER_CONFIG", "CROW_BOX_RESERVATION_PATH", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HOSTLER_BOX_RESERVATION_PATH", str(found.path))
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(found.state))
    return found
