from dataclasses import replace
from itertools import combinations

from hostler.domain.engine import State
from hostler.domain.eviction import Eviction
from hostler.domain.gate import CHECKS, Ask, Facts, decide
from hostler.domain.gate_words import Result, explain
from hostler.domain.memory import Fit
from hostler.domain.values import Cause, EngineId, ServingClass
from tests.domain.test_gate import GOOD, STEPS, TIMER, ask, broken, live, of, said


def test_why_prints_every_check_in_order() -> None:
    """GATE-2: `why` has every check with its result, those after the first refusal too."""
    rows = explain(ask(), broken("hold", "memory"))
    assert [row.name for row in rows] == [name for name, _ in CHECKS]
    assert [row.name for row in rows if row.result is Result.REFUSED] == ["hold", "memory"]
    assert {row.name: row.code for row in rows if row.code} == {
        "hold": "box_reserved",
        "memory": "memory_now",
    }
    assert rows[5].text == ("crow is held by dsv4-window until 2026-09-04T21:15:11.000Z: big is not started.")
    assert all(row.text for row in rows)


def test_why_of_what_runs() -> None:
    """GATE-2: for an engine that runs `why` says so, and skips what is not asked then."""
    rows = explain(ask(), replace(broken("hold"), state=State.READY))
    assert [row.result.value for row in rows] == ["pass", "pass", *["skipped"] * 11]
    assert {row.text for row in rows[1:]} == {"it runs already, as itself"}
    starting = explain(ask(), replace(GOOD, state=State.STARTING))
    assert starting[1].text == "its start is under way"


def test_why_without_a_look_at_the_machine() -> None:
    """GATE-2: without a look at the machine `why` says which checks were not made."""
    rows = explain(ask(), replace(GOOD, live=None))
    assert [row.name for row in rows if row.result is Result.SKIPPED] == [
        "port",
        "topology",
        "memory",
        "members",
    ]


def passed(facts: Facts, name: str, asked: Ask | None = None) -> str:
    row = next(row for row in explain(asked or ask(), facts) if row.name == name)
    assert row.result is Result.PASSED
    return row.text


def test_why_a_check_passed() -> None:
    """GATE-2: a passed check says why: the override, the hold's leave, the sum, who would stop."""
    windowed = of(GOOD, serving_class=ServingClass.WINDOWED)
    by_name = ask(Cause.API, ServingClass.WINDOWED)
    assert passed(windowed, "serving_class", by_name) == "it is windowed, and the call names that class"
    allowed = of(broken("hold"), id=EngineId("fast"))
    assert passed(allowed, "hold") == "dsv4-window holds the host, and allows this engine"
    plan = Eviction(stop=(EngineId("a"), EngineId("b")), fit=Fit(arithmetic="needs 5.0 GiB + 8.0 reserve"))
    assert passed(live(GOOD, eviction=plan), "memory") == "needs 5.0 GiB + 8.0 reserve; would stop a, b"
    assert passed(GOOD, "memory") == "it fits"
    unknown = "not known what it needs; request names it: it is measured"
    assert passed(live(GOOD, need=None), "memory") == unknown


def test_why_of_what_a_lease_keeps_suspended() -> None:
    """GATE-2, LEASE-15: that no person suspended it does not say that nobody did."""
    facts = replace(GOOD, suspended_by=("ls_1",))
    assert passed(facts, "suspended") == "no person suspended it"
    (leased,) = (row for row in explain(ask(), facts) if row.name == "leased")
    assert "the lease ls_1 keeps it suspended" in leased.text


def test_why_and_the_gate_agree() -> None:
    """GATE-2: the first refusal that `why` shows is what the gate says."""
    for pair in combinations(STEPS, 2):
        facts = broken(*pair)
        first = next(row.code for row in explain(TIMER, facts) if row.result is Result.REFUSED)
        assert first == said(decide(TIMER, facts))


def test_why_of_members() -> None:
    """ENG-11, GATE-2: `why` of a distributed engine names the members that may start."""
    both = of(GOOD, members=(EngineId("worker"), EngineId("master")))
    assert passed(both, "members") == "worker, master may start, each on its own host"
    assert passed(GOOD, "members") == "it has no members"


def test_why_of_links() -> None:
    """GATE-2, CAT-8: an engine alone needs none; of a distributed one and its members that is not said."""
    assert passed(GOOD, "topology") == "it runs on this host alone"
    whole = of(GOOD, members=(EngineId("worker"), EngineId("master")))
    said_of_whole = "no entry says over which links worker, master talk: none was looked at"
    assert passed(whole, "topology") == said_of_whole
    step = ask(Cause.STEP)
    member = of(GOOD, of=EngineId("wide"))
    assert passed(member, "topology", step) == "its links are those of wide, which is asked for them"
