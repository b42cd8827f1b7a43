import os
from pathlib import Path

import pytest

from hostler.adapters.config.find import find_config
from hostler.adapters.config.reading import examine, load
from hostler.domain.errors import InvalidConfig, NoConfig
from tests.fakes.config_files import read_config, told, warned, write_config

TWO = """\
version: 1
schedule: {owner: crow}
hosts:
  crow: {url: "https://crow.lan"}
  raven: {url: "https://raven.lan"}
"""


def test_places_are_searched_in_order(tmp_path: Path) -> None:
    """CONF-1: --config, $HOSTLER_CONFIG, the XDG directory, /etc/hostler; ./ last, where it is asked."""
    env = {"HOME": str(tmp_path / "home")}
    system, here = tmp_path / "etc", tmp_path / "cwd"
    xdg = tmp_path / "home/.config/hostler"
    for folder in (system, here, xdg):
        folder.mkdir(parents=True)
    with pytest.raises(NoConfig) as caught:
        find_config(env, None, here=here, system=system)
    assert caught.value.looked == tuple(str(each / "hostler.yaml") for each in (xdg, system, here))
    write_config(here, "version: 1\n")
    assert find_config(env, None, here=here, system=system).parent == here
    with pytest.raises(NoConfig):
        find_config(env, None, system=system)
    write_config(system, "version: 1\n")
    assert find_config(env, None, here=here, system=system).parent == system
    write_config(xdg, "version: 1\n")
    assert find_config(env, None, here=here, system=system).parent == xdg
    assert find_config({**env, "XDG_CONFIG_HOME": "/xdg"}, None, system=system).parent == system
    named = {**env, "HOSTLER_CONFIG": "/named.yaml"}
    assert find_config(named, None, here=here, system=system) == Path("/named.yaml")
    assert find_config(named, "/given.yaml", here=here, system=system) == Path("/given.yaml")


def test_a_named_file_that_is_missing_is_not_passed_over(tmp_path: Path) -> None:
    """CONF-1: a path that somebody named is used or fails, with the hint what to write."""
    reading = examine(tmp_path / "gone.yaml", {})
    assert told(reading) == [
        "1:1: there is no such file (`hostler init` writes one from what is on this box)"
    ]


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    """CONF-1: a config that group or others may write is refused; that all may read it is no matter."""
    path = write_config(tmp_path, "version: 1\n")
    for mode in (0o620, 0o602, 0o666):
        path.chmod(mode)
        assert f"others may write it (mode {mode:04o}) (chmod go-w {path})" in told(examine(path, {}))[0]
    path.chmod(0o644)
    assert told(examine(path, {})) == []


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CONF-1: a config is ours or root's."""
    path = write_config(tmp_path, "version: 1\n")
    real = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result([*real(fd)[:4], 4711, *real(fd)[5:]]))
    assert "it belongs to user 4711" in told(examine(path, {}))[0]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """CONF-1: a directory and a pipe are no config, and neither blocks."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe"):
        assert "no regular file" in told(examine(path, {}))[0]


@pytest.mark.parametrize(
    ("host", "env", "machine", "here"),
    [
        ("raven", {"HOSTLER_HOST": "crow"}, "crow", "raven"),
        (None, {"HOSTLER_HOST": "raven"}, "crow", "raven"),
        (None, {}, "crow", "crow"),
        (None, {}, "Raven.lan", "raven"),
    ],
)
def test_a_daemon_finds_its_host(
    tmp_path: Path, host: str | None, env: dict[str, str], machine: str, here: str
) -> None:
    """CONF-6: the host is --host, else $HOSTLER_HOST, else the machine's short name."""
    assert read_config(tmp_path, TWO, host=host, env=env, machine=machine).host == here


@pytest.mark.parametrize(
    ("host", "env", "words"),
    [
        ("rven", {}, "--host is rven, which is no host here (nearest valid name: raven)"),
        (None, {"HOSTLER_HOST": "kite"}, "$HOSTLER_HOST is kite, which is no host here (valid: crow, raven)"),
        (None, {}, "this machine, kite, is none of the hosts (--host or $HOSTLER_HOST, one of crow, raven)"),
    ],
)
def test_a_host_that_is_not_there_is_told(
    tmp_path: Path, host: str | None, env: dict[str, str], words: str
) -> None:
    """CONF-6: a host that the config does not have is one error that names those it has."""
    assert words in told(read_config(tmp_path, TWO, host=host, env=env, machine="kite"))[0]


def test_a_check_may_be_made_elsewhere(tmp_path: Path) -> None:
    """CONF-2: on a machine that is none of the hosts a check warns of that and of secrets it has not."""
    text = TWO.replace('lan"}', 'lan", key: "${file:/nowhere/key}"}')
    reading = read_config(tmp_path, text, machine="kite", anywhere=True)
    assert told(reading) == []
    assert "checked as crow" in warned(reading)[0]
    assert sum("there is no file" in each for each in warned(reading)) == 2


def test_one_host_is_this_one(tmp_path: Path) -> None:
    """CONF-6: without `hosts:` this machine is `local`; a single host is this machine, whatever its name."""
    assert read_config(tmp_path, "version: 1\n", machine="kite").host == "local"
    assert read_config(tmp_path, "version: 1\nhosts: {crow: {}}\n", machine="kite").host == "crow"


def test_load_gives_the_fleet_or_every_problem(tmp_path: Path) -> None:
    """CONF-2: a right file is a fleet, any other raises all of its problems with file, line and column."""
    assert load(write_config(tmp_path, "version: 1\n"), {}).here == "local"
    path = write_config(tmp_path, "version: 1\nnod: {}\nengins: {}\n")
    with pytest.raises(InvalidConfig) as caught:
        load(path, {})
    assert caught.value.count == 2
    assert caught.value.problems == (
        f"{path}:2:1: nod: no such key (nearest valid name: node)",
        f"{path}:3:1: engins: no such key (nearest valid name: engines)",
    )


def test_the_keys_of_a_host_win_over_the_nodes(tmp_path: Path) -> None:
    """CONF-6: `hosts.<name>.node` overrides `node` key by key, on that host only."""
    text = TWO.replace('raven.lan"', 'raven.lan", node: {on_exit: stop, log: {files: 3}}')
    text += "node: {on_exit: keep, shutdown: 5s, log: {level: debug}}\n"
    crow = read_config(tmp_path, text, machine="crow").fleet
    raven = read_config(tmp_path, text, machine="raven").fleet
    assert crow is not None
    assert raven is not None
    assert (crow.node.on_exit, crow.node.shutdown_s, crow.node.log_files) == ("keep", 5.0, 10)
    assert (raven.node.on_exit, raven.node.shutdown_s, raven.node.log_files) == ("stop", 5.0, 3)
    assert raven.node.log_level == "debug"
