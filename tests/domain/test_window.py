from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from hostler.domain.errors import InvalidRequest, NotFound, ServingClassRefused, TtlRefused
from hostler.domain.mode import QuietHours
from hostler.domain.values import ServingClass
from hostler.domain.window import STRANGER, Answer, Wish, answer, quiet, terms, unusual
from tests.fakes.modes import HEAVY, mode, moded

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 9, 4, 20, 5, tzinfo=UTC)
NIGHT = QuietHours(start=2 * 60 + 15, end=4 * 60 + 15)
FLEET = moded(HEAVY, mode("plain"))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}+00:00")


def test_the_terms_are_the_modes_where_nothing_else_is_said() -> None:
    """WIN-2: its default cap, and its drain before that."""
    found = terms(FLEET, Wish(mode="heavy", override="windowed"), NOW, BERLIN)
    assert (found.mode, found.cap_s, found.drain_before_s) == ("heavy", 3600.0, 600.0)


@pytest.mark.parametrize("cap_s", [300.0, 600.0])
def test_a_window_that_would_serve_nobody_is_refused(cap_s: float) -> None:
    """WIN-2, WIN-8: whose cap is no longer than its drain takes no request from its first second on."""
    with pytest.raises(TtlRefused, match="would serve nobody") as told:
        terms(FLEET, Wish(mode="heavy", override="windowed", cap_s=cap_s), NOW, BERLIN)
    assert "from 10 min before its cap on" in told.value.advice()
    assert terms(FLEET, Wish(mode="heavy", override="windowed", cap_s=601.0), NOW, BERLIN).cap_s == 601.0


def test_an_unknown_mode_is_told_with_the_nearest() -> None:
    """MODE-1: and the standing one is none that a window enters."""
    with pytest.raises(NotFound, match="heavi"):
        terms(FLEET, Wish(mode="heavi"), NOW, BERLIN)
    with pytest.raises(InvalidRequest, match="standing"):
        terms(FLEET, Wish(mode="standard"), NOW, BERLIN)


@pytest.mark.parametrize("override", [None, "resident", "wedge-risk", "windowed "])
def test_only_the_very_class_of_the_mode_unlocks_it(override: str | None) -> None:
    """CAT-5: neither a safer nor a more dangerous name does."""
    with pytest.raises(ServingClassRefused) as refused:
        terms(FLEET, Wish(mode="heavy", override=override), NOW, BERLIN)
    assert refused.value.serving_class == "windowed"


def test_a_resident_mode_needs_no_class_and_takes_no_other() -> None:
    """CAT-5: its own may be named all the same."""
    assert terms(FLEET, Wish(mode="plain"), NOW, BERLIN).mode == "plain"
    assert terms(FLEET, Wish(mode="plain", override="resident"), NOW, BERLIN).mode == "plain"
    with pytest.raises(InvalidRequest, match="not windowed"):
        terms(FLEET, Wish(mode="plain", override="windowed"), NOW, BERLIN)


@pytest.mark.parametrize("cap_s", [0.0, -1.0, 10 * 3600.0 + 1])
def test_a_cap_outside_the_modes_is_refused(cap_s: float) -> None:
    """WIN-2: force does not help."""
    with pytest.raises(TtlRefused):
        terms(FLEET, Wish(mode="heavy", override="windowed", cap_s=cap_s, force=True), NOW, BERLIN)


def test_a_cap_that_just_misses_a_bound_is_told_exactly() -> None:
    """WIN-2, INTERFACE-2: a second over the bound is not rounded away."""
    with pytest.raises(TtlRefused, match="is not opened for 10 h 1 s") as told:
        terms(FLEET, Wish(mode="heavy", override="windowed", cap_s=36_001.0), NOW, BERLIN)
    assert told.value.advice().endswith(" to 10 h.")


def test_more_than_eight_hours_are_forced() -> None:
    """WIN-2, HOLD-8: a forgotten window ends before a work morning."""
    eight = Wish(mode="heavy", override="windowed", cap_s=8 * 3600.0)
    longer = Wish(mode="heavy", override="windowed", cap_s=8 * 3600.0 + 1)
    assert terms(FLEET, eight, NOW, BERLIN).cap_s == 8 * 3600.0
    with pytest.raises(InvalidRequest, match="--force"):
        terms(FLEET, longer, NOW, BERLIN)


@pytest.mark.parametrize(
    ("start", "end", "meets"),
    [
        ("2026-09-04T20:00", "2026-09-05T00:15", False),
        ("2026-09-04T20:00", "2026-09-05T00:15:01", True),
        ("2026-09-05T01:00", "2026-09-05T01:30", True),
        ("2026-09-05T02:15", "2026-09-05T03:00", False),
        ("2026-09-05T02:14:59", "2026-09-05T03:00", True),
    ],
)
def test_quiet_hours_meet_a_window_that_touches_them(start: str, end: str, *, meets: bool) -> None:
    """WIN-8: 02:15 to 04:15 in Berlin is 00:15 to 02:15 in UTC in summer; the ends themselves are free."""
    assert (quiet([NIGHT], BERLIN, utc(start), utc(end)) is not None) is meets


def test_quiet_hours_run_past_midnight() -> None:
    """WIN-8: 22:00-04:00 begins in the evening before."""
    found = quiet(
        [QuietHours(start=22 * 60, end=4 * 60)], BERLIN, utc("2026-09-05T01:00"), utc("2026-09-05T01:30")
    )
    assert found is not None
    assert (found[1], found[2]) == (utc("2026-09-04T20:00"), utc("2026-09-05T02:00"))


def test_where_the_clocks_change_quiet_hours_are_the_longer_ones() -> None:
    """TIME-1: from the earlier reading of their start to the later of their end, in autumn and in spring."""
    autumn = quiet([NIGHT], BERLIN, utc("2026-10-25T00:00"), utc("2026-10-25T06:00"))
    spring = quiet([NIGHT], BERLIN, utc("2027-03-28T00:00"), utc("2027-03-28T06:00"))
    assert autumn is not None
    assert (autumn[1], autumn[2]) == (utc("2026-10-25T00:15"), utc("2026-10-25T03:15"))
    assert spring is not None
    assert (spring[1], spring[2]) == (utc("2027-03-28T00:15"), utc("2027-03-28T02:15"))


def test_there_is_no_third_strike() -> None:
    """WIN-6: stopped once, then the window ends, however often it is asked."""
    assert [answer(it) for it in range(4)] == [Answer.STOP, Answer.ABORT, Answer.ABORT, Answer.ABORT]


def test_memory_outside_the_usual_range_is_told() -> None:
    """WIN-4: a half and 2 GiB more or less than before are usual; what was never measured has no range."""
    gib = 1 << 30
    before = {"host": 40 * gib}
    assert unusual(before, {"host": 60 * gib + STRANGER}) is None
    assert unusual(before, {"host": 20 * gib - STRANGER}) is None
    told = unusual(before, {"host": 63 * gib})
    assert told == "it took 63.0 GiB of host, and 40.0 before"
    assert unusual(before, {"gpu0": gib}) is not None
    assert unusual({}, {"host": 63 * gib}) is None


def test_a_wish_is_checked_by_its_class_first() -> None:
    """GATE-1: what never passes is told before what passes later."""
    wish = Wish(mode="heavy", cap_s=timedelta(days=2).total_seconds())
    with pytest.raises(ServingClassRefused):
        terms(FLEET, wish, NOW, BERLIN)
    assert FLEET.modes["heavy"].serving_class is ServingClass.WINDOWED


def test_a_window_into_quiet_hours_is_opened_by_force_only() -> None:
    """WIN-8: the error says which hours, from when to when."""
    late = moded(mode("late", not_between=(NIGHT,)))
    wish = Wish(mode="late", cap_s=6 * 3600.0)
    with pytest.raises(InvalidRequest, match="02:15-04:15: from 2026-09-05"):
        terms(late, wish, NOW, BERLIN)
    assert terms(late, Wish(mode="late", cap_s=6 * 3600.0, force=True), NOW, BERLIN).cap_s == 6 * 3600.0
