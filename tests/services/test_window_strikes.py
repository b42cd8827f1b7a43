"""What a host that is not the head keeps of its guard's strikes."""

from __future__ import annotations

from hostler.domain.window import Answer
from hostler.services.window_strikes import MOST, WindowStrikes
from tests.fakes.clock import ManualClock
from tests.fakes.state_files import MemoryStateFiles

WINDOW = "lease_1"


def strikes(files: MemoryStateFiles | None = None) -> WindowStrikes:
    """Those of raven."""
    return WindowStrikes(host="raven", files=files or MemoryStateFiles(), clock=ManualClock())


async def test_each_is_one_of_its_kind_and_outlives_the_daemon() -> None:
    """WIN-6: an intruder is stopped at once; its note has host and time, and a restart loses none."""
    files = MemoryStateFiles()
    it = strikes(files)
    assert await it.strike(WINDOW, "bots came up") is Answer.STOP
    before = await it.told([WINDOW])
    assert [note.note.partition(" at ")[0] for note in before] == ["bots came up on raven"]
    again = strikes(files)
    assert await again.told([WINDOW]) == before
    await again.strike(WINDOW, "bots came up again")
    assert len(await again.told([WINDOW])) == 2
    assert await again.told(["another"]) == ()


async def test_a_full_disk_stops_it_all_the_same() -> None:
    """WIN-6, REL-4: what cannot be written is known until the daemon ends."""
    files = MemoryStateFiles()
    files.full = True
    it = strikes(files)
    assert await it.strike(WINDOW, "bots came up") is Answer.STOP
    assert len(await it.told([WINDOW])) == 1


async def test_a_torn_file_accuses_nobody() -> None:
    """WIN-6: of what cannot be read nothing counts, and what follows does."""
    files = MemoryStateFiles()
    files.texts[f"windows/{WINDOW}/strikes"] = "[1"
    it = strikes(files)
    assert await it.told([WINDOW]) == ()
    await it.strike(WINDOW, "bots came up")
    assert len(await it.told([WINDOW])) == 1


async def test_no_more_are_kept_than_anybody_reads() -> None:
    """WIN-6: an engine that comes up without end fills no disk."""
    it = strikes()
    for n in range(MOST + 5):
        await it.strike(WINDOW, f"bots came up {n}")
    assert len(await it.told([WINDOW])) == MOST
