from pathlib import Path

import pytest

from hostler.adapters.config.offline import OfflineConfig
from hostler.adapters.config.paths import resolve_paths, state_dir
from hostler.domain.errors import InvalidConfig
from hostler.domain.fleet import Node
from tests.fakes.config_files import write_config

HOME = {"HOME": "/home/kim"}


@pytest.mark.parametrize(
    ("env", "configured", "place"),
    [
        (HOME, None, "/home/kim/.local/state/hostler"),
        ({**HOME, "XDG_STATE_HOME": "/xdg"}, None, "/xdg/hostler"),
        ({**HOME, "XDG_STATE_HOME": "relative"}, None, "/home/kim/.local/state/hostler"),
        ({**HOME, "XDG_STATE_HOME": "/xdg", "STATE_DIRECTORY": "/var/lib/h:/var/lib/i"}, None, "/var/lib/h"),
        ({**HOME, "STATE_DIRECTORY": "/var/lib/h", "HOSTLER_STATE_DIR": "/mine"}, None, "/mine"),
        ({**HOME, "HOSTLER_STATE_DIR": "/mine"}, "/configured", "/configured"),
        ({}, None, "/var/lib/hostler"),
    ],
)
def test_where_state_is_kept(env: dict[str, str], configured: str | None, place: str) -> None:
    """CONF-5: node.state_dir, $HOSTLER_STATE_DIR, systemd's, the XDG one; without a home a service's."""
    assert state_dir(env, configured) == Path(place)


@pytest.mark.parametrize(
    ("env", "place"),
    [
        ({**HOME, "XDG_RUNTIME_DIR": "/run/user/1000"}, "/run/user/1000/hostler"),
        ({**HOME, "XDG_RUNTIME_DIR": "/run/user/1000", "RUNTIME_DIRECTORY": "/run/h"}, "/run/h"),
        (HOME, "/home/kim/.local/state/hostler/run"),
        ({}, "/run/hostler"),
    ],
)
def test_where_sockets_are(env: dict[str, str], place: str) -> None:
    """CONF-5: sockets and locks of a run are in the run-time directory of the user or the service."""
    assert resolve_paths(env, Node(), "/run/hold.json").runtime_dir == Path(place)


@pytest.mark.parametrize(
    ("env", "node", "place"),
    [
        (HOME, Node(), "/home/kim/.local/share/hostler/models"),
        ({**HOME, "XDG_DATA_HOME": "/data"}, Node(), "/data/hostler/models"),
        ({}, Node(), "/var/lib/hostler/models"),
        (HOME, Node(models_dir="/srv/models"), "/srv/models"),
    ],
)
def test_where_models_are(env: dict[str, str], node: Node, place: str) -> None:
    """CONF-5: models are in models_dir, else in the data directory of the user or the service."""
    assert resolve_paths(env, node, "/run/hold.json").models_dir == Path(place)


def test_every_file_has_its_place() -> None:
    """CONF-5: databases and small files are in the state directory, the daemon's lock beside the hold."""
    paths = resolve_paths(HOME, Node(state_dir="/s"), "/run/user/1000/hold.json")
    found = paths.listing()
    assert found["daemon_lock"] == "/run/user/1000/hostler-daemon.lock"
    assert found["hold"] == "/run/user/1000/hold.json"
    names = {key: value.removeprefix("/s/") for key, value in found.items() if value.startswith("/s/")}
    assert names == {
        "runtime_dir": "run",
        "daemon": "daemon.json",
        "state_lock": "daemon.lock",
        "local_key": "local.key",
        "keys": "keys.json",
        "routes": "routes.json",
        "fence": "fence.json",
        "schedule_db": "schedule.db",
        "requests_db": "requests.db",
        "logs": "logs",
        "engines": "engines",
        "receipts": "receipts",
        "windows": "windows",
        "client": "client",
        "history": "history",
    }
    assert paths.engine("fast-4b") == Path("/s/engines/fast-4b")


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "../x"])
def test_an_engines_directory_is_below_the_others(name: str) -> None:
    """SEC-2: what is no engine's name leads to no directory."""
    with pytest.raises(ValueError, match="no name of an engine"):
        resolve_paths(HOME, Node(), "/run/hold.json").engine(name)


def test_paths_follow_the_config(tmp_path: Path) -> None:
    """CONF-5: with a config the places are its own; without one the defaults; a broken one is told."""
    env = {"HOME": str(tmp_path), "HOSTLER_BOX_RESERVATION_PATH": "/run/hold.json"}
    parts = OfflineConfig(env=env, here=tmp_path, system=tmp_path / "etc", machine="box")
    without = parts.paths(None, None)
    assert "config" not in without
    assert without["state_dir"] == f"{tmp_path}/.local/state/hostler"
    assert without["hold"] == "/run/hold.json"
    path = write_config(tmp_path, "version: 1\nnode: {state_dir: /s, hold_path: /run/other.json}\n")
    found = parts.paths(None, None)
    assert (found["config"], found["state_dir"], found["hold"]) == (str(path), "/s", "/run/hold.json")
    write_config(tmp_path, "version: 1\nnode: {state_dir: s}\n")
    with pytest.raises(InvalidConfig):
        parts.paths(None, None)
