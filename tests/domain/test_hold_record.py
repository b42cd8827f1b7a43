import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostler.domain.hold_record import MAX_BYTES, Defect, HoldRecord, parse_instant, parse_record

END = "2026-09-04T21:15:11Z"
AT = datetime(2026, 9, 4, 21, 15, 11, tzinfo=UTC)


def record(**changed: object) -> bytes:
    found: dict[str, object] = {"owner": "w1", "reason": "bench", "expires_at": END, "allow": []}
    return json.dumps({**found, **changed}).encode()


def parsed(data: bytes) -> HoldRecord:
    found = parse_record(data)
    assert isinstance(found, HoldRecord), found
    return found


def defect(data: bytes) -> str:
    found = parse_record(data)
    assert isinstance(found, Defect), found
    return found.what


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        (END, AT),
        ("2026-09-04t21:15:11z", AT),
        ("2026-09-04 21:15:11Z", AT),
        ("2026-09-05T02:45:11+05:30", AT),
        ("2026-09-04T16:15:11-05:00", AT),
        ("2026-09-04T21:15:11-00:00", AT),
        ("2026-09-04T21:15:11.5Z", AT + timedelta(milliseconds=500)),
        ("2026-09-04T21:15:11.123456789Z", AT + timedelta(microseconds=123456)),
        ("2026-12-31T23:59:60Z", datetime(2027, 1, 1, tzinfo=UTC)),
        ("2026-09-04T24:00:00Z", datetime(2026, 9, 5, tzinfo=UTC)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("9999-12-31T23:59:60Z", datetime.max.replace(tzinfo=UTC)),
        ("9999-12-31T23:59:59-05:00", datetime.max.replace(tzinfo=UTC)),
        ("0001-01-01T00:00:00+05:00", datetime.min.replace(tzinfo=UTC)),
    ],
)
def test_an_instant_with_a_zone_is_read(text: str, instant: datetime) -> None:
    """HOLD-3: RFC 3339 with a zone is an instant; second 60 and hour 24 are the next second and day."""
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        None,
        True,
        1788556511,
        1788556511000.0,
        [],
        "",
        " ",
        "2026-09-04",
        "2026-09-04T21:15:11",
        "2026-09-04T21:15Z",
        "2026-09-04T21:15:11.Z",
        "2026-09-04T21:15:11,5Z",
        "2026-09-04T21:15:11 Z",
        "2026-09-04T21:15:11Z\n",
        " 2026-09-04T21:15:11Z",
        "2026-09-04T21:15:11+0530",
        "2026-09-04T21:15:11+24:00",
        "2026-09-04T21:15:11+05:60",
        "2026-09-04T21:15:61Z",
        "2026-09-04T21:60:00Z",
        "2026-09-04T25:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "+10000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "2027-03-28T02:30:00[Europe/Berlin]",
        "2027-03-28T02:30:00+02:00[Europe/Berlin]",
        "\u0662026-09-04T21:15:11Z",
        "NaN",
    ],
)
def test_anything_else_is_no_expiry(text: object) -> None:
    """HOLD-3: no zone, a number, a date alone, digits beyond ASCII and any other form are no instant."""
    assert parse_instant(text) is None


@given(
    st.timedeltas(timedelta(0), timedelta(days=3_000_000)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_an_offset_moves_no_instant(since: timedelta, minutes: int) -> None:
    """HOLD-3: the same instant written with any offset is the same instant."""
    sign, ahead = "-" if minutes < 0 else "+", abs(minutes)
    moment = datetime(2, 1, 1, tzinfo=UTC) + since
    local = (moment + timedelta(minutes=minutes)).replace(tzinfo=None)
    text = f"{local.isoformat(timespec='microseconds')}{sign}{ahead // 60:02d}:{ahead % 60:02d}"
    assert parse_instant(text) == moment


@given(st.one_of(st.text(), st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:.]{8,12}[Zz+\-0-9:]{0,6}")))
@example("9999-12-31T24:59:60.999999-23:59")
@example("0001-01-01T00:00:00+23:59")
def test_no_text_breaks_the_reader_of_times(text: str) -> None:
    """HOLD-3: whatever the text, the answer is an instant in UTC or none, never an error."""
    found = parse_instant(text)
    assert found is None or found.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\0" * 4096, "is not JSON"),
        (b'{"owner":"w1","reason":"bench","expi', "is not JSON"),
        (record()[:-1] + b",}", "is not JSON"),
        (record() + b'\n{"owner":"w2"}', "is not JSON"),
        (record().replace(b"w1", b"w\xff\xfe1"), "is not UTF-8"),
        (record().decode().encode("utf-16"), "is not UTF-8"),
        (b'"x"', "is no JSON object"),
        (b"[]", "is no JSON object"),
        (b"null", "is no JSON object"),
        (b"NaN", "has NaN, which is no JSON"),
        (record().replace(f'"{END}"'.encode(), b"Infinity"), "has Infinity, which is no JSON"),
        (record().replace(f'"{END}"'.encode(), b"-Infinity"), "has -Infinity, which is no JSON"),
        (record(n=1).replace(b"1}", b"1e999}"), "has a number that is out of range"),
        (record(n=1).replace(b"1}", b"9" * 5000 + b"}"), "is not JSON"),
        (b'{"expires_at":"1999-01-01T00:00:00Z","expires_at":"2099-01-01T00:00:00Z"}', "has a key twice"),
        (record(x={}).replace(b"{}", b'{"a":1,"a":1}'), "has a key twice"),
        (record(allow="crow-embed"), "has an `allow` that is not a list"),
        (record(allow=None), "has an `allow` that is not a list"),
        (record(allow={}), "has an `allow` that is not a list"),
        (b'{"owner":"w1","reason":"x","allow":[]}', "has no expires_at"),
        (b'{"OWNER":"w1","expiresAt":"2099-01-01T00:00:00Z"}', "has no expires_at"),
        (record(expires_at=None), "has an expires_at that is no RFC 3339 time with a zone"),
        (record(expires_at=True), "has an expires_at that is no RFC 3339 time with a zone"),
        (record(expires_at="2026-09-04T21:15:11"), "has an expires_at that is no RFC 3339 time with a zone"),
        (record(x=" " * MAX_BYTES), "is larger than 64 KiB"),
        (b"[" * 60000, "is nested over 8 deep"),
        (b'{"a":' * 12000, "is nested over 8 deep"),
        (record(x=[[[[[[[[1]]]]]]]]), "is nested over 8 deep"),
    ],
)
def test_what_cannot_be_read_is_a_defect(data: bytes, what: str) -> None:
    """HOLD-4: a record that is torn, not UTF-8, not one JSON object or without an expiry is a defect."""
    assert defect(data) == what


def test_eight_levels_are_read() -> None:
    """HOLD-4: nesting of 8 is read, and brackets inside texts count for nothing."""
    assert parsed(record(x=[[[[[[[1]]]]]]])).owner == "w1"
    assert parsed(record(reason='"[{' * 100)).reason == '"[{' * 100


def test_a_record_of_64_kib_is_read() -> None:
    """HOLD-4: exactly 64 KiB is not over 64 KiB."""
    data = record(x="")
    assert parsed(record(x="y" * (MAX_BYTES - len(data)))).owner == "w1"


def test_quotes_without_end_cost_one_pass() -> None:
    """HOLD-4: 64 KiB of escaped quotes are read in one pass, not one per quote."""
    assert defect(b'"' + b'\\"' * 32000) == "is not JSON"
    assert defect(b'{"a": "' + b"\\" * 64000) == "is not JSON"


def test_a_byte_order_mark_is_accepted() -> None:
    """HOLD-4: a UTF-8 BOM of an editor is no defect."""
    assert parsed(b"\xef\xbb\xbf" + record()).expires_at == AT


def test_a_script_without_owner_is_unknown() -> None:
    """HOLD-3: a missing owner is unknown, a missing reason empty, and the record stands."""
    found = parsed(json.dumps({"expires_at": END}).encode())
    assert (found.owner, found.reason, found.allow, found.started_at) == ("unknown", "", (), None)
    odd = parsed(record(owner=7, reason=["x"], started_at="noon"))
    assert (odd.owner, odd.reason, odd.started_at) == ("unknown", "", None)


def test_extra_keys_are_kept() -> None:
    """HOLD-4: keys that are not ours are kept as found and are no error."""
    found = parsed(record(ticket={"id": 5}, epoch=1))
    assert found.raw["ticket"] == {"id": 5}
    assert found.raw["owner"] == "w1"


def test_our_extra_keys_are_read() -> None:
    """HOLD-4: `by`, `forced`, `lease`, `boot_id` and `stop_accepting_at` are ours."""
    found = parsed(record(by="cli", forced=True, lease="7f3", boot_id="b-1", stop_accepting_at=END))
    assert (found.by, found.forced, found.lease, found.boot_id) == ("cli", True, "7f3", "b-1")
    assert found.stop_accepting_at == AT
    odd = parsed(record(by=1, forced="true", lease=None, boot_id="", stop_accepting_at=3))
    assert (odd.by, odd.forced, odd.lease, odd.boot_id, odd.stop_accepting_at) == (
        None,
        False,
        None,
        None,
        None,
    )


def test_allow_keeps_texts_only() -> None:
    """HOLD-5: of `allow`, non-strings and empty strings are dropped; names stay as they are."""
    assert parsed(record(allow=["a", "", 3, None, "A ", "*", ["b"], "a"])).allow == ("a", "A ", "*")


@pytest.mark.parametrize(
    ("changed", "whose"),
    [
        ({"owner": "lease:7f3"}, "lease 7f3"),
        ({"owner": "window:bench-20260904-2005"}, "window bench-20260904-2005"),
        ({"lease": "7f3"}, "lease 7f3"),
        ({"owner": "w1:x"}, None),
        ({"owner": "lease"}, None),
    ],
)
def test_a_hold_of_a_lease_or_window_says_so(changed: dict[str, object], whose: str | None) -> None:
    """HOLD-9: a hold that a lease or a window took is known by its owner or its `lease`."""
    assert parsed(record(**changed)).belongs_to() == whose


def test_a_lone_surrogate_reaches_no_answer() -> None:
    """HOLD-4: half a character in an owner is shown as its code, for UTF-8 cannot carry it."""
    found = parsed(record(owner="a\ud800b"))
    assert found.owner == "a\\ud800b"
    assert found.raw["owner"] == "a\ud800b"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(END),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["owner", "reason", "started_at", "expires_at", "allow", "forced", "by", "boot_id", "x"]
)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.dictionaries(KEYS, JSON, max_size=9).map(lambda found: json.dumps(found).encode()),
        st.tuples(st.binary(max_size=5), st.integers(0, 90)).map(
            lambda cut: record()[: cut[1]] + cut[0] + record()[cut[1] :]
        ),
    )
)
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """HOLD-4: whatever the bytes, they are a record with an expiry or a defect in words, never an error."""
    found = parse_record(data)
    if isinstance(found, Defect):
        assert found.what
    else:
        assert parse_instant(found.raw["expires_at"]) == found.expires_at
        found.owner.encode()


@given(st.integers(0, len(record()) - 1))
def test_a_torn_write_is_never_a_record(length: int) -> None:
    """HOLD-4: no beginning of a record is taken for a record."""
    assert isinstance(parse_record(record()[:length]), Defect)
