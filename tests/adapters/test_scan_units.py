from textwrap import dedent

import pytest

from hostler.adapters.scan.units import unit
from hostler.domain.ports import Certainty, Role


def seen(text: str, file: str = "/etc/systemd/system/web.service") -> list[str]:
    return [
        f"{it.line} {it.address}:{it.port}/{it.protocol} {it.form}"
        for it in unit(file, dedent(text))
        if it.role is not Role.USED
    ]


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("ListenStream=8080", ["2 any:8080/tcp ListenStream"]),
        ("ListenStream = 127.0.0.1:8080", ["2 127.0.0.1:8080/tcp ListenStream"]),
        ("ListenStream=[::1]:8080", ["2 ::1:8080/tcp ListenStream"]),
        ("ListenDatagram=8080", ["2 any:8080/udp ListenDatagram"]),
        ("ListenStream=/run/web.sock", []),
        ("ListenStream=vsock:2:8080", []),
        ("# ListenStream=8080", []),
        ("; ListenStream=8080", []),
        ("Description=--port 8080", []),
        ("ListenStream=", []),
    ],
)
def test_sockets(setting: str, found: list[str]) -> None:
    """PORT-2: sockets of a unit are read with address and protocol; paths and comments are no ports."""
    assert seen(f"[Socket]\n{setting}\n") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ExecStart=/usr/bin/serve --port 8080", ["2 program default:8080/tcp --port N"]),
        ("ExecStart=-@/usr/bin/serve serve --port=8080", ["2 program default:8080/tcp --port=N"]),
        (
            "ExecStart=/usr/bin/serve \\\n# note\n  --host 127.0.0.1 \\\n  --port 8080",
            ["2 127.0.0.1:8080/tcp --port N"],
        ),
        ("Environment=PORT=8080\nExecStart=serve --port ${PORT}", ["3 program default:8080/tcp --port N"]),
        (
            'ExecStart=serve --port ${PORT}\nEnvironment="PORT=8080" A=B',
            ["2 program default:8080/tcp --port N"],
        ),
        ("Environment=WEB_PORT=8080", ["2 unknown:8080/tcp Environment"]),
        ("ExecStart=/bin/sh -c 'serve --port 8080'", ["2 program default:8080/tcp --port N"]),
        ("ExecStop=serve --port 8080", []),
        ("EnvironmentFile=/etc/web", []),
    ],
)
def test_commands(text: str, found: list[str]) -> None:
    """PORT-2: ExecStart is read with the unit's own environment, wherever that stands, and broken lines."""
    assert seen(f"[Service]\n{text}\n") == found


def test_an_instance() -> None:
    """PORT-2: a port that is a unit's specifier is told only when it runs."""
    (found,) = unit("web@.service", "[Service]\nExecStart=serve --port %i\n")
    assert (found.port, found.certainty, found.owner) == (None, Certainty.VARIABLE, "web@.service")


def test_a_drop_in() -> None:
    """PORT-2: a drop-in is of its unit, which a row may name with and without its ending."""
    (found,) = unit("/etc/systemd/system/web.service.d/port.conf", "[Service]\nExecStart=serve --port 8080\n")
    assert (found.thing, found.owner) == ("unit web.service", "web.service")
    assert found.is_called("web")
