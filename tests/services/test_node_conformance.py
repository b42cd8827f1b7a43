"""One suite for every Node (NODE-1): what each of them must do, whatever is behind it."""

from collections.abc import AsyncIterator

import pytest

from hostler.domain.errors import BoxReserved, Kind, Refusal, StaleGeneration
from hostler.domain.plan import command, webhook
from hostler.domain.step import (
    ArmDeadman,
    DisarmDeadman,
    DrainEngine,
    EndDrain,
    FoundCommand,
    FoundDeadman,
    FoundEngine,
    FoundHold,
    FoundNothing,
    FoundRoute,
    HoldHost,
    PointRoute,
    RemoveHold,
    ResumeEngine,
    StartEngine,
    Step,
    StopEngine,
    SuspendEngine,
)
from hostler.domain.undo import undo_of_command, undo_of_webhook
from tests.services.node_conformance import (
    HOOK,
    HOST,
    LEASE,
    OTHER,
    POWER,
    Rig,
    Teller,
    fake_rig,
    local_rig,
    remote_rig,
)

HOLD, UNHOLD = HoldHost(host=HOST), RemoveHold(host=HOST)
AWAY = PointRoute(host=HOST, route="chat", profile="away")
BACK = PointRoute(host=HOST, route="chat", profile="local")
SUSPEND = SuspendEngine(host=HOST, engine="big")
RESUME = ResumeEngine(host=HOST, engine="big", start=True)


@pytest.fixture(params=["local", "fake", "remote"])
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    """Each implementation in turn."""
    if request.param == "remote":
        async with remote_rig() as far:
            yield far
        return
    if request.param == "fake":
        yield fake_rig()
        return
    async with local_rig() as found:
        yield found


@pytest.fixture
def tell(rig: Rig) -> Teller:
    """A lease that tells it what to do."""
    return Teller(rig)


async def test_a_hold_and_its_undo(tell: Teller) -> None:
    """HOLD-11: a hold step holds the host in the lease's name, its undo frees it again."""
    assert await tell.see(HOLD) == FoundHold()
    await tell.do(HOLD)
    seen = await tell.see(HOLD)
    assert isinstance(seen, FoundHold)
    assert (seen.owner, seen.lease) == (f"lease:{LEASE}", LEASE)
    await tell.do(UNHOLD)
    assert await tell.see(HOLD) == FoundHold()


async def test_somebody_elses_hold_is_neither_overwritten_nor_removed(rig: Rig, tell: Teller) -> None:
    """GATE-3: another's live hold refuses the hold step, in preflight and later, and outlives the undo."""
    rig.held_by_bench()
    for call in (tell.ask, tell.do):
        with pytest.raises(BoxReserved) as told:
            await call(HOLD)
        assert told.value.owner == "bench"
    await tell.do(UNHOLD)
    seen = await tell.see(HOLD)
    assert isinstance(seen, FoundHold)
    assert seen.owner == "bench"


async def test_a_route_and_its_undo(tell: Teller) -> None:
    """LEASE-10: a route step finds the active profile and where it leads, and its undo restores it."""
    assert await tell.see(AWAY) == FoundRoute(profile="local", engines=("big",))
    await tell.ask(AWAY)
    await tell.do(AWAY)
    assert await tell.see(AWAY) == FoundRoute(profile="away", upstreams=("cloud",))
    await tell.do(AWAY)
    await tell.do(BACK)
    assert await tell.see(AWAY) == FoundRoute(profile="local", engines=("big",))


@pytest.mark.parametrize(
    "step",
    [
        PointRoute(host=HOST, route="nope", profile="away"),
        PointRoute(host=HOST, route="chat", profile="nope"),
        PointRoute(host=HOST, route="bare", profile="away"),
        DrainEngine(host=HOST, engine="nope", drain_s=1.0),
        SuspendEngine(host=HOST, engine="nope"),
        StopEngine(host=HOST, engine="nope"),
        StartEngine(host=HOST, engine="nope"),
    ],
)
async def test_lasting_defects_are_found_before_anything_is_changed(tell: Teller, step: Step) -> None:
    """LEASE-10, R20: unknown names, and a route without an active profile, fail the preflight for good."""
    with pytest.raises(Refusal) as told:
        await tell.ask(step)
    assert told.value.retry_after is None
    assert told.value.kind in (Kind.NOT_FOUND, Kind.INVALID)


async def test_a_drain_and_its_undo(tell: Teller) -> None:
    """LEASE-10: a drained engine names the lease that drains it, and takes requests again at the undo."""
    await tell.do(DrainEngine(host=HOST, engine="big", drain_s=60.0))
    seen = await tell.see(SUSPEND)
    assert isinstance(seen, FoundEngine)
    assert (seen.up, seen.draining_by) == (True, (LEASE,))
    await tell.do(EndDrain(host=HOST, engine="big"))
    assert await tell.see(SUSPEND) == FoundEngine(up=True, state="ready")


async def test_a_suspension_and_its_undo(tell: Teller) -> None:
    """NODE-5: a suspended engine is down and names the lease; its undo has it serve as it did."""
    await tell.do(DrainEngine(host=HOST, engine="big", drain_s=60.0))
    await tell.do(SUSPEND)
    assert await tell.see(SUSPEND) == FoundEngine(up=False, suspended_by=(LEASE,), state="stopped")
    await tell.do(RESUME)
    assert await tell.see(SUSPEND) == FoundEngine(up=True, state="ready")


async def test_a_cold_engine_is_left_cold(tell: Teller) -> None:
    """LEASE-10: an engine that was cold is suspended and, at the undo, left cold."""
    await tell.do(SuspendEngine(host=HOST, engine="cold"))
    await tell.do(ResumeEngine(host=HOST, engine="cold", start=False))
    assert await tell.see(SuspendEngine(host=HOST, engine="cold")) == FoundEngine(up=False, state="stopped")


async def test_a_persons_suspension_is_left(rig: Rig, tell: Teller) -> None:
    """NODE-5, R29: an undo takes away the lease's own suspension; what a person suspended stays down."""
    await tell.do(SUSPEND)
    await rig.suspended_by_ann("big")
    await tell.do(ResumeEngine(host=HOST, engine="big", start=False))
    assert await tell.see(SUSPEND) == FoundEngine(up=False, suspended_by=("person:ann",), state="stopped")


async def test_a_stop_and_a_start(tell: Teller) -> None:
    """LEASE-2: stop takes an engine down without suspending it, start brings one up that serves as itself."""
    await tell.do(StopEngine(host=HOST, engine="big"))
    assert await tell.see(SUSPEND) == FoundEngine(up=False, state="stopped")
    await tell.do(StartEngine(host=HOST, engine="cold"))
    await tell.do(StartEngine(host=HOST, engine="big"))
    assert await tell.see(SUSPEND) == FoundEngine(up=True, state="ready")


@pytest.mark.parametrize("step", [SUSPEND, StopEngine(host=HOST, engine="big")])
async def test_what_else_brings_it_up_is_off_until_the_undo(rig: Rig, tell: Teller, step: Step) -> None:
    """ENG-2: a suspend and a stop step set a restart policy to no, and the undo puts back what was found."""
    rig.revived("big", "restart: always")
    found = await tell.see(step)
    assert found == FoundEngine(up=True, state="ready", revival="restart: always")
    await tell.do(step, found=found)
    seen = await tell.see(step)
    assert isinstance(seen, FoundEngine)
    assert (seen.up, seen.revival) == (False, None)
    await tell.do(RESUME)
    assert await tell.see(step) == found


async def test_a_policy_that_somebody_set_meanwhile_stays(rig: Rig, tell: Teller) -> None:
    """ENG-2, LEASE-11: an undo puts a restart policy back only where none has been set since."""
    rig.revived("big", "restart: always")
    await tell.do(SUSPEND)
    rig.revived("big", "restart: unless-stopped")
    await tell.do(RESUME)
    seen = await tell.see(SUSPEND)
    assert isinstance(seen, FoundEngine)
    assert seen.revival == "restart: unless-stopped"


async def test_a_stop_that_is_an_undo_leaves_the_policy(rig: Rig, tell: Teller) -> None:
    """ENG-2, LEASE-10: what a lease started is stopped at its end, and its restart policy is not touched."""
    rig.revived("big", "restart: always")
    await tell.do(StopEngine(host=HOST, engine="big"))
    assert await tell.see(SUSPEND) == FoundEngine(up=False, state="stopped", revival="restart: always")


async def test_what_is_so_already_is_no_fault(tell: Teller) -> None:
    """NODE-1: every step may be told anew, under another id, and holds still."""
    for step in (HOLD, AWAY, SUSPEND, SUSPEND, AWAY, HOLD, RESUME, RESUME, BACK, UNHOLD, UNHOLD):
        await tell.do(step)
    assert await tell.see(SUSPEND) == FoundEngine(up=True, state="ready")


async def test_a_command_with_a_check(tell: Teller) -> None:
    """LEASE-2: a command's check says what is found, and its undo has it say the other thing."""
    do = command(POWER)
    undo = undo_of_command(do)
    assert undo is not None
    assert await tell.see(do) == FoundCommand(already=False)
    await tell.ask(do)
    await tell.do(do)
    assert await tell.see(do) == FoundCommand(already=True)
    await tell.do(undo)
    assert await tell.see(do) == FoundCommand(already=False)


async def test_nothing_is_seen_of_a_webhook(tell: Teller) -> None:
    """LEASE-2: of a webhook nothing can be seen, before and after it was called."""
    do = webhook(HOOK)
    undo = undo_of_webhook(do)
    assert undo is not None
    await tell.ask(do)
    await tell.do(do)
    await tell.do(undo)
    assert await tell.see(do) == FoundNothing()


async def test_an_older_fence_number_is_refused(rig: Rig) -> None:
    """LEASE-8, F03: after a newer grant of any of its resources an older number does and sees nothing."""
    old, new = Teller(rig, generation=41), Teller(rig, lease=OTHER, generation=42)
    await old.do(AWAY)
    await new.do(AWAY)
    for call in (old.do, old.see):
        with pytest.raises(StaleGeneration) as told:
            await call(BACK)
        assert (told.value.given, told.value.present) == (41, 42)
    seen = await new.see(AWAY)
    assert isinstance(seen, FoundRoute)
    assert seen.profile == "away"


async def test_a_repeat_is_answered_from_its_receipt(rig: Rig, tell: Teller) -> None:
    """NODE-1: the same operation told again does nothing a second time, whatever has become of its effect."""
    once = tell.operation(AWAY, id_="lease_1.7.1")
    await rig.wait(rig.node.perform(once))
    await tell.do(BACK)
    await rig.wait(rig.node.perform(once))
    seen = await tell.see(AWAY)
    assert isinstance(seen, FoundRoute)
    assert seen.profile == "local"
    assert await rig.wait(rig.node.verify(once)) is not None


async def test_a_deadman_and_its_undo(tell: Teller) -> None:
    """WIN-1, LEASE-10: an armed deadman is seen alive, a second arming changes nothing, its undo ends it."""
    arm = ArmDeadman(host=HOST, window=LEASE, mode="heavy", cap_s=60.0, bring_back=("big",), end=("cold",))
    await tell.ask(arm)
    assert await tell.see(arm) == FoundDeadman()
    await tell.do(arm)
    await tell.do(arm)
    assert await tell.see(arm) == FoundDeadman(window=LEASE, alive=True)
    await tell.do(DisarmDeadman(host=HOST, window=LEASE))
    assert await tell.see(arm) == FoundDeadman()
    await tell.do(DisarmDeadman(host=HOST, window=LEASE))
