"""Several hosts at once: what is stopped side by side, put back side by side, and what ends it (MODE-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hostler.domain.errors import Draining, EngineFailed
from hostler.domain.journal import EntryState
from hostler.domain.lease import State
from hostler.domain.plan import text, turns
from hostler.domain.step import (
    DrainEngine,
    HoldHost,
    Operation,
    StartEngine,
    Step,
    SuspendEngine,
    VerifyRestore,
)
from hostler.services.side_by_side import side_by_side
from tests.fakes.node import FakeNode
from tests.services.lease_house import House

GUARD_S = 10.0
"""Only ends a test that would hang: what it waits for comes at once where hosts work side by side."""


def drain(host: str, engine: str) -> Step:
    return DrainEngine(host=host, engine=engine, drain_s=60.0)


def suspend(host: str, engine: str) -> Step:
    return SuspendEngine(host=host, engine=engine)


TWO_HOSTS: tuple[Step, ...] = (
    HoldHost(host="crow"),
    HoldHost(host="raven"),
    suspend("crow", "small"),
    suspend("crow", "big"),
    suspend("raven", "small"),
    suspend("raven", "big"),
)


class Meeting:
    """Lets a host go on with what `phrase` says once another host has begun it as well."""

    def __init__(self, house: House, *phrases: str) -> None:
        self.there = {phrase: asyncio.Barrier(2) for phrase in phrases}
        self.at_work: dict[str, int] = {}
        self.most_at_once = 0
        for node in (house.node, *house.others.values()):
            self._meet(node)

    def _meet(self, node: FakeNode) -> None:
        tell = node.perform

        async def perform(operation: Operation) -> None:
            phrase = text(operation.step)
            self.at_work[node.host] = self.at_work.get(node.host, 0) + 1
            self.most_at_once = max(self.most_at_once, self.at_work[node.host])
            if phrase in self.there:
                await asyncio.wait_for(self.there[phrase].wait(), GUARD_S)
            await tell(operation)
            self.at_work[node.host] -= 1

        node.perform = perform  # type: ignore[method-assign] # the node of one test


def plan_turns(plan: Sequence[Step]) -> list[list[list[str]]]:
    """The turns of a plan as phrases, each with its host."""
    return [
        [[f"{it.host}: {text(it)}" for it in lane] for lane in turn] for turn in turns(plan, lambda it: it)
    ]


def test_a_turn_has_a_lane_for_each_host() -> None:
    """MODE-2: drains and stops have a lane for each host; all drains come before the first stop."""
    plan = (
        drain("crow", "a"),
        drain("raven", "b"),
        suspend("crow", "a"),
        suspend("crow", "c"),
        suspend("raven", "b"),
        VerifyRestore(host="crow", mode="m"),
    )
    assert plan_turns(plan) == [
        [["crow: drain a"], ["raven: drain b"]],
        [["crow: suspend a", "crow: suspend c"], ["raven: suspend b"]],
        [["crow: verify what is back on crow"]],
    ]


def test_starts_keep_the_order_of_the_plan() -> None:
    """MODE-2, ENG-11: a start is a turn of its own, so that members come up in their order."""
    plan = (StartEngine(host="raven", engine="worker"), StartEngine(host="crow", engine="master"))
    assert plan_turns(plan) == [[["raven: start worker"]], [["crow: start master"]]]


async def test_engines_of_several_hosts_are_stopped_side_by_side() -> None:
    """MODE-2: both hosts suspend at the same time, each one engine at a time."""
    house = House(TWO_HOSTS)
    meeting = Meeting(house, "suspend small", "suspend big")
    assert (await house.take()).state is State.ACTIVE
    assert meeting.most_at_once == 1
    assert house.node.log == ["hold crow", "suspend small", "suspend big"]
    assert house.others["raven"].log == ["hold raven", "suspend small", "suspend big"]


async def test_hosts_are_restored_side_by_side_and_one_engine_at_a_time_on_each() -> None:
    """MODE-2, LEASE-13: what was suspended last comes back first on its host, on both at the same time."""
    house = House(TWO_HOSTS)
    await house.take()
    meeting = Meeting(house, "resume big", "resume small")
    assert (await house.release()).state is State.RELEASED
    assert meeting.most_at_once == 1
    assert house.node.log[-3:] == ["resume big", "resume small", "remove the hold of crow"]
    assert house.others["raven"].world == house.before_elsewhere["raven"]
    assert house.node.world == house.before


async def test_a_host_that_fails_lets_the_others_end_their_step_and_begin_no_more() -> None:
    """MODE-2, LEASE-12: raven fails while crow is at its first engine; the second one is never begun."""
    house = House(TWO_HOSTS)
    raven_failed = asyncio.Event()
    tell, fail = house.node.perform, house.others["raven"].perform

    async def crow(operation: Operation) -> None:
        if text(operation.step) == "suspend small":
            await asyncio.wait_for(raven_failed.wait(), GUARD_S)
        await tell(operation)

    async def raven(operation: Operation) -> None:
        if text(operation.step) == "suspend small":
            raven_failed.set()
            raise EngineFailed(engine="small", why="it does not stop")
        await fail(operation)

    house.node.perform = crow  # type: ignore[method-assign] # the node of one test
    house.others["raven"].perform = raven  # type: ignore[method-assign] # the node of one test
    lease = await house.take()
    assert lease.state is State.FAILED
    assert "it does not stop" in lease.cause
    assert house.node.log == ["hold crow", "suspend small", "resume small", "remove the hold of crow"]
    assert {it.n for it in await house.journal()} == {1, 2, 3, 5}
    assert house.node.world == house.before
    assert house.others["raven"].world == house.before_elsewhere["raven"]


async def test_both_hosts_that_fail_are_told() -> None:
    """MODE-2, FEED-3: each step that failed is in the log; the lease names the first."""
    house = House((drain("crow", "big"), drain("raven", "big")))
    raven_began, crow_failed = asyncio.Event(), asyncio.Event()

    async def crow(operation: Operation) -> None:
        await asyncio.wait_for(raven_began.wait(), GUARD_S)
        crow_failed.set()
        raise Draining(engine=text(operation.step), why="a request of crow")

    async def raven(operation: Operation) -> None:
        raven_began.set()
        await asyncio.wait_for(crow_failed.wait(), GUARD_S)
        raise Draining(engine=text(operation.step), why="a request of raven")

    house.node.perform = crow  # type: ignore[method-assign] # the node of one test
    house.others["raven"].perform = raven  # type: ignore[method-assign] # the node of one test
    lease = await house.take()
    assert lease.state is State.FAILED
    assert lease.cause.endswith("a request of crow")
    assert (await house.events()).count("step_failed") == 2


async def test_a_cancel_is_met_by_every_host() -> None:
    """LEASE-16, MODE-2: called off while both hosts work, neither begins another step."""
    house = House(TWO_HOSTS)
    Meeting(house, "suspend small")
    house.when("suspend small", house.cancel)
    lease = await house.take()
    assert lease.state is State.CANCELLED
    assert [it for it in house.node.log if it == "suspend big"] == []
    assert house.node.world == house.before
    assert house.others["raven"].world == house.before_elsewhere["raven"]


async def test_a_host_that_cannot_be_put_back_does_not_keep_the_other_waiting() -> None:
    """LEASE-13, MODE-2: crow's engines are all back, and its hold stays, while raven's is stuck."""
    house = House(TWO_HOSTS)
    await house.take()
    house.others["raven"].faults["perform resume big"] = EngineFailed(engine="big", why="no memory")
    lease = await house.release()
    assert lease.state is State.STUCK
    assert lease.failing is not None
    assert "no memory" in lease.failing.seen
    assert house.node.log[-2:] == ["resume big", "resume small"]
    assert "resume small" not in house.others["raven"].log
    del house.others["raven"].faults["perform resume big"]
    assert (await house.release()).state is State.RELEASED
    assert house.others["raven"].world == house.before_elsewhere["raven"]
    assert EntryState.DONE not in await house.states()


async def test_what_one_part_raises_ends_the_others_first() -> None:
    """REL-1: nothing works on behind the back of whoever got the exception."""
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def raises() -> None:
        raise EngineFailed(engine="big", why="no memory")

    with pytest.raises(EngineFailed):
        await asyncio.wait_for(side_by_side([waits(), raises()]), GUARD_S)
    assert ended.is_set()


async def test_whoever_is_cancelled_takes_its_parts_along() -> None:
    """REL-5: a daemon that ends leaves no lane at work."""
    ended = asyncio.Barrier(3)
    began = asyncio.Barrier(3)

    async def waits() -> None:
        await began.wait()
        try:
            await asyncio.Event().wait()
        finally:
            await ended.wait()

    both = asyncio.create_task(side_by_side([waits(), waits()]))
    await asyncio.wait_for(began.wait(), GUARD_S)
    both.cancel()
    await asyncio.wait_for(ended.wait(), GUARD_S)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(both, GUARD_S)
