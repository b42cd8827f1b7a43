from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.values import (
    LARGEST,
    LONGEST_S,
    NAME,
    Cause,
    Requester,
    ServingClass,
    escape_controls,
    exact_duration,
    format_duration,
    format_size,
    gib,
    parse_duration,
    parse_size,
    requester,
    rfc3339,
    shorten,
    sizes,
    whole,
    with_key,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90.0),
        ("15m", 900.0),
        ("2h30m", 9000.0),
        ("7d", 604_800.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        (" 5s ", 5.0),
        ("0", 0.0),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    """CONF-1: a duration is a number and its unit, or several of them."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "  ", "90", "1 h", "-5s", "5x", "s", "1h30", "1,5h", "inf"])
def test_what_is_no_duration(text: str) -> None:
    """CONF-1: anything else is no duration, and the error shows how one is written."""
    with pytest.raises(ValueError, match="no duration such as 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["36526d", "10000000d", "9" * 400 + "s", "36525d1s"])
def test_a_duration_ends_somewhere(text: str) -> None:
    """CONF-1, INTERFACE-2: what no clock or calendar could add is no duration; a hundred years are one."""
    assert parse_duration("36525d") == LONGEST_S
    with pytest.raises(ValueError, match="longer than 36525d"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["9" * 400 + " GiB", "1048577 TiB"])
def test_a_size_ends_somewhere(text: str) -> None:
    """CONF-1, INTERFACE-2: a size beyond an EiB is none, however many digits it has."""
    assert parse_size("1048576 TiB") == LARGEST
    with pytest.raises(ValueError, match="is more than 1048576 TiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (7500, "2 h 5 min"),
        (172_799, "47 h 59 min"),
        (172_800, "2 d"),
        (180_000, "2 d 2 h"),
    ],
)
def test_a_duration_is_told(seconds: float, text: str) -> None:
    """TIME-1: people read how long something is in words, never as a negative time."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [("512 MiB", 512 << 20), ("43 GiB", 43 << 30), ("157 GB", 157 * 10**9), ("1.5GiB", 3 << 29), ("7 B", 7)],
)
def test_a_size_is_read(text: str, size: int) -> None:
    """CONF-1: MiB and GiB are binary, MB and GB decimal."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "43", "43 G", "-1 GiB", "1e3 MiB", "GiB", "43 GiB free"])
def test_what_is_no_size(text: str) -> None:
    """CONF-1: a bare number and anything else is no size."""
    with pytest.raises(ValueError, match="no size such as"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (12 << 10, "12.0 KiB"),
        (474 << 20, "474 MiB"),
        (1288490189, "1.2 GiB"),
        (3 << 40, "3.0 TiB"),
        (-(3 << 30), "-3.0 GiB"),
    ],
)
def test_a_size_is_told(size: int, text: str) -> None:
    """MEM-5: a size is told in the unit that fits it."""
    assert format_size(size) == text


def test_gib() -> None:
    """MEM-2: the sums of a refusal are in GiB with one decimal."""
    assert gib(round(92.6 * (1 << 30))) == "92.6"


def test_a_time_on_the_wire() -> None:
    """TIME-1: a time of any zone and year is written in UTC with milliseconds and Z."""
    here = timezone(timedelta(hours=2))
    assert rfc3339(datetime(2026, 9, 4, 22, 5, 11, 987_654, tzinfo=here)) == "2026-09-04T20:05:11.987Z"
    assert rfc3339(datetime(12, 1, 2, tzinfo=UTC)) == "0012-01-02T00:00:00.000Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_is_read_back(moment: datetime) -> None:
    """TIME-1: a written time is read back as the same one, but for what is below a millisecond."""
    read = datetime.fromisoformat(rfc3339(moment))
    assert timedelta(0) <= moment - read < timedelta(milliseconds=1)


def test_a_class_is_more_dangerous_than_another() -> None:
    """CAT-3: windowed is more dangerous than resident, wedge-risk than both: the merge is the larger."""
    assert [it.danger for it in ServingClass] == [0, 1, 2]
    assert [it.value for it in ServingClass] == ["resident", "windowed", "wedge-risk"]


def test_which_causes_are_timers() -> None:
    """GATE-1: residency, revert, retry and watchdog are timers; callers and the steps of plans are not."""
    assert {it for it in Cause if it.timer} == {
        Cause.RESIDENCY,
        Cause.IDLE_REVERT,
        Cause.RETRY,
        Cause.WATCHDOG,
    }


@pytest.mark.parametrize("name", ["a", "0", "qwen3.8-flash-next", "a_b", "a" * 63])
def test_a_name(name: str) -> None:
    """SEC-2: a name is lower case letters, digits, dots, dashes and underlines, at most 63."""
    assert NAME.fullmatch(name)


@pytest.mark.parametrize("name", ["", "A", ".a", "-a", "a/b", "a b", "a" * 64, "ä", "a\n", "٣"])
def test_what_is_no_name(name: str) -> None:
    """SEC-2: anything else is no name: none begins with a dot or dash, or leaves its directory."""
    assert NAME.fullmatch(name) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain - text, äöü 漢字 🦙", "plain - text, äöü 漢字 🦙"),
        ("\x1b[2J\r\n\x00\x7f\x9b", "\\x1b[2J\\x0d\\x0a\\x00\\x7f\\x9b"),
        ("a\u202eb\u2066\u200b\ufeff\u00ad", "a\\u202eb\\u2066\\u200b\\ufeff\\u00ad"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_controls_are_shown(text: str, shown: str) -> None:
    """ENG-12: what could move a cursor, hide or reorder text is shown as such; all else stays as it is."""
    assert escape_controls(text) == shown


@given(st.text())
def test_no_control_is_left(text: str) -> None:
    """ENG-12: whatever the text, no control of a terminal and no half of a pair is left in it."""
    shown = escape_controls(text)
    assert not [char for char in shown if ord(char) < 32 or 127 <= ord(char) < 160]
    shown.encode()


def test_a_text_is_cut_with_a_mark() -> None:
    """HOLD-14: foreign text is escaped and cut, and a cut is marked."""
    assert shorten("x" * 80) == "x" * 80
    assert shorten("x" * 81) == "x" * 79 + "…"
    assert shorten("\x1b" * 3, 6) == "\\x1b\\…"


def test_a_requester_is_told() -> None:
    """HOLD-14: a requester is its address, agent and client, 40 characters each, made safe for a line."""
    found = requester(
        ip="::ffff:10.99.0.7",
        ua="  curl/8 \t\x1b[1m " + "x" * 99,
        client="bots voice;rm" + "y" * 99,
        key="bots",
    )
    assert found.tag() == ("10.99.0.7 ua=curl/8 \\x1b[1m " + "x" * 25 + " client=bots_voice_rm" + "y" * 27)
    assert found.key == "bots"


def test_what_is_missing_of_a_requester() -> None:
    """HOLD-14: what is missing of a requester is a dash."""
    assert requester(ip=None, ua=None, client=None) == Requester()
    assert requester(ip="::1", ua="  ", client="").tag() == "::1 ua=- client=-"


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (7, 7), (8, None), (-1, None), (True, None), (1.0, None), ("1", None)]
)
def test_a_whole_number_of_a_file(value: object, expected: int | None) -> None:
    """REL-1: of what a file of state may hold only a whole number of its range is taken."""
    assert whole(value, 0, 7) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"host": 5, "gpu0": -5, "gpu1": "x", "gpu2": 10**40, "gpu3": 1.5}, {"host": 5}),
        ([1], {}),
        (None, {}),
    ],
)
def test_sizes_of_a_file(found: object, expected: dict[str, int]) -> None:
    """REL-1, MEM-5: of sizes by pool those that a machine can have are taken."""
    assert sizes(found) == expected


def test_who_asks_is_named_by_the_key_that_opened_the_door() -> None:
    """GW-9: the rest of the requester stays, and the one without a key is another."""
    before = requester(ip="10.0.0.7", ua="curl/8", client="bench")
    named = with_key(before, "ops")
    assert (named.key, named.ip, named.client, before.key) == ("ops", before.ip, before.client, "-")


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (356_400, "4 d 3 h"),
        (3601, "1 h 1 s"),
        (86_460.5, "1 d 1 min 0.5 s"),
        (90, "1 min 30 s"),
        (59.5, "59.5 s"),
        (0, "0 s"),
        (-5, "-5 s"),
        (float("inf"), "inf s"),
        (float("nan"), "nan s"),
    ],
)
def test_a_time_that_just_misses_a_bound_is_told_whole(seconds: float, told: str) -> None:
    """INTERFACE-2: in words, and nothing of it rounded away; what is no time of the calendar as it came."""
    assert exact_duration(seconds) == told
