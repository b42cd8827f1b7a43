"""What a beat of a job gives its lease, on the real schedule."""

from __future__ import annotations

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.events import Event
from hostler.services.scene import Scene
from hostler.services.schedule_views import lease_view
from hostler.wire.jobs import JobBody, UpdateBody
from hostler.wire.schedule import LeaseView
from tests.fakes.leases import NOW, active
from tests.fakes.schedule_world import AGENT, BY, Head, fleet, hash_of, head, resource
from tests.services.window_room import room

BOX = resource("box", ttl_s=7200.0, max_s=4 * 3600.0, indefinite=True)


async def job_of(it: Head, lease: LeaseView, holder: str = "anna") -> str:
    """The id of a job of `holder` under that lease."""
    body = JobBody(title="sweep", secret_hash=hash_of(holder), holder=holder, lease=lease.id)
    return (await it.parts.jobs.start(body, f"job of {lease.id}", AGENT, BY)).job.id


async def beat(it: Head, job: str, holder: str = "anna") -> None:
    await it.parts.jobs.update(job, UpdateBody(secret=holder), AGENT, BY)


async def renewals(it: Head) -> list[Event]:
    """The renewals so far, in order."""
    assert isinstance(it.store, MemoryStore)
    return [row.event for row in await it.store.since(None, 1000) if row.event.type == "lease_renewed"]


@pytest.mark.parametrize(("asked_s", "left_s"), [(1200.0, 7200), (None, 7200), (3 * 3600.0, 3 * 3600)])
async def test_a_beat_is_a_renewal_by_the_default(asked_s: float | None, left_s: int) -> None:
    """LEASE-20: by the resource's default TTL, whatever was asked for at first; never shorter than it was."""
    async with head(BOX) as it:
        lease = await it.reserve("box", ttl_s=asked_s)
        assert lease.beat_s == 7200.0
        await beat(it, await job_of(it, lease))
        assert (await it.look(lease)).expires_in_s == left_s


async def test_a_renewal_without_a_time_is_by_the_lease_s_own() -> None:
    """LEASE-17, LEASE-20: only beats take the default; a renewal takes what the lease was asked for with."""
    async with head(BOX) as it:
        lease = await it.reserve("box", ttl_s=1200.0)
        await it.clock.advance(600)
        assert (await it.renew(lease)).expires_in_s == 1200


async def test_beats_end_at_the_longest_time() -> None:
    """LEASE-20, R54: beats extend a lease to its `max` and no further, and it says what limited it."""
    async with head(BOX) as it:
        lease = await it.reserve("box", ttl_s=1200.0)
        job = await job_of(it, lease)
        for _ in range(12):
            await beat(it, job)
            await it.skip(1250)
        assert (await it.look(lease)).state == "expired"
        assert "max" in [event.facts.get("limited_by") for event in await renewals(it)]


async def test_a_beat_says_that_it_was_one() -> None:
    """LEASE-20: the event of an extension tells that a sign of life of a job was it, and for how long."""
    async with head(BOX) as it:
        lease = await it.reserve("box", ttl_s=1200.0)
        job = await job_of(it, lease)
        await beat(it, job)
        await it.renew(lease, ttl_s=3 * 3600.0)
        assert [event.message for event in await renewals(it)] == [
            f"anna has box for 2 h by a sign of life of job {job}.",
            "anna has box for 3 h.",
        ]


async def test_where_a_beat_extends_nothing() -> None:
    """LEASE-18, LEASE-20: a lease without an end has none to move, and says so."""
    async with head(BOX) as it:
        lease = await it.reserve("box", indefinite=True)
        assert lease.beat_s is None
        await beat(it, await job_of(it, lease))
        assert (await it.look(lease)).expires_at is None


async def test_a_beat_is_taken_that_extends_no_window() -> None:
    """WIN-2, LEASE-17, LEASE-20: of a window's job, also where its cap is below the default."""
    async with room() as it:
        window = await it.open(cap_s=1800.0)
        job = await job_of(it.head, window)
        await it.head.skip(60.0)
        await beat(it.head, job)
        assert await renewals(it.head) == []
        assert (await it.head.look(window)).hard_at == window.hard_at


def test_that_a_beat_extends_no_window_is_told() -> None:
    """WIN-2, LEASE-20: a window has its cap: its view says that a beat gives it nothing."""
    scene = Scene(fleet=fleet(resource("pair")), live=(), fence=None, now=NOW)
    assert lease_view(active(), scene).beat_s == 3600.0
    assert lease_view(active(mode="heavy"), scene).beat_s is None
