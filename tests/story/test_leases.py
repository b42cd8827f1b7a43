"""Leases on the whole program: real daemons, real processes, the real command line."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.fakes.fake_engine import eventually
from tests.story.house import House, chat, frames
from tests.story.lease_house import begun, furnish, lease_is, leases, taken

HAMMERS = 6
PROBE_S = 0.01


@dataclass(kw_only=True)
class Fire:
    """Requests at a route without pause: what came of each, and who served it."""

    it: House
    served: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    async def one(self, client: httpx2.AsyncClient) -> None:
        got = await client.post("/v1/chat/completions", json=chat("chat"))
        if got.status_code == 200:
            self.served.append(got.headers["x-hostler-served-by"])
        else:
            self.failed.append(f"{got.status_code} {got.text}")

    async def hammer(self) -> None:
        async with self.it.client() as client:
            while True:
                await self.one(client)
                await asyncio.sleep(PROBE_S)


@asynccontextmanager
async def fire(it: House) -> AsyncIterator[Fire]:
    """Hammers at the route until the end of the block."""
    found = Fire(it=it)
    tasks = [asyncio.create_task(found.hammer()) for _ in range(HAMMERS)]
    try:
        yield found
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def damage(store: Path) -> None:
    """The store is no database any more."""
    for more in ("-wal", "-shm"):
        Path(f"{store}{more}").unlink(missing_ok=True)
    store.write_bytes(b"garbage" * 1000)


async def test_a_lease_is_taken_and_released_under_fire(fake: House) -> None:
    """LEASE-4, LEASE-13, R12, R28, R39: no request fails, and none reaches an engine that is leased."""
    furnish(fake)
    await begun(fake)
    before = (await fake.told("routes", "--json"), (await fake.row("work"))["suspended_by"])
    async with fire(fake) as shots:
        await eventually(lambda: len(shots.served) > 100, "the route is under fire")
        lease = await taken(fake)
        assert (await fake.row("work"))["state"] == "stopped"
        under = len(shots.served)
        await eventually(lambda: len(shots.served) > under + 100, "it goes on while leased")
        assert set(shots.served[under:]) == {"spare"}
        assert json.loads(await fake.told("release", lease, "--json"))
        after = len(shots.served)
        await eventually(lambda: len(shots.served) > after + 100, "it goes on afterwards")
        assert set(shots.served[after + HAMMERS :]) == {"work"}
    assert shots.failed == []
    switches = [n for n, name in enumerate(shots.served[1:]) if name != shots.served[n]]
    assert len(switches) <= 2 + 2 * HAMMERS, "the route moved there once and back once"
    assert json.loads(before[0])["routes"][0]["active"] == "local"
    assert json.loads(await fake.told("routes", "--json"))["routes"][0]["active"] == "local"
    assert (await fake.row("work"))["suspended_by"] == before[1]
    assert not fake.hold.exists()


async def test_a_stream_across_the_drain_ends_whole(fake: House) -> None:
    """LEASE-12, R13: what is under way at the drain finishes; the engine is stopped only then."""
    furnish(fake, "endless", "gap=0.02")
    await begun(fake)
    body = chat("chat", stream=True, max_tokens=100)
    async with fake.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        taking = asyncio.create_task(taken(fake))
        assert (await frames(lines))[-1] == "[DONE]"
        await taking
    assert (await fake.row("work"))["state"] == "stopped"


async def test_a_drain_past_its_deadline_fails_and_kills_nothing(fake: House) -> None:
    """LEASE-12, R14, F09: the busy engine goes on, everything is put back, and the exit code says so."""
    furnish(fake, "endless", "gap=0.02", drain="1s")
    await begun(fake)
    body = chat("chat", stream=True, max_tokens=100_000)
    async with fake.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        done = await fake.run("reserve", "box", "--for", "10m")
        assert done.code == 74, (done.out, done.err)
        assert await anext(lines) is not None
        assert (await fake.row("work"))["state"] == "ready"
    assert (await fake.chat("chat", max_tokens=2)).headers["x-hostler-served-by"] == "work"
    assert [row["state"] for row in await leases(fake, ended=True)] == ["failed"]


async def test_an_engine_that_does_not_come_back_is_stuck_until_a_release_succeeds(fake: House) -> None:
    """LEASE-14, R31, R33, F10: held and away while it is down; one later release puts it back and frees."""
    ready = fake.root / "ready"
    ready.touch()
    furnish(fake, f"load-until={ready}")
    await begun(fake)
    lease = await taken(fake)
    ready.unlink()
    done = await fake.run("release", lease)
    assert done.code == 73, (done.out, done.err)
    stuck = await lease_is(fake, lease, "stuck")
    assert "work" in json.dumps(stuck["stuck"])
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "spare"
    assert (await fake.run("reserve", "box")).code == 75
    ready.touch()
    await fake.told("release", lease)
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "work"


async def test_a_route_that_somebody_moved_is_left(fake: House) -> None:
    """LEASE-11, R30, F12: what was moved behind the lease's back stays where it was put, and is named."""
    furnish(fake)
    fake.routes["chat"] = {
        "profiles": {"local": "work", "away": "spare", "third": "spare"},
        "active": "local",
    }
    await begun(fake)
    lease = await taken(fake)
    refused = await fake.run("routes", "set", "chat", "third")
    assert refused.code == 75
    assert "leased" in refused.err
    await fake.end(signal.SIGKILL)
    kept = json.loads((fake.state / "routes.json").read_text())
    kept["active"]["chat"] = "third"
    (fake.state / "routes.json").write_text(json.dumps(kept))
    await fake.start()
    told = await fake.told("release", lease)
    assert "third" in told
    assert json.loads(await fake.told("routes", "--json"))["routes"][0]["active"] == "third"
    await fake.is_state("work", "ready")


async def test_everybody_else_is_refused_what_is_leased(fake: House) -> None:
    """LEASE-15, R34: starts, stops, drains, resumes and switches of others are refused, naming the lease."""
    furnish(fake)
    await begun(fake)
    lease = await taken(fake, "--holder", "anna")
    for words in (
        ("start", "work"),
        ("stop", "work"),
        ("resume", "work"),
        ("drain", "work"),
        ("suspend", "work"),
    ):
        done = await fake.run(*words)
        assert done.code == 75, (words, done.out, done.err)
        assert "anna" in done.err or "box" in done.err
    assert (await fake.row("work"))["state"] == "stopped"
    assert lease in (await fake.told("why", "work", "--json"))


async def test_a_restart_while_active_keeps_all(fake: House) -> None:
    """LEASE-14, R36, NODE-5: killed and started again, the daemon keeps lease, hold, route and suspension."""
    furnish(fake)
    await begun(fake)
    lease = await taken(fake)
    await fake.end(signal.SIGKILL)
    await fake.start()
    await lease_is(fake, lease, "active")
    assert (await fake.row("work"))["state"] == "stopped"
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "spare"
    await fake.told("release", lease)
    await fake.is_state("work", "ready")


async def test_a_restart_with_a_broken_store_frees_nothing(fake: House) -> None:
    """R83, R84, R85, F24, REL-1: with the store unreadable chat goes on, and what was leased stays so."""
    furnish(fake)
    await begun(fake)
    await taken(fake)
    await fake.end(signal.SIGKILL)
    store = fake.state / "schedule.db"
    damage(store)
    await fake.start()
    assert (await fake.chat("chat")).headers["x-hostler-served-by"] == "spare"
    done = await fake.run("reserve", "box")
    assert done.code == 69, (done.out, done.err)
    assert (await fake.run("start", "work")).code == 75
    assert (await fake.row("work"))["state"] == "stopped"
    assert store.read_bytes() == b"garbage" * 1000


async def test_a_holder_starts_what_its_lease_has(fake: House) -> None:
    """LEASE-15, GATE-3: with its lease, named or inherited, a holder starts what nobody else may."""
    furnish(fake, actions=[{"hold": "local"}, {"stop": "work"}])
    await begun(fake)
    lease = await taken(fake)
    refused = await fake.run("start", "work")
    assert (refused.code, lease in refused.err) == (75, True), refused.err
    await fake.told("start", "work", "--lease", lease)
    assert (await fake.row("work"))["state"] == "ready"
    done = await fake.run("stop", "work", HOSTLER_LEASE=lease)
    assert done.code == 0, done.err
    other = await fake.run("start", "work", "--lease", "ls_0000000000000000000000000")
    assert other.code == 75, other.err
    await fake.told("release", lease)
    await fake.is_state("work", "ready")
