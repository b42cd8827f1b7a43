import asyncio
import json
from dataclasses import replace

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import (
    Draining,
    EngineFailed,
    IdempotencyConflict,
    InvalidRequest,
    MemoryResidue,
    StaleGeneration,
    StopUnverified,
    StoreFull,
)
from hostler.domain.step import (
    CallWebhook,
    DrainEngine,
    FenceNumber,
    FoundEngine,
    PointRoute,
    RunCommand,
    StopEngine,
    SuspendEngine,
)
from hostler.domain.values import EngineId
from tests.fakes.host import GIB
from tests.fakes.node_parts import Parts, parts
from tests.fakes.world import BOT, engine, world
from tests.services.node_conformance import HOST, LEASE, LocalRig, Teller

AWAY = PointRoute(host=HOST, route="chat", profile="away")
BACK = PointRoute(host=HOST, route="chat", profile="local")
SUSPEND = SuspendEngine(host=HOST, engine="big")
DRAIN = DrainEngine(host=HOST, engine="big", drain_s=60.0)
STOP = StopEngine(host=HOST, engine="big")


# ---------------------------------------------------------------- receipts and fence numbers


async def test_a_receipt_says_what_was_done_and_how_it_ended(it: Parts, tell: Teller) -> None:
    """NODE-1: an operation's receipt has the whole step, when it ended, and the refusal if there was one."""
    operation = tell.operation(AWAY, id_="lease_1.7.1")
    it.world.files.full = True
    with pytest.raises(StoreFull):
        await tell.rig.wait(it.node.perform(operation))
    refused = json.loads(it.records.texts["lease_1.7.1"])
    assert refused["refusal"]["code"] == "store_full"
    it.world.files.full = False
    done = tell.operation(AWAY, id_="lease_1.7.2")
    await tell.rig.wait(it.node.perform(done))
    receipt = json.loads(it.records.texts["lease_1.7.2"])
    assert receipt["step"] == {"host": HOST, "route": "chat", "profile": "away", "kind": "route"}
    assert (receipt["fence"], receipt["covers"]) == ({"epoch": "e1", "generation": 7}, ["pair", "mac"])
    assert receipt["ended"] is not None
    assert receipt["refusal"] is None


async def test_without_room_for_a_receipt_nothing_is_done(it: Parts, tell: Teller) -> None:
    """NODE-1, F22: where no receipt can be written the operation is refused, and has no effect."""
    it.records.full = True
    with pytest.raises(StoreFull, match="receipts/"):
        await tell.do(AWAY)
    assert it.routes.active("chat") == "local"


async def test_a_receipt_that_cannot_be_ended_is_looked_at(it: Parts, tell: Teller) -> None:
    """F23: a disk that fills during an effect leaves the receipt begun, and a repeat finds it done."""
    operation = tell.operation(AWAY, id_="lease_1.7.1")
    await it.node.receipts.admit(operation)
    await it.node.receipts.begin(operation)
    it.records.full = True
    await tell.rig.wait(it.node.perform(operation))
    assert it.routes.active("chat") == "away"
    assert json.loads(it.records.texts["lease_1.7.1"])["ended"] is None
    it.records.full = False
    await tell.rig.wait(it.node.perform(operation))
    assert json.loads(it.records.texts["lease_1.7.1"])["ended"] is not None


async def test_receipts_survive_a_restart(it: Parts, tell: Teller) -> None:
    """NODE-1: a repeat after a restart of the daemon is answered from the receipt, refusals too."""
    good, bad = tell.operation(AWAY, id_="a"), tell.operation(replace(SUSPEND, engine="nope"), id_="b")
    await tell.rig.wait(it.node.perform(good))
    with pytest.raises(Exception, match="nope"):
        await tell.rig.wait(it.node.perform(bad))
    after = it.again()
    await after.routes.point("chat", "local", BOT)
    await after.node.perform(good)
    assert after.routes.active("chat") == "local"
    with pytest.raises(Exception, match="nope") as told:
        await after.node.perform(bad)
    assert type(told.value).__name__ == "EngineNotFound"


async def test_what_a_crash_interrupted_is_looked_at_and_gone_on_with(it: Parts, tell: Teller) -> None:
    """F06, F07: a repeat of a begun operation does nothing twice whose effect is seen, and does the rest."""
    effect, before = tell.operation(AWAY, id_="a"), tell.operation(SUSPEND, id_="b")
    for operation in (effect, before):
        await it.node.receipts.admit(operation)
        await it.node.receipts.begin(operation)
    await it.routes.point("chat", "away", BOT)
    switched = len(it.world.events.of("route_switched"))
    await tell.rig.wait(it.node.perform(effect))
    assert len(it.world.events.of("route_switched")) == switched
    await tell.rig.wait(it.node.perform(before))
    assert it.world.state("big") is State.STOPPED


async def test_what_cannot_be_seen_is_done_again(it: Parts, tell: Teller) -> None:
    """LEASE-2: a begun webhook, or a command without a check, is called again: both are repeatable."""
    for step in (CallWebhook(host=HOST, url="https://example.net/hook"), RunCommand(host=HOST, argv=("do",))):
        operation = tell.operation(step)
        await it.node.receipts.admit(operation)
        await it.node.receipts.begin(operation)
        await tell.rig.wait(it.node.perform(operation))
    assert len(it.webhooks.calls) == 1
    assert it.commands.ran == [("do",)]


async def test_an_id_is_one_operation(it: Parts, tell: Teller) -> None:
    """NODE-1: an id that was another operation is refused `idempotency_conflict`, and does nothing."""
    await tell.rig.wait(it.node.perform(tell.operation(AWAY, id_="a")))
    with pytest.raises(IdempotencyConflict):
        await tell.rig.wait(it.node.perform(tell.operation(SUSPEND, id_="a")))
    assert it.world.lane("big").suspended_by == ()


async def test_two_who_tell_the_same_are_one(it: Parts, tell: Teller) -> None:
    """NODE-1: a repeat joins an operation that runs, and that goes on though its first caller left."""
    it.webhooks.gate = asyncio.Event()
    operation = tell.operation(CallWebhook(host=HOST, url="https://example.net/hook"))
    first = asyncio.ensure_future(it.node.perform(operation))
    await it.world.clock.advance(1)
    first.cancel()
    second = asyncio.ensure_future(it.node.perform(operation))
    await it.world.clock.advance(1)
    assert not second.done()
    it.webhooks.gate.set()
    await second
    assert len(it.webhooks.calls) == 1
    assert it.node.running == {}


async def test_fence_numbers_survive_a_restart(it: Parts, tell: Teller) -> None:
    """LEASE-8, F04: the highest number of a resource is kept across restarts, and a lower one refused."""
    await tell.do(AWAY)
    after = it.again()
    old = Teller(LocalRig(after), generation=6)
    with pytest.raises(StaleGeneration) as told:
        await old.do(BACK)
    assert (told.value.resource, told.value.given, told.value.present) == ("pair", 6, 7)
    assert after.routes.active("chat") == "away"


async def test_numbers_that_cannot_be_read_are_those_of_the_receipts(it: Parts, tell: Teller) -> None:
    """LEASE-8: with a damaged fences.json the receipts say which numbers were accepted: no old one passes."""
    await tell.do(AWAY)
    it.records.texts["fences"] = "{torn"
    with pytest.raises(StaleGeneration):
        await Teller(LocalRig(it.again()), generation=6).do(BACK)


async def test_a_later_epoch_is_higher_whatever_its_generation(it: Parts, tell: Teller) -> None:
    """LEASE-8, F25: generation 1 of a later epoch is above every generation of the one before."""
    await tell.do(AWAY)
    fresh = replace(tell.operation(BACK), fence=FenceNumber(epoch="e2", generation=1))
    await tell.rig.wait(it.node.perform(fresh))
    with pytest.raises(StaleGeneration):
        await tell.do(AWAY)


async def test_before_the_grant_no_number_is_compared(it: Parts, tell: Teller) -> None:
    """LEASE-10: a preflight of a lease that has no number yet is answered, and keeps none."""
    await tell.do(AWAY)
    ungranted = replace(tell.operation(BACK), fence=FenceNumber(epoch="", generation=0))
    await it.node.preflight(ungranted)
    await it.node.observe(ungranted)
    assert json.loads(it.records.texts["fences"])["pair"] == {"epoch": "e1", "generation": 7}


async def test_receipts_are_pruned(it: Parts, tell: Teller) -> None:
    """NODE-1: receipts are kept for 7 days, 1,000 at most, and the fence numbers for ever."""
    await tell.do(AWAY)
    before, most, spare = it.records.pruned[-1]
    assert (it.world.clock.now() - before).days == 7
    assert (most, spare) == (1000, frozenset({"fences"}))


async def test_another_hosts_step_is_not_ours(it: Parts, tell: Teller) -> None:
    """NODE-1: a step of another host is refused, and nothing is changed."""
    with pytest.raises(InvalidRequest, match="not of raven"):
        await tell.do(replace(AWAY, host="raven"))


# ---------------------------------------------------------------- down


async def test_a_drain_past_its_deadline_cuts_nothing(it: Parts, tell: Teller) -> None:
    """LEASE-12, R14: a drain past its deadline is refused; the request goes on, the engine serves again."""
    entry = it.world.enter("big")
    with pytest.raises(Draining, match="1 of its requests did not end within 60 s"):
        await tell.do(DRAIN)
    assert it.world.cuts == []
    assert entry in it.world.lane("big").requests
    assert it.world.lane("big").ready


async def test_requests_under_way_finish_before_the_stop(it: Parts, tell: Teller) -> None:
    """R13: a request that is under way at the drain ends by itself, and the stop comes after it."""
    entry = it.world.enter("big")
    draining = asyncio.ensure_future(it.node.perform(tell.operation(DRAIN)))
    await it.world.clock.advance(10)
    assert not draining.done()
    with pytest.raises(Draining):
        it.world.enter("big")
    it.world.leave(entry)
    await it.world.clock.advance(1)
    await draining
    await tell.do(SUSPEND)
    assert it.world.cuts == []


async def test_a_busy_engine_is_not_suspended(it: Parts, tell: Teller) -> None:
    """LEASE-12: an engine with requests under way is not stopped by a suspend: it was not drained."""
    it.world.enter("big")
    with pytest.raises(Draining):
        await tell.do(SUSPEND)
    assert it.world.cuts == []
    assert it.world.driver.up() == {"big"}


async def test_what_a_lease_started_ends_with_it(it: Parts, tell: Teller) -> None:
    """LEASE-2: the undo of a start drains what is in the engine, bounded, and then ends it."""
    it.world.enter("big")
    await tell.do(STOP)
    assert [engine for engine, _ in it.world.cuts] == ["big"]
    assert it.world.driver.up() == set()


async def test_an_engine_that_ignores_its_stop_is_no_success(it: Parts, tell: Teller) -> None:
    """R15: an engine that does not stop refuses the step, with the suspension on record."""
    it.world.driver.deaf.add(EngineId("big"))
    with pytest.raises(StopUnverified):
        await tell.do(SUSPEND)
    assert it.world.lane("big").suspended_by == (LEASE,)
    seen = await tell.rig.wait(it.node.verify(tell.operation(SUSPEND)))
    assert seen is not None
    assert seen.startswith("big is failed: after ")
    left = await tell.see(STOP)
    assert left == FoundEngine(up=False, suspended_by=(LEASE,), state="failed", lives=True)


async def test_memory_that_stays_away_fails_where_it_is_asked_for(it: Parts, tell: Teller) -> None:
    """LEASE-13: with `memory_back` a suspend fails while memory is missing, a second one too; else not."""
    it.world.driver.stop_s[EngineId("big")] = 5.0
    stopping = asyncio.ensure_future(it.node.perform(tell.operation(replace(SUSPEND, memory_back=True))))
    await it.world.clock.advance(1)
    it.world.machine.pinned = 30 * GIB
    with pytest.raises(MemoryResidue):
        await tell.rig.wait(stopping)
    with pytest.raises(MemoryResidue):
        await tell.do(replace(SUSPEND, memory_back=True))
    await tell.do(SUSPEND)


async def test_memory_that_nobody_asked_for(it: Parts, tell: Teller) -> None:
    """LEASE-13: without `memory_back` a stop whose memory stays away holds, and the residue is an event."""
    it.world.driver.stop_s[EngineId("big")] = 5.0
    stopping = asyncio.ensure_future(it.node.perform(tell.operation(SUSPEND)))
    await it.world.clock.advance(1)
    it.world.machine.pinned = 30 * GIB
    await tell.rig.wait(stopping)
    assert len(it.world.events.of("memory_residue")) == 1


async def test_what_crashed_owes_no_memory(it: Parts, tell: Teller) -> None:
    """LEASE-13: of an engine that ended by itself the memory is back before its stop: none is waited for."""
    await it.world.up("cold")
    it.world.watch.tick()
    await it.world.clock.advance(1)
    it.world.driver.crash(EngineId("big"))
    await it.world.clock.advance(1)
    await tell.do(replace(SUSPEND, memory_back=True))
    assert it.world.events.of("memory_residue") == []


async def test_a_start_under_way_is_called_off(it: Parts, tell: Teller) -> None:
    """LEASE-10: a suspend calls off a start that is under way and leaves nothing of it."""
    it.world.driver.load_s[EngineId("cold")] = 30.0
    it.world.wanted("cold")
    await it.world.clock.advance(5)
    assert it.world.state("cold") is State.STARTING
    await tell.do(SuspendEngine(host=HOST, engine="cold"))
    assert it.world.driver.up() == {"big"}


async def test_a_start_that_waits_is_called_off() -> None:
    """LEASE-2: a stop calls off a start that has not begun yet, so that it does not come up afterwards."""
    async with world(engine("a"), engine("b")) as base:
        tell = Teller(LocalRig(parts(base)))
        base.driver.load_s[EngineId("a")] = 30.0
        base.wanted("a")
        waits = base.wanted("b")
        await base.clock.advance(5)
        await tell.do(StopEngine(host=HOST, engine="b"))
        await base.clock.advance(100)
        assert base.driver.up() == {"a"}
        with pytest.raises(EngineFailed, match="called off"):
            await waits


async def test_a_suspension_survives_a_restart(it: Parts, tell: Teller) -> None:
    """NODE-5: what a lease suspended is suspended by it after a restart, and starts for nobody."""
    await tell.do(SUSPEND)
    after = it.again()
    for lane in after.world.lanes.by_id.values():
        await after.world.engines.adopt(lane)
    assert after.world.lane("big").suspended_by == (LEASE,)
    with pytest.raises(Exception, match="the lease lease_1 keeps it suspended"):
        await after.world.wanted("big")
