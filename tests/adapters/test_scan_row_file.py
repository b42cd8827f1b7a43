from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hostler.adapters.scan import row_file
from hostler.adapters.scan.registry import file_rows
from hostler.adapters.scan.row_file import Taken, add_row, added, row_text
from hostler.domain.errors import InvalidRequest, RegistryUnusable
from hostler.domain.ports import Row, Status
from tests.fakes.ports import GIB, row

NEW = row(8081, "new", status=Status.RESERVED)
LINE = "{host: crow, port: 8081, service: new, status: reserved}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"rows:\n  - {LINE}\n"),
        ("# ours\n", f"# ours\nrows:\n  - {LINE}\n"),
        ("rows: []  # none\n# end", f"rows:  # none\n  - {LINE}\n# end\n"),
        ("[]\n", f"- {LINE}\n"),
        ("- {host: a, port: 1, service: x}", f"- {{host: a, port: 1, service: x}}\n- {LINE}\n"),
        (
            "rows:\n- host: a\n  port: 1 # one\n  service: x\n\n# end\n",
            f"rows:\n- host: a\n  port: 1 # one\n  service: x\n- {LINE}\n\n# end\n",
        ),
        (
            "rows:\n    - {host: a, port: 1, service: x} # one\n",
            f"rows:\n    - {{host: a, port: 1, service: x}} # one\n    - {LINE}\n",
        ),
    ],
)
def test_where_a_row_stands(tmp_path: Path, before: str, after: str) -> None:
    """PORT-5: a row is written behind the last one, in its indentation, every comment where it was."""
    path = tmp_path / "ports.yaml"
    path.write_text(before)
    found = add_row(path, NEW, in_config=False)
    assert path.read_text() == after
    assert after.splitlines()[found.line - 1].lstrip("- ") == LINE
    assert file_rows(path, in_config=False)[-1] == found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version: 1\n", f"version: 1\n\nports:\n  rows:\n    - {LINE}\n"),
        (
            "ports:\n    scan: {}\nstore: sqlite\n",
            f"ports:\n    rows:\n      - {LINE}\n    scan: {{}}\nstore: sqlite\n",
        ),
        (
            "ports:\n  rows:\n    - {host: a, port: 1, service: x}\nstore: sqlite\n",
            f"ports:\n  rows:\n    - {{host: a, port: 1, service: x}}\n    - {LINE}\nstore: sqlite\n",
        ),
    ],
)
def test_where_a_row_stands_in_a_config(before: str, after: str) -> None:
    """PORT-5: in a config the row stands below `ports`, everything else as it was."""
    assert added(before, NEW, in_config=True, file="hostler.yaml") == after


@pytest.mark.parametrize(
    "text",
    [
        "rows: [{host: a, port: 1, service: x}]\n",
        "rows: {}\n",
    ],
)
def test_a_form_that_nothing_is_added_to(text: str) -> None:
    """PORT-5: rows in another form are left alone, and the row to write is told."""
    with pytest.raises(InvalidRequest) as refused:
        added(text, NEW, in_config=False, file="ports.yaml")
    assert refused.value.advice() == f"Add this row yourself: - {LINE}"


def test_a_config_in_one_line() -> None:
    """PORT-5: `ports: {…}` in one line is left alone as well."""
    with pytest.raises(InvalidRequest):
        added("ports: {scan: {dirs: [/x]}}\n", NEW, in_config=True, file="hostler.yaml")
    with pytest.raises(InvalidRequest, match=r"ports\.yaml:1: no YAML"):
        added("a: b: c\n", NEW, in_config=False, file="ports.yaml")


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 1}\n',
        '{"version": 1,\n "ports": {"rows": [{"host": "a", "port": 1, "service": "x"}]}\n}\n',
        "[]\n",
    ],
)
def test_a_document_in_braces_takes_its_row_by_hand(tmp_path: Path, text: str) -> None:
    """PORT-5, INTERFACE-2: a config in the style of JSON is right; it is not called broken, and stays."""
    path = tmp_path / "hostler.yaml"
    path.write_text(text)
    with pytest.raises(InvalidRequest, match="in a form that nothing can be added to") as refused:
        add_row(path, NEW, in_config=True)
    assert f"Add this row yourself: - {LINE}" in refused.value.advice()
    assert path.read_text() == text


@pytest.mark.parametrize(
    "each",
    [
        NEW,
        row(8031, "yes", last=8033, protocol="udp", address="::1", by="script", needs=int(92.6 * GIB)),
        row(1, 'a "b": {c} # d', host="raven"),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, each: Row) -> None:
    """PORT-5: every word of a row is read back as it was given, whatever it holds."""
    path = tmp_path / "ports.yaml"
    found = add_row(path, each, in_config=False)
    assert row_text(found) == row_text(each)
    assert (found.service, found.address, found.needs) == (each.service, each.address, each.needs)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """PORT-5: where nothing can be written that is refused, and nothing is left behind."""
    with pytest.raises(RegistryUnusable, match="No such file or directory"):
        add_row(tmp_path / "none/ports.yaml", NEW, in_config=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PORT-5: a file that somebody changed while the row was made is not overwritten."""
    path = tmp_path / "ports.yaml"
    path.write_text("rows: []\n")
    real = row_file.added

    def slow(text: str, each: Row, *, in_config: bool, file: str) -> str:
        path.write_text("rows: [] # a person's\n")
        return real(text, each, in_config=in_config, file=file)

    monkeypatch.setattr(row_file, "added", slow)
    with pytest.raises(RegistryUnusable, match="somebody changed it meanwhile"):
        add_row(path, NEW, in_config=False)
    assert path.read_text() == "rows: [] # a person's\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_port_that_has_a_row_by_now(tmp_path: Path) -> None:
    """PORT-5: a port that has a row by the time that ours is written is not written again."""
    path = tmp_path / "ports.yaml"
    path.write_text("rows:\n  - {host: crow, port: 8080-8085, service: x}\n")
    with pytest.raises(Taken):
        add_row(path, NEW, in_config=False)
    path.write_text("rows:\n  - {host: crow, port: 8080-8085, service: x, status: freed}\n")
    assert add_row(path, NEW, in_config=False).port == 8081


def test_a_row_that_is_not_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PORT-5: a text that would be read as other rows is never written."""
    path = tmp_path / "ports.yaml"
    path.write_text("rows: []\n")
    monkeypatch.setattr(row_file, "row_text", lambda _: "{host: crow, port: 9, service: other}")
    with pytest.raises(InvalidRequest):
        add_row(path, NEW, in_config=False)
    assert path.read_text() == "rows: []\n"


def test_writers_take_turns(tmp_path: Path) -> None:
    """PORT-5: writers at one time each have their row, and none is lost."""
    path = tmp_path / "ports.yaml"
    path.write_text("rows: []\n")

    def write(port: int) -> None:
        add_row(path, row(port, "w", status=Status.RESERVED), in_config=False)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(8000, 8012)))
    assert sorted(it.port for it in file_rows(path, in_config=False)) == list(range(8000, 8012))
