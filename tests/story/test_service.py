"""The daemon as a unit of a real systemd user manager, installed and removed by its own command."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.adapters.service_file import UNIT, command, word
from tests.fakes.fake_engine import eventually
from tests.fakes.user_manager import UserManager
from tests.story.house import Done, House, alive, house


@dataclass(frozen=True)
class Service:
    """A house whose daemon is run by systemd."""

    house: House
    manager: UserManager

    async def command(self, *argv: str) -> Done:
        """`hostler service …` of the manager's user."""
        return await self.house.run("service", *argv, **self.manager.environment)

    async def install(self, *more: str) -> str:
        """What an install that succeeds says."""
        self.house.write()
        done = await self.command("install", *more)
        assert done.code == 0, (done.out, done.err, self.said())
        return done.out

    def told(self, name: str) -> str:
        """A property of the daemon's unit."""
        return self.manager.systemctl("show", f"--property={name}", "--value", UNIT).strip()

    @property
    def pid(self) -> int:
        """The daemon's."""
        return int(self.told("MainPID"))

    @property
    def file(self) -> Path:
        """The unit's file."""
        return self.manager.units / UNIT

    def said(self) -> list[str]:
        """The unit's last words."""
        return self.manager.journal.tail("user", UNIT, 20)

    async def close(self) -> None:
        """The unit goes, whatever became of it; the house ends what still runs."""
        if self.file.exists():
            self.manager.systemctl("disable", "--now", UNIT)
            self.file.unlink()
        for kept in self.manager.units.glob(f"{UNIT}*"):
            kept.unlink()
        self.manager.systemctl("daemon-reload")


@pytest.fixture
async def service(systemd: UserManager, tmp_path: Path) -> AsyncIterator[Service]:
    """With the fake engine."""
    async with house(tmp_path) as found:
        found.fakes("fast")
        made = Service(found, systemd)
        try:
            yield made
        finally:
            await made.close()


@pytest.fixture
async def real_service(systemd: UserManager, tmp_path: Path) -> AsyncIterator[Service]:
    """With the real engine."""
    async with house(tmp_path, real=True) as found:
        found.add("fast")
        made = Service(found, systemd)
        try:
            yield made
        finally:
            await made.close()


async def served_by(service: Service) -> int:
    """The pid of the engine that has just answered."""
    answer = await service.house.chat("fast", max_tokens=2)
    assert answer.status_code == 200, (answer.text, service.said())
    return await service.house.pid("fast")


@pytest.mark.real
async def test_a_restart_of_the_unit_leaves_engines_alone(real_service: Service) -> None:
    """ENG-2, ENG-7: `systemctl --user restart` of the daemon's unit leaves engines alive, which serve on."""
    await real_service.install()
    engine, daemon = await served_by(real_service), real_service.pid
    real_service.manager.systemctl("restart", UNIT)
    assert real_service.pid != daemon
    assert await served_by(real_service) == engine


@pytest.mark.real
async def test_a_killed_daemon_is_started_again(real_service: Service) -> None:
    """ENG-7: after `kill -9` systemd starts the daemon again, and it takes up the engine that ran on."""
    await real_service.install()
    engine, daemon = await served_by(real_service), real_service.pid
    os.kill(daemon, signal.SIGKILL)
    await eventually(
        lambda: real_service.told("ActiveState") == "active" and real_service.pid not in (0, daemon),
        "systemd has started another",
    )
    assert alive(engine)
    assert await served_by(real_service) == engine


@pytest.mark.real
async def test_a_unit_as_an_engine(real_service: Service, tmp_path: Path) -> None:
    """ENG-2, ENG-7, ENG-12: a request starts a unit, a new daemon adopts it, a stop ends it; it has a log."""
    it, manager, name = real_service.house, real_service.manager, f"{tmp_path.name}.service"
    port, file = it.add("sleek"), tmp_path / "sleek.gguf"
    argv = (one.format(address="127.0.0.1", port=port) for one in it.program.argv(file, "sleek"))
    lines = [f"Environment={word(f'{key}={value}')}" for key, value in it.program.env.items()]
    manager.write(name, "\n".join(["[Service]", f"ExecStart={command(tuple(argv))}", *lines, ""]))
    it.engines["sleek"] = {"driver": "systemd", "unit": name, "port": port, "memory": "64 MiB"}
    await real_service.install()
    answer = await it.chat("sleek", max_tokens=4)
    assert answer.json()["choices"][0]["message"]["content"].startswith("I am"), real_service.said()
    engine = await it.pid("sleek")
    assert str(engine) == manager.systemctl("show", "--property=MainPID", "--value", name).strip()
    manager.systemctl("restart", UNIT)
    assert (await it.chat("sleek", max_tokens=2)).status_code == 200
    assert await it.pid("sleek") == engine
    assert "stop processing" in await it.told("logs", "sleek", "-n", "100")
    assert f"sleek (unit {name})" in (await real_service.command("uninstall", "--dry-run")).out
    await it.told("stop", "sleek")
    assert manager.systemctl("show", "--property=ActiveState", "--value", name).strip() == "inactive"
    (manager.units / name).unlink()


async def test_an_install_returns_when_it_serves(service: Service) -> None:
    """INTERFACE-1: `service install` enables the unit and returns once it serves, in its own places."""
    said = await service.install()
    assert await served_by(service)
    assert said.splitlines()[0] == f"{UNIT} is installed and serves: {service.file}"
    assert "`loginctl enable-linger" in said
    assert (service.told("UnitFileState"), service.told("ActiveState")) == ("enabled", "active")
    found = json.loads((service.house.state / "daemon.json").read_text())
    assert found["pid"] == service.pid


async def test_an_install_again_disturbs_nothing(service: Service) -> None:
    """INTERFACE-1: an install again changes nothing, unless its text is another: then the daemon restarts."""
    await service.install()
    first = service.pid
    assert "nothing was changed" in await service.install()
    assert service.pid == first
    service.house.node["shutdown"] = "5s"
    assert "is installed and serves" in await service.install()
    assert service.pid != first


async def test_a_dry_run_changes_nothing(service: Service) -> None:
    """INTERFACE-1: `--dry-run` prints the unit and the commands; nothing is written, nothing started."""
    said = await service.install("--dry-run")
    assert "KillMode=process" in said
    assert "would run: systemctl --user" in said
    assert not service.file.exists()
    assert service.told("LoadState") == "not-found"


async def test_an_uninstall_leaves_engines(service: Service) -> None:
    """INTERFACE-1: `service uninstall` ends the daemon and removes just the unit; engines run on, by name."""
    before = sorted(service.manager.home.rglob("*.service"))
    await service.install()
    engine, daemon = await served_by(service), service.pid
    tried = await service.command("uninstall", "--dry-run")
    assert (tried.code, service.file.exists(), alive(daemon)) == (0, True, True)
    done = await service.command("uninstall")
    assert (done.code, alive(daemon), alive(engine)) == (0, False, True), done.err
    assert f"Still running: fast (pid {engine}, port " in done.out
    assert service.told("LoadState") == "not-found"
    assert sorted(service.manager.home.rglob("*.service")) == before
    again = await service.command("uninstall")
    assert (again.code, "nothing was changed" in again.out) == (0, True)


async def test_an_edited_unit_is_left_alone(service: Service) -> None:
    """INTERFACE-1: a unit that somebody edited is neither replaced nor removed; with --force it is kept."""
    await service.install()
    edited = service.file.read_text() + "# mine\n"
    service.file.write_text(edited)
    for words in ("install", "uninstall"):
        refused = await service.command(words)
        assert (refused.code, service.file.read_text()) == (76, edited)
        assert "--force" in refused.err
    done = await service.command("uninstall", "--force", "--json")
    assert done.code == 0, done.err
    (kept,) = service.manager.units.glob(f"{UNIT}.kept-*")
    assert (json.loads(done.out)["kept_as"], kept.read_text()) == (str(kept), edited)
    assert not service.file.exists()


async def test_another_daemon_is_in_the_way(service: Service) -> None:
    """CONF-5: while a daemon of these places runs elsewhere, no unit is installed beside it: it is named."""
    await service.house.start()
    assert service.house.daemon is not None
    refused = await service.command("install")
    assert (refused.code, str(service.house.daemon.pid) in refused.err) == (75, True)
    assert not service.file.exists()


async def test_a_wrong_config_is_not_installed(service: Service) -> None:
    """INTERFACE-1, CONF-2: what the unit would not start with is told before anything is written."""
    service.house.top["gatway"] = {}
    service.house.write()
    refused = await service.command("install")
    assert (refused.code, "gatway" in refused.err, service.file.exists()) == (78, True, False)


async def test_without_a_manager_it_says_what_helps(service: Service) -> None:
    """INTERFACE-1: where the user's manager cannot be reached the error names lingering and the directory."""
    service.house.write()
    refused = await service.house.run("service", "install", HOME=str(service.house.root))
    assert refused.code == 69
    assert "loginctl enable-linger" in refused.err
    assert "XDG_RUNTIME_DIR" in refused.err
