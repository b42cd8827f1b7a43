from dataclasses import replace

import pytest

from hostler.domain.errors import IllegalTransition
from hostler.domain.lease import (
    Abandoned,
    Activated,
    CancelAsked,
    ClosingBegun,
    Dropped,
    Effect,
    Failing,
    Granted,
    Interrupted,
    Lease,
    LeaseEvent,
    Offered,
    Reminded,
    Renewed,
    Restored,
    RestoreFailed,
    Shifted,
    Slot,
    State,
    Struck,
    TurnedBack,
    UndoBegun,
    Waited,
    Warned,
)
from hostler.domain.lease_machine import EFFECTS, EVENTS, INITIAL, TRANSITIONS, decide, opened
from hostler.domain.step import FenceNumber, HoldHost
from tests.fakes.leases import NOW, active, lease

FENCE = FenceNumber(epoch="e1", generation=7)
FAILING = Failing(n=3, step="start fast-4b", wanted="ready", seen="failed")
LATER = NOW.plus(60)
SLOT = Slot(start=NOW.plus(600).at, end=NOW.plus(4200).at)

EVENT = {
    "waited": Waited(why="crow is held by sam"),
    "offered": Offered(until=LATER),
    "granted": Granted(fence=FENCE, plan=(HoldHost(host="crow"),)),
    "activated": Activated(hard=NOW.plus(7200), limited_by="max"),
    "renewed": Renewed(place=NOW.plus(120)),
    "warned": Warned(offset=300.0),
    "reminded": Reminded(),
    "shifted": Shifted(seconds=30.0),
    "closing": ClosingBegun(),
    "struck": Struck(note="bots came up"),
    "cancel": CancelAsked(),
    "undo": UndoBegun(ending=State.EXPIRED),
    "restored": Restored(),
    "failed": RestoreFailed(failing=FAILING),
    "interrupted": Interrupted(),
    "abandoned": Abandoned(because="the box is gone", unverified=("start fast-4b",)),
    "dropped": Dropped(ending=State.LAPSED),
    "turned": TurnedBack(why="a fence is up"),
}

# One row per state, written out by hand: what each event leads to; an event that is not there raises.
# The lease has no slot, and its ending is EXPIRED where it has one.
EXPECTED = {
    "scheduled": "waited:scheduled offered:offered shifted:scheduled dropped:lapsed",
    "queued": "waited:queued offered:offered granted:activating renewed:queued shifted:queued dropped:lapsed",
    "offered": "granted:activating renewed:offered shifted:offered dropped:lapsed turned:queued",
    "activating": "activated:active shifted:activating cancel:activating undo:releasing interrupted:stuck",
    "active": "renewed:active warned:active reminded:active shifted:active undo:releasing"
    " closing:active struck:active",
    "releasing": "shifted:releasing restored:expired failed:stuck interrupted:stuck",
    "stuck": "shifted:stuck undo:releasing abandoned:expired",
    "released": "",
    "expired": "",
    "failed": "",
    "cancelled": "",
    "lapsed": "",
}
GOES = {state: dict(pair.split(":") for pair in row.split()) for state, row in EXPECTED.items()}
PAIRS = [(state, name, GOES[state].get(name)) for state in EXPECTED for name in EVENT]


def in_state(state: State) -> Lease:
    """A lease as it may stand in `state`."""
    ending = State.EXPIRED if state in (State.RELEASING, State.STUCK) else None
    return lease(state=state, ending=ending)


@pytest.mark.parametrize(("state", "name", "target"), PAIRS)
def test_every_pair(state: str, name: str, target: str | None) -> None:
    """LEASE-6: every pair of state and event goes where the table says, or raises and changes nothing."""
    before = in_state(State(state))
    if target is None:
        with pytest.raises(IllegalTransition, match=f"lease that is {state} cannot take"):
            decide(before, EVENT[name], NOW)
    else:
        made = decide(before, EVENT[name], NOW)
        assert made.lease.state is State(target)
        assert made.lease.id == before.id


def test_the_pairs_are_all_pairs() -> None:
    """LEASE-6: the test's table has each state and each event that the machine has, and no other."""
    assert {type(event) for event in EVENT.values()} == set(EVENTS)
    assert {it.__name__ for it in EVENTS} == {it.__name__ for it in LeaseEvent.__subclasses__()}
    assert {State(name) for name in EXPECTED} == set(State) == set(TRANSITIONS)
    assert set(EFFECTS) <= set(EVENTS)


def reached(*start: State) -> set[State]:
    seen, todo = set(start), list(start)
    while todo:
        new = {state for targets in TRANSITIONS[todo.pop()].values() for state in targets} - seen
        seen |= new
        todo += new
    return seen


def test_every_state_can_be_reached_and_left() -> None:
    """LEASE-6: each state is reached from a booking or the queue; a live one can end, and an end stays."""
    assert reached(*INITIAL) == set(State)
    for state in State:
        assert bool(TRANSITIONS[state]) is not state.ended
        assert any(target.ended for target in reached(state))


def test_what_holds_came_through_a_grant_or_an_offer() -> None:
    """LEASE-7: only an offer and a grant lead from a state that holds nothing to one that holds."""
    into = {
        event
        for state, moves in TRANSITIONS.items()
        for event, targets in moves.items()
        for target in targets
        if target.holds and not state.holds
    }
    assert into == {Offered, Granted}


def test_what_a_state_means() -> None:
    """LEASE-6, LEASE-7: a state holds its resources, waits for them, or is over: one of the three."""
    assert {state for state in State if state.waits} == set(INITIAL)
    assert {state for state in State if state.ended} == {it for it in State if not TRANSITIONS[it]}
    assert all([state.holds, state.waits, state.ended].count(True) == 1 for state in State)


def test_fence_numbers_have_an_order() -> None:
    """LEASE-8: of two grants the later epoch is the higher one, within an epoch the higher generation."""
    last = FenceNumber(epoch="e1", generation=99)
    assert FENCE.order < last.order < FenceNumber(epoch="e2", generation=1).order


def test_stuck_is_left_only_by_a_release_or_an_operator() -> None:
    """LEASE-14, R32: no event of time leads out of stuck: only a release and an operator's abandon do."""
    leads = {event for event, targets in TRANSITIONS[State.STUCK].items() if set(targets) != {State.STUCK}}
    assert leads == {UndoBegun, Abandoned}


@pytest.mark.parametrize("ending", [State.QUEUED, State.LAPSED, State.ACTIVE, State.STUCK])
def test_an_undo_ends_as_an_end(ending: State) -> None:
    """LEASE-6: an undo cannot be begun for an ending that is none of a granted lease."""
    with pytest.raises(IllegalTransition, match="active cannot take UndoBegun"):
        decide(active(), UndoBegun(ending=ending), NOW)


@pytest.mark.parametrize("ending", [State.RELEASED, State.EXPIRED, State.QUEUED])
def test_a_place_is_never_released(ending: State) -> None:
    """LEASE-6: what was never granted can be called off, lapse or fail, and nothing else."""
    with pytest.raises(IllegalTransition, match="queued cannot take Dropped"):
        decide(lease(), Dropped(ending=ending), NOW)


@pytest.mark.parametrize("ending", [State.CANCELLED, State.LAPSED, State.FAILED])
def test_how_a_place_ends(ending: State) -> None:
    """LEASE-24, R43, R59: a place ends as its event says, with the reason, and is worth nothing more."""
    made = decide(lease(place=LATER, offer=LATER), Dropped(ending=ending, why="no profile"), NOW)
    assert (made.lease.state, made.lease.cause, made.lease.ended) == (ending, "no profile", NOW)
    assert (made.lease.place, made.lease.offer) == (None, None)
    assert made.effects == {Effect.PROMOTE, Effect.WAKE}


def test_an_event_of_no_kind_is_refused() -> None:
    """LEASE-6: a bare event is no event of the machine."""
    with pytest.raises(IllegalTransition, match="queued cannot take LeaseEvent"):
        decide(lease(), LeaseEvent(), NOW)


# ---------------------------------------------------------------- waiting


def test_waiting_says_why() -> None:
    """LEASE-23: a condition that keeps the first in line is told once, and again when it is gone."""
    first = decide(lease(), Waited(why="crow is held by sam"), NOW)
    assert first.lease.cause == "crow is held by sam"
    assert [event.type for event in first.events] == ["lease_waiting"]
    again = decide(first.lease, Waited(why="crow is held by sam"), NOW)
    assert (again.lease, again.events, again.effects) == (first.lease, (), frozenset())
    gone = decide(first.lease, Waited(why=""), NOW)
    assert (gone.lease.cause, len(gone.events)) == ("", 1)


def test_an_offer_and_its_way_back() -> None:
    """LEASE-24: an offer stands until its time; taken back, it waits first in line with the reason."""
    made = decide(lease(cause="held", place=LATER), Offered(until=LATER), NOW)
    assert (made.lease.offer, made.lease.cause) == (LATER, "")
    assert made.effects == {Effect.WAKE}
    back = decide(made.lease, TurnedBack(why="a fence is up"), NOW)
    assert (back.lease.state, back.lease.offer, back.lease.place) == (State.QUEUED, None, LATER)
    assert back.lease.cause == "a fence is up"


def test_a_booking_goes_back_to_the_calendar() -> None:
    """LEASE-26: the offer of a booking that is taken back leaves it scheduled."""
    booked = lease(state=State.OFFERED, slot=SLOT)
    assert decide(booked, TurnedBack(why="held"), NOW).lease.state is State.SCHEDULED


def test_a_grant_captures_fence_and_plan() -> None:
    """LEASE-5, LEASE-8: a grant gives the fence number and the plan; the place and the offer are used up."""
    made = decide(lease(state=State.OFFERED, place=LATER, offer=LATER, cause="x"), EVENT["granted"], NOW)
    it = made.lease
    assert (it.fence, it.plan, it.place, it.offer, it.cause) == (
        FENCE,
        (HoldHost(host="crow"),),
        None,
        None,
        "",
    )
    assert made.effects == {Effect.ACTIVATE, Effect.WAKE}


def test_a_place_is_renewed() -> None:
    """LEASE-24, R43: a renewed place is kept until its new time, and nothing else changes."""
    made = decide(lease(place=NOW), Renewed(place=LATER), NOW)
    assert made.lease == lease(place=LATER)


# ---------------------------------------------------------------- active


@pytest.mark.parametrize(
    ("ttl_s", "hard_s", "ends_s"),
    [(3600.0, 7200.0, 3600.0), (3600.0, 1800.0, 1800.0), (None, None, None), (None, 900.0, 900.0)],
)
def test_the_time_counts_from_activation(
    ttl_s: float | None, hard_s: float | None, ends_s: float | None
) -> None:
    """LEASE-17, R47: it expires its TTL after activation, never past its hard end; without either, never."""
    hard = None if hard_s is None else NOW.plus(hard_s)
    waited = lease(state=State.ACTIVATING, ttl_s=ttl_s, created=NOW.plus(-999), warned=(900.0,))
    made = decide(waited, Activated(hard=hard, limited_by="booking"), NOW).lease
    assert made.activated == NOW
    assert made.expires == (None if ends_s is None else NOW.plus(ends_s))
    assert (made.hard, made.limited_by, made.warned) == (hard, "booking", ())


def test_a_cancelled_activation_never_becomes_active() -> None:
    """LEASE-16, R60: once its cancel was asked for, an activation can only be put back."""
    asked = decide(lease(state=State.ACTIVATING), CancelAsked(), NOW)
    assert (asked.lease.cancelled, asked.lease.cause, asked.effects) == (True, "cancelled", frozenset())
    with pytest.raises(IllegalTransition, match="activating cannot take Activated"):
        decide(asked.lease, EVENT["activated"], NOW)
    again = decide(asked.lease, CancelAsked(why="again"), NOW)
    assert (again.lease, again.events) == (asked.lease, ())
    undone = decide(asked.lease, UndoBegun(ending=State.CANCELLED), NOW).lease
    assert (undone.state, undone.ending, undone.cause) == (State.RELEASING, State.CANCELLED, "cancelled")
    assert decide(undone, Restored(), NOW).lease.state is State.CANCELLED


def test_a_renewal_arms_the_warnings_again() -> None:
    """LEASE-19, R49: when the expiry moves, what was told counts no more; when it does not, it does."""
    told = decide(decide(active(), Warned(offset=900.0), NOW).lease, Warned(offset=300.0), NOW).lease
    assert told.warned == (900.0, 300.0)
    moved = decide(told, Renewed(expires=NOW.plus(5000)), NOW).lease
    assert (moved.warned, moved.expires) == ((), NOW.plus(5000))
    assert decide(told, Renewed(expires=told.expires), NOW).lease == told
    assert decide(told, Warned(offset=300.0), NOW).events == ()


def test_a_renewal_may_move_the_hard_end() -> None:
    """LEASE-17: a renewal that found another hard end brings it and what it is; without one both stay."""
    moved = decide(active(), Renewed(hard=LATER, limited_by="booking"), NOW).lease
    assert (moved.hard, moved.limited_by) == (LATER, "booking")
    assert decide(moved, Renewed(expires=LATER), NOW).lease.limited_by == "booking"


def test_a_reminder_is_remembered() -> None:
    """LEASE-18, R56: a reminder says when, so that the next one is a day later."""
    made = decide(active(expires=None, hard=None, ttl_s=None), Reminded(), LATER)
    assert made.lease.reminded == LATER
    assert [event.type for event in made.events] == ["lease_reminder"]


def test_a_fence_moves_what_counts() -> None:
    """LEASE-28: the time under a fence is added to place, offer, activation, expiry and hard end."""
    it = active(place=NOW, offer=LATER, warned=(300.0,), slot=SLOT)
    made = decide(it, Shifted(seconds=30.0), NOW).lease
    assert (made.place, made.offer) == (NOW.plus(30), LATER.plus(30))
    assert (made.activated, made.expires, made.hard) == (NOW.plus(30), NOW.plus(3630), NOW.plus(14_430))
    assert (made.slot, made.warned, made.created) == (SLOT, (), NOW)


def test_a_fence_moves_no_booking() -> None:
    """LEASE-26, LEASE-28: a hard end that somebody's booking sets is a wall-clock time, and stays."""
    it = active(hard=NOW.plus(3610), limited_by="booking")
    made = decide(it, Shifted(seconds=30.0), NOW).lease
    assert (made.hard, made.expires) == (NOW.plus(3610), NOW.plus(3610))
    nothing = decide(made, Shifted(seconds=0.0), NOW)
    assert (nothing.lease, nothing.events) == (made, ())


# ---------------------------------------------------------------- put back


def test_a_release_and_its_end() -> None:
    """LEASE-13: what is put back and verified ends as it was asked to, with its reason, and frees."""
    begun = decide(active(), UndoBegun(ending=State.RELEASED, why="reboot", actor="kim"), NOW)
    assert (begun.lease.ending, begun.lease.cause) == (State.RELEASED, "reboot")
    assert begun.effects == {Effect.RESTORE, Effect.WAKE}
    over = decide(begun.lease, Restored(drift=("route chat is on cloud",)), LATER)
    assert (over.lease.state, over.lease.cause, over.lease.ended) == (State.RELEASED, "reboot", LATER)
    assert over.lease.drift == ("route chat is on cloud",)
    assert over.effects == {Effect.PROMOTE, Effect.WAKE}


def test_a_stuck_lease_keeps_its_ending() -> None:
    """LEASE-14, R51: a failed restore is stuck; the release that succeeds later ends it as it was to end."""
    releasing = lease(state=State.RELEASING, ending=State.EXPIRED, cause="its time was up", drift=("a", "c"))
    stuck = decide(releasing, RestoreFailed(failing=FAILING, drift=("b", "a")), NOW).lease
    assert (stuck.failing, stuck.cause, stuck.drift) == (FAILING, "its time was up", ("a", "c", "b"))
    again = decide(stuck, UndoBegun(ending=State.RELEASED), NOW).lease
    assert (again.ending, again.failing, again.cause) == (State.EXPIRED, None, "its time was up")
    assert decide(again, Restored(), NOW).lease.state is State.EXPIRED


@pytest.mark.parametrize(
    ("before", "ending"),
    [
        (lease(state=State.ACTIVATING), State.FAILED),
        (lease(state=State.ACTIVATING, cancelled=True), State.CANCELLED),
        (lease(state=State.RELEASING, ending=State.RELEASED), State.RELEASED),
    ],
)
def test_a_restart_in_the_middle_is_stuck(before: Lease, ending: State) -> None:
    """LEASE-14, R35: a restart in the middle of a step leaves it stuck, with the ending it was going to."""
    made = decide(before, Interrupted(), NOW)
    assert (made.lease.state, made.lease.cause, made.lease.ending) == (State.STUCK, "restart", ending)
    assert Effect.RESTORE not in made.effects
    assert Effect.PROMOTE not in made.effects


def test_what_came_without_an_ending_is_released() -> None:
    """LEASE-14: a stuck lease that was taken in from a receipt, without an ending, ends as released."""
    made = decide(lease(state=State.STUCK), EVENT["abandoned"], NOW)
    assert (made.lease.state, made.lease.cause) == (State.RELEASED, "abandoned: the box is gone")
    assert made.effects == {Effect.PROMOTE, Effect.WAKE}
    released = decide(lease(state=State.STUCK), UndoBegun(ending=State.CANCELLED), NOW).lease
    assert released.ending is State.CANCELLED


def test_a_failed_restore_has_a_cause() -> None:
    """LEASE-14: a release without a reason that fails says that it was the restore."""
    releasing = lease(state=State.RELEASING, ending=State.RELEASED)
    assert decide(releasing, RestoreFailed(failing=FAILING), NOW).lease.cause == "restore"


@pytest.mark.parametrize("name", ["renewed", "undo"])
def test_renew_and_expiry_in_the_same_instant(name: str) -> None:
    """F05: of a renewal and an expiry that meet, the second finds what the first made: never both."""
    won = decide(active(), EVENT[name], NOW).lease
    if won.state is State.RELEASING:
        with pytest.raises(IllegalTransition):
            decide(won, Renewed(expires=NOW.plus(9000)), NOW)
    else:
        assert decide(won, EVENT["undo"], NOW).lease.state is State.RELEASING


def test_a_new_lease_is_told_whole() -> None:
    """LEASE-23, LEASE-26: a new place and a new booking are told, and whoever promotes looks at once."""
    place, booking = opened(lease(), NOW), opened(replace(lease(), state=State.SCHEDULED, slot=SLOT), NOW)
    assert [event.type for event in (*place.events, *booking.events)] == ["lease_queued", "lease_booked"]
    assert place.effects == booking.effects == {Effect.PROMOTE}
    assert place.lease == lease()
