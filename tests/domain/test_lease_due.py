from dataclasses import replace
from math import isinf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.booking import CLAIM_S
from hostler.domain.errors import TtlRefused
from hostler.domain.lease import (
    CancelAsked,
    ClosingBegun,
    Dropped,
    Lease,
    Reminded,
    Renewed,
    Slot,
    State,
    UndoBegun,
    Warned,
)
from hostler.domain.lease_due import (
    REMIND_S,
    check_ttl,
    due,
    limited,
    next_due,
    renewal,
)
from hostler.domain.lease_machine import decide
from hostler.domain.moment import Moment, left
from hostler.domain.resource import Resource
from tests.fakes.leases import NOW, PAIR, active, lease

ENDLESS = active(ttl_s=None, expires=None, hard=None, limited_by="")
SLOT = Slot(start=NOW.plus(600).at, end=NOW.plus(4200).at)
BOOKED = lease(state=State.SCHEDULED, slot=SLOT)
SPANS = st.floats(min_value=0, max_value=100_000, allow_nan=False)


def jumped(moment: Moment, seconds: float) -> Moment:
    """The same moment after somebody set the wall clock."""
    return replace(moment, at=moment.plus(seconds).at)


def happened(it: Lease, until: Moment, resource: Resource | None = PAIR, step: float = 10.0) -> list[str]:
    """What comes due from now to `until`, looked at every `step` seconds, and done."""
    seen, now = [], NOW
    while left(until, now) >= 0:
        while (event := due(it, resource, now, fenced=False)) is not None:
            offset = f" {event.offset:g}" if isinstance(event, Warned) else ""
            seen.append(f"{type(event).__name__}{offset} at {now.elapsed - NOW.elapsed:g}")
            it = decide(it, event, now).lease
            assert len(seen) < 100, "it is due again and again"
        now = now.plus(step)
    return seen


# ---------------------------------------------------------------- what is due


def test_warnings_once_each_and_then_the_end() -> None:
    """LEASE-19, R48, R50: each warning comes once before the expiry, which is then a release by itself."""
    assert happened(active(), NOW.plus(9000)) == [
        "Warned 900 at 2700",
        "Warned 300 at 3300",
        "UndoBegun at 3600",
    ]


@given(st.lists(st.floats(min_value=0.5, max_value=500), min_size=1, max_size=40))
def test_one_warning_per_offset_whatever_the_steps(steps: list[float]) -> None:
    """R48: however the clock steps, each offset is told at most once, and none after the expiry."""
    it, now, told = active(), NOW.plus(2500), []
    for step in steps:
        now = now.plus(step)
        while isinstance(event := due(it, PAIR, now, fenced=False), Warned):
            told.append(event.offset)
            it = decide(it, event, now).lease
            assert left(NOW.plus(3600), now) > 0
            assert len(told) <= len(PAIR.warn)
    assert len(told) == len(set(told))


def test_a_renewal_past_a_warning_warns_again() -> None:
    """R49: warned, renewed, and warned again for the new expiry."""
    it = decide(active(), Warned(offset=900.0), NOW.plus(2700)).lease
    at = NOW.plus(2800)
    it = decide(it, renewal(it, PAIR, 3600.0, at, None), at).lease
    assert due(it, PAIR, at, fenced=False) is None
    assert due(it, PAIR, NOW.plus(2800 + 2700), fenced=False) == Warned(offset=900.0)


def test_a_short_lease_is_not_warned_at_its_start() -> None:
    """LEASE-19: an offset that is no shorter than the whole lease warns of nothing."""
    short = active(ttl_s=300.0, expires=NOW.plus(300))
    assert due(short, PAIR, NOW, fenced=False) is None
    assert happened(short, NOW.plus(400)) == ["UndoBegun at 300"]


def test_a_resource_that_went_warns_of_nothing() -> None:
    """LEASE-5: a lease whose resource left the config expires all the same."""
    assert happened(active(), NOW.plus(4000), resource=None) == ["UndoBegun at 3600"]


@pytest.mark.parametrize(
    ("it", "after_s", "why"),
    [
        (lease(place=NOW.plus(120)), 120, "its place was not renewed"),
        (lease(state=State.OFFERED, offer=NOW.plus(900), place=NOW), 900, "its offer was not taken"),
        (lease(state=State.OFFERED, slot=SLOT, offer=NOW.plus(900)), 900, "its offer was not taken"),
        (BOOKED, 600 + CLAIM_S, "its slot was not claimed"),
    ],
)
def test_what_nobody_takes_lapses(it: Lease, after_s: float, why: str) -> None:
    """LEASE-24, LEASE-26, R43, F28: a place, an offer and a slot lapse at their time, and not before."""
    at = NOW.plus(after_s)
    assert due(it, PAIR, at.plus(-0.01), fenced=False) is None
    assert due(it, PAIR, at, fenced=False) == Dropped(ending=State.LAPSED, why=why)


@pytest.mark.parametrize(
    "state", [State.ACTIVATING, State.RELEASING, State.STUCK, State.RELEASED, State.LAPSED]
)
def test_time_does_nothing_to_the_rest(state: State) -> None:
    """LEASE-14, R32: time moves no lease that is activated, put back, stuck or over, whatever passes."""
    it = active(state=state, place=NOW, offer=NOW)
    assert due(it, PAIR, NOW.plus(7 * 86_400), fenced=False) is None
    assert isinf(next_due(it, PAIR, NOW))


def test_a_place_without_a_time_stays() -> None:
    """LEASE-24: a place that has no end does not lapse."""
    assert due(lease(), PAIR, NOW.plus(86_400), fenced=False) is None


def test_an_endless_lease_is_reminded_daily() -> None:
    """LEASE-18, R56: a lease without an end never expires; in 30 days it is reminded of 30 times."""
    seen = happened(ENDLESS, NOW.plus(30 * REMIND_S), step=3600.0)
    assert seen == [f"Reminded at {day * REMIND_S:g}" for day in range(1, 31)]
    assert due(replace(ENDLESS, activated=None), PAIR, NOW, fenced=False) is None


def test_an_endless_lease_before_a_booking_has_an_end() -> None:
    """LEASE-26: a lease without an end that a booking bounds is warned and ends there."""
    it = active(ttl_s=None, expires=NOW.plus(1800), hard=NOW.plus(1800), limited_by="booking")
    assert happened(it, NOW.plus(2000)) == ["Warned 900 at 900", "Warned 300 at 1500", "UndoBegun at 1800"]


@given(st.floats(min_value=-4000, max_value=4000), st.floats(min_value=0, max_value=7200))
def test_a_wall_clock_that_jumps_ends_nothing(jump: float, passed_s: float) -> None:
    """LEASE-21, R57, F17: a step of the wall clock changes nothing of what is due, early, late or twice."""
    now = NOW.plus(passed_s)
    for it in (active(), lease(place=NOW.plus(120)), ENDLESS):
        assert due(it, PAIR, jumped(now, jump), fenced=False) == due(it, PAIR, now, fenced=False)
        assert next_due(it, PAIR, jumped(now, jump)) == next_due(it, PAIR, now)


def test_across_a_restart_the_wall_clock_counts() -> None:
    """LEASE-21: after a restart of the machine what is left is told by the wall clock."""
    soon = Moment(at=NOW.plus(3599).at, boot="boot-2", elapsed=1.0)
    assert isinstance(due(active(), PAIR, soon, fenced=False), Warned)
    assert isinstance(due(active(), PAIR, soon.plus(1), fenced=False), UndoBegun)


def test_a_booking_follows_the_wall() -> None:
    """LEASE-26, F17: a slot lapses by the wall clock, whatever time the machine ran."""
    assert due(BOOKED, PAIR, jumped(NOW, 600 + CLAIM_S), fenced=False) is not None
    assert due(BOOKED, PAIR, jumped(NOW.plus(600 + CLAIM_S), -3600), fenced=False) is None
    assert next_due(BOOKED, PAIR, jumped(NOW, 500)) == pytest.approx(100)


# ---------------------------------------------------------------- grace and fence


GRACE = NOW.elapsed + 20_000


@pytest.mark.parametrize(
    "it", [active(), lease(place=NOW.plus(120)), lease(state=State.OFFERED, offer=NOW), BOOKED]
)
def test_a_blind_watcher_gives_grace(it: Lease) -> None:
    """LEASE-21, F19: until the grace is over nothing expires or lapses; a moment later it does."""
    last = NOW.plus(GRACE - NOW.elapsed - 0.1)
    over = replace(it, hard=None, warned=(900.0, 300.0))
    assert due(over, PAIR, last, fenced=False, grace_until=GRACE) is None
    assert due(over, PAIR, last.plus(0.1), fenced=False, grace_until=GRACE) is not None


def test_a_hard_end_gets_no_grace() -> None:
    """LEASE-21, F19: the end that no renewal moves comes at its time, grace or not, and says what it is."""
    end = NOW.plus(4 * 3600.0)
    it = active(expires=end, warned=(900.0, 300.0))
    assert due(it, PAIR, end.plus(-0.1), fenced=False, grace_until=GRACE) is None
    event = due(it, PAIR, end, fenced=False, grace_until=GRACE)
    assert event == UndoBegun(ending=State.EXPIRED, why="its time was up (max)")
    unnamed = due(replace(it, limited_by=""), PAIR, end, fenced=False)
    assert unnamed == UndoBegun(ending=State.EXPIRED, why="its time was up (hard end)")


def test_warnings_and_reminders_need_no_grace() -> None:
    """LEASE-21: a watcher that was blind warns at once: only ends wait."""
    assert due(active(), PAIR, NOW.plus(3500), fenced=False, grace_until=GRACE) == Warned(offset=900.0)
    assert due(ENDLESS, PAIR, NOW.plus(REMIND_S), fenced=False, grace_until=NOW.elapsed + 1e6) == Reminded()


@pytest.mark.parametrize(
    "it", [active(), ENDLESS, BOOKED, lease(place=NOW), lease(state=State.OFFERED, offer=NOW)]
)
def test_under_a_fence_nothing_is_due(it: Lease) -> None:
    """LEASE-28: while a fence is up nothing expires, lapses, warns or reminds."""
    assert due(it, PAIR, NOW.plus(1e6), fenced=True) is None
    assert due(it, PAIR, NOW.plus(1e6), fenced=False) is not None


# ---------------------------------------------------------------- when to look again


@given(SPANS, SPANS, SPANS, st.sets(st.sampled_from([900.0, 300.0])), st.integers(0, 4), SPANS)
def test_nothing_is_due_before_the_next_look(
    expires_s: float, hard_s: float, wait_s: float, warned: set[float], which: int, grace_s: float
) -> None:
    """LEASE-19, LEASE-21: if nothing is due now, nothing is before `next_due`, and then something is."""
    it = (
        active(expires=NOW.plus(min(expires_s, hard_s)), hard=NOW.plus(hard_s), warned=tuple(sorted(warned))),
        replace(ENDLESS, reminded=NOW.plus(-wait_s)),
        lease(place=NOW.plus(expires_s)),
        lease(state=State.OFFERED, offer=NOW.plus(expires_s)),
        BOOKED,
    )[which]
    grace = NOW.elapsed + grace_s - 50_000
    wait = next_due(it, PAIR, NOW, grace_until=grace)
    if due(it, PAIR, NOW, fenced=False, grace_until=grace) is not None:
        assert wait == 0
        return
    # To the millisecond: a shorter time is lost in the sum with the elapsed seconds.
    assert due(it, PAIR, NOW.plus(max(0.0, wait - 0.001)), fenced=False, grace_until=grace) is None
    then = NOW.plus(wait + 0.001)
    if it.state is State.SCHEDULED:
        assert wait == 600
        then = then.plus(next_due(it, PAIR, then, grace_until=grace))
    assert due(it, PAIR, then, fenced=False, grace_until=grace) is not None


# ---------------------------------------------------------------- windows

WINDOW = active(mode="heavy", hard=NOW.plus(3600), limited_by="cap", soft=NOW.plus(3000))


def test_a_window_is_told_to_close_and_ends_at_its_cap() -> None:
    """WIN-2: at the soft deadline once, at the cap for good, under a fence and while nobody looked too."""
    at_soft, at_cap = NOW.plus(3000), NOW.plus(3600)
    assert due(WINDOW, None, NOW.plus(2999), fenced=False) is None
    assert due(WINDOW, None, at_soft, fenced=True) == ClosingBegun()
    assert due(replace(WINDOW, closing=True), None, at_soft, fenced=False) is None
    ends = UndoBegun(ending=State.EXPIRED, why="cap")
    assert due(WINDOW, None, at_cap, fenced=True, grace_until=at_cap.elapsed + 60) == ends


def test_a_window_that_opens_too_long_is_called_off() -> None:
    """WIN-2: at the cap an activation finishes its step and is undone, asked once."""
    opening = replace(WINDOW, state=State.ACTIVATING, expires=None, activated=None)
    assert due(opening, None, NOW.plus(3599), fenced=False) is None
    assert due(opening, None, NOW.plus(3600), fenced=False) == CancelAsked(why="cap")
    assert due(replace(opening, cancelled=True), None, NOW.plus(3600), fenced=False) is None


def test_when_to_look_at_a_window_again() -> None:
    """WIN-2: at its soft deadline, then at its cap; one that opens at its cap only."""
    assert next_due(WINDOW, None, NOW) == 3000.0
    assert next_due(replace(WINDOW, closing=True), None, NOW) == 3600.0
    opening = replace(WINDOW, state=State.ACTIVATING)
    assert next_due(opening, None, NOW) == 3600.0
    assert isinf(next_due(replace(opening, cancelled=True), None, NOW))


def test_nothing_moves_a_cap() -> None:
    """WIN-2, LEASE-17: a renewal within it gives nothing, past it it is refused."""
    assert renewal(WINDOW, PAIR, None, NOW, None) == Renewed()
    assert renewal(WINDOW, PAIR, 3600.0, NOW, None) == Renewed()
    with pytest.raises(TtlRefused, match="ends at its cap, in 60 min"):
        renewal(WINDOW, PAIR, 3601.0, NOW, None)


def test_a_time_that_is_not_given_is_told_in_words() -> None:
    """LEASE-17, INTERFACE-2: days and hours, not thousands of seconds, beside the bounds."""
    with pytest.raises(TtlRefused, match=r"is not given for 4 d 3 h\.$") as refused:
        check_ttl(replace(PAIR, max_s=172_801.0), 356_400.0)
    assert refused.value.expected == "Give a time from 1 s to 2 d 1 s."


def test_a_booked_lease_is_limited_by_its_own_slot() -> None:
    """LEASE-26, LEASE-17: before a slot ends no other booking begins: its own end is named, not another's."""
    end = NOW.plus(1800.0)
    cut = active(expires=end, hard=end, limited_by="booking")
    own = replace(cut, slot=Slot(start=NOW.at, end=end.at))
    assert (limited(cut, NOW), limited(own, NOW)) == ("booking", "slot")
    ends = [due(it, PAIR, end, fenced=False) for it in (cut, own)]
    assert ends == [
        UndoBegun(ending=State.EXPIRED, why="its time was up (a booking begins)"),
        UndoBegun(ending=State.EXPIRED, why="its time was up (its slot ends)"),
    ]
