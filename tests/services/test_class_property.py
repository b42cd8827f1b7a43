"""Whatever happens in whatever order, a class other than resident starts only where one call names it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostler.domain.catalog import effective_class
from hostler.domain.curation import Curation
from hostler.domain.errors import Refusal
from hostler.domain.fleet import Engine, Group, frozen
from hostler.domain.gate import Ask
from hostler.domain.registry import Registry, Row
from hostler.domain.values import Cause, EngineId, ServingClass
from hostler.services.keys import keyring
from hostler.services.reload import Reload
from hostler.services.routes import Routes, load
from tests.fakes.host import GIB
from tests.fakes.reloading import Disk, reload_in
from tests.fakes.world import BOT, World, engine, fleet, group, lane_of, world

NAMES = ("one", "two", "three")
CLASSES = st.sampled_from(list(ServingClass))
DANGER = {"resident": 0, "windowed": 1, "wedge-risk": 2}
GROUP = replace(group("big", idle_revert="one"), idle_s=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What speaks of one engine's class: its entry, its variant, its config; and how it is set up."""

    entry: ServingClass
    variant: ServingClass | None
    config: ServingClass | None
    resident: bool
    essential: bool
    ttl: float

    @property
    def truth(self) -> ServingClass:
        """The most dangerous of all that was said, found without the code under test."""
        said = [it.value for it in (self.entry, self.variant, self.config) if it is not None]
        return ServingClass(max(said, key=lambda it: DANGER[it]))

    def engine(self, name: str) -> Engine:
        """The engine as a config makes it."""
        return engine(
            name,
            group="big",
            need=1,
            entry=f"{name}#4k",
            curation=Curation(entry=f"{name}#4k", peak=GIB),
            serving_class=effective_class(self.entry, self.variant, self.config),
            resident=self.resident,
            essential=self.essential,
            ttl_s=self.ttl,
        )


SAID = st.builds(
    Said,
    entry=CLASSES,
    variant=st.none() | CLASSES,
    config=st.none() | CLASSES,
    resident=st.booleans(),
    essential=st.booleans(),
    ttl=st.sampled_from([0.0, 3.0]),
)
FLEETS = st.tuples(SAID, SAID, SAID)
PLACE = st.sampled_from(NAMES)
OVERRIDE = st.none() | CLASSES
STEPS = st.one_of(
    st.tuples(st.just("start"), PLACE, st.sampled_from(list(Cause)), OVERRIDE),
    st.tuples(st.just("start"), PLACE, st.sampled_from(list(Cause)), CLASSES),
    st.tuples(st.just("start"), PLACE, st.just(Cause.API), CLASSES),
    st.tuples(st.just("lease"), PLACE, st.just(Cause.STEP), OVERRIDE),
    st.tuples(st.just("crash"), PLACE),
    st.tuples(st.just("stop"), PLACE),
    st.tuples(st.just("suspend"), PLACE),
    st.tuples(st.just("resume"), PLACE),
    st.tuples(st.just("clear"), PLACE),
    st.tuples(st.just("hold"), st.sampled_from(["", *NAMES])),
    st.tuples(st.just("free")),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0, 130.0])),
    st.tuples(st.just("reload"), FLEETS),
    st.tuples(st.just("row"), st.sampled_from([*NAMES, "far"]), PLACE, st.booleans(), st.integers(1, 9)),
)


@dataclass(slots=True, kw_only=True)
class Play:
    """One run: the daemon, what is true of each engine, and how many starts were seen so far."""

    it: World
    reload: Reload
    truth: dict[str, ServingClass]
    rows: Registry = field(default_factory=lambda: Registry(node="crow"))
    seen: int = 0
    named: list[tuple[str, ServingClass | None]] = field(default_factory=list)

    async def step(self, step: tuple[object, ...]) -> None:
        """Do it; refusals are answers."""
        kind, rest = str(step[0]), step[1:]
        self.named.clear()
        with contextlib.suppress(Refusal):
            await getattr(self, f"_{kind}")(*rest)
        await self.it.ticks(2)
        self.check(step)

    def check(self, step: tuple[object, ...]) -> None:
        """Each start since the last look was of the resident class, or named its class in this very call."""
        for name in self.it.driver.started[self.seen :]:
            needed = self.truth[str(name)]
            assert needed is ServingClass.RESIDENT or (str(name), needed) in self.named, (step, name, needed)
        self.seen = len(self.it.driver.started)

    async def _start(self, name: str, cause: Cause, override: ServingClass | None) -> None:
        await self._ask(name, cause, override, lease=None)

    async def _lease(self, name: str, cause: Cause, override: ServingClass | None) -> None:
        await self._ask(name, cause, override, lease="ls_1")

    async def _ask(
        self, name: str, cause: Cause, override: ServingClass | None, *, lease: str | None
    ) -> None:
        if cause in (Cause.API, Cause.STEP):
            self.named.append((name, override))
        made = Ask(engine=EngineId(name), cause=cause, requester=BOT, override=override, lease=lease)
        start = asyncio.ensure_future(self.it.starting.ensure_ready(self.it.lane(name), made, wait_s=30))
        await self.it.clock.advance(31)
        await start

    async def _crash(self, name: str) -> None:
        if EngineId(name) in self.it.driver.up():
            self.it.driver.crash(EngineId(name))
        await self.it.ticks(5)

    async def _stop(self, name: str) -> None:
        await self.it.engines.stop(name, BOT, now=True)

    async def _suspend(self, name: str) -> None:
        await self.it.engines.suspend(name, BOT)

    async def _resume(self, name: str) -> None:
        await self.it.engines.resume(name, BOT)

    async def _clear(self, name: str) -> None:
        self.it.engines.clear(name, BOT)

    async def _hold(self, allowed: str) -> None:
        self.it.hold.write("bench", allow=[allowed] if allowed else [])

    async def _free(self) -> None:
        self.it.hold.remove()

    async def _wait(self, seconds: float) -> None:
        await self.it.ticks(seconds)

    async def _row(self, name: str, model: str, retired: bool, version: int) -> None:
        """A peer says a row, of an id and a model that may be names of ours; it is offered from then on."""
        said = Row(
            id=name,
            url="http://10.99.0.2:8101",
            host="raven",
            models=(model,),
            retired=retired,
            version=version,
            author="raven",
            reach=frozen({"crow": True}),
        )
        self.rows, _ = self.rows.take("raven", [said])
        await self.reload.routes.share(self.rows.resolved(["raven"]))

    async def _reload(self, said: tuple[Said, ...]) -> None:
        source = self.reload.source
        assert isinstance(source, Disk)
        made = dict(zip(NAMES, said, strict=True))
        source.write(fleet([it.engine(name) for name, it in made.items()], [GROUP]))
        await self.reload.reload(BOT)
        self.truth = {name: it.truth for name, it in made.items()}


async def play(said: tuple[Said, ...], steps: list[tuple[object, ...]], look: Callable[[Play], None]) -> None:
    made = dict(zip(NAMES, said, strict=True))
    groups: tuple[Group, ...] = (GROUP,)
    async with world(*(it.engine(name) for name, it in made.items()), groups=groups) as it:
        routes = Routes(files=it.files, clock=it.clock, events=it.events, current=load(it.fleet, it.files))
        ring = keyring(configured=(), kept=(), local=None, clock=it.clock)
        reload = reload_in(
            it.engines, routes, ring, launch=lambda one: lane_of(one, 0.0, 8100 + NAMES.index(one.id)).launch
        )
        run = Play(it=it, reload=reload, truth={name: one.truth for name, one in made.items()})
        for step in [("wait", 130.0), *steps]:
            await run.step(step)
        look(run)
        await reload.errands.end()
        assert it.bugs == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(FLEETS, st.lists(STEPS, min_size=4, max_size=10))
def test_no_sequence_starts_a_class_that_its_call_does_not_name(
    said: tuple[Said, ...], steps: list[tuple[object, ...]]
) -> None:
    """CAT-3, CAT-5, SYNC-6: no order of configs, holds, calls, steps, rows and crashes widens a class."""
    asyncio.run(play(said, steps, lambda _: None))


def test_a_named_class_does_start() -> None:
    """CAT-5: in the same play a call that names the class does start it: the property is not of nothing."""
    one = Said(
        entry=ServingClass.WEDGE_RISK, variant=None, config=None, resident=True, essential=True, ttl=0.0
    )
    started: list[str] = []

    def look(run: Play) -> None:
        started.extend(run.it.driver.started)

    step = ("start", "two", Cause.API, ServingClass.WEDGE_RISK)
    asyncio.run(play((one, one, one), [step], look))
    assert started == ["two"]
