"""What becomes of a lease whose time is up: its processes end before anything is put back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hostler.domain.errors import EngineFailed
from hostler.domain.lease import Failing, State
from tests.services.lease_house import House
from tests.services.test_crash_sweep import PLANS
from tests.services.test_undoing import LOST, taken

SUSPEND = PLANS["suspend"]


async def test_an_expired_lease_ends_its_processes_first() -> None:
    """LEASE-19, F03: at the end of its time, what works under a lease is ended first."""
    house = await taken(*SUSPEND)
    lease = await house.release(State.EXPIRED)
    assert lease.state is State.EXPIRED
    assert house.node.calls[0] == "end_processes ls_1"


async def test_a_process_that_stays_leaves_the_lease_stuck() -> None:
    """LEASE-19, F03, R51: a process that does not end is named, and nothing is put back."""
    house = await taken(*SUSPEND)
    house.node.stubborn = ["process 4242 (bench) still runs"]
    lease = await house.release(State.EXPIRED)
    assert (lease.state, lease.failing) == (
        State.STUCK,
        Failing(
            n=0,
            step="end the processes of the lease",
            wanted="none of them",
            seen="process 4242 (bench) still runs",
        ),
    )
    assert house.node.log == []
    house.node.stubborn = []
    assert (await house.release()).state is State.EXPIRED


async def test_a_host_that_cannot_end_processes_leaves_the_lease_stuck() -> None:
    """F03: where nobody can say whether a process is gone, the lease is stuck, naming the host."""
    house = House(())
    house.nodes = {"raven": _Away()}  # type: ignore[dict-item] # only what is called
    await house.take()
    lease = await house.release(State.EXPIRED)
    assert lease.failing is not None
    assert lease.failing.seen == "raven: The node of crow does not answer: no route to host"


async def test_a_silent_host_keeps_no_process_of_another_alive() -> None:
    """LEASE-19, F03: at the hard end every host is asked at once, not one after the other."""
    raven = asyncio.Event()
    nodes = {"crow": _Silent(until=raven), "raven": _Ending(asked=raven)}
    house = House(())
    house.nodes = nodes  # type: ignore[assignment] # only what is called
    await house.take()
    async with asyncio.timeout(20):
        lease = await house.release(State.EXPIRED)
    assert lease.state is State.EXPIRED


@dataclass
class _Silent:
    until: asyncio.Event

    async def end_processes(self, lease: str) -> list[str]:
        await self.until.wait()
        return []


@dataclass
class _Ending:
    asked: asyncio.Event

    async def end_processes(self, lease: str) -> list[str]:
        self.asked.set()
        return []


class _Away:
    async def end_processes(self, lease: str) -> list[str]:
        raise LOST


async def test_a_failed_restore_at_expiry_is_stuck() -> None:
    """LEASE-19, R51: a lease whose time is up and whose engine does not come back is stuck, not expired."""
    house = await taken(*SUSPEND)
    house.node.faults["perform resume big"] = EngineFailed(engine="big", why="out of memory")
    lease = await house.release(State.EXPIRED)
    assert (lease.state, lease.ending) == (State.STUCK, State.EXPIRED)
