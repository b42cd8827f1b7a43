from datetime import UTC, datetime
from typing import Literal

import pytest

from hostler.domain.engine import (
    EVENTS,
    INITIAL,
    TRANSITIONS,
    BecameReady,
    Cleared,
    DrainBegun,
    DrainEnded,
    EngineEvent,
    EngineState,
    ExitReport,
    Failed,
    Found,
    Health,
    PortOwner,
    Probe,
    Readiness,
    StartBegun,
    State,
    StopBegun,
    Stopped,
    apply,
    judge,
)
from hostler.domain.errors import IllegalTransition
from hostler.domain.values import EngineId

AT = datetime(2026, 9, 4, 20, 5, 11, tzinfo=UTC)
FAST = EngineId("fast")

# One row per state, one column per event, written out by hand: "-" is a pair that raises.
COLUMNS = (StartBegun, BecameReady, DrainBegun, DrainEnded, StopBegun, Stopped, Failed, Found, Cleared)
EXPECTED = {
    "stopped": "starting - - - - - failed unknown -",
    "starting": "- ready - - stopping - failed - -",
    "ready": "- - draining - stopping - failed - -",
    "draining": "- - - ready stopping - failed - -",
    "stopping": "- - - - - stopped failed - -",
    "failed": "- - - - stopping - - unknown stopped",
    "unknown": "- ready - - stopping stopped failed - -",
}
PAIRS = [
    (state, event, target)
    for state, row in EXPECTED.items()
    for event, target in zip(COLUMNS, row.split(), strict=True)
]


def event_of(kind: type[EngineEvent]) -> EngineEvent:
    return kind(engine=FAST, at=AT)


@pytest.mark.parametrize(("state", "kind", "target"), PAIRS)
def test_every_pair(state: str, kind: type[EngineEvent], target: str) -> None:
    """ENG-1: every pair of state and event goes where the table says, or raises and changes nothing."""
    before = EngineState(engine=FAST, state=State(state))
    if target == "-":
        with pytest.raises(IllegalTransition, match=f"{state} cannot take {kind.__name__}"):
            apply(before, event_of(kind))
    else:
        after = apply(before, event_of(kind))
        assert (after.engine, after.state, after.since) == (FAST, State(target), AT)


def test_the_pairs_are_all_pairs() -> None:
    """ENG-1: the test's table has each state and each event that the machine has, and no other."""
    assert set(COLUMNS) == set(EVENTS)
    assert {it.__name__ for it in EVENTS} == {it.__name__ for it in EngineEvent.__subclasses__()}
    assert {State(name) for name in EXPECTED} == set(State) == set(TRANSITIONS)


def test_every_state_can_be_reached_and_left() -> None:
    """ENG-1: each state can be reached from stopped, and from each there is a way back to stopped."""

    def reached(start: State) -> set[State]:
        seen, todo = {start}, [start]
        while todo:
            new = set(TRANSITIONS[todo.pop()].values()) - seen
            seen |= new
            todo += new
        return seen

    assert INITIAL is State.STOPPED
    assert reached(INITIAL) == set(State)
    assert all(State.STOPPED in reached(state) for state in State)


def test_why_is_the_last_failure() -> None:
    """ENG-1: a failure's sentence is kept with the state and goes with the next event."""
    failed = apply(
        EngineState(engine=FAST, state=State.STARTING), Failed(engine=FAST, at=AT, why="it exited")
    )
    assert failed.why == "it exited"
    assert apply(failed, Cleared(engine=FAST, at=AT)).why == ""


def test_which_states_have_a_process() -> None:
    """ENG-1: only stopped and failed engines may have no process, and only ready ones take new requests."""
    assert {state for state in State if not state.up} == {State.STOPPED, State.FAILED}
    assert {state for state in State if state.serves} == {State.READY}


def probe(
    *,
    alive: bool = True,
    port: PortOwner = "ours",
    health: Health = "ok",
    models: tuple[str, ...] = ("qwen",),
) -> Probe:
    return Probe(alive=alive, port_owner=port, health=health, model_ids=models)


Means = Literal["ready", "loading", "stranger", "wrong_model", "dead", "unreachable"]


@pytest.mark.parametrize(
    ("seen", "health", "means"),
    [
        (probe(), "/health", "ready"),
        (probe(models=("other", "qwen")), "/health", "ready"),
        (probe(port="unknown"), "/health", "ready"),
        (probe(health="no_route"), "/health", "ready"),
        (probe(health="no_route", models=()), "/health", "loading"),
        (probe(port="stranger"), "/health", "stranger"),
        (probe(port="stranger", alive=False), "/health", "stranger"),
        (probe(alive=False), "/health", "dead"),
        (probe(alive=False, port="nobody"), "/health", "dead"),
        (probe(port="nobody"), "/health", "loading"),
        (probe(health="loading"), "/health", "loading"),
        (probe(health="failed"), "/health", "unreachable"),
        (probe(health="unreachable"), "/health", "unreachable"),
        (probe(models=("other",)), "/health", "wrong_model"),
        (probe(models=()), "/health", "loading"),
        (probe(models=()), "tcp", "ready"),
        (probe(models=()), "none", "ready"),
        (probe(health="unreachable", models=()), "tcp", "unreachable"),
        (probe(port="stranger", models=()), "none", "stranger"),
    ],
)
def test_what_a_look_means(seen: Probe, health: str, means: Means) -> None:
    """ENG-4: ready is alive, its own port, healthy and itself; anything less has a name of its own."""
    assert judge(seen, health=health, model="qwen") is Readiness(means)


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (ExitReport(status=1, signal=None), "exited with status 1"),
        (ExitReport(status=0, signal=None), "exited with status 0"),
        (
            ExitReport(status=None, signal=9, hint="out of memory"),
            "was killed by signal 9 (out of memory)",
        ),
        (ExitReport(status=None, signal=None), "ended, how is not known"),
    ],
)
def test_how_an_engine_ended(report: ExitReport, text: str) -> None:
    """ENG-3: how an engine ended is told in words, with what is known of the cause."""
    assert str(report) == text
