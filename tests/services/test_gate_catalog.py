"""The gate and the catalog: what an entry means for a start (CAT-7, CAT-8)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hostler.domain.catalog import Build
from hostler.domain.curation import Crossing, Curation, LinkSeen
from hostler.domain.errors import MemoryNever, MemoryNow, NotLaunchable, Refusal, TopologyRefused
from hostler.domain.fleet import Engine
from hostler.domain.gate_words import Result
from hostler.domain.values import Cause, EngineId, ServingClass
from tests.fakes.catalog import catalog
from tests.fakes.host import GIB
from tests.fakes.world import World, engine, world

A = EngineId("a")
LINK = Crossing(to="raven", interface="tb0", address="10.99.0.2", peer="10.99.0.1", port=50052)
REPORT = "version: 5900 (3f2a1c9)"


def curated(made: Engine, **more: object) -> Engine:
    """The engine with an entry; a test names what that says."""
    found = replace(Curation(entry="a#4k"), **more)  # type: ignore[arg-type]  # some of its fields
    return replace(made, entry="a#4k", curation=found)


async def refused(it: World, cause: Cause = Cause.REQUEST) -> Refusal:
    """What a start of `a` is told; nothing was started."""
    with pytest.raises(Refusal) as told:
        await it.wanted("a", cause)
    assert it.driver.started == []
    return told.value


async def test_a_measured_peak_is_the_need() -> None:
    """CAT-8, MEM-2: an engine without a claim needs its entry's measured peak, so residency may start it."""
    async with world(curated(engine("a", need=None), peak=30 * GIB)) as it:
        it.machine.sizes[A] = 30 * GIB
        assert it.gate.need(it.lane("a")) == {"host": 30 * GIB}
        await it.wanted("a", Cause.RESIDENCY)
        assert it.driver.started == ["a"]


async def test_a_claim_stands_over_the_measured_peak() -> None:
    """CAT-8, MEM-2: what the config claims of an engine stands over the peak of its entry."""
    async with world(curated(engine("a", need=20), peak=30 * GIB)) as it:
        assert it.gate.need(it.lane("a")) == {"host": 20 * GIB}


async def test_what_an_entry_wants_available_is_asked_for() -> None:
    """CAT-8: a host with less available than the entry's gate refuses the start, with its sum."""
    async with world(curated(engine("a", need=10), available=60 * GIB)) as it:
        it.machine.others = 70 * GIB
        told = await refused(it)
        assert isinstance(told, MemoryNow)
        assert "needs 52.0 GiB + 8.0 reserve; available 54.0" in told.arithmetic
        it.machine.others = 64 * GIB
        await it.up("a")


async def test_a_peak_above_the_host_is_never() -> None:
    """CAT-8, MEM-2: a measured peak that the host's total cannot carry is refused for good."""
    async with world(curated(engine("a", need=None), peak=120 * GIB)) as it:
        assert isinstance(await refused(it), MemoryNever)


async def test_a_context_is_within_the_entrys() -> None:
    """GATE-1, CAT-8: an engine whose context is above its variant's largest is not launchable."""
    async with world(curated(engine("a", context=8192), context_most=4096)) as it:
        told = await refused(it)
        assert isinstance(told, NotLaunchable)
        assert told.why == "its context of 8192 is above the model's 4096"


# ---------------------------------------------------------------- the build


@pytest.mark.parametrize("cause", [Cause.REQUEST, Cause.API, Cause.RESIDENCY])
async def test_the_wrong_build_is_not_launchable(cause: Cause) -> None:
    """GATE-1, CAT-8: a binary that reports another build is refused for good, under a hold too."""
    async with world(curated(engine("a"), build=Build(release=6000))) as it:
        it.machine.builds["serve"] = REPORT
        it.hold.write()
        told = await refused(it, cause)
        assert isinstance(told, NotLaunchable)
        assert told.why == "its build is 5900, and at least 6000 is needed"
        assert told.retry_after is None


async def test_the_right_build_starts() -> None:
    """CAT-8: a binary that reports the build its entry needs is started."""
    async with world(curated(engine("a"), build=Build(release=5900, commits=("3f2a1c9",)))) as it:
        it.machine.builds["serve"] = REPORT
        await it.up("a")


async def test_a_binary_that_is_mended_is_looked_at_again() -> None:
    """CAT-8: once another binary lies there, the start that was refused for its build goes through."""
    async with world(curated(engine("a"), build=Build(release=5900))) as it:
        it.machine.builds["serve"] = "version: 10 (aaaaaaa)"
        await refused(it)
        it.machine.builds["serve"] = REPORT
        await it.up("a")


async def test_a_binary_without_a_build_to_prove_is_not_asked() -> None:
    """CAT-8: a binary is asked for its build only where an entry needs one; a ready engine's never."""
    async with world(engine("a"), curated(engine("b"), build=Build(release=5900))) as it:
        it.machine.builds["serve"] = REPORT
        await it.up("a")
        assert it.machine.asked_builds == []
        await it.up("b")
        it.machine.asked_builds.clear()
        await it.wanted("b")
        assert it.machine.asked_builds == []


async def test_what_has_no_binary_of_ours_is_not_asked() -> None:
    """CAT-8: an engine without a command of ours has no binary to ask, and is not refused for it."""
    async with world(curated(engine("a", argv=()), build=Build(release=6000))) as it:
        await it.up("a")
        assert it.machine.asked_builds == []


# ---------------------------------------------------------------- the links


async def test_a_link_that_is_down_refuses() -> None:
    """GATE-1, CAT-8: a shape over two boxes whose link is down is refused `topology`, with a retry."""
    async with world(curated(engine("a"), crossings=(LINK,))) as it:
        it.machine.links["raven"] = LinkSeen(up=False, why="the kernel says down")
        told = await refused(it)
        assert isinstance(told, TopologyRefused)
        assert told.why == "the link tb0 to raven is down: the kernel says down"
        assert told.retry_after == 60
        del it.machine.links["raven"]
        await it.up("a")


async def test_a_shape_without_its_link_refuses() -> None:
    """CAT-8: a shape over two boxes on a host without a link to another is refused `topology`."""
    async with world(curated(engine("a"), crossings=None)) as it:
        assert isinstance(await refused(it), TopologyRefused)


async def test_no_link_is_probed_for_one_box() -> None:
    """CAT-8: an engine that runs on its host alone has no link probed for it."""
    async with world(curated(engine("a")), engine("b")) as it:
        await it.up("a", "b")
        assert "links" not in it.machine.reads


async def test_a_refused_topology_has_evicted_nothing() -> None:
    """GATE-1: a start whose link is down has stopped nobody, although somebody would have to make way."""
    async with world(engine("b", need=100), curated(engine("a", need=100), crossings=(LINK,))) as it:
        await it.up("b")
        it.machine.links["raven"] = LinkSeen(up=False)
        it.driver.started.clear()
        assert isinstance(await refused(it), TopologyRefused)
        assert it.driver.stopped == []


async def test_a_port_comes_before_the_links_and_memory_after() -> None:
    """GATE-1: of a taken port, a dead link and full memory the port is told, then the link."""
    async with world(curated(engine("a"), crossings=(LINK,))) as it:
        it.machine.links["raven"] = LinkSeen(up=False)
        it.machine.others = 120 * GIB
        it.driver.put_stranger(8100)
        assert (await refused(it)).code == "port_conflict"
        it.driver.strangers.clear()
        assert (await refused(it)).code == "topology"


# ---------------------------------------------------------------- what the catalog bars


def unknown(it: World) -> None:
    lost = catalog(known=False, trouble="/srv/c cannot be used")
    it.lanes.config.fleet = replace(it.lanes.config.fleet, catalog=lost)
    it.lane("a").engine = replace(it.lane("a").engine, entry="a#4k")


def strict(it: World) -> None:
    it.lanes.config.fleet = replace(it.lanes.config.fleet, uncurated="refuse")


@pytest.mark.parametrize(
    ("bar", "why"),
    [
        (unknown, "nobody knows what a#4k is: /srv/c cannot be used"),
        (strict, "it has no catalog entry, and policy.uncurated is refuse"),
    ],
)
@pytest.mark.parametrize("cause", list(Cause))
async def test_what_the_catalog_bars_never_starts(
    bar: Callable[[World], None], why: str, cause: Cause
) -> None:
    """CAT-7: an entry that nobody knows, and an uncurated engine under `refuse`, start for no cause."""
    async with world(engine("a")) as it:
        bar(it)
        ask = replace(it.ask("a", cause), override=ServingClass.WEDGE_RISK)
        with pytest.raises(NotLaunchable) as told:
            await it.starting.ensure_ready(it.lane("a"), ask, wait_s=60)
        assert told.value.why == why
        assert it.driver.started == []


async def test_the_uncurated_are_allowed_by_default() -> None:
    """CAT-7: without a policy an engine without an entry starts."""
    async with world(engine("a")) as it:
        await it.up("a")


# ---------------------------------------------------------------- why


async def test_why_says_what_the_links_and_the_build_are() -> None:
    """GATE-2, CAT-8: `why` asks the binary and probes the links, and says what each came to."""
    first = curated(engine("a"), crossings=(LINK,), build=Build(release=6000))
    async with world(first, engine("b")) as it:
        it.machine.builds["serve"] = REPORT
        it.machine.links["raven"] = LinkSeen(up=False)
        rows = {row.name: row for row in await it.engines.why("a", it.ask("a"))}
        assert rows["launchable"].text.startswith("a cannot be started here: its build is 5900")
        assert (rows["topology"].result, rows["topology"].code) == (Result.REFUSED, "topology")
        assert rows["topology"].text == "a is not started on crow: the link tb0 to raven is down."
        other = {row.name: row.text for row in await it.engines.why("b", it.ask("b"))}
        assert other["topology"] == "it runs on this host alone"
        del it.machine.links["raven"]
        again = {row.name: row.text for row in await it.engines.why("a", it.ask("a"))}
        assert again["topology"] == "the links that its shape goes over are as they must be"
