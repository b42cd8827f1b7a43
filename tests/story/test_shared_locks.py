"""How people share a box with lock scripts, and what goes wrong there (JB-01, JB-03, JB-11): not here.

Real daemons, real shells, real processes. Who works writes when it begins and when it ends: that two never
worked at once is read from these times.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from tests.fakes.fake_engine import eventually
from tests.fakes.overlap_worker import overlaps, spans
from tests.story.house import House, Json
from tests.story.lease_house import (
    Command,
    also,
    command,
    events,
    holders,
    lease_is,
    leases,
    nobody,
    queued,
    resources,
)
from tests.story.shells import begun, gets, go, person, shell, typed, work

CONFIG = 78
SHORT: Json = {"ttl": {"default": "4s", "max": "1h", "warn": []}}


async def has(it: House, name: str) -> Json:
    """The active lease of that holder, once there is one."""
    found: list[Json] = []

    async def true() -> bool:
        found[:] = [row for row in await leases(it) if (row["holder"], row["state"]) == (name, "active")]
        return bool(found)

    await eventually(true, f"{name} has a lease\n{it.words()}")
    return found[0]


async def have(it: House) -> list[object]:
    """Who has leases and places, in the order of asking."""
    return [row["holder"] for row in await leases(it)]


# ---------------------------------------------------------------- exclusion and order


def run(it: House, resource: str, name: str) -> tuple[str, ...]:
    """`hostler run` of work whose shell replaces itself twice: no open file of ours lives on in it."""
    script = f"exec env -i sh -c {shlex.quote('exec ' + work(it, name))}"
    return ("run", resource, "--wait", "--holder", name, "--", "sh", "-c", script)


async def test_work_under_leases_never_overlaps(fake: House) -> None:
    """JB-01, JB-03, JB-11, JOB-5: who came first works first, alone, a child of its run, which stays."""
    resources(fake, box={})
    await fake.start()
    names = ("anna", "bert", "carl")
    async with AsyncExitStack() as stack:
        runs: dict[str, Command] = {}
        for n, name in enumerate(names):
            runs[name] = await stack.enter_async_context(command(fake, *run(fake, "box", name)))
            await (queued(fake, *names[1 : n + 1]) if n else begun(fake, name))
        for n, name in enumerate(names):
            span = await begun(fake, name)
            assert span.parent == runs[name].process.pid
            assert runs[name].process.returncode is None
            await queued(fake, *names[n + 1 :])
            go(fake, name)
            assert await runs[name].code() == 0, runs[name].said()
    found = spans(fake.root)
    assert [span.name for span in found] == list(names)
    assert overlaps(found) == []
    await nobody(fake)


async def test_work_without_a_common_lease_overlaps(fake: House) -> None:
    """JB-03, LEASE-23: the same work under leases of two resources does overlap, and the times show it."""
    resources(fake, box={}, other={})
    await fake.start()
    async with (
        command(fake, *run(fake, "box", "anna")) as anna,
        command(fake, *run(fake, "other", "bert")) as bert,
    ):
        for name in ("anna", "bert"):
            await begun(fake, name)
        for name in ("anna", "bert"):
            go(fake, name)
        assert [await it.code() for it in (anna, bert)] == [0, 0]
    found = spans(fake.root)
    assert overlaps(found) == [(found[0].name, found[1].name)]


async def test_a_pair_gets_its_turn_before_later_singles(fake: House) -> None:
    """JB-03, LEASE-3, F27: while both boxes wait for one of them, later claims on either wait behind them."""
    resources(fake, a={}, b={})
    also(fake, pair={"contains": ["a", "b"]})
    await fake.start()
    async with holders(fake, "anna", "carl", "dora") as (anna, carl, dora):
        await anna.active("a")
        async with command(fake, *run(fake, "pair", "pair")) as pair:
            await queued(fake, "pair")
            for one, resource in ((carl, "b"), (dora, "a")):
                await one.reserve(resource)
                assert one.last["state"] == "queued", "b is free, and the pair's turn"
            await anna.do("release")
            await begun(fake, "pair")
            await queued(fake, "carl", "dora")
            go(fake, "pair")
            assert await pair.code() == 0, pair.said()
        for one in (carl, dora):
            await gets(one)


# ---------------------------------------------------------------- owners that go away


async def test_an_owner_that_is_killed_loses_the_lease_in_time(fake: House) -> None:
    """JB-01, LEASE-19: a shell killed with -9 keeps the box to its time's end; the next has it only then."""
    resources(fake, box=SHORT)
    await fake.start()
    mine = fake.root / "mine"
    script = f'eval "$(hostler reserve box --holder anna --shell)"; touch {mine}; exec sleep 600'
    async with shell(fake, script) as anna, holders(fake, "bert") as (bert,):
        await eventually(mine.exists, f"the shell has it: {anna.said()}")
        old = await has(fake, "anna")
        anna.send(signal.SIGKILL)
        assert await anna.code() == -signal.SIGKILL
        await bert.reserve()
        assert bert.last["state"] == "queued", "no process is the lease"
        await gets(bert)
    assert (await lease_is(fake, str(old["id"]), "expired"))["holder"] == "anna"
    ends = [row["type"] for row in await events(fake, "lease_active", "lease_ended")]
    assert ends == ["lease_active", "lease_ended", "lease_active"]


async def test_a_lease_outlives_the_shell_that_took_it(fake: House) -> None:
    """JB-03, JB-08, R96: taken in a subshell that is gone, it is held; who asks hears by whom, until when."""
    resources(fake, box={})
    await fake.start()
    code, said = await typed(fake, 'taken=$(hostler reserve box --for 1h --holder anna) && echo "$taken"')
    assert code == 0, said
    ran = fake.root / "ran"
    code, said = await typed(fake, f"hostler reserve box --holder bert && touch {ran}")
    assert (code, ran.exists()) == (75, False)
    assert "anna" in said
    assert "until" in said
    assert await have(fake) == ["anna"]


async def test_nobody_releases_what_is_anothers(fake: House) -> None:
    """JB-01, BG-12, LEASE-9, R37: what another holds is released neither by its resource nor by its id."""
    resources(fake, box={})
    fake.top["keys"] = [{"name": "agents", "key": "${env:AGENTS_KEY}", "scope": ["schedule:write"]}]
    fake.around["AGENTS_KEY"] = key = "hk_key-of-the-agents"
    await fake.start()
    async with holders(fake, "anna") as (anna,):
        await anna.active()
        operator, agent = person(fake, "ada"), {**person(fake, "eve"), "HOSTLER_API_KEY": key}
        for env, code in ((agent, 77), (operator, 65)):
            for name in ("box", anna.id):
                done = await fake.run("release", name, **env)
                assert done.code == code, (done.out, done.err)
                assert "anna" in done.err
        await lease_is(fake, anna.id, "active")


async def test_an_exit_trap_spares_the_next_holder(fake: House) -> None:
    """JB-01, BG-12, LEASE-8: a trap that releases after the box went on leaves the next one's lease alone.

    The next one is of the same account, so that the same private files could prove both leases.
    """
    resources(fake, box=SHORT)
    await fake.start()
    late = fake.root / "late"
    script = (
        'eval "$(hostler reserve box --holder anna --shell)"; trap "hostler release" EXIT;'
        f"until [ -e {late} ]; do sleep 0.02; done"
    )
    async with shell(fake, script) as anna:
        old = await has(fake, "anna")
        await lease_is(fake, str(old["id"]), "expired")
        told = await fake.told("reserve", "box", "--for", "1h", "--holder", "carl", "--json")
        mine = json.loads(told)["lease"]
        late.touch()
        await anna.code()
    now = await lease_is(fake, str(mine["id"]), "active")
    assert (now["holder"], now["generation"]) == ("carl", mine["generation"])


# ---------------------------------------------------------------- no lease, no go


@asynccontextmanager
async def stranger() -> AsyncIterator[str]:
    """The address of a server that is no daemon, and says 200 to everything."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def all_ways(it: House, what: str, env: Mapping[str, str]) -> set[int]:
    """The exit codes of each way to run something under a lease, none of which may run it."""
    ran = it.root / f"ran-{what}"
    scripts = (
        f'set -e; eval "$(hostler reserve box --shell)"; touch {ran}',
        f"hostler run box -- touch {ran}",
    )
    ends = await asyncio.gather(*(typed(it, script, **env) for script in scripts))
    assert not ran.exists(), ends
    return {code for code, _ in ends}


async def test_without_a_schedule_nothing_runs(fake: House) -> None:
    """JB-01, LEASE-25, R93: no daemon, a dead or strange one, a wrong key, a broken store: never a go."""
    resources(fake, box={})
    fake.write()
    found = {"none": await all_ways(fake, "none", {})}
    await fake.start()
    eve = person(fake, "eve")
    found["key"] = await all_ways(fake, "key", {**eve, "HOSTLER_API_KEY": "hk_no-key-of-this-daemon"})
    await fake.end(signal.SIGKILL)
    found["dead"] = await all_ways(fake, "dead", {})
    for more in ("-wal", "-shm"):
        (fake.state / f"schedule.db{more}").unlink(missing_ok=True)
    (fake.state / "schedule.db").write_bytes(b"no database" * 100)
    await fake.start()
    async with stranger() as url:
        found["broken"], found["strange"] = await asyncio.gather(
            all_ways(fake, "broken", {}), all_ways(fake, "strange", {**eve, "HOSTLER_URL": url})
        )
    assert found == {"none": {69}, "key": {77}, "dead": {69}, "broken": {69}, "strange": {69}}


PLACES = ("client", "client/leases", "client/jobs", "client/secrets", "client/spool")


async def test_a_state_that_cannot_be_used_runs_nothing(fake: House) -> None:
    """JB-01, JB-11, LEASE-9: with a link or a file in the client's state nothing runs or stays taken."""
    ways = {f"{kind}-{n}": place for kind in ("link", "file") for n, place in enumerate(PLACES)}
    resources(fake, **{name: {} for name in ways})
    await fake.start()

    async def one(name: str, place: str) -> tuple[int, str]:
        at = fake.root / f"state-of-{name}" / place
        at.parent.mkdir(mode=0o700, parents=True)
        elsewhere = fake.root / f"elsewhere-{name}"
        elsewhere.mkdir()
        if name.startswith("link"):
            at.symlink_to(elsewhere)
        else:
            at.write_text("no directory")
        ended = await typed(fake, f"hostler run {name} -- touch {elsewhere}/ran", **person(fake, name))
        assert list(elsewhere.iterdir()) == [], (name, ended)
        return ended

    ends = await asyncio.gather(*(one(name, place) for name, place in ways.items()))
    assert [code for code, _ in ends] == [CONFIG] * len(ways), ends
    assert all("The state in" in said for _, said in ends), ends
    await nobody(fake)
    async with fake.client(authorization=f"Bearer {fake.key}") as client:
        assert (await client.get("/v1/hostler/jobs")).json()["jobs"] == []
