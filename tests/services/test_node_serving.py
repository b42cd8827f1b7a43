"""What a node brings up again, moves, runs and calls: seen to work before it counts."""

import asyncio
from dataclasses import replace

import pytest

from hostler.domain.errors import (
    EngineFailed,
    NotFound,
    NotLaunchable,
    OrchestrationDisabled,
    ServingClassRefused,
    StepFailed,
)
from hostler.domain.fleet import DriverKind, EngineTarget, Escalating, Plain, Route, Strategy, Task, frozen
from hostler.domain.step import (
    CallWebhook,
    DrainEngine,
    HoldHost,
    PointRoute,
    ResumeEngine,
    RunCommand,
    StartEngine,
    StopEngine,
    SuspendEngine,
    UndoCommand,
)
from hostler.domain.values import EngineId, RouteName, ServingClass
from tests.fakes.node_parts import Parts, parts, with_routes
from tests.fakes.world import engine, world
from tests.services.node_conformance import HOST, LEASE, LocalRig, Teller

AWAY = PointRoute(host=HOST, route="chat", profile="away")
BACK = PointRoute(host=HOST, route="chat", profile="local")
SUSPEND = SuspendEngine(host=HOST, engine="big")
DRAIN = DrainEngine(host=HOST, engine="big", drain_s=60.0)
STOP = StopEngine(host=HOST, engine="big")


# ---------------------------------------------------------------- receipts and fence numbers


# ---------------------------------------------------------------- up


async def test_an_engine_proves_itself_before_it_counts(it: Parts, tell: Teller) -> None:
    """LEASE-13: a start is done after three looks in a row, 1 s apart, and one real completion."""
    begun = it.world.clock.elapsed()
    operation = tell.operation(StartEngine(host=HOST, engine="cold"))
    task = asyncio.ensure_future(it.node.perform(operation))
    await it.world.clock.advance(1.5)
    assert it.world.lane("cold").ready
    assert not task.done()
    assert it.completions.asked == []
    await it.world.clock.advance(1.0)
    await task
    assert it.completions.asked == ["chat cold"]
    assert it.world.clock.elapsed() - begun == pytest.approx(2.5)


async def test_a_flapping_engine_begins_its_row_anew(it: Parts, tell: Teller) -> None:
    """F11: one look that fails begins the row of three anew, and a completion that fails does too."""
    it.completions.answers = ["POST /v1/chat/completions: 500 loading", None]
    await tell.do(StartEngine(host=HOST, engine="cold"))
    assert it.completions.asked == ["chat cold", "chat cold"]
    it.world.driver.freeze(EngineId("cold"))
    with pytest.raises(EngineFailed, match="not seen to serve as itself within 2 min: unreachable"):
        await tell.do(ResumeEngine(host=HOST, engine="cold", start=True))
    assert it.completions.asked == ["chat cold", "chat cold"]


async def test_each_task_is_proven_by_its_own_work() -> None:
    """LEASE-13: an embedding engine gives an embedding; of a task without a probe health is enough."""
    async with world(engine("e", task=Task.EMBED), engine("r", task=Task.RERANK)) as base:
        it = parts(base)
        tell = Teller(LocalRig(it))
        for name in ("e", "r"):
            await tell.do(StartEngine(host=HOST, engine=name))
        assert it.completions.asked == ["embed e"]


async def test_a_start_goes_through_the_gate() -> None:
    """GATE-3: class, an external driver and switched-off orchestration refuse a step like any start."""
    external = engine("x", driver=DriverKind.EXTERNAL)
    async with world(engine("w", serving_class=ServingClass.WEDGE_RISK), external) as base:
        tell = Teller(LocalRig(parts(base)))
        for call in (tell.ask, tell.do):
            with pytest.raises(ServingClassRefused):
                await call(StartEngine(host=HOST, engine="w"))
            with pytest.raises(NotLaunchable, match="external"):
                await call(SuspendEngine(host=HOST, engine="x"))
    async with world(engine("a"), orchestration=False) as base:
        with pytest.raises(OrchestrationDisabled):
            await Teller(LocalRig(parts(base))).ask(StopEngine(host=HOST, engine="a"))


async def test_a_lease_starts_its_engine_under_its_own_hold(it: Parts, tell: Teller) -> None:
    """GATE-3: under its own hold a lease's step starts an engine; under anybody else's it is refused."""
    await tell.do(HoldHost(host=HOST))
    await tell.do(StartEngine(host=HOST, engine="cold"))
    await tell.do(StopEngine(host=HOST, engine="cold"))
    it.world.hold.write("bench")
    with pytest.raises(Exception, match="held by bench"):
        await tell.ask(StartEngine(host=HOST, engine="cold"))
    with pytest.raises(Exception, match="held by bench"):
        await tell.do(StartEngine(host=HOST, engine="cold"))
    assert it.world.driver.up() == {"big"}


async def test_a_step_takes_over_a_start_that_waits() -> None:
    """GATE-3: a step that joins a start which waits has it go on under the lease's own hold."""
    async with world(engine("a"), engine("b")) as base:
        tell = Teller(LocalRig(parts(base)))
        base.driver.load_s[EngineId("a")] = 30.0
        base.wanted("a")
        base.wanted("b")
        await base.clock.advance(0)
        await tell.do(HoldHost(host=HOST))
        await tell.do(StartEngine(host=HOST, engine="b"))
        assert base.driver.up() == {"a", "b"}


async def test_a_resume_starts_nothing_that_a_person_suspended(
    rig: LocalRig, it: Parts, tell: Teller
) -> None:
    """R29: a resume of an engine that a person suspended too ends the lease's claim, and starts nothing."""
    await tell.do(SUSPEND)
    await rig.suspended_by_ann("big")
    await tell.do(ResumeEngine(host=HOST, engine="big", start=True))
    assert it.world.lane("big").suspended_by == ("person:ann",)
    assert it.world.driver.up() == set()


async def test_an_engine_that_failed_is_tried_again_at_once(it: Parts, tell: Teller) -> None:
    """F10: a resume of an engine that failed is tried at once: a release waits for no back-off."""
    it.world.lanes.give_up(it.world.lane("cold"), "it fails")
    with pytest.raises(EngineFailed, match="it fails"):
        await it.world.wanted("cold")
    await tell.do(StartEngine(host=HOST, engine="cold"))
    assert it.world.lane("cold").ready


async def test_a_step_has_its_deadline(it: Parts, tell: Teller) -> None:
    """NODE-3: an operation that is not over at its deadline is refused `step_failed`."""
    it.world.driver.stop_s[EngineId("big")] = 500.0
    operation = replace(tell.operation(SUSPEND), deadline_s=30.0)
    with pytest.raises(StepFailed, match="suspend big: it was not done within 30 s"):
        await tell.rig.wait(it.node.perform(operation))


# ---------------------------------------------------------------- routes


def plain(*engines: str) -> Plain:
    return Plain(targets=tuple(EngineTarget(engine=EngineId(it)) for it in engines))


@pytest.mark.parametrize(
    ("profile", "strategy", "why"),
    [
        (plain("b"), "pin", None),
        (plain("a"), "pin", "a failed: it is stopped, and route chat is to lead to it as away."),
        (plain("a", "b"), "pin", "a failed: it is stopped, and route chat is to lead to it as away."),
        (plain("a", "b"), "first_ready", None),
        (Escalating(fast=EngineId("b"), large=EngineId("a")), "pin", None),
        (
            Escalating(fast=EngineId("a"), large=EngineId("b")),
            "pin",
            "a failed: it is stopped, and route chat is to lead to it as away.",
        ),
    ],
)
async def test_where_a_route_goes_something_serves(
    profile: Plain | Escalating, strategy: str, why: str | None
) -> None:
    """LEASE-10: preflight refuses, for a while, a profile whose first target is down."""
    made = Route(
        name=RouteName("chat"),
        profiles=frozen({"local": plain("b"), "away": profile}),
        active="local",
        strategy=Strategy(kind=strategy),  # type: ignore[arg-type]  # one of its words, as a test gives it
    )
    async with world(engine("a"), engine("b")) as base:
        await base.up("b")
        tell = Teller(LocalRig(parts(with_routes(base, chat=made))))
        if why is None:
            await tell.ask(AWAY)
            return
        with pytest.raises(EngineFailed) as told:
            await tell.ask(AWAY)
        assert (str(told.value), told.value.retry_after) == (why, 60)


# ---------------------------------------------------------------- commands and webhooks


async def test_a_command_that_is_so_already_is_not_run(it: Parts, tell: Teller) -> None:
    """LEASE-2: `check` with exit 0 means so already: nothing is done, and nothing undone that is not so."""
    it.commands.made.add("power")
    await tell.do(RunCommand(host=HOST, argv=("make", "power"), check=("is", "power")))
    assert it.commands.ran[0] == ("is", "power")
    assert ("make", "power") not in it.commands.ran
    it.commands.made.clear()
    await tell.do(UndoCommand(host=HOST, argv=("unmake", "power"), check=("is", "power")))
    assert ("unmake", "power") not in it.commands.ran


async def test_a_command_that_fails_says_how(it: Parts, tell: Teller) -> None:
    """LEASE-2: an exit code, a time-out and a check that says no refuse the step, with the last output."""
    it.commands.fail, it.commands.hang = {"bad"}, {"slow"}
    with pytest.raises(StepFailed, match="run bad on crow: exit code 3: it went wrong"):
        await tell.do(RunCommand(host=HOST, argv=("bad", "secret")))
    with pytest.raises(StepFailed, match="run slow on crow: killed after 60 s"):
        await tell.do(RunCommand(host=HOST, argv=("slow",)))
    with pytest.raises(StepFailed, match="its check says that it is not so"):
        await tell.do(RunCommand(host=HOST, argv=("other",), check=("is", "power")))


async def test_a_program_that_is_not_there_is_a_lasting_defect(it: Parts, tell: Teller) -> None:
    """LEASE-10: a command, its undo or its check that is not installed is refused in preflight, for good."""
    it.commands.missing = {"gone"}
    for step in (
        RunCommand(host=HOST, argv=("gone",)),
        RunCommand(host=HOST, argv=("make",), undo=("gone",)),
        RunCommand(host=HOST, argv=("make",), check=("gone",)),
    ):
        with pytest.raises(NotFound, match="gone"):
            await tell.ask(step)
    with pytest.raises(StepFailed, match="gone cannot be run: No such file"):
        await tell.do(RunCommand(host=HOST, argv=("gone",)))


async def test_a_webhook_says_what_happens(it: Parts, tell: Teller) -> None:
    """LEASE-2: a webhook is told lease and fence number; one that is not taken refuses the step."""
    await tell.do(CallWebhook(host=HOST, url="https://example.net/hook?token=s3cret"))
    _, body = it.webhooks.calls[0]
    assert (body["lease"], body["generation"], body["do"]) == (LEASE, 7, "do")
    it.webhooks.answer = "it answered 500"
    with pytest.raises(StepFailed) as told:
        await tell.do(CallWebhook(host=HOST, url="https://example.net/hook?token=s3cret"))
    assert str(told.value) == "call https://example.net: it answered 500."
