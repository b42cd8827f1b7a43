"""Windows in the machine of leases: caps, soft deadlines, strikes."""

from hostler.domain.lease import Activated, ClosingBegun, Granted, Shifted, State, Struck, UndoBegun
from hostler.domain.lease_machine import decide
from hostler.domain.step import FenceNumber, HoldHost
from hostler.domain.values import Priority
from tests.fakes.leases import NOW, active, lease

GRANTED = Granted(fence=FenceNumber(epoch="e1", generation=7), plan=(HoldHost(host="crow"),))
WINDOW = lease(mode="heavy", drain_before_s=600.0)


def test_a_cap_counts_from_the_grant() -> None:
    """WIN-2: hard end and soft deadline stand from the grant on, and the activation changes neither."""
    granted = decide(WINDOW, GRANTED, NOW).lease
    assert (granted.hard, granted.soft, granted.limited_by) == (NOW.plus(3600), NOW.plus(3000), "cap")
    late = NOW.plus(900)
    opened_ = decide(granted, Activated(hard=granted.hard, limited_by="cap"), late).lease
    assert (opened_.expires, opened_.hard) == (granted.hard, granted.hard)
    assert decide(lease(), GRANTED, NOW).lease.hard is None


def test_a_fence_moves_no_cap() -> None:
    """LEASE-28, WIN-2: of a lease it moves the end, of a window it does not."""
    cap = NOW.plus(3600)
    shifted = decide(active(mode="heavy", hard=cap, limited_by="cap"), Shifted(seconds=600.0), NOW).lease
    assert (shifted.hard, shifted.expires) == (cap, cap)


def test_strikes_and_the_soft_deadline_are_told() -> None:
    """WIN-2, WIN-6: each once, with high priority, and in the lease's facts."""
    window = active(mode="heavy", hard=NOW.plus(3600), soft=NOW)
    closing = decide(window, ClosingBegun(), NOW)
    assert closing.lease.closing
    assert [(it.type, it.priority) for it in closing.events] == [("window_closing", Priority.HIGH)]
    assert closing.events[0].facts["closing"] is True
    assert "its cap is in 60 min" in closing.events[0].message
    assert decide(closing.lease, ClosingBegun(), NOW).events == ()
    struck = decide(closing.lease, Struck(note="bots came up", actor="guard"), NOW)
    assert struck.lease.strikes == ("bots came up",)
    assert (struck.events[0].type, struck.events[0].facts["strikes"]) == ("window_strike", ["bots came up"])
    assert struck.events[0].message == "Strike 1 against the window of kim in heavy: bots came up."
    endless = decide(active(mode="heavy", hard=None), ClosingBegun(), NOW)
    assert "in some time" in endless.events[0].message


def test_an_aborted_window_is_urgent() -> None:
    """WIN-6: its note carries the true reason."""
    window = active(mode="heavy")
    made = decide(window, UndoBegun(ending=State.CANCELLED, why="aborted: bots came up again"), NOW)
    assert (made.events[0].priority, made.lease.cause) == (Priority.URGENT, "aborted: bots came up again")
    closed = decide(window, UndoBegun(ending=State.RELEASED, why="closed"), NOW)
    assert closed.events[0].priority is None
