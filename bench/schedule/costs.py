"""PERF-9, the second half: what one operation costs with ever more jobs, in this process on the real store.

Costs are of the whole process in CPU time, so that the disk and other programs do not count. Work is given
in batches that share a commit, as it is under load.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.schedule.place import Head, gathered, head, names
from hostler.wire.values import dump

SIZES: Final = (100, 1_000, 10_000, 100_000)
LEASES: Final = 1_000
BATCH: Final = 64
ROUNDS: Final = 16
WARM: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU in ms of one job update, of one reserve and release, of a snapshot as bytes.

    `tick_ms`: of the keeper's look when nothing is new; `busy_tick_ms`: when some lease has changed.
    """

    jobs: int
    beat_ms: float
    pair_ms: float
    tick_ms: float
    busy_tick_ms: float
    snapshot_ms: float


async def cost(root: Path, jobs: int) -> Cost:
    """The costs beside so many jobs and `LEASES` leases."""
    free = names(LEASES + BATCH)[LEASES:]
    async with head(root, LEASES + BATCH, keeper=False) as it:
        ids = await it.seed(min(LEASES, jobs), jobs)
        if jobs < LEASES:
            await gathered([it.reserve(name) for name in names(LEASES)[jobs:]])
        chosen = [ids[(place * 7919) % len(ids)] for place in range(BATCH * (ROUNDS + WARM))]
        return Cost(
            jobs=jobs,
            beat_ms=await _spent(lambda part: it.beat(chosen[part])),
            pair_ms=await _spent(lambda part: _pair(it, free[part % BATCH])),
            tick_ms=await _once(it.parts.keeper.tick, 50),
            busy_tick_ms=await _once(lambda: _busy_tick(it), 20),
            snapshot_ms=await _once(lambda: _snapshot(it), 5),
        )


async def _pair(it: Head, name: str) -> None:
    await it.release(await it.reserve(name))


async def _snapshot(it: Head) -> None:
    dump(await it.parts.snapshot.draw())


async def _busy_tick(it: Head) -> None:
    it.parts.keeper.mind.changed = True
    await it.parts.keeper.tick()


async def _spent(work: Callable[[int], Awaitable[None]]) -> float:
    """CPU ms of one: the median of the batches, for what was seeded is still being put in order meanwhile."""
    times: list[float] = []
    for part in range(WARM + ROUNDS):
        begun = time.process_time()
        await asyncio.gather(*(work(part * BATCH + place) for place in range(BATCH)))
        times.append(time.process_time() - begun)
    return statistics.median(times[WARM:]) / BATCH * 1e3


async def _once(work: Callable[[], Awaitable[None]], count: int) -> float:
    """CPU ms of one, one after the other: the median."""
    await work()
    times: list[float] = []
    for _ in range(count):
        begun = time.process_time()
        await work()
        times.append(time.process_time() - begun)
    return statistics.median(times) * 1e3


async def costs(root: Path, sizes: Sequence[int] = SIZES) -> list[Cost]:
    """By the number of jobs."""
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=root) as place:
            found.append(await cost(Path(place), size))
    return found
