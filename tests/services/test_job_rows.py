"""Rows of jobs that are kept as text say what a fresh row says."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hostler.domain.fleet import frozen
from hostler.domain.job import Job, State
from hostler.services.job_rows import JobRows
from hostler.services.job_views import job_view
from hostler.wire.values import dump
from tests.adapters.schedule_rows import full_job, job, moment

TEXT = st.one_of(st.text(max_size=5), st.sampled_from(['"quiet_s":7,', '\\"quiet_s":', "quiet_s", "\udcff"]))
CHANGED: st.SearchStrategy[dict[str, object]] = st.builds(
    dict,
    title=TEXT,
    note=TEXT,
    metrics=st.dictionaries(TEXT, st.floats(allow_nan=False, allow_infinity=False), max_size=2).map(frozen),
    state=st.sampled_from([it for it in State if not it.ended]),
    heard=st.integers(0, 90).map(moment),
)
ROUNDS = st.lists(
    st.tuples(st.integers(0, 100_000), st.dictionaries(st.integers(0, 3), CHANGED, max_size=3)), max_size=5
)


@given(ROUNDS)
def test_a_row_is_what_a_fresh_one_would_be(rounds: list[tuple[int, dict[int, dict[str, object]]]]) -> None:
    """FEED-1, PERF-10: whatever of a job has changed, and however late it is, its row is as it is now."""
    kept = JobRows()
    jobs: dict[int, Job] = {0: job(1), 1: full_job()}
    for seconds, changes in rounds:
        for n, changed in changes.items():
            jobs[n] = replace(jobs.get(n, job(n + 10)), **changed)  # type: ignore[arg-type] # fields of a job
        now = moment(seconds)
        fresh = [json.loads(dump(job_view(it, it.state, now))) for it in jobs.values()]
        assert json.loads(dump(kept.told(list(jobs.values()), now))) == fresh


def test_only_rows_of_the_last_snapshot_are_kept() -> None:
    """PERF-10: memory is bounded by the jobs that are open."""
    kept = JobRows()
    kept.told([job(1), job(2)], moment())
    kept.told([job(2)], moment())
    assert list(kept.kept) == [job(2).id]
    assert json.loads(dump(kept.told([], moment()))) == []
