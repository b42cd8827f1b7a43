"""A holder that is suspended past the end of its lease: it is ended before anybody else is let in."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.adapters.host import process_table
from tests.fakes.fake_engine import eventually
from tests.fakes.signals import send
from tests.story.house import House, Json
from tests.story.lease_house import Command, Holder, code, command, holders, lease_is, leases, resources

LONGEST = "13s"
"""A client trusts a lease for 10 s less than it lasts (LEASE-22): so much is left to work in."""
LOOK = """\
#!/bin/sh
# Appends whether the process in PIDFILE does anything still: a zombie does not.
cd {root} || exit 9
[ -e child.pid ] || exit 0
if grep -q '^State:.[^ZX]' "/proc/$(cat child.pid)/status" 2>/dev/null
then echo alive >> seen; else echo gone >> seen; fi
"""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Anna's command under the lease."""

    lease: str
    job: str
    child: int
    ticks: int
    wrapper: Command
    anna: Holder

    @property
    def alive(self) -> bool:
        """Whether the child is there, stopped or not."""
        found = process_table.read(self.child)
        return found is not None and found.start_ticks == self.ticks and not found.gone


def furnish(it: House) -> None:
    """A box whose activation looks whether Anna's child is still there."""
    script = it.root / "look.sh"
    script.write_text(LOOK.format(root=shlex.quote(str(it.root))))
    script.chmod(0o700)
    box: Json = {
        "ttl": {"default": LONGEST, "max": LONGEST, "warn": []},
        "actions": [{"exec": [str(script)]}],
    }
    resources(it, box=box)


@asynccontextmanager
async def work(it: House) -> AsyncIterator[Work]:
    """`hostler run box` with a child that deserves its time; ended with the block."""
    pid = it.root / "child.pid"
    script = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 600"
    async with (
        command(it, "run", "box", "--title", "long", "--holder", "anna", "--", "sh", "-c", script) as wrapper,
        holders(it, "anna") as (anna,),
    ):
        await eventually(pid.exists, f"the child runs: {wrapper.said()}")
        child = process_table.read(int(pid.read_text()))
        assert child is not None
        saved = json.loads(next((it.state / "client" / "leases").glob("*.json")).read_text())
        anna.id, anna.secret, anna.last = saved["lease"], saved["secret"], saved
        job = (await anna.client.get("/v1/hostler/jobs")).json()["jobs"][0]["id"]
        await eventually(lambda: registered(it, anna.id), "the node knows of the child")
        try:
            yield Work(
                lease=anna.id,
                job=job,
                child=child.pid,
                ticks=child.start_ticks,
                wrapper=wrapper,
                anna=anna,
            )
        finally:
            process_table.send(child.pid, child.start_ticks, signal.SIGKILL)


def registered(it: House, lease: str) -> bool:
    """Whether the node was told of the command's process group."""
    return (it.state / "leases" / f"{lease}.json").exists()


async def next_in_line(bert: Holder) -> None:
    """Bert asks, keeps his place, and takes up the offer."""
    await bert.reserve(ttl_s=10.0)

    async def mine() -> bool:
        await bert.do("renew", wait_s=5.0)
        return bert.last["state"] == "active"

    await eventually(mine, f"bert has the box: {bert.last}\n{bert.it.words()}", patience_s=60)


async def refused(it: House, gone: Work) -> None:
    """Everything that the old holder does is refused, with who has the box now."""
    for verb in ("renew", "release", "claim"):
        got = await gone.anna.do(verb)
        assert code(got) == (409, "stale_generation"), (verb, got.text)
        assert "bert" in got.text


@pytest.mark.slow
async def test_a_holder_that_is_suspended_past_its_hard_end(fake: House) -> None:
    """JOB-5, LEASE-8, LEASE-14, F03: its group is killed and seen gone before the next is let in."""
    furnish(fake)
    await fake.start()
    async with work(fake) as gone, holders(fake, "bert") as (bert,):
        for pid in (gone.child, gone.wrapper.process.pid):
            os.kill(pid, signal.SIGSTOP)
        await next_in_line(bert)
        assert (fake.root / "seen").read_text().split() == ["gone"]
        assert not gone.alive
        before = dict(bert.last)
        await refused(fake, gone)
        gone.wrapper.send(signal.SIGCONT)
        await gone.wrapper.code(60)
        now = await lease_is(fake, bert.id, "active")
        assert (now["generation"], now["state"]) == (before["generation"], "active")
    over = [row for row in await leases(fake, ended=True) if row["id"] == gone.lease]
    assert [row["state"] for row in over] == ["expired"]


@pytest.mark.slow
async def test_a_wrapper_that_wakes_up_after_its_lease(fake: House) -> None:
    """JOB-5, LEASE-22, F03: its child was killed by the node meanwhile, and it exits with 76."""
    furnish(fake)
    await fake.start()
    async with work(fake) as gone:
        for pid in (gone.child, gone.wrapper.process.pid):
            os.kill(pid, signal.SIGSTOP)
        await lease_is(fake, gone.lease, "expired", patience_s=60)
        assert not gone.alive
        gone.wrapper.send(signal.SIGCONT)
        assert await gone.wrapper.code(60) == 76, gone.wrapper.said()


async def test_a_child_that_is_suspended_and_a_wrapper_that_lives(fake: House) -> None:
    """JOB-5, LEASE-22, F03: what is stopped is ended when its lease is trusted no more; exit 76."""
    furnish(fake)
    await fake.start()
    async with work(fake) as gone, holders(fake, "bert") as (bert,):
        os.kill(gone.child, signal.SIGSTOP)
        await next_in_line(bert)
        assert (fake.root / "seen").read_text().split() == ["gone"]
        assert await gone.wrapper.code() == 76, gone.wrapper.said()
        await refused(fake, gone)
        assert bert.last["state"] == "active"


async def test_the_look_tells_a_stopped_process_from_one_that_is_gone(tmp_path: Path) -> None:
    """F03: what proves the order in these tests counts a stopped process as there, a killed one as gone."""
    script = tmp_path / "look.sh"
    script.write_text(LOOK.format(root=shlex.quote(str(tmp_path))))
    child = await asyncio.create_subprocess_exec("sleep", "600")
    (tmp_path / "child.pid").write_text(str(child.pid))
    for number in (signal.SIGSTOP, signal.SIGKILL):
        send(child, number)
        look = await asyncio.create_subprocess_exec("sh", str(script))
        await look.wait()
    await child.wait()
    assert (tmp_path / "seen").read_text().split() == ["alive", "gone"]
