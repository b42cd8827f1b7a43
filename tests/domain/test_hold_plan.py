from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest

from hostler.domain.errors import HoldTaken, InvalidRequest
from hostler.domain.hold import Defect, Found, HoldRecord, HoldView, parse_record, view
from hostler.domain.hold_plan import Release, Removal, Wanted, Write, change, encode, plan_release, plan_write
from hostler.domain.values import rfc3339

NOW = datetime(2026, 9, 4, 21, 0, tzinfo=UTC)
RAW = MappingProxyType({"owner": "w1", "ticket": 5})
RECORD = HoldRecord(
    owner="w1",
    reason="bench",
    started_at=NOW - timedelta(hours=1),
    expires_at=NOW + timedelta(minutes=15),
    allow=("fast",),
    by="cli",
    raw=RAW,
)
WANTED = Wanted(owner="w1", reason="more", expires_at=NOW + timedelta(minutes=30), allow=("embed",))


def seen(record: HoldRecord | None = RECORD) -> HoldView:
    found = None if record is None else Found(content=record)
    return view(found, path="/run/h.json", now=NOW, boot_id="b-1")


def torn(age_h: int = 0) -> HoldView:
    ns = int((NOW - timedelta(hours=age_h)).timestamp()) * 10**9
    return view(Found(content=Defect("is empty"), inode=7, mtime_ns=ns), path="/run/h.json", now=NOW)


def write(shown: HoldView, wanted: Wanted = WANTED) -> Write:
    return plan_write(shown, wanted, now=NOW, boot_id="b-1")


def release(shown: HoldView, *, owner: str | None = None, force: bool = False) -> Release:
    return plan_release(shown, owner=owner, force=force, by="user ada", now=NOW)


def test_a_free_box_is_held() -> None:
    """HOLD-8: the record says owner, reason, from, until and the list, who wrote it and at which boot."""
    plan = write(seen(None))
    assert plan.record == {
        "owner": "w1",
        "reason": "more",
        "started_at": "2026-09-04T21:00:00.000Z",
        "expires_at": "2026-09-04T21:30:00.000Z",
        "allow": ["embed"],
        "by": "cli",
        "boot_id": "b-1",
    }
    assert (plan.replaces, plan.set_aside, plan.forced) == (False, False, None)


def test_what_is_written_can_be_read() -> None:
    """HOLD-8: the bytes of a planned record are a record that says the same."""
    plan = plan_write(seen(None), replace(WANTED, reason=None, allow=None), now=NOW, boot_id=None)
    found = parse_record(encode(plan.record))
    assert isinstance(found, HoldRecord)
    assert (found.owner, found.reason, found.by, found.boot_id) == ("w1", "", "cli", None)
    assert found.expires_at == NOW + timedelta(minutes=30)


def test_a_lapsed_record_and_one_of_another_boot_are_replaced() -> None:
    """HOLD-9: what does not hold any more is no obstacle, whosever it was."""
    for old in (replace(RECORD, owner="w2", expires_at=NOW), replace(RECORD, owner="w2", boot_id="b-0")):
        plan = write(seen(old))
        assert (plan.replaces, plan.forced) == (True, None)
        assert plan.record["started_at"] == "2026-09-04T21:00:00.000Z"


def test_the_same_owner_extends_its_own() -> None:
    """HOLD-9: extending keeps started_at, and what is not given anew."""
    plan = write(seen(), replace(WANTED, reason=None, allow=None))
    assert plan.record["started_at"] == "2026-09-04T20:00:00.000Z"
    assert plan.record["expires_at"] == "2026-09-04T21:30:00.000Z"
    assert (plan.record["reason"], plan.record["allow"]) == ("bench", ["fast"])
    assert write(seen()).record["reason"] == "more"
    assert write(seen(), replace(WANTED, allow=())).record["allow"] == []
    assert write(seen(replace(RECORD, started_at=None))).record["started_at"] == "2026-09-04T21:00:00.000Z"


def test_the_same_owner_shortens_its_own() -> None:
    """HOLD-12: the owner may end its hold sooner as well."""
    plan = write(seen(), replace(WANTED, expires_at=NOW + timedelta(minutes=1)))
    assert plan.record["expires_at"] == "2026-09-04T21:01:00.000Z"
    assert plan.forced is None


def test_another_owner_is_not_overwritten() -> None:
    """HOLD-9: a live hold of another owner is not overwritten; the refusal names it and the way."""
    with pytest.raises(HoldTaken) as refused:
        write(seen(), replace(WANTED, owner="w2"))
    assert refused.value.owner == "w1"
    assert refused.value.until == "2026-09-04T21:15:00.000Z"
    assert refused.value.retry_after == 900
    assert "--take-over w1" in refused.value.advice()


def test_force_is_for_length_only() -> None:
    """HOLD-9: --force on `hold` overwrites nobody."""
    with pytest.raises(HoldTaken):
        write(seen(), replace(WANTED, owner="w2", forced=True))


def test_take_over_names_whom() -> None:
    """HOLD-9: a take-over ends the named owner's hold and is noted; another's name ends nothing."""
    plan = write(seen(), replace(WANTED, owner="w2", take_over="w1"))
    assert plan.record["started_at"] == "2026-09-04T21:00:00.000Z"
    assert plan.forced is not None
    assert (plan.forced.change, plan.forced.owner, plan.forced.by) == ("taken over", "w1", "w2")
    assert plan.forced.record == RAW
    with pytest.raises(HoldTaken):
        write(seen(), replace(WANTED, owner="w2", take_over="w3"))
    assert write(seen(None), replace(WANTED, take_over="w3")).forced is None


def test_the_hold_of_a_lease_is_not_replaced_by_its_name() -> None:
    """HOLD-9: typing the owner of a lease's hold does not make it one's own."""
    lease = replace(RECORD, owner="lease:7f3", lease="7f3")
    with pytest.raises(HoldTaken) as refused:
        write(seen(lease), replace(WANTED, owner="lease:7f3"))
    assert refused.value.advice().startswith("It belongs to lease 7f3.")


def test_what_cannot_be_read_is_not_overwritten() -> None:
    """HOLD-9: `hold` over a record that cannot be read is refused, and names the command that clears it."""
    with pytest.raises(HoldTaken) as refused:
        write(torn())
    assert (refused.value.owner, refused.value.until) == ("unknown", rfc3339(NOW + timedelta(hours=8)))
    assert "`hostler box release`" in refused.value.advice()


def test_taking_over_what_cannot_be_read_keeps_its_bytes() -> None:
    """HOLD-4: bytes that nobody could read are kept beside, by a take-over and once aged out as well."""
    plan = write(torn(), replace(WANTED, take_over="unknown"))
    assert plan.set_aside
    assert plan.forced is not None
    aged = write(torn(age_h=9))
    assert (aged.set_aside, aged.forced) == (True, None)


@pytest.mark.parametrize(("minutes", "passes"), [(479, True), (480, True), (480.001, False), (100000, False)])
def test_a_hold_ends_before_a_work_morning(minutes: float, passes: bool) -> None:
    """HOLD-8: exactly 480 minutes pass, more need --force, which is written into the record."""
    wanted = replace(WANTED, expires_at=NOW + timedelta(minutes=minutes))
    if passes:
        assert "forced" not in write(seen(None), wanted).record
        return
    with pytest.raises(InvalidRequest, match="480 minutes"):
        write(seen(None), wanted)
    assert write(seen(None), replace(wanted, forced=True)).record["forced"] is True


def test_a_hold_that_is_over_is_not_written() -> None:
    """HOLD-8: an expiry that has passed is bad input."""
    with pytest.raises(InvalidRequest, match="end before it begins"):
        write(seen(None), replace(WANTED, expires_at=NOW))


def test_a_record_that_no_reader_takes_is_not_written() -> None:
    """HOLD-4: a record over 64 KiB would be held by unknown, so it is refused."""
    with pytest.raises(InvalidRequest, match="64 KiB"):
        write(seen(None), replace(WANTED, reason="x" * 70000))


def test_nothing_to_release() -> None:
    """HOLD-8: without a live hold there is nothing to release, and the file is left."""
    for shown in (seen(None), seen(replace(RECORD, expires_at=NOW)), seen(replace(RECORD, boot_id="b-0"))):
        assert release(shown, force=True) == Release(removal=Removal.NOTHING)


def test_a_bare_release_ends_a_hold_of_the_command() -> None:
    """HOLD-8: without an owner only a hold that `box hold` wrote is ended."""
    assert release(seen()) == Release(removal=Removal.REMOVE)
    with pytest.raises(HoldTaken) as refused:
        release(seen(replace(RECORD, by=None)))
    assert refused.value.owner == "w1"
    assert "--owner w1" in refused.value.advice()


def test_a_release_by_its_owner() -> None:
    """HOLD-8: any other hold is ended with its owner's name, by nobody else's."""
    script = replace(RECORD, by=None)
    assert release(seen(script), owner="w1") == Release(removal=Removal.REMOVE)
    with pytest.raises(HoldTaken):
        release(seen(script), owner="w2")
    with pytest.raises(HoldTaken):
        release(seen(), owner="w2")


def test_a_forced_release_is_noted() -> None:
    """HOLD-9: releasing another's hold needs --force and is noted; where it was not needed it is not."""
    plan = release(seen(replace(RECORD, by=None)), force=True)
    assert plan.removal is Removal.REMOVE
    assert plan.forced is not None
    assert (plan.forced.change, plan.forced.owner, plan.forced.by) == ("released", "w1", "user ada")
    assert release(seen(), force=True).forced is None
    assert release(seen(), owner="w2", force=True).forced is not None


@pytest.mark.parametrize("owner", ["lease:7f3", "window:bench-20260904-2005"])
def test_a_hold_of_a_lease_or_window_needs_force(owner: str) -> None:
    """HOLD-9: a release of a lease's or window's hold says what it belongs to and needs --force."""
    shown = seen(replace(RECORD, owner=owner))
    with pytest.raises(HoldTaken) as refused:
        release(shown, owner=owner)
    assert refused.value.advice().startswith(f"It belongs to {owner.replace(':', ' ')}.")
    assert release(shown, owner=owner, force=True).forced is not None


def test_an_unreadable_record_is_released_without_flags() -> None:
    """HOLD-4: `box release` clears what cannot be read without flags, also once it has aged out."""
    assert release(torn()) == Release(removal=Removal.SET_ASIDE)
    assert release(torn(), owner="w1") == Release(removal=Removal.SET_ASIDE)
    assert release(torn(age_h=9)) == Release(removal=Removal.SET_ASIDE)


def test_a_way_out_can_be_typed() -> None:
    """HOLD-9: the command that a refusal suggests is quoted for a shell, its controls escaped."""
    with pytest.raises(HoldTaken) as refused:
        release(seen(replace(RECORD, owner="two words\x1b[2J", by=None)))
    assert "--owner 'two words\\x1b[2J'" in refused.value.advice()


@pytest.mark.parametrize(("minutes", "word"), [(5, "Shortened"), (15, "Changed"), (60, "Extended")])
def test_what_an_owner_does_to_its_own_hold_has_its_word(minutes: int, word: str) -> None:
    """HOLD-9: an owner that writes its own hold again extends or shortens it, or leaves its end."""
    after = replace(RECORD, expires_at=NOW + timedelta(minutes=minutes))
    assert change(seen(), seen(after)) == word


def test_a_shorter_hold_keeps_its_reason() -> None:
    """HOLD-9: an owner that leaves out reason and list keeps both, however the end moves."""
    shorter = replace(WANTED, reason=None, allow=None, expires_at=NOW + timedelta(minutes=5))
    record = write(seen(), shorter).record
    assert (record["reason"], record["allow"]) == ("bench", ["fast"])
