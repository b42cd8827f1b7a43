"""What the nodes are told of a lease, and what their words become."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hostler.domain.errors import AlreadyRestored, StepFailed
from hostler.domain.lease import State
from hostler.domain.step import FenceNumber, Operation
from tests.services.lease_house import House
from tests.services.test_crash_sweep import HOLD, PLANS, put_away

BOX = PLANS["box"]
SUSPEND = PLANS["suspend"]
Verify = Callable[[Operation], Awaitable[str | None]]
FENCE = FenceNumber(epoch="", generation=0)


async def test_every_operation_is_fenced_and_has_its_own_id() -> None:
    """LEASE-8, NODE-1: each step carries the lease's fence number and its covers; no two have one id."""
    house = House(BOX)
    await house.take()
    first = list(house.node.receipts)
    assert first == [f"ls_1.1.{n}" for n in (1, 2, 4, 5, 8, 9)]
    await house.release()
    assert len(set(house.node.receipts)) == len(first) + 5
    assert house.node.highest == {"crow-box": ((await house.lease()).fence or FENCE).order}


async def test_a_newer_grant_stops_an_older_lease() -> None:
    """LEASE-8: a node that accepted a higher fence number refuses an older lease's undo: it is stuck."""
    house = House(SUSPEND)
    await house.take()
    house.node.highest["crow-box"] = ("zz", 99)
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert "has gone on to generation 99" in lease.failing.seen


async def test_what_a_node_is_told_of_the_lease() -> None:
    """HOLD-11, NODE-1: an operation names the holder and the end of the lease, None without one."""
    told: list[Operation] = []
    for ttl_s in (3600.0, None):
        house = House((HOLD, *put_away("big")), ttl_s=ttl_s)
        house.node.changed = lambda _: None
        tell = house.node.verify

        async def verify(operation: Operation, tell: Verify = tell) -> str | None:
            told.append(operation)
            return await tell(operation)

        house.node.verify = verify  # type: ignore[method-assign] # the node of this very test
        await house.take()
    assert [operation.expires_at for operation in told[::3]] == ["2026-09-04T21:05:11.482Z", None]
    assert {operation.holder for operation in told} == {"bench"}
    assert [operation.deadline_s for operation in told[:3]] == [30.0, 90.0, 900.0]


async def test_a_node_that_will_do_it_itself_is_named_as_the_reason() -> None:
    """WIN-11, F16: not what was seen instead, but why nothing was done there."""
    house = House(SUSPEND)
    refusal = AlreadyRestored(lease="ls_1", host="crow", state="the daemon that began this died on the way")
    house.node.faults["perform suspend big"] = refusal
    lease = await house.take()
    assert lease.state is State.FAILED
    assert "died on the way" in lease.cause
    assert "wanted" not in lease.cause


async def test_a_nodes_own_step_failed_is_told_once() -> None:
    """LEASE-12, NODE-3: the words of a node are told as they came, bounded, and not wrapped twice."""
    house = House((HOLD,))
    house.node.once["perform hold crow"] = StepFailed(step="hold crow", why="x" * 600)
    lease = await house.take()
    assert lease.cause == f"hold crow: {'x' * 499}…"
