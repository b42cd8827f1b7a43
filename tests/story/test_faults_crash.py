"""The daemon is killed at exact moments: between intent and effect, effect and record, two undos.

The moments are exact because the steps are commands that wait at a gate (`lease_house.Gates`).
"""

from __future__ import annotations

import signal

import pytest

from tests.story.house import House, Json
from tests.story.lease_house import Gates, Holder, code, events, gates, holders, lease_is


async def cut(it: House, box: Gates, gate: str) -> None:
    """Kill the daemon while a step waits at the gate, end the script that it left, and start it again."""
    await box.reached(gate)
    await it.end(signal.SIGKILL)
    await box.end(gate)
    await it.start()


async def is_stuck(it: House, box: Gates, anna: Holder, *effects: str) -> None:
    """The lease is stuck by the restart, nothing was replayed, and nobody else gets the box."""
    stuck = await lease_is(it, anna.id, "stuck")
    assert "restart" in str(stuck["why"])
    anna.last = stuck
    async with holders(it, "bert") as (bert,):
        assert code(await bert.reserve(now=True)) == (409, "held")
    assert box.effects == list(effects)


async def released(it: House, anna: Holder) -> Json:
    """Anna's lease once one more release has ended it; then the box is free."""
    await anna.do("release")
    over = await lease_is(it, anna.id, "released", "failed", "stuck")
    async with holders(it, "bert") as (bert,):
        bert.last = {}
        assert (await bert.reserve(now=True)).status_code == 200, over
        await bert.do("cancel")
    return over


async def notes(it: House, kind: str) -> list[str]:
    """What the log says of each step of that kind, in order."""
    return [str(row["message"]) for row in await events(it, kind)]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(True, id="seen by a check"),
        pytest.param(False, id="seen by its exit code", marks=pytest.mark.slow),
    ],
)
async def test_a_kill_after_the_intent_and_before_the_effect(fake: House, *, check: bool) -> None:
    """LEASE-10, LEASE-14, R17, R33, R35, F06: stuck, nothing replayed; a step seen not done is not undone."""
    box = gates(fake, "one", "two", check=check)
    await fake.start()
    box.shut("before-do-two")
    async with holders(fake, "anna") as (anna,):
        await anna.reserve()
        await cut(fake, box, "before-do-two")
        await is_stuck(fake, box, anna, "do one")
        assert (await released(fake, anna))["state"] == "failed"
    undone = ["undo one"] if check else ["undo two", "undo one"]
    assert box.effects[: 1 + len(undone)] == ["do one", *undone]
    if check:
        assert any("not done (observed)" in note for note in await notes(fake, "step_undone"))


async def test_a_kill_after_the_effect_and_before_its_record(fake: House) -> None:
    """LEASE-10, LEASE-14, NODE-3, F07: stuck; the release sees that it was done, says so, and undoes it."""
    box = gates(fake, "one", "two")
    await fake.start()
    box.shut("after-do-two")
    async with holders(fake, "anna") as (anna,):
        await anna.reserve()
        await cut(fake, box, "after-do-two")
        await is_stuck(fake, box, anna, "do one", "do two")
        assert (await released(fake, anna))["state"] == "failed"
    assert box.effects[:4] == ["do one", "do two", "undo two", "undo one"]
    assert any("done (observed)" in note for note in await notes(fake, "step_done"))


async def test_a_kill_between_two_undos(fake: House) -> None:
    """LEASE-14, R26, R33, F08: held throughout; the release goes on where it was, nothing is undone twice."""
    box = gates(fake, "one", "two", "three")
    await fake.start()
    async with holders(fake, "anna") as (anna,):
        await anna.active()
        box.shut("before-check-two")
        await anna.do("release")
        await cut(fake, box, "before-check-two")
        await is_stuck(fake, box, anna, "do one", "do two", "do three", "undo three")
        assert (await released(fake, anna))["state"] == "released"
    assert box.effects[3:6] == ["undo three", "undo two", "undo one"]


@pytest.mark.slow
async def test_a_kill_after_an_undo_and_before_its_record(fake: House) -> None:
    """LEASE-14, R33, F08: an undo that is seen to be back is recorded, and not done a second time."""
    box = gates(fake, "one", "two")
    await fake.start()
    async with holders(fake, "anna") as (anna,):
        await anna.active()
        box.shut("after-undo-two")
        await anna.do("release")
        await cut(fake, box, "after-undo-two")
        await is_stuck(fake, box, anna, "do one", "do two", "undo two")
        await released(fake, anna)
    assert box.effects[2:4] == ["undo two", "undo one"]
    assert any("back already (observed)" in note for note in await notes(fake, "step_undone"))


@pytest.mark.slow
async def test_two_kills_and_no_time_free_nothing(fake: House) -> None:
    """LEASE-14, R32, R35: stuck outlives restarts, and a release that is killed leaves it stuck again."""
    box = gates(fake, "one", "two")
    await fake.start()
    box.shut("after-do-two")
    async with holders(fake, "anna") as (anna,):
        await anna.reserve()
        await cut(fake, box, "after-do-two")
        await fake.end(signal.SIGKILL)
        await fake.start()
        await is_stuck(fake, box, anna, "do one", "do two")
        box.shut("before-undo-two")
        await anna.do("release")
        await cut(fake, box, "before-undo-two")
        await is_stuck(fake, box, anna, "do one", "do two")
        await released(fake, anna)
    assert box.effects[2:4] == ["undo two", "undo one"]


async def test_a_release_that_is_repeated(fake: House) -> None:
    """LEASE-16, R38, F04: a second release is answered as the first; an old one leaves the next lease."""
    box = gates(fake, "one")
    await fake.start()
    async with holders(fake, "anna", "bert") as (anna, bert):
        await anna.active()
        first = (await anna.do("release", wait_s=20.0)).json()["lease"]
        again = (await anna.do("release", wait_s=20.0)).json()["lease"]
        assert (first["state"], first["generation"]) == ("released", again["generation"])
        assert again["state"] == "released"
        await bert.active()
        assert bert.last["generation"] > first["generation"]
        late = await anna.do("release", wait_s=20.0)
        assert code(late) == (409, "stale_generation")
        assert "bert" in late.text
        assert (await lease_is(fake, bert.id, "active"))["generation"] == bert.last["generation"]
    assert box.effects == ["do one", "undo one", "do one"]


async def test_a_reply_that_is_lost(fake: House) -> None:
    """LEASE-9, R23, F02: the same request is the same lease, also after a kill; another body is refused."""
    gates(fake, "one")
    await fake.start()
    async with holders(fake, "anna", "bert") as (anna, bert):
        await anna.active(ttl_s=600.0)
        first = dict(anna.last)
        await fake.end(signal.SIGKILL)
        await fake.start()
        again = (await anna.reserve(ttl_s=600.0)).json()["lease"]
        assert (again["id"], again["generation"]) == (first["id"], first["generation"])
        assert code(await anna.reserve(ttl_s=601.0)) == (409, "idempotency_conflict")
        assert (await anna.do("renew")).status_code == 200
        await bert.reserve()
        await bert.reserve()
        assert bert.last["place"] == 1
