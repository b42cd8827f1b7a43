"""The Python client on a real daemon."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hostler import AsyncHostler, Hostler, LeaseLost
from hostler.domain.errors import HoldTaken
from tests.fakes.fake_engine import eventually
from tests.story.house import House, house


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon with one resource that has no actions."""
    async with house(tmp_path) as made:
        made.top["reservations"] = {"resources": {"pair": {"title": "both boxes"}}}
        await made.start()
        await eventually((made.state / "daemon.json").exists, "the daemon has said where it is")
        yield made


def client(it: House) -> AsyncHostler:
    return AsyncHostler(env={**it.environment(), "USER": "ada"}, state=it.state)


async def waits(it: House) -> bool:
    async with it.client(authorization=f"Bearer {it.key}") as http:
        rows = (await http.get("/v1/hostler/leases")).json()["leases"]
    return any(row["state"] == "queued" and row["place"] == 1 for row in rows)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_lease_and_a_place_outlive_the_daemon(it: House, number: int) -> None:
    """CLIENT-1, R94, R36, F28: over a restart a holder keeps its lease and job, and who waits its place."""
    got: list[str] = []

    async def second() -> None:
        async with client(it) as hostler, hostler.lease("pair", wait="2m") as lease:
            got.append(lease.id)

    async with client(it) as hostler:
        async with hostler.lease("pair", ttl="10m") as lease, hostler.job("sweep", lease=lease) as job:
            job.note("before")
            with pytest.raises(HoldTaken, match="ada"):
                async with hostler.lease("pair"):
                    pass
            waiting = asyncio.create_task(second())
            await eventually(lambda: waits(it), "the second waits")
            await it.end(number)
            job.note("while it is away")
            job.progress(1, 2)
            await it.start()
            job.note("after")
            lease.check()
        await waiting
        found = await hostler.client.get(f"/v1/hostler/jobs/{job.id}")
    assert got
    assert isinstance(found, dict)
    assert (found["job"]["state"], found["job"]["note"], found["job"]["applied"]) == ("finished", "after", 5)
    assert hostler.leases.files.list() == []


async def test_a_lease_that_is_called_off_is_lost(it: House) -> None:
    """CLIENT-1, LEASE-16: a lease that an operator called off is lost at its next renewal, and at its end."""
    lost = asyncio.Event()

    async def work() -> None:
        async with (
            client(it) as hostler,
            hostler.lease("pair", ttl="12s", on_lost=lambda _: lost.set()) as lease,
        ):
            await it.told("cancel", lease.id)
            async with asyncio.timeout(20):
                await lost.wait()
            with pytest.raises(LeaseLost):
                lease.check()

    with pytest.raises(LeaseLost):
        await work()


async def test_the_synchronous_client(it: House) -> None:
    """CLIENT-1: the synchronous client leases, reports and gives back on the same daemon."""

    def work() -> str:
        with Hostler(env=it.environment(), state=it.state) as hostler, hostler.lease("pair") as lease:
            with hostler.job("sweep", lease=lease) as job:
                job.progress(1, 2)
            lease.check()
            return lease.id

    id_ = await asyncio.to_thread(work)
    async with client(it) as hostler:
        found = await hostler.client.get(f"/v1/hostler/leases/{id_}")
    assert isinstance(found, dict)
    assert found["lease"]["state"] == "released"
