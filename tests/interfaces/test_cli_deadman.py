"""`hostler deadman status`: what a person sees of a window's deadman, without a daemon."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.domain.deadman import DeadmanReport
from hostler.interfaces.cli.deadman import lines
from hostler.services.deadman_needs import DeadmanState
from tests.interfaces.terminal import shell

ARMED = DeadmanState(
    window="ls_1",
    mode="heavy",
    alive=True,
    pid=4711,
    phase="open",
    left_s=4980.0,
    ours=False,
    daemon_lives=True,
    restoring=False,
    this_boot=True,
)
DONE = DeadmanReport(
    window="ls_1",
    host="crow",
    cause="cap",
    verified=True,
    begun_at="2026-09-04T20:00:00.000Z",
    ended_at="2026-09-04T20:01:00.000Z",
)
BAD = replace(DONE, verified=False, failing=("small does not come back: \x1b[31mno file",))


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (ARMED, "deadman alive (pid 4711), restores in 83 min at the latest"),
        (replace(ARMED, left_s=-1.0), "deadman alive (pid 4711), restores now at the latest"),
        (replace(ARMED, restoring=True), "deadman restores now (pid 4711)"),
        (replace(ARMED, alive=False, pid=None), "NO DEADMAN LIVES"),
        (replace(ARMED, this_boot=False), "armed before the machine's last start"),
        (replace(ARMED, phase="over", alive=False), "disarmed"),
        (replace(ARMED, report=DONE), "restored by its deadman at 2026-09-04"),
        (replace(ARMED, report=BAD), "NOT ALL RESTORED by its deadman at 2026-09-04"),
        (replace(ARMED, mode=""), "unknown mode"),
    ],
)
def test_what_a_person_sees(state: DeadmanState, said: str) -> None:
    """WIN-1: the line of a window says whether its deadman lives, until when it waits, and what it did."""
    assert said in lines(state)[0]


def test_what_was_not_restored_is_listed() -> None:
    """WIN-4, BG-22: each thing that is not back has its line, control characters shown."""
    assert lines(replace(ARMED, report=BAD))[1:] == ["  small does not come back: \\x1b[31mno file"]


async def test_without_a_window(tmp_path: Path) -> None:
    """INTERFACE-3: on a host that knows no window it says so and succeeds, without a daemon."""
    ended = await shell(tmp_path).run("deadman", "status")
    assert (ended.code, ended.out, ended.err) == (0, "No window is known on this host.\n", "")
    assert json.loads((await shell(tmp_path).inside("deadman", "status", "--json")).out) == {"windows": []}
