"""`make bench ARGS=schedule`: runs the parts in turn, each in a directory of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.peers import LOAD_CORE
from bench.schedule import costs, pairs, report, steady

PARTS: Final = ("pairs", "steady", "costs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The tables in order, the plot where costs were measured, and the targets that were missed."""

    tables: str
    svg: str | None
    missed: Sequence[str]


def run(parts: Sequence[str], seconds: float) -> Told:
    """Measure those parts; rates for `seconds` each."""
    with tempfile.TemporaryDirectory(prefix="hostler-bench-") as work:
        root = Path(work)
        found = _pairs(root, seconds) if "pairs" in parts else None
        load = _steady(root) if "steady" in parts else None
        by_size = asyncio.run(costs.costs(root)) if "costs" in parts else []
    tables = [
        *([report.pairs_table(found)] if found is not None else []),
        *([report.steady_table(load)] if load is not None else []),
        *([report.costs_table(by_size)] if by_size else []),
    ]
    return Told(
        tables="\n\n".join(tables),
        svg=report.costs_plot(by_size) if by_size else None,
        missed=report.missed(found, load, by_size),
    )


def _pairs(root: Path, seconds: float) -> report.Pairs:
    places = [root / name for name in ("services", "daemon")]
    for each in places:
        each.mkdir(mode=0o700)
    _say("reserve + release")
    before = pairs.bare(root, seconds)
    services = asyncio.run(pairs.in_process(places[0], seconds))
    between = pairs.bare(root, seconds)
    with _load_core():
        http = asyncio.run(pairs.over_http(places[1], seconds))
    after = pairs.bare(root, seconds)
    return report.Pairs(bares=(before, between, after), services=services, http=http)


def _steady(root: Path) -> steady.Steady:
    place = root / "steady"
    place.mkdir(mode=0o700)
    _say("a daemon with jobs that beat")
    with _load_core():
        return asyncio.run(steady.steady(place))


@contextmanager
def _load_core() -> Iterator[None]:
    """This process on the core that the daemon does not have."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(LOAD_CORE)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _say(what: str) -> None:
    print(f"measuring: {what}", file=sys.stderr, flush=True)
