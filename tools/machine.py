"""Decides for how long the state machine of leases and jobs is played (REL-3), and prints how much it was.

Each round draws other examples, and tells the sum so far. The first failure ends it, with the shortest
example that was found.
"""

import argparse
import sys
import time
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.services.machine import Tally, machine

RUNS: Final = 100
"""Examples of one round: after each it is looked whether the time is up."""
STEPS: Final = 50


def play(minutes: float) -> int:
    """Play until the time is up; 0 when everything held."""
    tally, begun = Tally(), time.monotonic()
    chosen = settings(
        deadline=None,
        max_examples=RUNS,
        stateful_step_count=STEPS,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=True,
    )
    try:
        while time.monotonic() - begun < minutes * 60.0:
            run_state_machine_as_test(machine(tally), settings=chosen)
            _tell(tally, begun)
    except BaseException:
        _tell(tally, begun)
        raise
    return 0


def _tell(tally: Tally, begun: float) -> None:
    took = (time.monotonic() - begun) / 60.0
    print(f"state machine: {tally.runs} runs, {tally.steps} steps in {took:.1f} minutes", flush=True)


def main() -> int:
    """`python -m tools.machine --minutes 20`."""
    parser = argparse.ArgumentParser(prog="python -m tools.machine", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    return play(parser.parse_args().minutes)


if __name__ == "__main__":
    sys.exit(main())
