from dataclasses import replace
from itertools import combinations_with_replacement, permutations

import pytest

from hostler.domain.distributed import Sight, anything_up, lost, members_of, told, whole, whole_budget_s
from hostler.domain.engine import ExitReport, State
from hostler.domain.fleet import DriverKind, Fleet, Host, Node, frozen
from hostler.domain.values import EngineId, HostName
from tests.fakes.modes import engine

CROW, RAVEN = HostName("crow"), HostName("raven")
AWAY = None
COLUMNS = ("stopped", "starting", "ready", "draining", "stopping", "failed", "unknown", "away")
# Every pair of states of two members, written out by hand: a row's member and a column's.
PAIRS = {
    "stopped": "stopped starting failed failed stopping failed unknown unknown",
    "starting": "starting starting starting starting stopping failed starting failed",
    "ready": "failed starting ready draining stopping failed unknown failed",
    "draining": "failed starting draining draining stopping failed unknown failed",
    "stopping": "stopping stopping stopping stopping stopping failed stopping failed",
    "failed": "failed failed failed failed failed failed failed failed",
    "unknown": "unknown starting unknown unknown stopping failed unknown unknown",
    "away": "unknown failed failed failed failed failed unknown unknown",
}


def state(name: str) -> State | None:
    return AWAY if name == "away" else State(name)


@pytest.mark.parametrize("row", COLUMNS)
@pytest.mark.parametrize("column", COLUMNS)
def test_every_pair_of_members_makes_a_whole(row: str, column: str) -> None:
    """ENG-11: the state of the whole follows from those of its members: ready only if every one is."""
    assert whole([state(row), state(column)]) == PAIRS[row].split()[COLUMNS.index(column)]


def test_the_table_is_complete_and_has_no_order() -> None:
    """ENG-11: the table has every state of an engine, and what is up first makes no difference."""
    assert {it for it in COLUMNS if it != "away"} == set(State)
    for one, two in combinations_with_replacement(COLUMNS, 2):
        assert PAIRS[one].split()[COLUMNS.index(two)] == PAIRS[two].split()[COLUMNS.index(one)]


@pytest.mark.parametrize(
    ("states", "made"),
    [
        (("ready", "ready", "ready"), "ready"),
        (("ready", "ready", "stopped"), "failed"),
        (("ready", "starting", "stopped"), "starting"),
        (("stopping", "starting", "stopped"), "stopping"),
        (("away", "stopped", "unknown"), "unknown"),
        (("away", "ready", "ready"), "failed"),
    ],
)
def test_three_members(states: tuple[str, ...], made: str) -> None:
    """ENG-11: more members than two make a whole by the same rules, in any order."""
    for order in permutations(states):
        assert whole(map(state, order)) == made


def sights(*states: str) -> tuple[Sight, ...]:
    return tuple(
        Sight(member=EngineId(f"m{n}"), host=CROW, state=state(it)) for n, it in enumerate(states, start=1)
    )


@pytest.mark.parametrize(
    ("states", "gone"),
    [
        (("failed", "ready"), ["m1"]),
        (("stopped", "ready"), ["m1"]),
        (("failed", "failed"), ["m1", "m2"]),
        (("away", "failed"), ["m2"]),
        (("away", "ready"), []),
        (("away", "stopped"), []),
        (("away", "away"), []),
        (("stopped", "stopped"), []),
        (("starting", "stopped"), []),
        (("stopping", "ready"), []),
        (("ready", "draining"), []),
    ],
)
def test_who_is_lost(states: tuple[str, ...], gone: list[str]) -> None:
    """ENG-11: lost is who is known to be gone while another is not; one that cannot be asked may be back."""
    assert [it.member for it in lost(sights(*states))] == gone


def test_whether_anything_is_up() -> None:
    """ENG-11: something is up where a member may run, as far as that is known."""
    assert anything_up(sights("stopped", "starting"))
    assert not anything_up(sights("stopped", "away", "failed"))


def test_the_members_in_words() -> None:
    """ENG-11: a sentence names each member with its host and state, or that its node does not answer."""
    assert told(sights("ready", "away")) == (
        "m1 on crow is ready; the node of crow, which m2 is on, does not answer"
    )
    assert str(ExitReport(status=None, signal=None, instead="lost a member")) == "lost a member"


def test_the_budget_of_a_whole() -> None:
    """ENG-5, ENG-11: the members start one after the other, so that their budgets add up."""
    worker = engine("worker", start_timeout_s=30.0)
    master = engine("master", host="raven", start_timeout_s=90.0)
    wide = replace(
        engine("wide", host="raven", driver=DriverKind.DISTRIBUTED), members=(worker.id, master.id)
    )
    made = Fleet(
        here=RAVEN,
        head=(CROW,),
        node=Node(),
        hosts=frozen({CROW: Host(name=CROW), RAVEN: Host(name=RAVEN)}),
        engines=frozen({it.id: it for it in (worker, master, wide)}),
    )
    assert [it.id for it in members_of(made, wide)] == ["worker", "master"]
    assert whole_budget_s(made, wide) == 120.0
