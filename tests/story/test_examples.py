"""The examples, as they are, on a real daemon: a lock without actions, so that they run on any machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.docs.tree import ROOT
from tests.fakes.fake_engine import eventually
from tests.fakes.signals import kill, send
from tests.story.house import Done, House, Json, house

EXAMPLES = ROOT / "examples"


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[House]:
    """A daemon with two resources that have no actions."""
    async with house(tmp_path) as made:
        made.top["reservations"] = {"resources": {"pair": {"title": "both boxes"}, "box": {}}}
        await made.start()
        yield made


@asynccontextmanager
async def program(it: House, *argv: str, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """An example that runs, in the house's folder, with `hostler` on its PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=it.root,
        env={**it.environment(**env), "PATH": path, "USER": "ada"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            kill(process)
            await process.wait()


async def ended(process: asyncio.subprocess.Process) -> Done:
    """What it said, and its exit status."""
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    return Done(code=process.returncode or 0, out=out.decode(), err=err.decode())


async def run(it: House, *argv: str, **env: str) -> Done:
    """An example from its start to its end."""
    async with program(it, *argv, **env) as process:
        return await ended(process)


async def listed(it: House, what: str) -> list[Json]:
    """All leases or jobs that there ever were."""
    async with it.client(authorization=f"Bearer {it.key}") as client:
        answer = await client.get(f"/v1/hostler/{what}", params={"ended": "true"})
    rows = answer.json()[what]
    assert isinstance(rows, list)
    return rows


def python(name: str, *argv: str) -> tuple[str, ...]:
    return sys.executable, str(EXAMPLES / name), *argv


def shell(*argv: str) -> tuple[str, ...]:
    return "sh", str(EXAMPLES / "guarded.sh"), *argv


async def test_a_benchmark(it: House) -> None:
    """CLIENT-1: the benchmark times its command under a lease, tells each run, and gives the lease back."""
    done = await run(it, *python("benchmark.py", "pair", "--runs", "3", "--", "true"))
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1].startswith("median ")
    (lease,), (job,) = await listed(it, "leases"), await listed(it, "jobs")
    assert (lease["state"], lease["holder"], job["state"], job["lease"]) == (
        "released",
        "ada",
        "finished",
        lease["id"],
    )
    progress, metrics = job["progress"], job["metrics"]
    assert isinstance(progress, dict)
    assert isinstance(metrics, dict)
    assert (progress["n"], progress["total"], set(metrics)) == (3, 3, {"run_s"})


async def test_a_benchmark_that_fails(it: House) -> None:
    """CLIENT-1: a benchmark whose command fails exits with its status, its job failed."""
    done = await run(it, *python("benchmark.py", "pair", "--", "sh", "-c", "exit 3"))
    assert done.code == 3
    (lease,), (job,) = await listed(it, "leases"), await listed(it, "jobs")
    assert (lease["state"], job["state"]) == ("released", "failed")


async def test_a_fine_tune(it: House) -> None:
    """CLIENT-1, JOB-1: the training tells progress and loss, leaves a receipt, and goes on where it ended."""
    done = await run(it, *python("finetune.py", "box", "--steps", "300"))
    assert (done.code, done.err) == (0, "")
    assert json.loads((it.root / "checkpoint.json").read_text())["step"] == 300
    (job,) = await listed(it, "jobs")
    receipts = job["receipts"]
    assert isinstance(receipts, list)
    assert [receipt["path"] for receipt in receipts] == [str(it.root / "checkpoint.json")]
    done = await run(it, *python("finetune.py", "box", "--steps", "1000"))
    assert done.out == "y = 3.000 x + -1.000\n"
    assert {lease["state"] for lease in await listed(it, "leases")} == {"released"}


async def test_a_fine_tune_that_is_ended(it: House) -> None:
    """CLIENT-1: SIGTERM ends the training's job as cancelled, gives the box back, and exits with 143."""
    async with program(it, *python("finetune.py", "box", "--steps", "1000000000")) as process:
        await eventually((it.root / "checkpoint.json").exists, "a checkpoint is written")
        send(process, signal.SIGTERM)
        assert (await ended(process)).code == 143
    (lease,), (job,) = await listed(it, "leases"), await listed(it, "jobs")
    assert (lease["state"], job["state"]) == ("released", "cancelled")


async def test_a_guarded_command(it: House) -> None:
    """LEASE-25: the script runs its command under a lease, passes its status on, and gives the lease back."""
    done = await run(it, *shell("pair", "sh", "-c", 'echo "under $HOSTLER_LEASE"; exit 7'))
    (lease,) = await listed(it, "leases")
    assert (done.code, done.out, lease["state"]) == (7, f"under {lease['id']}\n", "released")


async def test_a_guarded_command_without_a_lease(it: House) -> None:
    """LEASE-25: when the resource is not to be had in time the script runs nothing and exits with 124."""
    await it.told("reserve", "pair")
    done = await run(it, *shell("pair", "touch", "ran"), WAIT="1s")
    assert done.code == 124
    assert not (it.root / "ran").exists()


async def test_a_guarded_command_without_hostler(it: House) -> None:
    """JB-01, LEASE-25: where there is no `hostler` to ask, the script runs nothing and exits with 127."""
    done = await run(it, "env", "PATH=/usr/bin:/bin", *shell("pair", "touch", "ran"))
    assert done.code == 127, done.err
    assert not (it.root / "ran").exists()
