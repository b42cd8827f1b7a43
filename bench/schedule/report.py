"""The bench of the schedule as it is told: tables, a plot, and what misses its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.schedule.costs import LEASES, Cost
from bench.schedule.pairs import ARRIVING, Found, Rate
from bench.schedule.plot import plot
from bench.schedule.steady import EVENTS, READERS, Steady
from bench.schedule.steady import JOBS as MANY_JOBS
from bench.schedule.steady import LEASES as MANY_LEASES

PAIRS_S: Final = 300.0
PAIR_P99_MS: Final = 20.0
CPU_PCT: Final = 40.0
BEAT_P99_MS: Final = 50.0
SNAPSHOT_MS: Final = 150.0
PAGE_MS: Final = 20.0
FLAT: Final = 2.0
"""A cost counts as flat when it is at most so many times that beside the fewest jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """One run of PERF-8: the peer at the beginning, in the middle and at the end, and ours."""

    bares: Sequence[Rate]
    services: Found
    http: Found

    @property
    def bare(self) -> Rate:
        """The middle one of the peer's rates: what the disk gives changes within a run."""
        return sorted(self.bares, key=lambda it: it.per_s)[len(self.bares) // 2]


def pairs_table(found: Pairs) -> str:
    """PERF-8."""
    lines = [
        "| reserve + release, durable | callers | pairs/s | times the bare loop's | p50, ms | p99, ms |",
        "|---|---|---|---|---|---|",
        *(
            _pair_row(f"bare SQLite, two commits, {when}", 1, rate, found.bare)
            for when, rate in zip(("before", "between", "after"), found.bares, strict=True)
        ),
    ]
    for name, ours in (("the services", found.services), ("over HTTP", found.http)):
        lines += [_pair_row(name, count, rate, found.bare) for count, rate in ours.callers.items()]
        lines.append(_pair_row(name, f"{ARRIVING:.0f} pairs/s come", ours.arriving, found.bare))
    return "\n".join(lines)


def _pair_row(name: str, callers: object, rate: Rate, bare: Rate) -> str:
    return (
        f"| {name} | {callers} | {rate.per_s:.0f} | {rate.per_s / bare.per_s:.2f} "
        f"| {rate.p50_ms:.1f} | {rate.p99_ms:.1f} |"
    )


def steady_table(it: Steady) -> str:
    """PERF-9's first half, and PERF-10."""
    what = f"{MANY_JOBS:,} jobs, {MANY_LEASES:,} leases, {READERS} readers"
    rows = [
        (f"CPU of the daemon, % of one core ({what}; {it.beats_s:.0f} beats/s)", it.cpu_pct, CPU_PCT),
        ("CPU with the readers, without beats, %", it.idle_pct, None),
        ("time that its threads waited for a core, % of the beats' time", it.waited_pct, None),
        ("a commit of bare SQLite, nothing else running, p50, ms", it.bare_p50_ms, None),
        ("the same, p99, ms", it.bare_p99_ms, None),
        ("a beat, p50, ms", it.beat_p50_ms, None),
        ("a beat, p99, ms", it.beat_p99_ms, BEAT_P99_MS),
        (f"a snapshot over HTTP ({it.snapshot_mb:.1f} MB), ms", it.snapshot_ms, SNAPSHOT_MS),
        (f"{EVENTS:,} events over HTTP ({it.page_kb:.0f} kB), ms", it.page_ms, PAGE_MS),
        ("events told to every reader meanwhile", float(it.told), None),
    ]
    lines = ["| what | found | target |", "|---|---|---|"]
    for name, value, target in rows:
        lines.append(f"| {name} | {_short(value)} | {'-' if target is None else f'under {target:.0f}'} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def costs_table(found: Sequence[Cost]) -> str:
    """PERF-9's second half."""
    lines = [
        f"| CPU in ms, beside {LEASES:,} leases | " + " | ".join(f"{it.jobs:,} jobs" for it in found) + " |",
        "|---" * (len(found) + 1) + "|",
    ]
    for name, values in _lines(found).items():
        lines.append(f"| {name} | " + " | ".join(f"{value:.3g}" for value in values) + " |")
    return "\n".join(lines)


def costs_plot(found: Sequence[Cost]) -> str:
    """The same as a picture."""
    title = f"CPU of one operation by the number of jobs ({LEASES:,} leases)"
    return plot(title, "open jobs", "ms", [it.jobs for it in found], _lines(found))


def _lines(found: Sequence[Cost]) -> dict[str, list[float]]:
    return {
        "job update": [it.beat_ms for it in found],
        "reserve + release": [it.pair_ms for it in found],
        "keeper tick, nothing new": [it.tick_ms for it in found],
        "keeper tick, a lease changed": [it.busy_tick_ms for it in found],
        "snapshot, per job and lease": [it.snapshot_ms / (it.jobs + LEASES) for it in found],
    }


def missed(pairs: Pairs | None, steady: Steady | None, costs: Sequence[Cost]) -> list[str]:
    """Each target that is not met, in words."""
    found: list[tuple[str, float, float]] = []
    if pairs is not None:
        for where, ours in (("services", pairs.services), ("HTTP", pairs.http)):
            for count, rate in ours.callers.items():
                who = f"{where}, callers: {count}"
                found.append((f"ms for each pair ({who})", 1e3 / rate.per_s, 1e3 / PAIRS_S))
            who = f"{where}, {ARRIVING:.0f} pairs/s come"
            found.append((f"p99 of a pair, ms ({who})", ours.arriving.p99_ms, PAIR_P99_MS))
    if steady is not None:
        found += [
            ("CPU, %", steady.cpu_pct, CPU_PCT),
            ("p99 of a beat, ms", steady.beat_p99_ms, BEAT_P99_MS),
            ("snapshot, ms", steady.snapshot_ms, SNAPSHOT_MS),
            ("page, ms", steady.page_ms, PAGE_MS),
        ]
    for name, values in _lines(costs).items() if costs else ():
        found.append((f"{name}: times that with {costs[0].jobs} jobs", max(values) / values[0], FLAT))
    return [f"{name}: {value:.3g} of at most {target:.3g}" for name, value, target in found if value > target]
