"""`make bench`: Hostler beside nginx, and with `ARGS=schedule` its schedule beside bare SQLite.

Ratios of one run, into docs/explanation/performance.md.

Rates of a shared machine move by a factor of two between runs: only ratios within a run count, and the
order is turned in each round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from bench.measure import Measured, measure
from bench.peers import BenchError, compile_tools, fake_engine, hostler, nginx
from bench.schedule import run as schedule

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "performance.md"
PLOT: Final = PAGE.with_name("schedule-costs.svg")
TARGETS: Final = {"cpu": 6.0, "p99": 4.0, "open": 60.0}
"""At most so many times nginx's CPU and chunk p99, and so many MB more with 1,000 open streams."""


def main() -> int:
    """Run the bench; 0 when every target is met, else 1."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("part", nargs="?", choices=("gateway", "schedule"), default="gateway")
    parser.add_argument("--rounds", type=int, default=3, help="of the gateway")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--only", choices=schedule.PARTS, action="append", help="of the schedule")
    parser.add_argument("--write", action="store_true", help="write the tables into the docs")
    options = parser.parse_args()
    try:
        return _schedule(options) if options.part == "schedule" else _gateway(options)
    except BenchError as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 69


def _gateway(options: argparse.Namespace) -> int:
    found = run(options.rounds, options.seconds)
    table = render(found)
    print(table)
    if options.write:
        said = (
            f"Medians of {options.rounds} rounds of {options.seconds:g} s, made by `make bench ARGS=--write`:"
        )
        write("bench", f"{said}\n\n{table}")
    return 0 if met(found) else 1


def _schedule(options: argparse.Namespace) -> int:
    told = schedule.run(options.only or schedule.PARTS, options.seconds)
    print(told.tables)
    for line in told.missed:
        print(f"missed: {line}", file=sys.stderr)
    if options.write and not options.only:
        write("schedule", f"Made by `make bench ARGS='schedule --write'`:\n\n{told.tables}")
        PLOT.write_text(told.svg or "", encoding="utf-8")
    return 1 if told.missed else 0


def run(rounds: int, seconds: float) -> dict[str, list[Measured]]:
    """Measure both in turn, the order changed each round."""
    peers = {"nginx": nginx, "hostler": hostler}
    found: dict[str, list[Measured]] = {name: [] for name in peers}
    with tempfile.TemporaryDirectory(prefix="hostler-bench-") as work:
        tools = compile_tools(Path(work))
        with fake_engine(tools) as engine:
            for number in range(rounds):
                names = list(peers) if number % 2 == 0 else list(reversed(peers))
                for name in names:
                    with peers[name](tools, engine) as (port, pid):
                        print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
                        found[name].append(measure(tools, port, pid, seconds))
    return found


def _median(rows: Sequence[Measured], of: Callable[[Measured], float]) -> float:
    return statistics.median(of(row) for row in rows)


ROWS: Final[tuple[tuple[str, Callable[[Measured], float], str], ...]] = (
    ("CPU, ms per 1,000 requests (64 connections)", lambda it: it.cpu_ms_per_1000, "{:.0f}"),
    ("requests/s (64 connections)", lambda it: it.requests_s, "{:.0f}"),
    ("chunk delay p50, µs (200 streams, 25 chunks/s each)", lambda it: it.chunk_p50_us, "{:.0f}"),
    ("chunk delay p99, µs", lambda it: it.chunk_p99_us, "{:.0f}"),
    ("CPU, ms per 1,000 chunks", lambda it: it.chunk_cpu_ms_per_1000, "{:.1f}"),
    ("memory idle, MB", lambda it: it.idle_mb, "{:.1f}"),
    ("memory more with 1,000 open streams, MB", lambda it: it.open_mb, "{:.1f}"),
    ("bad answers", lambda it: it.bad, "{:.0f}"),
)


def render(found: dict[str, list[Measured]]) -> str:
    """The table: medians, and how many times nginx's each is."""
    lines = ["| what | nginx | Hostler | times nginx's |", "|---|---|---|---|"]
    for name, of, form in ROWS:
        theirs, ours = _median(found["nginx"], of), _median(found["hostler"], of)
        ratio = f"{ours / theirs:.1f}" if theirs else "-"
        lines.append(f"| {name} | {form.format(theirs)} | {form.format(ours)} | {ratio} |")
    return "\n".join(lines)


def met(found: dict[str, list[Measured]]) -> bool:
    """Whether every target is met."""
    ours, theirs = found["hostler"], found["nginx"]
    cpu = _median(ours, lambda it: it.cpu_ms_per_1000) / _median(theirs, lambda it: it.cpu_ms_per_1000)
    p99 = _median(ours, lambda it: it.chunk_p99_us) / _median(theirs, lambda it: it.chunk_p99_us)
    more = _median(ours, lambda it: it.open_mb)
    print(
        f"targets: CPU {cpu:.1f} of at most {TARGETS['cpu']},"
        f" chunk p99 {p99:.1f} of at most {TARGETS['p99']}, {more:.0f} MB of at most {TARGETS['open']}",
        file=sys.stderr,
    )
    return cpu <= TARGETS["cpu"] and p99 <= TARGETS["p99"] and more <= TARGETS["open"]


def write(mark: str, what: str) -> None:
    """Put it between the marks of that name in the docs page."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, tail = rest.partition(end)
    PAGE.write_text(f"{head}{begin}\n{what}\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
