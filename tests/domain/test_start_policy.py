import pytest

from hostler.domain.fleet import DriverKind, Engine
from hostler.domain.start_policy import TRIES, after_failure, leaves_failed_in, start_budget_s
from hostler.domain.values import Cause, EngineId, HostName


def engine(driver: DriverKind = DriverKind.PROCESS, start_timeout_s: float | None = None) -> Engine:
    return Engine(id=EngineId("fast"), host=HostName("crow"), driver=driver, start_timeout_s=start_timeout_s)


def test_three_tries() -> None:
    """ENG-3: a start that fails is tried again after 1 s and 2 s, and after the third failure no more."""
    assert [after_failure(attempts) for attempts in (1, 2, 3, 4)] == [1.0, 2.0, None, None]


def test_the_delay_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """ENG-3: however many tries there were, the delay doubles to 30 s and no further."""
    assert TRIES == 3
    monkeypatch.setattr("hostler.domain.start_policy.TRIES", 10_000)
    assert [after_failure(attempts) for attempts in (4, 5, 6, 60, 1000)] == [8.0, 16.0, 30.0, 30.0, 30.0]


@pytest.mark.parametrize(
    ("cause", "after"),
    [
        (Cause.REQUEST, 30.0),
        (Cause.ACQUIRE, 30.0),
        (Cause.API, 30.0),
        (Cause.STEP, 30.0),
        (Cause.RESIDENCY, 120.0),
        (Cause.IDLE_REVERT, 120.0),
        (Cause.RETRY, 120.0),
        (Cause.WATCHDOG, 0.0),
    ],
)
def test_who_may_try_a_failed_engine_when(cause: Cause, after: float) -> None:
    """ENG-3: a failed engine is tried for a caller after 30 s, for a timer after 120 s, not sooner."""
    assert leaves_failed_in(0.0, cause) == after
    assert leaves_failed_in(after - 0.5, cause) == min(0.5, after)
    assert leaves_failed_in(after, cause) == leaves_failed_in(after + 1, cause) == 0.0


@pytest.mark.parametrize(
    ("driver", "timeout", "size", "budget"),
    [
        (DriverKind.PROCESS, None, 0, 120.0),
        (DriverKind.PROCESS, None, 157_000_000_000, 1376.0),
        (DriverKind.SYSTEMD, None, 1_000_000_000, 128.0),
        (DriverKind.CONTAINER, None, 0, 240.0),
        (DriverKind.COMPOSE, None, 1_000_000_000, 248.0),
        (DriverKind.CONTAINER, 5.0, 157_000_000_000, 5.0),
        (DriverKind.PROCESS, 1200.0, 0, 1200.0),
    ],
)
def test_the_start_budget(driver: DriverKind, timeout: float | None, size: int, budget: float) -> None:
    """ENG-5: a start has 120 s and 8 ms per MB of its model, a container 240 s, or what the config gives."""
    assert start_budget_s(engine(driver, timeout), size) == pytest.approx(budget)
