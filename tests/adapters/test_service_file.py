import shlex
import socket
from pathlib import Path

import pytest

from hostler.adapters import ready
from hostler.adapters.service_file import Service, command, is_ours, marked, word
from hostler.domain.fleet import frozen
from tests.fakes.user_manager import UserManager

ODD = ("a b", "$HOME", "${HOME}", "100%h", 'say "hi"', "it's", "back\\slash", "ümlaut", "#;", "")
"""Words that a unit file would read otherwise when they were not quoted."""


def service(*, system: bool = False) -> Service:
    return Service(
        argv=("/opt/python", "-m", "hostler"), stop_s=60.0, system=system, env=frozen({"A": "b c"})
    )


def test_the_unit_ends_only_the_daemon() -> None:
    """ENG-2: the shipped unit has KillMode=process, tells when it serves, and restarts what fails."""
    lines = service().text().splitlines()
    for line in (
        "Type=notify",
        'ExecStart="/opt/python" "-m" "hostler"',
        'Environment="A=b c"',
        "KillMode=process",
        "TimeoutStopSec=60",
        "Restart=on-failure",
        "RestartPreventExitStatus=78",
        "WantedBy=default.target",
    ):
        assert line in lines, line


def test_a_system_unit_has_a_state_directory() -> None:
    """CONF-5: a system service keeps its state in /var/lib/hostler and starts with the machine."""
    lines = service(system=True).text().splitlines()
    assert {"StateDirectory=hostler", "StateDirectoryMode=0700", "WantedBy=multi-user.target"} <= set(lines)


def test_an_edited_file_is_not_ours() -> None:
    """INTERFACE-1: a unit file is ours only while nothing in it was changed."""
    text = service().text()
    assert is_ours(text)
    assert is_ours(marked("anything"))
    assert not is_ours(text.replace("RestartSec=1", "RestartSec=9"))
    assert not is_ours(text + "\n")
    assert not is_ours("[Service]\nExecStart=/bin/true\n")


@pytest.mark.parametrize("text", ["two\nlines", "null\0", "return\r"])
def test_what_no_line_can_hold_is_refused(text: str) -> None:
    """SEC-2: a word with a line end or a null never gets into a unit file."""
    with pytest.raises(ValueError, match="line end"):
        word(text)


def test_systemd_reads_the_words_that_were_written(systemd: UserManager, tmp_path: Path) -> None:
    """SEC-2: no word of argv or environment is split, expanded or lost on its way through systemd."""
    out = tmp_path / "out"
    script = tmp_path / "tell.sh"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" "$ODD" >{shlex.quote(str(out))}\n')
    script.chmod(0o755)
    odd = "$x %h \\ \" '"
    unit = f"{tmp_path.name}.service"
    start = f"ExecStart={command((str(script), *ODD))}"
    systemd.write(unit, f"[Service]\nType=oneshot\n{start}\nEnvironment={word(f'ODD={odd}')}\n")
    systemd.systemctl("start", unit)
    (systemd.units / unit).unlink()
    assert out.read_text().splitlines() == [*ODD, odd]


def test_systemd_is_told_by_its_socket(tmp_path: Path) -> None:
    """INTERFACE-1: READY=1 goes to $NOTIFY_SOCKET, by path and by abstract name; without it nowhere."""
    ready.tell_ready({})
    for name in (str(tmp_path / "notify"), f"@{tmp_path}"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(name.replace("@", "\0", 1))
            listener.settimeout(5)
            ready.tell_ready({"NOTIFY_SOCKET": name})
            assert listener.recv(100) == b"READY=1"


def test_a_socket_that_nobody_reads_is_an_error(tmp_path: Path) -> None:
    """INTERFACE-1: a $NOTIFY_SOCKET that is not there is an error, not a success."""
    with pytest.raises(FileNotFoundError):
        ready.tell_ready({"NOTIFY_SOCKET": str(tmp_path / "gone")})
