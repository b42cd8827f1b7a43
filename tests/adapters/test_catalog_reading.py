import json
from pathlib import Path
from typing import cast

import pytest

import hostler
from hostler.adapters.catalog import reading
from hostler.adapters.catalog.kept import Kept, keep, kept
from hostler.adapters.catalog.reading import (
    CatalogRead,
    defaults,
    every_problem,
    load,
    over_shipped,
    read_directory,
    read_file,
    read_text,
    shipped,
)
from hostler.adapters.catalog.schema import json_schema, schema_text
from hostler.domain.catalog import BOX_MEMORY
from hostler.domain.values import ServingClass
from tests.fakes.catalog import GIB, MIB, TEXT, write_entry
from tests.fakes.config_files import marked

PACKAGE = Path(hostler.__file__).parent


def told(text: str) -> list[str]:
    """Each problem of a file of that text, as `line:column: path: message (hint)`."""
    return [str(it).removeprefix("a.yaml:") for it in read_text("a.yaml", text).problems]


def check(text: str, *expected: str) -> None:
    """Assert that the problems stand at the marks of `text`, each with its words."""
    clean, places = marked(text)
    found = read_text("a.yaml", clean).problems
    assert [(it.line, it.column) for it in found] == places, told(clean)
    for it, words in zip(found, expected, strict=True):
        assert words in str(it)


def test_a_right_file_is_an_entry() -> None:
    """CAT-1: a file that is right becomes the entry that it describes, in bytes and tokens."""
    found = read_text("a.yaml", TEXT)
    assert found.problems == ()
    assert found.entry is not None
    quant, variant = found.entry.quants["Q8"], found.entry.variants["4k"]
    assert (found.entry.id, found.entry.context, found.entry.serving_class) == ("tiny", 8192, "resident")
    assert (quant.min_ram, quant.files[0].size) == (2 * GIB, GIB)
    assert (variant.context, variant.proven, found.entry.topology.box_memory) == (4096, False, BOX_MEMORY)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("id: tiny", "id: tiny\n»famly: x", "famly: no such key (nearest valid name: family)"),
        ("id: tiny", "id: tiny\n»group: big", "group: no such key"),
        ("id: tiny", "id: tiny\n»evicts: [big]", "evicts: no such key"),
        ("id: tiny", "id: tiny\n»host: crow", "host: no such key"),
        ("version: 1", "version: »2", "version 2 is newer than this hostler"),
        ("id: tiny", "id: »Tiny", "expected a name"),
        ("size: 1 GiB", "size: »1", "expected a size"),
        ("min_ram: 2 GiB", "»min_ram:", "min_ram: has no value"),
        ("min_ram: 2 GiB", "min_ram: 2 GiB\n    »min_ram: 3 GiB", "the key is given twice"),
        ("files: [{name: tiny.gguf, size: 1 GiB}]", "files: »[]", "expected at least 1 of them"),
        ("name: tiny.gguf", "name: »../x.gguf", "a file below models_dir"),
        ("license: MIT", "license: MIT, base: »'ftp://x'", "a URL of https://"),
        ("resident", "»resdent", "nearest valid name: resident"),
        ("context: 8192", "context: »0", "a number of at least 1"),
        ("quant: Q8", "quant: »Q9", "there is no quant Q9"),
    ],
)
def test_what_is_wrong_is_told_in_its_place(before: str, after: str, words: str) -> None:
    """CAT-1, CAT-11: unknown keys, keys of a box and wrong values are errors with line and column."""
    text = TEXT.replace(', base: "https://models.example.net/tiny"', "")
    assert before in text
    check(text.replace(before, after, 1), words)


def test_the_class_has_no_default() -> None:
    """CAT-2: an entry without its serving class is an error: a forgotten field does not mean safe."""
    check(TEXT.replace("serving: {class: resident}", "»serving: {why: x}"), "serving.class: is missing")
    assert "1:1: serving: is missing" in told(TEXT.replace("serving: {class: resident}\n", ""))[0]


def test_the_arithmetic_stands_at_its_line() -> None:
    """CAT-4, CAT-11: a quant of more than one box is told at its min_ram, with the sum."""
    check(
        TEXT.replace("min_ram: 2 GiB", "min_ram: »157911 MiB"),
        "quants.Q8.min_ram: Q8 needs 157,911 MiB = 154.2 GiB, and one box has 126,976 MiB = 124.0 GiB:"
        " 30,935 MiB = 30.2 GiB more, so the entry cannot be resident (serving.class: windowed)",
    )


def test_all_errors_come_at_once() -> None:
    """CAT-11: every error of a file is told, of YAML and of keys."""
    found = told(TEXT.replace("family: tiny", "famly: tiny").replace("context: 8192", "context: many"))
    assert len(found) == 3
    assert told("- a\n- b\n") == ["1:1: expected a mapping of keys (version: 1)"]
    assert "no YAML" in told("a: [")[0]


def test_a_whole_shape_is_read() -> None:
    """CAT-8: roles, peaks by role, links, builds and evidence are read as they are written."""
    text = TEXT.replace("{class: resident}", "{class: windowed, why: two boxes}")
    text = (
        text[: text.index("launch:")]
        + """\
  two:
    quant: Q8
    class: windowed
    gates: {peak: {worker: 1 GiB, main: 2 GiB}, available: 3 GiB}
    topology: {roles: [worker, main], speed: 10 Gbit/s, port: 50052, box_memory: 64 GiB}
    build: {tree: turbo, release: 5900, commits: ["3f2a1c9"], pull_requests: [12]}
    evidence: [{configuration: as deployed, date: 2026-08-30, runs: 2, tokens_per_s: 31, identity: true}]
"""
    )
    found = read_text("a.yaml", text)
    assert found.problems == ()
    assert found.entry is not None
    two = found.entry.variants["two"]
    assert two.topology is not None
    assert (two.topology.roles, two.topology.speed) == (("worker", "main"), 10**10)
    assert dict(two.gates.peak) == {"worker": GIB, "main": 2 * GIB}
    assert two.build is not None
    assert (two.build.release, two.build.commits, two.build.pull_requests) == (5900, ("3f2a1c9",), (12,))
    assert (two.evidence[0].date, two.evidence[0].tokens_per_s) == ("2026-08-30", 31.0)


# ---------------------------------------------------------------- the package


def test_the_shipped_catalog_is_right() -> None:
    """CAT-10, CAT-1: every shipped entry passes every rule, and one of them is the first-run default."""
    assert shipped().problems == ()
    assert defaults(CatalogRead()) == ()


def test_the_shipped_entries_have_the_known_figures() -> None:
    """CAT-10: the three large entries have their class, their least memory and their rungs."""
    found = {it.id: it for it in shipped().entries}
    flash, glm, dsv4 = (found[name] for name in ("qwen3.8-flash-next", "glm-5.3-flash", "deepseek-v4-flash"))
    assert [it.serving_class for it in (flash, glm, dsv4)] == list(ServingClass)
    assert flash.quants["UD-Q4_K_XL"].min_ram == 115_068 * MIB
    left = {name: round(124 - it.gates.peak[""] / GIB, 1) for name, it in flash.variants.items()}
    assert left == {"262k": 31.0, "524k": 23.4, "1m": 17.7}
    assert {name: it.proven for name, it in flash.variants.items()} == {
        "262k": True,
        "524k": False,
        "1m": True,
    }
    assert glm.quants["UD-IQ4_XS"].min_ram == 157_911 * MIB
    assert glm.variants["two-box"].flags == ("-b", "2048", "-ub", "2048")
    assert dsv4.quants["IQ4_XS"].weights == 128 * GIB
    assert [it.topology.boxes for it in (flash, glm, dsv4)] == [1, 2, 2]


def test_a_newcomers_entries_can_be_proven() -> None:
    """CAT-10, CAT-12: each small entry has a licence, a source, and a SHA-256 for each of its files."""
    small = [it for it in shipped().entries if "laptop" in it.tags]
    assert len(small) >= 4
    for it in small:
        assert (it.serving_class, it.source.license is None) == (ServingClass.RESIDENT, False)
        assert str(it.source.base).startswith("https://")
        assert all(file.sha256 and file.size for quant in it.quants.values() for file in quant.files)
        assert not any(variant.default for variant in it.variants.values())


def test_the_shipped_schema_is_current() -> None:
    """CAT-1: the JSON Schema that is shipped is the one that the keys of an entry give."""
    path = PACKAGE / "catalog-entry.schema.json"
    assert path.read_text(encoding="utf-8") == schema_text()
    keys = cast("dict[str, object]", json_schema()["properties"])
    assert not {"group", "evicts", "host", "hosts"} & set(keys)
    assert json_schema()["additionalProperties"] is False
    assert '"null"' not in json.dumps(json_schema())


# ---------------------------------------------------------------- a directory


def test_a_directory_is_read_as_a_whole(tmp_path: Path) -> None:
    """CAT-7: one bad file makes a directory unreadable; hidden files and other names are none of it."""
    write_entry(tmp_path)
    write_entry(tmp_path, "no: catalog", ".hidden.yaml")
    (tmp_path / "README.md").write_text("notes", encoding="utf-8")
    assert load(str(tmp_path)).find("tiny#4k") is not None
    write_entry(tmp_path, TEXT.replace("id: tiny", "id: other\nx: 1"), "other.yaml")
    found = load(str(tmp_path))
    assert (found.known, found.find("tiny#4k"), found.directory) == (False, None, str(tmp_path))
    assert "other.yaml:3:1: x: no such key" in found.trouble


def test_ids_are_there_once(tmp_path: Path) -> None:
    """CAT-1: two files of one id are an error at the second one's id."""
    write_entry(tmp_path, name="a.yaml")
    second = write_entry(tmp_path, name="b.yaml")
    (problem,) = read_directory(tmp_path).problems
    assert (problem.file, problem.line, problem.path) == (str(second), 2, "id")


def test_what_others_may_write_is_not_read(tmp_path: Path) -> None:
    """CAT-7, SEC-2: a catalog file that others may write says nothing of how dangerous a model is."""
    path = write_entry(tmp_path)
    path.chmod(0o666)
    (problem,) = read_file(path).problems
    assert "others may write it" in problem.message
    assert not load(str(tmp_path)).known


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """CAT-7: a directory that is not there, a file that is none and text that is none are problems."""
    assert "cannot be read" in read_directory(tmp_path / "none").problems[0].message
    assert read_file(tmp_path).problems
    assert read_file(tmp_path / "none.yaml", trusted=True).problems
    path = write_entry(tmp_path)
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in read_file(path).problems[0].message


def test_a_directory_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-7, REL-1: a directory of too many files, or too large ones, is a problem and is not kept."""
    write_entry(tmp_path, name="a.yaml")
    write_entry(tmp_path, TEXT.replace("id: tiny", "id: more"), "b.yaml")
    monkeypatch.setattr(reading, "MAX_TEXT", len(TEXT))
    assert "KiB together" in read_directory(tmp_path).problems[0].message
    monkeypatch.setattr(reading, "MAX_FILES", 1)
    assert "more than 1 files" in read_directory(tmp_path).problems[0].message


def test_a_directory_raises_a_shipped_class_and_never_lowers_it(tmp_path: Path) -> None:
    """CAT-3: an entry over a shipped one is refused where it is safer, and in force where it is not."""
    text = TEXT.replace("id: tiny", "id: glm-5.3-flash")
    write_entry(tmp_path, text)
    (problem,) = over_shipped(read_directory(tmp_path))
    assert (problem.line, problem.path) == (6, "serving.class")
    assert not load(str(tmp_path)).known
    write_entry(tmp_path, text.replace("{class: resident}", "{class: wedge-risk}"))
    found = load(str(tmp_path))
    assert found.known
    assert found.entries["glm-5.3-flash"].serving_class is ServingClass.WEDGE_RISK


def test_there_is_one_first_run_default(tmp_path: Path) -> None:
    """CAT-1: a second first-run default is an error at its own line, and so is none."""
    proof = "evidence: [{identity: true, quality_runs: 1}]"
    text = TEXT.replace("context: 4096}", f"context: 4096, default: true, {proof}}}")
    write_entry(tmp_path, text + "first_run_default: true\n")
    (problem,) = every_problem(read_directory(tmp_path))
    assert (problem.line, problem.path) == (15, "first_run_default")
    assert "these are: qwen3.8-flash-next, tiny" in problem.message
    write_entry(tmp_path, text.replace("id: tiny", "id: qwen3.8-flash-next"))
    (none,) = every_problem(read_directory(tmp_path))
    assert "these are: none" in none.message


# ---------------------------------------------------------------- the last good one


def test_the_last_good_directory_stays_in_force(tmp_path: Path) -> None:
    """CAT-7: a directory that became unreadable is stood in for by its last good state, and that is told."""
    place, state = tmp_path / "catalog", tmp_path / "state"
    path = write_entry(place)
    keep(state, load(str(place), kept(state)))
    path.write_text("broken: [", encoding="utf-8")
    found = load(str(place), kept(state))
    assert found.known
    assert found.find("tiny#4k") is not None
    assert found.trouble.startswith("the last good one is in force: ")
    assert "no YAML" in found.trouble
    keep(state, found)
    path.unlink()
    place.rmdir()
    assert load(str(place), kept(state)).find("tiny#4k") is not None


def test_on_a_first_start_nothing_stands_in(tmp_path: Path) -> None:
    """CAT-7: without a last good state an unreadable directory leaves nobody who knows what an entry is."""
    found = load(str(tmp_path / "none"), kept(tmp_path / "state"))
    assert not found.known
    assert found.trouble.startswith("nothing stands in for it (no good one was seen before): ")
    assert "glm-5.3-flash" in found.entries


def test_a_good_directory_replaces_the_last_good_one(tmp_path: Path) -> None:
    """CAT-7: what is kept is what was last in force, written only where it is another."""
    place, state = tmp_path / "catalog", tmp_path / "state"
    write_entry(place)
    keep(state, load(str(place)))
    file = state / "catalog.json"
    before = file.stat().st_ino
    keep(state, load(str(place)))
    assert file.stat().st_ino == before
    write_entry(place, TEXT.replace("context: 8192", "context: 16384"))
    keep(state, load(str(place)))
    assert "16384" in (kept(state).texts or {})["tiny.yaml"]


@pytest.mark.parametrize("text", ["no json", '{"files": 3}', '{"files": {"a.yaml": 3}}', "{}"])
def test_a_copy_that_is_broken_is_none(tmp_path: Path, text: str) -> None:
    """CAT-7: a kept copy that cannot be read stands in for nothing, and is told."""
    (tmp_path / "catalog.json").write_text(text, encoding="utf-8")
    found = load("/nowhere", kept(tmp_path))
    assert not found.known
    assert "catalog" in kept(tmp_path).why
    assert kept(tmp_path).why in found.trouble


def test_a_kept_text_that_is_no_entry_any_more_is_told(tmp_path: Path) -> None:
    """CAT-7: a kept text that a newer version no longer reads stands in for nothing."""
    found = load("/nowhere", Kept(texts={"a.yaml": "version: 1\n"}, why=""))
    assert not found.known
    assert "a.yaml" in found.trouble


def test_a_package_without_its_entries_knows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-7: where the package's own entries are broken, nobody knows what an entry is."""
    monkeypatch.setattr(reading, "shipped", lambda: read_directory(tmp_path / "none"))
    found = load(None)
    assert (found.known, found.trouble.startswith("the package's own")) == (False, True)
