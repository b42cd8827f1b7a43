import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import BoxReserved, EngineFailed, Leased, MemoryNow, NotFound, StoreFull
from hostler.domain.fence import Fence
from hostler.domain.hold import HoldRecord
from hostler.domain.holding import ENGINE, Holding
from hostler.domain.values import RESIDENCY, Cause, EngineId, Requester
from hostler.services.guard import Guard
from tests.fakes.host import GIB
from tests.fakes.node_parts import Parts, parts
from tests.fakes.world import BOT, LONG, World, engine, group, world
from tests.services.node_conformance import LEASE, local_rig

ANN = Requester(client="ann", key="ann", lease=LEASE)
"""The holder: it names its lease, and comes with the key that took it."""
THIEF = Requester(client="bot", key="bots", lease=LEASE)


def holding(it: World, *, lease: str = LEASE, seconds: float | None = 3600.0) -> Holding:
    until = None if seconds is None else it.clock.now() + timedelta(seconds=seconds)
    return Holding(lease=lease, resource="pair", holder="ann", key="ann", until=until)


@pytest.fixture
async def it() -> AsyncIterator[Parts]:
    """A host whose engine `big` and route `chat` a lease has; `cold` is nobody's."""
    async with local_rig() as rig:
        held = holding(rig.parts.world)
        await rig.parts.node.adopt({"engine big": held, "route chat": held, "hold crow": held})
        yield rig.parts


Writer = Callable[[Parts, Requester], Awaitable[object]]


async def cleared(it: Parts, by: Requester) -> None:
    it.world.engines.clear("big", by)


WRITERS: dict[str, Writer] = {
    "stop": lambda it, by: it.world.engines.stop("big", by),
    "drain": lambda it, by: it.world.engines.drain("big", by),
    "suspend": lambda it, by: it.world.engines.suspend("big", by),
    "resume": lambda it, by: it.world.engines.resume("big", by),
    "clear": cleared,
    "switch": lambda it, by: it.routes.switch("chat", "away", by),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("by", [BOT, THIEF, RESIDENCY])
async def test_nobody_else_changes_what_is_leased(it: Parts, name: str, by: Requester) -> None:
    """LEASE-15, R34: every writer refuses all but the holder `leased`, naming it, and changes nothing."""
    events = len(it.world.events.all)
    with pytest.raises(Leased) as told:
        await WRITERS[name](it, by)
    assert (told.value.lease, told.value.holder, told.value.resource) == (LEASE, "ann", "pair")
    assert told.value.retry_after == 3600
    assert (it.world.state("big"), it.routes.active("chat")) == (State.READY, "local")
    assert len(it.world.events.all) == events


@pytest.mark.parametrize("name", WRITERS)
async def test_the_holder_passes_with_its_lease(it: Parts, name: str) -> None:
    """LEASE-15: a caller that names its lease, with the key that took it, passes every writer."""
    await WRITERS[name](it, ANN)


async def test_what_is_not_leased_is_anybodys(it: Parts) -> None:
    """LEASE-15: what no lease has is changed by anybody, and so is everything when the lease is over."""
    await it.world.engines.suspend("cold", BOT)
    await it.node.adopt({})
    await it.routes.switch("chat", "away", BOT)
    await it.world.engines.stop("big", BOT)


async def test_what_is_leased_is_used_by_all(it: Parts) -> None:
    """GATE-1: a leased engine that runs serves requests: a lease keeps hands off, not work."""
    await it.world.starting.ensure_ready(it.world.lane("big"), it.world.ask("big"), wait_s=0.0)


async def test_a_leased_engine_starts_for_its_holder_only(it: Parts) -> None:
    """LEASE-15: under its own hold the holder alone starts its engine; a foreign hold refuses it."""
    await it.world.engines.stop("big", ANN)
    with pytest.raises(Leased):
        await it.world.wanted("big")
    hold_of_lease(it)
    with pytest.raises(BoxReserved):
        await it.world.wanted("big")
    ask = replace(it.world.ask("big", Cause.API), requester=ANN)
    it.world.hold.write("bench")
    with pytest.raises(BoxReserved, match="held by bench"):
        await it.world.starting.ensure_ready(it.world.lane("big"), ask, wait_s=LONG)
    hold_of_lease(it)
    await it.world.starting.ensure_ready(it.world.lane("big"), ask, wait_s=LONG)


def hold_of_lease(it: Parts) -> None:
    now = it.world.clock.now()
    it.world.hold.record = HoldRecord(
        owner=f"lease:{LEASE}", reason="", started_at=now, expires_at=now + timedelta(hours=1), lease=LEASE
    )


async def test_a_holders_claim_is_no_proof(it: Parts) -> None:
    """LEASE-15: a lease that a caller names without its key gives it nothing at the gate."""
    await it.world.engines.stop("big", ANN)
    for by in (THIEF, replace(ANN, lease="lease_9")):
        with pytest.raises(Leased):
            await it.world.starting.ensure_ready(
                it.world.lane("big"), replace(it.world.ask("big"), requester=by), wait_s=LONG
            )


async def test_why_says_that_it_is_leased(it: Parts) -> None:
    """GATE-2: `why` of a leased engine says by whom and until when, and to its holder that it passes."""
    await it.world.engines.stop("big", ANN)
    rows = {row.name: row for row in await it.world.engines.why("big", it.world.ask("big"))}
    assert rows["leased"].text == "big is leased: ann has pair until 2026-09-04T21:06:11.482Z."
    own = {
        row.name: row
        for row in await it.world.engines.why("big", replace(it.world.ask("big"), requester=ANN))
    }
    assert own["leased"].code is None


async def test_a_waiter_hears_that_its_engine_was_leased() -> None:
    """GATE-1: who waits for a start that has not begun is told `leased` when a lease takes the engine."""
    async with world(engine("a"), engine("b")) as it:
        node = parts(it).node
        it.driver.load_s[EngineId("a")] = 60.0
        first, second = it.wanted("a"), it.wanted("b")
        await it.clock.advance(5)
        await node.adopt({"engine b": holding(it)})
        await it.clock.advance(1)
        with pytest.raises(Leased):
            await second
        first.cancel()


async def test_a_leased_engine_makes_way_for_nobody() -> None:
    """EVICT-2: a leased engine is never evicted; its own lease may have it make way."""
    async with world(engine("a", group="big"), engine("b", group="big"), groups=[group()]) as it:
        await it.up("a")
        await parts(it).node.adopt({"engine a": holding(it)})
        with pytest.raises(Leased, match="b cannot be up beside it"):
            await it.wanted("b")
        own = replace(it.ask("b", Cause.API), requester=ANN)
        await it.starting.ensure_ready(it.lane("b"), own, wait_s=LONG)
        assert it.driver.up() == {"b"}


async def test_room_is_not_made_of_what_is_leased() -> None:
    """EVICT-2: for memory only, too, a leased engine stays."""
    async with world(engine("a", need=80), engine("b", need=80)) as it:
        await it.up("a")
        await parts(it).node.adopt({"engine a": holding(it)})
        with pytest.raises(MemoryNow):
            await it.wanted("b")


# ---------------------------------------------------------------- what acts by itself


async def test_residency_waits_for_the_lease() -> None:
    """ENG-10: residency skips a leased engine, says so once, and starts it right after the lease."""
    async with world(engine("a", resident=True)) as it:
        node = parts(it).node
        await node.adopt({"engine a": holding(it)})
        await it.ticks(700)
        assert it.driver.started == []
        deferred = it.events.of("deferred")
        assert [(it.after, it.subject["engine"]) for it in deferred] == [("leased", "a")]
        assert it.events.of("resident_down") == []
        await node.adopt({})
        await it.ticks(2)
        assert it.driver.started == ["a"]


async def test_the_next_lease_is_told_anew() -> None:
    """ENG-10: what residency does not start for a second lease is said once for that lease."""
    async with world(engine("a", resident=True)) as it:
        node = parts(it).node
        for lease in ("lease_1", "lease_2"):
            await node.adopt({"engine a": holding(it, lease=lease)})
            await it.ticks(300)
        assert len(it.events.of("deferred")) == 2


async def test_an_idle_leased_engine_is_not_unloaded() -> None:
    """LEASE-15: `ttl` unloads no leased engine, says so once, and unloads it when the lease is over."""
    async with world(engine("a", ttl_s=60.0)) as it:
        node = parts(it).node
        await it.up("a")
        await node.adopt({"engine a": holding(it)})
        await it.ticks(300)
        assert it.driver.up() == {"a"}
        assert [event.message for event in it.events.of("deferred")] == [
            "It is idle, and stays: a is leased: ann has pair until 2026-09-04T21:06:11.482Z."
        ]
        await node.adopt({})
        await it.ticks(2)
        assert it.driver.up() == set()


async def test_no_default_comes_back_over_a_lease() -> None:
    """ENG-10: idle revert brings no default back while it, or the engine in its place, is leased."""
    for leased in ("a", "b"):
        groups = [group(idle_revert="a")]
        async with world(engine("a", group="big"), engine("b", group="big"), groups=groups) as it:
            await it.up("b")
            await parts(it).node.adopt({f"engine {leased}": holding(it, seconds=None)})
            await it.ticks(1500)
            assert it.driver.up() == {"b"}


async def test_the_watchdog_leaves_what_is_leased() -> None:
    """LEASE-15: a leased engine that failed is restarted after the lease; one that hangs is not killed."""
    async with world(engine("a"), engine("b")) as it:
        node = parts(it).node
        await it.up("a", "b")
        held = holding(it, seconds=None)
        await node.adopt({"engine a": held, "engine b": held})
        it.driver.crash(EngineId("a"))
        it.driver.freeze(EngineId("b"))
        await it.ticks(400)
        assert (it.state("a"), it.state("b")) == (State.STOPPED, State.FAILED)
        assert it.driver.up() == {"b"}
        assert it.driver.started == ["a", "b"]
        await node.adopt({})
        await it.ticks(60)
        assert it.driver.started == ["a", "b", "a", "b"]


async def test_the_floor_stops_nothing_leased() -> None:
    """LEASE-15: under the memory floor the next engine of `on_floor` goes in the place of a leased one."""
    async with world(engine("a", need=10), engine("b", need=10), on_floor=("a", "b")) as it:
        await it.up("a", "b")
        await parts(it).node.adopt({"engine a": holding(it)})
        it.machine.others = 103 * GIB
        await it.ticks(30)
        assert it.driver.up() == {"a"}


# ---------------------------------------------------------------- the fence


def fence(it: World, seconds: float = 1800.0) -> Fence:
    now = it.clock.moment()
    return Fence(since=now, until=now.plus(seconds), by="ops", reason="upgrade")


async def test_under_a_fence_no_timer_starts_anything() -> None:
    """LEASE-28: under a fence residency starts and `ttl` unloads nothing; a request starts its engine."""
    async with world(engine("a", resident=True), engine("b", ttl_s=60.0)) as it:
        await it.up("b")
        node = parts(it).node
        await node.raise_fence(fence(it))
        await it.ticks(300)
        assert it.driver.up() == {"b"}
        assert [event.after for event in it.events.of("deferred")] == ["fenced"]
        await it.up("a")
        await node.raise_fence(None)
        await it.ticks(120)
        assert it.driver.up() == {"a"}


async def test_a_fence_comes_down_by_itself() -> None:
    """LEASE-28: at its time a fence is down without being told, and what waited for it is started at once."""
    async with world(engine("a", resident=True)) as it:
        await parts(it).node.raise_fence(fence(it, 100.0))
        await it.ticks(99)
        assert it.driver.started == []
        await it.ticks(3)
        assert it.driver.started == ["a"]


# ---------------------------------------------------------------- across restarts


async def test_what_is_held_survives_a_restart(it: Parts) -> None:
    """NODE-4, WIN-2: a daemon that was restarted knows what is leased, and a window's soft deadline."""
    now = it.world.clock.moment()
    rows = it.world.gate.guard.posts.held.items()
    await it.node.adopt(
        {
            name: replace(row, hard=now.plus(90.0), mode="heavy", stop_accepting=now.plus(30.0).at)
            for name, row in rows
        }
    )
    after = it.again()
    (row,) = set(after.world.gate.guard.posts.held.values())
    assert (row.hard, row.boot) == (now.plus(90.0), now.boot)
    assert (row.mode, row.stop_accepting) == ("heavy", now.plus(30.0).at)
    assert after.world.gate.guard.posts.held == it.world.gate.guard.posts.held
    with pytest.raises(Leased):
        await after.routes.switch("chat", "away", BOT)


async def test_what_cannot_be_read_of_it_is_told(it: Parts) -> None:
    """LEASE-28: a fence file that cannot be read means fenced, without an end, and is told by its name."""
    for text in ("{torn", '{"fence": {"by": "ops"}}', '{"up": false}', '{"fence": 1}'):
        it.world.files.texts["fence"] = text
        told = it.node.files.recall()
        assert [line.partition(":")[0] for line in told] == ["fence.json"]
        up = it.world.gate.guard.fence(it.world.clock.moment().plus(1e6))
        assert up is not None
    rows = {
        row.name: row
        for row in await it.world.engines.why("cold", it.world.ask("cold", cause=Cause.RESIDENCY))
    }
    assert rows["fence"].text == "A fence is up until unknown: its record cannot be read."
    it.world.files.texts["held"] = '{"engine big": {"lease": 1}}'
    assert len(it.node.files.recall()) == 2


async def test_a_fence_survives_a_restart(it: Parts) -> None:
    """LEASE-28: a fence is up after a restart, with the same end, and one that came down is down."""
    up = fence(it.world)
    await it.node.raise_fence(up)
    assert it.again().world.gate.guard.fence(it.world.clock.moment()) == up
    await it.node.raise_fence(None)
    assert it.again().world.gate.guard.fence(it.world.clock.moment()) is None


async def test_a_full_disk_leaves_it_held(it: Parts) -> None:
    """NODE-1: what cannot be written down is refused `store_full`, and holds until a restart all the same."""
    it.world.files.full = True
    with pytest.raises(StoreFull, match="held"):
        await it.node.adopt({})
    with pytest.raises(StoreFull, match="fence"):
        await it.node.raise_fence(fence(it.world))
    assert it.world.gate.guard.fence(it.world.clock.moment()) is not None


async def test_an_end_that_moves_by_a_hair_is_not_written(it: Parts) -> None:
    """LEASE-15: an end that is told anew a millisecond later is not written to the disk again."""
    hair = timedelta(milliseconds=3)
    rows = it.world.gate.guard.posts.held.items()
    await it.node.adopt({name: replace(row, stop_accepting=row.until) for name, row in rows})
    held = {
        name: replace(row, until=row.until + hair, stop_accepting=row.until + hair)
        for name, row in it.world.gate.guard.posts.held.items()
        if row.until is not None
    }
    before = it.world.files.texts["held"]
    await it.node.adopt(held)
    assert it.world.files.texts["held"] == before
    assert json.loads(before)["engine big"]["holder"] == "ann"


def test_an_empty_guard_keeps_nothing() -> None:
    """LEASE-15: without leases nothing is held, and no word of a caller is proven."""
    guard = Guard()
    assert guard.holding(ENGINE, "big") is None
    assert guard.proven(ANN) is None


async def test_unknown_names_are_told_as_such(it: Parts) -> None:
    """LEASE-15: the guard does not hide that a route is not there."""
    with pytest.raises(NotFound):
        await it.routes.switch("nope", "away", BOT)


async def test_a_failed_engine_is_not_cleared_over_a_lease(it: Parts) -> None:
    """LEASE-15: `clear` lets nobody else try a leased engine again."""
    await it.world.engines.stop("big", ANN)
    it.world.lanes.give_up(it.world.lane("big"), "it fails")
    with pytest.raises(Leased):
        it.world.engines.clear("big", BOT)
    assert it.world.state("big") is State.FAILED
    with pytest.raises(EngineFailed):
        await it.world.starting.ensure_ready(
            it.world.lane("big"), replace(it.world.ask("big"), requester=ANN), wait_s=LONG
        )
