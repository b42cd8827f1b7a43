"""Those who wait: killed, asleep, interrupted, cut off from the head; and very many of them at once."""

from __future__ import annotations

import asyncio
import random
import signal
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from tests.fakes.fake_engine import eventually
from tests.story.house import House, Json
from tests.story.lease_house import (
    Command,
    Holder,
    command,
    events,
    holders,
    lease_is,
    leases,
    nobody,
    queued,
    resources,
)

WAITS: Json = {"queue": {"max": 1000, "place": "3s", "claim": "2s"}}
"""Short places and offers: who does not come back loses them at once."""
CLIENTS = 200
CROWD = 500
TURNS = 3
RUNS = 100


async def keeps(holder: Holder) -> None:
    """Keep a place and take up an offer, until it is active."""

    async def active() -> bool:
        await holder.do("renew", wait_s=1.0)
        return holder.last["state"] == "active"

    await eventually(active, f"{holder.name} has it\n{holder.it.words()}")


def waiting(it: House, name: str) -> AbstractAsyncContextManager[Command]:
    """`hostler reserve box --wait`."""
    return command(it, "reserve", "box", "--wait", "--for", "10m", "--holder", name)


async def test_a_waiter_that_is_killed(fake: House) -> None:
    """LEASE-24, R43, F28: its place lapses when it is not renewed, and the next in line is served."""
    resources(fake, box=WAITS)
    await fake.start()
    async with (
        holders(fake, "anna", "carl") as (anna, carl),
        waiting(fake, "bert") as bert,
    ):
        await anna.active()
        (place,) = await queued(fake, "bert")
        await carl.reserve()
        assert carl.last["place"] == 2
        bert.send(signal.SIGKILL)
        await bert.code()
        keeping = asyncio.create_task(keeps(carl))
        assert (await lease_is(fake, str(place["id"]), "lapsed"))["why"]
        await anna.do("release")
        await keeping


async def test_a_waiter_that_is_asleep_at_its_offer(fake: House) -> None:
    """LEASE-24, F28: an offer that nobody takes passes on after its time; who wakes up exits with 75."""
    resources(fake, box={"queue": {"place": "1m", "claim": "2s"}})
    await fake.start()
    async with (
        holders(fake, "anna", "carl") as (anna, carl),
        waiting(fake, "bert") as bert,
    ):
        await anna.active()
        (place,) = await queued(fake, "bert")
        await carl.reserve()
        bert.send(signal.SIGSTOP)
        await anna.do("release")
        await lease_is(fake, str(place["id"]), "offered")
        await keeps(carl)
        await lease_is(fake, str(place["id"]), "lapsed")
        bert.send(signal.SIGCONT)
        assert await bert.code() == 75, bert.said()
        assert carl.last["state"] == "active"


async def test_an_interrupt_while_waiting(fake: House) -> None:
    """LEASE-25, R95, INTERFACE-4, F28: Ctrl-C gives the place back at once and exits with 130."""
    resources(fake, box={})
    await fake.start()
    async with holders(fake, "anna") as (anna,), waiting(fake, "bert") as bert:
        await anna.active()
        (place,) = await queued(fake, "bert")
        bert.send(signal.SIGINT)
        assert await bert.code() == 130, bert.said()
        assert (await lease_is(fake, str(place["id"]), "cancelled"))["place"] is None
        assert [row["holder"] for row in await leases(fake)] == ["anna"]


async def test_a_head_that_restarts_while_somebody_waits(fake: House) -> None:
    """LEASE-25, R94, F28: the place is kept through a kill of the head; exit 0 only once it is active."""
    resources(fake, box={"queue": {"place": "2m"}})
    await fake.start()
    async with (
        holders(fake, "anna", "carl") as (anna, carl),
        waiting(fake, "bert") as bert,
    ):
        await anna.active()
        (place,) = await queued(fake, "bert")
        await carl.reserve()
        await fake.end(signal.SIGKILL)
        await eventually(lambda: "Trying again" in bert.said(), f"bert rides it out: {bert.said()}")
        await fake.start()
        kept = await lease_is(fake, str(place["id"]), "queued")
        assert (kept["place"], kept["number"]) == (1, place["number"])
        assert bert.process.returncode is None, bert.said()
        await anna.do("release")
        assert await bert.code() == 0, bert.said()
        assert (await lease_is(fake, str(place["id"]), "active"))["holder"] == "bert"
        await carl.do("renew")
        assert (carl.last["state"], carl.last["place"]) == ("queued", 1)


async def test_two_hundred_ask_at_once(fake: House) -> None:
    """LEASE-7, LEASE-23, R25, F01: one holder, the others in order of number, distinct generations."""
    resources(fake, box={"queue": {"max": CLIENTS, "place": "5m"}})
    await fake.start()
    async with holders(fake, *(f"c{n}" for n in range(CLIENTS))) as crowd:
        answers = await asyncio.gather(*(one.reserve() for one in crowd))
        assert {got.status_code for got in answers} == {200}
        first = [one for one in crowd if one.last["state"] == "active"]
        assert len(first) == 1
        line = sorted((one for one in crowd if one is not first[0]), key=number)
        rows = [row for row in await leases(fake) if row["state"] == "queued"]
        assert [row["id"] for row in rows] == [one.id for one in line]
        assert [row["place"] for row in rows] == list(range(1, CLIENTS))
        generations = [first[0].last["generation"]]
        holding = first[0]
        for after in line[:TURNS]:
            await holding.do("release")
            await keeps(after)
            generations.append(after.last["generation"])
            holding = after
        assert generations == sorted(set(generations), key=lambda it: int(str(it)))


@pytest.mark.slow
async def test_a_release_with_five_hundred_waiters(fake: House) -> None:
    """LEASE-24, F29: a release wakes one of them, the first; of the others no call is answered for it."""
    resources(fake, box={"queue": {"max": CROWD, "place": "10m", "claim": "10m"}})
    await fake.start()
    async with holders(fake, "anna", *(f"c{n}" for n in range(CROWD))) as (anna, *crowd):
        await anna.active()
        answers = await asyncio.gather(*(one.reserve() for one in crowd))
        assert {got.status_code for got in answers} == {200}
        first, *others = sorted(crowd, key=number)
        async with asyncio.TaskGroup() as group:
            polls = {one.name: group.create_task(one.do("renew", wait_s=60.0)) for one in crowd}
            await eventually(partial(listening, fake, CROWD), "all of them wait")
            await anna.do("release")
            await polls[first.name]
            assert first.last["state"] == "offered"
            # Whoever else had been woken by the same commits would be answered before this takes it up.
            assert (await first.do("renew", wait_s=20.0)).json()["lease"]["state"] == "active"
            assert [one.name for one in others if polls[one.name].done()] == []
            for poll in polls.values():
                poll.cancel()


async def listening(it: House, count: int) -> bool:
    """Whether so many wait for an answer: each renewal was committed, which is an event."""
    return len(await events(it, "lease_renewed")) >= count


def number(one: Holder) -> int:
    """Which it is of all leases."""
    return int(str(one.last["number"]))


@pytest.mark.slow
async def test_interrupts_at_random_moments(fake: House) -> None:
    """LEASE-25, R95, F28: whenever Ctrl-C comes, no lease and no place is left, but where the exit is 0."""
    resources(fake, box={}, other={})
    await fake.start()
    dice = random.Random(95)  # noqa: S311 - moments, not secrets
    codes: dict[int, int] = {}
    async with holders(fake, "anna") as (anna,):
        await anna.active("other")
        for run in range(RUNS):
            resource = "box" if run % 2 else "other"
            async with command(fake, "reserve", resource, "--wait", "--holder", "bert") as bert:
                await pause(bert, dice.uniform(0.0, 1.2))
                if bert.process.returncode is None:
                    bert.send(signal.SIGINT)
                    await pause(bert, HEARD_S)
                if bert.process.returncode is None and IGNORED in bert.said():
                    bert.send(signal.SIGINT)
                ended = await bert.code()
            assert ended in {0, 130} or before_ours(ended, bert.said()), (run, ended, bert.said())
            codes[ended] = codes.get(ended, 0) + 1
            await alone(fake, run, ended, bert)
        await anna.do("release")
        await nobody(fake)
    assert codes.get(130, 0) > RUNS // 4, codes


HEARD_S = 15.0
IGNORED = "Exception ignored in"
"""Python drops a signal that comes within a callback of its own imports: a person presses the key again."""


def before_ours(ended: int, said: str) -> bool:
    """Whether it was interrupted before our handler was there: by the signal itself, or as Python began."""
    return ended == -signal.SIGINT or (ended == 1 and "KeyboardInterrupt" in said)


async def pause(bert: Command, seconds: float) -> None:
    """Return after so long, or when the command has ended: the moment is what is tested, not waited for."""
    await asyncio.wait({asyncio.ensure_future(bert.process.wait())}, timeout=seconds)


async def alone(it: House, run: int, ended: int, bert: Command) -> None:
    """Nothing of Bert's is left; a lease that he was told of (exit 0) is his, and is given back here."""
    if ended == 0:
        (mine,) = [row for row in await leases(it) if row["holder"] == "bert"]
        assert mine["state"] == "active", (run, mine)
        await it.told("release", str(mine["id"]))

    async def gone() -> bool:
        return {row["holder"] for row in await leases(it)} <= {"anna"}

    await eventually(gone, f"run {run} left something behind (exit {ended}): {bert.said()}\n{it.words()}")
