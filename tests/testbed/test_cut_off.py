"""A host cut off from its head: it keeps what is leased, and puts it back at the hard end (NODE-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.fake_engine import eventually
from tests.story.clocks import LIBRARIES, PACKAGE
from tests.testbed.bed import Bed
from tests.testbed.box import Box
from tests.testbed.telling import holder, lease_is, taken

pytestmark = pytest.mark.slow
LONG_S = 90.0


def found_library() -> Path | None:
    """What moves a daemon's wall clock."""
    return next(Path("/").glob(LIBRARIES), None)


async def warns(box: Box, *words: str) -> None:
    """Return once its status says that."""

    async def true() -> bool:
        said = await box.warnings()
        return all(word in said for word in words)

    await eventually(true, f"{box.name} says {words}\n{box.words()}", patience_s=LONG_S)


async def knows_its_end(box: Box) -> None:
    """Return once it knows the hard end of the one lease that it works for."""

    async def true() -> bool:
        kept = (await box.node(box.name))["leases"]
        assert isinstance(kept, list)
        return [it["hard_in_s"] is not None for it in kept] == [True]

    await eventually(true, box.words())


async def test_it_puts_back_at_the_hard_end_and_the_head_takes_that_over(both: Bed) -> None:
    """F15, NODE-4, LEASE-14: a node puts a lease back by itself; the head frees it and does nothing again."""
    resource = both.part("reservations")["resources"]
    assert isinstance(resource, dict)
    resource["raven_box"]["ttl"] = {"default": "45s", "max": "45s", "warn": []}
    resource["pair"]["ttl"] = {"default": "45s", "max": "45s", "warn": []}
    await both.ready()
    crow, raven = both.crow, both.raven
    async with crow.client() as client:
        anna, bert = (holder(crow, client, name) for name in ("anna", "bert"))
        await anna.active("raven_box", ttl_s=45.0)

        await knows_its_end(raven)
        both.cable.cut()
        await bert.reserve("raven_box", detached_s=3600.0)
        await warns(raven, f"lease {anna.id} (raven_box, anna) is put back here at", "resume raven-work")
        held = await crow.run("nodes")
        assert "away since" in held.out
        await raven.is_state("raven-work", "ready", patience_s=LONG_S)
        # The hold goes last: before it the engine was proven and the route went back.
        await eventually(lambda: not raven.hold.exists(), raven.words(), patience_s=LONG_S)
        assert await raven.said("far") == "I am raven-work."
        stuck = await lease_is(crow, anna.id, "stuck", patience_s=LONG_S)
        assert "The node of raven does not answer" in str(stuck["stuck"])
        assert await crow.profile("far") == "away"
        both.cable.heal()
        over = await lease_is(crow, anna.id, "expired", patience_s=LONG_S)
        assert over["state"] == "expired"
        await lease_is(crow, bert.id, "offered", "activating", "active")
    assert await crow.profile("far") == "local"
    assert len(await raven.events("engine_ready")) == 2
    assert len(await raven.events("lease_restored_here")) == 1


async def test_a_lease_without_an_end_is_kept(both: Bed) -> None:
    """NODE-4, LEASE-18: a node that is cut off keeps a lease without an end, and says so."""
    await both.ready()
    crow, raven = both.crow, both.raven
    lease = await taken(crow, "raven_box", "--indefinite")
    both.cable.cut()
    await warns(raven, f"lease {lease}", "is kept until the head is back")
    assert "is kept until the head is back" in await raven.told("nodes")
    assert (await raven.row("raven-work"))["state"] == "stopped"
    both.cable.heal()
    await crow.sees("raven", up=True, patience_s=LONG_S)
    await lease_is(crow, lease, "active")
    await crow.told("release", "raven_box")
    assert await raven.said("far") == "I am raven-work."


async def test_a_lease_that_is_abandoned_while_a_host_is_away(both: Bed) -> None:
    """LEASE-14, NODE-5: its command ends well while that host is away; what stays there is told, on both."""
    await both.ready()
    crow, raven = both.crow, both.raven
    lease = await taken(crow, "pair")
    both.cable.cut()
    await crow.run("release", lease)
    await lease_is(crow, lease, "stuck", patience_s=LONG_S)
    gone = await crow.run("release", lease, "--abandon", "--because", "raven is dead")
    assert (gone.code, "abandoned: raven is dead" in gone.out) == (0, True), gone
    assert lease not in (await crow.told("mine"))
    await eventually(lambda: not crow.hold.exists(), crow.words())

    async def left() -> bool:
        return any("was abandoned, and raven" in str(it) for it in await crow.events("lease_left_there"))

    await eventually(left, crow.words(), patience_s=LONG_S)
    both.cable.heal()
    await crow.sees("raven", up=True, patience_s=LONG_S)
    await warns(raven, f"is held by lease {lease}", "`hostler resume raven-work` there lets it start")


async def test_a_wall_clock_that_is_a_day_off(both: Bed) -> None:
    """F18, LEASE-21: a node whose wall clock is a day ahead keeps the same times; its skew is shown."""
    library = found_library()
    if library is None:
        pytest.skip(PACKAGE)
    crow, raven = both.crow, both.raven
    raven.around |= {
        "LD_PRELOAD": str(library),
        "FAKETIME": "+1d",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    await both.ready()
    await raven.is_state("raven-work", "ready")
    row = await crow.node("raven")
    assert isinstance(row["skew_s"], float)
    assert abs(row["skew_s"] - 86_400.0) < 60.0
    assert "24 h ahead" in await crow.told("nodes")
    assert "its wall clock is +" in await crow.warnings()
    lease = await taken(crow, "raven_box")
    kept = (await raven.node("raven"))["leases"]
    assert isinstance(kept, list)
    assert [3000.0 < it["hard_in_s"] <= 3600.0 for it in kept] == [True]
    assert (await raven.row("raven-work"))["suspended_by"] == [lease]
    await crow.told("release", "raven_box")
    assert await crow.said("far") == "I am raven-work."


async def test_both_want_to_put_it_back_at_once(both: Bed) -> None:
    """F16: the node is at it when the head is back for the same: one does it, the engine starts once."""
    resource = both.part("reservations")["resources"]
    assert isinstance(resource, dict)
    resource["raven_box"]["ttl"] = {"default": "40s", "max": "40s", "warn": []}
    resource["pair"]["ttl"] = {"default": "40s", "max": "40s", "warn": []}
    gate, pids = both.root / "gate", both.root / "pids"
    gate.touch()
    more = ("--fake", f"load-until={gate}", "--fake", f"pids={pids}")
    both.engine("raven-work", "raven", 8101, *more, resident=True, stop_timeout="2s", start_timeout="120s")
    await both.ready()
    crow, raven = both.crow, both.raven
    async with crow.client() as client:
        anna = holder(crow, client, "anna")
        await anna.active("raven_box", ttl_s=40.0)
        gate.unlink()
        await knows_its_end(raven)
        both.cable.cut()
        await raven.is_state("raven-work", "starting", patience_s=LONG_S)
        await lease_is(crow, anna.id, "releasing", "stuck", patience_s=LONG_S)
        both.cable.heal()
        await crow.sees("raven", up=True, patience_s=LONG_S)
        gate.touch()
        over = await lease_is(crow, anna.id, "expired", patience_s=LONG_S)
    assert over["state"] == "expired"
    await raven.is_state("raven-work", "ready")
    assert len(pids.read_text().splitlines()) == 2
    assert len(await raven.events("lease_restored_here")) == 1
    assert await crow.said("far") == "I am raven-work."
