"""A long training run that keeps its box, says how it goes, and can be taken up again.

    python examples/finetune.py box --steps 1000 --out checkpoint.json

The model is a straight line and the training plain gradient descent, so that the example runs anywhere; what
a real run takes over is the rest. Progress and loss go out as they come and never make a step wait. SIGTERM
and Ctrl-C end the job as `cancelled` and give the box back; the next call goes on from the last checkpoint.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import sys
from pathlib import Path

from hostler import AsyncHostler, LeaseLost

POINTS = [(x / 50, 3 * x / 50 - 1) for x in range(100)]
RATE = 0.1
SAVE_EVERY = 100


async def main() -> int:
    """Lease, train, hand over what was made."""
    asked = arguments()
    start, slope, offset = load(asked.out)
    async with (
        AsyncHostler() as hostler,
        hostler.lease(asked.resource, ttl="2h", wait="12h", reason="fine-tune") as lease,
        hostler.job("fine-tune of a line", lease=lease, every="1m") as job,
    ):
        job.note(f"starts at step {start} of {asked.steps}")
        for step in range(start + 1, asked.steps + 1):
            lease.check()
            slope, offset, loss = descend(slope, offset)
            if step % SAVE_EVERY == 0 or step == asked.steps:
                save(asked.out, step, slope, offset)
                job.metrics(loss=loss, slope=slope)
                job.progress(step, asked.steps, label="steps")
            await asyncio.sleep(0)  # Lets the renewals and the updates out; a real step awaits its own work.
        sha256 = hashlib.sha256(asked.out.read_bytes()).hexdigest()
        job.receipt("checkpoint", asked.out.name, path=str(asked.out.resolve()), sha256=sha256)
        job.note(f"y = {slope:.3f} x + {offset:.3f}, loss {loss_of(slope, offset):.2e}")
    print(f"y = {slope:.3f} x + {offset:.3f}")
    return 0


def descend(slope: float, offset: float) -> tuple[float, float, float]:
    """One step down the mean squared error; the new line, and its loss."""
    errors = [(slope * x + offset - y, x) for x, y in POINTS]
    slope -= RATE * 2 * sum(error * x for error, x in errors) / len(POINTS)
    offset -= RATE * 2 * sum(error for error, _ in errors) / len(POINTS)
    return slope, offset, loss_of(slope, offset)


def loss_of(slope: float, offset: float) -> float:
    """The mean squared error of a line."""
    return sum((slope * x + offset - y) ** 2 for x, y in POINTS) / len(POINTS)


def load(path: Path) -> tuple[int, float, float]:
    """Where the last run came to."""
    if not path.exists():
        return 0, 0.0, 0.0
    found = json.loads(path.read_text())
    return found["step"], found["slope"], found["offset"]


def save(path: Path, step: int, slope: float, offset: float) -> None:
    """A checkpoint, whole or not at all."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps({"step": step, "slope": slope, "offset": offset}))
    beside.replace(path)


def arguments() -> argparse.Namespace:
    """On what, how long, and where to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("resource")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("checkpoint.json"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except LeaseLost as lost:
        sys.exit(f"{lost} The last checkpoint stands.")
