"""A lease's hold that went: whether it is written again, what of that outlives the daemon, what is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from hostler.domain.hold_plan import RELEASED
from tests.fakes.node_parts import Parts
from tests.services.node_conformance import LEASE, local_rig
from tests.services.test_node_hold import held, hold, record, taken, told


@pytest.fixture
async def it() -> AsyncIterator[Parts]:
    """A host whose watch looks after its leases."""
    async with local_rig() as rig:
        rig.parts.world.watch.upkeep = rig.parts.node.upkeep
        yield rig.parts


@pytest.mark.parametrize("renewed", [3600, 7200])
async def test_what_was_released_by_force_stays_away_while_the_lease_is_put_back(
    it: Parts, renewed: int
) -> None:
    """HOLD-9, HOLD-11: an end that nobody knows is no renewal, and no lease without an end."""
    await hold(it, seconds=3600)
    await held(it, seconds=renewed)
    taken(it, RELEASED)
    await held(it, seconds=None)
    await it.world.ticks(1300)
    assert it.world.hold.record is None
    (lost,) = told(it, "hold_lost")
    assert "released it by force, and it stays away while the lease is put back. `hostler release" in lost


async def test_that_somebody_s_hold_was_in_its_place_outlives_the_daemon(it: Parts) -> None:
    """HOLD-11: what was promised to be written again after another's hold is, though the daemon died."""
    await hold(it, seconds=7200)
    await held(it, seconds=7200)
    taken(it, RELEASED)
    it.world.hold.write("bench", seconds=3600)
    await it.world.ticks(31)
    assert "bench holds it until" in told(it, "hold_lost")[0]
    again = it.again()
    again.keeper.forced.update(it.keeper.forced)
    again.world.hold.remove()
    await again.node.upkeep()
    assert record(again).lease == LEASE
    again.keeper.forced[LEASE] = replace(again.keeper.forced[LEASE], until=record(again).expires_at)
    again.world.hold.remove()
    await again.node.upkeep()
    assert again.world.hold.record is None, "what was released since stays away"


async def test_a_hold_that_is_lost_is_told_once(it: Parts) -> None:
    """HOLD-9: one loss is one event, however often it is looked at; one after it was back is another."""
    await hold(it, seconds=7200)
    await held(it, seconds=7200)
    for losses in (1, 2):
        taken(it, RELEASED)
        for _ in range(3):
            await it.node.upkeep()
        assert len(it.world.events.of("hold_lost")) == losses
        await held(it, seconds=7200 + losses * 600)
        assert record(it).lease == LEASE


@pytest.mark.parametrize(("ahead_s", "away"), [(300, True), (3 * 365 * 86_400, False)])
async def test_a_forced_release_that_is_dated_in_the_future(it: Parts, ahead_s: int, away: bool) -> None:
    """HOLD-11: a wall clock that was set back keeps an endless lease's hold away no longer than 10 min."""
    await hold(it, seconds=None)
    await held(it, seconds=None)
    taken(it, RELEASED)
    row = it.keeper.forced[LEASE]
    assert row.at is not None
    it.keeper.forced[LEASE] = replace(row, at=row.at + timedelta(seconds=ahead_s))
    await it.node.upkeep()
    assert (it.world.hold.record is None) is away
