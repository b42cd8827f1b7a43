"""`hostler service` with a systemctl that only writes down what it is asked; the real one is in the story."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.adapters.service_file import UNIT
from hostler.adapters.service_install import SystemdService
from hostler.domain.errors import InvalidConfig, NoConfig, ServiceFailed
from hostler.services.service_parts import Installed
from tests.fakes.config_files import write_config

CONFIG = """\
version: 1
node: {shutdown: 5s, on_exit: %s}
engines:
  a: {argv: [s, --port, "{port}"], memory: 1 GiB, stop_timeout: 100s}
"""
TOLD = "ActiveState=inactive\nUnitFileState=\nMainPID=0\nNeedDaemonReload=no"


@dataclass(frozen=True)
class Machine:
    """A home, a root, and a systemctl."""

    folder: Path

    def write(self, text: str = CONFIG % "keep") -> Path:
        folder = self.folder / "home/.config/hostler"
        folder.mkdir(parents=True)
        return write_config(folder, text)

    def systemctl(self, script: str = "") -> None:
        """One that notes its arguments, tells the unit's properties, and then does `script`."""
        program = self.folder / "bin/systemctl"
        program.parent.mkdir(exist_ok=True)
        lines = ["#!/bin/sh", f'echo "$*" >>"{self.folder}/calls"']
        program.write_text(
            "\n".join([*lines, f'case "$*" in *show*) echo "{TOLD}";; *) {script or ":"};; esac\n'])
        )
        program.chmod(0o755)

    def service(self, **env: str) -> SystemdService:
        known = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "HOME": str(self.folder / "home")}
        return SystemdService(
            env={name: value for name, value in {**known, **env}.items() if value},
            here=self.folder,
            python="/opt/python",
            root=self.folder / "root",
        )

    def install(self, *, system: bool = False, host: str | None = None, **env: str) -> Installed:
        return self.service(**env).install(config=None, host=host, system=system, force=False, dry_run=False)

    def asked(self) -> list[str]:
        """What systemctl was asked to change."""
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if " show " not in line]

    def user_unit(self) -> Path:
        return self.folder / "home/.config/systemd/user" / UNIT


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path)
    (tmp_path / "home").mkdir()
    found.systemctl()
    return found


def test_a_users_unit(machine: Machine) -> None:
    """INTERFACE-1: an install writes the user's unit, then tells, enables and starts it, in that order."""
    file = machine.write()
    found = machine.install(HOSTLER_STATE_DIR="/srv/state", HOSTLER_API_KEY="must not be seen")
    assert (found.path, machine.user_unit().read_text()) == (str(machine.user_unit()), found.text)
    asked = "--user --no-ask-password --no-pager"
    assert machine.asked() == [
        f"{asked} daemon-reload",
        f"{asked} enable -- {UNIT}",
        f"{asked} restart -- {UNIT}",
    ]
    lines = found.text.splitlines()
    assert f'ExecStart="/opt/python" "-m" "hostler" "serve" "--config" "{file}"' in lines
    assert 'Environment="HOSTLER_STATE_DIR=/srv/state"' in lines
    assert "must not be seen" not in found.text
    assert machine.user_unit().stat().st_mode & 0o777 == 0o644


def test_the_host_that_was_named_is_kept(machine: Machine) -> None:
    """INTERFACE-1: the unit serves as the host that the install named."""
    machine.write("version: 1\nhosts: {crow: {}}\n")
    assert '"--host" "crow"' in machine.install(host="crow").text


def test_a_machines_unit(machine: Machine) -> None:
    """CONF-5: with --system the unit goes to /etc, its state to /var/lib/hostler, and that is said."""
    machine.write()
    found = machine.install(system=True)
    assert found.path == str(machine.folder / "root/etc/systemd/system" / UNIT)
    assert "StateDirectory=hostler" in found.text
    assert machine.asked()[-1].startswith("--system ")
    assert found.notes == (
        "It runs as root. Commands of root find it with HOSTLER_STATE_DIR=/var/lib/hostler.",
    )


def test_lingering_is_asked_for_where_it_is_off(machine: Machine) -> None:
    """INTERFACE-1: where the user does not linger the one command is told, else nothing."""
    machine.write()
    name = pwd.getpwuid(os.geteuid()).pw_name
    assert machine.install().notes[0].endswith(f"`loginctl enable-linger {name}` keeps it running.")
    linger = machine.folder / "root/var/lib/systemd/linger" / name
    linger.parent.mkdir(parents=True)
    linger.touch()
    assert machine.install().notes == ()


@pytest.mark.parametrize(("on_exit", "seconds"), [("keep", 35), ("stop", 235)])
def test_an_end_has_the_time_that_it_needs(machine: Machine, on_exit: str, seconds: int) -> None:
    """REL-5: systemd waits for streams, and with `on_exit: stop` for the slowest engine, before it kills."""
    machine.write(CONFIG % on_exit)
    assert f"TimeoutStopSec={seconds}" in machine.install().text.splitlines()


def test_what_the_unit_would_not_see_is_not_there(machine: Machine) -> None:
    """CONF-2: a secret of the shell's environment is missing for the unit, and told before it is written."""
    machine.write(
        'version: 1\nengines:\n  a: {argv: [s, --port, "{port}"], env: {HF_TOKEN: "${env:HF_TOKEN}"}}\n'
    )
    with pytest.raises(InvalidConfig) as refused:
        machine.install(HF_TOKEN="x")
    assert "HF_TOKEN" in refused.value.problems[0]
    assert not machine.user_unit().exists()


def test_without_a_config_nothing_is_installed(machine: Machine) -> None:
    """CONF-1: there is no unit without a config."""
    with pytest.raises(NoConfig):
        machine.install()


def test_a_start_that_fails_is_told(machine: Machine) -> None:
    """INTERFACE-1: a unit that does not start is `service_failed`, with where its own words are."""
    machine.write()
    machine.systemctl('case "$*" in *restart*) echo "Job failed."; exit 1;; esac')
    with pytest.raises(ServiceFailed, match=r"the user manager says: Job failed") as refused:
        machine.install()
    assert f"`journalctl --user --unit={UNIT}" in refused.value.fix


def test_a_place_that_cannot_be_written_is_told(machine: Machine) -> None:
    """INTERFACE-1: a directory that cannot be made is `service_failed` by its name; nothing is started."""
    machine.write()
    (machine.folder / "home/.config/systemd").write_text("in the way")
    with pytest.raises(ServiceFailed, match=r"systemd.*: Not a directory"):
        machine.install()


def test_a_user_without_a_home(machine: Machine) -> None:
    """INTERFACE-1: without a home there is no place for a user's unit, and --system is named."""
    machine.write()
    config = str(machine.folder / "home/.config/hostler/hostler.yaml")
    with pytest.raises(ServiceFailed) as refused:
        machine.install(HOME="", HOSTLER_CONFIG=config)
    assert "--system" in refused.value.fix


def test_an_uninstall_of_nothing_asks_nobody(machine: Machine) -> None:
    """INTERFACE-1: without a unit an uninstall changes nothing, and needs neither config nor manager."""
    (machine.folder / "bin/systemctl").unlink()
    found = machine.service().uninstall(system=False, force=False, dry_run=False)
    assert (found.removed, found.commands, found.engines) == (False, (), ())
