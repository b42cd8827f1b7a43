"""The two-host example as it ships, with stand-in engines: three states, and the way between them."""

from __future__ import annotations

import json
import signal

import pytest

from tests.fakes.fake_engine import eventually
from tests.testbed.bed import Bed
from tests.testbed.box import Box
from tests.testbed.example import memory, stand_in
from tests.testbed.fault_line import over
from tests.testbed.sampler import running
from tests.testbed.window_bed import LONG_S, deadmen

pytestmark = pytest.mark.slow
STANDING = {"crow": ("embed", "voice-4b", "bots-35b", "small"), "raven": ("flash-next",)}


async def standing(it: Bed) -> None:
    """Return once every standing engine of the example serves."""
    for host, names in STANDING.items():
        for name in names:
            await it.boxes[host].is_state(name, "ready", patience_s=LONG_S)


async def opened(box: Box, mode: str, override: str, cap: str = "20m") -> str:
    """The id of a window in that mode, which is open."""
    told = await box.told("window", "open", mode, "--cap", cap, "--override", override, "--json")
    window = json.loads(told)["lease"]
    assert window["state"] == "active", window
    return str(window["id"])


@pytest.mark.parametrize("who", ["raven", "crow"])
async def test_a_daemon_is_killed_in_an_open_window(both: Bed, who: str) -> None:
    """WIN-1, WIN-4, MEM-1: at the cap the standing engines serve on both hosts, their daemons dead or not.

    They need more memory than the machine has that the bed runs on: the deadman goes by the bed's figures.
    """
    stand_in(both)
    heavy = both.part("modes")["heavy-glm"]
    assert isinstance(heavy, dict)
    heavy["drain_before"] = "1s"
    both.write()
    async with memory(both):
        await both.start()
        await standing(both)
        id_ = await opened(both.crow, "heavy-glm", "windowed", cap="40s")
        killed = both.boxes[who]
        await killed.end(signal.SIGKILL)
        up = {host: set(names) for host, names in STANDING.items()}
        await eventually(
            lambda: {host: running(box) for host, box in both.boxes.items()} == up,
            f"{up}\n{both.crow.words()}",
            patience_s=LONG_S,
        )
        report = killed.state / "windows" / id_ / "report.json"
        await eventually(report.exists, "its deadman has reported", patience_s=LONG_S)
        found = json.loads(report.read_text())
        assert (found["cause"], found["verified"], found["hold"]) == ("cap", True, "removed"), found
        await killed.start()
        ended = await over(both, id_)
        assert ended["state"] == "expired", ended
        await standing(both)
        assert (await both.crow.get(f"/v1/hostler/windows/{id_}/report"))["wrong"] == []
        assert [box.hold.exists() for box in both.boxes.values()] == [False, False]


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
