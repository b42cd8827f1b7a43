from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.engine import State
from hostler.domain.errors import MemoryNow
from hostler.domain.eviction import Cannot, Eviction, Running, plan
from hostler.domain.fleet import Engine, Group, Host
from hostler.domain.memory import Reading, Sizes, fits
from hostler.domain.values import EngineId, HostName

GIB = 1 << 30
CROW = HostName("crow")
NOW = 10_000.0
MAIN = Group(name="main", host=CROW, evicts=("extra",), min_resident_s=60.0)
EXTRA = Group(name="extra", host=CROW, min_resident_s=60.0)
HOST = Host(name=CROW, groups={"main": MAIN, "extra": EXTRA})
DISPLACED: dict[str | None, set[str]] = {None: set(), "main": {"main", "extra"}, "extra": {"extra"}}


@st.composite
def candidates(draw: st.DrawFn) -> list[Running]:
    groups = st.sampled_from([None, "main", "extra", "other"])
    flag = st.sampled_from([False, False, False, True])
    return [
        Running(
            engine=Engine(
                id=EngineId(f"e{index}"),
                host=CROW,
                group=draw(groups),
                resident=draw(flag),
                essential=draw(flag),
                pinned=draw(flag),
            ),
            state=draw(st.sampled_from([State.READY, State.READY, State.READY, *State])),
            held={"host": draw(st.integers(0, 30)) * GIB, "gpu0": draw(st.integers(0, 3)) * GIB},
            in_flight=draw(st.sampled_from([0, 0, 0, 2])),
            used=NOW - draw(st.integers(0, 5000)),
            ready_at=NOW - draw(st.integers(0, 200)),
            load_s=float(draw(st.integers(0, 100))),
            changed_at=NOW - draw(st.integers(0, 200)),
            leased=draw(flag),
        )
        for index in range(draw(st.integers(0, 7)))
    ]


@st.composite
def situations(draw: st.DrawFn) -> tuple[Engine, Sizes, list[Running], dict[str, Reading]]:
    group = draw(st.sampled_from([None, "main", "extra"]))
    wanted = Engine(id=EngineId("e0"), host=CROW, group=group)
    needs = {"host": draw(st.integers(0, 80)) * GIB, "gpu0": draw(st.integers(0, 4)) * GIB}
    pools = {
        "host": Reading(total=124 * GIB, available=draw(st.integers(0, 60)) * GIB),
        "gpu0": Reading(total=8 * GIB, available=draw(st.integers(0, 8)) * GIB),
    }
    return wanted, needs, draw(candidates()), pools


Situation = tuple[Engine, Sizes, list[Running], dict[str, Reading]]


def go(situation: Situation) -> Eviction | Cannot:
    wanted, needs, others, pools = situation
    return plan(wanted, needs, others, HOST, pools, NOW)


def given_back(going: list[Running]) -> dict[str, int]:
    return {pool: sum(it.held.get(pool, 0) for it in going if it.state.up) for pool in ("host", "gpu0")}


@given(situations())
def test_nobody_protected_is_ever_picked(situation: Situation) -> None:
    """EVICT-2: no plan ever stops an engine that is leased, that loads, or that is pinned and up."""
    found = go(situation)
    if isinstance(found, Eviction):
        gone = [it for it in situation[2] if it.engine.id in found.stop]
        assert not [it for it in gone if it.leased and it.state is not State.STOPPING]
        assert not [it for it in gone if it.state in (State.STARTING, State.UNKNOWN, State.STOPPED)]
        assert not [it for it in gone if it.engine.pinned and it.state.up and it.state is not State.STOPPING]
        assert set(found.drain) == {it.engine.id for it in gone if it.in_flight}


@given(situations())
def test_a_plan_works_out(situation: Situation) -> None:
    """EVICT-2: what a plan stops really makes room, and leaves nobody up who excludes the wanted engine."""
    wanted, needs, others, pools = situation
    found = go(situation)
    if isinstance(found, Eviction):
        going = [it for it in others if it.engine.id in (*found.stop, wanted.id)]
        assert fits(needs, HOST, pools, given_back(going), {}).ok
        left = [it for it in others if it not in going and it.state is not State.STOPPED]
        assert not [it for it in left if it.engine.group in DISPLACED[wanted.group]]


@given(situations())
def test_no_stop_is_superfluous(situation: Situation) -> None:
    """EVICT-2: leaving any engine of a plan up would exclude the wanted one or leave too little memory."""
    wanted, needs, others, pools = situation
    found = go(situation)
    if isinstance(found, Eviction):
        for spared in [it for it in others if it.engine.id in found.stop]:
            going = [it for it in others if it.engine.id in (*found.stop, wanted.id) and it is not spared]
            excluded = spared.engine.group in DISPLACED[wanted.group]
            assert excluded or not fits(needs, HOST, pools, given_back(going), {}).ok


@given(situations())
def test_the_order_of_the_facts_does_not_matter(situation: Situation) -> None:
    """EVICT-2: the planner is deterministic: engines in another order give the same plan."""
    wanted, needs, others, pools = situation
    first = go(situation)
    second = plan(wanted, needs, others[::-1], HOST, pools, NOW)
    if isinstance(first, Cannot):
        assert isinstance(second, Cannot)
        assert str(first.refusal) == str(second.refusal)
    else:
        assert first == second


@given(situations())
def test_memory_is_refused_only_when_nobody_more_could_go(situation: Situation) -> None:
    """EVICT-2: `memory_now` is said only when stopping every engine that may go is not enough either."""
    wanted, needs, others, pools = situation
    found = go(situation)
    if isinstance(found, Cannot) and isinstance(found.refusal, MemoryNow):
        displaced = DISPLACED[wanted.group]
        certain = [it for it in others if it.engine.group in displaced or it.engine.id == wanted.id]
        idle = [
            it
            for it in others
            if it.state is State.STOPPING
            or (
                it.state is State.READY
                and not it.in_flight
                and not (it.leased or it.engine.resident or it.engine.essential or it.engine.pinned)
                and (it.engine.group not in ("main", "extra") or NOW - (it.ready_at or 0) >= 60)
            )
        ]
        going = certain + [it for it in idle if it not in certain]
        assert not fits(needs, HOST, pools, given_back(going), {}).ok
