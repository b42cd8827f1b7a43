"""PERF-8: reserve and release of a resource without actions, durable, beside a bare loop on SQLite.

The bare loop commits one row, and one more, with `synchronous = FULL`: the two commits that a pair takes when
nobody else shares them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.peers import BenchError
from bench.schedule.arriving import Worker, arriving
from bench.schedule.lines import Line, lines
from bench.schedule.place import HASH, SECRET, Head, daemon, head, names
from hostler.adapters.ids import SystemIds

CALLERS: Final = (1, 8, 64)
ARRIVING: Final = 300.0
"""Pairs a second that come evenly: the rate at which a caller's wait is measured."""
Pair = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Pairs per second of all callers together, and the 50th and 99th percentile of one pair in ms."""

    per_s: float
    p50_ms: float
    p99_ms: float


def rate_of(times: list[float], seconds: float) -> Rate:
    """From the seconds of each pair."""
    times.sort()
    return Rate(
        per_s=len(times) / seconds,
        p50_ms=times[len(times) // 2] * 1e3,
        p99_ms=times[min(len(times) - 1, int(len(times) * 0.99))] * 1e3,
    )


def bare(root: Path, seconds: float, *, commits: int = 2) -> Rate:
    """The peer: two commits, or so many, of one row each, on the same file system."""
    with closing(sqlite3.connect(root / f"bare-{commits}.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        times: list[float] = []
        begun = last = time.perf_counter()
        while last - begun < seconds:
            for _ in range(commits):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO rows (body) VALUES (?)", ("x" * 1000,))
                connection.execute("COMMIT")
            now = time.perf_counter()
            times.append(now - last)
            last = now
    return rate_of(times, last - begun)


async def paced(pairs: Sequence[Pair], seconds: float) -> Rate:
    """Each caller does one pair after the other for so long."""
    times: list[float] = []
    begun = time.perf_counter()

    async def caller(pair: Pair) -> None:
        last = time.perf_counter()
        while last - begun < seconds:
            await pair()
            now = time.perf_counter()
            times.append(now - last)
            last = now

    await asyncio.gather(*map(caller, pairs))
    return rate_of(times, time.perf_counter() - begun)


async def _arrived(pairs: Sequence[Pair], seconds: float) -> Rate:
    """`ARRIVING` pairs a second for so long, as many at once as there are pairs."""

    def worker(pair: Pair) -> Worker:
        async def work(_number: int) -> None:
            await pair()

        return work

    begun = time.perf_counter()
    times = await arriving([worker(pair) for pair in pairs], int(ARRIVING * seconds), ARRIVING)
    return rate_of(times, time.perf_counter() - begun)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """By the number of callers that each begin the next pair when theirs is done; and with `ARRIVING`."""

    callers: Mapping[int, Rate]
    arriving: Rate


async def in_process(root: Path, seconds: float) -> Found:
    """Over the services, each caller with a resource of its own."""
    found = {}
    async with head(root, max(CALLERS)) as it:
        for count in CALLERS:
            found[count] = await paced([_pair(it, name) for name in names(count)], seconds)
        arrived = await _arrived([_pair(it, name) for name in names(max(CALLERS))], seconds)
    return Found(callers=found, arriving=arrived)


def _pair(it: Head, name: str) -> Pair:
    async def pair() -> None:
        await it.release(await it.reserve(name))

    return pair


async def over_http(root: Path, seconds: float) -> Found:
    """Over HTTP against a daemon, each caller on a connection of its own."""
    with daemon(root, max(CALLERS)) as (port, _):
        found = {count: await _called(port, count, seconds, paced) for count in CALLERS}
        arrived = await _called(port, max(CALLERS), seconds, _arrived)
    return Found(callers=found, arriving=arrived)


async def _called(
    port: int, count: int, seconds: float, how: Callable[[Sequence[Pair], float], Awaitable[Rate]]
) -> Rate:
    async with lines(port, count) as made:
        pairs = zip(made, names(count), strict=True)
        return await how([_calls(each, name) for each, name in pairs], seconds)


def _calls(line: Line, name: str) -> Pair:
    ids = SystemIds()

    async def pair() -> None:
        body = {"resource": name, "holder": "bench", "secret_hash": HASH}
        made = await line.told("POST", "/v1/hostler/leases", body, once=ids.new("pair"))
        path = f"/v1/hostler/leases/{made['lease']['id']}/release"
        over = await line.told("POST", path, {"secret": SECRET})
        if (made["lease"]["state"], over["lease"]["state"]) != ("active", "released"):
            raise BenchError(f"{name} is {made['lease']['state']}, then {over['lease']['state']}")

    return pair
