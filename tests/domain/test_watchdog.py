import pytest

from hostler.domain.engine import Readiness
from hostler.domain.watchdog import STALL_S, Progress, Pulse, observe, progress


@pytest.mark.parametrize("seen", [Readiness.UNREACHABLE, Readiness.LOADING])
def test_the_third_failure_in_a_row(seen: Readiness) -> None:
    """ENG-8: the third bad look in a row makes a running engine failed, the second does not."""
    first = observe(0, seen, progressed=False)
    second = observe(first.failures, seen, progressed=False)
    third = observe(second.failures, seen, progressed=False)
    assert (first, second) == (Pulse(failures=1), Pulse(failures=2))
    assert third == Pulse(failures=3, failed=True)


def test_a_good_look_starts_anew() -> None:
    """ENG-8: a good look between bad ones starts the count anew."""
    assert observe(2, Readiness.READY, progressed=False) == Pulse(failures=0)


def test_a_busy_engine_is_well() -> None:
    """ENG-8: an engine whose work moves on is well, however often it was too busy to answer a look."""
    assert observe(2, Readiness.UNREACHABLE, progressed=True) == Pulse(failures=0)


@pytest.mark.parametrize("seen", [Readiness.DEAD, Readiness.STRANGER, Readiness.WRONG_MODEL])
def test_what_no_second_look_mends(seen: Readiness) -> None:
    """ENG-4: an engine that is gone, or not itself, is failed at the first look, whatever moves."""
    assert observe(0, seen, progressed=True).failed


def test_no_work_cannot_stall() -> None:
    """ENG-8: an engine without work has no progress to make and is never stalled."""
    busy = progress(None, in_flight=1, mark=10, now=5.0)
    assert progress(busy, in_flight=0, mark=10, now=9999.0) is None


def test_a_long_answer_that_streams_is_no_stall() -> None:
    """ENG-8: work that moves is no stall, however long it takes."""
    seen: Progress | None = None
    for look in range(1000):
        seen = progress(seen, in_flight=1, mark=look, now=look * STALL_S * 0.9)
        assert seen is not None
        assert not seen.stalled(look * STALL_S * 0.9)


def test_work_that_does_not_move_stalls() -> None:
    """ENG-8: work without progress for the whole limit is a stall, at the limit and not before."""
    seen = progress(None, in_flight=1, mark=7, now=100.0)
    seen = progress(seen, in_flight=2, mark=7, now=100.0 + STALL_S)
    assert seen is not None
    assert not seen.stalled(99.0 + STALL_S)
    assert seen.stalled(100.0 + STALL_S)
