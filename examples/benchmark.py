"""Time a command, with a box or a pair of them to itself.

    python examples/benchmark.py pair --runs 5 -- ./bench.sh
    python examples/benchmark.py pair --for 30m --wait 2h -- llama-bench -m model.gguf

Whoever looks at the job sees each run as it is done (`hostler job list`); who comes meanwhile waits in the
queue. Exit status 0 when every run succeeded; else that of the run that failed, and the job is `failed`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from hostler import Hostler, LeaseLost


def main() -> int:
    """Lease, measure, report."""
    asked = arguments()
    with (
        Hostler() as hostler,
        hostler.lease(
            asked.resource, ttl=asked.ttl, wait=asked.wait, reason=f"times {asked.command[0]}"
        ) as lease,
        hostler.job(f"times {asked.command[0]}", lease=lease) as job,
    ):
        took = []
        for run in range(1, asked.runs + 1):
            lease.check()  # Before each run, not after it: a run without the lease measures nothing.
            began = time.monotonic()
            done = subprocess.run(asked.command, check=False)
            if done.returncode != 0:
                job.note(f"run {run} ended with exit status {done.returncode}")
                sys.exit(done.returncode)  # Another status than 0 makes the job `failed`.
            took.append(time.monotonic() - began)
            job.metric("run_s", took[-1])
            job.progress(run, asked.runs, label="runs")
            print(f"run {run}: {took[-1]:.2f} s", flush=True)
        lease.check()
        job.note(f"median {statistics.median(took):.2f} s of {asked.runs} runs, longest {max(took):.2f} s")
        print(f"median {statistics.median(took):.2f} s")
    return 0


def arguments() -> argparse.Namespace:
    """What to run, on what, how often."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("resource")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--for", dest="ttl", default="1h", help="how long the lease is for; it is renewed")
    parser.add_argument("--wait", default="1h", help="how long to wait in the queue")
    parser.add_argument("command", nargs="+", help="after --")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LeaseLost as lost:
        sys.exit(f"{lost} What was measured may not count.")
