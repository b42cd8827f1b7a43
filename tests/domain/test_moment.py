from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.moment import Moment, left, passed, shown, sooner
from tests.fakes.leases import NOW

SPANS = st.floats(-1e6, 1e6)


@given(SPANS, SPANS)
def test_what_is_left_does_not_hang_on_the_wall(ahead: float, jump: float) -> None:
    """LEASE-21: while the machine runs, what is left is its own time, wherever the wall clock is set."""
    now = replace(NOW, at=NOW.plus(jump).at)
    assert left(NOW.plus(ahead), now) == NOW.plus(ahead).elapsed - NOW.elapsed
    assert passed(NOW.plus(ahead), now) == (left(NOW.plus(ahead), now) <= 0)


def test_across_a_restart_the_wall_is_all_there_is() -> None:
    """LEASE-21: a deadline of another run of the machine is judged by the wall clock."""
    booted = Moment(at=NOW.plus(90).at, boot="boot-2", elapsed=1.0)
    assert left(NOW.plus(100), booted) == 10
    assert passed(NOW.plus(90), booted)
    assert not passed(None, booted)


def test_a_deadline_is_shown_where_it_will_be() -> None:
    """LEASE-21, TIME-1: after a jump of the wall clock a deadline is shown as the time it will be."""
    now = replace(NOW, at=NOW.plus(3600).at)
    assert shown(NOW.plus(60), now) == NOW.plus(3660).at


def test_the_sooner_of_deadlines() -> None:
    """LEASE-21: the first to pass of several is told by what is left, and of none it is none."""
    old = Moment(at=NOW.plus(50).at, boot="boot-0", elapsed=9e9)
    assert sooner(NOW, NOW.plus(60), None, old) == old
    assert sooner(NOW, None) is None
