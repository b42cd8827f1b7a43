"""What a deadman's receipt settles of a lease."""

import pytest

from hostler.domain.deadman import DeadmanReport, armed_hosts, ending, failing, settles
from hostler.domain.lease import Failing, State
from hostler.domain.step import ArmDeadman, HoldHost, StartEngine, Step, StopEngine

ARM = ArmDeadman(host="crow", window="ls_1", mode="heavy", cap_s=60.0, bring_back=("small",), end=("heavy",))
DONE = DeadmanReport(
    window="ls_1",
    host="crow",
    cause="cap",
    verified=True,
    begun_at="2026-09-04T20:00:00.000Z",
    ended_at="2026-09-04T20:01:00.000Z",
    ended=("heavy",),
    back=("small",),
    unheld=True,
)
KEPT = DeadmanReport(
    window="ls_1",
    host="raven",
    cause="daemon_died",
    verified=False,
    begun_at="2026-09-04T20:00:00.000Z",
    ended_at="2026-09-04T20:01:00.000Z",
    failing=("small does not come back: no file", "a verify command failed: check: exit status 1"),
)


def test_the_hosts_of_a_window() -> None:
    """WIN-4: a window is over on the hosts where its plan arms a deadman, each named once."""
    assert armed_hosts((ARM, ARM, HoldHost(host="raven"))) == ("crow",)
    assert armed_hosts((HoldHost(host="crow"),)) == ()


@pytest.mark.parametrize(
    ("report", "step", "expected"),
    [
        (DONE, HoldHost(host="crow"), True),
        (DONE, HoldHost(host="raven"), False),
        (KEPT, HoldHost(host="raven"), False),
        (DONE, StartEngine(host="crow", engine="heavy"), True),
        (DONE, StartEngine(host="crow", engine="other"), False),
        (DONE, StopEngine(host="crow", engine="small"), False),
        (DONE, ARM, False),
    ],
)
def test_what_a_restore_settles(report: DeadmanReport, step: Step, *, expected: bool) -> None:
    """WIN-7: what is gone for good is settled; what the daemon must see or take away itself is not."""
    assert settles(report, step) is expected


def test_how_a_window_ends_by_its_deadman() -> None:
    """WIN-1: at its cap it has expired; put back after a death it is released."""
    assert ending((KEPT, DONE)) is State.EXPIRED
    assert ending((KEPT,)) is State.RELEASED


def test_why_it_is_stuck() -> None:
    """WIN-4, LEASE-14: the first host that was not seen to be back is named, with all that is seen there."""
    assert failing((DONE,)) is None
    assert failing((DONE, KEPT)) == Failing(
        n=0,
        step="restore raven by the deadman",
        wanted="every engine serving as itself",
        seen="; ".join(KEPT.failing),
    )
