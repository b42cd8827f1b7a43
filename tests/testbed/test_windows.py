"""Windows over two hosts: real daemons, real deadmen, one cable."""

from __future__ import annotations

import json

import pytest

from tests.testbed.bed import Bed
from tests.testbed.window_bed import as_before, deadmen, hold, modes, opened, standing

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
