"""REL-3: the state machine of leases and jobs, on the memory and the SQLite store; the short form."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.services.machine import ScheduleMachine, Tally, machine
from tests.services.machine_corpus import CORPUS


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("name", CORPUS)
def test_what_was_found_once_holds(name: str, kind: str) -> None:
    """REL-3: each play of the corpus holds after every step, and ends with everything back (R39)."""
    it = ScheduleMachine()
    it.start(kind, "first", [])
    with closing(it):
        for rule, values in CORPUS[name]:
            getattr(it, rule)(**values)
            it.holds()
        it.ends_well()


def test_whatever_happens_the_schedule_holds() -> None:
    """REL-3, LEASE-4, LEASE-7, LEASE-8, LEASE-14, LEASE-28, FEED-2, R39: whatever holders, operators,
    persons, faults, crashes and clocks do, one lease holds a resource, and all is back when none does.
    """
    tally = Tally()
    run_state_machine_as_test(
        machine(tally),
        settings=settings(
            derandomize=True,
            database=None,
            deadline=None,
            max_examples=70,
            stateful_step_count=35,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate, Phase.shrink),
        ),
    )
    assert tally.steps > 1000
