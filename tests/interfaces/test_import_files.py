import json
from pathlib import Path

import pytest

from hostler.adapters.imports.files import ImportFiles
from hostler.domain.errors import FileExists, FileUnusable, NotImportable
from hostler.domain.fleet import Secret
from hostler.services.import_parts import NOWHERE, Draft
from tests.interfaces.importing import made, parts, write

CMD = "llama-server --port ${PORT}"
DRAFT = Draft(text=f'version: 1 # "{NOWHERE}"\n', secrets={"one": Secret("long-enough")})


def problems(folder: Path, text: str, env: dict[str, str] | None = None) -> list[str]:
    """What is wrong with a file that cannot even be read."""
    path = write(folder, text)
    with pytest.raises(NotImportable) as caught:
        parts(folder, env).read([path])
    return [each.removeprefix(f"{path}:") for each in caught.value.problems]


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    """CONF-4: anchors, aliases and << work as they do in llama-swap; a mapping's own key wins."""
    got = made(
        tmp_path,
        f"""\
        base: &base {{cmd: {CMD!r}, ttl: 60}}
        more: &more {{ttl: 90, concurrencyLimit: 2}}
        models:
          a: *base
          b: {{<<: [*base, *more], checkEndpoint: none}}
          c: {{<<: *base, ttl: 5}}
        """,
    )
    assert [got.engine(name).ttl_s for name in "abc"] == [60, 60, 5]
    assert (got.engine("b").max_concurrent, got.engine("b").health) == (2, "none")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2\n", "2: the key a is given twice, first on line 1"),
        ("a: *nothing\n", "1: no anchor &nothing ends before this alias"),
        ("a: [1\n", "2: no YAML: "),
        ("? [a]\n: 1\n", "1: a key is text, not a list or a mapping"),
        ("a: {<<: x}\n", "1: << takes a mapping, or a list of them"),
        ("a: " + "[" * 60 + "]" * 60 + "\n", "1: nested more than 40 deep"),
        ('a: "\\ud800"\n', "1: a NUL or half a character pair in a text"),
        ("&a x: 1\n*b : 2\n", "2: no anchor &b ends before this alias"),
        ("a: ${env.NOT_SET}\n", "1: the variable NOT_SET is not set"),
        ("a: ${env.TWO}\n", "1: the variable TWO has a line end in it"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str, why: str) -> None:
    """CONF-4: what is no YAML, or needs a variable that is not set, is refused with its line."""
    (told,) = problems(tmp_path, text, {"TWO": "1\n2"})
    assert told.startswith(why)


def test_an_empty_file_and_an_alias_for_a_key(tmp_path: Path) -> None:
    """CONF-4: an empty file says nothing; an anchor may stand for a key."""
    files = parts(tmp_path)
    empty, keys = write(tmp_path, "# nothing\n", "1.yaml"), write(tmp_path, "a: &k x\n*k : y\n", "2.yaml")
    assert files.read([empty]).files[0].keys == {}
    assert list(files.read([keys]).files[0].keys or ()) == ["a", "x"]


def test_a_billion_laughs(tmp_path: Path) -> None:
    """CONF-4: anchors of anchors are bounded."""
    rows = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    (told,) = problems(tmp_path, "\n".join(rows) + "\n")
    assert "more than 100000 values, those of aliases counted" in told


def test_variables_are_text(tmp_path: Path) -> None:
    """CONF-4: ${{env.NAME}} is put in before YAML is read, quotes escaped; in a comment it may miss."""
    got = made(
        tmp_path,
        f"""\
        # ${{env.NOT_SET}}
        models:
          a:
            cmd: {CMD}   # ${{env.NOT_SET}}
            description: "${{env.WORDS}}"
        """,
        {"WORDS": 'say "x" \\ y'},
    )
    assert got.route("a").description == 'say "x" \\ y'


def test_no_file_and_the_same_file(tmp_path: Path) -> None:
    """CONF-4: a file that is not there, an empty directory and a file that is given twice are refused."""
    path = write(tmp_path, "models: {}\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(NotImportable) as caught:
        parts(tmp_path).read([path, str(tmp_path / "none.yaml"), str(empty), path])
    assert caught.value.problems == (
        f"{empty}:1: the directory has no *.yml or *.yaml file",
        f"{path}:1: it is given twice",
        f"{tmp_path}/none.yaml:1: it cannot be read: No such file or directory",
    )


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    """CONF-4: a file that is no UTF-8 is refused with its line."""
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(NotImportable) as caught:
        parts(tmp_path).read([str(path)])
    assert caught.value.problems == (f"{path}:2: the file is not UTF-8 text",)


@pytest.mark.parametrize(
    ("one", "two", "why"),
    [
        ("logLevel: info", "logLevel: debug", "logLevel: "),
        (
            f"models: {{a: {{cmd: {CMD!r}}}}}",
            f"models: {{a: {{cmd: {CMD!r}}}}}",
            "models.a: it is defined in ",
        ),
        ("groups: {g: {members: []}}", "groups: {g: {members: []}}", "groups.g: it is defined in "),
        ("store: {path: /a}", "store: x", "store: "),
    ],
)
def test_files_that_contradict(tmp_path: Path, one: str, two: str, why: str) -> None:
    """CONF-4: two files that contradict, or define one name twice, are refused by the second's line."""
    from hostler.interfaces.imports.llama_swap import convert  # noqa: PLC0415 - the call that is tested

    first, second = write(tmp_path, one + "\n", "1.yaml"), write(tmp_path, two + "\n", "2.yaml")
    files = parts(tmp_path)
    with pytest.raises(NotImportable) as caught:
        convert(files.read([first, second]), here="/")
    assert any(told.startswith(f"{second}:1: {why}") for told in caught.value.problems)


def test_a_config_is_written_with_its_secrets_and_never_over_another(tmp_path: Path) -> None:
    """CONF-4, CONF-1: a config and its secrets are private files; --force alone overwrites them."""
    files = parts(tmp_path)
    (tmp_path / "it").mkdir()
    for force in (False, True):
        assert files.finish(DRAFT, "it/hostler.yaml", force=force) == [f"{tmp_path}/it/hostler-secrets/one"]
    config, secret = tmp_path / "it/hostler.yaml", tmp_path / "it/hostler-secrets/one"
    assert config.read_text() == f'version: 1 # "{tmp_path}/it"\n'
    assert (config.stat().st_mode & 0o777, secret.stat().st_mode & 0o777) == (0o600, 0o600)
    assert secret.read_text() == "long-enough\n"
    config.unlink()
    with pytest.raises(FileExists, match="hostler-secrets/one is there already"):
        files.finish(DRAFT, "it/hostler.yaml", force=False)
    assert sorted(path.name for path in (tmp_path / "it").iterdir()) == ["hostler-secrets"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """CONF-4: a directory is made where there is none; a file in its place is told, and nothing is left."""
    parts(tmp_path).finish(Draft(text="version: 1\n"), "new/deep/hostler.yaml", force=False)
    assert (tmp_path / "new/deep/hostler.yaml").read_text() == "version: 1\n"
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileUnusable, match=r"file/hostler\.yaml cannot be written"):
        parts(tmp_path).finish(Draft(text="version: 1\n"), "file/hostler.yaml", force=False)
    assert sorted(it.name for it in tmp_path.iterdir()) == ["file", "new"]


def test_a_draft_is_checked_as_the_command_does(tmp_path: Path) -> None:
    """CONF-4, CONF-2: what is wrong with a draft is found before anything is written."""
    found = ImportFiles(env={}, folder=tmp_path).check(Draft(text="version: 1\nengins: {}\n"))
    assert [problem.path for problem in found] == ["engins"]
    assert list(tmp_path.iterdir()) == []


def test_a_draft_without_a_file_names_its_secrets(tmp_path: Path) -> None:
    """CONF-4: on the terminal the secrets are named, and not written."""
    files = parts(tmp_path)
    assert files.finish(DRAFT, None, force=False) == [f"{tmp_path}/hostler-secrets/one"]
    assert json.dumps(str(tmp_path)) in files.shown(DRAFT)
    assert list(tmp_path.iterdir()) == []
