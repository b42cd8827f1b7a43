"""What goes wrong in scripts that swap engines on a shared box (JB-07, JB-08, BG-12, BG-31): not here.

Real daemons and real processes: an engine that was not asked for in the leased one's place, processes that
must not be ended, a kill between the undo of two boxes, names that lead elsewhere while a box is held.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from hostler.adapters.host import process_table
from tests.fakes.fake_engine import eventually, fake_launch
from tests.fakes.signals import kill
from tests.story.house import House, Json
from tests.story.lease_house import (
    Gates,
    also,
    begun,
    code,
    furnish,
    holders,
    lease_is,
    resources,
    taken,
)

BRIEF: Json = {"ttl": {"default": "2s", "max": "1h", "warn": []}}


# ---------------------------------------------------------------- who answers


@asynccontextmanager
async def impostor(it: House, port: int) -> AsyncIterator[str]:
    """The URL of a healthy engine of another model on that port, started by nobody of ours."""
    launch = fake_launch(it.root, name="old-model", port=port)
    process = await asyncio.create_subprocess_exec(*launch.argv, cwd=it.root)
    try:
        async with httpx2.AsyncClient() as client:

            async def up() -> bool:
                try:
                    return (await client.get(f"{launch.url}/health")).status_code == 200
                except httpx2.TransportError:
                    return False

            await eventually(up, "the impostor is healthy")
        yield launch.url
    finally:
        kill(process)
        await process.wait()


async def test_another_model_in_the_place_gets_no_traffic(fake: House) -> None:
    """JB-08, LEASE-13, R28: a healthy engine of another model on the port is not taken for the leased."""
    furnish(fake)
    await begun(fake)
    lease = await taken(fake)
    port = fake.engines["work"]["port"]
    assert isinstance(port, int)
    async with impostor(fake, port) as url:
        done = await fake.run("release", lease)
        assert done.code == 73, (done.out, done.err)
        stuck = await lease_is(fake, lease, "stuck")
        assert "work" in json.dumps(stuck["stuck"])
        assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "spare"
        async with httpx2.AsyncClient(base_url=url) as client:
            asked = (await client.get("/fake/requests")).json()
        assert [row["path"] for row in asked if row["method"] == "POST"] == []
    await fake.told("release", lease)
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "work"


# ---------------------------------------------------------------- who is ended


@asynccontextmanager
async def sleeper() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that leads a group of its own; all of these have the same words in the table."""
    process = await asyncio.create_subprocess_exec("sleep", "600", process_group=0)
    try:
        yield process
    finally:
        if process.returncode is None:
            kill(process)
        await process.wait()


def ticks(process: asyncio.subprocess.Process) -> int:
    """When it was started."""
    found = process_table.read(process.pid)
    assert found is not None
    return found.start_ticks


async def test_only_what_was_registered_is_ended(fake: House) -> None:
    """JB-07, JOB-5, F03: a lease's end ends a process by pid and start time; its likes are left alone."""
    resources(fake, box=BRIEF, other=BRIEF)
    await fake.start()
    async with (
        holders(fake, "anna", "bert") as (anna, bert),
        sleeper() as child,
        sleeper() as reused,
        sleeper() as foreign,
    ):
        for one, resource, process in ((anna, "box", child), (bert, "other", reused)):
            await one.active(resource, ttl_s=3600.0)
            wrong = await one.do("processes", pid=process.pid, start_ticks=ticks(process) + 1)
            assert code(wrong) == (400, "invalid_request")
            right = await one.do("processes", pid=process.pid, start_ticks=ticks(process))
            assert right.status_code == 200, right.text
        record = fake.state / "leases" / f"{bert.id}.json"
        kept = json.loads(record.read_text())
        kept["groups"][0]["start_ticks"] -= 1
        record.write_text(json.dumps(kept))
        for one in (anna, bert):
            await one.do("release")
            await lease_is(fake, one.id, "released")
        await eventually(lambda: child.returncode is not None, "what was registered is ended")
        assert child.returncode == -signal.SIGTERM
        assert (reused.returncode, foreign.returncode) == (None, None)


# ---------------------------------------------------------------- two boxes, one lease


async def test_a_kill_between_two_boxes_frees_neither(fake: House) -> None:
    """BG-12, LEASE-3, LEASE-14, F08: killed after the undo of one of two, neither is free until both are."""
    steps = Gates(root=fake.root / "gates")
    steps.write()
    resources(fake, a={"actions": [steps.action("one")]}, b={"actions": [steps.action("two")]})
    also(fake, pair={"contains": ["a", "b"]})
    await fake.start()
    async with holders(fake, "anna", "bert") as (anna, bert):
        await anna.active("pair")
        steps.shut("before-check-one")
        await anna.do("release")
        await steps.reached("before-check-one")
        await fake.end(signal.SIGKILL)
        await steps.end("before-check-one")
        await fake.start()
        stuck = await lease_is(fake, anna.id, "stuck")
        assert steps.effects == ["do one", "do two", "undo two"]
        for resource in ("a", "b", "pair"):
            assert code(await bert.reserve(resource, now=True)) == (409, "held"), (resource, stuck)
        await anna.do("release")
        await lease_is(fake, anna.id, "released")
        assert steps.effects == ["do one", "do two", "undo two", "undo one"]
        await bert.active("pair")


# ---------------------------------------------------------------- names


async def test_an_allow_list_does_not_follow_an_alias(fake: House) -> None:
    """BG-31, HOLD-5: a hold allows engines by id; what a route's alias leads to is not allowed by it."""
    fake.fakes("work")
    fake.fakes("spare")
    fake.routes["chat"] = {
        "profiles": {"local": "work", "away": "spare"},
        "active": "local",
        "aliases": ["helper"],
    }
    await fake.start()
    warned = await fake.run("box", "hold", "--owner", "ada", "--reason", "bench", "--allow", "helper,spare")
    assert "--allow helper: no engine" in warned.err
    for profile, engine in (("local", "work"), ("away", "spare"), ("local", "work")):
        await fake.told("routes", "set", "chat", profile)
        got = await fake.chat("helper")
        if engine == "spare":
            assert got.headers["x-hostler-served-by"] == "spare"
            continue
        assert (got.status_code, got.json()["error"]["code"]) == (503, "box_reserved")
        assert (await fake.run("start", "work")).code == 75
        assert (await fake.row("work"))["state"] == "stopped"


async def test_an_allow_list_is_what_it_was_at_the_grant(fake: House) -> None:
    """BG-31, LEASE-5, F26: what a resource allows is written as ids at the grant, whatever came since."""
    fake.fakes("work")
    fake.fakes("spare")
    fake.routes["chat"] = {"profiles": {"local": "work"}, "active": "local", "aliases": ["helper"]}
    resources(fake, box={"actions": [{"hold": "local", "allow": ["helper"]}]})
    fake.write()
    refused = await fake.run("config", "check")
    assert refused.code == 78
    assert "helper" in refused.out + refused.err
    resources(fake, box={"actions": [{"hold": "local", "allow": ["spare"]}]})
    await fake.start()
    lease = await taken(fake)
    assert json.loads(fake.hold.read_text())["allow"] == ["spare"]
    await fake.end()
    resources(fake, box={"actions": [{"hold": "local", "allow": ["work"]}]})
    await fake.start()
    assert json.loads(fake.hold.read_text())["allow"] == ["spare"]
    assert (await fake.run("start", "work")).code == 75
    await fake.told("start", "spare")
    await fake.told("release", lease)
    await fake.told("start", "work")
