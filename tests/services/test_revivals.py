import json
from dataclasses import dataclass, field

import pytest

from hostler.domain.engine import Launch, Run, State
from hostler.domain.errors import EngineFailed, StoreFull
from hostler.domain.fleet import DriverKind
from hostler.domain.values import EngineId
from hostler.services.engines import Engines
from tests.fakes.host import TimedDriver
from tests.fakes.world import BOT, World, engine, world

A = EngineId("a")
ALWAYS = "restart: always"
RECORD = "engines/a/revival"


def revived(it: World, revival: str = ALWAYS) -> None:
    """Something else brings `a` up as well."""
    it.driver.revivals[A] = revival


async def test_a_suspended_engine_is_brought_up_by_nothing_else() -> None:
    """ENG-2: a person's suspend sets the restart policy to no, and the resume puts back what was found."""
    async with world(engine("a")) as it:
        revived(it)
        await it.up("a")
        await it.engines.suspend("a", BOT)
        assert (it.driver.revivals, it.driver.up()) == ({}, set())
        assert it.files.load(RECORD) == {"revival": ALWAYS, "owners": ["person:bot"]}
        assert it.events.last("revival_off").message == ALWAYS
        await it.engines.resume("a", BOT)
        assert it.driver.revivals == {A: ALWAYS}
        assert it.events.last("revival_back").actor == "person:bot"


async def test_a_policy_is_put_back_by_a_later_daemon() -> None:
    """ENG-2: what was found survives a restart of the daemon, which puts it back at the resume."""
    async with world(engine("a")) as it:
        revived(it)
        await it.engines.suspend("a", BOT)
        late = it.again()
        await late.engines.adopt(late.lane("a"))
        assert it.driver.revivals == {}
        await late.engines.resume("a", BOT)
        assert it.driver.revivals == {A: ALWAYS}


async def test_an_engine_that_nothing_else_brings_up_has_no_record() -> None:
    """ENG-2: where there is no restart policy nothing is recorded and nothing put back."""
    async with world(engine("a")) as it:
        await it.engines.suspend("a", BOT)
        await it.engines.resume("a", BOT)
        assert it.files.load(RECORD) is None
        assert it.driver.revivals == {}


async def test_a_policy_that_comes_back_while_it_is_suspended_goes_again() -> None:
    """ENG-2: a policy that a crash left, or somebody set, is off again once the engine is looked at."""
    async with world(engine("a")) as it:
        revived(it)
        await it.engines.suspend("a", BOT)
        revived(it, "restart: unless-stopped")
        late = it.again()
        await late.engines.adopt(late.lane("a"))
        assert it.driver.revivals == {}
        await late.engines.resume("a", BOT)
        assert it.driver.revivals == {A: "restart: unless-stopped"}


async def test_the_last_owner_puts_it_back() -> None:
    """ENG-2, NODE-5: while a lease keeps the policy off too, a person's resume does not put it back."""
    async with world(engine("a")) as it:
        revived(it)
        revivals, lane = it.engines.revivals, it.lane("a")
        await revivals.keep_off(lane, "lease_1")
        await revivals.keep_off(lane, "person:bot")
        await revivals.put_back(lane, "person:bot")
        assert it.driver.revivals == {}
        await revivals.put_back(lane, "somebody")
        assert it.driver.revivals == {}
        await revivals.put_back(lane, "lease_1")
        assert it.driver.revivals == {A: ALWAYS}


async def test_a_resume_takes_away_what_a_lease_that_is_over_left() -> None:
    """ENG-2: a policy that a lease of the past keeps off is put back by a person's resume."""
    async with world(engine("a")) as it:
        revived(it)
        await it.engines.revivals.keep_off(it.lane("a"), "lease_1")
        await it.engines.resume("a", BOT)
        assert it.driver.revivals == {A: ALWAYS}


async def test_a_full_disk_changes_no_policy() -> None:
    """ENG-2: what was found is written before the policy is changed; where it cannot be, nothing is."""
    async with world(engine("a")) as it:
        revived(it)
        it.files.full = True
        with pytest.raises(StoreFull, match="revival"):
            await it.engines.revivals.keep_off(it.lane("a"), "lease_1")
        assert it.driver.revivals == {A: ALWAYS}


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"revival": 1, "owners": []})])
async def test_a_damaged_record_is_told(text: str) -> None:
    """ENG-2: a record that cannot be understood is named at the resume, and not taken for none."""
    async with world(engine("a")) as it:
        await it.engines.suspend("a", BOT)
        it.files.texts[RECORD] = text
        with pytest.raises(EngineFailed, match=r"engines/a/revival\.json.*is damaged"):
            await it.engines.resume("a", BOT)
        assert it.lane("a").suspended_by == ("person:bot",)


@dataclass(slots=True)
class AwayDriver(TimedDriver):
    """A driver whose container engine cannot be asked, for as long as `away` says why."""

    away: str = ""
    asked: list[EngineId] = field(default_factory=list)

    async def adopt(self, launch: Launch) -> Run | None:
        self.asked.append(launch.engine)
        if self.away:
            raise EngineFailed(engine=launch.engine, why=self.away)
        return await TimedDriver.adopt(self, launch)


def away(it: World, kind: DriverKind) -> tuple[World, AwayDriver]:
    """The same host with a driver of that kind that can be away."""
    driver = AwayDriver(clock=it.clock, away="the container engine cannot be asked")
    drivers = {kind.value: driver, "process": driver, "external": driver}
    for part in (it.engines, it.engines.revivals, it.starting, it.stopping, it.watch.probing):
        object.__setattr__(part, "drivers", drivers)
    it.lane("a").launch = _of_kind(it.lane("a").launch, kind)
    return it, driver


def _of_kind(launch: Launch, kind: DriverKind) -> Launch:
    object.__setattr__(launch, "driver", kind.value)
    return launch


async def test_an_engine_that_cannot_be_asked_about_is_not_called_stopped() -> None:
    """ENG-7: where nobody can say whether an engine runs it is failed, with the reason, and not stopped."""
    async with world(engine("a")) as plain:
        it, _ = away(plain, DriverKind.PROCESS)
        engines: Engines = it.engines
        await engines.adopt(it.lane("a"))
        assert it.state("a") is State.FAILED
        assert it.lane("a").status.why == "the container engine cannot be asked"
        await engines.adopt(it.lane("a"))
        assert (it.state("a"), it.lane("a").known) == (State.FAILED, True)


@pytest.mark.parametrize("kind", [DriverKind.CONTAINER, DriverKind.COMPOSE])
async def test_a_container_that_something_else_started_is_found(kind: DriverKind) -> None:
    """ENG-2: a container that comes up by itself is found within a few looks, and serves."""
    async with world(engine("a", driver=kind)) as plain:
        it, driver = away(plain, kind)
        driver.away = ""
        await it.ticks(1)
        assert it.state("a") is State.STOPPED
        await driver.start(it.lane("a").launch)
        await it.ticks(15)
        assert it.state("a") is State.READY


async def test_a_process_that_was_stopped_is_not_looked_for() -> None:
    """ENG-8: nothing else starts a process of ours, so one that is stopped costs no looks."""
    async with world(engine("a")) as plain:
        it, driver = away(plain, DriverKind.PROCESS)
        await it.ticks(30)
        assert driver.asked == []
