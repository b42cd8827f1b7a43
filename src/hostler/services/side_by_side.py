"""What is done on several hosts at the same time (MODE-2).

Decides nothing: awaits all of it, or ends the rest when one part raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence


async def side_by_side(parts: Sequence[Coroutine[object, object, None]]) -> None:
    """Await every part. When one raises, the others are cancelled and awaited, and it is raised."""
    if len(parts) == 1:
        await parts[0]
        return
    tasks = [asyncio.create_task(it) for it in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
