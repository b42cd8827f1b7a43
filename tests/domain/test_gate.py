from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain import gate
from hostler.domain.engine import State
from hostler.domain.errors import Kind, Loading, MemoryNow, NodeUnreachable, Refusal
from hostler.domain.eviction import Cannot, Eviction
from hostler.domain.fence import FenceUp
from hostler.domain.fleet import DriverKind, Engine
from hostler.domain.gate import CHECKS, Allow, Ask, Facts, Live, decide, named
from hostler.domain.hold import HoldRecord, HoldState, HoldView
from hostler.domain.holding import Holding
from hostler.domain.values import Cause, EngineId, HostName, Requester, ServingClass

CROW = HostName("crow")
NOW = datetime(2026, 9, 4, 20, 5, 11, tzinfo=UTC)
UNTIL = NOW + timedelta(minutes=70)
FREE = HoldView(state=HoldState.FREE, path="/run/hold.json")
HELD = HoldView(
    state=HoldState.HELD,
    path="/run/hold.json",
    record=HoldRecord(owner="dsv4-window", reason="bench", started_at=NOW, expires_at=UNTIL),
    until=UNTIL,
    allow=frozenset({"embed", "fast"}),
)
AWAY = NodeUnreachable(host="raven", why="no route to host")
NO_ROOM = MemoryNow(engine="big", host="crow", arithmetic="needs 92.6 GiB + 8.0 reserve", retry_after=60)
WHO = Requester(ip="10.99.0.7")
LEASE = Holding(
    lease="lease_1", resource="pair", holder="anna", key="anna", until=UNTIL, stop_accepting=NOW, mode="heavy"
)
CLOSING = replace(LEASE, lease="window_1")
FENCE = FenceUp(reason="upgrade", by="ops", until=NOW + timedelta(minutes=30))

BIG = Engine(id=EngineId("big"), host=CROW, context=262_144)
GOOD = Facts(
    engine=BIG,
    here=CROW,
    state=State.STOPPED,
    hold=FREE,
    now=NOW,
    live=Live(port=8031, need={"host": 5}),
)


def ask(cause: Cause = Cause.REQUEST, override: ServingClass | None = None) -> Ask:
    return Ask(engine=EngineId("big"), cause=cause, requester=WHO, override=override)


def live(facts: Facts, **changed: object) -> Facts:
    assert facts.live is not None
    return replace(facts, live=replace(facts.live, **changed))  # type: ignore[arg-type]  # any field of it


def of(facts: Facts, **changed: object) -> Facts:
    return replace(facts, engine=replace(facts.engine, **changed))  # type: ignore[arg-type]  # any field of it


# GATE-1's order, written out by hand: what breaks each step, and what is then said.
Break = Callable[[Facts], Facts]
STEPS: Mapping[str, tuple[Break, str]] = {
    "known": (lambda it: replace(it, orchestration_off="the config says so"), "orchestration_disabled"),
    "serving_class": (lambda it: of(it, serving_class=ServingClass.WEDGE_RISK), "serving_class_refused"),
    "launchable": (lambda it: replace(it, missing=("big.gguf",)), "not_launchable"),
    "suspended": (lambda it: replace(it, suspended_by=("person:anna",)), "suspended"),
    "hold": (lambda it: replace(it, hold=HELD), "box_reserved"),
    "leased": (lambda it: replace(it, leased=LEASE), "leased"),
    "fence": (lambda it: replace(it, fence=FENCE), "fenced"),
    "window": (lambda it: replace(it, leased=it.leased or CLOSING), "window_closing"),
    "port": (lambda it: live(it, port_holder="pid 4711 (nginx)"), "port_conflict"),
    "topology": (lambda it: live(it, topology="the link tb0 to crow is down"), "topology"),
    "memory": (lambda it: live(it, eviction=Cannot(refusal=NO_ROOM)), "memory_now"),
    "members": (lambda it: live(it, members=AWAY), "node_unreachable"),
}
PERMANENT = {"serving_class", "launchable", "suspended"}
TIMER = replace(ask(Cause.RESIDENCY), lease="window_1")
"""What every step may refuse: a fence keeps timers only, a closing window keeps its own holder too."""


def broken(*steps: str) -> Facts:
    facts = GOOD
    for step in steps:
        facts = STEPS[step][0](facts)
    return facts


def said(found: Allow | Refusal) -> str:
    return found.code if isinstance(found, Refusal) else "allow"


def test_where_nothing_is_in_the_way() -> None:
    """GATE-1: a start that nothing speaks against is allowed, and needs nobody to stop."""
    assert decide(ask(), GOOD) == Allow()


@pytest.mark.parametrize("step", STEPS)
def test_each_step_refuses_by_itself(step: str) -> None:
    """GATE-1: each step refuses a start that only it speaks against, by its own code."""
    assert said(decide(TIMER, broken(step))) == STEPS[step][1]


@pytest.mark.parametrize(("first", "second"), list(combinations(STEPS, 2)))
def test_the_earlier_step_speaks(first: str, second: str) -> None:
    """GATE-1: of two steps that both refuse, the earlier one in the order is told."""
    assert said(decide(TIMER, broken(first, second))) == STEPS[first][1]


def test_the_order_is_the_tables() -> None:
    """GATE-1: the checks stand in the order of the steps, with "already running" after the first."""
    order = list(STEPS)
    assert [name for name, _ in CHECKS] == [order[0], "running", *order[1:]]


@pytest.mark.parametrize(("one", "two"), list(combinations(range(len(CHECKS)), 2)))
def test_any_two_checks_swapped_would_be_seen(one: int, two: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """GATE-1: with any two checks swapped, some start is answered otherwise: the order is what is tested."""
    running = replace(GOOD, state=State.READY)
    situations = [broken(*pair) for pair in combinations(STEPS, 2)]
    situations += [STEPS[step][0](running) for step in STEPS]
    right = [said(decide(TIMER, facts)) for facts in situations]
    swapped = list(CHECKS)
    swapped[one], swapped[two] = swapped[two], swapped[one]
    monkeypatch.setattr(gate, "CHECKS", tuple(swapped))
    assert [said(decide(TIMER, facts)) for facts in situations] != right


@given(st.sets(st.sampled_from(list(STEPS))), st.sampled_from(list(Cause)))
def test_a_permanent_refusal_is_never_told_as_a_temporary_one(steps: set[str], cause: Cause) -> None:
    """GATE-1: whatever else speaks against a start, a permanent reason is told, and without a retry."""
    found = decide(ask(cause), broken(*sorted(steps)))
    if steps & PERMANENT:
        assert isinstance(found, Refusal)
        assert found.kind in (Kind.CLASS, Kind.DISABLED)
        assert found.retry_after is None
    else:
        assert (said(found) == "allow") == (not steps - (set() if cause.timer else {"fence"}))


# ---------------------------------------------------------------- step by step


@pytest.mark.parametrize("state", [State.READY, State.STARTING])
def test_what_runs_is_a_success(state: State) -> None:
    """GATE-1: what runs, or was spawned, is a success whatever else speaks against it."""
    everything = broken(*[step for step in STEPS if step != "known"])
    assert decide(ask(), replace(everything, state=state)) == Allow()


@pytest.mark.parametrize("state", [it for it in State if it not in (State.READY, State.STARTING)])
def test_what_does_not_serve_is_checked(state: State) -> None:
    """GATE-1: an engine that drains, stops, failed or is not known yet is no success by itself."""
    assert said(decide(ask(), replace(broken("hold"), state=state))) == "box_reserved"


@pytest.mark.parametrize("state", list(State))
def test_orchestration_switched_off_comes_first(state: State) -> None:
    """GATE-4: where orchestration is off nothing is started, not even what runs already."""
    found = decide(ask(), replace(broken("known"), state=state))
    assert str(found) == "Nothing is started or stopped on crow: orchestration is off (the config says so)."


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (replace(GOOD, here=HostName("raven")), "it is an engine of crow"),
        (of(GOOD, enabled=False), "it is switched off"),
        (of(GOOD, driver=DriverKind.EXTERNAL), "it is external: only used, never started"),
    ],
)
def test_what_is_not_ours_to_start(facts: Facts, why: str) -> None:
    """GATE-1: another node's, a switched off and an external engine are never started, and it is said why."""
    found = decide(ask(Cause.API), facts)
    assert isinstance(found, Refusal)
    assert str(found) == f"big cannot be started here: {why}."
    assert found.advice()


ELSEWHERE = of(GOOD, driver=DriverKind.EXTERNAL, url="http://127.0.0.1:9", model="org/big")


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("off", [None, "the config says so"])
def test_an_external_engine_that_is_down(cause: Cause, off: str | None) -> None:
    """GW-14, GATE-1: who wants to be served hears that it does not answer; others, that none starts it."""
    found = decide(ask(cause), replace(ELSEWHERE, orchestration_off=off))
    assert isinstance(found, Refusal)
    if cause in (Cause.REQUEST, Cause.ACQUIRE):
        assert str(found) == (
            "big cannot be reached: nothing answers at http://127.0.0.1:9 as org/big;"
            " it is external, and Hostler does not start it."
        )
        assert (found.code, found.retry_after) == ("upstream_unreachable", 10)
    else:
        assert found.code == ("not_launchable" if off is None else "orchestration_disabled")


def test_why_an_external_engine_failed() -> None:
    """GW-14: what was seen of an external engine that failed is in its refusal."""
    found = decide(
        ask(), replace(ELSEWHERE, state=State.FAILED, failed="GET http://127.0.0.1:9/health: reset")
    )
    assert "as org/big (GET http://127.0.0.1:9/health: reset); it is external" in str(found)


@pytest.mark.parametrize("change", [{"enabled": False}, {"host": HostName("raven")}])
def test_an_external_engine_that_is_not_used_here(change: dict[str, object]) -> None:
    """GATE-1: an external engine that is off, or another host's, is `not_launchable` to a request."""
    facts = replace(ELSEWHERE, engine=replace(ELSEWHERE.engine, **change))  # type: ignore[arg-type]  # any field
    assert said(decide(ask(), facts)) == "not_launchable"


CLASSES = [ServingClass.WINDOWED, ServingClass.WEDGE_RISK]


@pytest.mark.parametrize("needed", CLASSES)
@pytest.mark.parametrize("override", [None, *ServingClass])
@pytest.mark.parametrize("cause", list(Cause))
def test_only_the_class_itself_unlocks_it(
    needed: ServingClass, override: ServingClass | None, cause: Cause
) -> None:
    """CAT-5: a class is unlocked by its own name only, and only by the API and the step of a plan."""
    found = decide(ask(cause, override), of(GOOD, serving_class=needed))
    allowed = override is needed and cause in (Cause.API, Cause.STEP)
    assert said(found) == ("allow" if allowed else "serving_class_refused")


@pytest.mark.parametrize(
    ("needed", "why"),
    [
        (ServingClass.WINDOWED, "windowed: it runs on two boxes or evicts production"),
        (ServingClass.WEDGE_RISK, "wedge-risk: its shape has wedged a box"),
    ],
)
def test_a_class_is_refused_with_its_reason(needed: ServingClass, why: str) -> None:
    """CAT-5: the refusal names the class and the reason, and never when to retry."""
    found = decide(ask(), of(GOOD, serving_class=needed))
    assert isinstance(found, Refusal)
    assert why in str(found)
    assert found.retry_after is None
    assert f"--override {needed}" in found.advice()


def test_an_override_of_a_resident_engine_changes_nothing() -> None:
    """CAT-5: an override is not needed for a resident engine, and unlocks nothing else."""
    assert decide(ask(Cause.API, ServingClass.WEDGE_RISK), GOOD) == Allow()
    found = decide(ask(Cause.API, ServingClass.WEDGE_RISK), broken("hold"))
    assert said(found) == "box_reserved"


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (replace(GOOD, missing=("big.gguf",)), "big cannot be started here: big.gguf is not there."),
        (
            replace(GOOD, missing=("big.gguf", "llama-server")),
            "big cannot be started here: big.gguf, llama-server are not there.",
        ),
        (
            replace(GOOD, context_most=131_072),
            "big cannot be started here: its context of 262144 is above the model's 131072.",
        ),
        (
            replace(GOOD, never="needs 154.2 GiB + 8.0 reserve; the host has 124.0"),
            "big can never fit on crow: needs 154.2 GiB + 8.0 reserve; the host has 124.0.",
        ),
    ],
)
def test_what_cannot_be_launched(facts: Facts, text: str) -> None:
    """GATE-1: missing files, a context above the model's and a need above the host's are permanent."""
    found = decide(ask(), facts)
    assert str(found) == text
    assert isinstance(found, Refusal)
    assert found.retry_after is None


def test_a_context_that_is_not_known_passes() -> None:
    """GATE-1: a context at the model's limit passes, and so does one where either is not known."""
    assert decide(ask(), replace(GOOD, context_most=262_144)) == Allow()
    assert decide(ask(), of(replace(GOOD, context_most=1), context=None)) == Allow()


def test_who_suspended_it() -> None:
    """GATE-1: the refusal of a suspended engine names who suspended it and the command that ends it."""
    found = decide(ask(), replace(GOOD, suspended_by=("person:anna", "unknown")))
    assert str(found) == "big is suspended by anna, unknown."


def test_a_hold_is_refused_with_owner_and_end() -> None:
    """HOLD-13: a start under a hold is refused with the owner, the expiry and the seconds until then."""
    found = decide(ask(), broken("hold"))
    assert isinstance(found, Refusal)
    assert found.facts() | {"retry_after": found.retry_after} == {
        "host": "crow",
        "engine": "big",
        "owner": "dsv4-window",
        "reason": "bench",
        "until": "2026-09-04T21:15:11.000Z",
        "expires_at": "2026-09-04T21:15:11.000Z",
        "retry_after": 4200,
    }


def test_what_a_hold_allows_starts() -> None:
    """HOLD-5: an engine that the hold allows passes it."""
    assert decide(ask(), of(broken("hold"), id=EngineId("fast"))) == Allow()


def test_the_process_on_the_port_is_named() -> None:
    """GATE-1: a port that somebody else has refuses the start, naming the process."""
    found = decide(ask(), broken("port"))
    assert str(found) == "Port 8031 of big is taken by pid 4711 (nginx)."


@pytest.mark.parametrize("cause", list(Cause))
def test_an_unknown_need_is_started_by_name_only(cause: Cause) -> None:
    """MEM-2: an unknown need starts for a request, a warm-up or the API, never for a timer or plan."""
    by_name = cause in (Cause.REQUEST, Cause.ACQUIRE, Cause.API)
    assert named(cause) is by_name
    found = decide(ask(cause), live(GOOD, need=None))
    assert said(found) == ("allow" if by_name else "memory_now")
    if isinstance(found, Refusal):
        assert found.retry_after == 60


def test_nothing_starts_beside_a_first_measurement() -> None:
    """MEM-2: while an engine of unknown need loads, no other engine of its host is started."""
    found = decide(ask(), live(GOOD, measuring=EngineId("new")))
    assert isinstance(found, MemoryNow)
    assert "new loads for the first time" in str(found)
    assert found.retry_after == 60


def test_the_plan_of_an_allowed_start() -> None:
    """GATE-2: an allowed start carries whom to stop, whom to drain first, and how long the freshest stays."""
    plan = Eviction(stop=(EngineId("a"), EngineId("b")), drain=(EngineId("b"),), fresh_until=77.0)
    assert decide(ask(), live(GOOD, eviction=plan)) == Allow(
        stop=(EngineId("a"), EngineId("b")), drain=(EngineId("b"),), fresh_until=77.0
    )


@pytest.mark.parametrize("step", STEPS)
def test_without_a_look_at_the_machine_the_rest_is_asked(step: str) -> None:
    """GATE-1: the checks that need no look at the machine refuse before it is looked at."""
    found = decide(TIMER, replace(broken(step), live=None))
    assert said(found) == ("allow" if step in gate.LIVE else STEPS[step][1])


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"barred": "nobody knows what a#4k is: x"}, "nobody knows what a#4k is: x"),
        ({"build": "its build is 5, and at least 6 is needed"}, "its build is 5"),
        ({"context_most": 4096}, "its context of 262144 is above the model's 4096"),
    ],
)
def test_what_the_catalog_forbids_is_not_launchable(changed: dict[str, object], why: str) -> None:
    """CAT-7, CAT-8, GATE-1: a barred engine, a wrong build and a context too large are refused for good."""
    found = decide(ask(), replace(GOOD, **changed))  # type: ignore[arg-type]  # any field of it
    assert said(found) == "not_launchable"
    assert why in str(found)


def test_a_loading_sibling_is_the_answer_of_the_planner() -> None:
    """GATE-1: what the planner refuses is told as it is."""
    loading = Loading(engine="a", elapsed_s=41, budget_s=240, retry_after=199)
    assert decide(ask(), live(GOOD, eviction=Cannot(refusal=loading))) is loading
