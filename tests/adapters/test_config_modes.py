"""What the config check says of modes that a window could not enter or leave."""

from pathlib import Path

import pytest

from tests.fakes.config_files import read_config, told

BASE = """\
version: 1
hosts: {crow: {memory: {total: 64 GiB}, groups: {slot: {}}%s}}
engines:
  a: {host: crow, argv: [s], port: 8101, memory: 1 GiB, resident: true%s}
  b: {host: crow, argv: [s], port: 8102, memory: 2 GiB, group: slot}
  c: {host: crow, argv: [s], port: 8102, memory: 2 GiB, group: slot}
modes:
  usual: {standing: true, hosts: {crow: [a]}}
  heavy: {hosts: {crow: [%s]}}
"""


def errors(tmp_path: Path, host: str = "", engine: str = "", heavy: str = "b") -> list[str]:
    return told(read_config(tmp_path, BASE % (host, engine, heavy), host="crow"))


def test_modes_that_can_be_entered_and_left_are_right(tmp_path: Path) -> None:
    """MODE-1, WIN-9: nothing is said of them."""
    assert errors(tmp_path) == []


@pytest.mark.parametrize(
    ("host", "engine", "says"),
    [
        (", orchestration: false", "", "crow has orchestration: false: nothing is evicted there"),
        ("", ", enabled: false", "a is evicted, and enabled: false keeps it from coming back"),
    ],
)
def test_what_no_window_could_restore_is_named(tmp_path: Path, host: str, engine: str, says: str) -> None:
    """WIN-9: with the engine, or the host, that breaks it."""
    assert any(says in text for text in errors(tmp_path, host, engine))


def test_two_engines_of_a_mode_do_not_share_a_port(tmp_path: Path) -> None:
    """MODE-1: a group lets two take turns on one port; in a mode both are up."""
    assert any("b and c are both on port 8102" in text for text in errors(tmp_path, heavy="b, c"))
