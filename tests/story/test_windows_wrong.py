"""What goes wrong in an open window, on the whole program."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fakes.fake_engine import eventually
from tests.story.house import House
from tests.story.lease_house import events
from tests.story.window_house import hold, modes, opened, standing


@pytest.mark.slow
async def test_what_goes_wrong_in_an_open_window_is_told_and_put_right(fake: House) -> None:
    """WIN-5, WIN-10, CAT-5: a hold that was deleted is back; an engine that died starts under the window."""
    modes(fake)
    await fake.start()
    await standing(fake)
    window = await opened(fake, "--cap", "5m")
    before = hold(fake)
    assert before is not None
    fake.hold.unlink()

    async def back() -> bool:
        return hold(fake) is not None

    await eventually(back, "the hold is written again")
    assert {**(hold(fake) or {}), "started_at": ""} == {**before, "started_at": ""}
    assert [row["subject"] for row in await events(fake, "hold_written_again")] == [
        {"host": "local", "lease": window["id"]}
    ]
    assert (await fake.run("box", "hold", "--owner", "ada")).code == 75

    os.kill(await fake.pid("giant"), signal.SIGKILL)
    await fake.is_state("giant", "stopped", "failed")
    said = await fake.told("window", "status")
    assert "WRONG: giant on local is " in said
    assert f"`hostler start giant --lease {window['id']}` there starts it again" in said
    stranger = await fake.run("start", "giant")
    assert (stranger.code, "giant is leased" in stranger.err) == (75, True)
    await fake.told("start", "giant", "--lease", str(window["id"]))
    assert "WRONG" not in await fake.told("window", "status")

    await fake.told("window", "close")
    assert hold(fake) is None
    await standing(fake)
    assert hold(fake) is None
