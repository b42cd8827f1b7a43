"""The end of a lease: the process that works under it, its own claims, and who is told what."""

from __future__ import annotations

import pytest

from hostler.domain.errors import (
    HoldTaken,
    StepFailed,
)
from hostler.domain.resource import Action
from hostler.wire.schedule import ProcessBody
from tests.fakes.node import FakeEngine, FakeNode, World
from tests.fakes.schedule_world import AGENT, BY, CROW, OPERATOR, head, resource


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


async def test_who_waits_behind_a_waiting_pair_is_told_for_whom() -> None:
    """LEASE-23, F27, R96: a pair that waits comes first, and the answer names its holder."""
    pair = resource("pair", covers=("pair", "crow-box", "raven-box"))
    async with head(resource("crow-box"), resource("raven-box"), pair) as it:
        await it.reserve("crow-box", holder="anna")
        await it.reserve("pair", holder="bert", detached_s=3600.0)
        lease = await it.reserve("raven-box", holder="carl", detached_s=3600.0)
        assert (lease.state, lease.place) == ("queued", 2)
        assert "bert is before it and waits for pair" in lease.why
