"""The head's contact with the nodes of other hosts, and what it takes up of one that is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from hostler.adapters.store.memory import MemoryStore
from hostler.domain.errors import NodeOutdated, NodeUnreachable, StoreFull
from hostler.domain.holding import Holding
from hostler.domain.journal import Entry
from hostler.domain.lease import LeaseId, State
from hostler.domain.step import ArmDeadman, FenceNumber, FoundDeadman, FoundHold, HoldHost, Operation
from hostler.domain.values import rfc3339
from hostler.services.contact import PATIENCE_S, Contacts
from hostler.services.going_back import GoingBack
from hostler.services.schedule_needs import NodeMemory, Remembered
from hostler.wire.nodes import NodeAnswer
from tests.fakes.clock import ManualClock, inline_threads, settle
from tests.fakes.events import EventList
from tests.fakes.far_host import RAVEN, FarHost, far_host
from tests.fakes.ids import CountingIds
from tests.fakes.node import FakeNode, World
from tests.fakes.world import CROW
from tests.services.node_conformance import HOST, LEASE, RemoteRig, Teller, local_rig

STEP = HoldHost(host=HOST)
SKEW_S = 86_400.0


@dataclass(slots=True)
class Head:
    """A head's contacts with one far host. `taken` are the hosts taken up; `fails` is raised then."""

    far: FarHost
    contacts: Contacts
    warned: list[tuple[str, ...]]
    taken: list[str] = field(default_factory=list)
    fails: list[Exception] = field(default_factory=list)

    @property
    def events(self) -> EventList:
        return self.far.parts.world.events

    @property
    def clock(self) -> ManualClock:
        return self.far.parts.world.clock

    def operation(self) -> Operation:
        return Teller(RemoteRig(self.far)).operation(STEP)


@asynccontextmanager
async def head() -> AsyncIterator[Head]:
    """It has asked nobody yet."""
    async with local_rig() as local:
        far = far_host(local.parts)
        warned: list[tuple[str, ...]] = []
        bugs = far.bugs

        def bug(error: BaseException) -> str:
            bugs.append(error)
            return f"bug-{len(bugs)}"

        contacts = Contacts(
            config=far.head_config,
            far={CROW: far.remote},
            own=lambda: replace(far.door.answer(), host=RAVEN),
            clock=far.parts.world.clock,
            events=far.parts.world.events,
            warn=warned.append,
            bug=bug,
        )
        it = Head(far=far, contacts=contacts, warned=warned)

        async def take_up(host: str) -> None:
            it.taken.append(host)
            if it.fails:
                raise it.fails.pop(0)

        contacts.hooks.append(take_up)
        yield it


async def test_nothing_is_granted_before_it_was_compared() -> None:
    """LEASE-8, NODE-3: on a node that was not asked yet what it remembers, no preflight succeeds."""
    async with head() as it:
        node = it.contacts.node(HOST)
        with pytest.raises(NodeUnreachable, match="is being asked"):
            await node.preflight(it.operation())
        await it.contacts.look(HOST)
        assert it.taken == [HOST]
        await node.preflight(it.operation())
        await it.contacts.look(HOST)
        assert it.taken == [HOST]


async def test_what_a_node_said_of_its_host_last() -> None:
    """HOLD-11, F18: told with the head's own time, whatever the node's clock says; not while it is away."""
    async with head() as it:
        assert it.contacts.said(HOST) is None
        it.far.parts.world.hold.write("bench", seconds=3600)
        await it.contacts.look(HOST)
        said = it.contacts.said(HOST)
        assert said is not None
        assert (said.answer.hold, said.at) == ("bench", it.clock.now())
        own = it.contacts.said(RAVEN)
        assert own is not None
        assert (own.answer.host, own.at) == (RAVEN, it.clock.now())
        it.contacts.contact(HOST).skew_s = SKEW_S
        said = it.contacts.said(HOST)
        assert said is not None
        assert (it.clock.now() - said.at).total_seconds() == SKEW_S
        it.far.cable.cut = True
        await it.contacts.look(HOST)
        assert it.contacts.said(HOST) is None


async def test_what_was_left_on_a_host_is_told_by_the_head() -> None:
    """NODE-5: the head warns of what a lease that is over left there, and `hostler nodes` has it."""
    async with head() as it:
        world = it.far.parts.world
        await world.engines.suspensions.add(world.lane("big"), "lease_0")
        await it.contacts.look(HOST)
        (told,) = it.warned[-1]
        assert told.startswith("big is kept suspended by lease lease_0, which has nothing on crow any more")
        assert {row.host: row.left for row in (await it.contacts.nodes()).nodes}[HOST] == (told,)


async def test_what_fails_while_it_is_taken_up_is_tried_again() -> None:
    """LEASE-8, NODE-3: a full disk, or a bug, while a node is compared leaves it not compared until it is."""
    async with head() as it:
        it.fails += [StoreFull(file="store", why="full"), ValueError("odd")]
        for why in ("full", "bug-1"):
            await it.contacts.look(HOST)
            assert why in it.contacts.contact(HOST).why
            with pytest.raises(NodeUnreachable):
                await it.contacts.node(HOST).preflight(it.operation())
        await it.contacts.look(HOST)
        await it.contacts.node(HOST).preflight(it.operation())
        assert it.taken == [HOST] * 3


async def test_who_is_away_is_told_once_and_compared_when_it_is_back() -> None:
    """NODE-3: a node that goes is told once, is not asked while it is away, and is compared on its return."""
    async with head() as it:
        await it.contacts.look(HOST)
        it.far.cable.cut = True
        for _ in range(3):
            await it.contacts.look(HOST)
        assert it.events.types.count("node_lost") == 1
        asked = len(it.far.cable.seen)
        node = it.contacts.node(HOST)
        with pytest.raises(NodeUnreachable):
            await node.preflight(it.operation())
        for call in (node.adopt({}), node.raise_fence(None)):
            with pytest.raises(NodeUnreachable):
                await call
        assert len(it.far.cable.seen) == asked
        assert "the node of crow does not answer since" in it.warned[-1][0]
        assert it.contacts.away(HOST)
        it.far.cable.cut = False
        await it.contacts.look(HOST)
        assert it.contacts.away(HOST) is None
        assert it.taken == [HOST, HOST]
        assert it.events.types.count("node_back") == 2
        assert it.warned[-1] == ()


async def test_a_short_absence_in_the_middle_of_a_lease_is_waited_out() -> None:
    """NODE-3: a look at a node that restarts is repeated until it answers, for 30 s and no longer."""
    async with head() as it:
        await it.contacts.look(HOST)
        node = it.contacts.node(HOST)
        it.far.cable.cut = True
        await it.contacts.look(HOST)
        look = asyncio.ensure_future(node.verify(it.operation()))
        await it.clock.advance(PATIENCE_S / 2)
        assert not look.done()
        it.far.cable.cut = False
        await it.contacts.look(HOST)
        await it.clock.advance(2.0)
        assert await look == "crow is free"
        it.far.cable.cut = True
        late = asyncio.ensure_future(node.end_processes(LEASE))
        await it.clock.advance(PATIENCE_S + 2.0)
        with pytest.raises(NodeUnreachable):
            await late


async def test_a_call_that_hangs_ends_when_the_node_is_lost() -> None:
    """NODE-3: a look that gets no answer ends as soon as the node is known to be away."""
    async with head() as it:
        await it.contacts.look(HOST)
        hangs = asyncio.Event()
        node = it.contacts.node(HOST)

        class Hanging:
            """A node that never answers."""

            preflight = observe = staticmethod(lambda _: hangs.wait())

        hanging = replace(node, far=Hanging())  # type: ignore[arg-type] # only what is asked of it here
        look = asyncio.ensure_future(hanging.observe(it.operation()))
        before = asyncio.ensure_future(hanging.preflight(it.operation()))
        await it.clock.advance(1.0)
        assert not look.done()
        assert not before.done()
        it.far.cable.cut = True
        await it.contacts.look(HOST)
        with pytest.raises(NodeUnreachable):
            await before
        await it.clock.advance(PATIENCE_S + 2.0)
        with pytest.raises(NodeUnreachable):
            await look


async def test_a_node_of_another_time_is_named() -> None:
    """NODE-7: a node that must be upgraded is told as away, with the reason."""
    async with head() as it:
        it.far.remote.spoken.clear()
        far = replace(it.far.remote, api=5)
        contacts = replace(it.contacts, far={CROW: far})
        await contacts.look(HOST)
        await contacts.look(HOST)
        assert it.events.types.count("node_lost") == 1
        assert "crow must be upgraded" in contacts.contact(HOST).why
        with pytest.raises(NodeOutdated):
            await far.now()


async def test_the_list_of_nodes() -> None:
    """F18, NODE-3: the list has every host: who answers, its clock's skew, its hold and leases."""
    async with head() as it:
        own, far = (await it.contacts.nodes()).nodes
        assert (own.host, own.here, own.head, own.up) == (RAVEN, True, True, True)
        assert (far.host, far.up, far.api) == (CROW, None, None)
        await it.far.remote.adopt({"hold crow": Holding(lease=LEASE, resource="box", holder="ann")})
        it.far.parts.world.hold.write("bench")
        answer = it.far.door.answer()
        late = replace(answer, at=rfc3339(it.clock.moment().plus(SKEW_S).at))

        async def now() -> NodeAnswer:
            return late

        contacts = replace(it.contacts, far={CROW: _Answers(now)})  # type: ignore[dict-item] # it only tells how it is
        await contacts.look(HOST)
        _, far = (await contacts.nodes()).nodes
        assert (far.up, far.hold, far.skew_s) == (True, "bench", SKEW_S)
        assert [kept.lease for kept in far.leases] == [LEASE]
        assert "its wall clock is +86400 s off" in it.warned[-1][0]


@dataclass(slots=True)
class _Answers:
    """A far node that answers so."""

    now: object


async def test_the_loop_asks_everybody_and_ends() -> None:
    """NODE-3: every node is asked every 5 s; at the end nobody is asked any more."""
    async with head() as it:
        loop = asyncio.ensure_future(it.contacts.run())
        await it.clock.advance(12.0)
        assert len([each for each in it.far.cable.seen if each.method == "GET"]) == 3
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await it.contacts.close()
        await settle()
        assert len(it.far.cable.seen) == 3


# ---------------------------------------------------------------- a schedule that went back


def going_back(*away: str) -> tuple[GoingBack, dict[str, FakeNode]]:
    """A head `crow` with nodes here and there; those that are away do not answer."""
    inline_threads()
    clock = ManualClock()
    nodes = {name: FakeNode(name, World()) for name in ("crow", "raven", "owl")}

    async def nothing() -> NodeMemory:
        raise NodeUnreachable(host="it", why="away")

    for name in away:
        nodes[name].memory = nothing  # type: ignore[method-assign] # the node of this very test
    ids = CountingIds()
    store = MemoryStore(ids)
    return GoingBack(store=store, nodes=nodes, clock=clock, ids=ids, here=frozenset({"crow"})), nodes


async def test_a_node_that_is_away_keeps_nobody_from_beginning() -> None:
    """LEASE-8, NODE-3: the head begins without a node that is away, and nothing is blocked for it."""
    back, _ = going_back("raven")
    assert list(await back.look()) == []
    assert back.blocks() is None


async def test_a_store_that_went_back_waits_for_every_node() -> None:
    """LEASE-8, F25: a node ahead of the store gives a new epoch; nothing is granted until all reported."""
    back, nodes = going_back("raven")
    nodes["crow"].highest["box"] = ("zz", 41)
    await back.look()
    refusal = back.blocks()
    assert refusal is not None
    assert refusal.host == "raven"
    await back.compare("raven", NodeMemory())
    assert back.blocks() is None
    assert list(await back.epochs()) == ["zz"]


async def test_a_node_that_is_back_may_prove_it_too() -> None:
    """LEASE-8: a node that is back and ahead of the store proves that it went back; an operator may waive."""
    back, nodes = going_back("raven")
    await back.look()
    nodes["raven"].highest["box"] = ("zz", 41)
    ahead = await FakeNode.memory(nodes["raven"])
    await back.compare("raven", ahead)
    refusal = back.blocks()
    assert refusal is not None
    assert refusal.host == "owl"
    back.waive()
    assert back.blocks() is None


def remembered(host: str, *numbers: int, generation: int = 7) -> NodeMemory:
    """A node that did these steps of a lease."""
    entries = tuple(
        Entry(lease=LEASE, n=n, step=HoldHost(host=f"{host}{n}"), found=FoundHold()) for n in numbers
    )
    fence = FenceNumber(epoch="zz", generation=generation)
    lease = Remembered(
        lease=LEASE, resource="pair", holder="ann", key="ops", fence=fence, covers=("pair",), entries=entries
    )
    return NodeMemory(highest=fence, leases=(lease,))


async def test_a_lease_of_several_nodes_is_imported_whole() -> None:
    """LEASE-8, LEASE-3: what several nodes did for one lease is one journal; gaps in it owe nothing."""
    back, nodes = going_back("owl")
    found = {"crow": remembered("crow", 1, 4), "raven": remembered("raven", 3)}
    for name, memory in found.items():

        async def tell(memory: NodeMemory = memory) -> NodeMemory:
            return memory

        nodes[name].memory = tell  # type: ignore[method-assign] # the node of this very test
    (lease,) = await back.look()
    assert lease.state is State.STUCK
    journal = await back.store.read(lambda tx: tx.journal(LeaseId(LEASE)))
    assert [(it.n, it.step.host, it.state.value) for it in journal] == [
        (1, "crow1", "begun"),
        (2, "raven3", "skipped"),
        (3, "raven3", "begun"),
        (4, "crow4", "begun"),
    ]
    (more,) = await back.compare("owl", remembered("owl", 2))
    assert [it.host for it in more.plan] == ["crow1", "raven3", "raven3", "crow4", "owl2"]
    journal = await back.store.read(lambda tx: tx.journal(LeaseId(LEASE)))
    assert [it.n for it in journal] == [1, 2, 3, 4, 5]
    assert list(await back.compare("owl", remembered("owl", 2))) == []
    assert list(await back.compare("owl", remembered("owl", 2, generation=6))) == []


async def test_a_window_that_the_store_forgot_is_imported_as_one() -> None:
    """LEASE-8, WIN-10: its steps say of which mode it is, so that who looks for windows finds it, stuck."""
    back, nodes = going_back("owl")
    plain = remembered("owl", 1)
    step = ArmDeadman(host="owl", window=LEASE, mode="heavy", cap_s=3600.0, bring_back=(), end=())
    armed = Entry(lease=LEASE, n=2, step=step, found=FoundDeadman())
    window = replace(plain.leases[0], entries=(*plain.leases[0].entries, armed))

    async def tell() -> NodeMemory:
        return replace(plain, leases=(window,))

    nodes["owl"].memory = tell  # type: ignore[method-assign] # the node of this very test
    (lease,) = await back.look()
    assert (lease.state, lease.mode) == (State.STUCK, "heavy")
