"""What is measured of one proxy: CPU per request, delay per chunk, memory with open streams."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.peers import LOAD_CORE, Tools

TICKS: Final = os.sysconf("SC_CLK_TCK")
OPEN_STREAMS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One proxy in one round. CPU in ms per 1,000 requests, chunk delay in µs, memory in MB."""

    cpu_ms_per_1000: float
    requests_s: float
    chunk_p50_us: float
    chunk_p99_us: float
    chunk_cpu_ms_per_1000: float
    idle_mb: float
    open_mb: float
    bad: int


def measure(tools: Tools, port: int, pid: int, seconds: float) -> Measured:
    """Measure the proxy at `port`; `pid` and its children are what its CPU and memory are read of."""
    _load(tools, "req", port, "-c", "16", "-d", "1")
    idle = _memory_mb(pid)
    before = cpu_s(pid)
    closed = _load(tools, "req", port, "-c", "64", "-d", str(seconds))
    cpu = cpu_s(pid) - before
    done = closed["ok"] + closed["bad"]
    before = cpu_s(pid)
    paced = _load(tools, "sse", port, "-c", "200", "-d", str(seconds), "-D", "40000")
    chunk_cpu = cpu_s(pid) - before
    opened = _open(tools, port, pid)
    return Measured(
        cpu_ms_per_1000=cpu / done * 1e6,
        requests_s=closed["rps"],
        chunk_p50_us=paced["chunk_us"]["p50"],
        chunk_p99_us=paced["chunk_us"]["p99"],
        chunk_cpu_ms_per_1000=chunk_cpu / max(1, paced["events"]) * 1e6,
        idle_mb=idle,
        open_mb=opened - idle,
        bad=closed["bad"] + closed["err"] + paced["bad"] + paced["err"],
    )


def _open(tools: Tools, port: int, pid: int) -> float:
    """Memory with 1,000 streams open, each waiting for its first token."""
    argv = _argv(tools, "hold", port, "-c", str(OPEN_STREAMS), "-d", "4", "-F", "100000000")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as holding:
        time.sleep(3.0)
        size = _memory_mb(pid)
        holding.communicate()
    return size


def _argv(tools: Tools, mode: str, port: int, *more: str) -> list[str]:
    return ["taskset", "-c", LOAD_CORE, str(tools.load), mode, "-p", str(port), *more]


def _load(tools: Tools, mode: str, port: int, *more: str) -> Any:  # noqa: ANN401 - the load client's JSON
    out = subprocess.run(_argv(tools, mode, port, *more), check=True, capture_output=True).stdout
    return json.loads(out)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        children = Path(f"/proc/{one}/task/{one}/children")
        if children.exists():
            found += [int(child) for child in children.read_text().split()]
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds, user and system, of a process and its children."""
    total = 0
    for one in _tree(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def waited_s(pid: int) -> float:
    """Seconds that the process's threads, taken together, were ready to run and had no core."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[1])
    return total / 1e9


def _memory_mb(pid: int) -> float:
    """Resident memory in MB, shared pages counted by their share."""
    total = 0
    for one in _tree(pid):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024
