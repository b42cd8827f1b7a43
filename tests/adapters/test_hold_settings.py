import socket
from pathlib import Path

import pytest

from hostler.adapters.config.find import find_config
from hostler.adapters.hold_settings import HoldSettings, hold_settings, state_dir
from hostler.domain.errors import InvalidConfig, NoConfig

ONE_BOX = """\
version: 1
node: {hold_path: /run/hostler/h.json, hold_mode: "0640", hold_writers: [bench]}
engines:
  embed: {essential: true}
  fast: {essential: false}
"""

TWO = """\
version: 1
node: {hold_path: /run/all.json, hold_writers: [bench], state_dir: /var/lib/hostler}
hosts:
  crow: {}
  raven: {node: {hold_writers: [bench, pilab], hold_path: "${env:RAVEN_HOLD}"}}
engines:
  embed-c: {host: crow, essential: true}
  embed-r: {host: raven, essential: true}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "hostler.yaml"
    path.touch(0o600)
    return path


def read(config: Path, text: str, **env: str) -> HoldSettings:
    config.write_text(text, encoding="utf-8")
    return hold_settings({"HOSTLER_CONFIG": str(config), "HOME": "/home/ada", **env})


def problem(config: Path, text: str, **env: str) -> str:
    with pytest.raises(InvalidConfig) as refused:
        read(config, text, **env)
    return refused.value.problems[0]


def test_without_a_config_the_defaults_hold(tmp_path: Path) -> None:
    """CONF-5: without a config the state directory is the XDG one and a hold is 0600."""
    found = hold_settings({"HOME": "/home/ada"}, system=tmp_path)
    assert found == HoldSettings(state_dir="/home/ada/.local/state/hostler")
    assert found.engines is None


def test_the_state_directory_is_the_config_s_or_the_environment_s() -> None:
    """CONF-5: the config names the state directory, else $HOSTLER_STATE_DIR, else XDG."""
    env = {"HOME": "/home/ada", "XDG_STATE_HOME": "/x", "HOSTLER_STATE_DIR": "/s"}
    assert state_dir(env, "/c") == "/c"
    assert state_dir(env) == "/s"
    assert state_dir({**env, "HOSTLER_STATE_DIR": ""}) == "/x/hostler"


def test_the_config_of_the_system_is_found(tmp_path: Path) -> None:
    """HOLD-1: a config in the system's place is honoured; the user's own goes before it."""
    system, own = tmp_path / "etc", tmp_path / "home/.config/hostler"
    for place, name in ((system, "s"), (own, "o")):
        place.mkdir(parents=True)
        (place / "hostler.yaml").touch(0o600)
        text = f"version: 1\nnode: {{hold_path: /run/{name}.json}}\n"
        (place / "hostler.yaml").write_text(text, encoding="utf-8")
    env = {"HOME": str(tmp_path / "home")}
    assert hold_settings(env, system=system).hold_path == "/run/o.json"
    assert hold_settings({}, system=system).hold_path == "/run/s.json"


def test_the_quick_look_sees_what_the_config_s_reader_sees(tmp_path: Path) -> None:
    """CONF-5: where the full search finds a config, the quick one does not overlook it."""
    for env in ({"HOME": str(tmp_path)}, {"XDG_CONFIG_HOME": str(tmp_path)}, {"XDG_CONFIG_HOME": "x"}, {}):
        with pytest.raises(NoConfig) as refused:
            find_config(env, None, system=tmp_path / "etc")
        for place in map(Path, refused.value.looked):
            place.parent.mkdir(parents=True)
            place.symlink_to("nowhere")
            with pytest.raises(InvalidConfig):
                hold_settings(env, system=tmp_path / "etc")
            place.unlink()
            place.parent.rmdir()


def test_the_words_on_holds_are_read(config: Path) -> None:
    """HOLD-1: node.hold_path, hold_mode, hold_writers and the essential engines come from the config."""
    found = read(config, ONE_BOX)
    assert (found.hold_path, found.hold_mode, found.hold_writers) == (
        "/run/hostler/h.json",
        0o640,
        ("bench",),
    )
    assert (found.essentials, found.engines) == (frozenset({"embed"}), frozenset({"embed", "fast"}))


def test_each_host_finds_its_own(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLD-5: of a shared config each host takes its own node keys and its own essential engines."""
    raven = read(config, TWO, HOSTLER_HOST="raven", RAVEN_HOLD="/run/r.json")
    assert (raven.hold_path, raven.hold_writers) == ("/run/r.json", ("bench", "pilab"))
    assert (raven.essentials, raven.state_dir) == (frozenset({"embed-r"}), "/var/lib/hostler")
    monkeypatch.setattr(socket, "gethostname", lambda: "crow.lan")
    crow = read(config, TWO)
    assert (crow.hold_path, crow.hold_writers, crow.essentials) == (
        "/run/all.json",
        ("bench",),
        frozenset({"embed-c"}),
    )


def test_the_only_host_is_this_one(config: Path) -> None:
    """HOLD-5: a config of one host is this host's, whatever the machine is called."""
    text = "version: 1\nhosts: {box: {node: {hold_path: /run/b.json}}}\nengines: {e: {essential: true}}\n"
    found = read(config, text)
    assert (found.hold_path, found.essentials) == ("/run/b.json", frozenset({"e"}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("node: {hold_mode: 0640}", "hostler.yaml:1:8: node.hold_mode: expected one of 0600, 0640, 0644"),
        ('node: {hold_mode: "0666"}', "node.hold_mode: expected one of 0600, 0640, 0644, in quotes"),
        ("node: {hold_path: h.json}", "node.hold_path: expected an absolute path"),
        ("node: {hold_path: 7}", "node.hold_path: expected an absolute path"),
        ("node: {hold_writers: bench}", "node.hold_writers: expected a list of user names"),
        ("node: {hold_writers: [1]}", "node.hold_writers: expected a list of user names"),
        ('node: {hold_path: "${env:NOT_SET}"}', "NOT_SET"),
        ("node: {hold_path: /a, hold_path: /b}", "hold_path"),
        ("node: [", "hostler.yaml:"),
        ("a: b: c", "hostler.yaml:1:5"),
    ],
)
def test_words_that_cannot_be_read_are_refused(config: Path, text: str, told: str) -> None:
    """HOLD-1: a config whose words on holds are broken is one error with its place, never passed over."""
    assert told in problem(config, text)


def test_errors_elsewhere_are_no_concern_of_a_hold(config: Path) -> None:
    """HOLD-8: a hold can be released although other parts of the config have errors."""
    assert read(config, ONE_BOX + "  fast: {}\n").hold_path == "/run/hostler/h.json"
    assert read(config, "version: 1\nengines: [1]\n").engines == frozenset()


def test_a_config_that_others_write_is_refused(config: Path, tmp_path: Path) -> None:
    """HOLD-1: a config that others may write, or that is named and not there, decides nothing."""
    config.chmod(0o666)
    assert "others may write" in problem(config, ONE_BOX)
    with pytest.raises(InvalidConfig):
        hold_settings({"HOSTLER_CONFIG": str(tmp_path / "gone.yaml")})
