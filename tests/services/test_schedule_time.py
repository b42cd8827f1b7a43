"""The schedule and time: the fence, bookings, restarts, clocks that jump, races with the keeper."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from hostler.domain.errors import (
    BoxReserved,
    Fenced,
    InvalidRequest,
    LeaseNotFound,
    Refusal,
    SlotTaken,
    StaleGeneration,
    WrongScope,
)
from hostler.domain.values import rfc3339
from hostler.services.schedule_views import why_view
from hostler.wire.jobs import JobBody, UpdateBody
from hostler.wire.schedule import ClaimBody, FenceBody
from tests.fakes.schedule_world import AGENT, BY, OPERATOR, fleet, hash_of, head, resource


async def test_a_fence_holds_expiry_and_promotion_and_its_time_counts_for_nothing() -> None:
    """LEASE-28, R73, R74, R76: under a fence nothing expires or is promoted; what it lasted is given back."""
    async with head() as it:
        a = await it.reserve(holder="a", ttl_s=600)
        b = await it.reserve(holder="b", detached_s=86_400)
        await it.schedule.fence(FenceBody(up=True, reason="deploy", for_s=3600), OPERATOR, BY)
        await it.ticks(1200, step=10)
        assert [(await it.look(x)).state for x in (a, b)] == ["active", "queued"]
        c = await it.reserve(holder="c")
        assert "fenced" in (await it.look(c)).why or "a has" in (await it.look(c)).why
        assert (await it.renew(a)).state == "active"
        with pytest.raises(Fenced):
            await it.reserve(holder="d", now=True)
        await it.schedule.fence(FenceBody(up=False), OPERATOR, BY)
        left = (await it.look(a)).expires_in_s
        assert left is not None
        assert left > 590
        await it.ticks(900, step=5)
        assert [(await it.look(x)).state for x in (a, b)] == ["expired", "offered"]


async def test_a_fence_is_an_operators_and_bounded() -> None:
    """LEASE-28: at most two hours, with a reason, by an operator."""
    async with head() as it:
        with pytest.raises(WrongScope):
            await it.schedule.fence(FenceBody(up=True, reason="x"), AGENT, BY)
        with pytest.raises(InvalidRequest):
            await it.schedule.fence(FenceBody(up=True, reason="x", for_s=7201), OPERATOR, BY)


async def test_a_fence_survives_a_restart_and_comes_down_at_its_time() -> None:
    """LEASE-28, R77: the next daemon finds the fence up, and takes it down when its time has come."""
    async with head() as it:
        await it.schedule.fence(FenceBody(up=True, reason="deploy", for_s=600), OPERATOR, BY)
        later = await it.again()
        assert (await later.schedule.fence_now()).fence.up
        await later.ticks(601, step=10)
        assert not (await later.schedule.fence_now()).fence.up


async def test_a_slot_is_booked_offered_and_lapses() -> None:
    """LEASE-26: a booked slot is offered at its start, and is free again 15 minutes later if nobody came."""
    async with head() as it:
        start = it.clock.now().replace(microsecond=0)
        lease = await it.reserve(start=f"{start.replace(hour=21, minute=0, second=0):%Y-%m-%dT%H:%MZ}")
        assert lease.state == "scheduled"
        await it.ticks(3290, step=5)
        assert (await it.look(lease)).state == "offered"
        await it.ticks(905, step=5)
        assert (await it.look(lease)).state == "lapsed"


async def test_an_overlapping_slot_is_refused_with_the_free_parts() -> None:
    """LEASE-26: two bookings never overlap; the refusal says what is free."""
    async with head() as it:
        await it.reserve(start="2026-09-05T20:00Z", ttl_s=7200)
        with pytest.raises(SlotTaken) as caught:
            await it.reserve(start="2026-09-05T21:00Z", ttl_s=7200, holder="b")
        assert "2026-09-05T22:00:00.000Z to 2026-09-05T23:00:00.000Z" in caught.value.advice()


async def test_a_lease_is_shortened_by_a_booking_and_says_so() -> None:
    """LEASE-26, F30: neither a grant nor a renewal runs into a booking."""
    async with head() as it:
        await it.reserve(start="2026-09-04T20:30Z", ttl_s=3600)
        lease = await it.reserve(holder="b")
        assert (lease.expires_at, lease.limited_by) == ("2026-09-04T20:30:00.000Z", "booking")
        assert (await it.renew(lease, ttl_s=7200)).expires_at == "2026-09-04T20:30:00.000Z"


async def test_a_booking_that_is_offered_ends_with_its_slot() -> None:
    """LEASE-26: what is not active yet is said to be had until its slot ends, and is limited by that."""
    async with head() as it:
        lease = await it.reserve(start="2026-09-04T20:30Z", ttl_s=3600)
        await it.ticks(1495, step=5)
        assert (await it.look(lease)).state == "offered"
        end = "2026-09-04T21:30:00.000Z"
        (row,) = (await it.schedule.resources()).resources
        assert (row.state, row.until) == ("offered", end)
        waiter = await it.reserve(holder="b")
        assert (waiter.held_until, waiter.earliest_at) == (end, end)
        await it.schedule.claim(lease.id, ClaimBody(secret="anna"), AGENT, BY)
        taken = await it.look(lease)
        assert (taken.state, taken.expires_at, taken.limited_by) == ("active", end, "slot")


async def test_why_names_the_next_booking() -> None:
    """LEASE-23, LEASE-26: until when a lease could be had; one that has begun is in the way."""
    async with head() as it:
        assert (await it.schedule.why("bench-disk")).booked_at is None
        await it.reserve(start="2026-09-05T20:30Z", ttl_s=3600, holder="later")
        await it.reserve(start="2026-09-04T20:30Z", ttl_s=3600, holder="anna")
        found = await it.schedule.why("bench-disk")
        assert found.booked_at == "2026-09-04T20:30:00.000Z"
        told = {row.name: (row.met, row.text) for row in found.conditions}["bookings"]
        assert told == (True, "anna has booked it from 2026-09-04T20:30:00.000Z on")
        await it.clock.advance(1500)
        begun = await it.schedule.why("bench-disk")
        assert not {row.name: row.met for row in begun.conditions}["bookings"]


async def test_a_restart_changes_nothing_of_an_active_lease() -> None:
    """R36: holder, end and generation are those of before."""
    async with head() as it:
        lease = await it.reserve()
        later = await it.again()
        assert replace(await later.look(lease), seq=lease.seq) == await it.look(lease)


async def test_a_restart_gives_one_grace_period() -> None:
    """LEASE-21, F21: a keeper that was blind gives two minutes before it ends what became due meanwhile."""
    async with head() as it:
        lease = await it.reserve(ttl_s=60)
        await it.clock.advance(90)
        later = await it.again()
        await later.ticks(100, step=5)
        assert (await later.renew(lease)).state == "active"
        await later.ticks(4000, step=10)
        assert (await later.look(lease)).state == "expired"


async def test_a_wall_clock_that_jumps_ends_nothing() -> None:
    """LEASE-21, R57, F17: three hours ahead and back again, and the lease ends at its elapsed time, once."""
    async with head() as it:
        lease = await it.reserve(ttl_s=3600)
        await it.ticks(60, step=5)
        it.clock.jump(10_800)
        await it.ticks(60, step=5)
        it.clock.jump(-21_600)
        await it.ticks(3450, step=5)
        assert (await it.look(lease)).state == "active"
        await it.ticks(60, step=5)
        assert (await it.look(lease)).state == "expired"
        assert (await it.types()).count("lease_ended") == 1


async def test_why_names_every_condition() -> None:
    """LEASE-23: who asks why is told who has it, who waits, and whether a fence is up."""
    async with head() as it:
        await it.reserve(holder="anna")
        found = await it.schedule.why("bench-disk")
        texts = {row.name: (row.met, row.text) for row in found.conditions}
        assert not texts["free"][0]
        assert "anna" in texts["free"][1]
        assert texts["fence"][0]


def _held(until: str | None) -> BoxReserved:
    return BoxReserved(host="crow", engine="a lease", owner="ben", until="soon", expires_at=until)


async def test_the_earliest_start_is_when_all_that_stands_in_the_way_ends() -> None:
    """LEASE-23: under a hold, a fence or a lease the earliest start is the latest of their ends, and none
    is told where one of them has no end that is known.
    """
    later, far = "2999-01-01T00:00:00.000Z", "2999-02-01T00:00:00.000Z"
    async with head() as it:
        disk = it.schedule.config.fleet.resources["bench-disk"]
        scene = await it.schedule.store.read(it.schedule.scene)
        assert why_view(disk, scene, None).earliest_at == rfc3339(scene.now.at)
        assert why_view(disk, scene, _held(later)).earliest_at == later
        assert why_view(disk, scene, _held(None)).earliest_at is None
        await it.reserve(holder="anna")
        scene = await it.schedule.store.read(it.schedule.scene)
        assert why_view(disk, scene, None).earliest_at not in (None, rfc3339(scene.now.at))
        assert why_view(disk, scene, _held(far)).earliest_at == far


async def test_texts_lose_secrets_and_controls() -> None:
    """SEC-1, BG-22: what a caller writes is kept without keys and without what moves a cursor."""
    async with head() as it:
        lease = await it.reserve(reason="key hk_secret \x1b[2J")
        assert lease.reason == "key **** \\x1b[2J"


async def test_an_unknown_lease_is_not_found() -> None:
    """BG-23: an id that is none of ours is not found, whatever it looks like."""
    async with head() as it:
        for odd in ("../x", "ls_1", "%2e%2e", "a" * 300):
            with pytest.raises(LeaseNotFound):
                await it.schedule.lease(odd)


async def test_cancel_is_legal_in_every_state() -> None:
    """LEASE-16: a place is dropped, an active lease released, and again is no error."""
    async with head() as it:
        a = await it.reserve(holder="a")
        b = await it.reserve(holder="b")
        assert (await it.release(b)).state == "cancelled"
        assert (await it.release(b)).state == "cancelled"
        assert (await it.release(a)).state == "released"


async def test_ten_thousand_rounds_of_renewal_against_expiry() -> None:
    """F05: a renewal and the expiry that meet never both win."""
    async with head() as it:
        for _ in range(200):
            lease = await it.reserve(ttl_s=10)
            await it.clock.advance(10)
            it.parts.keeper.mind.last = it.clock.moment()
            renewed, _ = await asyncio.gather(
                it.renew(lease, ttl_s=10), it.parts.keeper.tick(), return_exceptions=True
            )
            after = await it.look(lease)
            assert (after.state == "active") == (not isinstance(renewed, Refusal))
            if after.state == "active":
                await it.release(after)


async def test_a_change_of_a_leased_resource_is_told() -> None:
    """LEASE-5: a resource that goes from the config while leased is a warning until the lease is over."""
    async with head(resource("box"), resource("crate")) as it:
        lease = await it.reserve("box")
        later = await it.again(fleet(resource("crate")))
        await later.ticks(1)
        assert list(later.warnings[-1]) == [f"box is in the config no more; lease {lease.id} still holds it"]
        await later.release(lease)
        await later.ticks(1)
        assert list(later.warnings[-1]) == []


async def test_a_report_under_a_grant_that_is_over_is_refused() -> None:
    """LEASE-8, F03, JOB-4: a report that names a grant which is over is refused; without, the job goes on."""
    async with head() as it:
        lease = await it.reserve()
        body = JobBody(title="sweep", secret_hash=hash_of("anna"), holder="anna", lease=lease.id)
        job = (await it.parts.jobs.start(body, "job-1", AGENT, BY)).job
        report = UpdateBody(secret="anna", note="on", generation=lease.generation)
        assert (await it.parts.jobs.update(job.id, report, AGENT, BY)).job.note == "on"
        await it.release(lease)
        await it.reserve(holder="bert")
        with pytest.raises(StaleGeneration) as caught:
            await it.parts.jobs.update(job.id, replace(report, note="off"), AGENT, BY)
        assert (caught.value.present, caught.value.holder) == (2, "bert")
        after = (await it.parts.jobs.update(job.id, UpdateBody(secret="anna"), AGENT, BY)).job
        assert (after.note, after.state) == ("on", "running")
