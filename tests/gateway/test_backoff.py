from datetime import timedelta
from email.utils import format_datetime

import pytest

from hostler.domain.errors import UpstreamUnreachable
from hostler.domain.fleet import EngineTarget, Target, UpstreamTarget
from hostler.domain.values import EngineId
from hostler.gateway.backoff import Backoff, asked_for, fails
from tests.fakes.clock import START, ManualClock
from tests.fakes.ids import CountingIds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def backoff(clock: ManualClock) -> Backoff:
    return Backoff(clock=clock, ids=CountingIds(0.0))


async def off_for(backoff: Backoff, clock: ManualClock) -> int:
    """Whole seconds until it may be asked again."""
    seconds = 0
    while backoff.is_off("cloud"):
        await clock.advance(1)
        seconds += 1
    return seconds


async def test_it_doubles_to_a_minute(backoff: Backoff, clock: ManualClock) -> None:
    """GW-13: an upstream that fails again and again is left alone 1 s, 2 s, 4 s … and at most 60 s."""
    waits = []
    for _ in range(8):
        backoff.failed("cloud")
        waits.append(await off_for(backoff, clock))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_jitter(clock: ManualClock) -> None:
    """GW-13: up to a quarter more is waited, so that gateways do not come back at the same moment."""
    backoff = Backoff(clock=clock, ids=CountingIds(1.0))
    for _ in range(3):
        backoff.failed("cloud")
        await clock.advance(10)
    backoff.failed("cloud")
    await clock.advance(9.99)
    assert backoff.is_off("cloud")
    await clock.advance(0.01)
    assert not backoff.is_off("cloud")


async def test_one_probe(backoff: Backoff, clock: ManualClock) -> None:
    """GW-13: after its time one request is the probe, and others are refused until that has ended."""
    backoff.failed("cloud")
    with pytest.raises(UpstreamUnreachable) as refused:
        backoff.check("cloud")
    assert refused.value.retry_after == 1
    await clock.advance(1)
    assert backoff.check("cloud")
    with pytest.raises(UpstreamUnreachable):
        backoff.check("cloud")
    assert backoff.is_off("cloud")
    backoff.worked("cloud")
    assert not backoff.check("cloud")


async def test_a_probe_that_learns_nothing(backoff: Backoff, clock: ManualClock) -> None:
    """GW-13: a probe whose client hung up leaves its turn to the next request, for ever shut is nobody."""
    backoff.failed("cloud")
    await clock.advance(1)
    assert backoff.check("cloud")
    backoff.probed("cloud")
    assert backoff.check("cloud")


async def test_retry_after_wins(backoff: Backoff, clock: ManualClock) -> None:
    """GW-13: an upstream's own Retry-After is waited for, shorter or longer than ours, up to an hour."""
    backoff.failed("cloud", 7)
    assert await off_for(backoff, clock) == 7
    backoff.failed("cloud", 0)
    assert not backoff.is_off("cloud")
    backoff.failed("cloud", 1e12)
    await clock.advance(3600)
    assert not backoff.is_off("cloud")


async def test_failures_at_once_are_one(backoff: Backoff, clock: ManualClock) -> None:
    """GW-13: twenty requests that fail together make one failure, not twenty in a row."""
    for _ in range(20):
        backoff.failed("cloud")
    assert await off_for(backoff, clock) == 1


def test_who_is_off_comes_last(backoff: Backoff) -> None:
    """GW-13: a target that is left alone is tried last, and first only where there is no other."""
    cloud, fast = UpstreamTarget(upstream="cloud"), EngineTarget(engine=EngineId("fast"))
    both: tuple[Target, ...] = (cloud, fast)
    assert backoff.last(both) == both
    backoff.failed("cloud")
    assert backoff.last(both) == (fast, cloud)
    assert backoff.last((cloud,)) == (cloud,)


@pytest.mark.parametrize(
    ("status", "after", "expected"),
    [
        *((status, None, True) for status in (502, 503, 504)),
        (429, b"3", True),
        (429, None, False),
        (500, None, False),
        (400, b"3", False),
    ],
)
def test_what_counts_as_failing(status: int, after: bytes | None, expected: bool) -> None:
    """GW-13: overload and gateways' errors count; a 500 of one request does not shut an upstream for all."""
    assert fails(status, after) is expected


def test_retry_after_in_both_forms() -> None:
    """GW-13: Retry-After is a number or a date; anything else is as if it were not there."""
    later = format_datetime(START.replace(microsecond=0) + timedelta(seconds=30), usegmt=True).encode()
    past = format_datetime(START - timedelta(days=1), usegmt=True).encode()
    assert asked_for(b" 17 ", START) == 17
    assert asked_for(later, START) == pytest.approx(29.518)
    assert asked_for(past, START) == 0
    for text in (None, b"", b"soon", b"-3", "²".encode("latin-1"), b"1.5"):
        assert asked_for(text, START) is None
