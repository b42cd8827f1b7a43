from datetime import UTC, datetime, timedelta

from hostler.domain.holding import Holding, closing

NOW = datetime(2026, 9, 4, 20, 0, tzinfo=UTC)
CAP = NOW + timedelta(minutes=10)
WINDOW = Holding(lease="w", resource="pair", holder="anna", until=CAP, mode="heavy", stop_accepting=NOW)


def test_from_the_soft_deadline_on_new_requests_are_refused_with_the_time() -> None:
    """WIN-2: the refusal says since when, until when, and when to come back."""
    refusal = closing("glm", WINDOW, NOW)
    assert refusal is not None
    assert str(refusal) == (
        "glm takes no new requests since 2026-09-04T20:00:00.000Z:"
        " its window closes at 2026-09-04T20:10:00.000Z."
    )
    assert (refusal.code, refusal.retry_after, refusal.lease) == ("window_closing", 600, "w")
    assert closing("glm", WINDOW, NOW - timedelta(seconds=1)) is None


def test_who_comes_back_too_soon_is_told_to_wait_a_minute() -> None:
    """HOLD-13, WIN-2: also once the window is on its way back, and nobody knows its end."""
    late = closing("glm", WINDOW, CAP - timedelta(seconds=5))
    assert late is not None
    assert late.retry_after == 60
    ending = closing("glm", Holding(lease="w", resource="pair", holder="a", stop_accepting=NOW), NOW)
    assert ending is not None
    assert (ending.until, ending.retry_after) == ("its end", 60)


def test_a_lease_has_no_soft_deadline() -> None:
    """LEASE-15: nor has what nobody leased."""
    assert closing("glm", None, NOW) is None
    assert closing("glm", Holding(lease="l", resource="pair", holder="a", until=CAP), NOW) is None
