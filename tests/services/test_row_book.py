"""The rows on the disk: durable before they count, and what is broken is kept aside."""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.state_files import DirectoryStateFiles
from hostler.domain.errors import StoreFull
from hostler.domain.registry import (
    LONGEST_URL,
    MAX_MODELS,
    MAX_NODES,
    MAX_OWN,
    MAX_ROWS,
    Registry,
    Row,
)
from hostler.services.row_book import FILE, load
from hostler.wire.sync import ROW_BYTES, row_to, sound_from
from hostler.wire.values import dump
from tests.fakes.clock import inline_threads
from tests.fakes.paired import CountedFiles, PairedNode, nested, trio

GOOD = row_to(Row(id="good", url="http://10.99.0.1:1", host="crow", version=7, author="crow"))


def test_what_was_kept_is_there_again() -> None:
    """SYNC-5: rows and clock outlive a restart; the clock is at least what its rows say."""
    files = CountedFiles(kept={FILE: {"clock": 9, "rows": [GOOD]}})
    kept = load("crow", files)
    assert (kept.registry.clock, set(kept.registry.rows)) == (9, {("crow", "good")})
    files.kept[FILE] = {"clock": True, "rows": [GOOD]}
    assert load("crow", files).registry.clock == 7
    assert load("crow", CountedFiles()).registry == Registry(node="crow")


async def test_rows_that_are_broken_are_kept_aside_and_named() -> None:
    """SYNC-1, SYNC-2: a row of the file with a malformed flag or URL is named, kept as it is, not told."""
    inline_threads()
    crow = trio()["crow"]
    broken = [
        {**GOOD, "id": "flag", "local_only": "no"},
        {**GOOD, "id": "url", "url": "http://[::1"},
        {**GOOD, "id": "over", "retired": 1},
        "no row at all",
    ]
    crow.files.kept[FILE] = {"clock": 9, "rows": [GOOD, *broken]}
    crow.restart()
    assert [row.id for row in crow.registry.told()] == ["good"]
    notes = (await crow.sync.now()).notes
    assert [text.split(": ")[1] for text in notes] == ["flag", "url", "over", "a row without an id"]
    await crow.says(Row(id="new", url="http://10.99.0.1:2", host="crow"))
    assert crow.files.kept[FILE]["aside"] == broken
    mended = [*broken[:-1], {**GOOD, "id": "mended"}]
    crow.files.kept[FILE] = {**crow.files.kept[FILE], "aside": mended}
    crow.restart()
    assert ("crow", "mended") in crow.registry.rows
    assert len(crow.sync.book.kept.aside) == 3


async def test_a_file_that_cannot_be_read_is_told() -> None:
    """SYNC-1: of a broken file nothing is known; that, and where it is kept, is told while it runs."""
    inline_threads()
    crow = trio()["crow"]
    crow.files.broken = True
    crow.restart()
    assert "is broken" in (await crow.sync.now()).notes[0]
    await crow.says(Row(id="new", url="http://10.99.0.1:2", host="crow"))
    (note,) = (await crow.sync.now()).notes
    assert "is broken; it is kept as sync.json.unreadable-" in note


async def test_a_version_of_the_file_that_no_history_leads_to_is_kept_aside() -> None:
    """SYNC-5: one that a peer told before versions were bounded does not keep its id; it is named."""
    wild = {**GOOD, "id": "wild", "author": "raven", "host": "raven", "version": 1 << 40}
    kept = load("crow", CountedFiles(kept={FILE: {"clock": 9, "rows": [GOOD, wild]}}))
    assert (set(kept.registry.rows), kept.registry.clock) == ({("crow", "good")}, 9)
    assert kept.aside == (wild,)
    assert "wild: its version 1099511627776 is none that changes lead to" in kept.notes[0]
    files = CountedFiles(kept={FILE: {"clock": 1 << 40, "rows": [GOOD, wild]}})
    assert len(load("crow", files).registry.rows) == 2


def test_what_stands_in_a_lists_place_is_kept_too() -> None:
    """SYNC-1: a file whose rows are no list loses nothing: what stands there is kept aside."""
    kept = load("crow", CountedFiles(kept={FILE: {"rows": {"id": "x"}}}))
    assert kept.aside == ({"id": "x"},)


# ---------------------------------------------------------------- writes that fail

NEW = Row(id="new", url="http://10.99.0.1:2", host="crow")
LATER = Row(id="later", url="http://10.99.0.1:3", host="crow")


def same_on_disk(node: PairedNode) -> bool:
    """Whether memory and file say the same, and something."""
    return load(node.name, node.files).registry == node.registry and bool(node.registry.rows)


class Odd(CountedFiles):
    """Files whose next save raises `error`; `late`: after the content is there."""

    error: Exception | None = None
    late: bool = False

    def save(self, name: str, value: object) -> None:
        error, self.error = self.error, None
        if error is None or self.late:
            super().save(name, value)  # type: ignore[arg-type]  # an object, as the need has it
        if error is not None:
            raise error


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), ValueError("nan"), RecursionError("too deep")]
)
async def test_a_write_that_fails_leaves_memory_and_file_equal(error: Exception, *, late: bool) -> None:
    """SYNC-5: whatever a write raises is one refusal; memory has what the file has; the next one works."""
    inline_threads()
    crow = trio()["crow"]
    files = crow.files = Odd()
    crow.restart()
    await crow.says(NEW)
    files.error, files.late = error, late
    with pytest.raises(StoreFull, match=r"sync\.json was not written: "):
        await crow.says(LATER)
    assert same_on_disk(crow)
    assert (("crow", "later") in crow.registry.rows) is late
    await crow.says(LATER)
    assert same_on_disk(crow)
    assert ("crow", "later") in crow.registry.rows


class Slow(CountedFiles):
    """Files whose saves wait until they may go on, in a thread."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def save(self, name: str, value: object) -> None:
        self.begun.set()
        assert self.go.wait(30)
        super().save(name, value)  # type: ignore[arg-type]  # an object, as the need has it


async def test_a_caller_that_leaves_during_the_write_leaves_no_half_change() -> None:
    """SYNC-5: what is written while its caller goes is in force; the next write comes after."""
    crow = trio()["crow"]
    files = crow.files = Slow()
    crow.restart()
    leaving = asyncio.create_task(crow.says(NEW))
    await asyncio.to_thread(files.begun.wait, 30)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    files.go.set()
    await crow.says(LATER)
    assert set(crow.registry.rows) == {("crow", "new"), ("crow", "later")}
    assert same_on_disk(crow)


async def test_a_refusal_of_the_disk_is_told_once() -> None:
    """SYNC-4: looks that cannot be written down are made again and again, and that is told once."""
    inline_threads()
    crow = trio()["crow"]
    await crow.says(NEW)
    crow.files.full = True
    running = asyncio.create_task(crow.reaching.run())
    for _ in range(5):
        await crow.clock.advance(15)
    assert [type(it) for it in crow.bugs] == [StoreFull]
    crow.files.full = False
    await crow.clock.advance(15)
    assert crow.registry.rows["crow", "new"].reach == {"crow": True}
    crow.sockets.dead.add(NEW.url)
    crow.files.full = True
    await crow.clock.advance(30)
    assert len(crow.bugs) == 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("odd", ['{"id": "odd", "version": 1e999}', "[" * 300 + "1e999" + "]" * 300])
def test_what_no_file_can_hold_is_kept_as_a_text(tmp_path: Path, odd: str) -> None:
    """SYNC-1: a row with a number beyond all bounds is kept aside as a text: no later write fails for it."""
    files = DirectoryStateFiles(root=tmp_path)
    (tmp_path / "sync.json").write_text(f'{{"clock": 9, "rows": [{json.dumps(GOOD)}, {odd}]}}')
    kept = load("crow", files)
    (text,) = kept.aside
    assert json.loads(str(text)) == json.loads(odd)
    files.save(FILE, {"clock": 9, "rows": [GOOD], "aside": list(kept.aside)})
    assert load("crow", files).aside == (text,)


@pytest.mark.parametrize("levels", [400, 900, 5000])
@pytest.mark.parametrize("where", ["local_only", "weight", "id", "clock", "more"])
def test_no_depth_of_a_value_keeps_it_from_starting(tmp_path: Path, where: str, levels: int) -> None:
    """SYNC-1, REL-1: however deep one value of the file is nested, the others are read, and it is kept."""
    deep = nested(levels)
    found = {"clock": 9, "rows": [GOOD, {**GOOD, "id": "odd", where: deep}], where: deep}
    kept = load("crow", CountedFiles(kept={FILE: found}))
    assert ("crow", "good") in kept.registry.rows
    assert kept.notes
    rows = [
        {**row_to(row), **kept.extras.get((row.key, row.version), {})} for row in kept.registry.rows.values()
    ]
    files = DirectoryStateFiles(root=tmp_path)
    files.save(FILE, {**kept.more, "clock": 9, "rows": rows, "aside": list(kept.aside)})
    if where != "clock":
        assert "[" * (levels // 2) in (tmp_path / "sync.json").read_text()
    assert load("crow", files).registry.rows == kept.registry.rows


@pytest.mark.parametrize("lists", ["rows", "aside"])
@pytest.mark.parametrize("turned", [False, True])
def test_of_two_rows_of_a_key_the_later_one_counts(lists: str, *, turned: bool) -> None:
    """SYNC-5: an earlier version that is kept aside replaces no later one; it stays there, and is named."""
    early = {**GOOD, "version": 3, "url": "http://10.99.0.1:3", "weight": 3}
    late = {**GOOD, "version": 8, "retired": True}
    first, second = (early, late) if turned else (late, early)
    found = {"clock": 9, "rows": [first, second]} if lists == "rows" else {"clock": 9, "rows": [first]}
    kept = load("crow", CountedFiles(kept={FILE: {"aside": [second], **found}}))
    (row,) = kept.registry.rows.values()
    assert (row.version, row.retired, dict(kept.extras)) == (8, True, {})
    assert set(map(str, kept.aside)) == {str(early)} | ({str(second)} if lists == "rows" else set())
    assert (
        "a row of sync.json is kept aside: good of crow is there more than once, and this one is version 3:"
        " version 8 counts" in kept.notes
    )


def largest(author: int, number: int) -> Row:
    """A row as large as one may be: its bytes, its models, and what as many nodes as there may be saw."""
    row = Row(
        id=f"id-{number}",
        url="http://10.99.0.1:1/".ljust(LONGEST_URL, "x"),
        host="crow",
        models=("m",) * MAX_MODELS,
        version=1 << 40,
        author=f"{author:063}",
        reach={f"{node:063}": False for node in range(MAX_NODES)},
        allowed={f"{node:063}": "" for node in range(16)},
    )
    each, more = divmod(ROW_BYTES - without_reach(row), MAX_MODELS)
    models = tuple("m" * (1 + each + (place < more)) for place in range(MAX_MODELS))
    return sound_from(row_to(replace(row, models=models)))


def without_reach(row: Row) -> int:
    """The bytes of a row as they are bounded."""
    return len(dump(row_to(replace(row, reach={}))))


def test_as_many_rows_as_may_be_fit_into_the_file(tmp_path: Path) -> None:
    """SYNC-1: the largest rows, in the largest number, are written and read again: no change is refused."""
    files = DirectoryStateFiles(root=tmp_path)
    rows = [largest(number // MAX_OWN, number) for number in range(MAX_ROWS)]
    assert set(map(without_reach, rows)) == {ROW_BYTES}
    files.save(FILE, {"clock": 1 << 40, "rows": [row_to(row) for row in rows], "aside": []})
    kept = load("crow", files)
    assert (len(kept.registry.rows), kept.aside, kept.notes) == (MAX_ROWS, (), ())


# ---------------------------------------------------------------- what is odd of a file that can be read


@pytest.mark.parametrize(
    ("file", "note"),
    [
        ({"clock": -3, "rows": [GOOD]}, "sync.json: its clock is -3: it goes on from the highest version"),
        ({"rows": [GOOD]}, "sync.json: it has no clock"),
        (
            {"clock": 3, "rows": [GOOD]},
            "the row good of crow in sync.json: its version 7 is beyond the clock 3, which goes on from",
        ),
        ({"clock": 9, "rows": [GOOD], "format": 2}, "sync.json: a newer version wrote format: kept"),
        (
            {"clock": 9, "rows": [{**GOOD, "weight": 3}]},
            "the row good of crow in sync.json: a newer version wrote weight: kept as it was found",
        ),
    ],
)
async def test_what_is_odd_of_the_file_is_told_once(file: dict[str, object], note: str) -> None:
    """SYNC-1, SYNC-5: clocks that do not fit and keys of a newer version are told, with file and row."""
    inline_threads()
    crow = trio()["crow"]
    crow.files.kept[FILE] = file
    crow.restart()
    assert set(crow.registry.rows) == {("crow", "good")}
    assert crow.registry.clock >= 7
    (told,) = (await crow.sync.now()).notes
    assert told.startswith(note)
    running = asyncio.create_task(crow.sync.run())
    for _ in range(3):
        await crow.clock.advance(5)
    assert [it.message for it in crow.events.of("rows_odd")] == [told]
    assert crow.warned[0] == (told,)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_file_as_it_should_be_is_not_odd() -> None:
    """SYNC-1: nothing is said of a file that this version wrote, or where there is none yet."""
    inline_threads()
    crow = trio()["crow"]
    assert (await crow.sync.now()).notes == ()
    await crow.says(NEW)
    crow.restart()
    assert (await crow.sync.now()).notes == ()


async def test_what_a_newer_version_wrote_is_written_back() -> None:
    """SYNC-1: its keys of the file stay; those of a row stay until this node says that row anew."""
    inline_threads()
    crow = trio()["crow"]
    other = {**GOOD, "id": "other", "url": "http://10.99.0.1:8", "weight": 4}
    crow.files.kept[FILE] = {"clock": 9, "rows": [{**GOOD, "weight": 3}, other], "format": {"n": 2}}
    crow.restart()
    await crow.says(Row(id="good", url="http://10.99.0.1:9", host="crow"))
    written = crow.files.kept[FILE]
    rows = written["rows"]
    assert isinstance(rows, list)
    assert (written["format"], rows[1]) == ({"n": 2}, other)
    assert "weight" not in rows[0]
