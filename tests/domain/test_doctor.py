from dataclasses import replace

import pytest

from hostler.domain.doctor import (
    LEAST_FREE,
    Dead,
    DeadRow,
    Facts,
    Finding,
    Level,
    Missing,
    PrivateFile,
    Revived,
    WrongBuild,
    findings,
)
from hostler.domain.fleet import Compose, Container, DriverKind
from tests.fakes.world import engine

WELL = Facts(
    user="ada",
    uid=1000,
    hold_path="/run/user/1000/box.json",
    hold_survives=False,
    lingers=True,
    runtime_dir="/run/user/1000",
    usual_runtime_dir="/run/user/1000",
    private=(PrivateFile(path="/s/local.key", mode=0o600, ours=True),),
    state_dir="/s",
    free=LEAST_FREE,
    skews=(("raven", 4.9),),
)
"""A box on which nothing is wrong."""


def only(facts: Facts) -> Finding:
    """The one finding of those facts."""
    (found,) = findings(facts)
    assert found.hint
    assert found.command
    return found


def test_a_box_on_which_nothing_is_wrong() -> None:
    """INTERFACE-1: a box that is well has no finding; neither has one of which nothing is known."""
    assert findings(WELL) == ()
    assert findings(Facts(user="ada", uid=1000, hold_path="/x")) == ()


def test_a_hold_file_that_survives_a_reboot() -> None:
    """HOLD-2: a hold path on no tmpfs is a warning that names it."""
    found = only(replace(WELL, hold_survives=True))
    assert (found.check, found.level) == ("hold path", Level.WARNING)
    assert WELL.hold_path in found.what


def test_lingering_that_is_off() -> None:
    """HOLD-2: without lingering what a user runs ends with the last logout; the command switches it on."""
    found = only(replace(WELL, lingers=False, user="a b"))
    assert (found.check, found.command) == ("lingering", "loginctl enable-linger 'a b'")


def test_a_runtime_directory_elsewhere() -> None:
    """HOLD-1, CONF-5: another $XDG_RUNTIME_DIR than the user's own splits holds and locks."""
    found = only(replace(WELL, runtime_dir="/tmp/elsewhere"))
    assert (found.check, found.command) == ("runtime directory", "export XDG_RUNTIME_DIR=/run/user/1000")
    assert findings(replace(WELL, runtime_dir=None)) == ()


@pytest.mark.parametrize(
    ("file", "what", "command"),
    [
        (
            PrivateFile(path="/s/keys.json", mode=0o640, ours=True),
            "its mode is 0640",
            "chmod 600 /s/keys.json",
        ),
        (PrivateFile(path="/s/local.key", mode=0o600, ours=False), "another user's", "ls -l /s/local.key"),
    ],
)
def test_a_key_file_that_others_may_open(file: PrivateFile, what: str, command: str) -> None:
    """API-4, SEC-1: a key file with a wrong mode or owner is an error with the command that mends it."""
    found = only(replace(WELL, private=(file,)))
    assert (found.check, found.level, found.command) == ("key file", Level.ERROR, command)
    assert what in found.what


def test_state_that_cannot_be_written() -> None:
    """CONF-5: state that this user may not write is an error, a disk that is nearly full a warning."""
    found = only(replace(WELL, unwritable=(("/s/schedule.db", "this user may not"),)))
    assert (found.check, found.level) == ("state", Level.ERROR)
    assert found.what == "/s/schedule.db cannot be written: this user may not."
    full = only(replace(WELL, free=LEAST_FREE - 1))
    assert (full.level, full.what) == (Level.WARNING, "The disk of /s has 63 MiB left.")


@pytest.mark.parametrize("kind", ["file", "program"])
def test_what_an_engine_lacks(kind: str) -> None:
    """GATE-1: a model file or a program that is not there is an error that names engine and path."""
    found = only(replace(WELL, missing=(Missing(engine="fast", what="/m/x", kind=kind),)))
    assert (found.check, found.level, found.command) == (f"engine {kind}", Level.ERROR, "hostler why fast")
    assert found.what == f"fast cannot start: there is no {kind} /m/x."


def test_a_binary_that_is_too_old() -> None:
    """CAT-8: a binary that is not the build its entry needs is an error, with what the entry says."""
    wrong = WrongBuild(engine="fast", entry="qwen#32k", why="its build is 1, and at least 2 is needed")
    found = only(replace(WELL, builds=(wrong,)))
    assert (found.check, found.level, found.command) == (
        "engine build",
        Level.ERROR,
        "hostler catalog show qwen",
    )
    assert "at least 2 is needed" in found.what


@pytest.mark.parametrize(
    ("more", "command"),
    [
        (
            {"driver": DriverKind.CONTAINER, "container": Container(name="box1")},
            "docker update --restart=no box1",
        ),
        ({"driver": DriverKind.SYSTEMD, "unit": "vllm.service"}, "systemctl --user disable vllm.service"),
        (
            {"driver": DriverKind.SYSTEMD, "unit": "vllm.service", "scope": "system"},
            "systemctl disable vllm.service",
        ),
        (
            {"driver": DriverKind.COMPOSE, "compose": Compose(file="/c", project="p", service="s")},
            "hostler suspend fast",
        ),
    ],
)
def test_what_something_else_brings_up(more: dict[str, object], command: str) -> None:
    """ENG-2: an engine that something else restarts is named, with who does, and the command."""
    made = replace(engine("fast"), **more)  # type: ignore[arg-type]  # some of an engine's fields
    found = only(replace(WELL, revived=(Revived(engine=made, words="restart: always"),)))
    assert (found.check, found.command) == ("restarted elsewhere", command)
    assert "fast" in found.what
    assert "restart: always" in found.what


def test_a_target_that_is_dead() -> None:
    """SYNC-5, GW-14: a target of an active profile that nobody answers at is an error."""
    found = only(replace(WELL, dead=(Dead(name="cloud", url="http://10.0.0.9", why="refused"),)))
    assert (found.check, found.level) == ("dead target", Level.ERROR)
    assert "cloud" in found.what
    assert "http://10.0.0.9" in found.what


def test_a_port_in_two_places() -> None:
    """PORT-3: a collision of ports is an error, with the command that shows it whole."""
    found = only(replace(WELL, clashes=("crow: 8080/tcp: web and panel",)))
    assert (found.check, found.level, found.command) == ("port", Level.ERROR, "hostler ports check")


@pytest.mark.parametrize(("ahead", "way"), [(61.0, "61 s ahead of"), (-5.0, "5 s behind")])
def test_a_clock_that_is_off(ahead: float, way: str) -> None:
    """LEASE-21: another host's clock that is 5 s off or more is a warning that says which way."""
    found = only(replace(WELL, skews=(("raven", ahead),)))
    assert (found.check, found.level) == ("clock", Level.WARNING)
    assert f"The clock of raven is {way}" in found.what


def test_what_the_daemon_warns_of() -> None:
    """REL-7: the warnings of a daemon that runs are findings too."""
    found = only(replace(WELL, told=("routes.json cannot be read",)))
    assert (found.check, found.what) == ("daemon", "routes.json cannot be read")


def test_a_row_that_is_dead() -> None:
    """SYNC-5: a row that is enabled and answers nobody is an error, with who can retire it."""
    row = DeadRow(id="big one", author="raven", url="http://10.99.0.2:8101", why="Connection refused")
    found = only(replace(WELL, rows=(row,)))
    assert (found.check, found.level) == ("dead row", Level.ERROR)
    assert "raven shares big one" in found.what
    assert "retire it on raven" in found.hint
    assert found.command == "hostler sync explain 'big one'"
