from dataclasses import replace
from datetime import timedelta

import pytest

from hostler.domain.errors import Fenced, Leased, NotLaunchable, Refusal
from hostler.domain.gate import Allow, Ask, decide
from hostler.domain.gate_words import explain
from hostler.domain.hold import HoldRecord, HoldState, HoldView
from hostler.domain.holding import Holding
from hostler.domain.values import Cause, EngineId, ServingClass
from tests.domain.test_gate import FENCE, GOOD, HELD, LEASE, NOW, UNTIL, WHO, live, of, said

OWN = HoldView(
    state=HoldState.HELD,
    path="/run/hold.json",
    record=HoldRecord(
        owner="lease:lease_1", reason="bench", started_at=NOW, expires_at=UNTIL, lease="lease_1"
    ),
    until=UNTIL,
    allow=frozenset({"embed"}),
)


def ask(cause: Cause = Cause.REQUEST, lease: str | None = None) -> Ask:
    return Ask(engine=EngineId("big"), cause=cause, requester=WHO, lease=lease)


STEP = ask(Cause.STEP, "lease_1")


def test_a_leased_engine_starts_for_nobody_else() -> None:
    """LEASE-15: a start of a leased engine is refused `leased`, naming lease, holder and end."""
    found = decide(ask(), replace(GOOD, leased=LEASE))
    assert isinstance(found, Leased)
    assert (found.lease, found.resource, found.holder) == ("lease_1", "pair", "anna")
    assert str(found) == "big is leased: anna has pair until 2026-09-04T21:15:11.000Z."


def test_how_long_a_lease_keeps_it() -> None:
    """GATE-5: `leased` says when to come back, no sooner than in a minute, where the lease has an end."""
    soon = replace(LEASE, until=NOW + timedelta(seconds=5))
    ends = [LEASE, soon, replace(LEASE, until=None)]
    after = [decide(ask(), replace(GOOD, leased=it)) for it in ends]
    assert [it.retry_after for it in after if isinstance(it, Refusal)] == [4200, 60, None]


def test_its_own_lease_does_not_refuse_it() -> None:
    """LEASE-15: the lease that has an engine starts it, and `why` says by whose leave."""
    facts = replace(GOOD, leased=LEASE)
    assert decide(STEP, facts) == Allow()
    row = next(row for row in explain(STEP, facts) if row.name == "leased")
    assert row.text == "the lease lease_1 has it, and asks itself"
    assert said(decide(ask(Cause.STEP, "lease_2"), facts)) == "leased"


def test_a_step_passes_its_own_hold_only() -> None:
    """GATE-3: a step passes the hold that its own lease wrote, and nobody else's."""
    assert decide(STEP, replace(GOOD, hold=OWN)) == Allow()
    assert said(decide(STEP, replace(GOOD, hold=HELD))) == "box_reserved"
    assert said(decide(ask(Cause.STEP, "lease_2"), replace(GOOD, hold=OWN))) == "box_reserved"
    assert said(decide(ask(), replace(GOOD, hold=OWN))) == "box_reserved"


def test_a_step_passes_its_own_suspension_only() -> None:
    """GATE-3: a step passes its own lease's suspension; a person's and another lease's refuse it."""
    assert decide(STEP, replace(GOOD, suspended_by=("lease_1",))) == Allow()
    assert said(decide(STEP, replace(GOOD, suspended_by=("lease_1", "person:anna")))) == "suspended"
    assert said(decide(STEP, replace(GOOD, suspended_by=("lease_2", "lease_1")))) == "leased"


def test_what_a_lease_suspended_under_its_hold() -> None:
    """GATE-1: an engine that a lease suspended is `box_reserved` while the lease's own hold is live."""
    allowed = replace(OWN, allow=frozenset({"big"}))
    facts = replace(GOOD, suspended_by=("lease_1",), leased=LEASE)
    assert said(decide(ask(), replace(facts, hold=OWN))) == "box_reserved"
    assert said(decide(ask(), replace(facts, hold=allowed))) == "box_reserved"


def test_what_a_lease_suspended_without_a_hold() -> None:
    """GATE-1: an engine that a lease suspended is `leased` without a live hold, never `suspended`."""
    facts = replace(GOOD, suspended_by=("lease_1",))
    assert str(decide(ask(), facts)) == (
        "big is leased: the lease lease_1 keeps it suspended and has nothing here any more,"
        " `hostler resume big` ends that."
    )
    other = replace(LEASE, lease="lease_2")
    assert str(decide(ask(lease="lease_2"), replace(facts, leased=other))) == (
        "big is leased: the lease lease_1 keeps it suspended."
    )
    lapsed = replace(OWN, state=HoldState.LAPSED)
    assert said(decide(ask(), replace(facts, hold=lapsed))) == "leased"
    others = replace(HELD, allow=frozenset({"big"}))
    assert said(decide(ask(), replace(facts, hold=others))) == "leased"


def test_a_person_speaks_first() -> None:
    """GATE-1: a person's suspension beside a lease's is told as `suspended`, and names the person alone."""
    found = decide(ask(), replace(GOOD, suspended_by=("lease_1", "person:anna"), hold=OWN))
    assert (said(found), str(found)) == ("suspended", "big is suspended by anna.")


@pytest.mark.parametrize("cause", list(Cause))
def test_a_fence_keeps_timers_only(cause: Cause) -> None:
    """LEASE-28: under a fence no timer starts anything; requests, calls and steps do."""
    found = decide(ask(cause), replace(GOOD, fence=FENCE))
    assert said(found) == ("fenced" if cause.timer else "allow")


def test_until_when_a_fence_is_up() -> None:
    """LEASE-28: the refusal of a timer names the fence's end and reason; one without an end says so."""
    found = decide(ask(Cause.RESIDENCY), replace(GOOD, fence=FENCE))
    assert isinstance(found, Fenced)
    assert (str(found), found.retry_after) == (
        "A fence is up until 2026-09-04T20:35:11.000Z: upgrade.",
        1800,
    )
    endless = decide(ask(Cause.RESIDENCY), replace(GOOD, fence=replace(FENCE, until=None)))
    assert (str(endless), said(endless)) == ("A fence is up until unknown: upgrade.", "fenced")
    row = next(row for row in explain(ask(), replace(GOOD, fence=FENCE)) if row.name == "fence")
    assert row.text == "a fence is up, which keeps only timers from starting anything"


def test_the_holder_is_refused_by_everything_else() -> None:
    """LEASE-15: class, memory and port refuse the holder of a lease as they refuse anybody."""
    facts = replace(GOOD, leased=LEASE, hold=OWN)
    assert said(decide(STEP, of(facts, serving_class=ServingClass.WEDGE_RISK))) == "serving_class_refused"
    assert said(decide(STEP, live(facts, port_holder="pid 4711 (nginx)"))) == "port_conflict"


def test_a_step_names_its_engine() -> None:
    """MEM-2: a step of a lease names its engine, so one whose need is not known is started by it."""
    assert decide(STEP, live(GOOD, need=None)) == Allow()
    assert said(decide(ask(Cause.STEP), live(GOOD, need=None))) == "memory_now"


def test_the_holder_is_who_came_with_its_key() -> None:
    """LEASE-15: naming a lease is not enough: it counts from the key that took it."""
    own = replace(WHO, key="anna", lease="lease_1")
    assert LEASE.is_of(own)
    assert not LEASE.is_of(replace(own, key="bots"))
    assert not LEASE.is_of(replace(own, lease="lease_2"))
    assert not Holding(lease="", resource="pair", holder="anna").is_of(WHO)


# ---------------------------------------------------------------- members of distributed engines


MEMBER = of(GOOD, of=EngineId("wide"))


@pytest.mark.parametrize("cause", [it for it in Cause if it is not Cause.STEP])
def test_a_member_starts_for_nobody_alone(cause: Cause) -> None:
    """ENG-11: a start of a member is refused for every cause, naming the distributed engine."""
    for asked in (ask(cause), ask(cause, "lease_1"), replace(ask(cause), of=EngineId("other"))):
        found = decide(asked, MEMBER)
        assert isinstance(found, NotLaunchable)
        assert found.why == "it is a member of wide and does not start alone"
        assert found.fix == "Start wide."


def test_a_member_starts_with_its_whole_or_by_a_window() -> None:
    """ENG-11: the distributed engine starts its members, and so do a window's steps."""
    assert decide(replace(ask(Cause.API), of=EngineId("wide")), MEMBER) == Allow()
    assert decide(STEP, MEMBER) == Allow()


def test_a_hold_that_allows_the_whole_allows_its_members() -> None:
    """ENG-11, HOLD-5: who is allowed to start a distributed engine may start its members on that host."""
    hold = replace(HELD, allow=frozenset({"wide"}))
    whole = replace(ask(Cause.API), of=EngineId("wide"))
    assert decide(whole, replace(MEMBER, hold=hold)) == Allow()
    assert said(decide(whole, replace(MEMBER, hold=HELD))) == "box_reserved"
    assert said(decide(STEP, replace(MEMBER, hold=hold))) == "box_reserved"


def test_an_engine_of_an_open_window_starts_again_under_the_window_s_own_override() -> None:
    """CAT-5, LEASE-15: its class was named when the window opened; others are told that it is leased."""
    windowed = of(GOOD, serving_class=ServingClass.WINDOWED)
    facts = replace(windowed, leased=replace(LEASE, stop_accepting=None), opened=True)
    assert decide(ask(Cause.API, "lease_1"), facts) == Allow()
    row = next(row for row in explain(ask(Cause.API, "lease_1"), facts) if row.name == "serving_class")
    assert row.text == "it is windowed, and the window that has it named that class"
    assert said(decide(ask(Cause.API), facts)) == "leased"
    assert said(decide(ask(Cause.API, "lease_2"), facts)) == "leased"
    assert said(decide(ask(Cause.REQUEST, "lease_1"), facts)) == "serving_class_refused"
    assert said(decide(ask(Cause.API, "lease_1"), replace(facts, opened=False))) == "serving_class_refused"
