"""BG-05 with real engines: a request comes at every moment around an idle unload."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.story.house import House, house

pytestmark = pytest.mark.cases
TTL_S: Final = 2.0
OFFSETS_MS: Final = range(-50, 1250, 50)
HANGS_S: Final = 30.0
"""An answer that takes as long never comes: a stop and a load of these take about a second."""
LIVE: Final = ("starting", "ready", "draining", "stopping")


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[House]:
    """A house with the real llama-server, where there is a wheel of it."""
    async with house(tmp_path, real=True) as it:
        yield it


async def due(at: float) -> None:
    """Return at that second of the loop's clock: the moment is what is tried."""
    loop = asyncio.get_running_loop()
    come = loop.create_future()
    loop.call_at(at, come.set_result, None)
    await come


async def alone(it: House) -> None:
    """No more than one engine of the group has a process."""
    async with it.client() as client:
        rows = (await client.get("/v1/hostler/engines")).json()["engines"]
    live = [row["id"] for row in rows if row["state"] in LIVE]
    assert len(live) <= 1, live


async def test_a_request_at_every_moment_of_an_idle_unload(cases_dir: Path, real: House) -> None:
    """BG-05, ENG-10, ENG-3: at each offset it is served, so is the group's other model, and none hangs."""
    assert "-50 ms to +1200 ms" in (cases_dir / "bugs/BG-05.steps.txt").read_text()
    real.host = {"groups": {"swap": {"min_resident": "0s"}}}
    real.add("m", group="swap", ttl=f"{TTL_S:.0f}s")
    real.add("n", group="swap")
    await real.start()
    loop = asyncio.get_running_loop()
    for offset_ms in OFFSETS_MS:
        assert (await real.chat("m")).status_code == 200
        await due(loop.time() + TTL_S + offset_ms / 1000)
        async with asyncio.timeout(HANGS_S):
            assert (await real.chat("m")).status_code == 200, offset_ms
            await alone(real)
            for name in ("m", "n"):
                assert (await real.chat(name)).status_code == 200, (offset_ms, name)
                await alone(real)
    unloads = [line for line in real.said("engine_stopping") if "idle" in str(line["text"])]
    assert len(unloads) > len(OFFSETS_MS) // 2, "hardly any request met an unload"
