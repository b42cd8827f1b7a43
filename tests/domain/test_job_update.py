from collections.abc import Callable
from dataclasses import replace

import pytest

from hostler.domain.errors import Ended, InvalidRequest
from hostler.domain.fleet import frozen
from hostler.domain.job import Job, Point, Progress, Receipt, State
from hostler.domain.job_update import (
    MAX_LABEL,
    MAX_METRIC_NAMES,
    MAX_METRICS,
    MAX_NOTE,
    MAX_RECEIPTS,
    Update,
    applied,
    check_metrics,
    check_note,
    points_of,
    progress_of,
    updated,
)
from tests.domain.test_job import BEGAN, JOB

RECEIPT = Receipt(kind="file", name="results.json", sha256="0" * 64)
NAN, INF = float("nan"), float("inf")


def full(count: int) -> Job:
    return replace(JOB, receipts=(RECEIPT,) * count)


def metrics(count: int) -> dict[str, float]:
    return {f"m{number}": float(number) for number in range(count)}


def test_everything_of_an_update_is_applied() -> None:
    """R61, R67: one update may have a note, progress, metrics and receipts, and all of it is applied."""
    sent = Update(
        n=3,
        note="half",
        progress=progress_of(None, 5, 10, "runs"),
        metrics=frozen({"tok_s": 41.5}),
        receipts=(RECEIPT,),
        source="child",
    )
    after, kinds = updated(replace(JOB, metrics=frozen({"loss": 0.5})), sent, BEGAN.plus(60))
    assert kinds == ("note", "progress", "metrics", "receipts")
    assert (after.note, after.source, after.applied) == ("half", "child", 3)
    assert after.progress == Progress(value=0.5, n=5, total=10, label="runs")
    assert after.metrics == {"loss": 0.5, "tok_s": 41.5}
    assert after.receipts == (RECEIPT,)
    assert after.heard == BEGAN.plus(60)
    assert points_of(after, sent, BEGAN.plus(60)) == (Point(name="tok_s", elapsed_s=60.0, value=41.5),)


def test_an_empty_update_is_a_heartbeat() -> None:
    """JOB-2, R62: an update without anything moves only the time when the job was heard of."""
    after, kinds = updated(replace(JOB, note="so far", state=State.QUIET), Update(), BEGAN.plus(60))
    assert kinds == ()
    assert after == replace(JOB, note="so far", heard=BEGAN.plus(60))


def test_an_ended_job_takes_no_update() -> None:
    """R66: a job that is over refuses every update, and a heartbeat too."""
    over = replace(JOB, state=State.FINISHED)
    for sent in (Update(), Update(note="one more thing")):
        with pytest.raises(Ended):
            updated(over, sent, BEGAN)


@pytest.mark.parametrize(
    ("check", "fits", "breaks", "bound"),
    [
        (check_note, "x" * MAX_NOTE, "x" * (MAX_NOTE + 1), str(MAX_NOTE)),
        (check_note, "é" * (MAX_NOTE // 2), "é" * (MAX_NOTE // 2 + 1), str(MAX_NOTE)),
        (check_metrics, metrics(MAX_METRICS), metrics(MAX_METRICS + 1), str(MAX_METRICS)),
        (check_metrics, {"m" * MAX_LABEL: 1.0}, {"m" * (MAX_LABEL + 1): 1.0}, str(MAX_LABEL)),
        (check_metrics, {"m": 1.0}, {"": 1.0}, "from 1"),
        (check_metrics, {"m": 1e308}, {"m": NAN}, "NaN"),
        (check_metrics, {"m": -1e308}, {"m": INF}, "infinity"),
    ],
)
def test_bounds_hold_and_are_named(
    check: Callable[[object], None], fits: object, breaks: object, bound: str
) -> None:
    """JOB-7, R68: what is at a bound passes, what is one over it is refused, and the refusal names it."""
    check(fits)
    with pytest.raises(InvalidRequest) as refused:
        check(breaks)
    assert bound in refused.value.expected


def test_a_job_has_a_bounded_number_of_receipts() -> None:
    """JOB-7, R67, R68: 64 receipts fit, and a 65th refuses the whole update, its note included."""
    after, _ = updated(full(MAX_RECEIPTS - 1), Update(receipts=(RECEIPT,)), BEGAN)
    assert len(after.receipts) == MAX_RECEIPTS
    with pytest.raises(InvalidRequest) as refused:
        updated(after, Update(note="late", receipts=(RECEIPT,)), BEGAN)
    assert (refused.value.where, refused.value.expected) == ("receipts", f"at most {MAX_RECEIPTS} of one job")


def test_a_job_has_a_bounded_number_of_metrics() -> None:
    """JOB-7: a job keeps 256 different metrics; known ones go on, a further one is refused."""
    job = replace(JOB, metrics=frozen(metrics(MAX_METRIC_NAMES)))
    after, _ = updated(job, Update(metrics=frozen({"m0": 9.0})), BEGAN)
    assert after.metrics["m0"] == 9.0
    with pytest.raises(InvalidRequest, match="257 metrics"):
        updated(job, Update(metrics=frozen({"new": 1.0})), BEGAN)


@pytest.mark.parametrize(
    ("value", "n", "total"),
    [
        (None, None, None),
        (1.1, None, None),
        (-0.1, None, None),
        (NAN, None, None),
        (None, INF, 10),
        (None, 3, None),
        (None, None, 10),
        (None, 3, 0),
        (None, -1, 10),
        (None, 11, 10),
        (0.5, 5, 10),
    ],
)
def test_progress_that_does_not_fit(value: float | None, n: float | None, total: float | None) -> None:
    """JOB-1, JOB-7: progress is a share from 0 to 1, or n of total; anything else is refused by name."""
    with pytest.raises(InvalidRequest) as refused:
        progress_of(value, n, total)
    assert refused.value.where == "progress"


@pytest.mark.parametrize(
    ("value", "n", "total", "share"), [(0, None, None, 0), (None, 3, 4, 0.75), (1, None, None, 1)]
)
def test_progress_that_fits(value: float | None, n: float | None, total: float | None, share: float) -> None:
    """JOB-1: progress is told as a share, and counted where it was counted."""
    found = progress_of(value, n, total, "runs")
    assert (found.value, found.n, found.total, found.label) == (share, n, total, "runs")


def test_an_applied_number_is_known() -> None:
    """JOB-6: a sequence number up to the highest applied one was applied; none says nothing."""
    job = replace(JOB, applied=5)
    assert [applied(job, n) for n in (None, 4, 5, 6)] == [False, True, True, False]
