from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostler.adapters.scan.shell import shell
from hostler.adapters.scan.tables import table_rows
from hostler.adapters.scan.units import unit
from hostler.adapters.scan.variables import fill
from hostler.adapters.scan.walk import scan
from hostler.domain.ports import HIGHEST, LOWEST, Finding

NAMES = ("compose.yaml", "up.sh", "web.service", "web.socket", "caddy.docker-compose.yml", "noend")
WORDS = (
    "PORT=|8080|$|${|}|$((|))|$(|)|`|\"|'|<<E|\n|E|;|&&|if |then |fi|for p in |do |done|case |esac|--port "
    "|-p |ssh -L |docker run |nc -l |socat TCP-LISTEN:|:|[::1]|http://a:1|\\|#| |=|,|-|\x00|é|<("
)
SHELL = st.lists(st.sampled_from([*WORDS.split("|"), "|"]), max_size=40).map("".join)
PARTS = (
    'services:|\n|  |a:|ports:|- |"8080:80"|${A|:-|}|&x|*x|<<: |[|]|{|include:|extends:|!reset|!override|? |>'
    "|network_mode: host|command: |8080-8090:80|compose.yaml|---|target: |published: |\t|'|#|[::1]:1:2|/udp"
)
COMPOSE = st.lists(st.sampled_from([*PARTS.split("|"), "|"]), max_size=30).map("".join)


def all_of(findings: tuple[Finding, ...] | list[Finding]) -> None:
    """Each finding has a line, and a port that is one."""
    for it in findings:
        assert it.line >= 1
        assert it.port is None or LOWEST <= it.port <= HIGHEST


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(data=st.binary(max_size=400))
@example(data=b"#!/bin/sh\nserve --port 8080\n")
@example(data=b"services: {a: {ports: [*x]}}")
def test_no_bytes_break_a_scan(name: str, data: bytes) -> None:
    """PORT-4: whatever bytes a file has, a scan of it ends with findings and troubles, never an error."""
    with TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        found = scan([folder], {})
    all_of(found.findings)


@settings(max_examples=300)
@given(SHELL)
@example("$((" * 30)
@example("for p in $(seq 1 999999); do serve --port $p$p$p; done")
@example("A=$A$A; " * 30 + "serve --port $A")
def test_no_script_breaks_a_scan(text: str) -> None:
    """PORT-4: whatever words stand in a script, a unit or a table, each port found is one, on a line."""
    all_of(shell("a.sh", text, "a"))
    all_of(unit("a.service", f"ExecStart={text}\nListenStream={text}\nEnvironment={text}"))
    list(table_rows("a.md", f"| a | b |\n|---|---|\n| {text} | b |", "crow"))


@settings(max_examples=300)
@given(COMPOSE)
@example("services: {a: {extends: {file: compose.yaml, service: a}}}")
@example("include: [compose.yaml]")
def test_no_compose_file_breaks_a_scan(text: str) -> None:
    """PORT-4: whatever a compose file says, also of itself, its scan ends, and each port found is one."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "compose.yaml").write_text(text)
        found = scan([folder], {})
    all_of(found.findings)


@given(st.text(alphabet="${}:-?+AB \n"))
def test_filling_ends(text: str) -> None:
    """PORT-2: filling in variables ends, and leaves a text without a dollar as it is."""
    filled = fill(text, {"A": "1"})
    assert "$" in text or filled.text == text
