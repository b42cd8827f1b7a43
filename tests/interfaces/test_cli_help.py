from pathlib import Path

import pytest

from hostler.interfaces.cli.main import COMMANDS
from tests.interfaces.terminal import shell


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
async def test_a_shell_completes_every_command(tmp_path: Path, name: str) -> None:
    """INTERFACE-1: completion prints a script for the shell that knows every command."""
    ended = await shell(tmp_path).inside("completion", name)
    assert ended.code == 0
    assert [command.name for command in COMMANDS if command.name not in ended.out] == []


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
async def test_every_command_has_help_with_an_example(tmp_path: Path, name: str) -> None:
    """INTERFACE-2: --help of every command says how it is used, with an example, plain on a pipe."""
    ended = await shell(tmp_path).inside(name, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: hostler {name}")
    assert "\x1b" not in ended.out
    assert "│" not in ended.out
