"""The end of a lease: the process that works under it, its own claims, and who is told what."""

from __future__ import annotations

import asyncio

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import (
    HoldTaken,
    NodeUnreachable,
    StepFailed,
)
from hostler.domain.resource import Action
from hostler.domain.step import Operation
from hostler.domain.values import HostName
from hostler.wire.schedule import LeaseView, ProcessBody
from tests.fakes.clock import settle
from tests.fakes.node import FakeEngine, FakeNode, World
from tests.fakes.schedule_world import AGENT, BY, CROW, OPERATOR, Head, head, resource


async def test_a_registered_process_is_ended_before_anything_is_given() -> None:
    """JOB-5, F03: a lease with a process under it is given back only when that is gone."""
    node = FakeNode("crow", World())
    async with head(nodes={"crow": node}) as it:
        lease = await it.reserve()
        waiting = await it.reserve(holder="bert", detached_s=3600.0)
        body = ProcessBody(secret="anna", pid=4242, start_ticks=7)
        await it.schedule.register(lease.id, body, AGENT, BY)
        assert it.processes == [(lease.id, 4242, 7)]
        node.stubborn.append("process 4242 (bench) is still there")
        await it.release(lease)
        await it.ticks(2)
        assert [(await it.look(x)).state for x in (lease, waiting)] == ["stuck", "queued"]
        node.stubborn.clear()
        await it.release(lease)
        await it.ticks(2)
        assert [(await it.look(x)).state for x in (lease, waiting)] == ["released", "offered"]
        assert f"end_processes {lease.id}" in node.calls


async def test_who_does_not_wait_is_told_who_has_it() -> None:
    """LEASE-23, R96: with `now` a held resource is refused with its holder's name."""
    node = FakeNode("crow", World())
    box = resource("box", actions=(Action(verb="hold", target="crow", host=CROW),))
    async with head(box, nodes={"crow": node}) as it:
        await it.reserve("box")
        await it.ticks(1)
        with pytest.raises(HoldTaken, match="anna"):
            await it.reserve("box", holder="bert", now=True)


async def test_an_abandoned_lease_leaves_no_claim_of_its_own() -> None:
    """LEASE-14, NODE-5: freed by an operator, its own hold and suspensions go; the rest is left."""
    node = FakeNode("crow", World(engines={"work": FakeEngine(up=True)}))
    actions = (
        Action(verb="hold", target="crow", host=CROW),
        Action(verb="suspend", target="work", host=CROW),
    )
    async with head(resource("box", actions=actions), nodes={"crow": node}) as it:
        lease = await it.reserve("box")
        await it.ticks(1)
        assert node.world.engines["work"].suspended_by
        node.faults["perform resume work"] = StepFailed(step="resume work", why="it does not start")
        await it.release(lease)
        await it.ticks(1)
        stuck = await it.look(lease)
        assert stuck.state == "stuck"
        node.faults.clear()
        told = await it.release(
            lease, who=OPERATOR, secret=None, because="looked", generation=stuck.generation, abandon=True
        )
        assert "abandoned: looked" in told.why
        assert "not seen to be undone: resume work; end the drain of work; remove the hold" in told.why
        assert node.world.engines["work"].suspended_by == set()
        assert node.world.hold.owner is None


class Deaf(FakeNode):
    """A node whose answers do not come, once `deaf`, until `gone` lets the callers go."""

    def __init__(self, host: str, world: World) -> None:
        super().__init__(host, world)
        self.deaf, self.gone = False, asyncio.Event()

    async def perform(self, operation: Operation) -> None:
        if self.deaf:
            self.calls.append(f"asked {operation.id}")
            await self.gone.wait()
            raise NodeUnreachable(host=self.host, why="no answer within 30 s")
        await super().perform(operation)


async def stuck_with(it: Head, crow: FakeNode) -> LeaseView:
    """A lease on both hosts that could not be put back on crow."""
    lease = await it.reserve("pair")
    await it.ticks(1)
    crow.faults["perform resume work"] = StepFailed(step="resume work", why="it does not start")
    await it.release(lease)
    await it.ticks(1)
    crow.faults.clear()
    stuck = await it.look(lease)
    assert stuck.state == "stuck"
    return stuck


def pair_of_hosts() -> tuple[FakeNode, Deaf]:
    return (
        FakeNode("crow", World(engines={"work": FakeEngine(up=True)})),
        Deaf("raven", World(engines={"tts": FakeEngine(up=True)})),
    )


PAIR = resource(
    "pair",
    actions=(
        Action(verb="hold", target="raven", host=HostName("raven")),
        Action(verb="suspend", target="tts", host=HostName("raven")),
        Action(verb="suspend", target="work", host=CROW),
    ),
)


async def test_an_abandoned_lease_is_told_at_once_while_a_host_is_away() -> None:
    """LEASE-14: the answer waits for no host that is away; the others let go, and what is left is told."""
    crow, raven = pair_of_hosts()
    async with head(PAIR, nodes={"crow": crow, "raven": raven}) as it:
        stuck = await stuck_with(it, crow)
        raven.deaf = True
        told = await it.release(
            stuck, who=OPERATOR, secret=None, because="dead", generation=stuck.generation, abandon=True
        )
        assert "abandoned: dead" in told.why
        assert crow.world.engines["work"].suspended_by == set()
        assert sum(call.startswith("asked") for call in raven.calls) == 1
        assert "lease_left_there" not in await it.types()
        raven.gone.set()
        await settle()
        assert sum(call.startswith("asked") for call in raven.calls) == 1, "one that is away is asked once"
        store = it.store
        assert isinstance(store, MemoryStore)
        (left,) = [row.event for row in await store.since(None, 1000) if row.event.type == "lease_left_there"]
        assert left.subject["host"] == "raven"
        assert "no answer within 30 s. Not done: remove the hold" in left.message
        assert not it.parts.keeper.workshop.leaving


async def test_what_an_abandoned_lease_leaves_does_not_outlive_the_daemon() -> None:
    """LEASE-14, REL-5: a host that never answers does not keep the daemon from ending."""
    crow, raven = pair_of_hosts()
    async with head(PAIR, nodes={"crow": crow, "raven": raven}) as it:
        stuck = await stuck_with(it, crow)
        raven.deaf = True
        await it.release(
            stuck, who=OPERATOR, secret=None, because="dead", generation=stuck.generation, abandon=True
        )
        assert it.parts.keeper.workshop.leaving
        await it.parts.keeper.workshop.end()
        assert not it.parts.keeper.workshop.leaving
        assert not it.bugs


async def test_who_waits_behind_a_waiting_pair_is_told_for_whom() -> None:
    """LEASE-23, F27, R96: a pair that waits comes first, and the answer names its holder."""
    pair = resource("pair", covers=("pair", "crow-box", "raven-box"))
    async with head(resource("crow-box"), resource("raven-box"), pair) as it:
        await it.reserve("crow-box", holder="anna")
        await it.reserve("pair", holder="bert", detached_s=3600.0)
        lease = await it.reserve("raven-box", holder="carl", detached_s=3600.0)
        assert (lease.state, lease.place) == ("queued", 2)
        assert "bert is before it and waits for pair" in lease.why
