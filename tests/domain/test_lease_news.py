from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.errors import IllegalTransition
from hostler.domain.events import TYPES, Event
from hostler.domain.lease import (
    Activated,
    Lease,
    LeaseEvent,
    Restored,
    RestoreFailed,
    State,
    UndoBegun,
    Waited,
    Warned,
)
from hostler.domain.lease_facts import picture
from hostler.domain.lease_machine import EVENTS, decide, opened
from hostler.domain.lease_news import LONGEST, TYPE_OF
from hostler.domain.step import CallWebhook
from hostler.domain.values import Priority
from hostler.wire.values import dump
from tests.domain.test_lease_machine import EVENT, FAILING, SLOT
from tests.fakes.leases import NOW, active, lease

NAMES = st.lists(st.sampled_from(sorted(EVENT)), max_size=14)


def main_of(before: Lease, event: LeaseEvent) -> Event:
    return decide(before, event, NOW).events[-1]


def test_every_event_has_a_type() -> None:
    """FEED-3: each event of the machine is told by a type that the log knows."""
    assert set(TYPE_OF) == set(EVENTS)
    assert set(TYPE_OF.values()) <= set(TYPES)


@given(NAMES, st.booleans())
def test_the_facts_add_up(names: list[str], booked: bool) -> None:
    """FEED-3: the first picture and the facts of all later events give the last picture and state."""
    now = NOW
    it = lease(state=State.SCHEDULED, slot=SLOT) if booked else lease(place=NOW.plus(50))
    first = opened(it, now).events[0]
    seen, state = dict(first.facts), first.after
    for name in names:
        now = now.plus(7.25)
        try:
            made = decide(it, EVENT[name], now)
        except IllegalTransition:
            continue
        for event in made.events:
            assert event.before == it.state
            dump(event.facts)
            state = event.after
            seen |= event.facts
        it = made.lease
    told = picture(it, now)
    assert {name: seen[name] for name in told} == dict(told)
    assert state == it.state


def test_only_what_changed_is_told() -> None:
    """FEED-3: facts are what changed, as absolute values, and what the event itself says."""
    event = main_of(active(), Warned(offset=300.0))
    assert dict(event.facts) == {"warned": [300.0], "offset_s": 300.0}
    assert event.subject == {"lease": "ls-1", "resource": "pair"}
    assert (event.before, event.after, event.at, event.actor) == ("active", "active", NOW.at, "schedule")


def test_no_secret_is_told() -> None:
    """FEED-3, SEC-1: neither the hash of a secret nor a plan, whose URLs may hold one, is in any event."""
    it = lease(state=State.QUEUED, plan=(CallWebhook(host="crow", url="https://board.example.net/k3y"),))
    events = [*opened(it, NOW).events]
    for name in ("granted", "activated", "undo", "restored"):
        made = decide(it, EVENT[name], NOW)
        it, events = made.lease, events + list(made.events)
    text = repr([(event.message, dict(event.facts)) for event in events])
    assert it.secret not in text
    assert it.digest not in text
    assert "k3y" not in text


def notices(before: Lease, name: str) -> list[tuple[Priority, str]]:
    made = decide(before, EVENT[name], NOW)
    return [(it.priority, it.once or "") for it in made.events if it.priority is not None]


RELEASING = lease(state=State.RELEASING, ending=State.EXPIRED)


@pytest.mark.parametrize(
    ("before", "name", "priority", "once"),
    [
        (lease(), "offered", Priority.HIGH, "offered ls-1 2026-09-04T20:01:00.000Z"),
        (active(), "warned", Priority.HIGH, "expiring ls-1 300 2026-09-04T21:00:00.000Z"),
        (active(), "reminded", Priority.NORMAL, "reminder ls-1 2026-09-04T20:00:00.000Z"),
        (RELEASING, "failed", Priority.URGENT, "stuck ls-1 3"),
        (RELEASING, "interrupted", Priority.URGENT, "stuck ls-1 restart"),
        (RELEASING, "restored", Priority.HIGH, "ended ls-1"),
    ],
)
def test_what_is_a_notice(before: Lease, name: str, priority: Priority, once: str) -> None:
    """LEASE-19, R40: an offer, a warning, a reminder, stuck and expired are notices, each once."""
    assert notices(before, name) == [(priority, once)]


def test_what_is_no_notice() -> None:
    """LEASE-19: what a holder asked for is told to the log alone."""
    assert notices(active(), "undo") == notices(lease(), "waited") == notices(lease(), "granted") == []


def test_a_second_try_at_the_same_step_is_no_second_notice() -> None:
    """R40: stuck again at the same step is the same notice, at another step another one."""
    stuck = decide(RELEASING, RestoreFailed(failing=FAILING), NOW)
    tried = decide(stuck.lease, UndoBegun(ending=State.RELEASED), NOW).lease
    again = decide(tried, RestoreFailed(failing=FAILING), NOW.plus(60))
    assert stuck.events[-1].once == again.events[-1].once == "stuck ls-1 3"
    assert "stuck at start fast-4b: wanted ready, seen failed" in stuck.events[-1].message


def test_drift_is_told_beside_the_end() -> None:
    """LEASE-11, R30: what was left as somebody had made it is an event by name, before the end is told."""
    made = decide(RELEASING, Restored(drift=("route chat is on cloud, not away",)), NOW)
    drifted, over = made.events
    assert (drifted.type, drifted.before, drifted.after) == ("lease_drifted", "releasing", "releasing")
    assert "route chat is on cloud, not away" in drifted.message
    assert (over.type, over.before, over.after) == ("lease_ended", "releasing", "expired")
    known = lease(state=State.RELEASING, ending=State.RELEASED, drift=("x",))
    assert [it.type for it in decide(known, Restored(drift=("x",)), NOW).events] == ["lease_ended"]


def test_an_abandoned_lease_names_what_was_not_undone() -> None:
    """LEASE-14: freeing a stuck lease names the operator's reason and each step that was not undone."""
    made = decide(lease(state=State.STUCK, ending=State.EXPIRED), EVENT["abandoned"], NOW)
    abandoned, over = made.events
    assert (abandoned.type, over.type) == ("lease_abandoned", "lease_ended")
    assert abandoned.facts == {"because": "the box is gone", "unverified": ["start fast-4b"]}


def messages() -> Mapping[str, str]:
    """The sentence of one change of each kind."""
    made = {
        "queued": opened(lease(), NOW),
        "booked": opened(lease(state=State.SCHEDULED, slot=SLOT), NOW),
        "waited": decide(lease(), EVENT["waited"], NOW),
        "offered": decide(lease(), EVENT["offered"], NOW),
        "granted": decide(lease(), EVENT["granted"], NOW),
        "place": decide(lease(), EVENT["renewed"], NOW),
        "active": decide(lease(state=State.ACTIVATING), EVENT["activated"], NOW),
        "endless": decide(lease(state=State.ACTIVATING, ttl_s=None), Activated(hard=None), NOW),
        "warned": decide(active(), EVENT["warned"], NOW.plus(3000)),
        "reminded": decide(active(), EVENT["reminded"], NOW.plus(3 * 86_400)),
        "shifted": decide(active(), EVENT["shifted"], NOW),
        "dropped": decide(lease(), EVENT["dropped"], NOW),
    }
    return {name: it.events[-1].message for name, it in made.items()}


def test_the_sentences() -> None:
    """FEED-3: each event has a short sentence that says who, what, and until when or why."""
    assert messages() == {
        "queued": "kim waits for pair.",
        "booked": "kim has booked pair from 2026-09-04T20:10:00.000Z to 2026-09-04T21:10:00.000Z.",
        "waited": "kim is first in line for pair: crow is held by sam.",
        "offered": "pair is kept for kim.",
        "granted": "kim gets pair; its steps begin.",
        "place": "The place of kim for pair is kept for 2 min.",
        "active": "kim has pair for 60 min.",
        "endless": "kim has pair for as long as it takes.",
        "warned": "The lease of kim on pair expires in 10 min.",
        "reminded": "kim has had pair for 3 d, without an end.",
        "shifted": "30 s under the fence do not count for kim on pair.",
        "dropped": "The lease of kim on pair is over, lapsed.",
    }


def test_a_sentence_is_bounded_and_plain() -> None:
    """FEED-3, SEC-1: a holder's label or a reason cannot make a message long, nor hide or move text in it."""
    it = lease(holder="\x1b[2J" + "x" * 500)
    event = main_of(it, Waited(why="\u202e" * 600))
    assert len(event.message) <= LONGEST
    assert event.message.isprintable()


def test_a_message_of_nobody_names_the_key() -> None:
    """FEED-3: a lease without a holder's label is told by the name of its key."""
    assert opened(lease(holder=""), NOW).events[0].message == "bench waits for pair."


def test_states_follow_one_another() -> None:
    """FEED-3: each event's `before` is the state that the one before it left."""
    it, told = lease(), list(opened(lease(), NOW).events)
    for name in ("offered", "granted", "activated", "undo", "failed", "undo", "restored"):
        made = decide(it, EVENT[name], NOW)
        it, told = made.lease, told + list(made.events)
    assert all(earlier.after == later.before for earlier, later in pairwise(told))
