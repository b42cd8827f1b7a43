import io
import json
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from hostler.adapters.catalog.schema import schema_text
from hostler.domain.errors import Refusal
from hostler.interfaces.cli import pull as pulling
from tests.fakes.catalog import TEXT, write_entry
from tests.fakes.config_files import write_config
from tests.interfaces.catalog_shell import Here, Shell

TWO = """\
version: 1
schedule: {owner: crow}
hosts:
  crow:
    url: https://crow.lan
    memory: {total: 124 GiB}
    links: {raven: {interface: tb0, address: 10.99.0.1, peer: 10.99.0.2}}
  raven:
    url: https://raven.lan
    links: {crow: {interface: tb0, address: 10.99.0.2, peer: 10.99.0.1}}
"""


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """A shell in an empty folder, its output no terminal."""
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def own(shell: Shell, text: str = TEXT) -> Path:
    """A config whose catalog has a file of that text."""
    path = write_entry(shell.folder / "catalog", text)
    write_config(shell.folder, f"version: 1\ncatalog: {shell.folder / 'catalog'}\n")
    return path


# ---------------------------------------------------------------- check


def test_the_shipped_catalog_passes_the_check(shell: Shell) -> None:
    """CAT-11, INTERFACE-3: without a daemon and a config the shipped entries are checked, and right."""
    code, out, err = shell("catalog", "check")
    assert (code, err) == (0, "")
    assert out.endswith("right, 8 entries.\n")
    assert shell.json("catalog", "check")["valid"] is True


def test_the_check_tells_every_error_with_its_line_and_sum(shell: Shell) -> None:
    """CAT-11: the check ends with 65 and tells each error with file, line and arithmetic."""
    path = own(shell, TEXT.replace("2 GiB", "157911 MiB").replace("family: tiny", "famly: tiny"))
    code, out, _ = shell("catalog", "check")
    assert code == 65
    assert f"{path}:3:1  error  famly: no such key" in out
    path.write_text(TEXT.replace("2 GiB", "157911 MiB"), encoding="utf-8")
    for place in ((), (str(path),), (str(path.parent),)):
        code, out, _ = shell("catalog", "check", *place)
        assert code == 65
        assert f"{path}:10:14  error  quants.Q8.min_ram: Q8 needs 157,911 MiB" in out
        assert out.splitlines()[-1].endswith(": 1 error.")
    code, out, err = shell("catalog", "check", "--json")
    (problem,) = json.loads(out)["problems"]
    assert (code, err, problem["line"], problem["path"]) == (65, "", 10, "quants.Q8.min_ram")


def test_one_file_is_checked_against_the_shipped_ones(shell: Shell) -> None:
    """CAT-3, CAT-11: a file by itself is told that it is safer than the shipped entry of its id."""
    path = write_entry(shell.folder, TEXT.replace("id: tiny", "id: glm-5.3-flash"))
    code, out, _ = shell("catalog", "check", str(path))
    assert (code, "is safer than the shipped glm-5.3-flash" in out) == (65, True)
    right = write_entry(shell.folder, name="right.yaml")
    assert shell("catalog", "check", str(right))[:2] == (0, f"{right}: right, 1 entry.\n")


def test_a_file_that_is_not_there_leads_to_the_catalog(shell: Shell) -> None:
    """CAT-3, INTERFACE-2: of an entry's file that is not there the hint is no config's."""
    code, out, _ = shell("catalog", "check", "nope.yaml")
    assert (code, "there is no such file" in out, "hostler init" in out) == (65, True, False)
    assert "`hostler catalog list`" in out


# ---------------------------------------------------------------- list, show, schema


def test_the_list_has_each_entry_with_its_class(shell: Shell) -> None:
    """CAT-11, CAT-9: the list shows shipped and own entries with class, least memory and what is unproven."""
    own(shell)
    code, out, _ = shell("catalog", "list")
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    assert rows["tiny"].split()[1:] == ["resident", "chat", "2.0", "GiB", "4k", "(unproven)", "MIT"]
    assert "262k, 524k (unproven), 1m" in rows["qwen3.8-flash-next"]
    assert rows["deepseek-v4-flash"].split()[1] == "wedge-risk"
    found = shell.json("catalog", "list")
    assert isinstance(found["entries"], list)
    assert len(found["entries"]) == 9


def test_an_entry_is_shown_with_what_is_known_of_it(shell: Shell) -> None:
    """CAT-11, CAT-6: an entry is shown with its class and why, what stands for a start, and its evidence."""
    code, out, _ = shell("catalog", "show", "deepseek-v4-flash")
    assert code == 0
    assert "class      wedge-risk: at 86 to 91 GiB" in out
    assert "Known wedge risk: never started from the dashboard" in out
    assert "on 2 boxes: worker, main" in out
    assert "measured: worker 86.0 GiB, main 91.0 GiB" in out
    assert "seen: 3 runs; IQ4_XS over two boxes of 124 GiB" in out
    shown = shell.json("catalog", "show", "deepseek-v4-flash")
    assert shown["affordance"] == {
        "start": False,
        "badge": "wedge-risk",
        "text": "Known wedge risk: never started from the dashboard",
    }


def test_everything_that_an_entry_may_say_is_shown(shell: Shell) -> None:
    """CAT-8, CAT-11: build, link, flags, gates and evidence of a variant are shown."""
    text = TEXT.replace("{class: resident}", "{class: windowed}").replace("context: 8192", "tags: [two-box]")
    own(
        shell,
        text[: text.index("launch:")]
        + """\
  two:
    quant: Q8
    flags: [-fa, "on"]
    gates: {available: 3 GiB}
    topology: {roles: [worker, main], speed: 10 Gbit/s}
    build: {tree: turbo, release: 5900, commits: ["3f2a1c9"], pull_requests: [12]}
    evidence:
      - {configuration: deployed so, date: 2026-08-30, runs: 1, tokens_per_s: 31.5, identity: true}
      - {quality_runs: 2}
    notes: [slow at first]
evidence: [{note: it answers}]
notes: [ask somebody]
""",
    )
    code, out, _ = shell("catalog", "show", "tiny")
    assert code == 0
    for words in (
        "context ?",
        "tags       two-box",
        "windowed, proven",
        "link of 10 Gbit/s",
        "measured: 3.0 GiB available before its start",
        "build: tree turbo, release 5900 or later, commit 3f2a1c9, pull request 12",
        "flags: -fa on",
        "seen: 2026-08-30; 1 run; deployed so; 31.5 tokens/s; identity checked",
        "seen: 2 judged",
        "note: slow at first",
        "note       ask somebody",
        "seen       it answers",
    ):
        assert words in out


def test_an_unknown_entry_has_the_nearest_name(shell: Shell) -> None:
    """CAT-11: an entry that is not there is exit 66 with the nearest names."""
    code, _, err = shell("catalog", "show", "qwen3-0.5b")
    assert (code, "Did you mean qwen3-0.6b" in err) == (66, True)


def test_the_schema_is_printed(shell: Shell) -> None:
    """CAT-1: `catalog schema` prints the JSON Schema of an entry."""
    assert shell("catalog", "schema") == (0, schema_text(), "")


def test_a_broken_directory_is_told_everywhere(shell: Shell) -> None:
    """CAT-7, CAT-11: where nobody knows what the catalog has, list and show refuse with 65 and the cause."""
    own(shell, "broken: [")
    for words in (("list",), ("show", "tiny"), ("fit", "tiny")):
        code, _, err = shell("catalog", *words)
        assert (code, "tiny.yaml" in err, "hostler catalog check" in err) == (65, True, True)


def test_a_last_good_directory_is_listed_with_a_warning(shell: Shell) -> None:
    """CAT-7: the list says that the last good directory stands in for the one that is there."""
    path = own(shell)
    state = shell.folder / "home" / ".local" / "state" / "hostler"
    state.mkdir(parents=True)
    kept = {"directory": "x", "files": {"tiny.yaml": TEXT}}
    (state / "catalog.json").write_text(json.dumps(kept), encoding="utf-8")
    path.write_text("broken: [", encoding="utf-8")
    code, out, _ = shell("catalog", "list")
    assert (code, out.startswith("warning: "), "the last good one is in force" in out) == (0, True, True)
    assert "\ntiny " in out


# ---------------------------------------------------------------- fit


def test_a_fit_says_what_it_counts(shell: Shell) -> None:
    """CAT-11: each shape is told against a host of the config: fits, tight, won't fit, with the sum."""
    write_config(shell.folder, TWO)
    code, out, _ = shell("catalog", "fit", "qwen3.8-flash-next", "--on", "crow")
    assert code == 0
    assert out.splitlines()[0] == "crow: host 124 GiB"
    assert "fits    needs 112.4 GiB (its min_ram) of the box's 124.0: 91 %" in out
    code, out, _ = shell("catalog", "fit", "glm-5.3-flash", "--on", "crow")
    assert "won't fit  needs 154.2 GiB" in out
    assert "(the min_ram of its quant, on each of 2 boxes) of the box's 124.0: 63 %" in out


def test_a_box_that_is_not_known_fits_nothing(shell: Shell) -> None:
    """CAT-11: a far host whose memory the config does not say is unknown for every shape."""
    write_config(shell.folder, TWO)
    found = shell.json("catalog", "fit", "qwen3-0.6b", "--on", "raven")
    assert found["memory"] == {"host": None}
    assert isinstance(found["fits"], list)
    assert {row["result"] for row in found["fits"]} == {"unknown"}
    assert shell("catalog", "fit", "qwen3-0.6b", "--on", "ravn")[0] == 66


def test_this_machine_is_read(shell: Shell) -> None:
    """CAT-11: without a config the memory of this machine is read, as the test bed's is from its files."""
    found = shell.json("catalog", "fit", "qwen3-0.6b")
    assert found["host"] == "local"
    bed = shell.folder / "bed"
    bed.mkdir()
    (bed / "ram").write_text("total: 1 GiB\navailable: 1 GiB\n", encoding="utf-8")
    (bed / "gpu0").write_text("total: 900 MiB\navailable: 1 GiB\n", encoding="utf-8")
    write_config(shell.folder, f"version: 1\nhosts: {{local: {{memory: {{reader: 'files:{bed}'}}}}}}\n")
    found = shell.json("catalog", "fit", "qwen3-0.6b")
    assert found["memory"] == {"gpu0": 900 << 20, "ram": 1 << 30}
    assert [row["result"] for row in found["fits"]] == ["tight", "tight"]  # type: ignore[attr-defined]  # rows of JSON
    (bed / "gpu0").unlink()
    (bed / "ram").unlink()
    assert shell.json("catalog", "fit", "qwen3-0.6b")["memory"] == {"host": None}


# ---------------------------------------------------------------- engine from-catalog


@pytest.mark.parametrize("reference", ["qwen3-0.6b#8k", "nomic-embed-text-v1.5#2k", "qwen3.8-flash-next"])
def test_a_printed_engine_passes_the_config_check(shell: Shell, reference: str) -> None:
    """CAT-11: what from-catalog prints is an engine that `config check` accepts without a warning."""
    code, out, err = shell("engine", "from-catalog", reference)
    assert (code, err) == (0, "")
    write_config(shell.folder, f"version: 1\n{out}")
    code, out, _ = shell("config", "check")
    assert (code, out.splitlines()[-1].endswith("1 engine; 0 warnings.")) == (0, True), out


def test_a_printed_two_box_engine_passes_the_config_check(shell: Shell) -> None:
    """CAT-11, CAT-8: a shape of two boxes is printed as its members over the config's link, and accepted."""
    write_config(shell.folder, TWO)
    shell = Shell(shell.folder, shell.capture, "crow")
    code, out, err = shell("engine", "from-catalog", "glm-5.3-flash#two-box", "--on", "crow", "--on", "raven")
    assert (code, err) == (0, "")
    assert "# glm-5.3-flash#two-box: windowed - Operator window only" in out
    engines = YAML(typ="safe").load(out)["engines"]
    assert engines["glm-5.3-flash-worker"]["address"] == "10.99.0.1"
    assert "10.99.0.1:50052" in engines["glm-5.3-flash-main"]["argv"]
    assert engines["glm-5.3-flash-main"]["argv"][-4:] == ["-b", "2048", "-ub", "2048"]
    assert engines["glm-5.3-flash"]["members"] == ["glm-5.3-flash-worker", "glm-5.3-flash-main"]
    write_config(shell.folder, f"{TWO}{out}")
    assert shell("config", "check")[0] == 0


def test_a_name_that_is_taken_gets_the_variants(shell: Shell) -> None:
    """CAT-11: an engine of the entry's name that is there already is not printed over."""
    write_config(shell.folder, 'version: 1\nengines: {qwen3-0.6b: {argv: [s, "{port}"], memory: 1 GiB}}\n')
    found = shell.json("engine", "from-catalog", "qwen3-0.6b#8k")
    config = found["config"]
    assert isinstance(config, dict)
    assert list(config["engines"]) == ["qwen3-0.6b-8k"]


@pytest.mark.parametrize(
    ("words", "code", "hint"),
    [
        (("qwen3-0.6b#9k",), 66, "Did you mean 8k"),
        (("qwen3-0.6b",), 66, "Its variants: 8k."),
        (("glm-5.3-flash#two-box",), 65, "Name one --on HOST for each of: worker, main."),
        (("qwen3-0.6b#8k", "--on", "moon"), 66, "There are: local."),
    ],
)
def test_what_cannot_be_printed_is_told(shell: Shell, words: tuple[str, ...], code: int, hint: str) -> None:
    """CAT-11: an unknown variant, host or number of hosts is one error with what would be right."""
    found, out, err = shell("engine", "from-catalog", *words)
    assert (found, out, hint in err) == (code, "", True), err


def test_an_entry_may_not_say_how_it_starts(shell: Shell) -> None:
    """CAT-11: of an entry without a launch, a link or a worker's port no engine is printed."""
    own(shell, TEXT[: TEXT.index("launch:")])
    code, _, err = shell("engine", "from-catalog", "tiny#4k")
    assert (code, "tiny does not say how it is started" in err) == (65, True)
    write_config(shell.folder, TWO.replace("    links: {raven:", "    #"))
    two = ("engine", "from-catalog", "glm-5.3-flash#two-box", "--on", "crow", "--on", "raven")
    code, _, err = Shell(shell.folder, shell.capture, "crow")(*two)
    assert (code, "hosts.crow.links.raven" in err) == (65, True)


# ---------------------------------------------------------------- pull


def test_a_pull_shows_the_licence_and_has_the_file(shell: Shell) -> None:
    """CAT-12: the licence stands first; the file comes from its source into models_dir; nothing starts."""
    (shell.folder / "tiny.gguf").write_bytes(b"x" * 1000)
    text = TEXT.replace("https://models.example.net/tiny", f"file://{shell.folder}").replace(
        "1 GiB", "1000 B"
    )
    own(shell, text)
    code, out, err = shell("pull", "tiny#Q8")
    models = shell.folder / "home" / ".local" / "share" / "hostler" / "models"
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "tiny#Q8 of an unknown publisher",
        "licence: MIT",
        f"1 file, 1000 B, into {models}",
        "tiny.gguf: 1000 B, unverified: the catalog has no SHA-256 of it",
    ]
    assert (models / "tiny.gguf").read_bytes() == b"x" * 1000
    again = shell.json("pull", "tiny")
    assert isinstance(again["files"], list)
    assert again["files"][0]["outcome"] == "unverified"
    assert again["license"] == "MIT"


def test_a_pull_that_fails_tells_it_once(shell: Shell) -> None:
    """CAT-12, INTERFACE-4: an unknown quant is 66, a file that is another one 74, each with its hint."""
    own(shell)
    assert shell("pull", "tiny#Q9")[0] == 66
    models = shell.folder / "home" / ".local" / "share" / "hostler" / "models"
    models.mkdir(parents=True)
    (models / "tiny.gguf").write_bytes(b"another")
    code, out, err = shell("pull", "tiny")
    assert (code, "licence: MIT" in out) == (74, True)
    assert err.splitlines()[0].startswith("error: ")
    assert "Nothing was changed" in err
    with pytest.raises(Refusal):
        Here(shell.folder, "box").catalog().plan("none", None)


class Terminal(io.StringIO):
    """A stderr that somebody looks at."""

    def isatty(self) -> bool:
        return True


def test_a_bar_moves_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """CAT-12, INTERFACE-2: a bar shows each percent once on a terminal, and goes; on a pipe there is none."""
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    bar = pulling.Bar(shown=True)
    for done in (0, 1, 500, 501, 1000):
        bar.show("fetches", "tiny.gguf", done, 1000)
    bar.clear()
    shown = terminal.getvalue()
    assert shown.count("fetches") == 3
    assert "[###############...............] 50 %, 500 B of 1000 B" in shown
    assert shown.endswith("\x1b[K")
    bar.show("fetches", "tiny.gguf", 5 << 26, None)
    assert "320 MiB" in terminal.getvalue()
    monkeypatch.setattr(sys, "stderr", pipe)
    pulling.Bar(shown=False).show("fetches", "tiny.gguf", 1, 2)
    assert pipe.getvalue() == ""
