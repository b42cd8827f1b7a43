"""Windows over two hosts: real daemons, real deadmen, one cable."""

from __future__ import annotations

import json

import pytest

from tests.fakes.fake_engine import eventually
from tests.testbed.bed import Bed
from tests.testbed.telling import lease_is
from tests.testbed.window_bed import LONG_S, as_before, deadmen, hold, modes, opened, standing

pytestmark = pytest.mark.slow


async def test_standard_to_heavy_and_back_on_both(both: Bed) -> None:
    """MODE-2, WIN-1, WIN-4, WIN-5: both boxes are evicted for one pair of engines, then all is as before."""
    modes(both)
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    window = await opened(both, "--cap", "5m")
    for box in (crow, raven):
        record = hold(box)
        assert record is not None
        assert record["lease"] == window["id"]
        assert await deadmen(box) == [(window["id"], True)]
    assert [await box.said("big") for box in (crow, raven)] == ["I am giant."] * 2
    await crow.is_state("worker", "ready")
    for box, names in ((crow, ("crow-work", "crow-spare")), (raven, ("raven-work",))):
        for name in names:
            assert (await box.row(name))["state"] == "stopped"
    assert "the fleet is in heavy" in await crow.told("mode")
    closed = json.loads(await crow.told("window", "close", "--json"))["lease"]
    assert (closed["state"], closed["why"]) == ("released", "it was released: closed")
    await as_before(both)
    assert [await box.said("big") for box in (crow, raven)] == ["I am raven-work."] * 2
    report = json.loads(await crow.told("window", "report", "--json"))
    assert {(row["host"], row["engine"], row["up"], row["verified"]) for row in report["engines"]} == {
        ("crow", "crow-work", True, True),
        ("crow", "crow-spare", True, True),
        ("raven", "raven-work", True, True),
    }
    assert report["wrong"] == []
    assert "the fleet is in standard" in await crow.told("mode")


async def test_a_second_strike_on_the_other_host_aborts(both: Bed) -> None:
    """WIN-6: what comes up against the window on a host that is not the head is stopped, then it ends."""
    modes(both)
    await both.start()
    await standing(both)
    crow, raven = both.crow, both.raven
    window = str((await opened(both, "--cap", "5m"))["id"])
    await raven.run("start", "raven-work", "--lease", window)

    async def struck() -> bool:
        strikes = json.loads(await crow.told("window", "report", "--json"))["strikes"]
        assert len(strikes) < 2
        return [str(it).partition(",")[0] for it in strikes] == ["raven-work came up"]

    await eventually(struck, f"strike one\n{crow.words()}\n{raven.words()}", patience_s=LONG_S)
    await raven.is_state("raven-work", "stopped")
    await raven.run("start", "raven-work", "--lease", window)
    over = await lease_is(crow, window, "cancelled", "stuck", patience_s=LONG_S)
    assert "aborted: raven-work came up" in str(over["why"]), over
    await as_before(both)
