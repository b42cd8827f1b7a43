from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.errors import Ended, IllegalTransition, InvalidRequest
from hostler.domain.job import (
    ABANDONED_S,
    EVENTS,
    INITIAL,
    TRANSITIONS,
    Cancelled,
    Ending,
    Failed,
    Finished,
    Heard,
    Job,
    JobEvent,
    JobId,
    LeaseEnded,
    Lost,
    State,
    WentAbandoned,
    WentQuiet,
    WentStalled,
    apply,
    check_every,
    excused,
    extends,
    quiet_s,
    silenced,
    verdict,
    watch_at,
)
from hostler.domain.moment import Moment

BEGAN = Moment(at=datetime(2026, 9, 4, 20, 5, 11, tzinfo=UTC), boot="boot-1", elapsed=1000.0)
JOB = Job(
    id=JobId("job_1"),
    title="sweep",
    holder="bench",
    key="local",
    secret="0" * 64,
    request_id="r1",
    digest="d",
    created=BEGAN,
    heard=BEGAN,
)
ORDER = ["running", "quiet", "stalled", "abandoned"]

# One row per state, one column per event, written out by hand: "-" raises, "x" is refused as over.
COLUMNS = (Heard, WentQuiet, WentStalled, WentAbandoned, LeaseEnded, Finished, Failed, Cancelled, Lost)
EXPECTED = {
    "running": "running quiet stalled abandoned running finished failed cancelled lost",
    "quiet": "running - stalled abandoned quiet finished failed cancelled lost",
    "stalled": "running - - abandoned stalled finished failed cancelled lost",
    "abandoned": "running - - - abandoned finished failed cancelled lost",
    "finished": "x x x x x x x x x",
    "failed": "x x x x x x x x x",
    "cancelled": "x x x x x x x x x",
    "lost": "x x x x x x x x x",
}
PAIRS = [
    (state, event, target)
    for state, row in EXPECTED.items()
    for event, target in zip(COLUMNS, row.split(), strict=True)
]


@pytest.mark.parametrize(("state", "kind", "target"), PAIRS)
def test_every_pair(state: str, kind: type[JobEvent], target: str) -> None:
    """JOB-2: every pair of state and event goes where the table says, or raises; an end takes nothing."""
    before = replace(JOB, state=State(state))
    if target == "-":
        with pytest.raises(IllegalTransition, match=f"{state} cannot take {kind.__name__}"):
            apply(before, kind(at=BEGAN))
    elif target == "x":
        with pytest.raises(Ended, match=state):
            apply(before, kind(at=BEGAN))
    else:
        assert apply(before, kind(at=BEGAN)).state is State(target)


def test_the_pairs_are_all_pairs() -> None:
    """JOB-2: the test's table has each state and each event that a job has, and no other."""
    kinds = {it.__name__ for it in (*JobEvent.__subclasses__(), *Ending.__subclasses__())} - {"Ending"}
    assert set(COLUMNS) == set(EVENTS)
    assert {it.__name__ for it in EVENTS} == kinds
    assert {State(name) for name in EXPECTED} == set(State) == set(TRANSITIONS)
    assert INITIAL is State.RUNNING


def test_ends_are_the_four() -> None:
    """JOB-2, R66: finished, failed, cancelled and lost are ends, and nothing leads out of one."""
    ends = {state for state in State if state.ended}
    assert ends == {State.FINISHED, State.FAILED, State.CANCELLED, State.LOST}
    assert all(not TRANSITIONS[state] for state in ends)


def test_an_end_keeps_its_reason_and_its_moment() -> None:
    """JOB-2: a job that is over says when and why, and so does the refusal of what comes later."""
    over = apply(JOB, Lost(at=BEGAN.plus(9), why="its box is gone"))
    assert (over.state, over.ended, over.why) == (State.LOST, BEGAN.plus(9), "its box is gone")
    with pytest.raises(Ended, match="lost: its box is gone"):
        apply(over, Heard(at=BEGAN.plus(10)))


def test_a_lost_lease_ends_no_job() -> None:
    """JOB-4: the end of its lease leaves a job as it is, and marks it."""
    after = apply(JOB, LeaseEnded(at=BEGAN))
    assert (after.state, after.lease_lost) == (State.RUNNING, True)


@pytest.mark.parametrize(
    ("every", "silent", "state"),
    [
        (300, 899, "running"),
        (300, 900, "quiet"),
        (300, 2999, "quiet"),
        (300, 3000, "stalled"),
        (300, ABANDONED_S - 1, "stalled"),
        (300, ABANDONED_S + 1, "abandoned"),
        (10, 29, "running"),
        (10, 30, "quiet"),
        (10, 599, "quiet"),
        (10, 600, "stalled"),
        (3600, 3 * 3600 - 1, "running"),
        (3600, 10 * 3600, "stalled"),
        (3600, ABANDONED_S, "abandoned"),
    ],
)
def test_what_a_silence_means(every: float, silent: float, state: str) -> None:
    """JOB-2, R63, R65: quiet after 3 intervals, stalled after 10 and 10 min, abandoned after 24 h."""
    assert verdict(replace(JOB, every_s=every), BEGAN.plus(silent)) is State(state)


@given(
    every=st.floats(1, 3600),
    silent=st.floats(0, 3 * ABANDONED_S),
    excuse=st.floats(0, ABANDONED_S),
    state=st.sampled_from(ORDER),
)
def test_the_next_look_comes_just_in_time(every: float, silent: float, excuse: float, state: str) -> None:
    """JOB-2: at the second that a job is looked at again there is a new verdict, and a second before none."""
    now = BEGAN.plus(silent)
    job = excused(replace(JOB, every_s=every, state=State(state)), excuse, now)
    job = replace(job, state=verdict(job, now))
    due = watch_at(job, now)
    if due is None:
        assert job.state is State.ABANDONED
        return
    assert due > now.elapsed - 1e-6
    assert verdict(job, BEGAN.plus(due - BEGAN.elapsed + 0.001)) is not job.state
    if due - 1 > now.elapsed:
        assert verdict(job, BEGAN.plus(due - BEGAN.elapsed - 1)) is job.state


@given(state=st.sampled_from(ORDER), silent=st.floats(0, 2 * ABANDONED_S), every=st.floats(1, 3600))
def test_time_leads_up_only(state: str, silent: float, every: float) -> None:
    """JOB-2: only an update revives a job: no silence, however short, makes it livelier than it was."""
    found = verdict(replace(JOB, state=State(state), every_s=every), BEGAN.plus(silent))
    assert ORDER.index(found) >= ORDER.index(state)


def test_a_job_that_is_over_is_not_judged() -> None:
    """JOB-2, R66: a finished job is never stalled and never abandoned, and nobody looks at it again."""
    over = apply(JOB, Finished(at=BEGAN))
    assert verdict(over, BEGAN.plus(10 * ABANDONED_S)) is State.FINISHED
    assert watch_at(over, BEGAN) is None


def test_nothing_is_judged_before_the_grace_is_over() -> None:
    """JOB-3: until the end of a grace a job stays what it was, and is judged at that second."""
    now = BEGAN.plus(5000)
    assert verdict(JOB, now, now.elapsed + 1) is State.RUNNING
    assert verdict(JOB, now, now.elapsed) is State.STALLED


def test_excused_time_is_no_quiet_time() -> None:
    """JOB-3, R70: downtime is taken off the quiet time, and an update ends what was excused."""
    job = excused(JOB, 1800, BEGAN.plus(2000))
    assert quiet_s(job, BEGAN.plus(2000)) == 200
    assert verdict(job, BEGAN.plus(2000)) is State.RUNNING
    again = apply(job, Heard(at=BEGAN.plus(2000)))
    assert quiet_s(again, BEGAN.plus(2900)) == 900


def test_no_more_is_excused_than_passed() -> None:
    """JOB-3: what is excused never reaches beyond now, so that it cannot be used up later."""
    job = excused(excused(JOB, 5000, BEGAN.plus(100)), 5000, BEGAN.plus(100))
    assert quiet_s(job, BEGAN.plus(1000)) == 900
    assert excused(JOB, -50, BEGAN.plus(100)) == JOB


def test_quiet_time_goes_on_over_a_restart_of_the_machine() -> None:
    """JOB-3: across a restart of the machine the wall clock counts, and quiet time is never negative."""
    later = Moment(at=BEGAN.plus(950).at, boot="boot-2", elapsed=5.0)
    assert verdict(JOB, later) is State.QUIET
    assert watch_at(JOB, later) == 5.0
    before = Moment(at=BEGAN.plus(-50).at, boot="boot-2", elapsed=5.0)
    assert quiet_s(JOB, before) == 0


def test_a_silence_that_was_overslept_gives_one_verdict() -> None:
    """R63: a watcher that comes late goes straight to the last verdict."""
    assert silenced(JOB, State.STALLED, BEGAN.plus(4000)).state is State.STALLED


@pytest.mark.parametrize(
    ("state", "beats"),
    [("running", True), ("quiet", True), ("stalled", False), ("abandoned", False)],
)
def test_reviving_extends_nothing(state: str, beats: bool) -> None:
    """JOB-2, LEASE-20: the update that revives a stalled job does not extend its lease, the next one does."""
    found = apply(replace(JOB, lease="ls_1", state=State(state)), Heard(at=BEGAN.plus(1)))
    assert extends(found) is beats
    assert extends(apply(found, Heard(at=BEGAN.plus(2))))


def test_what_never_extends() -> None:
    """LEASE-20: a job without a lease, one that lost it, and one that is over extend nothing."""
    held = replace(JOB, lease="ls_1")
    assert extends(held)
    assert not extends(JOB)
    assert not extends(replace(held, lease_lost=True))
    assert not extends(apply(held, Failed(at=BEGAN)))
    assert not extends(apply(held, Cancelled(at=BEGAN)))


@pytest.mark.parametrize("every", [0, 0.5, 3601, float("nan"), float("inf"), -1])
def test_an_interval_out_of_bounds(every: float) -> None:
    """JOB-2: an interval between updates is from a second to an hour, and the refusal says so."""
    with pytest.raises(InvalidRequest, match="every") as refused:
        check_every(every)
    assert (refused.value.where, refused.value.expected) == ("every_s", "from 1 s to 1 h")
    check_every(1)
    check_every(3600)
