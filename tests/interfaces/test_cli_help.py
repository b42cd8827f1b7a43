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


@pytest.mark.parametrize("words", [(command.name,) for command in COMMANDS] + [("box", "hold")])
async def test_help_fits_its_width(tmp_path: Path, words: tuple[str, ...]) -> None:
    """INTERFACE-2: help folds below its text, ends no line in blanks, and shows no empty default."""
    out = (await shell(tmp_path).inside(*words, "--help")).out
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert [
        it
        for it in ("[default: ]", "[default: ()]", "--empty-", "--no-")
        if it in out.replace("--no-wait", "")
    ] == []
    entries = out.partition("Parameters:\n")[2].partition("\n\n")[0].splitlines()
    assert [it for it in entries if not it.startswith(("  -", "  CONFIG, --config:", "      "))] == []


async def test_help_and_version_have_their_short_names(tmp_path: Path) -> None:
    """INTERFACE-2: `hostler help COMMAND` is `hostler COMMAND --help`, and -V is --version."""
    user = shell(tmp_path)
    assert (await user.inside("help", "stop")).out == (await user.inside("stop", "--help")).out
    assert (await user.inside("help")).out == (await user.inside("--help")).out
    assert (await user.inside("-V")).out == (await user.inside("--version")).out


async def test_only_what_is_near_is_suggested(tmp_path: Path) -> None:
    """INTERFACE-4: an option is suggested for one that is nearly it, and for no other."""
    user = shell(tmp_path)
    assert "Did you mean --now?" in (await user.inside("stop", "x", "--nwo")).err
    assert (await user.inside("stop", "x", "--foo")).err.splitlines()[0] == "error: Unknown option: --foo."
