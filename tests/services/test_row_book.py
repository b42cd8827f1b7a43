"""The rows on the disk: durable before they count, and what is broken is kept aside."""

from __future__ import annotations

from hostler.domain.registry import Registry, Row
from hostler.services.row_book import FILE, load
from hostler.wire.sync import row_to
from tests.fakes.clock import inline_threads
from tests.fakes.paired import CountedFiles, trio

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
    """SYNC-1: of a broken file nothing is known, people are told, and it is over with the next change."""
    inline_threads()
    crow = trio()["crow"]
    crow.files.broken = True
    crow.restart()
    assert "is broken" in (await crow.sync.now()).notes[0]
    await crow.says(Row(id="new", url="http://10.99.0.1:2", host="crow"))
    assert (await crow.sync.now()).notes == ()


def test_what_stands_in_a_lists_place_is_kept_too() -> None:
    """SYNC-1: a file whose rows are no list loses nothing: what stands there is kept aside."""
    kept = load("crow", CountedFiles(kept={FILE: {"rows": {"id": "x"}}}))
    assert kept.aside == ({"id": "x"},)
