"""How long a start may take, and when a failed one is tried again (ENG-3, ENG-5).

Decides delays only. Whether a start is allowed is the gate's decision.
"""

from __future__ import annotations

from typing import Final

from hostler.domain.fleet import DriverKind, Engine
from hostler.domain.values import Cause

TRIES: Final = 3
FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 30.0
ASKED_AFTER_S: Final = 30.0
"""A caller who names a failed engine may have it tried again after this long (ENG-3)."""
TIMER_AFTER_S: Final = 120.0
"""Residency and the other timers try a failed engine, or one that was refused, this often (ENG-10)."""

START_S: Final = 120.0
CONTAINER_START_S: Final = 240.0
S_PER_MB: Final = 0.008

_CONTAINERS: Final = frozenset({DriverKind.CONTAINER, DriverKind.COMPOSE})


def after_failure(attempts: int) -> float | None:
    """Seconds to wait after the `attempts`-th try of a start failed, None when it was the last (ENG-3).

    1 s doubling to 30 s, three tries.
    """
    if attempts >= TRIES:
        return None
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (attempts - 1))


def leaves_failed_in(since_s: float, cause: Cause) -> float:
    """Seconds until a start for `cause` may be tried of an engine that failed `since_s` ago (ENG-3).

    A caller waits 30 s, a timer 120 s. The watchdog does not wait: it restarts what had been serving.
    """
    if cause is Cause.WATCHDOG:
        return 0.0
    return max(0.0, (TIMER_AFTER_S if cause.timer else ASKED_AFTER_S) - since_s)


def start_budget_s(engine: Engine, model_bytes: int) -> float:
    """Seconds that a start of `engine` may take (ENG-5).

    `start_timeout`, else 120 s (a container: 240 s) and 8 ms per MB of the model: 157 GB of weights have
    120 + 157,000 x 0.008 = 1,376 s.
    """
    if engine.start_timeout_s is not None:
        return engine.start_timeout_s
    base = CONTAINER_START_S if engine.driver in _CONTAINERS else START_S
    return base + S_PER_MB * model_bytes / 1e6
