from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.lease import Lease, Slot, State
from hostler.domain.moment import left
from hostler.domain.queue import LEVEL_S, Place, next_up, order, places
from tests.fakes.leases import NOW, lease

BOXES = ("crow", "raven", "disk")
COVERS = st.sets(st.sampled_from(BOXES), min_size=1).map(lambda it: tuple(sorted(it)))


def waiting(name: str, number: int = 0, **keys: int) -> Lease:
    """A place in the queue, made `ago` seconds ago, with a `priority`."""
    ago = keys.get("ago", 0)
    return lease(name, number=number, created=NOW.plus(-ago), priority=keys.get("priority", 0))


def names(leases: list[Lease]) -> list[str]:
    return [str(it.id) for it in leases]


CLAIMS = st.lists(st.tuples(COVERS, st.integers(0, 9), st.floats(0, 20_000)), max_size=12).map(
    lambda rows: [
        lease(f"ls-{n}", number=n, covers=covers, priority=priority, created=NOW.plus(-ago))
        for n, (covers, priority, ago) in enumerate(sorted(rows, key=lambda row: -row[2]), start=1)
    ]
)


def test_first_come_first_served() -> None:
    """LEASE-23, R41: of the same priority who came first is first, by number, not by what a list says."""
    line = [waiting("c", 3), waiting("a", 1), waiting("b", 2)]
    assert names(order(line, NOW)) == ["a", "b", "c"]


def test_priority_goes_before() -> None:
    """LEASE-23: a higher priority goes before who came earlier, until that one has waited long enough."""
    early, urgent = waiting("early", 1, ago=1799), waiting("urgent", 2, priority=1)
    assert names(order([early, urgent], NOW)) == ["urgent", "early"]
    assert names(order([early, urgent], NOW.plus(1))) == ["early", "urgent"]


@given(CLAIMS.flatmap(lambda line: st.tuples(st.just(line), st.permutations(line))))
def test_the_order_is_one_whatever_the_list(drawn: tuple[list[Lease], list[Lease]]) -> None:
    """LEASE-23: the order is of all that wait, each once, and does not hang on the list it came in."""
    line, mixed = drawn
    assert order(mixed, NOW) == order(line, NOW)
    assert sorted(names(order(mixed, NOW))) == sorted(names(line))


@given(CLAIMS, st.floats(0, 50_000))
def test_nobody_waits_for_ever(line: list[Lease], later: float) -> None:
    """F29: whoever came 30 min per level of difference before another is before it, always."""
    now = NOW.plus(later)
    ordered = names(order(line, now))
    for a in line:
        for b in line:
            ahead = left(b.created, a.created)
            if a.number < b.number and ahead >= max(0, b.priority - a.priority) * LEVEL_S:
                assert ordered.index(str(a.id)) < ordered.index(str(b.id))


def test_a_stream_of_priority_does_not_starve() -> None:
    """F29: against a stream of the highest priority, the lowest is served within nine levels of waiting."""
    low = waiting("low", 1)
    for n in range(2, 2000):
        now = NOW.plus(n * 60)
        stream = [replace(low, id=lease(f"s-{n}").id, number=n, priority=9, created=now)]
        if order([low, *stream], now)[0] is low:
            assert left(now, low.created) <= 9 * LEVEL_S + 60
            return
    pytest.fail("the low one was never served")


def test_bookings_that_have_begun_come_first() -> None:
    """LEASE-26: a booking stands in line from its start on, before all places; before that it does not."""
    begun = lease("begun", state=State.SCHEDULED, slot=Slot(start=NOW.at, end=NOW.plus(60).at))
    older = lease("older", state=State.SCHEDULED, slot=Slot(start=NOW.plus(-5).at, end=NOW.plus(60).at))
    future = lease("future", state=State.SCHEDULED, slot=Slot(start=NOW.plus(1).at, end=NOW.plus(60).at))
    place = waiting("place", 1, priority=9, ago=100_000)
    assert names(order([place, future, begun, older], NOW)) == ["older", "begun", "place"]


def test_a_clock_behind_makes_nobody_older() -> None:
    """LEASE-21: a place that seems to come from the future has waited no time."""
    ahead = lease("ahead", number=2, created=NOW.plus(50_000))
    assert names(order([ahead, waiting("a", 1)], NOW)) == ["a", "ahead"]
    assert names(order([ahead, waiting("b", 3)], NOW)) == ["ahead", "b"]


def claim(name: str, *covers: str) -> Lease:
    return lease(name, covers=covers)


def test_a_pair_takes_its_turn_on_both() -> None:
    """LEASE-3, F27: a pair behind one held box keeps the other for itself: later ones wait behind it."""
    pair, small, other = claim("pair", "crow", "raven"), claim("small", "raven"), claim("other", "disk")
    assert next_up([pair, small, other], {"crow"}) == [other]
    assert next_up([pair, small, other], set()) == [pair, other]
    assert next_up([small, pair, other], {"crow"}) == [small, other]


@given(CLAIMS, st.sets(st.sampled_from(BOXES)))
def test_grants_never_meet_and_pass_nobody(line: list[Lease], taken: set[str]) -> None:
    """LEASE-7, F27, R41: who is next covers nothing taken, nor anything of anybody before it in the line."""
    free = next_up(line, taken)
    for it in free:
        assert not set(it.covers) & taken
        before = line[: line.index(it)]
        assert not any(set(it.covers) & set(other.covers) for other in before)


@given(CLAIMS, st.sets(st.sampled_from(BOXES)))
def test_whoever_waits_has_a_reason(line: list[Lease], taken: set[str]) -> None:
    """LEASE-23, F27: who is not next covers something taken, or of somebody before it: no more is blocked."""
    free = next_up(line, taken)
    for n, it in enumerate(line):
        if it not in free:
            before = {cover for other in line[:n] for cover in other.covers}
            assert set(it.covers) & (taken | before)


@given(CLAIMS)
def test_everybody_gets_a_turn(line: list[Lease]) -> None:
    """F27: served in rounds of who is next, all are served: no pair and box wait in a circle."""
    rounds = 0
    while line:
        free = next_up(line, frozenset())
        assert line[0] in free
        line = [it for it in line if it not in free]
        rounds += 1
    assert rounds <= 12


def test_places_count_those_before_on_the_same_thing() -> None:
    """LEASE-23, R41: the place counts from 1 among those that want any of the same; others do not count."""
    line = [claim("a", "crow"), claim("b", "disk"), claim("pair", "crow", "raven"), claim("d", "raven")]
    assert [places(line, it.covers)[it.id].n for it in line] == [1, 1, 2, 2]
    assert claim("e", "crow").id not in places(line, ("crow",))


def test_a_place_says_how_long_those_before_asked_for() -> None:
    """LEASE-23: the times of those before add up; behind one without an end nobody knows."""
    first, endless = claim("a", "crow"), replace(claim("b", "crow"), ttl_s=None)
    last = claim("c", "crow")
    found = places([first, endless, last], ("crow",))
    assert [found[it.id] for it in (first, endless)] == [Place(1, 0.0), Place(2, first.ttl_s)]
    assert found[last.id] == Place(3, None)
