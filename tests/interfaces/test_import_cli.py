import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.adapters.imports.files import ImportFiles
from hostler.domain.errors import DraftBroken
from hostler.interfaces.cli.imports import checked
from hostler.services.config_parts import Problem
from hostler.services.import_parts import Draft
from tests.interfaces.importing import write
from tests.interfaces.terminal import shell

CMD = "llama-server --port ${PORT}"
GOOD = f"models:\n  a:\n    cmd: {CMD}\n    cmdStop: /x/stop\n"
WITH_KEY = GOOD + "apiKeys: [sk-0123456789]\n"


async def test_the_config_goes_to_stdout_and_the_report_to_stderr(tmp_path: Path) -> None:
    """CONF-4, INTERFACE-2: the config alone is on stdout, each change of meaning a line of stderr; exit 0."""
    path = write(tmp_path, GOOD)
    ended = await shell(tmp_path, PATH="/nowhere").inside("import", "llama-swap", path)
    assert ended.code == 0
    assert ended.out.startswith("# yaml-language-server: $schema=./hostler.schema.json\n")
    lines = ended.err.splitlines()
    assert f"~ {path}:4: models.a.cmdStop: `/x/stop` is not run" in ended.err
    assert f"! {path}:3: there is no program llama-server on this machine" in lines
    assert lines[-1] == "1 engine(s), 1 route(s) written to the terminal"
    target = tmp_path / "hostler.yaml"
    target.write_text(ended.out)
    target.chmod(0o600)
    assert (await shell(tmp_path).inside("config", "check", str(target))).code == 0


async def test_a_file_is_written_once(tmp_path: Path) -> None:
    """CONF-4: -o writes a private file that passes the check, its secrets beside it, and overwrites none."""
    path, target = write(tmp_path, WITH_KEY), tmp_path / "hostler.yaml"
    user = shell(tmp_path)
    ended = await user.inside("import", "llama-swap", path, "-o", str(target))
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.splitlines()[-1] == f"  {tmp_path}/hostler-secrets/llama-swap-1"
    assert (await user.inside("config", "check", str(target))).code == 0
    before = target.read_bytes()
    again = await user.inside("import", "llama-swap", path, "-o", str(target))
    assert (again.code, again.err.splitlines()[0]) == (
        65,
        f"error: {target} is there already, and is not overwritten.",
    )
    assert (await user.inside("import", "llama-swap", path, "-o", str(target), "--force")).code == 0
    assert target.read_bytes() == before


async def test_secrets_of_a_terminal_are_named(tmp_path: Path) -> None:
    """CONF-4, SEC-1: without -o the secrets are named as files to write, never shown."""
    ended = await shell(tmp_path).inside("import", "llama-swap", write(tmp_path, WITH_KEY))
    assert "before it can be used, write the secrets, each mode 0600:" in ended.err
    assert "sk-0123456789" not in ended.out + ended.err


async def test_what_cannot_be_expressed_exits_65(tmp_path: Path) -> None:
    """CONF-4, INTERFACE-4: a refused import writes nothing, tells each reason with file and line; exit 65."""
    path, target = write(tmp_path, "models:\n  a:\n    cmd: C:\\x.exe\n  b: {}\n"), tmp_path / "o.yaml"
    ended = await shell(tmp_path).inside("import", "llama-swap", path, "-o", str(target))
    assert (ended.code, ended.out, target.exists()) == (65, "", False)
    assert ended.err.splitlines() == [
        f"error: {path}: 2 thing(s) cannot be imported, so nothing was written.",
        "hint: Change what is named, or take it out of the file, and import again.",
        f"{path}:3: models.a.cmd: C:x.exe is a path of Windows, and Hostler does not run on Windows",
        f"{path}:4: models.b: there is no cmd: a peer is under peers:",
    ]
    told = json.loads((await shell(tmp_path).inside("import", "llama-swap", path, "--json")).err)["error"]
    assert (told["code"], told["facts"]["count"]) == ("not_importable", 2)


async def test_the_answer_as_json(tmp_path: Path) -> None:
    """CONF-4, INTERFACE-2: --json gives the config, each note with its place, and the secrets' paths."""
    path = write(tmp_path, WITH_KEY)
    answer = json.loads((await shell(tmp_path).inside("import", "llama-swap", path, "--json")).out)
    assert answer["file"] is None
    assert answer["config"].startswith("# yaml-language-server")
    assert (answer["engines"], answer["routes"]) == (1, 1)
    note = next(note for note in answer["notes"] if note["path"] == "models.a.cmdStop")
    assert (note["file"], note["line"], note["change"], note["count"]) == (path, 4, "changed", 1)
    assert [each.rpartition("/")[2] for each in answer["secrets"]] == ["llama-swap-1"]
    target = str(tmp_path / "o.yaml")
    answer = json.loads(
        (await shell(tmp_path).inside("import", "llama-swap", path, "--json", "-o", target)).out
    )
    assert (answer["file"], answer["config"]) == (target, None)


async def test_where_llama_swap_is_started_in(tmp_path: Path) -> None:
    """CONF-4: a relative program is looked for, and run, in the directory that --from names."""
    path = write(tmp_path, "models: {a: {cmd: './run.sh ${PORT}'}}\n")
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    ended = await shell(tmp_path).inside("import", "llama-swap", path, "--from", str(tmp_path))
    assert f"cwd: {tmp_path}" in ended.out
    assert "there is no program" not in ended.err
    ended = await shell(tmp_path).inside("import", "llama-swap", path, "--from", "/")
    assert "there is no program ./run.sh on this machine, seen from /" in ended.err


async def test_a_later_import_keeps_what_a_person_knows(tmp_path: Path) -> None:
    """CONF-4: with --force an engine keeps its memory, entry and class; the source is never written."""
    path, target = write(tmp_path, GOOD), tmp_path / "hostler.yaml"
    target.write_text(
        "version: 1\nengines:\n"
        "  a: {memory: {ram: 2 GiB}, entry: qwen3-4b#16k, serving_class: windowed, ttl: 5s}\n  z: 3\n"
    )
    user = shell(tmp_path)
    ended = await user.inside("import", "llama-swap", path, "-o", str(target), "--force")
    assert ended.code == 0
    text = target.read_text()
    for kept in ("memory: {ram: 2 GiB}", '"qwen3-4b#16k"', "serving_class: windowed"):
        assert kept in text
    assert "ttl" not in text
    assert "unknown" not in text
    assert f"+ {target}:3: engines.a.memory: kept from the config of before" in ended.err
    ours = await user.inside("import", "llama-swap", path, "-o", path, "--force")
    assert (ours.code, (tmp_path / "swap.yaml").read_text()) == (65, GOOD)
    assert "cannot be written: it is what is imported" in ours.err
    for nothing in ("a: [", "version: 1\n"):
        target.write_text(nothing)
        again = await user.inside("import", "llama-swap", path, "-o", str(target), "--force")
        assert (again.code, "kept from" in again.err) == (0, False)
    assert (await user.inside("import", "llama-swap", path, "-o", str(target), "--force")).code == 0


@dataclass(frozen=True)
class Failing(ImportFiles):
    """Files whose check finds something wrong with whatever it is given."""

    def check(self, draft: Draft) -> Sequence[Problem]:
        return [Problem(file="hostler.yaml", line=1, column=2, path="x", message="is wrong")]


def test_a_config_of_ours_that_is_wrong_is_a_bug() -> None:
    """CONF-4: a made config that fails its own check is told as a bug of ours, and is not written."""
    with pytest.raises(DraftBroken) as caught:
        checked(Draft(text=""), Failing(env={}, folder=Path("/")))
    assert caught.value.problems == ("hostler.yaml:1:2: x: is wrong",)
