"""When the deadman acts: its decision as a table, and as what holds of every order of looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.deadman.when import Act, Phase, Seen, Times, decide, died_at, may_take_over

TIMES = Times(cap_s=1000.0, grace_s=60.0)


@pytest.mark.parametrize(
    ("phase", "died", "now", "expected"),
    [
        (Phase.OPEN, None, 999.9, Act.WAIT),
        (Phase.OPEN, None, 1000.0, Act.CAP),
        (Phase.UNKNOWN, None, 999.9, Act.WAIT),
        (Phase.UNKNOWN, None, 1000.0, Act.CAP),
        (Phase.OPENING, 100.0, 159.9, Act.WAIT),
        (Phase.OPENING, 100.0, 160.0, Act.DIED),
        (Phase.CLOSING, 100.0, 160.0, Act.DIED),
        (Phase.OPEN, 100.0, 160.0, Act.DIED),
        (Phase.CLOSING, 990.0, 1000.0, Act.CAP),
        (Phase.OVER, 100.0, 5000.0, Act.LEAVE),
    ],
)
def test_what_it_does(phase: Phase, died: float | None, now: float, expected: Act) -> None:
    """WIN-1: at the cap it acts; before it only 60 s after a death midway; never once all is put back."""
    assert decide(TIMES, Seen(phase=phase, lives=True), died, now) is expected


@pytest.mark.parametrize(
    ("phase", "lives", "expected"),
    [
        (Phase.OPENING, False, 5.0),
        (Phase.CLOSING, False, 5.0),
        (Phase.OPENING, True, None),
        (Phase.OPEN, False, None),
        (Phase.UNKNOWN, False, None),
        (Phase.OVER, False, None),
    ],
)
def test_which_death_counts(phase: Phase, lives: bool, expected: float | None) -> None:
    """WIN-1: only a daemon that is gone in the middle of opening or closing died midway."""
    assert died_at(None, Seen(phase=phase, lives=lives), 5.0) == expected


def test_a_death_stays_one() -> None:
    """WIN-1: whether the daemon is back or not, the second at which it was seen dead stays."""
    assert died_at(5.0, Seen(phase=Phase.OPENING, lives=True), 9.0) == 5.0


@pytest.mark.parametrize(
    ("act", "beat", "now", "expected"),
    [
        (Act.CAP, 500.0, 1059.9, False),
        (Act.CAP, 500.0, 1060.0, True),
        (Act.CAP, 1055.0, 1060.0, False),
        (Act.CAP, 1055.0, 1115.0, True),
        (Act.CAP, None, 1060.0, True),
        (Act.DIED, None, 5000.0, False),
        (Act.WAIT, None, 5000.0, False),
    ],
)
def test_when_a_restore_of_the_daemons_hangs(
    act: Act, beat: float | None, now: float, expected: bool
) -> None:
    """WIN-1, WIN-7: from the cap on, a daemon without a sign of life for 60 s is waited on no more."""
    assert may_take_over(TIMES, Seen(phase=Phase.CLOSING, lives=True, beat_s=beat), act, now) is expected


looks = st.lists(
    st.tuples(
        st.floats(0.0, 400.0), st.sampled_from([it for it in Phase if it is not Phase.OVER]), st.booleans()
    ),
    max_size=30,
)


@given(looks)
def test_it_never_acts_early_and_never_misses_its_cap(each: list[tuple[float, Phase, bool]]) -> None:
    """WIN-1: whatever is seen, it acts at the first look at or after its cap, and before it only 60 s after
    a look that saw a daemon dead midway.
    """
    died: float | None = None
    deaths: list[float] = []
    now = 0.0
    for passed, phase, lives in each:
        now += passed
        seen = Seen(phase=phase, lives=lives)
        died = died_at(died, seen, now)
        if phase.midway and not lives:
            deaths.append(now)
        act = decide(TIMES, seen, died, now)
        mourned = bool(deaths) and now >= deaths[0] + TIMES.grace_s
        assert act.restores is (now >= TIMES.cap_s or mourned)
        if act.restores:
            return
