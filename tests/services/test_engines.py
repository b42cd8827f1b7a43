import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import EngineNotFound, UpstreamUnreachable
from hostler.domain.fleet import DriverKind, frozen
from hostler.domain.gate import Ask
from hostler.domain.gate_words import Result
from hostler.domain.values import Cause, EngineId, Requester
from hostler.services.engines import person
from tests.fakes.driver import FakeDriver
from tests.fakes.host import GIB
from tests.fakes.world import BOT, World, engine, world

A = EngineId("a")


async def adopted(it: World, name: str = "a", seconds: float = 1.0) -> None:
    """Let that daemon adopt an engine, for this long."""
    task = asyncio.ensure_future(it.engines.adopt(it.lane(name)))
    await it.clock.advance(seconds)
    assert task.done()
    await task


async def test_a_ready_engine_is_taken_over() -> None:
    """ENG-7: an engine that serves as itself is taken over as it is, with what it was measured to take."""
    async with world(engine("a")) as it:
        await it.up("a")
        late = it.again()
        await adopted(late)
        assert late.lane("a").ready
        assert late.lane("a").run == it.lane("a").run
        assert (late.lane("a").peak, late.lane("a").taken) == ({"host": 10 * GIB}, {"host": 10 * GIB})
        assert late.events.types == ["engine_found", "engine_ready"]
        assert (it.driver.started, it.driver.stopped) == (["a"], [])


@pytest.mark.parametrize(
    "changed",
    [
        {"port": 8190},
        {"address": "127.0.0.9", "url": "http://127.0.0.9:8100"},
        {"health": "/ready"},
        {"model": "other"},
        {"argv": ("serve", "more")},
        {"driver": "compose"},
    ],
)
async def test_what_runs_is_taken_over_as_it_was_started(changed: Mapping[str, object]) -> None:
    """ENG-7: an engine whose launch changed in the config while it ran is taken over as it was started."""
    async with world(engine("a")) as it:
        await it.up("a")
        late = it.again()
        lane, started = late.lane("a"), it.lane("a").launch
        wanted = lane.launch = replace(lane.launch, **changed)  # type: ignore[arg-type]  # some of its fields
        drivers = frozen({**late.engines.drivers, "compose": FakeDriver(kind="compose")})
        task = asyncio.ensure_future(replace(late.engines, drivers=drivers).adopt(lane))
        await it.clock.advance(1)
        assert task.done()
        assert (lane.ready, lane.launch, lane.pending) == (True, started, wanted)
        await late.engines.stop("a", BOT)
        assert (lane.state, lane.launch, lane.pending) == (State.STOPPED, wanted, None)
        assert it.driver.up() == set()


async def test_an_engine_that_still_loads_is_waited_for() -> None:
    """ENG-7: an engine that still loads is waited for like a start of ours; a request joins the wait."""
    async with world(engine("a")) as it:
        it.driver.load_s[A] = 30
        it.wanted("a")
        await it.clock.advance(1)
        late = it.again()
        adopting = asyncio.ensure_future(late.engines.adopt(late.lane("a")))
        caller = late.wanted("a")
        await it.clock.advance(20)
        assert (late.state("a"), adopting.done()) == (State.UNKNOWN, False)
        await it.clock.advance(20)
        await asyncio.gather(adopting, caller)
        assert it.driver.started == ["a"]


async def test_an_engine_that_never_becomes_ready_is_failed() -> None:
    """ENG-5: an adopted engine that is not ready within a start's budget is failed, and told why."""
    async with world(engine("a", start_timeout_s=40.0)) as it:
        it.driver.load_s[A] = 10_000
        it.wanted("a")
        await it.clock.advance(1)
        it.starting.end()
        late = it.again()
        await adopted(late, seconds=41)
        assert late.state("a") is State.FAILED
        assert late.lane("a").status.why.startswith("found running but loading: GET http://127.0.0.1:8100")


async def test_what_died_meanwhile_is_stopped() -> None:
    """ENG-7: a recorded engine that does not run any more is stopped; one that dies at the first look too."""
    async with world(engine("a"), engine("b")) as it:
        await it.up("a")
        late = it.again()
        it.driver.slow_probe = 0.5
        adopting = asyncio.ensure_future(late.engines.adopt(late.lane("a")))
        await it.clock.advance(0.1)
        it.driver.crash(A)
        await it.clock.advance(1)
        await adopting
        await adopted(late, "b")
        assert (late.state("a"), late.lane("a").run) == (State.STOPPED, None)
        assert late.state("b") is State.STOPPED


async def test_what_serves_another_model_is_never_routed_to() -> None:
    """ENG-7: a running engine that serves another model is failed, and ended before its next start."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.driver.running[A].model_ids = ("other",)
        late = it.again()
        await adopted(late)
        assert late.state("a") is State.FAILED
        assert "found running but wrong model" in late.lane("a").status.why
        assert it.driver.stopped == []
        await late.clock.advance(30)
        await late.wanted("a")
        assert (it.driver.stopped, it.driver.started) == (["a"], ["a", "a"])


async def test_a_stop_during_adoption() -> None:
    """ENG-7: an engine that is stopped while it is looked at for the first time stays stopped."""
    async with world(engine("a")) as it:
        await it.up("a")
        late = it.again()
        it.driver.slow_probe = 2
        adopting = asyncio.ensure_future(late.engines.adopt(late.lane("a")))
        await it.clock.advance(1)
        await late.engines.stop("a", BOT)
        await it.clock.advance(5)
        await adopting
        assert late.state("a") is State.STOPPED


async def test_a_suspension_and_its_reason_to_be_unreadable() -> None:
    """NODE-5: an engine whose suspension cannot be read is not stopped: fail closed ends nothing."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.files.texts["engines/a/suspended"] = "{"
        late = it.again()
        await adopted(late)
        assert late.lane("a").ready
        assert late.lane("a").suspended_by == ("unknown",)


async def test_the_name_of_an_engine_that_is_not_there() -> None:
    """ENG-1: every wish for an engine that does not exist is refused with the nearest names."""
    async with world(engine("qwen-35b")) as it:
        with pytest.raises(EngineNotFound) as told:
            await it.engines.stop("qwen-35", BOT)
        assert told.value.nearest == "Did you mean qwen-35b?"


async def test_an_external_engine_is_not_started() -> None:
    """ENG-2: a request for an external engine that does not answer is refused, not waited for."""
    async with world(engine("ext", driver=DriverKind.EXTERNAL)) as it:
        with pytest.raises(UpstreamUnreachable, match="external"):
            await it.engines.ensure_ready("ext", it.ask("ext"), wait_s=60)
        assert it.driver.started == []


async def test_ensure_ready_gives_the_lane() -> None:
    """ENG-1: whoever wants an engine ready gets its lane, in any state it was in."""
    async with world(engine("a")) as it:
        for _ in range(2):
            lane = await it.engines.ensure_ready("a", it.ask("a"), wait_s=60)
            assert lane.ready
        assert it.driver.started == ["a"]


async def test_the_log_of_an_engine() -> None:
    """ENG-12: an engine's last lines come from its driver, oldest first."""
    async with world(engine("a")) as it:
        it.driver.logs[A] = ["one", "two", "three"]
        assert it.engines.tail("a", 2) == ["two", "three"]


@pytest.mark.parametrize(
    ("client", "key", "owner"),
    [("bot", "bots", "person:bot"), ("-", "bots", "person:bots"), ("-", "-", "person:cli")],
)
def test_the_owner_of_a_suspension(client: str, key: str, owner: str) -> None:
    """NODE-5: a person's suspension is owned by the client that they name, else by their key."""
    assert person(type(BOT)(client=client, key=key)) == owner


async def test_why_names_the_last_failure_while_it_counts() -> None:
    """GATE-2: `why` of an engine that failed just now says so, and when it is tried again."""
    async with world(engine("fast")) as it:
        lane = it.lane("fast")
        it.lanes.give_up(lane, "it exited with status 1")
        ask = Ask(engine=lane.engine.id, cause=Cause.REQUEST, requester=Requester())
        last = (await it.engines.why("fast", ask))[-1]
        assert (last.name, last.result, last.code) == ("last_start", Result.REFUSED, "engine_failed")
        assert (
            last.text == "it exited with status 1; it is tried again in 30 s, or after `hostler clear fast`"
        )
        await it.clock.advance(30)
        assert [check.name for check in await it.engines.why("fast", ask) if check.name == "last_start"] == []
