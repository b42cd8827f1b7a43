"""`hostler window status` and `hostler mode`: what a person sees of windows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.adapters.deadmen import SystemDeadmen
from hostler.domain.errors import ScheduleUnavailable
from hostler.interfaces.api.app import create_app
from hostler.interfaces.cli.windows import lines
from hostler.services.deadman_needs import Orders
from hostler.wire.schedule import StepView, StuckView
from tests.fakes.schedule import AT
from tests.fakes.windows import PART, WINDOW, FakeWindows
from tests.interfaces.room import Room, room
from tests.interfaces.terminal import Shell, served

UNLISTED = "the schedule does not tell of this window, which this host knows:"


@pytest.fixture
async def it() -> AsyncIterator[Room]:
    """A daemon's services."""
    async with room() as found:
        yield found


@pytest.fixture
async def user(it: Room, tmp_path: Path) -> AsyncIterator[Shell]:
    """A shell of a user of that daemon."""
    async with served(create_app(it.control), tmp_path) as found:
        yield found


def known(state: Path, window: str) -> SystemDeadmen:
    """A window that this host was told of: its deadman is written down, and no process."""
    found = SystemDeadmen(root=state, host="crow", hold_path=state / "h.json", environment={})
    found.write(Orders(window=window, mode="dsv4", host="crow", cap_s=3600.0, end=(), start=()))
    return found


async def test_a_window_that_the_schedule_forgot_is_shown_as_this_host_knows_it(
    user: Shell, tmp_path: Path
) -> None:
    """WIN-1, WIN-10: beside the windows of the schedule, with its deadman; one that is over is not."""
    deadmen = known(tmp_path, "ls_lost")
    known(tmp_path, WINDOW.id)
    shown = await user.inside("window", "status")
    said = shown.out.splitlines()
    assert said[0].startswith("heavy by bench")
    at = said.index(UNLISTED)
    assert said[at + 1].startswith("  ls_lost  dsv4  opening  NO DEADMAN LIVES")
    assert len(said) == at + 2
    told = json.loads((await user.inside("window", "status", "--json")).out)
    assert [it["window"] for it in told["unlisted"]] == ["ls_lost"]
    assert "unlisted" not in json.loads((await user.inside("window", "status", WINDOW.id, "--json")).out)
    assert UNLISTED not in (await user.inside("window", "status", WINDOW.id)).out
    deadmen.note("ls_lost", "over")
    assert UNLISTED not in (await user.inside("window", "status")).out


async def test_what_this_host_knows_is_shown_though_the_schedule_cannot_be_read(
    it: Room, user: Shell, tmp_path: Path
) -> None:
    """WIN-10, R85: with the store gone the answer is the refusal, and the window beside it."""
    known(tmp_path, "ls_lost")
    windows = it.control.windows
    assert isinstance(windows, FakeWindows)
    windows.refuses = ScheduleUnavailable(file="hostler.db", why="the file is gone")
    for words in (("window", "status"), ("window", "status", "dsv4")):
        shown = await user.inside(*words)
        assert shown.code == 69
        assert (
            shown.out.splitlines()[0] == "this host knows this window, and its head does not tell of it here:"
        )
        assert "the file is gone" in shown.err
    assert (await user.inside("window", "status", "other")).out == ""
    assert (await user.inside("window", "status", "--json")).out == ""


def test_what_is_wrong_in_a_window_has_its_line() -> None:
    """WIN-5, WIN-10: above the steps, one line each, escaped."""
    part = replace(PART, wrong=("glm on crow is failed: `hostler start glm --lease ls_1`\x1b[31m",))
    said = list(lines(replace(WINDOW, window=part), AT))
    assert "  WRONG: glm on crow is failed: `hostler start glm --lease ls_1`\\x1b[31m" in said


def test_a_stuck_window_tells_what_failed_and_not_every_step() -> None:
    """WIN-10, LEASE-14: in place of the plan, with the command that goes on."""
    steps = tuple(
        StepView(n=n, host="crow", text=f"suspend e{n}", state="undone" if n > 1 else "done")
        for n in range(1, 9)
    )
    seen = StuckView(n=0, step="restore crow by its deadman", wanted="every engine", seen="e1 is down")
    said = list(lines(replace(WINDOW, state="stuck", stuck=seen, steps=steps), AT))
    assert said[0] == f"heavy by bench: stuck (lease {WINDOW.id})"
    assert said[-5:] == [
        "  failed restore crow by its deadman",
        "  wanted every engine",
        "  seen   e1 is down",
        "  back   7 of 8 steps are put back; not yet: suspend e1",
        f"  next   hostler window close {WINDOW.id}",
    ]
    assert not any("suspend e8" in line for line in said)
