"""The two-host example as it ships, with stand-in engines: three states, and the way between them."""

from __future__ import annotations

import json

import pytest

from tests.testbed.bed import Bed
from tests.testbed.box import Box
from tests.testbed.example import memory, stand_in
from tests.testbed.window_bed import LONG_S, deadmen

pytestmark = pytest.mark.slow
STANDING = {"crow": ("embed", "voice-4b", "bots-35b", "small"), "raven": ("flash-next",)}


async def standing(it: Bed) -> None:
    """Return once every standing engine of the example serves."""
    for host, names in STANDING.items():
        for name in names:
            await it.boxes[host].is_state(name, "ready", patience_s=LONG_S)


async def opened(box: Box, mode: str, override: str) -> str:
    """The id of a window in that mode, which is open."""
    told = await box.told("window", "open", mode, "--cap", "20m", "--override", override, "--json")
    window = json.loads(told)["lease"]
    assert window["state"] == "active", window
    return str(window["id"])


async def test_three_states_and_the_way_between_them(both: Bed) -> None:
    """MODE-1, MODE-2, ENG-11, CAT-5: standard, both heavy modes with their classes, and back each time."""
    stand_in(both)
    both.write()
    async with memory(both):
        await both.start()
        await standing(both)
        crow, raven = both.crow, both.raven
        assert "the fleet is in standard" in await crow.told("mode")
        plan = await crow.told("mode", "plan", "heavy-glm")
        assert "crow: embed 1.2 + glm-worker 74.0 = 75.2 GiB of 124.0" in plan
        assert "raven: glm-master 78.0 = 78.0 GiB of 124.0" in plan
        for override in ("windowed", None):
            more = () if override is None else ("--override", override)
            refused = await crow.run("window", "open", "heavy-dsv4", "--cap", "20m", *more)
            assert refused.code == 77, refused.err
            assert "wedge-risk" in refused.err
        for mode, model, override in (
            ("heavy-glm", "glm-5.3-flash", "windowed"),
            ("heavy-dsv4", "deepseek-v4-flash", "wedge-risk"),
        ):
            await opened(crow, mode, override)
            assert f"the fleet is in {mode}" in await crow.told("mode")
            master = "glm-master" if mode == "heavy-glm" else "ds-master"
            assert [await box.said(model) for box in (crow, raven)] == [f"I am {master}."] * 2
            assert (await crow.row("embed"))["state"] == "ready"
            assert (await crow.row("bots-35b"))["state"] == "stopped"
            assert (await raven.row("flash-next"))["state"] == "stopped"
            await crow.told("window", "close")
            await standing(both)
            assert [await deadmen(box) for box in (crow, raven)] == [[], []]
            assert not crow.hold.exists()
            assert not raven.hold.exists()
        assert "the fleet is in standard" in await crow.told("mode")
