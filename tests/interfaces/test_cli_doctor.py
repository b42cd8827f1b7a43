import json
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.doctor import BoxDoctor
from hostler.adapters.scan.offline import OfflinePorts
from hostler.domain.engine import Launch
from hostler.domain.errors import EngineFailed
from hostler.domain.values import EngineId
from hostler.interfaces.cli.main import run
from hostler.services.doctor_parts import DoctorParts
from tests.fakes.driver import FakeDriver
from tests.fakes.listeners import FakeListeners
from tests.interfaces.test_config_cli import ConfigOnly

CONFIG = """\
version: 1
engines:
  fast: {argv: [%s, --port, "{port}"], memory: 1 GiB}
routes:
  chat: {profiles: {p: {upstream: cloud}, q: fast}, active: p}
upstreams:
  cloud: {url: "http://127.0.0.1:%d/v1"}
"""


@dataclass(frozen=True)
class DoctorOnly(ConfigOnly):
    """A bootstrap whose only part is the doctor."""

    at: DoctorParts | None = None

    def doctor(self) -> DoctorParts:
        assert self.at is not None
        return self.at


class Away(FakeDriver):
    """A runtime that does not answer."""

    async def revival(self, launch: Launch) -> str | None:
        raise EngineFailed(engine=launch.engine, why="its runtime is away")


@dataclass
class Box:
    """A made-up box with its doctor."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    driver: FakeDriver = field(default_factory=FakeDriver)
    told: list[str] = field(default_factory=list)
    skews: list[tuple[str, float]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir()
        self.state.mkdir(mode=0o700)
        self.env = {
            "HOME": str(self.folder),
            "HOSTLER_STATE_DIR": str(self.state),
            "HOSTLER_BOX_RESERVATION_PATH": "/dev/shm/hostler-doctor.json",
        }

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def config(self, *, program: str = "sh", port: int = 9, text: str = "") -> None:
        path = self.folder / "hostler.yaml"
        path.write_text(text or CONFIG % (program, port))
        path.chmod(0o600)

    def doctor(self, *words: str) -> tuple[int, str]:
        """Exit code and output of `hostler doctor`."""
        config = OfflineConfig(env=self.env, here=self.folder, system=self.folder / "etc", machine="box")

        def told() -> Sequence[str]:
            self.asked.append("daemon")
            return self.told

        parts = BoxDoctor(
            env=self.env,
            config=config,
            ports=OfflinePorts(config=config, listeners=FakeListeners()),
            drivers={"process": self.driver},
            told=told,
            skews=lambda: self.skews,
            root=self.root,
        )
        code = run(("doctor", *words), DoctorOnly(config, at=parts))
        return code, self.capture.readouterr().out

    def found(self, *words: str) -> list[tuple[str, str]]:
        """Check and level of each finding."""
        _, out = self.doctor("--json", *words)
        return [(it["check"], it["level"]) for it in json.loads(out)["findings"]]


@pytest.fixture
def box(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.chdir(tmp_path)
    return Box(tmp_path, capsys)


@pytest.fixture
def port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        number: int = sock.getsockname()[1]
    return number


def test_without_a_config_the_doctor_says_how_to_get_one(box: Box) -> None:
    """CONF-4, INTERFACE-1: on a fresh box the finding is that there is no config, and the command init."""
    code, out = box.doctor("--offline")
    assert code == 65
    assert out.splitlines()[:3] == [
        "error: config: There is no hostler.yaml: nothing can be served.",
        "  hint: Let one be written from what is on this box.",
        "  hostler init",
    ]


def test_a_config_that_is_wrong_is_told_by_line(box: Box) -> None:
    """CONF-2, EVICT-1: two residents of one group, and one of another class, are told by line."""
    box.config(
        text="version: 1\n"
        "hosts: {local: {groups: {main: {}}}}\n"
        "engines:\n"
        '  a: {argv: [sh, "{port}"], resident: true, group: main, memory: 1 GiB}\n'
        '  b: {argv: [sh, "{port}"], resident: true, group: main, memory: 1 GiB}\n'
        '  c: {argv: [sh, "{port}"], resident: true, serving_class: windowed, memory: 1 GiB}\n'
    )
    code, out = box.doctor("--offline")
    assert code == 65
    assert "hostler.yaml:5:" in out
    assert "holds one at a time" in out
    assert "hostler.yaml:6:" in out
    assert "windowed" in out


def test_what_an_engine_lacks_and_what_answers_nobody(box: Box, port: int) -> None:
    """GATE-1, SYNC-5: a program that is not there and a dead target of an active profile are errors."""
    box.config(program="no-such-program", port=port)
    assert box.found() == [("engine program", "error"), ("dead target", "error")]
    assert box.found("--offline") == [("engine program", "error")]


def test_a_target_that_answers_is_none(box: Box) -> None:
    """SYNC-5: a target at which somebody listens is no finding, whatever it would say."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        box.config(port=server.getsockname()[1])
        code, out = box.doctor()
    assert (code, out) == (0, "0 errors, 0 warnings.\n")


def test_a_row_at_which_nobody_answers(box: Box, port: int) -> None:
    """SYNC-5: a row of this node or a paired one that is enabled and dead is an error."""
    box.config(
        text="version: 1\n"
        f"sync: {{peers: {{annex: {{url: 'http://127.0.0.1:1', key: '${{file:{secret(box.folder)}}}'}}}}}}\n"
    )
    row = {"url": f"http://255.255.255.255:{port}", "version": 1, "host": "external"}
    rows = [
        {**row, "id": "mine", "author": "local"},
        {**row, "id": "theirs", "author": "annex"},
        {**row, "id": "over", "author": "annex", "retired": True},
        {**row, "id": "strange", "author": "owl"},
    ]
    (box.state / "sync.json").write_text(json.dumps({"clock": 1, "rows": rows}))
    assert box.found() == [("dead row", "error"), ("dead row", "error")]
    assert box.found("--offline") == []
    _, out = box.doctor()
    assert "annex shares theirs" in out
    assert "hostler sync explain mine" in out


def secret(folder: Path) -> Path:
    """A file with a key in it."""
    file = folder / "pair.key"
    file.write_text("hk_pair_0123456789")
    file.chmod(0o600)
    return file


def test_offline_asks_nobody(box: Box) -> None:
    """INTERFACE-3: --offline asks neither a daemon nor a target; without it its warnings come."""
    box.config()
    box.told, box.skews = ["routes.json cannot be read"], [("raven", 60.0)]
    assert box.found("--offline") == []
    assert box.asked == []
    assert {("daemon", "warning"), ("clock", "warning")} <= set(box.found())


def test_what_brings_an_engine_up_besides_us(box: Box) -> None:
    """ENG-2: each engine's driver is asked what else starts it; one that cannot be asked is passed over."""
    box.config()
    box.driver.revivals[EngineId("fast")] = "restart: always"
    assert box.found("--offline") == [("restarted elsewhere", "warning")]

    box.driver = Away()
    assert box.found("--offline") == []


def test_files_with_keys(box: Box) -> None:
    """API-4: a local key that others may read is an error; without a key there is nothing to say."""
    box.config()
    key = box.state / "local.key"
    key.write_text("x")
    key.chmod(0o644)
    code, out = box.doctor("--offline")
    assert code == 65
    assert f"chmod 600 {key}" in out
    key.chmod(0o600)
    assert box.found("--offline") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user(box: Box) -> None:
    """SEC-1: a key file of another user is an error."""
    box.config()
    key = box.state / "keys.json"
    key.write_text("{}")
    key.chmod(0o600)
    os.chown(key, 4711, 4711)
    assert box.found("--offline") == [("key file", "error")]


def test_a_runtime_directory_that_is_not_the_users(box: Box) -> None:
    """CONF-5: $XDG_RUNTIME_DIR is compared with the one that this user has."""
    box.config()
    usual = box.root / "run/user" / str(os.geteuid())
    usual.mkdir(parents=True)
    assert box.found("--offline") == []
    box.env["XDG_RUNTIME_DIR"] = str(usual)
    assert box.found("--offline") == []
    box.env["XDG_RUNTIME_DIR"] = "/tmp"
    assert box.found("--offline") == [("runtime directory", "warning")]


def test_lingering_is_looked_at_where_systemd_runs(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-2: lingering counts for a user of a machine with systemd, and not for root."""
    box.config()
    (box.root / "run/systemd/system").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert ("lingering", "warning") not in box.found("--offline")
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert ("lingering", "warning") in box.found("--offline")
    linger = box.root / "var/lib/systemd/linger"
    linger.mkdir(parents=True)
    (linger / "4711").touch()
    assert ("lingering", "warning") not in box.found("--offline")


def test_a_port_that_two_have(box: Box) -> None:
    """PORT-3: a collision that the scan of the config's folders finds is an error."""
    folder = box.folder / "bundles"
    folder.mkdir()
    (folder / "compose.yaml").write_text('services: {a: {ports: ["8080:80"]}, b: {ports: ["8080:81"]}}\n')
    box.config(text=f"version: 1\nports: {{scan: {{dirs: [{folder}]}}}}\n")
    assert box.found("--offline") == [("port", "error")]
