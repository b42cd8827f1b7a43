import json
from pathlib import Path

from tests.interfaces.terminal import Shell, shell


def user(folder: Path, **more: str) -> Shell:
    """A user whose box has no programs; what else runs on this machine may be seen."""
    return shell(folder, PATH=str(folder / "bin"), HOSTLER_CONFIG=str(folder / "hostler.yaml"), **more)


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return [path.name for path in folder.iterdir()]


async def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """CONF-4: --dry-run prints the config, and nothing is written or made."""
    ended = await user(tmp_path).inside("init", "--dry-run")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("# yaml-language-server: $schema=./hostler.schema.json\n")
    assert names(tmp_path) == []


async def test_a_config_is_written_once(tmp_path: Path) -> None:
    """CONF-4, CONF-1: it is written where `serve` looks, private and right, and is not overwritten."""
    target = tmp_path / "hostler.yaml"
    ended = await user(tmp_path).inside("init")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Wrote {target}: ")
    assert "Next: hostler serve\n" in ended.out
    assert "Clients use http://127.0.0.1:" in ended.out
    assert names(tmp_path) == ["hostler.yaml"]
    assert target.stat().st_mode & 0o777 == 0o600
    assert (await user(tmp_path).inside("config", "check")).code == 0
    target.write_text("version: 1\n")
    again = await user(tmp_path).inside("init")
    assert (again.code, target.read_text()) == (65, "version: 1\n")
    assert (await user(tmp_path).inside("init", "--force")).code == 0
    assert target.read_text() != "version: 1\n"


async def test_another_file_can_be_named(tmp_path: Path) -> None:
    """CONF-4, INTERFACE-2: -o names the file, and --json gives the config and what is in it."""
    target = tmp_path / "other.yaml"
    ended = await user(tmp_path).inside("init", "-o", str(target))
    assert f"Next: hostler serve --config {target}" in ended.out
    answer = json.loads((await user(tmp_path).inside("init", "--dry-run", "--json")).out)
    assert (answer["file"], answer["on_demand"]) == (None, 0)
    assert answer["config"].startswith("# yaml-language-server")
    assert answer["listen"].startswith("127.0.0.1:")


async def test_serve_without_a_config_leads_to_init(tmp_path: Path) -> None:
    """CONF-4, CONF-5: the hint of `serve` without a config is `hostler init`; exit 78."""
    ended = await shell(tmp_path).run("serve")
    assert ended.code == 78
    assert "hint: `hostler init` writes one" in ended.err
