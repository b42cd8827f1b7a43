from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.hold import (
    AGES_OUT_S,
    Defect,
    Found,
    HoldRecord,
    HoldState,
    HoldView,
    refusal,
    retry_after,
    seconds_left,
    view,
)
from hostler.domain.values import rfc3339

NOW = datetime(2026, 9, 4, 21, 0, tzinfo=UTC)
END = datetime(2026, 9, 4, 21, 15, 11, tzinfo=UTC)
RECORD = HoldRecord(owner="w1", reason="bench", started_at=NOW - timedelta(hours=1), expires_at=END)
PATH = "/run/user/1000/crow-box-reservation.json"


def seen(record: HoldRecord = RECORD, *, now: datetime = NOW, boot: str | None = "b-1") -> HoldView:
    return view(Found(content=record), path=PATH, now=now, boot_id=boot, essentials=frozenset({"embed"}))


def torn(*, now: datetime = NOW, mtime: datetime | None = NOW, first: datetime | None = None) -> HoldView:
    ns = None if mtime is None else int(mtime.timestamp()) * 10**9
    found = Found(content=Defect("is empty"), inode=7, mtime_ns=ns)
    return view(found, path=PATH, now=now, first_seen=first, essentials=frozenset({"embed"}))


def test_no_file_is_no_hold() -> None:
    """HOLD-4: where there is no file there is no hold, and every engine may start."""
    free = view(None, path=PATH, now=NOW)
    assert (free.state, free.held, free.identity) == (HoldState.FREE, False, "")
    assert free.allows("large")


def test_a_record_holds_until_its_expiry() -> None:
    """HOLD-3: a second before its expiry a record holds; at the expiry itself it has lapsed."""
    assert seen(now=END - timedelta(seconds=1)).held
    assert seen(now=END).state is HoldState.LAPSED
    assert seen(now=END + timedelta(seconds=1)).state is HoldState.LAPSED
    assert not seen(now=END).held


def test_an_expiry_before_its_start_never_held() -> None:
    """HOLD-3: a record that ends before it starts spans no time."""
    odd = replace(RECORD, started_at=END + timedelta(minutes=5))
    assert seen(odd).state is HoldState.LAPSED
    assert seen(replace(RECORD, started_at=END)).held


def test_a_start_in_the_future_holds_already() -> None:
    """HOLD-3: only the expiry ends a hold; a start that is still to come does not open the box."""
    assert seen(replace(RECORD, started_at=NOW + timedelta(minutes=1))).held


def test_a_record_of_another_boot_is_no_hold() -> None:
    """HOLD-2: a reboot ends every hold that carries a boot id; one without it stands."""
    other = replace(RECORD, boot_id="b-0")
    assert seen(other).state is HoldState.OTHER_BOOT
    assert not seen(other).held
    assert seen(replace(RECORD, boot_id="b-1")).held
    assert seen(RECORD).held


def test_without_a_boot_id_of_ours_a_record_stands() -> None:
    """HOLD-2: where the system does not tell its boot, no record can be called another boot's."""
    assert seen(replace(RECORD, boot_id="b-0"), boot=None).held


def test_an_unreadable_record_is_held_by_unknown() -> None:
    """HOLD-4: what cannot be read counts as held by unknown, with its defect."""
    view = torn()
    assert (view.state, view.held, view.owner, view.reason) == (HoldState.UNREADABLE, True, "unknown", "")
    assert view.defect == "is empty"
    assert not view.allows("large")


def test_an_unreadable_record_ages_out() -> None:
    """HOLD-4: a record that cannot be read counts for 8 h after the earlier of mtime and first sight."""
    age = timedelta(seconds=AGES_OUT_S)
    assert torn(now=NOW + age - timedelta(seconds=1), first=NOW).held
    assert torn(now=NOW + age, first=NOW).state is HoldState.AGED_OUT
    assert torn(mtime=NOW - age, first=NOW).state is HoldState.AGED_OUT
    assert torn(now=NOW + age, mtime=NOW + age, first=NOW).state is HoldState.AGED_OUT
    assert torn(mtime=None, first=NOW).until == NOW + age
    assert not torn(now=NOW + age, first=NOW).held


@given(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)))
def test_no_mtime_breaks_the_reader(mtime_ns: int | None) -> None:
    """HOLD-4: whatever mtime a file claims, it counts no longer than 8 h after its first sight."""
    found = Found(content=Defect("is empty"), inode=7, mtime_ns=mtime_ns)
    until = view(found, path=PATH, now=NOW, first_seen=NOW).until
    assert until is not None
    assert until <= NOW + timedelta(seconds=AGES_OUT_S)


def test_allow_names_who_may_start() -> None:
    """HOLD-5: engines on the list and essential ones may start, by their exact id, others may not."""
    held = seen(replace(RECORD, allow=("fast", "*")))
    assert held.allow == {"fast", "*", "embed"}
    assert held.allows("fast")
    assert held.allows("embed")
    assert not held.allows("Fast")
    assert not held.allows("large")


def test_essential_engines_start_under_an_unreadable_record() -> None:
    """HOLD-5: search and memory work under a torn record too."""
    assert torn().allows("embed")


def test_the_identity_is_owner_and_start() -> None:
    """HOLD-7: a hold is known by owner and start, without a start by its expiry."""
    assert seen().identity == "w1@2026-09-04T20:00:00.000Z"
    assert seen(replace(RECORD, started_at=None)).identity == "w1@2026-09-04T21:15:11.000Z"
    extended = replace(RECORD, expires_at=END + timedelta(hours=1), reason="more")
    assert seen(extended).identity == seen().identity


def test_the_identity_of_an_unreadable_record_is_its_file() -> None:
    """HOLD-7: of a record that cannot be read, inode and mtime tell one from another."""
    assert torn().identity == f"unreadable: inode 7, mtime {int(NOW.timestamp()) * 10**9}"
    assert torn(mtime=NOW + timedelta(seconds=1)).identity != torn().identity
    assert torn(mtime=None).identity == "unreadable: is empty"


def test_a_far_expiry_is_honoured_and_flagged() -> None:
    """HOLD-3: an expiry more than 8 h away holds, and is flagged unless somebody forced it."""
    far = replace(RECORD, expires_at=NOW + timedelta(hours=8, seconds=1))
    assert seen(far).held
    assert seen(far).overlong
    assert not seen(replace(far, forced=True)).overlong
    assert not seen(replace(far, expires_at=NOW + timedelta(hours=8))).overlong
    assert not seen(replace(far, boot_id="b-0")).overlong
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert seen(replace(RECORD, expires_at=end)).overlong


@pytest.mark.parametrize(
    ("left", "after"), [(0.2, 60), (59, 60), (60, 60), (60.5, 61), (61, 61), (911, 911), (30000, 30000)]
)
def test_retry_after_is_a_minute_or_the_time_left(left: float, after: int) -> None:
    """HOLD-13: Retry-After is the larger of 60 and the seconds to the expiry, so that it has lapsed then."""
    assert retry_after(seen(now=END - timedelta(seconds=left)), END - timedelta(seconds=left)) == after


def test_retry_after_is_a_minute_when_the_end_is_unknown() -> None:
    """HOLD-13: under a record that cannot be read, and under none, Retry-After is 60."""
    assert retry_after(torn(), NOW) == 60
    assert retry_after(view(None, path=PATH, now=NOW), NOW) == 60


def test_a_refusal_names_owner_and_expiry() -> None:
    """HOLD-13: the refusal of a start has owner, expiry and the time to come back."""
    told = refusal(seen(), engine="large", host="crow", now=NOW)
    assert told.facts() == {
        "host": "crow",
        "engine": "large",
        "owner": "w1",
        "reason": "bench",
        "until": "2026-09-04T21:15:11.000Z",
        "expires_at": "2026-09-04T21:15:11.000Z",
    }
    assert told.retry_after == 911


def test_a_refusal_under_a_torn_record_names_the_way_out() -> None:
    """HOLD-4: under a record that cannot be read a refusal says when it ages out and what clears it."""
    told = refusal(torn(), engine="large", host="crow", now=NOW)
    ages_out = rfc3339(NOW + timedelta(seconds=AGES_OUT_S))
    assert (told.owner, told.until, told.expires_at, told.retry_after) == ("unknown", ages_out, None, 60)
    assert told.facts()["unreadable"] == "is empty"
    assert told.advice() == (
        "The hold record is empty: `hostler box release` clears it and keeps its bytes,"
        f" or it ages out at {ages_out}."
    )
    assert "ask its owner" in refusal(seen(), engine="large", host="crow", now=NOW).advice()


def test_time_left_is_of_a_hold_only() -> None:
    """HOLD-8: there are seconds left of what holds, and none of what does not."""
    assert seconds_left(seen(), NOW) == 911
    assert seconds_left(seen(), END + timedelta(days=1)) == 0
    assert seconds_left(torn(), NOW) == AGES_OUT_S
    assert seconds_left(view(None, path=PATH, now=NOW), NOW) is None
    assert seconds_left(seen(now=END), END) is None


def test_reading_lengthens_nothing() -> None:
    """HOLD-12: however often a hold is looked at, its end stays where its owner put it."""
    for minutes in range(15):
        assert seen(now=NOW + timedelta(minutes=minutes)).until == END
        assert torn(now=NOW + timedelta(minutes=minutes), first=NOW).until == NOW + timedelta(hours=8)
