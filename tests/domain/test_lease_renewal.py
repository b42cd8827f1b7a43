from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.errors import TtlRefused
from hostler.domain.lease import Activated, Renewed, State, UndoBegun, Warned
from hostler.domain.lease_due import activated, check_ttl, due, limited, offer_until, renewal
from hostler.domain.lease_machine import decide
from hostler.domain.moment import left
from tests.domain.test_lease_due import BOOKED, ENDLESS, GRACE
from tests.fakes.leases import NOW, PAIR, active, lease


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, 0.99, 1e-9, 1e9, inf, nan, 4 * 3600.0 + 1])
def test_a_ttl_out_of_bounds_is_refused(ttl_s: float) -> None:
    """LEASE-17, R47: a first TTL under a second, or above the resource's max, is refused."""
    with pytest.raises(TtlRefused, match="pair is not given for"):
        check_ttl(PAIR, ttl_s)


def test_a_ttl_in_bounds_is_taken() -> None:
    """LEASE-1, R47: a TTL up to max is taken as it is, none is the resource's default."""
    assert (check_ttl(PAIR, None), check_ttl(PAIR, 1.0), check_ttl(PAIR, 4 * 3600.0)) == (
        3600.0,
        1.0,
        14_400.0,
    )


def test_without_an_end_only_where_allowed() -> None:
    """LEASE-18, R55: a lease without an end is a resource's to allow, and takes no TTL beside it."""
    assert check_ttl(PAIR, None, indefinite=True) is None
    with pytest.raises(TtlRefused, match="not given without an end"):
        check_ttl(replace(PAIR, indefinite=False), None, indefinite=True)
    with pytest.raises(TtlRefused, match="without an end has no time to live"):
        check_ttl(PAIR, 60.0, indefinite=True)


def test_how_long_an_offer_stands() -> None:
    """LEASE-24, LEASE-26: a booking's offer has 15 min, a detached one claim time, another place time."""
    resource = replace(PAIR, claim_s=600.0, place_s=120.0)
    assert offer_until(BOOKED, resource, NOW) == NOW.plus(900)
    assert offer_until(lease(detached_s=43_200.0), resource, NOW) == NOW.plus(600)
    assert offer_until(lease(), resource, NOW) == NOW.plus(120)
    assert offer_until(lease(), replace(resource, claim_s=60.0), NOW) == NOW.plus(60)


@pytest.mark.parametrize(
    ("ttl_s", "booking_s", "hard_s", "by"),
    [
        (3600.0, None, 14_400.0, "max"),
        (3600.0, 20_000.0, 14_400.0, "max"),
        (3600.0, 1800.0, 1800.0, "booking"),
        (None, None, None, ""),
        (None, 1800.0, 1800.0, "booking"),
    ],
)
def test_the_hard_end_of_an_activation(
    ttl_s: float | None, booking_s: float | None, hard_s: float | None, by: str
) -> None:
    """LEASE-17, LEASE-26: an activation may run to max or the next booking, an endless one to that."""
    booking = None if booking_s is None else NOW.plus(booking_s)
    hard = None if hard_s is None else NOW.plus(hard_s)
    assert activated(lease(ttl_s=ttl_s), PAIR, NOW, booking) == Activated(hard=hard, limited_by=by)


# ---------------------------------------------------------------- renewals


TTLS = st.floats(min_value=0.001, max_value=1e12) | st.just(inf)


@given(TTLS, st.floats(0, 14_000), st.none() | st.floats(0, 40_000), st.floats(1, 14_400))
def test_a_renewal_only_lengthens_and_never_past_the_hard_end(
    ttl_s: float, at_s: float, booking_s: float | None, old_s: float
) -> None:
    """LEASE-17, R44, R46, R54: expires = max(old, min(now + ttl, max, booking)), whatever is asked for."""
    it, now = active(expires=NOW.plus(old_s)), NOW.plus(at_s)
    booking = None if booking_s is None else NOW.plus(booking_s)
    made = decide(it, renewal(it, PAIR, ttl_s, now, booking), now).lease
    assert made.expires is not None
    assert made.hard is not None
    bound = min(14_400.0, inf if booking_s is None else booking_s)
    assert left(made.expires, NOW) == pytest.approx(max(old_s, min(at_s + ttl_s, bound)), abs=1e-4)
    assert left(made.hard, NOW) == pytest.approx(max(bound, old_s), abs=1e-4)
    assert left(made.expires, NOW) <= left(made.hard, NOW)
    assert (limited(made, now) != "") == (made.expires == made.hard)


def test_a_renewal_says_what_limited_it() -> None:
    """LEASE-17, R44: beyond max it is cut, and max is named; what fits is limited by nothing."""
    late = NOW.plus(14_000)
    cut = decide(active(), renewal(active(), PAIR, 3600.0, late, None), late).lease
    assert (cut.expires, limited(cut, late)) == (NOW.plus(14_400), "max")
    whole = decide(active(), renewal(active(), PAIR, 7200.0, NOW, None), NOW).lease
    assert (whole.expires, limited(whole, NOW)) == (NOW.plus(7200), "")
    assert limited(ENDLESS, NOW) == limited(lease(), NOW) == ""


def test_a_short_renewal_changes_nothing() -> None:
    """R46: a minute asked for with 50 left leaves the lease as it is."""
    at = NOW.plus(600)
    made = decide(active(), renewal(active(), PAIR, 60.0, at, None), at)
    assert (made.lease, made.events) == (active(), ())


def test_a_renewal_into_a_booking_is_cut() -> None:
    """LEASE-26, F30: a renewal that would run into a booking ends where that begins, and says so."""
    booking = NOW.plus(5400)
    made = decide(active(), renewal(active(), PAIR, 7200.0, NOW, booking), NOW).lease
    assert (made.expires, made.hard, limited(made, NOW)) == (booking, booking, "booking")


def test_a_booking_that_was_called_off_limits_no_more() -> None:
    """LEASE-17, LEASE-26: a lease that a booking cut may be renewed to max when the booking is gone."""
    cut = active(expires=NOW.plus(1800), hard=NOW.plus(1800), limited_by="booking")
    assert renewal(cut, PAIR, 1e6, NOW, None) == Renewed(
        expires=NOW.plus(14_400), hard=NOW.plus(14_400), limited_by="max"
    )


def test_a_changed_max_counts_from_the_next_grant() -> None:
    """LEASE-5, R10: a lease keeps the max that it was granted with, also when its resource is gone."""
    shorter = replace(PAIR, max_s=3600.0)
    for resource in (shorter, None):
        assert renewal(active(), resource, 1e6, NOW, None).expires == NOW.plus(14_400)
    cut = active(hard=NOW.plus(5000), limited_by="booking")
    assert renewal(cut, None, 1e6, NOW, None) == Renewed(
        expires=NOW.plus(5000), hard=NOW.plus(5000), limited_by="booking"
    )


def test_the_ttl_of_a_renewal_without_one() -> None:
    """LEASE-17, LEASE-20: without a TTL it is the lease's own, else the default, else the hard end."""
    at = NOW.plus(3000)
    assert renewal(active(ttl_s=1200.0), PAIR, None, at, None).expires == at.plus(1200)
    bounded = active(ttl_s=None, limited_by="booking")
    assert renewal(bounded, PAIR, None, at, None).expires == at.plus(3600)
    assert renewal(bounded, None, None, at, None).expires == NOW.plus(14_400)


def test_a_lease_without_an_end_stays_so() -> None:
    """LEASE-18, R56: a renewal of a lease without an end gives it none."""
    assert renewal(ENDLESS, PAIR, 60.0, NOW, NOW.plus(600)) == Renewed()


@pytest.mark.parametrize("ttl_s", [0.0, -1.0, nan])
def test_a_renewal_for_no_time_is_refused(ttl_s: float) -> None:
    """R47: a renewal for no time, or none that is a number, is refused."""
    with pytest.raises(TtlRefused, match="not renewed for"):
        renewal(active(), PAIR, ttl_s, NOW, None)


def test_beats_keep_a_lease_to_its_max() -> None:
    """LEASE-20, R52, R54: renewals by the default TTL keep it for three TTLs; at max it ends, warned."""
    it, told = active(), []
    for beat in range(49):
        assert it.state is State.ACTIVE
        now = NOW.plus(beat * 300)
        event = due(it, PAIR, now, fenced=False) or renewal(it, PAIR, PAIR.ttl_s, now, None)
        told += [event.offset] if isinstance(event, Warned) else []
        it = decide(it, event, now).lease
    assert it.cause == "its time was up (max)"
    assert told == [900.0, 300.0]


def test_a_renewal_in_the_grace_is_taken() -> None:
    """F21: a lease that is overdue while its watcher was blind is renewed, and then not due."""
    now = NOW.plus(4000)
    made = decide(active(), renewal(active(), PAIR, 3600.0, now, None), now).lease
    assert due(made, PAIR, now, fenced=False, grace_until=GRACE) is None
    assert made.expires == now.plus(3600)


def test_a_renewal_after_the_hard_end_gives_nothing() -> None:
    """F03, LEASE-17: past the hard end no renewal moves the expiry: the end is due all the same."""
    now = NOW.plus(14_401)
    it = active(expires=NOW.plus(14_400))
    made = decide(it, renewal(it, PAIR, 3600.0, now, None), now)
    assert (made.lease.expires, made.events) == (it.expires, ())
    assert isinstance(due(made.lease, PAIR, now, fenced=False), UndoBegun)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.floats(-0.001, 0.001))
def test_renewals_against_the_sweep(order: list[bool], offset: float) -> None:
    """F05: the first of renewal and sweep in the same millisecond wins, the other finds its work."""
    it, now, renewed = active(), NOW.plus(3600 + offset), False
    for sweep in order:
        if sweep and isinstance(event := due(it, PAIR, now, fenced=False), UndoBegun):
            assert not renewed
            it = decide(it, event, now).lease
        elif not sweep and it.state is State.ACTIVE:
            it = decide(it, renewal(it, PAIR, 3600.0, now, None), now).lease
            renewed = True
    assert (it.state is State.RELEASING) is not (it.state is State.ACTIVE)
    assert not (renewed and it.state is State.RELEASING)
