"""Clocks that jump, a head that was suspended, a head that was down: nothing ends early, late, or twice."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from hostler.domain.values import rfc3339
from tests.fakes.fake_engine import eventually
from tests.fakes.signals import send
from tests.story.clocks import Clocks, started_later
from tests.story.house import House, Json
from tests.story.lease_house import Holder, events, gates, holders, lease_is, leases, queued, resources

HOUR_S = 3600.0
SUSPENDED_S = 17.0
"""Longer than `keeper.BLIND_S` and a tick."""


async def jumps(it: House, count: int) -> list[float]:
    """The clock's jumps that the keeper saw, once there are so many."""
    found: list[float] = []

    async def true() -> bool:
        rows = await events(it, "clock_jumped")
        found[:] = [float(str(row["facts"]["seconds"])) for row in rows if isinstance(row["facts"], dict)]
        return len(found) == count

    try:
        await eventually(true, "")
    except AssertionError:
        raise AssertionError(f"{count} jumps are not seen: {found}\n{it.words()}") from None
    return found


async def suspend(it: House, clocks: Clocks, seconds: float) -> None:
    """The head is suspended for so long: it does not run, and finds all its clocks later."""
    assert it.daemon is not None
    send(it.daemon, signal.SIGSTOP)
    clocks.jump(seconds)
    send(it.daemon, signal.SIGCONT)


async def test_a_wall_clock_that_jumps_ends_nothing(fake: House) -> None:
    """LEASE-21, R57, F17: +3 h and -3 h end no lease early or late, and each jump is one event."""
    clocks = Clocks(it=fake)
    resources(fake, box={"ttl": {"warn": []}}, short={"ttl": {"default": "3s", "max": "3s", "warn": []}})
    await fake.start()
    async with holders(fake, "anna", "bert") as (anna, bert):
        await anna.active(ttl_s=3600.0)
        before = anna.last["expires_in_s"]
        assert isinstance(before, int)
        clocks.jump(3 * HOUR_S)
        (first,) = await jumps(fake, 1)
        assert first == pytest.approx(3 * HOUR_S, abs=60)
        now = await lease_is(fake, anna.id, "active")
        assert before - 60 < int(str(now["expires_in_s"])) <= before
        await bert.active("short")
        clocks.jump(-3 * HOUR_S)
        assert (await jumps(fake, 2))[1] == pytest.approx(-3 * HOUR_S, abs=60)
        assert (await lease_is(fake, bert.id, "expired"))["generation"] == bert.last["generation"]
        now = await lease_is(fake, anna.id, "active")
        assert before - 60 < int(str(now["expires_in_s"])) <= before
    ends = [row["subject"] for row in await events(fake, "lease_ended")]
    assert [it["lease"] for it in ends if isinstance(it, dict)] == [bert.id]


@pytest.mark.slow
async def test_bookings_follow_the_wall_clock(fake: House) -> None:
    """LEASE-21, LEASE-26, TIME-1, F17: a slot begins when the wall clock says so, however it came to that."""
    clocks = Clocks(it=fake)
    resources(fake, box={})
    await fake.start()
    start = rfc3339(datetime.now(UTC) + timedelta(hours=2))
    async with holders(fake, "anna") as (anna,):
        assert (await anna.reserve(start=start, ttl_s=HOUR_S)).status_code == 200
        assert anna.last["state"] == "scheduled"
        clocks.jump(2 * HOUR_S + 60)
        await lease_is(fake, anna.id, "offered")
        clocks.jump(-3 * HOUR_S)
        await jumps(fake, 2)
        assert (await anna.do("claim", wait_s=10.0)).json()["lease"]["state"] == "active"


async def test_a_head_that_was_suspended_for_two_hours(fake: House) -> None:
    """LEASE-21, F19: past their time leases have grace, past their hard end they end; B is next."""
    clocks = Clocks(it=fake, boot=True)
    short: Json = {"default": "1h", "max": "1h", "warn": []}
    # No action that runs a command: libfaketime has a lock that a forked child may find taken for ever.
    resources(fake, box={"ttl": short, "actions": [{"hold": "local"}]}, soft={"ttl": {**short, "max": "12h"}})
    await fake.start()
    async with holders(fake, "anna", "bert", "carl") as (anna, bert, carl):
        await anna.active()
        await carl.active("soft")
        await bert.reserve()
        await queued(fake, "bert")
        await suspend(fake, clocks, 2 * HOUR_S)
        await lease_is(fake, anna.id, "expired")
        assert (await lease_is(fake, carl.id, "active"))["id"] == carl.id
        renewed = await carl.do("renew")
        assert (renewed.status_code, renewed.json()["granted_s"]) == (200, HOUR_S)
        await has_it(bert)
        rows = await events(fake, "lease_ended", "lease_offered")
        order = [(row["type"], row["subject"]["lease"]) for row in rows if isinstance(row["subject"], dict)]
        assert order == [("lease_ended", anna.id), ("lease_offered", bert.id)]
        held = json.loads(await fake.told("box", "status", "--json"))
        assert held["record"]["lease"] == bert.id


async def has_it(holder: Holder) -> None:
    """Keep the place and take up the offer until it is active."""

    async def active() -> bool:
        await holder.do("renew", wait_s=1.0)
        return holder.last["state"] == "active"

    await eventually(active, f"{holder.name} has it\n{holder.it.words()}")


async def test_jobs_of_a_head_that_was_suspended(fake: House) -> None:
    """JOB-3, LEASE-21, R70, F19: time in which nobody listened stalls no job."""
    clocks = Clocks(it=fake, boot=True)
    resources(fake, box={})
    await fake.start()
    async with holders(fake, "anna") as (anna,):
        body = {"title": "long", "every_s": 60.0, "secret_hash": "0" * 64}
        job = (
            await anna.client.post("/v1/hostler/jobs", json=body, headers={"idempotency-key": "a" * 32})
        ).json()["job"]
        await suspend(fake, clocks, 2 * HOUR_S)
        await anna.active()

        async def runs() -> bool:
            found = (await anna.client.get(f"/v1/hostler/jobs/{job['id']}")).json()["job"]
            return found["state"] in ("running", "quiet")

        await eventually(runs, f"it runs as before\n{fake.words()}")
    assert not await events(fake, "job_stalled", "job_abandoned")


@pytest.mark.slow
async def test_a_head_that_does_not_run_for_a_while(fake: House) -> None:
    """LEASE-21, F19: a process that was stopped is blind as well: what ran out meanwhile has its grace."""
    resources(fake, box={"ttl": {"default": "5s", "max": "12h", "warn": []}})
    await fake.start()
    async with holders(fake, "anna") as (anna,):
        await anna.active()
        assert fake.daemon is not None
        send(fake.daemon, signal.SIGSTOP)
        with pytest.raises(httpx2.TimeoutException):
            await anna.client.get("/v1/hostler/leases", timeout=SUSPENDED_S)
        send(fake.daemon, signal.SIGCONT)
        assert (await anna.do("renew")).json()["granted_s"] == 5
        assert anna.last["state"] == "active"


@pytest.mark.parametrize(
    "down_s", [pytest.param(90, id="90 s"), pytest.param(2400, id="40 min", marks=pytest.mark.slow)]
)
async def test_a_head_that_was_down(fake: House, down_s: int) -> None:
    """LEASE-14, LEASE-21, R36, F21: what ran out is renewed in grace; nothing is done twice."""
    box = gates(fake, "one", "two", ttl={"default": "1m", "max": "12h", "warn": []})
    await fake.start()
    async with holders(fake, "anna", "bert") as (anna, bert):
        await anna.active(ttl_s=60.0)
        first = dict(anna.last)
        await fake.end(signal.SIGKILL)
        started_later(fake, down_s)
        await fake.start()
        kept = await lease_is(fake, anna.id, "active")
        assert (kept["generation"], kept["epoch"]) == (first["generation"], first["epoch"])
        assert kept["expires_in_s"] == 0
        await bert.reserve()
        assert bert.last["state"] == "queued"
        assert (await anna.do("renew", ttl_s=60.0)).json()["granted_s"] == 60
        await anna.do("release")
        await has_it(bert)
    assert box.effects == ["do one", "do two", "undo two", "undo one", "do one", "do two"]
    assert [row["id"] for row in await leases(fake)] == [bert.id]
