import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from hostler.domain.errors import (
    BoxReserved,
    MemoryNever,
    MemoryNow,
    NotLaunchable,
    OrchestrationDisabled,
    PortConflict,
    Refusal,
    ServingClassRefused,
    Suspended,
)
from hostler.domain.fleet import DriverKind
from hostler.domain.gate_words import Result
from hostler.domain.values import RESIDENCY, Cause, EngineId, ServingClass
from tests.fakes.clock import settle
from tests.fakes.host import GIB
from tests.fakes.world import BOT, World, engine, group, join, world

A, B = EngineId("a"), EngineId("b")


async def test_the_hot_path_reads_nothing() -> None:
    """GATE-1: a request for a ready engine reads no hold, no memory, no port and no disk."""
    async with world(engine("a", files=("m.gguf",))) as it:
        await it.up("a")
        it.machine.reads.clear()
        before = it.hold.reads
        for _ in range(100):
            await it.starting.ensure_ready(it.lane("a"), it.ask("a"), wait_s=10)
        assert (it.machine.reads, it.hold.reads) == ({}, before)


async def test_an_engine_that_runs_passes_under_a_hold() -> None:
    """GATE-1: an engine that runs already as itself is served under any hold, suspended or not."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.hold.write()
        await it.wanted("a")
        assert it.events.of("start_refused") == []


def suspended(it: World) -> None:
    it.lane("a").suspended_by = ("person:bot",)


def held(it: World) -> None:
    it.hold.write()


def stranger(it: World) -> None:
    it.driver.put_stranger(8100)


def full(it: World) -> None:
    it.machine.others = 120 * GIB


def gone(it: World) -> None:
    it.machine.missing.add("m.gguf")


def no_program(it: World) -> None:
    it.machine.missing.add("serve")


def too_big(it: World) -> None:
    it.machine.total = 11 * GIB


async def test_a_containers_words_are_no_program() -> None:
    """GATE-1: the first word after a container's image is an argument, and no program that must be there."""
    async with world(engine("a", driver=DriverKind.CONTAINER)) as it:
        object.__setattr__(it.lane("a").launch, "argv", ("-m", "/models/x.gguf"))
        it.machine.missing.add("-m")
        checks = it.gate.explain(it.ask("a"))
        launchable = next(check for check in checks if check.name == "launchable")
        assert launchable.result is not Result.REFUSED, launchable.text


ORDER: list[tuple[Callable[[World], None], str]] = [
    (full, "memory_now"),
    (stranger, "port_conflict"),
    (held, "box_reserved"),
    (suspended, "suspended"),
    (too_big, "memory_never"),
    (no_program, "not_launchable"),
]


async def test_a_permanent_refusal_is_never_told_as_a_temporary_one() -> None:
    """GATE-1: each check, from the last to the first, takes over from those after it."""
    async with world(engine("a", files=("m.gguf",))) as it:
        for spoil, code in ORDER:
            spoil(it)
            with pytest.raises(Refusal) as told:
                await it.wanted("a")
            assert told.value.code == code
        assert (it.driver.started, it.driver.stopped) == ([], [])


@pytest.mark.parametrize("spoil", [None, full, stranger, held, suspended, gone, too_big])
@pytest.mark.parametrize("cause", [Cause.REQUEST, Cause.RESIDENCY])
async def test_why_says_what_a_start_would_be_told(
    spoil: Callable[[World], None] | None, cause: Cause
) -> None:
    """GATE-2: the first refused check of `why` is the refusal that a start gets; why starts nothing."""
    async with world(engine("a", files=("m.gguf",))) as it:
        if spoil is not None:
            spoil(it)
        rows = await it.engines.why("a", it.ask("a", cause))
        assert it.driver.started == []
        first = next((row for row in rows if row.result is Result.REFUSED), None)
        try:
            it.gate.decide(it.ask("a", cause))
            code, text = None, None
        except Refusal as refusal:
            code, text = refusal.code, str(refusal)
        assert (first.code if first else None, first.text if first else None) == (code, text)
        assert [row.name for row in rows] == [
            "known",
            "running",
            "serving_class",
            "launchable",
            "suspended",
            "hold",
            "leased",
            "fence",
            "window",
            "port",
            "topology",
            "memory",
            "members",
        ]


async def test_why_shows_every_sum() -> None:
    """GATE-2: `why` goes on past a refusal: below the hold stand the sum of the memory and who would go."""
    async with world(
        engine("a", group="big", need=80), engine("b", group="big", need=80), groups=[group()]
    ) as it:
        await it.up("a")
        it.hold.write()
        rows = {row.name: row for row in await it.engines.why("b", it.ask("b"))}
        assert rows["hold"].code == "box_reserved"
        assert rows["memory"].result is Result.PASSED
        assert "needs 80.0 GiB + 8.0 reserve; available 44.0" in rows["memory"].text
        assert rows["memory"].text.endswith("would stop a")


@pytest.mark.parametrize("disabled", [None, "HOSTLER_DISABLE_ORCHESTRATION=1"])
async def test_orchestration_off_starts_nothing(disabled: str | None) -> None:
    """GATE-4: off in the config or by the environment, nothing is started, and the refusal says by what."""
    async with world(engine("a", resident=True), orchestration=disabled is not None) as base:
        it = join(base.fleet, base.clock, base.driver, base.machine, base.hold, base.files, disabled=disabled)
        for cause in Cause:
            with pytest.raises(OrchestrationDisabled, match=disabled or "orchestration: false in the config"):
                await it.wanted("a", cause)
        await it.ticks(200)
        assert it.driver.started == []


async def test_orchestration_off_still_consumes() -> None:
    """GATE-4: with orchestration off, an engine that another daemon started is used as long as it runs."""
    async with world(engine("a", ttl_s=5.0, resident=True)) as base:
        it = join(base.fleet, base.clock, base.driver, base.machine, base.hold, base.files, disabled="off")
        await it.ticks(2)
        await base.up("a")
        await it.ticks(12)
        await it.wanted("a")
        it.leave(it.enter("a"))
        it.driver.freeze(A)
        await it.ticks(50)
        assert not it.lane("a").ready
        it.driver.thaw(A)
        await it.ticks(12)
        assert it.lane("a").ready
        assert (it.driver.started, it.driver.stopped, it.bugs) == (["a"], [], [])


@pytest.mark.parametrize("cause", list(Cause))
@pytest.mark.parametrize("override", [None, *ServingClass])
async def test_a_class_is_lifted_only_by_its_name(cause: Cause, override: ServingClass | None) -> None:
    """CAT-5: a wedge-risk engine starts only for the API or a plan whose call names exactly that class."""
    async with world(engine("a", serving_class=ServingClass.WEDGE_RISK)) as it:
        ask = replace(it.ask("a", cause), override=override)
        may = cause in (Cause.API, Cause.STEP) and override is ServingClass.WEDGE_RISK
        start = it.starting.ensure_ready(it.lane("a"), ask, wait_s=60)
        if may:
            await start
        else:
            with pytest.raises(ServingClassRefused) as told:
                await start
            assert told.value.retry_after is None
        assert it.lane("a").ready is may


async def test_a_lifted_class_joins_nobody_elses_start() -> None:
    """CAT-5: a chat that comes while an operator's start of a wedge-risk engine waits is refused."""
    async with world(engine("a"), engine("w", serving_class=ServingClass.WEDGE_RISK)) as it:
        it.driver.load_s[A] = 10
        first = it.wanted("a")
        await settle()
        ask = replace(it.ask("w", Cause.API), override=ServingClass.WEDGE_RISK)
        operator = asyncio.ensure_future(it.starting.ensure_ready(it.lane("w"), ask, wait_s=60))
        await settle()
        with pytest.raises(ServingClassRefused):
            await it.wanted("w")
        await it.clock.advance(20)
        await asyncio.gather(first, operator)


async def test_the_sum_in_a_refusal() -> None:
    """MEM-2: a refusal carries the sum: need, reserve, what is available, and who holds how much of what."""
    async with world(engine("flash-next", need=106.3, essential=True), engine("b", need=92.6)) as it:
        await it.up("flash-next")
        with pytest.raises(MemoryNow) as told:
            await it.wanted("b")
        assert told.value.arithmetic == (
            "needs 92.6 GiB + 8.0 reserve; available 17.7; flash-next holds 106.3 of 124.0"
        )
        assert told.value.retry_after == 60
        it.machine.total = 100 * GIB
        with pytest.raises(MemoryNever) as never:
            await it.wanted("b")
        assert never.value.retry_after is None


async def test_the_need_is_the_larger_of_claim_and_measure() -> None:
    """MEM-2: an engine that took more than it claims needs what it took from then on."""
    async with world(engine("a", need=10)) as it:
        it.machine.sizes[A] = 60 * GIB
        await it.up("a")
        await it.engines.stop("a", BOT)
        it.machine.others = 60 * GIB
        with pytest.raises(MemoryNow, match=r"needs 60\.0 GiB"):
            await it.wanted("a")


@pytest.mark.parametrize("cause", list(Cause))
async def test_an_unknown_need_is_started_by_name_only(cause: Cause) -> None:
    """MEM-2: an unmeasured engine starts for a request, an acquire or the API, for no timer or plan."""
    async with world(engine("new", need=None)) as it:
        it.machine.sizes[EngineId("new")] = 7 * GIB
        if cause in (Cause.REQUEST, Cause.ACQUIRE, Cause.API):
            await it.wanted("new", cause)
            assert it.gate.need(it.lane("new")) == {"host": 7 * GIB}
            return
        with pytest.raises(MemoryNow, match="what it needs is not known"):
            await it.wanted("new", cause)


async def test_an_unmeasured_engine_loads_alone() -> None:
    """MEM-2: while an engine loads whose need nobody knows, `why` of another says so, and it waits."""
    async with world(engine("new", need=None), engine("b")) as it:
        it.driver.load_s[EngineId("new")] = 20
        first = it.wanted("new")
        await it.clock.advance(5)
        second = it.wanted("b")
        await it.clock.advance(5)
        memory = (await it.engines.why("b", it.ask("b")))[-2]
        assert memory.text == (
            "b does not fit on crow now: new loads for the first time, and is measured alone."
        )
        assert it.driver.started == ["new"]
        await it.clock.advance(20)
        await asyncio.gather(first, second)
        assert it.driver.started == ["new", "b"]


async def test_a_sibling_that_makes_way_may_have_the_port() -> None:
    """GATE-1: a port that is held by an engine which makes way first refuses nothing."""
    async with world(
        engine("a", group="big", port=9000), engine("b", group="big", port=9000), groups=[group()]
    ) as it:
        await it.up("a")
        await it.clock.advance(2)
        await it.wanted("b")
        assert it.driver.up() == {"b"}


async def test_our_own_leftover_on_the_port_is_no_stranger() -> None:
    """ENG-4: what a failed stop of this very engine left on its port is ended first, and is no conflict."""
    async with world(engine("a")) as it:
        await it.up("a")
        it.driver.deaf.add(A)
        with pytest.raises(Refusal):
            await it.engines.stop("a", BOT)
        it.driver.deaf.clear()
        await it.clock.advance(30)
        await it.wanted("a")
        assert it.driver.started == ["a", "a"]


async def test_a_refused_start_leaves_even_our_leftover() -> None:
    """GATE-1: a start that a hold refuses has stopped nothing, not even what a failed stop left."""
    async with world(engine("a"), engine("b")) as it:
        await it.up("a")
        it.driver.deaf.add(A)
        with pytest.raises(Refusal):
            await it.engines.stop("a", BOT)
        it.driver.deaf.clear()
        it.driver.stopped.clear()
        it.driver.load_s[B] = 10
        first = it.wanted("b")
        await it.clock.advance(5)
        it.lane("a").cleared = True
        caller = it.wanted("a")
        await settle()
        it.hold.write()
        await it.clock.advance(30)
        await first
        with pytest.raises(BoxReserved):
            await caller
        assert it.driver.stopped == []


# ---------------------------------------------------------------- what is told


async def test_a_refused_start_says_who_asked() -> None:
    """HOLD-14: every refused start is an event with the requester's tag, the route and the cause."""
    async with world(engine("a")) as it:
        it.hold.write()
        for _ in range(2):
            with pytest.raises(BoxReserved):
                await it.wanted("a")
        told = it.events.of("start_refused")
        assert len(told) == 2
        assert told[0].actor == "10.99.0.7 ua=bot/1 client=bot"
        assert told[0].facts == {"cause": "request", "route": "chat"}
        assert (told[0].after, told[0].subject) == ("box_reserved", {"engine": "a", "host": "crow"})


async def test_a_timers_refusals_are_told_once_per_hold_and_subject() -> None:
    """HOLD-15: a timer that a hold refuses again and again is told once for each engine and hold."""
    async with world(engine("a", resident=True), engine("b", resident=True, order=1)) as it:
        it.hold.write("one")
        await it.ticks(400)
        assert [event.subject["engine"] for event in it.events.of("deferred")] == ["b", "a"]
        assert it.events.last("deferred").actor == RESIDENCY.tag()
        it.hold.write("two")
        await it.ticks(300)
        assert len(it.events.of("deferred")) == 4


async def test_what_was_told_is_bounded() -> None:
    """REL-1: what the gate remembers of deferrals does not grow with the number of holds."""
    async with world(engine("a", resident=True)) as it:
        for number in range(300):
            it.hold.write(f"owner-{number}")
            await it.ticks(1)
        assert len(it.gate.deferred) == 1
        assert len(it.holds.seen.opened) <= 100


async def test_the_order_of_the_codes() -> None:
    """GATE-1: a suspended engine is told so under a hold; a conflict of ports waits behind the hold."""
    async with world(engine("a")) as it:
        suspended(it)
        held(it)
        stranger(it)
        with pytest.raises(Suspended):
            await it.wanted("a")
        it.lane("a").suspended_by = ()
        with pytest.raises(BoxReserved):
            await it.wanted("a")
        it.hold.remove()
        with pytest.raises(PortConflict):
            await it.wanted("a")


@pytest.mark.parametrize(
    ("change", "why"),
    [({"enabled": False}, "switched off"), ({"host": "raven"}, "an engine of raven")],
)
async def test_what_is_not_ours_to_start(change: dict[str, object], why: str) -> None:
    """GATE-1: an engine that is switched off, or another host's, is `not_launchable`."""
    async with world(engine("a")) as it:
        it.lane("a").engine = replace(it.lane("a").engine, **change)  # type: ignore[arg-type]  # see above
        with pytest.raises(NotLaunchable, match=why):
            await it.wanted("a")
