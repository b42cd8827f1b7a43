"""The set test: integers that writers add under a lease, one of them suspended in the middle of it."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fakes import set_writer
from tests.fakes.fake_engine import eventually
from tests.fakes.signals import kill, send
from tests.story.house import House, Json
from tests.story.lease_house import leases, resources

SHORT: Json = {"ttl": {"default": "2s", "max": "2s", "warn": []}}
REFUSED = 3


@asynccontextmanager
async def writer(it: House, number: int, *more: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that adds this number to the set."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        set_writer.__file__,
        it.url,
        it.key,
        "set",
        str(the_set(it)),
        str(number),
        str(it.root),
        *more,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            kill(process)
            await process.wait()


def the_set(it: House) -> Path:
    """The file with the set."""
    return it.root / "set.json"


async def thinks(it: House, number: int) -> None:
    """Return once that writer has its lease, and has read the set."""
    await eventually((it.root / f"{number}.thinking").exists, f"{number} thinks\n{it.words()}")


async def with_a_pause(it: House, *more: str) -> tuple[list[int], set[int]]:
    """Writer 1 is suspended past its hard end, 2 and 3 add theirs meanwhile: acknowledged, and the set."""
    resources(it, set=SHORT)
    await it.start()
    the_set(it).write_text(json.dumps({"fence": 0, "numbers": []}))
    for number in (2, 3):
        (it.root / f"{number}.go").touch()
    async with writer(it, 1, *more) as first:
        await thinks(it, 1)
        send(first, signal.SIGSTOP)
        codes = {}
        for number in (2, 3):
            async with writer(it, number, *more) as other:
                codes[number] = await other.wait()
        assert [row["state"] for row in await leases(it, ended=True)].count("expired") == 1
        (it.root / "1.go").touch()
        send(first, signal.SIGCONT)
        codes[1] = await first.wait()
    kept = json.loads(the_set(it).read_text())["numbers"]
    return sorted(number for number, exit_ in codes.items() if exit_ != REFUSED), set(kept)


async def test_the_lease_alone_loses_updates_of_a_set(fake: House) -> None:
    """LEASE-8, F03: a holder that was suspended past its end overwrites what came after it."""
    acknowledged, kept = await with_a_pause(fake)
    assert 1 in acknowledged
    assert kept == {1}, "what 2 and 3 were told is kept was lost: no lease can prevent it"


async def test_lease_and_fence_number_lose_nothing_of_a_set(fake: House) -> None:
    """LEASE-8, F03: with the fence number the late write is refused, what was acknowledged is kept."""
    acknowledged, kept = await with_a_pause(fake, "fenced")
    assert acknowledged == [2, 3]
    assert kept == set(acknowledged)
