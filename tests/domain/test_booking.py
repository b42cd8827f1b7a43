from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.booking import (
    AHEAD_S,
    FOREVER,
    clash,
    free_parts,
    limit,
    parse_start,
    parts_text,
    slot_of,
    taken,
)
from hostler.domain.errors import InvalidRequest
from hostler.domain.lease import Lease, Slot, State
from hostler.domain.lease_due import limited, renewal
from hostler.domain.lease_machine import decide
from hostler.domain.moment import Moment, left
from tests.fakes.leases import NOW, PAIR, active, lease

BERLIN = ZoneInfo("Europe/Berlin")


def slot(start_s: float, end_s: float) -> Slot:
    """From and to seconds after now."""
    return Slot(start=NOW.plus(start_s).at, end=NOW.plus(end_s).at)


SLOTS = st.tuples(st.integers(-50, 50), st.integers(1, 30)).map(lambda it: slot(it[0], it[0] + it[1]))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-12-01T20:00Z", datetime(2026, 12, 1, 20, tzinfo=UTC)),
        ("2026-12-01T20:00:30.5z", datetime(2026, 12, 1, 20, 0, 30, 500_000, tzinfo=UTC)),
        ("2026-12-01T20:00+05:30", datetime(2026, 12, 1, 14, 30, tzinfo=UTC)),
        ("2026-12-01T20:00", datetime(2026, 12, 1, 19, tzinfo=UTC)),
        (" 2026-07-01 20:00:05 ", datetime(2026, 7, 1, 18, 0, 5, tzinfo=UTC)),
    ],
)
def test_a_start_with_and_without_a_zone(text: str, instant: datetime) -> None:
    """LEASE-26, TIME-1: a start with a zone is that instant; without one it is read in the fleet's zone."""
    assert parse_start(text, BERLIN) == instant


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("2026-10-25T02:30", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        ("2026-03-29 02:30", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"),
    ],
)
def test_a_time_that_the_clocks_skip_or_repeat(text: str, one: str, other: str) -> None:
    """TIME-1, F30: a local time that the clocks repeat or skip is refused, with both readings."""
    with pytest.raises(InvalidRequest) as refused:
        parse_start(text, BERLIN)
    assert f"it is {one} or {other}" in str(refused.value)
    assert parse_start(one, BERLIN) < parse_start(other, BERLIN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20:00",
        "tomorrow",
        "2026-13-01T20:00",
        "2026-13-01T20:00Z",
        "2026-12-01T25:00",
        "0001-01-01T00:00",
        "²026-12-01T20:00Z",
    ],
)
def test_what_is_no_start(text: str) -> None:
    """LEASE-26: a text that is no date and time is refused, with the forms that are."""
    with pytest.raises(InvalidRequest, match="is no start of a booking") as refused:
        parse_start(text, BERLIN)
    assert refused.value.where == "start"
    assert "2026-12-01T20:00Z" in refused.value.advice()


def test_a_slot_has_its_length_across_a_change_of_the_clocks() -> None:
    """F30, TIME-1: three hours on a night when the clocks change are three, from the local time on."""
    start = parse_start("2026-10-25T01:00", BERLIN)
    booked = slot_of(start, 3 * 3600.0, NOW)
    assert booked.end.astimezone(BERLIN).strftime("%H:%M") == "03:00"
    assert booked.end - booked.start == timedelta(hours=3)


@pytest.mark.parametrize("start_s", [-0.001, AHEAD_S + 1])
def test_a_slot_begins_within_a_year(start_s: float) -> None:
    """LEASE-26: a booking begins neither in the past nor more than a year ahead."""
    with pytest.raises(InvalidRequest, match="cannot begin at"):
        slot_of(NOW.plus(start_s).at, 60.0, NOW)
    assert slot_of(NOW.at, 60.0, NOW) == slot(0, 60)


@given(SLOTS, SLOTS)
def test_slots_clash_when_they_share_an_instant(one: Slot, other: Slot) -> None:
    """LEASE-26: two slots clash when one second is in both; one that ends when the other starts is none."""
    second = timedelta(seconds=1)
    mine = {one.start + n * second for n in range(int((one.end - one.start) / second))}
    theirs = {other.start + n * second for n in range(int((other.end - other.start) / second))}
    assert (clash(one, [other]) is not None) == bool(mine & theirs)


def test_the_first_clash_is_named() -> None:
    """LEASE-26: of several that overlap the earliest is named, of none nothing."""
    assert clash(slot(0, 60), [slot(50, 70), slot(30, 40), slot(60, 90)]) == slot(30, 40)
    assert clash(slot(0, 60), []) is None
    assert clash(slot(0, 60), [slot(60, 90), slot(-30, 0)]) is None


@given(SLOTS, st.lists(SLOTS, max_size=5))
def test_the_free_parts_are_what_is_left(wanted: Slot, others: list[Slot]) -> None:
    """LEASE-26: every second of a slot is either in one free part or in one of the others, never in both."""
    parts = free_parts(wanted, others)
    at = wanted.start
    while at < wanted.end:
        free = sum(part.start <= at < part.end for part in parts)
        busy = any(other.start <= at < other.end for other in others)
        assert free == (0 if busy else 1)
        at += timedelta(seconds=1)
    assert all(wanted.start <= part.start < part.end <= wanted.end for part in parts)


def test_free_parts_in_words() -> None:
    """LEASE-26: the refusal of a slot says which parts are free, or that nothing is."""
    parts = free_parts(slot(0, 120), [slot(60, 90)])
    assert parts_text(parts) == (
        "2026-09-04T20:00:00.000Z to 2026-09-04T20:01:00.000Z, "
        "2026-09-04T20:01:30.000Z to 2026-09-04T20:02:00.000Z"
    )
    assert parts_text(()) == "nothing"


@pytest.mark.parametrize(
    ("it", "known"),
    [
        (lease(), None),
        (lease(state=State.SCHEDULED, slot=slot(60, 120)), slot(60, 120)),
        (lease(state=State.OFFERED, slot=slot(60, 120)), slot(60, 120)),
        (lease(state=State.OFFERED), None),
        (lease(state=State.ACTIVATING), slot(0, 3600)),
        (lease(state=State.ACTIVATING, ttl_s=None), Slot(start=NOW.at, end=FOREVER)),
        (active(slot=slot(-60, 20)), slot(0, 3600)),
        (active(expires=NOW.plus(-5)), slot(0, 0)),
        (active(expires=None), Slot(start=NOW.at, end=FOREVER)),
        (active(state=State.RELEASING), None),
        (active(state=State.STUCK), None),
    ],
)
def test_how_long_a_lease_needs_its_resource(it: Lease, known: Slot | None) -> None:
    """LEASE-26: a booking meets other bookings, and leases until they expire, or for ever without an end."""
    assert taken(it, NOW) == known


def test_how_far_a_grant_may_run() -> None:
    """LEASE-26: the next booking that is not over bounds a grant; one that has begun bounds it now."""
    assert limit(NOW, []) is None
    assert limit(NOW, [slot(-90, 0)]) is None
    assert limit(NOW, [slot(900, 1000), slot(600, 700)]) == NOW.plus(600)
    assert limit(NOW, [slot(-5, 60)]) == NOW


def test_a_renewal_before_a_booking_on_the_night_of_the_clocks() -> None:
    """F30: renewed at 19:30 for two hours before a booking at 20:00 of the fleet's zone, it ends at 20:00."""
    start = parse_start("2026-10-25T20:00", BERLIN)
    at = datetime(2026, 10, 25, 19, 30, tzinfo=BERLIN).astimezone(UTC)
    now = Moment(at=at, boot="boot-1", elapsed=5000.0)
    it = active(activated=now.plus(-1800), expires=now.plus(600), hard=now.plus(12_600))
    bound = limit(now, [Slot(start=start, end=start + timedelta(hours=1))])
    made = decide(it, renewal(it, PAIR, 7200.0, now, bound), now).lease
    assert made.expires is not None
    assert (made.expires.at, left(made.expires, now)) == (start, 1800)
    assert limited(made, now) == "booking"
