"""Work that arrives evenly, whether or not what came before is done: what a caller waits at a given rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from bench.peers import BenchError

Worker = Callable[[int], Awaitable[None]]
"""Does the piece of work of that number."""


async def arriving(workers: Sequence[Worker], count: int, per_s: float) -> list[float]:
    """The seconds of each piece from when it was due to its end, sorted; a worker does one at a time.

    What finds no worker free waits for one, and that counts. Raises what a worker raises.
    """
    free: asyncio.Queue[Worker] = asyncio.Queue()
    for each in workers:
        free.put_nowait(each)
    times: list[float] = []
    begun = time.perf_counter()

    async def piece(number: int, due: float) -> None:
        worker = await free.get()
        await worker(number)
        times.append(time.perf_counter() - due)
        free.put_nowait(worker)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due = begun + number / per_s
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(piece(number, due))
    if len(times) != count:
        raise BenchError(f"of {count} pieces of work {len(times)} were done")
    return sorted(times)
