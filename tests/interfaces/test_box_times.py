import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from hostler.domain.errors import InvalidRequest
from hostler.interfaces.cli.box_times import clock, parse_until, when

NOW = datetime(2026, 9, 4, 19, 0, tzinfo=UTC)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Puts the terminal into a time zone, and back."""

    def put(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-09-04T21:15:11Z", datetime(2026, 9, 4, 21, 15, 11, tzinfo=UTC)),
        ("21:15", datetime(2026, 9, 4, 19, 15, tzinfo=UTC)),
        ("9:05:30", datetime(2026, 9, 5, 7, 5, 30, tzinfo=UTC)),
        ("21:00", datetime(2026, 9, 5, 19, 0, tzinfo=UTC)),
        (" 2026-12-24 18:00 ", datetime(2026, 12, 24, 17, 0, tzinfo=UTC)),
        ("2026-12-24T18:00:01", datetime(2026, 12, 24, 17, 0, 1, tzinfo=UTC)),
    ],
)
def test_until_is_local_without_a_zone(zone: Callable[[str], None], text: str, instant: datetime) -> None:
    """TIME-1: a time without a zone is the terminal's, of the next such time of day without a date."""
    zone("Europe/Berlin")
    assert parse_until(text, NOW) == instant


@pytest.mark.parametrize("text", ["", "noon", "24:01", "12:60", "2026-02-30 10:00", "2026-09-04", "10"])
def test_other_texts_are_no_time(zone: Callable[[str], None], text: str) -> None:
    """HOLD-8: what is no time of day and no date that exists names no end."""
    zone("Europe/Berlin")
    assert parse_until(text, NOW) is None


@pytest.mark.parametrize(
    ("text", "both"),
    [
        ("2026-10-25 02:30", ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z")),
        ("2027-03-28 02:30", ("2027-03-28T00:30:00Z", "2027-03-28T01:30:00Z")),
    ],
)
def test_a_time_that_the_clocks_skip_or_repeat_is_refused(
    zone: Callable[[str], None], text: str, both: tuple[str, str]
) -> None:
    """TIME-1: where the clocks change a local time is refused, naming both readings."""
    zone("Europe/Berlin")
    with pytest.raises(InvalidRequest) as refused:
        parse_until(text, NOW)
    assert all(reading in str(refused.value) for reading in both)


def test_a_hold_across_the_change_of_the_clocks_has_its_true_length(zone: Callable[[str], None]) -> None:
    """HOLD-3: from 1:00 to 4:00 on the night when an hour comes twice are four hours."""
    zone("Europe/Berlin")
    start, end = parse_until("2026-10-25 01:00", NOW), parse_until("2026-10-25 04:00", NOW)
    assert start is not None
    assert end is not None
    assert end - start == timedelta(hours=4)


def test_times_are_local_with_how_long(zone: Callable[[str], None]) -> None:
    """INTERFACE-2: people see how long until and their local time, with the date when it is not today."""
    zone("Europe/Berlin")
    assert when(NOW + timedelta(minutes=15), NOW) == "in 15 min (21:15)"
    assert when(NOW - timedelta(minutes=30), NOW) == "30 min ago (20:30)"
    assert when(NOW + timedelta(hours=8), NOW) == "in 8 h (2026-09-05 05:00)"


@pytest.mark.parametrize("name", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_the_ends_of_the_calendar_have_a_form(zone: Callable[[str], None], name: str) -> None:
    """TIME-1: a moment without a local form is shown in UTC, never an error."""
    zone(name)
    assert clock(datetime.max.replace(tzinfo=UTC), NOW).startswith("9999-12-31 ")
    assert clock(datetime.min.replace(tzinfo=UTC), NOW).startswith("0001-01-01 ")
