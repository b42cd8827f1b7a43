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
