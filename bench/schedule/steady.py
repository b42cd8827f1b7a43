"""PERF-9 and PERF-10 against a daemon: beats, leases and readers of the feed; the snapshot and a page.

The load comes from this process over HTTP, on the other core: what is told of the CPU is the daemon's alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.measure import cpu_s, waited_s
from bench.peers import BenchError
from bench.schedule.arriving import Worker, arriving
from bench.schedule.lines import Line, lines, streams
from bench.schedule.pairs import bare
from bench.schedule.place import EVERY_S, SECRET, daemon, head

JOBS: Final = 10_000
LEASES: Final = 1_000
READERS: Final = 500
LINES: Final = 32
EVENTS: Final = 1_000
CALM_S: Final = 0.05
"""A daemon that used less CPU than that in a second does nothing but wait."""
MOST_LOOKS: Final = 60
LOOKS: Final = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """CPU in % of one core, times in ms. `idle_pct`: with the readers, without beats.
    `waited_pct`: of the time of the beats its threads were ready to run, and something else had their core.

    `told` events came to every reader meanwhile. `bare_…` is a commit of bare SQLite on the same disk.
    """

    cpu_pct: float
    idle_pct: float
    waited_pct: float
    beats_s: float
    beat_p50_ms: float
    beat_p99_ms: float
    told: int
    bare_p50_ms: float
    bare_p99_ms: float
    snapshot_ms: float
    snapshot_mb: float
    page_ms: float
    page_kb: float


async def steady(root: Path, *, jobs: int = JOBS, leases: int = LEASES, readers: int = READERS) -> Steady:
    """Every job beats once in `EVERY_S` seconds."""
    state = root / "state"
    state.mkdir(mode=0o700)
    async with head(state, leases) as it:
        ids = await it.seed(leases, jobs)
    peer = bare(root, 2.0, commits=1)
    with daemon(root, leases) as (port, pid):
        await _caught_up(pid)
        async with lines(port, 1) as (one,):
            begun = (await one.told("GET", "/gateway/schedule"))["cursor"]
            snapshot_ms, size = await _looked(one, "/gateway/schedule")
            epoch, _, seq = begun.rpartition(":")
            since = f"{epoch}:{int(seq) - EVENTS}"
            page_ms, page = await _pages(one, since)
        async with streams(port, readers) as told:
            before, at = cpu_s(pid), time.perf_counter()
            await asyncio.sleep(5.0)
            idle = (cpu_s(pid) - before) / (time.perf_counter() - at)
            before, queued, at = cpu_s(pid), waited_s(pid), time.perf_counter()
            times = await _beats(port, ids)
            took = time.perf_counter() - at
            used, waited = (cpu_s(pid) - before) / took, (waited_s(pid) - queued) / took
            events = min(each.events for each in told)
    return Steady(
        cpu_pct=used * 100,
        idle_pct=idle * 100,
        waited_pct=waited * 100,
        beats_s=len(times) / took,
        beat_p50_ms=times[len(times) // 2] * 1e3,
        beat_p99_ms=times[int(len(times) * 0.99)] * 1e3,
        told=events,
        bare_p50_ms=peer.p50_ms,
        bare_p99_ms=peer.p99_ms,
        snapshot_ms=snapshot_ms,
        snapshot_mb=size / 1e6,
        page_ms=page_ms,
        page_kb=page / 1e3,
    )


async def _caught_up(pid: int) -> None:
    """Return once the daemon has appended what was seeded to its history: that is not what is measured."""
    for _ in range(MOST_LOOKS):
        before = cpu_s(pid)
        await asyncio.sleep(1.0)
        if cpu_s(pid) - before < CALM_S:
            return
    raise BenchError(f"the daemon was not calm within {MOST_LOOKS} s")


async def _beats(port: int, ids: Sequence[str]) -> list[float]:
    """Every job's beat at its time; the seconds from that time to its answer, sorted."""

    def beats(line: Line) -> Worker:
        async def beat(number: int) -> None:
            await line.call("POST", f"/v1/hostler/jobs/{ids[number]}/updates", {"secret": SECRET})

        return beat

    async with lines(port, LINES) as made:
        return await arriving([beats(each) for each in made], len(ids), len(ids) / EVERY_S)


async def _looked(one: Line, path: str) -> tuple[float, int]:
    """The median in ms of a call's whole answer, and its bytes."""
    times, size = [], 0
    for _ in range(LOOKS):
        begun = time.perf_counter()
        size = len(await one.call("GET", path))
        times.append(time.perf_counter() - begun)
    return sorted(times)[LOOKS // 2] * 1e3, size


async def _pages(one: Line, since: str) -> tuple[float, int]:
    """The same for the events after `since`, over as many pages as that takes."""
    times, size = [], 0
    for _ in range(LOOKS):
        cursor, seen, size, spent = since, 0, 0, 0.0
        while seen < EVENTS:
            begun = time.perf_counter()
            body = await one.call("GET", f"/gateway/schedule?since={cursor}")
            spent += time.perf_counter() - begun
            size += len(body)
            cursor, count = _read(body)
            seen += count
        times.append(spent)
    return sorted(times)[LOOKS // 2] * 1e3, size


def _read(body: bytes) -> tuple[str, int]:
    found = json.loads(body)
    return found["cursor"], len(found["events"])
