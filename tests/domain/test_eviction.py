from dataclasses import replace
from typing import TypedDict, Unpack

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import Leased, Loading, MemoryNow, NotLaunchable, Refusal
from hostler.domain.eviction import Cannot, Eviction, Running, plan
from hostler.domain.fleet import Engine, Group, Host, Pool
from hostler.domain.memory import Reading, Sizes
from hostler.domain.values import EngineId, HostName

GIB = 1 << 30
CROW = HostName("crow")
NOW = 10_000.0


def host(*groups: Group) -> Host:
    return Host(name=CROW, pools=(Pool(reserve=8 * GIB),), groups={group.name: group for group in groups})


MAIN = Group(name="main", host=CROW, evicts=("extra",), min_resident_s=60.0)
EXTRA = Group(name="extra", host=CROW, min_resident_s=60.0)
HOST = host(MAIN, EXTRA)


class Kept(TypedDict, total=False):
    """Why an engine is not given up."""

    resident: bool
    essential: bool
    pinned: bool
    of: EngineId


class Facts(TypedDict, total=False):
    """What differs from an engine that has been idle for long."""

    state: State
    held: Sizes
    in_flight: int
    used: float
    ready_at: float | None
    load_s: float
    changed_at: float | None
    budget_s: float | None
    leased: bool


def engine(name: str, group: str | None = None, **kept: Unpack[Kept]) -> Engine:
    return Engine(id=EngineId(name), host=CROW, group=group, **kept)


NOTHING: Kept = {}


def running(
    name: str, group: str | None = None, *, gib: int = 10, kept: Kept = NOTHING, **facts: Unpack[Facts]
) -> Running:
    base = Running(
        engine=engine(name, group, **kept),
        state=State.READY,
        held={"host": gib * GIB},
        used=NOW - 1000,
        ready_at=NOW - 5000,
        load_s=10.0,
        changed_at=NOW - 5000,
    )
    return replace(base, **facts)


def room(available: float, total: float = 124) -> dict[str, Reading]:
    return {"host": Reading(total=round(total * GIB), available=round(available * GIB))}


def need(gib: float) -> Sizes:
    return {"host": round(gib * GIB)}


def made(
    *others: Running,
    needs: float = 20,
    available: float = 100,
    wanted: Engine | None = None,
    at: Host = HOST,
) -> Eviction:
    found = plan(wanted or engine("want", "main"), need(needs), others, at, room(available), NOW)
    assert isinstance(found, Eviction), found
    return found


def refused(*others: Running, needs: float = 20, available: float = 100) -> Refusal:
    found = plan(engine("want", "main"), need(needs), others, HOST, room(available), NOW)
    assert isinstance(found, Cannot)
    return found.refusal


def test_an_empty_host_needs_no_stop() -> None:
    """EVICT-2: where there is room and nobody in the way, nobody goes, and the plan carries its sum."""
    found = made()
    assert (found.stop, found.drain, found.fresh_until) == ((), (), None)
    assert found.fit.arithmetic == (
        "needs 20.0 GiB + 8.0 reserve; available 100.0; no engine of ours holds any of 124.0"
    )


def test_members_of_its_group_and_of_those_it_evicts_must_go() -> None:
    """EVICT-1: a start stops its own group and the groups that it evicts, and no other, room or not."""
    found = made(running("b", "main"), running("a", "extra"), running("c", "other"), running("d"))
    assert found.stop == ("a", "b")


def test_eviction_has_a_direction() -> None:
    """EVICT-1: a group that is evicted by another does not evict that one."""
    assert made(running("big", "main"), wanted=engine("want", "extra")).stop == ()


def test_a_group_of_another_host_is_another_group() -> None:
    """EVICT-1: what a group of the same name evicts on another host is not evicted here."""
    assert made(running("a", "extra"), at=host(replace(MAIN, evicts=()))).stop == ()
    assert made(running("a", "main"), running("b", "extra"), at=host()).stop == ("a",)


def test_an_engine_without_group_displaces_nobody() -> None:
    """EVICT-1: engines without a group exclude nobody, not even each other."""
    found = made(running("a"), running("b", "main"), wanted=engine("want"))
    assert found.stop == ()


def test_even_a_resident_member_goes() -> None:
    """EVICT-2: a resident or essential member of the group must go like any other."""
    found = made(
        running("a", "main", kept={"resident": True}), running("b", "main", kept={"essential": True})
    )
    assert found.stop == ("a", "b")


def test_a_busy_member_is_drained_first() -> None:
    """EVICT-2: a member with requests in flight is named for a drain, not cut in its answer."""
    found = made(running("a", "main", in_flight=2), running("b", "main"))
    assert (found.stop, found.drain) == (("a", "b"), ("a",))


@pytest.mark.parametrize("state", [State.DRAINING, State.STOPPING, State.FAILED])
def test_a_member_that_goes_or_failed_is_stopped(state: State) -> None:
    """EVICT-2: a member that was drained, is being stopped, or failed is stopped, joined or made sure of."""
    assert made(running("a", "main", state=state)).stop == ("a",)


def test_what_is_stopped_is_not_looked_at() -> None:
    """EVICT-2: an engine that is stopped is nobody's candidate and holds nothing."""
    found = made(running("a", "main", state=State.STOPPED, kept={"pinned": True}))
    assert found.stop == ()
    assert "no engine of ours" in found.fit.arithmetic


@pytest.mark.parametrize("state", [State.STARTING, State.UNKNOWN])
def test_a_member_that_loads_is_never_picked(state: State) -> None:
    """EVICT-2: while a member loads the start is refused `loading`, with how far that one has come."""
    found = refused(running("a", "main", state=state, changed_at=NOW - 41, budget_s=240.0))
    assert isinstance(found, Loading)
    assert str(found) == "a is loading: 41 s of 240 s."
    assert found.retry_after == 199


def test_a_member_that_is_late_or_unmeasured_has_a_retry_too() -> None:
    """EVICT-2: a member that is late, or whose start was not seen, gives a retry too."""
    late = refused(running("a", "main", state=State.STARTING, changed_at=NOW - 999))
    assert (late.retry_after, str(late)) == (1, "a is loading: 999 s of 120 s.")
    unseen = refused(running("a", "main", state=State.UNKNOWN, changed_at=None))
    assert (unseen.retry_after, str(unseen)) == (120, "a is loading: 0 s of 120 s.")


def test_a_leased_member_is_never_picked() -> None:
    """EVICT-2: a member that a lease keeps refuses the start `leased`, naming it."""
    found = refused(running("a", "main", leased=True))
    assert isinstance(found, Leased)
    assert str(found) == "a is leased: want cannot be up beside it."


def test_a_pinned_member_is_never_picked() -> None:
    """EVICT-2: a pinned member refuses the start for good, with the command that makes room."""
    found = refused(running("a", "main", kept={"pinned": True}))
    assert isinstance(found, NotLaunchable)
    assert "a, which cannot be up beside it, is pinned" in str(found)
    assert "hostler stop a" in found.advice()
    assert found.retry_after is None


def test_a_part_of_a_distributed_engine_is_never_picked() -> None:
    """EVICT-2, ENG-11: a member that is up goes with its whole alone; one that failed is in nobody's way."""
    part: Kept = {"of": EngineId("wide")}
    found = refused(running("a", "main", kept=part))
    assert isinstance(found, NotLaunchable)
    assert "a, which cannot be up beside it, is a member of wide" in str(found)
    assert found.fix == "`hostler stop wide` makes room."
    assert made(running("a", "main", kept=part, state=State.FAILED)).stop == ("a",)
    assert isinstance(refused(running("a", kept=part, gib=100), available=10), MemoryNow)


def test_a_pinned_member_that_failed_is_in_nobodys_way() -> None:
    """EVICT-2: a pinned member that failed does not keep the others of its group from starting."""
    assert made(running("a", "main", kept={"pinned": True}, state=State.FAILED)).stop == ("a",)


def test_a_fresh_member_stays_to_be_worth_its_load() -> None:
    """EVICT-4: a plan waits until the freshest that goes has been ready for its group's min_resident."""
    found = made(
        running("a", "main", ready_at=NOW - 20),
        running("b", "extra", ready_at=NOW - 10),
        running("c", "main"),
    )
    assert found.stop == ("a", "b", "c")
    assert found.fresh_until == NOW + 50
    assert made(running("a", "main", ready_at=NOW - 60)).fresh_until is None
    assert made(running("a", "main", ready_at=NOW - 20, state=State.DRAINING)).fresh_until is None
    assert made(running("a", "main", ready_at=None)).fresh_until is None


def test_least_recently_used_goes_first() -> None:
    """EVICT-2: for memory the longest idle engine goes first, and no more go than are needed."""
    found = made(
        running("a", used=NOW - 100), running("b", used=NOW - 300), running("c", used=NOW - 200), available=20
    )
    assert found.stop == ("b",)
    assert found.fit.ok


def test_idle_time_is_weighed_by_load_time() -> None:
    """EVICT-2: an engine that takes 100 s to load must be idle ten times as long as one that takes 10 s."""
    slow = running("slow", used=NOW - 900, load_s=100.0)
    quick = running("quick", used=NOW - 100, load_s=10.0)
    assert made(slow, quick, available=20).stop == ("quick",)
    assert made(replace(slow, used=NOW - 1100), quick, available=20).stop == ("slow",)


def test_a_load_that_took_no_time_counts_as_a_second() -> None:
    """EVICT-2: an engine whose load time is not known is weighed as if it loaded in a second."""
    unknown = running("unknown", used=NOW - 5, load_s=0.0)
    quick = running("quick", used=NOW - 60, load_s=10.0)
    assert made(unknown, quick, available=20).stop == ("quick",)


@pytest.mark.parametrize(
    "stays",
    [
        running("a", kept={"resident": True}),
        running("a", kept={"essential": True}),
        running("a", kept={"pinned": True}),
        running("a", leased=True),
        running("a", in_flight=1),
        running("a", state=State.STARTING),
        running("a", state=State.UNKNOWN),
        running("a", state=State.DRAINING),
        running("a", state=State.FAILED),
        running("a", "extra", ready_at=NOW - 20),
    ],
)
def test_who_never_goes_for_memory(stays: Running) -> None:
    """EVICT-2: none that is kept, busy, loading, draining, failed or fresh goes for memory."""
    found = plan(engine("want"), need(20), [stays], HOST, room(20), NOW)
    assert isinstance(found, Cannot)
    assert isinstance(found.refusal, MemoryNow)
    assert found.refusal.retry_after == 60
    assert found.refusal.arithmetic.startswith("needs 20.0 GiB + 8.0 reserve; available 20.0; ")


def test_a_stop_under_way_is_waited_for_before_another_goes() -> None:
    """EVICT-2: memory of an engine that is being stopped already is counted before anybody else is."""
    leaving = running("leaving", used=NOW, kept={"resident": True}, state=State.STOPPING)
    assert made(running("a", used=NOW - 9999), leaving, available=20).stop == ("leaving",)


def test_what_the_wanted_engine_still_holds_comes_back() -> None:
    """EVICT-2: an engine that starts anew gives back what it held before."""
    found = made(running("want", "main", gib=10, state=State.DRAINING), available=20)
    assert found.stop == ()
    assert "stops give back 10.0" in found.fit.arithmetic


def test_what_failed_is_not_counted_on() -> None:
    """EVICT-3: memory of a member that failed is not counted as coming back: nothing starts on hope."""
    found = refused(running("a", "main", gib=10, state=State.FAILED), available=20)
    assert isinstance(found, MemoryNow)
    assert "a holds" not in found.arithmetic


def test_a_small_one_is_spared_when_a_large_one_had_to_go() -> None:
    """EVICT-2: an engine that was picked first but is not needed once a larger one goes stays."""
    small = running("small", gib=1, used=NOW - 5000)
    large = running("large", gib=30, used=NOW - 10)
    assert made(small, large, available=5).stop == ("large",)


def test_engines_of_other_pools_are_left_alone() -> None:
    """EVICT-2: an engine that holds nothing of the pool that is short is not stopped."""
    card = running("card", held={"gpu0": 20 * GIB}, used=NOW - 9000)
    assert made(card, running("a", used=NOW - 10), available=20).stop == ("a",)


def test_an_unknown_need_stops_nobody_for_memory() -> None:
    """MEM-2: an engine whose need is not known displaces its group but nobody else."""
    found = plan(engine("want", "main"), {}, [running("a", "main"), running("b")], HOST, room(0), NOW)
    assert isinstance(found, Eviction)
    assert found.stop == ("a",)


def test_the_refusal_names_what_stays() -> None:
    """MEM-2: the sum has what all who may go would give back, and who holds what."""
    found = refused(
        running("a", gib=10), running("keep", gib=60, kept={"resident": True}), needs=90, available=17
    )
    assert isinstance(found, MemoryNow)
    assert found.arithmetic == (
        "needs 90.0 GiB + 8.0 reserve; available 17.0; stops give back 10.0;"
        " keep holds 60.0, a holds 10.0 of 124.0"
    )
