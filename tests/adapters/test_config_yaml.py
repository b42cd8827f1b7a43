import textwrap
from pathlib import Path

import pytest

from hostler.adapters.config.tree import MapNode, plain
from hostler.adapters.config.yaml import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NODES,
    Unreadable,
    compose,
    decode,
    resolve,
)
from tests.fakes.config_files import check_marked, marked, read_config, told


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0640", 640),
        ("0o17", 15),
        ("0x1F", 31),
        ("-7", -7),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("190:20", "190:20"),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("Off", "Off"),
        ("true", True),
        ("FALSE", False),
        ("tRuE", "tRuE"),
        ("~", None),
        ("", None),
        ("2027-06-30", "2027-06-30"),
        ("2027-06-30T00:00:00Z", "2027-06-30T00:00:00Z"),
        ("0b11", "0b11"),
        ("1.2.3", "1.2.3"),
        ("8100-8199", "8100-8199"),
    ],
)
def test_a_plain_scalar_is_read_by_the_core_schema(text: str, value: object) -> None:
    """CONF-1: 0640 is the number 640, and yes, on, dates, 12:30 and 1_000 are text."""
    found, wrong = resolve(text)
    assert (found, type(found), wrong) == (value, type(value), "")


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999", "9" * 41, "0x" + "f" * 60])
def test_a_number_without_bound_is_an_error(text: str) -> None:
    """CONF-1: infinity, NaN and numbers of forty digits are errors, not values."""
    assert resolve(text)[1] != ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version: 1\nnode: {}\n»node: {}\n", "node: the key is given twice"),
        ("version: 1\nnode:\n  on_exit: keep\n  »on_exit: stop\n", "node.on_exit: first on line 3"),
        ("version: 1\nfleet: {name: »!!str a}\n", "fleet.name: the tag"),
        ("version: 1\nfleet: »!x {name: a}\n", "fleet: the tag !x is not read"),
        ("%YAML 1.2\n»---\nversion: 1\n", ": %YAML"),
        ("%TAG ! tag:x,2000:\n»---\nversion: 1\n", ": directives"),
        ("version: 1\n»---\nversion: 1\n", ": a second document"),
        ("version: 1\nfleet:\n»\tname: a\n", ": indent with blanks"),
        ("version: 1\nfleet: {\n»\tname: a}\n", ": a tab indents this line"),
        ("version: 1\nnode:\n  »<<: {on_exit: keep}\n", "node: merge keys"),
        ("version: 1\nroutes:\n  »7: {profiles: {a: b}}\n", "routes: quote it"),
        ("version: 1\nroutes:\n  »true: {profiles: {a: b}}\n", "routes: true is none"),
        ("version: 1\n? »[a]\n: b\n", ": a key must be text, not a list"),
        ("version: 1\nfleet: {name: »*gone}\n", ": no anchor &gone"),
        ("version: 1\nfleet: &a\n  name: »*a\n", ": ends before this alias"),
        ("version: 1\nfleet: [1, 2\n»", ": no YAML"),
        ("version: 1\nfleet: {name: a»: b: c}\n", ": no YAML"),
        ('version: 1\nfleet: {name: »"a\\0b"}\n', "fleet.name: NUL"),
        ('version: 1\nfleet: {name: »"\\ud800"}\n', "fleet.name: half a character pair"),
        ("version: 1\nfleet: {name: a»\x07}\n", ": a control character"),
        ("»- version\n", ": expected a mapping of keys"),
        ('»"text"\n', ": expected a mapping of keys"),
    ],
)
def test_what_yaml_may_say_and_a_config_may_not(tmp_path: Path, text: str, expected: str) -> None:
    """CONF-1: each surprise of YAML is one error at its line and column."""
    clean, places = marked(text)
    reading = read_config(tmp_path, clean)
    first = reading.problems[0]
    assert (first.line, first.column) == places[0], told(reading)
    where, _, words = expected.partition(": ")
    assert first.path == where.removesuffix(":")
    assert words in f"{first.message} ({first.hint})"


def test_an_empty_file_lacks_its_version(tmp_path: Path) -> None:
    """CONF-1: an empty file is an empty mapping, whose `version` is missing."""
    check_marked(tmp_path, "»", "version: is missing")


def test_tabs_inside_a_text_are_text() -> None:
    """CONF-1: a tab at the start of a line of a block text or a comment after blanks indents nothing."""
    root, findings = compose("a: |\n \tx\nb: 'c\n\td'\n")
    assert plain(root) == {"a": "\tx\n", "b": "c d"}
    assert findings == ()


def test_anchors_are_read_and_bounded() -> None:
    """CONF-1: an alias is its anchor's value, and a document of aliases of aliases ends at its bound."""
    root, _ = compose("a: &x {b: 1}\nc: *x\n")
    assert plain(root) == {"a": {"b": 1}, "c": {"b": 1}}
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(Unreadable) as caught:
        compose("\n".join(lines))
    assert str(MAX_NODES) in str(caught.value)
    assert caught.value.finding.mark.line < 7


def test_depth_is_bounded() -> None:
    """CONF-1: nesting stops at its bound, whether of lists or of mappings."""
    compose("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    for opening in ("[" * 3000, "{a: " * 3000, "- " * 3000):
        with pytest.raises(Unreadable, match="deep"):
            compose(opening)


def test_size_and_encoding_are_bounded() -> None:
    """CONF-1: a file over 1 MiB, and one that is not UTF-8, are one error; a BOM is dropped."""
    with pytest.raises(Unreadable, match="1024 KiB"):
        decode(b"#" * (MAX_BYTES + 1))
    assert decode(b"#" * MAX_BYTES)
    assert decode(b"\xef\xbb\xbfversion: 1") == "version: 1"
    with pytest.raises(Unreadable) as caught:
        decode(b"version: 1\nname: \xff\n")
    assert (caught.value.finding.mark.line, caught.value.finding.mark.column) == (2, 7)


def test_every_node_knows_its_place() -> None:
    """CONF-2: a key's place is that of its first letter, counted from 1, in any style of YAML."""
    text = textwrap.dedent("""\
        a:
          - {b: c}
        """)
    root, _ = compose(text)
    assert isinstance(root, MapNode)
    entry = root.entries[0]
    assert (entry.mark.line, entry.mark.column) == (1, 1)
    assert (entry.node.mark.line, entry.node.mark.column) == (2, 3)
