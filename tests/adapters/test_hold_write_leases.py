import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hostler.adapters.hold_write import HoldWriter
from hostler.domain.errors import HoldPathUnusable, HoldTaken, InvalidRequest
from hostler.domain.hold import HoldState
from hostler.domain.hold_plan import RELEASED, TAKEN_OVER, LeaseHold, Taken
from hostler.domain.step import FenceNumber
from tests.adapters.hold_writers import NOW, at, kept, wanted

UNTIL = NOW + timedelta(hours=12)
MINE = LeaseHold(
    lease="lease_1",
    fence=FenceNumber(epoch="e1", generation=7),
    reason="ann: bench",
    expires_at=UNTIL,
    allow=("embed",),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path / "run/h.json"


@pytest.fixture
def writer(path: Path) -> HoldWriter:
    return at(path)


def test_a_leases_record_is_read_as_its_own(writer: HoldWriter) -> None:
    """HOLD-11: a lease's record names it, its fence number and this boot, and is as long as it must be."""
    writer.write_for_lease(MINE)
    view = writer.reader.read()
    assert (view.state, view.owner, view.until, view.overlong) == (
        HoldState.HELD,
        "lease:lease_1",
        UNTIL,
        False,
    )
    record = view.record
    assert record is not None
    assert (record.lease, record.by, record.boot_id, record.forced) == ("lease_1", "lease", "b-1", True)
    assert (record.raw["epoch"], record.raw["generation"]) == ("e1", 7)


def test_its_own_record_keeps_its_beginning(writer: HoldWriter) -> None:
    """HOLD-9: what a lease writes again replaces its own record, which keeps `started_at`."""
    writer.write_for_lease(MINE)
    before = writer.reader.read().identity
    writer.write_for_lease(replace(MINE, expires_at=UNTIL + timedelta(hours=1)))
    view = writer.reader.read_fresh()
    assert (view.identity, view.until) == (before, UNTIL + timedelta(hours=1))


@pytest.mark.parametrize("other", ["person", "lease", "unreadable"])
def test_another_s_live_hold_is_left(writer: HoldWriter, path: Path, other: str) -> None:
    """HOLD-9: a lease overwrites, extends and removes nobody else's live hold, an unreadable one neither."""
    if other == "person":
        writer.write(wanted())
    elif other == "lease":
        writer.write_for_lease(replace(MINE, lease="lease_2"))
    else:
        path.write_bytes(b"{torn")
    before = path.read_bytes()
    with pytest.raises(HoldTaken):
        writer.write_for_lease(MINE)
    assert writer.extend_for_lease("lease_1", UNTIL) is False
    assert writer.remove_for_lease("lease_1") is False
    assert path.read_bytes() == before
    assert kept(path) == []


def test_an_extension_changes_the_end_alone(writer: HoldWriter) -> None:
    """HOLD-11: a renewal gives the lease's record another end, also an earlier one, and changes no more."""
    writer.write_for_lease(MINE)
    before = writer.reader.read().record
    assert writer.extend_for_lease("lease_1", NOW + timedelta(hours=1))
    after = writer.reader.read_fresh().record
    assert before is not None
    assert after is not None
    assert after.expires_at == NOW + timedelta(hours=1)
    assert {**after.raw, "expires_at": ""} == {**before.raw, "expires_at": ""}


def test_it_is_removed_lapsed_or_not(writer: HoldWriter, path: Path) -> None:
    """HOLD-11: the end of a lease removes its record; nothing there is no fault."""
    for until in (UNTIL, NOW - timedelta(hours=1)):
        writer.write_for_lease(replace(MINE, expires_at=until))
        assert writer.remove_for_lease("lease_1") is True
        assert not path.exists()
    assert writer.remove_for_lease("lease_1") is False


def test_a_person_needs_force_to_end_it(writer: HoldWriter) -> None:
    """HOLD-11: `box release` of a lease's hold says what it belongs to and needs `--force`."""
    writer.write_for_lease(MINE)
    for owner in (None, "lease:lease_1"):
        with pytest.raises(HoldTaken) as told:
            writer.release(owner=owner, force=False, by="ann")
        assert "It belongs to lease lease_1." in told.value.advice()
    writer.release(owner=None, force=True, by="ann")
    assert writer.extend_for_lease("lease_1", UNTIL) is False


def test_what_no_reader_would_take_is_not_written(writer: HoldWriter, path: Path) -> None:
    """HOLD-4: a record over 64 KiB is refused, and nothing is written."""
    with pytest.raises(InvalidRequest, match="64 KiB"):
        writer.write_for_lease(replace(MINE, reason="x" * (64 << 10)))
    assert not path.exists()


def away(_taken: Taken) -> bool:
    return True


def test_a_lease_s_record_is_written_again_unless_a_person_took_it(writer: HoldWriter, path: Path) -> None:
    """HOLD-9, HOLD-11: one that was removed is written again; one that went by force is left so."""
    writer.write_for_lease(MINE)
    path.unlink()
    assert writer.write_again_for_lease(MINE, away) is True
    assert writer.reader.read_fresh().owner == "lease:lease_1"
    writer.release(owner=None, force=True, by="user ada")
    assert writer.write_again_for_lease(MINE, away) is False
    assert not path.exists()
    assert writer.write_again_for_lease(replace(MINE, lease="lease_2"), away) is True
    path.with_name("box.ndjson").write_bytes(b"{torn\n[1]\n")
    path.unlink()
    assert writer.write_again_for_lease(MINE, away) is True


def test_how_a_lease_s_record_was_taken_last(writer: HoldWriter) -> None:
    """HOLD-9, HOLD-11: whether it stays away is asked of the last forced change, with the end that it had."""
    asked: list[Taken] = []

    def ask(taken: Taken) -> bool:
        asked.append(taken)
        return False

    writer.write_for_lease(MINE)
    writer.release(owner=None, force=True, by="user ada")
    assert writer.write_again_for_lease(MINE, ask) is True
    writer.write(wanted(take_over="lease:lease_1"))
    writer.release(owner="ada", force=True, by="user ada")
    assert writer.write_again_for_lease(MINE, ask) is True
    assert asked == [
        Taken(change=RELEASED, at=NOW, until=UNTIL),
        Taken(change=TAKEN_OVER, at=NOW, until=UNTIL),
    ]


def test_a_windows_record_says_when_it_takes_no_more(writer: HoldWriter) -> None:
    """WIN-2, HOLD-11: whoever reads the record learns from when on no new request is taken."""
    writer.write_for_lease(replace(MINE, stop_accepting_at=NOW))
    record = writer.reader.read().record
    assert record is not None
    assert record.stop_accepting_at == NOW


def test_what_is_no_file_of_changes_keeps_nobody_waiting(writer: HoldWriter, path: Path) -> None:
    """HOLD-11: a pipe in place of box.ndjson is passed over, a link refused, and neither is read."""
    writer.write_for_lease(MINE)
    path.unlink()
    changes = path.with_name("box.ndjson")
    os.mkfifo(changes)
    assert writer.write_again_for_lease(MINE, away) is True
    told = writer.release(owner=None, force=True, by="user ada")
    assert "is not told of this" in told.warnings[0]
    writer.write_for_lease(MINE)
    over = writer.write(wanted(take_over=f"lease:{MINE.lease}"))
    assert len(over.warnings) == 1, "who takes over has it for the time of their own hold"
    path.unlink()
    assert "the daemon writes the hold of L again within 30 s" in told.warnings[1].replace(MINE.lease, "L")
    changes.unlink()
    changes.symlink_to("/dev/zero")
    with pytest.raises(HoldPathUnusable):
        writer.write_again_for_lease(MINE, away)


def test_a_lease_s_record_is_not_written_over_another_s(writer: HoldWriter, path: Path) -> None:
    """HOLD-9: who holds by now keeps it."""
    writer.write(wanted())
    before = path.read_bytes()
    with pytest.raises(HoldTaken):
        writer.write_again_for_lease(MINE, away)
    assert path.read_bytes() == before
