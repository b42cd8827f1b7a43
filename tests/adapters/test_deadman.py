"""The deadman as the process that it is: real engines, a daemon that is killed or stopped, real files."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler.adapters.host import process_table
from tests.fakes.window import WINDOW, Window, window


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Window]:
    """A window with the fake engine."""
    async with window(tmp_path) as found:
        yield found


async def test_at_the_cap_it_restores(it: Window) -> None:
    """WIN-1, WIN-4: at the cap the mode's engine ends, the standing one serves, then the hold goes."""
    heavy = await it.run(it.heavy)
    it.write_hold(WINDOW)
    await it.arm(it.orders(cap_s=0.5))
    report = await it.restored()
    assert report["verified"] is True, it.words_of_it()
    assert report["cause"] == "cap"
    assert not process_table.alive(heavy.pid, heavy.start_ticks)
    assert await it.up(it.small) is not None
    assert not it.hold.exists()
    assert it.did() == [
        "begun",
        "ended heavy",
        "started small",
        "verified small",
        "unheld",
        "over",
    ]
