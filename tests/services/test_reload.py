"""Reload: what runs goes on, what is wrong changes nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from hostler.domain.engine import State
from hostler.domain.errors import EngineNotFound, InvalidConfig, LimitReached, NotLaunchable
from hostler.domain.fleet import DriverKind, Engine, EngineTarget, Fleet, Gateway, Key, Plain, Route, frozen
from hostler.domain.holding import ENGINE, ROUTE, Holding, place
from hostler.domain.reload import How
from hostler.domain.values import EngineId, HostName, RouteName
from hostler.services.keys import Keyring, digest_of, keyring
from hostler.services.reload import LOOK_S, Reload, Reloaded
from hostler.services.routes import Routes, load
from tests.fakes.reloading import FILE, Disk, Wardrobe, reload_in
from tests.fakes.world import BOT, World, engine, fleet, lane_of, world

FIRST = "hostler.yaml:3:1: engines: expected a mapping"


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A world whose config can be changed."""

    world: World
    reload: Reload
    routes: Routes
    disk: Disk
    wardrobe: Wardrobe
    ring: Keyring

    async def take(self, *engines: Engine, **more: object) -> Reloaded:
        """The file has these engines now, and is taken up."""
        self.disk.write(replace(fleet(engines), **more))  # type: ignore[arg-type]  # some of a fleet's fields
        return await self.reload.reload(BOT)

    def told(self, kind: str) -> list[str]:
        return [event.message for event in self.world.events.of(kind)]


@asynccontextmanager
async def stage(*engines: Engine) -> AsyncIterator[Stage]:
    async with world(*engines) as it:
        routes = Routes(files=it.files, clock=it.clock, events=it.events, current=load(it.fleet, it.files))
        ring = keyring(configured=(), kept=(), local=None, clock=it.clock)

        def bug(error: BaseException) -> str:
            it.bugs.append(error)
            return "err_1"

        reload = reload_in(
            it.engines,
            routes,
            ring,
            launch=lambda made: lane_of(made, 0.0, 8100).launch,
            bug=bug,
            guard=it.engines.gate.guard,
            vitals=it.watch.vitals,
        )
        disk, wardrobe = reload.source, reload.outfit
        assert isinstance(disk, Disk)
        assert isinstance(wardrobe, Wardrobe)
        yield Stage(world=it, reload=reload, routes=routes, disk=disk, wardrobe=wardrobe, ring=ring)
        await reload.errands.end()


def holding(it: World, kind: str, name: str) -> None:
    """A lease has it."""
    it.engines.gate.guard.adopt(
        {
            place(kind, name): Holding(
                lease="ls_1",
                key="other",
                holder="anna",
                resource="box",
                until=it.clock.now() + timedelta(hours=1),
            )
        }
    )


async def test_an_engine_that_did_not_change_runs_on() -> None:
    """CONF-3: an engine whose part is the same keeps its lane, its process and its requests."""
    async with stage(engine("fast"), engine("large")) as it:
        await it.world.up("fast")
        before, run = it.world.lane("fast"), it.world.lane("fast").run
        told = await it.take(engine("fast"), engine("large", ttl_s=5.0))
        assert [str(change) for change in told.changes] == ["changed engine large: ttl_s"]
        assert it.world.lane("fast") is before
        assert (before.run, before.state) == (run, State.READY)
        assert it.world.lane("large").engine.ttl_s == 5.0
        assert it.world.driver.stopped == []
        assert it.told("config_reloaded") == ["changed engine large: ttl_s"]


async def test_a_changed_launch_waits_for_the_next_start() -> None:
    """CONF-3: an engine that runs is left as it was started; its next start is the new one."""
    async with stage(engine("fast"), engine("idle")) as it:
        await it.world.up("fast")
        told = await it.take(engine("fast", model="m2"), engine("idle", model="m2"))
        fast, idle = it.world.lane("fast"), it.world.lane("idle")
        assert (fast.launch.model, idle.launch.model) == ("fast", "m2")
        assert fast.pending is not None
        assert told.follows == (
            "fast runs on as it was started: `hostler stop fast`, and its next start is the new one",
        )
        await it.world.engines.stop("fast", BOT, now=True)
        after = it.world.lane("fast")
        assert (after.launch.model, after.pending) == ("m2", None)
        await it.world.up("fast")
        assert it.world.driver.running[EngineId("fast")].launch.model == "m2"


async def test_a_change_back_leaves_nothing_to_do() -> None:
    """CONF-3: a launch that is as what runs again waits for no start."""
    async with stage(engine("fast")) as it:
        await it.world.up("fast")
        await it.take(engine("fast", model="m2"))
        await it.take(engine("fast"))
        assert it.world.lane("fast").pending is None


@pytest.mark.parametrize("down", ["failed", "deferred"])
async def test_a_resident_whose_launch_changed_is_tried_at_once(down: str) -> None:
    """CONF-3, ENG-10: another port, for instance, may be had at once: the back-off was of the old launch."""
    async with stage(engine("a", resident=True)) as it:
        room = it.world
        if down == "failed":
            room.driver.ids[EngineId("a")] = "other"
        else:
            room.machine.others = 120 << 30
        await room.ticks(10)
        room.driver.ids.pop(EngineId("a"), None)
        room.machine.others = 0
        await room.ticks(5)
        assert not room.lane("a").ready
        await it.take(engine("a", resident=True, model="m2"))
        await room.ticks(5)
        assert room.lane("a").ready


async def test_a_start_that_waits_takes_the_newest_launch() -> None:
    """CONF-3, GATE-1: a start that has not been spawned yet is judged and spawned by the new config."""
    async with stage(engine("fast"), engine("large")) as it:
        async with it.world.starting.placement:
            waiting = it.world.wanted("large")
            await it.world.clock.advance(1)
            await it.take(engine("fast"), engine("large", model="m2"))
        await it.world.clock.advance(60)
        await waiting
        assert it.world.driver.running[EngineId("large")].launch.model == "m2"


async def test_a_removed_engine_that_runs_is_known_until_it_has_ended() -> None:
    """CONF-3: it is not started again, its stop works, and then it is forgotten."""
    async with stage(engine("fast"), engine("gone", resident=True)) as it:
        await it.world.up("gone")
        run = it.world.lane("gone").run
        assert run is not None
        told = await it.take(engine("fast"))
        assert told.follows == (f"gone runs on (pid {run.pid}): `hostler stop gone` ends it",)
        assert it.world.lane("gone").removed
        following = asyncio.ensure_future(it.reload.follow())
        await it.world.clock.advance(LOOK_S)
        assert it.world.lane("gone").run == run
        await it.world.engines.stop("gone", BOT, now=True)
        with pytest.raises(NotLaunchable, match="switched off"):
            await it.world.engines.ensure_ready("gone", it.world.ask("gone"), wait_s=1.0)
        await it.world.clock.advance(LOOK_S)
        with pytest.raises(EngineNotFound):
            it.world.lanes.get("gone")
        following.cancel()


async def test_a_removed_engine_that_stands_is_gone_at_once_and_may_come_back() -> None:
    """CONF-3, ENG-7: it is forgotten; put back it is looked for first, and can be started."""
    async with stage(engine("fast"), engine("gone")) as it:
        await it.take(engine("fast"))
        with pytest.raises(EngineNotFound):
            it.world.lanes.get("gone")
        await it.take(engine("fast"), engine("gone"))
        assert not it.world.lane("gone").known
        await it.world.clock.advance(1)
        assert it.world.lane("gone").known
        await it.world.up("gone")


async def test_a_removed_engine_comes_back_while_it_runs() -> None:
    """CONF-3: one that was taken out and put back while it ran is as it was."""
    async with stage(engine("fast")) as it:
        await it.world.up("fast")
        await it.take()
        assert it.world.lane("fast").removed
        await it.take(engine("fast"))
        lane = it.world.lane("fast")
        assert (lane.removed, lane.engine.enabled, lane.state) == (False, True, State.READY)


async def test_what_a_lease_has_stays_known() -> None:
    """CONF-3, LEASE-15: an engine or a route of a lease may be removed; what follows is told first."""
    async with stage(engine("fast"), engine("work")) as it:
        chat = Route(
            name=RouteName("chat"),
            profiles=frozen({"day": Plain(targets=(EngineTarget(engine=EngineId("fast")),))}),
        )
        await it.take(engine("fast"), engine("work"), routes=frozen({chat.name: chat}))
        holding(it.world, ROUTE, "chat")
        it.disk.write(fleet([engine("fast"), engine("work")]))
        assert (await it.reload.plan()).follows == (
            "route chat is moved by lease ls_1: its release will not find it",
        )
        holding(it.world, ENGINE, "work")
        told = await it.take(engine("fast"))
        assert told.follows == (
            (
                "lease ls_1 of anna has work: it goes on as it is until that lease is over"
                " (`hostler schedule` shows when)"
            ),
        )
        assert it.world.lane("work").removed
        it.world.engines.gate.guard.adopt({})
        following = asyncio.ensure_future(it.reload.follow())
        await it.world.clock.advance(LOOK_S)
        with pytest.raises(EngineNotFound):
            it.world.lanes.get("work")
        following.cancel()


async def test_a_file_that_is_not_right_changes_nothing() -> None:
    """CONF-3: the old config stays in force; status and one event say why, until the file is right."""
    async with stage(engine("fast")) as it:
        before = it.world.lanes.config.fleet
        it.disk.write(fleet([engine("other")]), FIRST, "more")
        with pytest.raises(InvalidConfig):
            await it.reload.reload(BOT)
        assert it.world.lanes.config.fleet is before
        assert it.wardrobe.taken == []
        assert it.world.watch.vitals.config == (
            f"The config on disk is not right and not in use: {FIRST}, and 1 more",
        )
        assert it.told("config_rejected") == [f"{FIRST}, and 1 more"]
        it.disk.write(fleet([engine("fast")]))
        assert (await it.reload.reload(BOT)).changes == ()
        assert not it.world.watch.vitals.config
        assert it.told("config_reloaded") == []


async def test_a_host_keeps_its_name() -> None:
    """CONF-3: a config in which this host has another name needs a restart, and says so."""
    async with stage(engine("fast")) as it:
        other = HostName("raven")
        here = it.world.lanes.config.fleet
        it.disk.write(replace(here, here=other, hosts=frozen({other: replace(here.host, name=other)})))
        with pytest.raises(InvalidConfig) as refused:
            await it.reload.reload(BOT)
        assert "this host is crow and would be raven" in refused.value.problems[0]
        assert it.world.lanes.config.fleet is here


async def test_an_engine_without_a_driver_is_left_out() -> None:
    """CONF-3: an engine whose driver this version does not have has no lane after a reload either."""
    async with stage(engine("fast")) as it:
        odd = replace(engine("odd"), driver=DriverKind.DISTRIBUTED)
        made = replace(it.reload, supported=lambda made: made.driver is not DriverKind.DISTRIBUTED)
        it.disk.write(fleet([engine("fast"), odd]))
        await made.reload(BOT)
        assert set(it.world.lanes.by_id) == {"fast"}
        it.disk.write(fleet([engine("fast"), replace(odd, model="m2")]))
        assert (await made.reload(BOT)).follows == ()


async def test_what_cannot_be_had_changes_nothing() -> None:
    """CONF-3: where no port is left, nothing of the new config is in force."""
    async with stage(engine("fast")) as it:
        before = it.world.lanes.config.fleet
        it.wardrobe.full = True
        it.disk.write(fleet([engine("fast"), engine("new")]))
        with pytest.raises(LimitReached):
            await it.reload.reload(BOT)
        assert it.world.lanes.config.fleet is before
        with pytest.raises(EngineNotFound):
            it.world.lanes.get("new")


async def test_keys_routes_and_origins_are_those_of_the_new_config() -> None:
    """CONF-3, API-4: from the reload on keys, routes, browser origins and bounds are the new ones."""
    async with stage(engine("fast")) as it:
        chat = Route(
            name=RouteName("chat"),
            profiles=frozen({"day": Plain(targets=(EngineTarget(engine=EngineId("fast")),))}),
        )
        await it.take(
            engine("fast"),
            routes=frozen({chat.name: chat}),
            gateway=Gateway(max_body=9, cors=("https://app.example.net",)),
            keys=(Key(name="me", digest=digest_of("hk_me"), scopes=frozenset({"admin"})),),
        )
        who = it.ring.authenticate("hk_me")
        assert who is not None
        assert (who.name, it.ring.open) == ("me", False)
        assert it.routes.active("chat") == "day"
        assert it.routes.table.largest == 9
        assert it.reload.browsers.cors == {"https://app.example.net"}


async def test_a_switch_is_kept_and_a_first_value_is_not() -> None:
    """CONF-3, GW-1: a profile that somebody switched to wins over the new `active:`; else that is taken."""
    both = frozen(
        {name: Plain(targets=(EngineTarget(engine=EngineId("fast")),)) for name in ("day", "night")}
    )
    routes = {name: Route(name=RouteName(name), profiles=both, active="day") for name in ("chat", "voice")}
    later = {name: replace(route, active="night") for name, route in routes.items()}
    async with stage(engine("fast")) as it:
        await it.take(engine("fast"), routes=frozen(routes))
        await it.routes.switch("chat", "night", BOT)
        await it.routes.switch("chat", "day", BOT)
        await it.take(engine("fast"), routes=frozen(later))
        assert (it.routes.active("chat"), it.routes.active("voice")) == ("day", "night")


async def test_the_file_is_followed_once_it_has_settled() -> None:
    """CONF-3: a change on disk is taken up at the second look that sees it, once; a touch alone is silent."""
    async with stage(engine("fast")) as it:
        following = asyncio.ensure_future(it.reload.follow())
        await it.world.clock.advance(LOOK_S)
        it.disk.write(fleet([engine("fast", ttl_s=7.0)]))
        await it.world.clock.advance(LOOK_S)
        assert it.disk.reads == 0
        await it.world.clock.advance(5 * LOOK_S)
        assert (it.disk.reads, it.told("config_reloaded")) == (1, ["changed engine fast: ttl_s"])
        it.disk.write(None, FIRST)
        await it.world.clock.advance(5 * LOOK_S)
        assert (it.disk.reads, it.told("config_rejected")) == (2, [FIRST])
        it.disk.write()
        await it.world.clock.advance(5 * LOOK_S)
        assert (it.disk.reads, len(it.told("config_reloaded"))) == (3, 1)
        assert it.world.events.last("config_reloaded").actor.endswith("client=file")
        it.reload.ask()
        await it.world.clock.advance(LOOK_S)
        assert it.disk.reads == 4
        following.cancel()


async def test_reloads_come_one_at_a_time() -> None:
    """CONF-3: twenty at once with twenty contents end with the last one in force, each with its answer."""
    async with stage(engine("fast")) as it:
        plans = []
        for number in range(20):
            it.disk.write(fleet([engine("fast", ttl_s=float(number + 1))]))
            plans.append(asyncio.ensure_future(it.reload.reload(BOT)))
            await asyncio.sleep(0)
        told = await asyncio.gather(*plans)
        assert it.world.lane("fast").engine.ttl_s == 20.0
        assert all(change.how is How.CHANGED for each in told for change in each.changes)
        assert it.reload.file == FILE


def many(count: int) -> Fleet:
    return fleet([engine(f"e{number}") for number in range(count)])


async def test_a_long_list_of_changes_is_shortened_for_people() -> None:
    """CONF-3: an event's sentence names a dozen changes and how many more; its facts have all."""
    async with stage() as it:
        it.disk.write(many(15))
        await it.reload.reload(BOT)
        (event,) = it.world.events.of("config_reloaded")
        assert event.message.endswith("; and 3 more")
        facts = event.facts["changes"]
        assert isinstance(facts, list)
        assert len(facts) == 15
