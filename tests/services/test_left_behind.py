"""What a lease that is over left on a host: told with the command that ends it, and touched by nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import Leased
from hostler.domain.holding import Holding
from hostler.domain.journal import Entry, EntryState
from hostler.domain.resource import Action
from hostler.domain.step import (
    FenceNumber,
    FoundEngine,
    FoundHold,
    FoundRoute,
    HoldHost,
    PointRoute,
    SuspendEngine,
)
from hostler.services.left_behind import left_behind
from hostler.services.schedule_needs import Remembered
from hostler.wire.schedule import LeaseView
from tests.fakes.far_host import far_host
from tests.fakes.node import FakeEngine, FakeNode, World
from tests.fakes.node_parts import Parts
from tests.fakes.schedule_world import Head, head, resource
from tests.fakes.world import CROW
from tests.services.node_conformance import HOST, LEASE, LocalRig, Teller, local_rig

HELD = Holding(lease=LEASE, resource="pair", holder="ann", key="ann")
BOTH = {"engine big": HELD, f"hold {HOST}": HELD}
GONE = "which has nothing %s any more"
TOLD = (
    f"big is kept suspended by lease lease_1, {GONE % 'on crow'}: `hostler resume big` there lets it start",
    f"crow is held by lease lease_1, {GONE % 'there'}: `hostler box release --force` there ends the hold",
)


@pytest.fixture
async def it() -> AsyncIterator[Parts]:
    """A host whose engine and whose hold are a lease's."""
    async with local_rig() as rig:
        tell = Teller(LocalRig(rig.parts))
        await tell.do(HoldHost(host=HOST))
        await tell.do(SuspendEngine(host=HOST, engine="big"))
        yield rig.parts


async def test_what_is_left_is_told_until_it_is_ended(it: Parts) -> None:
    """NODE-5, LEASE-14: a suspension and a hold of a lease that has nothing here, until they end."""
    world = it.world
    await it.node.adopt(BOTH)
    assert left_behind(world.gate, world.holds) == ()
    await it.node.adopt({})
    assert left_behind(world.gate, world.holds) == TOLD
    await world.engines.resume("big", world.ask("big").requester)
    assert left_behind(world.gate, world.holds) == TOLD[1:]
    await world.engines.suspensions.add(world.lane("big"), LEASE)
    world.hold.remove()
    with pytest.raises(Leased, match="`hostler resume big` ends that"):
        await world.wanted("big")
    await world.engines.resume("big", world.ask("big").requester)
    assert left_behind(world.gate, world.holds) == ()


async def test_a_person_s_suspension_is_nothing_left(it: Parts) -> None:
    """NODE-5: what a person suspended, or a script holds, is theirs."""
    await it.node.adopt({})
    await it.world.engines.resume("big", it.world.ask("big").requester)
    await it.world.engines.suspensions.add(it.world.lane("big"), "person:ann")
    it.world.hold.write("bench")
    assert left_behind(it.world.gate, it.world.holds) == ()


async def test_a_node_tells_its_head(it: Parts) -> None:
    """NODE-5, NODE-1: what is left on a host is in what its node says of itself."""
    far = far_host(it)
    await it.node.adopt({})
    assert (await far.remote.now()).left == TOLD


# ---------------------------------------------------------------- on the head


def remembered(lease: LeaseView, *entries: Entry) -> Remembered:
    """The node's late memory of that lease."""
    return Remembered(
        lease=lease.id,
        resource="box",
        holder="anna",
        key="agents",
        fence=FenceNumber(epoch=lease.epoch or "", generation=lease.generation or 0),
        covers=("box",),
        entries=entries,
    )


def entry(n: int, lease: LeaseView, state: EntryState = EntryState.BEGUN) -> Entry:
    step, found = (
        (HoldHost(host="crow"), FoundHold()),
        (PointRoute(host="crow", route="chat", profile="away"), FoundRoute(profile="local")),
        (SuspendEngine(host="crow", engine="work"), FoundEngine(up=True, state="ready")),
    )[n - 1]
    return Entry(lease=lease.id, n=n, step=step, found=found, state=state)


async def over(it: Head) -> LeaseView:
    """A lease that was active and is released."""
    lease = await it.reserve("box")
    await it.ticks(1)
    await it.release(lease)
    await it.ticks(1)
    return await it.look(lease)


async def test_a_late_memory_of_a_lease_that_is_over_is_told_and_left() -> None:
    """LEASE-8, LEASE-14, NODE-5: the store has it as over: nothing starts, and it is told."""
    node = FakeNode("crow", World(engines={"work": FakeEngine(up=True)}))
    box = resource("box", actions=(Action(verb="hold", target="crow", host=CROW),))
    async with head(box, nodes={"crow": node}) as it:
        lease = await over(it)
        assert lease.state == "released"
        node.remembered = (remembered(lease, *(entry(n, lease) for n in (1, 2, 3))),)
        node.world.engines["work"].up = False
        node.world.engines["work"].suspended_by.add(lease.id)
        done = list(node.log)
        for _ in range(2):
            await it.parts.returning.take_up("crow")
        assert (await it.look(lease)).state == "released"
        assert node.log == done
        assert node.world.engines["work"].suspended_by == {lease.id}
        assert isinstance(it.store, MemoryStore)
        told = [row.event for row in await it.store.since(None, 1000)]
        rows = [event for event in told if event.type == "lease_left_there"]
        assert {row.once for row in rows} == {f"lease_left_there {lease.id} crow"}
        assert rows[0].message == (
            f"crow has what lease {lease.id} of anna did there, which is released here: hold crow, route chat"
            " to away on crow, suspend work. It stays as it is; to put it back there:"
            " `hostler box release --force`; `hostler routes set chat local`; `hostler resume work`."
        )


async def test_what_was_put_back_there_is_no_news() -> None:
    """LEASE-14: nothing is told of a lease that the node put back too, nor of one that holds still."""
    node = FakeNode("crow", World())
    box = resource("box", actions=(Action(verb="hold", target="crow", host=CROW),))
    async with head(box, nodes={"crow": node}) as it:
        lease = await over(it)
        held = await it.reserve("box", holder="bert")
        await it.ticks(1)
        held = await it.look(held)
        assert held.state == "active"
        node.remembered = (
            remembered(lease, entry(1, lease, EntryState.UNDONE)),
            remembered(held, entry(1, held)),
        )
        await it.parts.returning.take_up("crow")
        assert "lease_left_there" not in await it.types()
