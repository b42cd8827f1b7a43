"""What is asked of all leases at once, beside what the question means word for word."""

from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.lease import Lease, State
from hostler.domain.queue import Place, order
from hostler.services.scene import Scene
from tests.fakes.leases import NOW
from tests.fakes.leases import lease as made
from tests.fakes.schedule_world import fleet

COVERS = st.lists(st.sampled_from(["pair", "crow", "raven", "disk"]), min_size=1, max_size=3, unique=True)
ASKED = st.lists(st.tuples(COVERS, st.sampled_from([it for it in State if not it.ended])), max_size=8)


def meets(one: Lease, other: Lease) -> bool:
    return not set(one.covers).isdisjoint(other.covers)


def scene(asked: list[tuple[list[str], State]]) -> Scene:
    """Leases as a store could have them: nothing is held twice."""
    live: list[Lease] = []
    for number, (covers, state) in enumerate(asked, start=1):
        lease = made(f"ls_{number}", number=number, covers=tuple(covers), state=state)
        if not (state.holds and any(each.state.holds and meets(each, lease) for each in live)):
            live.append(lease)
    return Scene(fleet=fleet(), live=live, fence=None, now=NOW)


@given(ASKED)
def test_every_question_is_answered_word_for_word(asked: list[tuple[list[str], State]]) -> None:
    """LEASE-23, R41: who holds, who is in the way, who waits before whom: as a look at every lease says."""
    it = scene(asked)
    waiting = order([each for each in it.live if each.state is State.QUEUED], NOW)
    assert it.waiting == waiting
    for name in ("pair", "crow", "raven", "disk"):
        assert list(it.lines.get(name, ())) == [each for each in waiting if name in each.covers]
        booked = [each for each in it.live if each.state is State.SCHEDULED and name in each.covers]
        assert list(it.bookings.get(name, ())) == booked
        holder = next((each for each in it.live if each.state.holds and name in each.covers), None)
        assert it.holder(name) == holder
    for lease in it.live:
        beside = [each for each in waiting if meets(each, lease)]
        stands = it.place(lease)
        if lease.state is State.QUEUED:
            n = [each.id for each in beside].index(lease.id)
            assert stands == Place(n + 1, sum(each.ttl_s or 0.0 for each in beside[:n]))
        else:
            assert stands is None
        others = (each for each in it.live if each.state.holds and each.id != lease.id)
        assert it.in_the_way(lease) == next((each for each in others if meets(each, lease)), None)
