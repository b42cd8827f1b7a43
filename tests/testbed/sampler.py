"""What runs on both hosts and who holds them, 20 times a second, seen from outside their daemons (WIN-11)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from hostler.adapters.host import process_table
from tests.testbed.bed import Bed
from tests.testbed.box import Box

HZ: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One host at one instant: the engines whose process lives, and whether there is a hold record."""

    host: str
    running: frozenset[str]
    held: bool


@dataclass(slots=True)
class Sampler:
    """Every sample, in order."""

    samples: list[Sample] = field(default_factory=list)

    def of(self, host: str) -> list[Sample]:
        """Those of one host."""
        return [it for it in self.samples if it.host == host]

    def look(self, it: Bed) -> None:
        """One sample of each host."""
        self.samples += [
            Sample(host=name, running=running(box), held=box.hold.exists()) for name, box in it.boxes.items()
        ]


def running(box: Box) -> frozenset[str]:
    """The engines of a host whose process lives, by the records of their supervisors."""
    found = set()
    for record in (box.state / "engines").glob("*/run.json"):
        with contextlib.suppress(ValueError, KeyError, TypeError, OSError):  # it is being replaced
            row: Mapping[str, int] = json.loads(record.read_text())
            if process_table.alive(row["pid"], row["start_ticks"]):
                found.add(record.parent.name)
    return frozenset(found)


@asynccontextmanager
async def regularly(look: Callable[[], None]) -> AsyncIterator[None]:
    """Look now, `HZ` times a second for as long as the block runs, and once more. What fails fails the block.

    The rate is what is asked of it; nothing waits for it.
    """
    over = asyncio.Event()

    async def until_over() -> None:
        ended = asyncio.ensure_future(over.wait())
        while not ended.done():
            look()
            await asyncio.wait({ended}, timeout=1 / HZ)

    look()
    async with asyncio.TaskGroup() as group:
        group.create_task(until_over())
        try:
            yield
        finally:
            over.set()
    look()


@asynccontextmanager
async def sampled(it: Bed) -> AsyncIterator[Sampler]:
    """Samples for as long as the block runs."""
    sampler = Sampler()
    async with regularly(lambda: sampler.look(it)):
        yield sampler
