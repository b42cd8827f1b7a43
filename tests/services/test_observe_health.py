import asyncio
from dataclasses import replace

from hostler.domain.fleet import DriverKind, frozen
from hostler.domain.holding import Holding
from hostler.domain.mode import Mode
from hostler.domain.values import Cause, EngineId, HostName, ServingClass
from hostler.services.routes import Routes, load
from hostler.services.status import DaemonFacts, Status
from tests.fakes.world import BOT, CROW, World, engine, world


class Log:
    """An event log that is never late."""

    dropped = 0
    failing = None

    def lag_s(self) -> float:
        return 0.0


def status(it: World) -> Status:
    """The status of that world's daemon."""
    facts = DaemonFacts(
        pid=1,
        version="0",
        started=it.clock.now(),
        listen=(),
        state_dir="/",
        config_file=None,
        keys_open=False,
    )
    return Status(
        facts=facts,
        lanes=it.lanes,
        gate=it.gate,
        starting=it.starting,
        requests=it.requests,
        routes=Routes(files=it.files, clock=it.clock, events=it.events, current=load(it.fleet, it.files)),
        holds=it.holds,
        memory=it.machine,
        clock=it.clock,
        queue=Log(),  # type: ignore[arg-type]  # what health reads of it
        vitals=it.watch.vitals,
    )


async def test_a_waiter_is_a_request_that_nobody_serves_yet() -> None:
    """REL-7: the oldest waiter is the oldest request that waits, not one that an upstream serves."""
    async with world(engine("a")) as it:
        entry = it.requests.open(BOT, route="chat", path="/", cut=lambda _: None)
        entry.phase = "streaming"
        await it.clock.advance(50)
        it.requests.open(BOT, route="chat", path="/", cut=lambda _: None)
        await it.clock.advance(7)
        health = status(it).health()
        assert (health.waiters, health.oldest_waiter_s) == (1, 7.0)


async def test_a_keeper_that_is_late_is_stuck() -> None:
    """REL-7: a loop that has not ticked for 30 s is `stuck`, whatever else answers."""
    async with world(engine("a")) as it:
        it.watch.tick()
        await it.clock.advance(29)
        assert status(it).health().status == "ok"
        await it.clock.advance(2)
        assert status(it).health().status == "stuck"


async def test_the_picture_of_a_start() -> None:
    """ENG-5: while an engine starts, the status says how long, of how much, and who waits."""
    async with world(engine("a")) as it:
        it.driver.load_s[it.lane("a").engine.id] = 60
        it.wanted("a")
        await it.clock.advance(41)
        shown = status(it).engine("a")
        assert shown.starting is not None
        assert (shown.starting.elapsed_s, shown.starting.budget_s, shown.waiting) == (41, 120, 1)
        assert shown.starting.text == "loading 41 s of 120 s, place 1"


async def test_what_a_hold_blocks() -> None:
    """GATE-2: a stopped engine that the hold does not allow is shown as blocked, with whom and until when."""
    async with world(engine("a"), engine("embed", essential=True)) as it:
        it.hold.write("dsv4", seconds=60)
        shown = {row.id: row.blocked for row in status(it).engines()}
        blocked = shown["a"]
        assert blocked is not None
        assert (blocked.code, blocked.owner, blocked.until) == (
            "box_reserved",
            "dsv4",
            "2026-09-04T20:06:11.482Z",
        )
        assert shown["embed"] is None


async def test_state_that_cannot_be_read_is_told() -> None:
    """CONF-5: a routes.json or suspended.json that cannot be read is a warning with what holds instead."""
    async with world(engine("a")) as it:
        assert status(it).daemon().warnings == ()
        it.files.texts["routes"] = "{"
        it.files.texts["engines/a/suspended"] = "[]"
        await it.engines.adopt(it.lane("a"))
        routes, suspended = status(it).daemon().warnings
        assert routes.startswith("routes.json: ")
        assert routes.endswith("; a route that no lease pointed has the config's first profile")
        assert suspended == (
            "suspended.json of a cannot be read: it counts as suspended until `hostler resume a`"
        )


async def test_what_a_lease_that_is_over_left_here_is_told() -> None:
    """NODE-5, LEASE-14: an engine that only a lease keeps suspended which has nothing here any more."""
    async with world(engine("a")) as it:
        await it.engines.suspensions.add(it.lane("a"), "ls_0")
        (told,) = status(it).daemon().warnings
        assert told.endswith("`hostler resume a` there lets it start")
        it.gate.guard.adopt({"engine a": Holding(lease="ls_0", resource="box", holder="ann")})
        assert status(it).daemon().warnings == ()


async def test_where_the_whole_of_a_member_is() -> None:
    """ENG-11: a member says on which host its distributed engine is started, while that is known."""
    raven, parts = HostName("raven"), (EngineId("part"),)
    whole = engine("wide", host=raven, driver=DriverKind.DISTRIBUTED, members=parts)
    part = engine("part", of=EngineId("wide"))
    async with world(engine("a"), part) as it:
        both = frozen({**it.fleet.engines, whole.id: whole})
        it.lanes.config.fleet = replace(it.fleet, engines=both)
        assert (status(it).engine("part").of_host, status(it).engine("a").of_host) == ("raven", None)
        it.lanes.config.fleet = it.fleet
        assert status(it).engine("part").of_host is None


async def test_what_is_up_outside_the_standing_mode_is_told() -> None:
    """MODE-2, WIN-8: an engine of a class that has to be named, with what ends it, until a lease has it.

    What comes up on demand is none, and without a standing mode nobody is.
    """
    glm = engine("glm", serving_class=ServingClass.WINDOWED)
    whole = engine("whole", driver=DriverKind.DISTRIBUTED, members=(EngineId("part"),))
    part = engine("part", serving_class=ServingClass.WINDOWED, of=EngineId("whole"))
    async with world(engine("a"), engine("b"), glm, whole, part) as it:
        await it.up("a", "b")
        for name in ("glm", "part"):
            ask = replace(it.ask(name, Cause.STEP), override=ServingClass.WINDOWED)
            start = asyncio.ensure_future(it.starting.ensure_ready(it.lane(name), ask, wait_s=60))
            await it.clock.advance(60)
            await start
        assert status(it).daemon().warnings == ()
        mode = Mode(name="standard", standing=True, hosts=frozen({CROW: (EngineId("a"),)}))
        it.lanes.config.fleet = replace(it.fleet, modes=frozen({"standard": mode}))
        assert status(it).daemon().warnings == (
            "glm on crow is up, and not of the standing mode: `hostler stop glm` on crow ends it",
            "part on crow is up, and not of the standing mode: `hostler stop whole` on crow ends it",
        )
        held = Holding(lease="ls_1", resource="box", holder="ann")
        it.gate.guard.adopt({"engine glm": held, "engine part": held})
        assert status(it).daemon().warnings == ()
