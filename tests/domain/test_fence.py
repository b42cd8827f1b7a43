from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.errors import InvalidRequest
from hostler.domain.fence import LONGEST_S, Fence, counted, over, put_up, under_s
from hostler.domain.lease import Activated, Renewed, Shifted, State
from hostler.domain.lease_due import renewal
from hostler.domain.lease_machine import decide
from hostler.domain.moment import Moment, left
from tests.fakes.leases import NOW, PAIR, active, lease

UP = put_up(None, NOW, for_s=1800.0, by="kim", reason="new kernel")
UNREADABLE = replace(UP, unreadable="it is no JSON")


def test_a_fence_goes_up() -> None:
    """LEASE-28: a fence says since when, until when, who and why."""
    assert Fence(since=NOW, until=NOW.plus(1800), by="kim", reason="new kernel") == UP


@pytest.mark.parametrize("for_s", [0.0, -1.0, LONGEST_S + 1, float("nan"), float("inf")])
def test_a_fence_has_bounds(for_s: float) -> None:
    """LEASE-28: a fence is up for more than no time and at most 2 h."""
    with pytest.raises(InvalidRequest, match="A fence cannot be up for") as refused:
        put_up(None, NOW, for_s=for_s, by="kim", reason="new kernel")
    assert refused.value.where == "for_s"
    assert put_up(None, NOW, for_s=LONGEST_S, by="kim", reason="new kernel").until == NOW.plus(7200)


def test_a_fence_has_a_reason() -> None:
    """LEASE-28: a fence without a reason is refused: all who wait see it."""
    with pytest.raises(InvalidRequest) as refused:
        put_up(None, NOW, for_s=60.0, by="kim", reason="")
    assert refused.value.where == "reason"


def test_a_fence_cannot_be_prolonged_for_ever() -> None:
    """LEASE-28: put up again it keeps its beginning, and all of it is at most 2 h."""
    later = NOW.plus(1000)
    again = put_up(UP, later, for_s=6200.0, by="sam", reason="more")
    assert (again.since, again.until, again.by) == (NOW, NOW.plus(7200), "sam")
    with pytest.raises(InvalidRequest):
        put_up(UP, later, for_s=6201.0, by="sam", reason="more")


def test_a_fence_in_place_of_one_that_cannot_be_read() -> None:
    """LEASE-28: a fence that cannot be read is replaced by one that can, with its beginning."""
    fence = put_up(UNREADABLE, NOW.plus(9000), for_s=60.0, by="sam", reason="more")
    assert (fence.since, fence.until, fence.unreadable) == (NOW, NOW.plus(9060), None)


def test_a_fence_comes_down_at_its_time() -> None:
    """LEASE-28: a fence is over at its time, and one that cannot be read never is."""
    assert [over(UP, NOW.plus(s)) for s in (0, 1799.9, 1800, 9000)] == [False, False, True, True]
    assert not over(UNREADABLE, NOW.plus(1e6))


def test_time_under_a_fence() -> None:
    """LEASE-28: what counts toward nothing is the time since it went up, at most to its end."""
    assert [under_s(UP, NOW.plus(s)) for s in (-5, 0, 600, 1800, 9000)] == [0, 0, 600, 1800, 1800]
    assert under_s(UNREADABLE, NOW.plus(9000)) == 9000


def test_time_under_a_fence_of_who_became_active_under_it() -> None:
    """LEASE-28: of a lease that became active under the fence only the time since then is given back."""
    assert under_s(UP, NOW.plus(1000), activated=NOW.plus(400)) == 600
    assert under_s(UP, NOW.plus(1000), activated=NOW.plus(-400)) == 1000
    assert under_s(UP, NOW.plus(9000), activated=NOW.plus(8000)) == 0


def test_across_a_restart_the_wall_clock_counts() -> None:
    """LEASE-28, LEASE-21: a fence outlives a restart of the machine, and ends by the wall clock."""
    booted = Moment(at=NOW.plus(1799).at, boot="boot-2", elapsed=3.0)
    assert not over(UP, booted)
    assert over(UP, booted.plus(1))
    assert counted(UP, booted) == booted.plus(-1799)


@given(st.floats(0, 1800), st.floats(0, 1800), st.floats(1, 3600))
def test_what_is_renewed_under_a_fence_has_its_time_after_it(
    at_s: float, down_s: float, ttl_s: float
) -> None:
    """LEASE-28: a renewal or a place of the time of a fence has its whole time left when that comes down."""
    at, down = NOW.plus(min(at_s, down_s)), NOW.plus(max(at_s, down_s))
    short = active(expires=NOW.plus(0.5))
    event = renewal(short, PAIR, ttl_s, counted(UP, at), None)
    place = Renewed(place=counted(UP, at).plus(ttl_s))
    shift = Shifted(seconds=under_s(UP, down))
    kept = decide(decide(short, event, at).lease, shift, down).lease
    waits = decide(decide(lease(), place, at).lease, shift, down).lease
    assert kept.expires is not None
    assert waits.place is not None
    assert left(kept.expires, down) == pytest.approx(ttl_s, abs=1e-4)
    assert left(waits.place, down) == pytest.approx(ttl_s, abs=1e-4)


@given(st.floats(0, 1800), st.floats(0, 1800))
def test_what_became_active_under_a_fence_has_its_time_after_it(at_s: float, down_s: float) -> None:
    """LEASE-28, LEASE-17: an activation that ended under a fence has its whole TTL after it."""
    at, down = NOW.plus(min(at_s, down_s)), NOW.plus(max(at_s, down_s))
    granted = lease(state=State.ACTIVATING)
    made = decide(granted, Activated(hard=at.plus(14_400), limited_by="max"), at).lease
    made = decide(made, Shifted(seconds=under_s(UP, down, made.activated)), down).lease
    assert made.expires is not None
    assert left(made.expires, down) == pytest.approx(3600, abs=1e-4)


def test_without_a_fence_time_counts() -> None:
    """LEASE-28: without a fence deadlines count from now."""
    assert counted(None, NOW) == NOW
    assert counted(UP, NOW.plus(600)) == NOW
