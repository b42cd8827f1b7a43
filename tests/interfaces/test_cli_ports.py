import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.scan.offline import OfflinePorts
from hostler.interfaces.api.app import create_app
from hostler.interfaces.cli.main import run
from hostler.interfaces.cli.ports_text import say_live
from hostler.services.catalog_parts import CatalogParts
from hostler.services.config_parts import ConfigParts
from hostler.services.deadman_offline import OfflineDeadmen
from hostler.services.doctor_parts import DoctorParts
from hostler.services.holds_offline import BoxParts
from hostler.services.import_parts import ImportParts
from hostler.services.ports_live import LivePort, LivePorts, SilentRow
from hostler.services.ports_parts import PortsParts
from hostler.services.schedule_offline import OfflineSchedule
from hostler.services.service_parts import ServiceParts
from hostler.services.serving import ServeParts
from hostler.services.sight_parts import SightParts
from tests.fakes.config_files import write_config
from tests.fakes.listeners import FakeListeners, watch_of
from tests.interfaces.room import room
from tests.interfaces.room_fleet import HOST
from tests.interfaces.terminal import served

CONFIG = """\
version: 1
hosts:
  crow:
    memory: {total: 124 GiB, reserve: 8 GiB}
engines:
  a: {argv: [s, "{port}"], port: 8003, memory: 60 GiB}
  b: {argv: [s, "{port}"], port: 8004, memory: 60 GiB}
ports:
  rows:
    - {host: crow, port: 8080, service: web}
"""
COMPOSE = 'services: {web: {ports: ["8080:80"]}, other: {ports: ["127.0.0.1:${P:-8080}:80"]}}\n'


@dataclass(frozen=True)
class PortsOnly:
    """A bootstrap whose only part is the ports of a folder."""

    parts: PortsParts

    def ports(self) -> PortsParts:
        return self.parts

    def config(self) -> ConfigParts:
        raise AssertionError("a command on ports asks for its own part")

    def box(self) -> BoxParts:
        raise AssertionError("a command on ports asks for no hold")

    def deadmen(self) -> OfflineDeadmen:
        raise AssertionError("a command on ports asks for no deadmen")

    def catalog(self) -> CatalogParts:
        raise AssertionError("this command asks for no catalog")

    def doctor(self) -> DoctorParts:
        raise AssertionError("this command asks for no doctor")

    def serving(self) -> ServeParts:
        raise AssertionError("a command on ports serves nothing")

    def schedule(self) -> OfflineSchedule:
        raise AssertionError("a command on ports asks for no schedule")

    def imports(self) -> ImportParts:
        raise AssertionError("a command on ports imports nothing")

    def sight(self) -> SightParts:
        raise AssertionError("a command on ports looks at no box")

    def service(self) -> ServiceParts:
        raise AssertionError("a command on ports installs nothing")


@dataclass(frozen=True)
class Shell:
    """Runs `hostler` in a folder; gives the exit code and what was printed."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    listeners: FakeListeners = field(default_factory=FakeListeners)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        env = {"HOME": str(self.folder)}
        config = OfflineConfig(env=env, here=self.folder, system=self.folder / "etc", machine="crow")
        code = run(arguments, PortsOnly(OfflinePorts(config=config, listeners=self.listeners)))
        out, err = self.capture.readouterr()
        return code, out, err


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in a folder with a config and one compose file."""
    monkeypatch.chdir(tmp_path)
    write_config(tmp_path, CONFIG)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/compose.yaml").write_text(COMPOSE)
    return Shell(tmp_path, capsys)


def test_check_tells_people(shell: Shell) -> None:
    """PORT-3, PORT-4: findings come first, then what was read, tried and covered; exit 65."""
    code, out, err = shell("ports", "check", "in")
    assert (code, err) == (65, "")
    lines = out.splitlines()
    assert lines[1].split()[:3] == ["collision", "crow", "8080/tcp"]
    assert "127.0.0.1+any:8080/tcp is wanted 2 times: web (in/compose.yaml:1), other" in lines[1]
    assert "Read 2 files: 1 compose, 1 config." in lines
    assert "crow: 1 rows, 1 files, 5 ports." in lines
    assert any(
        line.startswith("Forms tried: compose ports, short 2, compose ports, long 0,") for line in lines
    )
    assert lines[-1].startswith("1 findings, 0 remarks. A scan is a lower bound")
    assert "no port" not in out


def test_check_that_is_clean(shell: Shell) -> None:
    """PORT-3, PORT-4: nothing found is exit 0, and said as found none, never as there being none."""
    (shell.folder / "in/compose.yaml").write_text('services: {web: {ports: ["8080:80"]}}\n')
    (shell.folder / "in/x.py").write_text("")
    code, out, err = shell("ports", "check", "in")
    assert (code, err) == (0, "")
    assert "Collisions: found none." in out
    assert "Skipped *.py: not a kind that is read." in out
    assert "there are no" not in out.lower()


def test_check_with_a_variable(shell: Shell) -> None:
    """PORT-2: a variable that is given fills compose files; anything but NAME=VALUE is a usage error."""
    assert shell("ports", "check", "in", "--env", "P=8081")[0] == 65
    code, out, _ = shell("ports", "check", "in", "--env", "P=8004")
    assert code == 65
    assert "8004/tcp" in out
    assert shell("ports", "check", "in", "--env", "P")[0] == 2


def test_check_as_json(shell: Shell) -> None:
    """PORT-3, INTERFACE-2: with --json the whole report is one document."""
    code, out, err = shell("ports", "check", "in", "--json")
    assert (code, err) == (65, "")
    report = json.loads(out)
    assert report["clean"] is False
    assert report["verdicts"][0]["kind"] == "collision"
    assert report["verdicts"][0]["owners"] == ["web", "other"]
    certainty = {it["owner"]: it["certainty"] for it in report["findings"]}
    assert (certainty["web"], certainty["other"]) == ("literal", "default")
    assert report["rows"][0]["service"] == "web"
    assert report["coverage"] == [{"host": "crow", "rows": 1, "files": 1, "findings": 5}]
    assert {"form": "compose ports, short", "found": 2} in report["forms"]
    assert report["read"][1]["kind"] == "compose"


def test_a_free_port_and_its_row(shell: Shell) -> None:
    """PORT-5: `free` proposes, `allocate` writes one row; both say what a free port is worth."""
    code, out, _ = shell("ports", "free", "--host", "crow", "--range", "8003-8090")
    assert code == 0
    assert out.splitlines()[0] == "8005 in 8003-8090 of crow is free."
    assert "A free port is necessary, never sufficient" in out
    options = ("--host", "crow", "--range", "8003-8090", "--service", "R26 stack", "--needs", "12 GiB")
    code, out, _ = shell("ports", "allocate", *options, "--by", "script")
    assert code == 0
    assert out.startswith("8005 of crow is R26 stack's (reserved): ")
    assert "necessary, never sufficient" in out
    row = (
        '    - {host: crow, port: 8005, service: R26 stack, status: reserved, by: script, needs: "12 GiB"}\n'
    )
    assert (shell.folder / "hostler.yaml").read_text() == CONFIG + row
    code, out, _ = shell("ports", "allocate", *options, "--json")
    assert json.loads(out)["row"]["port"] == 8006


def test_a_port_of_which_nobody_knows(shell: Shell) -> None:
    """PORT-5, INTERFACE-4: where the listeners cannot be asked no port is called free, and the exit is 69."""
    shell.listeners.broken = OSError(13, "Permission denied")
    words = ("ports", "free", "--host", "crow", "--range", "8003-8090")
    code, out, _ = shell(*words)
    assert code == 69
    assert out.splitlines()[0] == (
        "Whether 8005 in 8003-8090 of crow is free is not known: it is in no row and no file."
    )
    assert "The listeners could not be looked at: Permission denied." in out
    code, out, _ = shell(*words, "--json")
    told = json.loads(out)
    assert (code, told["port"], told["unknown"]) == (69, 8005, True)
    assert shell("ports", "free", "--host", "crow", "--range", "8003")[0] == 71
    shell.listeners.broken = None
    code, out, _ = shell(*words, "--json")
    assert (code, json.loads(out)["unknown"]) == (0, False)


def test_no_port_is_taken_of_which_nobody_knows(shell: Shell) -> None:
    """PORT-5, INTERFACE-4: where the listeners cannot be asked `allocate` writes nothing and ends with 69."""
    shell.listeners.broken = OSError(13, "Permission denied")
    words = ("ports", "allocate", "--host", "crow", "--range", "8003-8090", "--service", "x")
    code, out, err = shell(*words)
    assert (code, out) == (69, "")
    assert err.splitlines()[0] == (
        "error: No port of crow was taken: The listeners could not be looked at: Permission denied."
    )
    code, out, _ = shell(*words, "--json")
    assert (code, (shell.folder / "hostler.yaml").read_text()) == (69, CONFIG)


def test_no_free_port(shell: Shell) -> None:
    """PORT-5, INTERFACE-4: where none is free, `free` ends with 71 and `allocate` is refused with it."""
    code, out, _ = shell("ports", "free", "--host", "crow", "--range", "8003")
    assert (code, out.splitlines()[0]) == (71, "None in 8003-8003 of crow is free.")
    code, out, err = shell("ports", "allocate", "--host", "crow", "--range", "8003-8004", "--service", "x")
    assert (code, out) == (71, "")
    assert err.startswith("error: The limit of 2 ports in 8003-8004 of crow is reached.")
    assert (
        json.loads(shell("ports", "free", "--host", "crow", "--range", "8003", "--json")[1])["port"] is None
    )


@pytest.mark.parametrize("span", ["8000:8099", "9-1", "0-5", "x", "1-70000"])
def test_a_range_that_is_none(shell: Shell, span: str) -> None:
    """PORT-5, INTERFACE-4: a range that is none is a usage error, which says what one looks like."""
    code, _, err = shell("ports", "free", "--host", "crow", "--range", span)
    assert code == 2
    assert "a range of ports such as 8000-8099" in err


def test_fits(shell: Shell) -> None:
    """MEM-6: a set is told with its sum; 0 when it fits, 71 when not, and one that is unknown is refused."""
    code, out, _ = shell("fits", "a", "--on", "crow")
    assert (code, out) == (0, "fits: a 60 + reserve 8 = 68 GiB of crow's 124\n")
    code, out, _ = shell("fits", "a", "b")
    assert (code, out) == (71, "does not fit: a 60 + b 60 + reserve 8 = 128 GiB of crow's 124\n")
    code, out, _ = shell("fits", "a", "b", "--json")
    told = json.loads(out)
    assert (code, told["fits"], told["sums"][0]["pool"]) == (71, False, "host")
    code, _, err = shell("fits", "c")
    assert (code, err.splitlines()[0]) == (66, "error: There is no engine 'c' here.")
    assert shell("fits")[0] == 2


def test_who_listens(capsys: pytest.CaptureFixture[str]) -> None:
    """PORT-5: people see each listener with its owner and row, and the rows on whose ports none listens."""
    web = LivePort(
        address="127.0.0.1",
        port=9000,
        protocol="tcp",
        pid=7,
        process="serve",
        unit="web.service",
        container="",
        engine="",
        service="web",
        status="production",
        known=True,
    )
    stray = LivePort(
        address="any",
        port=9001,
        protocol="tcp",
        pid=None,
        process="",
        unit="",
        container="",
        engine="",
        service="",
        status="",
        known=False,
    )
    silent = SilentRow(port=8030, last=8033, protocol="tcp", service="flash", place="ports.yaml:3")
    say_live(
        LivePorts(host="crow", auto_from=8100, auto_to=8199, ports=(web, stray), silent=(silent,), note="n")
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        "9000/tcp",
        "127.0.0.1",
        "7",
        "serve",
        "web.service",
        "-",
        "-",
        "web",
        "(production)",
    ]
    assert lines[2].split()[-1] == "none"
    assert lines[3:] == [
        "8030-8033/tcp is flash's (ports.yaml:3); none listens.",
        "crow: 2 ports, 1 in no row; `auto` takes 8100-8199.",
        "n",
    ]


async def test_listeners_that_cannot_be_read(tmp_path: Path) -> None:
    """PORT-5, INTERFACE-4: `live` of a host that cannot tell says no number of ports; it exits with 69."""
    async with room() as it:
        listeners = FakeListeners(broken=OSError(13, "Permission denied"))
        app = create_app(replace(it.control, ports=watch_of(it.lanes, listeners)))
        async with served(app, tmp_path) as user:
            done = await user.inside("ports", "live")
            why = "The listeners of this machine cannot be read: Permission denied."
            assert (done.code, done.out) == (69, f"Who listens on {HOST} is not known. {why}\n")
            assert (await user.inside("ports", "live", "--json")).code == 69
            listeners.broken = None
            done = await user.inside("ports", "live")
            assert (done.code, done.out.splitlines()[0]) == (0, "Nothing was found listening.")
