"""Two hosts with real daemons: one schedule, routes to each other's engines, leases over both."""

from __future__ import annotations

import json

import pytest

from tests.testbed.bed import Bed

pytestmark = pytest.mark.slow


async def test_a_lease_on_the_other_host(both: Bed) -> None:
    """R16, NODE-1, NODE-6: a route leads to the other host's engine from both; a lease there has the same steps."""
    await both.start()
    crow, raven = both.crow, both.raven
    await raven.is_state("raven-work", "ready")
    await crow.is_state("crow-spare", "ready")
    assert await crow.said("far") == "I am raven-work."
    assert await raven.said("near") == "I am crow-work."
    told = json.loads(await crow.told("reserve", "raven_box", "--for", "10m", "--json"))
    lease = told.get("lease", told)
    assert lease["state"] == "active", told
    steps = [(step["host"], step["kind"], step["state"]) for step in lease["steps"]]
    assert steps == []
    await raven.is_state("raven-work", "stopped")
    assert raven.hold.exists()
    assert await crow.said("far") == "I am crow-spare."
    assert await raven.said("far") == "I am crow-spare."
    await crow.told("release", "raven_box")
    assert await raven.said("far") == "I am raven-work."
    assert not raven.hold.exists()
