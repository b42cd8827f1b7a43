import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

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
from tests.fakes.config_files import write_config

GOOD = """\
version: 1
engines:
  a: {argv: [s, --port, "{port}"]}
routes:
  chat: {profiles: {p: a}}
"""
BAD = """\
version: 1
engins: {}
routes:
  chat: {profiles: {p: b}}
"""


@dataclass(frozen=True)
class ConfigOnly:
    """A bootstrap whose only part is the config of a folder."""

    parts: ConfigParts
    asked: list[str] = field(default_factory=list)

    def config(self) -> ConfigParts:
        self.asked.append("config")
        return self.parts

    def catalog(self) -> CatalogParts:
        raise AssertionError("a command on the config asks for no catalog")

    def box(self) -> BoxParts:
        raise AssertionError("a command on the config asks for no hold")

    def ports(self) -> PortsParts:
        raise AssertionError("this command asks for no port")

    def doctor(self) -> DoctorParts:
        raise AssertionError("this command asks for no doctor")

    def serving(self) -> ServeParts:
        raise AssertionError("a command on the config serves nothing")

    def imports(self) -> ImportParts:
        raise AssertionError("a command on the config imports nothing")

    def sight(self) -> SightParts:
        raise AssertionError("a command on the config looks at no box")

    def schedule(self) -> OfflineSchedule:
        raise AssertionError("a command on the config asks for no schedule")

    def service(self) -> ServiceParts:
        raise AssertionError("a command on the config installs nothing")

    def deadmen(self) -> OfflineDeadmen:
        raise AssertionError("a command on the config asks for no deadmen")


@dataclass(frozen=True)
class Shell:
    """Runs `hostler` in a folder; gives the exit code and what was printed."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        env = {"HOME": str(self.folder / "home"), "HOSTLER_BOX_RESERVATION_PATH": "/run/hold.json"}
        parts = OfflineConfig(env=env, here=self.folder, system=self.folder / "etc", machine="box")
        code = run(arguments, ConfigOnly(parts))
        out, err = self.capture.readouterr()
        return code, out, err


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in an empty folder, its output no terminal."""
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def test_check_says_that_all_is_right(shell: Shell) -> None:
    """CONF-2, INTERFACE-2: a right config is one line with what it has, after its warnings; exit 0."""
    path = write_config(shell.folder, GOOD)
    code, out, err = shell("config", "check")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{path}:3:3  warning  engines.a: no memory: while it is measured no other engine of its host starts",
        f"{path} is right as host local: 1 host, 1 engine, 1 route; 1 warning.",
    ]


def test_check_tells_every_error(shell: Shell) -> None:
    """CONF-2, INTERFACE-4: each error is a row of its place, key and message, its hint below; exit 78."""
    path = write_config(shell.folder, BAD)
    code, out, err = shell("config", "check")
    assert (code, err) == (78, "")
    assert out.splitlines() == [
        f"{path}:2:1   error  engins: no such key",
        " " * len(f"{path}:4:24  error  ") + "hint: nearest valid name: engines",
        f"{path}:4:24  error  routes.chat.profiles.p: there is no engine b",
        f"{path}: 2 errors, 0 warnings.",
    ]


def test_check_as_json(shell: Shell) -> None:
    """INTERFACE-2: with --json the report is one document on stdout, with each problem's facts."""
    path = write_config(shell.folder, BAD, "other.yaml")
    for arguments in (("other.yaml",), ("--config", "other.yaml")):
        code, out, err = shell("config", "check", *arguments, "--json")
        assert (code, err) == (78, "")
        report = json.loads(out)
        assert (report["valid"], report["file"], report["host"]) == (False, path.name, "local")
        assert report["problems"][0] == {
            "file": "other.yaml",
            "line": 2,
            "column": 1,
            "path": "engins",
            "message": "no such key",
            "hint": "nearest valid name: engines",
        }


def test_without_a_config_the_hint_says_what_to_write(shell: Shell) -> None:
    """CONF-5, INTERFACE-4: where no config is found the exit is 78 and the hint says what to write."""
    for arguments in (("check",), ("show",), ("check", "--json")):
        code, out, err = shell("config", *arguments)
        assert (code, out) == (78, "")
        assert "`hostler init` writes one" in err


def test_show_prints_the_effective_config(shell: Shell) -> None:
    """CONF-2: show prints YAML with defaults; with --json the document with its file and host."""
    write_config(shell.folder, GOOD)
    code, out, _ = shell("config", "show")
    assert code == 0
    assert out.startswith("# yaml-language-server: $schema=./hostler.schema.json\nversion: 1\n")
    assert "    active: p\n" in out
    code, out, _ = shell("config", "show", "--json")
    shown = json.loads(out)
    assert (code, shown["host"], shown["config"]["engines"]["a"]["model"]) == (0, "local", "a")


def test_show_of_a_broken_config_fails(shell: Shell) -> None:
    """INTERFACE-4: show of a config with errors exits 78; with --json the error object is alone on stderr."""
    write_config(shell.folder, BAD)
    code, out, err = shell("config", "show")
    assert (code, out) == (78, "")
    assert "hostler config check" in err
    code, out, err = shell("config", "show", "--json")
    assert (code, out) == (78, "")
    error = json.loads(err)["error"]
    assert error["code"] == "invalid_config"
    assert len(error["facts"]["problems"]) == 2


def test_schema_is_the_one_that_is_shipped(shell: Shell) -> None:
    """CONF-1: `hostler config schema` prints the JSON Schema that the package ships."""
    code, out, _ = shell("config", "schema")
    assert code == 0
    assert json.loads(out)["title"] == "hostler.yaml"
    assert shell("config", "schema", "--json")[1] == out


@pytest.mark.parametrize("change", [lambda text: text, lambda text: text.replace("p: a", "q: a")])
def test_diff(shell: Shell, change: Callable[[str], str]) -> None:
    """CONF-2: diff prints a table of keys, or that both come to the same; it exits 0 either way."""
    write_config(shell.folder, GOOD, "a.yaml")
    write_config(shell.folder, change(GOOD), "b.yaml")
    code, out, _ = shell("config", "diff", "a.yaml", "b.yaml")
    listed = json.loads(shell("config", "diff", "a.yaml", "b.yaml", "--json")[1])
    assert code == 0
    if change(GOOD) == GOOD:
        assert (out, listed) == ("Both come to the same.\n", [])
    else:
        assert [row.split()[:2] for row in out.splitlines()] == [
            ["KEY", "CHANGE"],
            ["routes.chat.profiles.p", "removed"],
            ["routes.chat.profiles.q", "added"],
            ["routes.chat.active", "changed"],
        ]
        assert listed[2] == {"path": "routes.chat.active", "change": "changed", "before": "p", "after": "q"}


def test_paths_lists_every_place(shell: Shell) -> None:
    """CONF-5: paths prints each place by name; with --json one object."""
    code, out, _ = shell("paths")
    assert code == 0
    assert out.splitlines()[0].split() == ["WHAT", "WHERE"]
    found = json.loads(shell("paths", "--json")[1])
    assert found["hold"] == "/run/hold.json"
    assert f"local_key    {found['local_key']}" in out


def test_control_characters_of_a_config_reach_no_terminal(shell: Shell) -> None:
    """BG-22: a key of a config with an escape sequence is printed with the sequence written out."""
    write_config(shell.folder, 'version: 1\n"\\x1b[2J": 1\nnode: {on_exit: "\\u202ekeep"}\n')
    _, out, _ = shell("config", "check")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\\x1b[2J" in out
