"""Engines that come back badly: no traffic returns to them before they serve, three times and really."""

from __future__ import annotations

import httpx2
import pytest

from tests.fakes.fake_engine import eventually
from tests.story.house import House, Json
from tests.story.lease_house import begun, events, furnish, lease_is, taken

ROW = 3
"""So many looks in a row prove it (LEASE-13)."""


async def asked(port: int) -> list[Json]:
    """What a fake engine was asked since it was started, none when it does not listen."""
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as engine:
            found: list[Json] = (await engine.get("/fake/requests")).json()
    except httpx2.HTTPError:
        return []
    return found


async def looks(port: int, path: str, count: int) -> None:
    """Return once the engine was asked that so often."""

    async def true() -> bool:
        return sum(row["path"] == path for row in await asked(port)) >= count

    await eventually(true, f"{count} times {path}", patience_s=60)


async def away(it: House, lease: str) -> None:
    """The lease is being put back still, and its route leads to the other engine."""
    assert (await it.chat("chat")).headers["x-hostler-served-by"] == "spare"
    await lease_is(it, lease, "releasing")


async def test_an_engine_that_flaps_gets_no_traffic(fake: House) -> None:
    """LEASE-13, R27, R28, F11: healthy once is not enough, nor is health without a completion."""
    flapping, broken = fake.root / "flapping", fake.root / "broken"
    furnish(fake, f"flaps={flapping}", f"broken={broken}")
    await begun(fake)
    lease = await taken(fake)
    flapping.touch()
    await fake.told("release", lease, "--no-wait")
    port = fake.engines["work"]["port"]
    assert isinstance(port, int)
    await looks(port, "/health", ROW + 2)
    await away(fake, lease)
    broken.touch()
    flapping.unlink()
    await looks(port, "/v1/chat/completions", 1)
    await away(fake, lease)
    broken.unlink()
    await lease_is(fake, lease, "released")
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "work"
    rows = [row["path"] for row in await asked(port)]
    assert rows.index("/v1/chat/completions") > ROW


@pytest.mark.slow
async def test_an_engine_that_never_comes_back(fake: House) -> None:
    """LEASE-14, R31, R40, F10: one notice names the failing step, and only the undo that is left is done."""
    ready = fake.root / "ready"
    ready.touch()
    furnish(fake, f"load-until={ready}")
    await begun(fake)
    lease = await taken(fake)
    ready.unlink()
    assert (await fake.run("release", lease)).code == 73
    stuck = await lease_is(fake, lease, "stuck")
    assert isinstance(stuck["stuck"], dict)
    assert "work" in str(stuck["stuck"]["step"])
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "spare"
    assert len(await events(fake, "lease_stuck")) == 1
    before = [row["facts"] for row in await events(fake, "step_undone")]
    ready.touch()
    await fake.told("release", lease)
    after = [row["facts"] for row in await events(fake, "step_undone")]
    assert after[: len(before)] == before
    numbers = [facts["n"] for facts in after if isinstance(facts, dict)]
    assert len(numbers) == len(set(numbers)), "no step is undone twice"
    assert numbers == sorted(numbers, reverse=True)
